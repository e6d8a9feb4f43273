"""The table; a problem's full name ends in its dimension, stored ones keep their file's name."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from validation.problems import families
from validation.problems.families import Rng
from validation.problems.problem import Problem


def problems(*tags: str) -> list[Problem]:
    """All problems that carry all the tags, in the table's order.

    Only the problems asked for are computed, and each of them once.

    Parameters
    ----------
    *tags : str
        See `validation.problems`; none of them means the whole table.

    Returns
    -------
    list of Problem
    """
    return [_build(entry) for entry in _ENTRIES if entry.tags.issuperset(tags)]


def names(*tags: str) -> list[str]:
    """Names of the problems that carry all the tags, in the table's order; nothing is computed."""
    return [entry.name for entry in _ENTRIES if entry.tags.issuperset(tags)]


def named(name: str) -> Problem:
    """The problem of that name."""
    for entry in _ENTRIES:
        if entry.name == name:
            return _build(entry)
    raise KeyError(f"name must be one of validation.problems.names(), got {name!r}")


@dataclass(frozen=True)
class _Entry:
    name: str
    tags: frozenset[str]
    build: Callable[[Rng], Problem]


def _entry(name: str, tags: str, d: int, family: Callable[..., Problem], **settings: Any) -> _Entry:
    own = frozenset(tags.split())
    if "box" in own and "lower" not in settings:
        settings["box"] = True
    awkward = own & {"tail", "deep-tail", "near-singular", "singular"}
    derived = {
        "small": d <= 3,
        "high-dim": d >= 100,
        "orthant": "box" not in own,
        "easy": d <= 50 and not awkward,
        "hard": bool(awkward - {"tail"}) or ("tail" in own and d >= 20),
    }
    all_tags = own | {tag for tag, holds in derived.items() if holds}
    return _Entry(f"{name}-{d}", all_tags, functools.partial(family, d=d, **settings))


def _stored(name: str, tags: str) -> _Entry:
    d = int(name.rpartition("_d")[2])
    entry = _entry(name, f"reference {tags}", d, families.reference, stored=name)
    return replace(entry, name=name)


_EQUI = "equicorrelation one-factor"
_EQUAL = f"exchangeable {_EQUI}"
_MINUS = "equicorrelation negative"

_ENTRIES = (
    _entry("independent", "independent", 1, families.independent, level=0.7),
    _entry("independent", "independent", 5, families.independent, level=1.0),
    _entry("independent", "independent", 20, families.independent, level=1.5),
    _entry("independent", "independent", 100, families.independent, level=2.5),
    _entry("independent-box", "independent box", 1, families.independent, level=0.7),
    _entry("independent-box", "independent box", 8, families.independent, level=1.0),
    _entry("independent-box", "independent box", 500, families.independent, level=3.0),
    _entry("independent-low", "independent tail", 1, families.independent, level=-6.0),
    _entry("independent-low", "independent tail", 10, families.independent, level=-1.5),
    _entry("independent-deep", "independent deep-tail", 1, families.independent, level=-42.0),
    _entry("independent-deep", "independent deep-tail", 500, families.independent, level=-1.0),
    # closed forms at zero
    _entry("zero+0.3", "random", 2, families.zero_2, rho=0.3),
    _entry("zero-0.8", "random negative", 2, families.zero_2, rho=-0.8),
    _entry("zero+0.99", "random", 2, families.zero_2, rho=0.99),
    _entry("zero", "random", 3, families.zero_3),
    _entry("zero-half", _EQUAL, 4, families.zero_half),
    _entry("zero-half", _EQUAL, 10, families.zero_half),
    _entry("zero-half", _EQUAL, 50, families.zero_half),
    _entry("zero-half", _EQUAL, 200, families.zero_half),
    _entry("zero-half", _EQUAL, 500, families.zero_half),
    _entry("ordering", "negative", 4, families.ordering),
    _entry("ordering", "negative tail", 8, families.ordering),
    _entry("ordering", "negative tail", 20, families.ordering),
    _entry("ordering", "negative tail", 100, families.ordering),
    _entry("ordering", "negative deep-tail", 200, families.ordering),
    _entry("walk", "markov brownian", 8, families.walk),
    _entry("walk", "markov brownian", 50, families.walk),
    _entry("walk", "markov brownian", 200, families.walk),
    _entry("walk", "markov brownian", 500, families.walk),
    # two and three coordinates
    _entry("bivariate+0.6", "random", 2, families.bivariate, rho=0.6, upper=(0.4, 1.3)),
    _entry("bivariate-0.95", "random negative", 2, families.bivariate, rho=-0.95, upper=(0.2, 0.5)),
    _entry(
        "bivariate-0.5", "random negative tail", 2, families.bivariate, rho=-0.5, upper=(-4.0, -3.0)
    ),
    _entry(
        "bivariate+0.2", "random deep-tail", 2, families.bivariate, rho=0.2, upper=(-32.0, -30.0)
    ),
    _entry(
        "bivariate+0.9999",
        "random near-singular",
        2,
        families.bivariate,
        rho=0.9999,
        upper=(0.3, 0.31),
    ),
    _entry(
        "bivariate-box",
        "random box",
        2,
        families.bivariate,
        rho=0.7,
        lower=(-0.5, -1.0),
        upper=(1.5, 0.3),
    ),
    _entry("trivariate", "random", 3, families.trivariate, level=0.5),
    _entry("trivariate-box", "random box", 3, families.trivariate, level=1.0),
    _entry("trivariate-low", "random tail", 3, families.trivariate, level=-4.0),
    # equal correlations
    _entry("equal+0.1", _EQUAL, 10, families.equal, rho=0.1, upper=1.0),
    _entry("equal+0.8", _EQUAL, 100, families.equal, rho=0.8, upper=0.5),
    _entry("equal+0.3", f"{_EQUAL} box", 20, families.equal, rho=0.3, lower=-2.5, upper=2.0),
    _entry("equal+0.9", f"{_EQUAL} box", 5, families.equal, rho=0.9, lower=-0.3, upper=0.4),
    _entry("equal+0.5", f"{_EQUAL} tail", 20, families.equal, rho=0.5, upper=-6.0),
    _entry("equal+0.2", f"{_EQUAL} tail box", 10, families.equal, rho=0.2, lower=2.0, upper=3.0),
    _entry("equal+0.3", f"{_EQUAL} deep-tail", 50, families.equal, rho=0.3, upper=-35.0),
    _entry("equal+0.9999", f"{_EQUAL} near-singular", 20, families.equal, rho=0.9999, upper=0.5),
    _entry("equal-0.2", f"exchangeable {_MINUS}", 4, families.equal, rho=-0.2, upper=0.5),
    _entry("equal-0.2", f"exchangeable {_MINUS}", 5, families.equal, rho=-0.2, upper=1.0),
    _entry("equal-0.1", f"exchangeable {_MINUS}", 10, families.equal, rho=-0.1, upper=1.0),
    _entry("equal-0.015", f"exchangeable {_MINUS}", 50, families.equal, rho=-0.015, upper=2.5),
    _entry("equicorrelation+0.4", _EQUI, 4, families.equicorrelation, rho=0.4, level=0.5),
    _entry("equicorrelation+0.95", _EQUI, 20, families.equicorrelation, rho=0.95, level=0.5),
    _entry("equicorrelation+0.1", _EQUI, 50, families.equicorrelation, rho=0.1, level=1.5),
    _entry("equicorrelation+0.5", _EQUI, 200, families.equicorrelation, rho=0.5, level=1.5),
    _entry("equicorrelation+0.7", _EQUI, 500, families.equicorrelation, rho=0.7, level=2.0),
    _entry("equicorrelation+0.6", f"{_EQUI} box", 10, families.equicorrelation, rho=0.6, level=1.2),
    _entry(
        "equicorrelation+0.3", f"{_EQUI} box", 100, families.equicorrelation, rho=0.3, level=2.5
    ),
    _entry(
        "equicorrelation+0.5", f"{_EQUI} tail", 8, families.equicorrelation, rho=0.5, level=-4.0
    ),
    _entry(
        "equicorrelation+0.2", f"{_EQUI} tail", 100, families.equicorrelation, rho=0.2, level=0.3
    ),
    _entry("equicorrelation-0.4", _MINUS, 3, families.equicorrelation, rho=-0.4, level=1.0),
    _entry(
        "equicorrelation-0.12", f"{_MINUS} box", 8, families.equicorrelation, rho=-0.12, level=1.5
    ),
    _entry("equicorrelation-0.04", _MINUS, 20, families.equicorrelation, rho=-0.04, level=1.5),
    # one and two factors
    _entry("one-factor", "one-factor", 3, families.one_factor, level=0.5),
    _entry("one-factor", "one-factor", 5, families.one_factor, level=0.0),
    _entry("one-factor", "one-factor", 10, families.one_factor, level=1.0),
    _entry("one-factor", "one-factor", 20, families.one_factor, level=1.0),
    _entry("one-factor", "one-factor", 50, families.one_factor, level=2.0),
    _entry("one-factor", "one-factor", 100, families.one_factor, level=2.0),
    _entry("one-factor", "one-factor", 500, families.one_factor, level=3.0),
    _entry("one-factor-box", "one-factor box", 4, families.one_factor, level=0.5),
    _entry("one-factor-box", "one-factor box", 20, families.one_factor, level=1.5),
    _entry("one-factor-box", "one-factor box", 200, families.one_factor, level=3.0),
    _entry("one-factor-low", "one-factor tail", 8, families.one_factor, level=-1.5),
    _entry("one-factor-low", "one-factor tail", 50, families.one_factor, level=0.3),
    _entry("one-factor-low", "one-factor tail box", 20, families.one_factor, level=0.3),
    _entry(
        "one-factor-same-sign",
        "one-factor tail",
        20,
        families.one_factor,
        level=-2.0,
        positive=True,
    ),
    _entry("one-factor-deep", "one-factor deep-tail", 20, families.one_factor, level=-9.0),
    _entry("one-factor-deep", "one-factor deep-tail", 200, families.one_factor, level=-3.0),
    _entry("tiny-noise", "one-factor near-singular", 4, families.tiny_noise, noise=2.0**-20),
    _entry("tiny-noise", "one-factor near-singular box", 20, families.tiny_noise, noise=2.0**-14),
    _entry("tiny-noise", "one-factor near-singular", 100, families.tiny_noise, noise=2.0**-26),
    _entry("two-factor", "two-factor", 4, families.two_factor, level=0.5),
    _entry("two-factor", "two-factor", 10, families.two_factor, level=1.0),
    _entry("two-factor", "two-factor", 50, families.two_factor, level=1.5),
    _entry("two-factor", "two-factor", 100, families.two_factor, level=2.0),
    _entry("two-factor-box", "two-factor box", 8, families.two_factor, level=1.0),
    _entry("two-factor-box", "two-factor box", 50, families.two_factor, level=2.0),
    _entry("two-factor-box", "two-factor box", 200, families.two_factor, level=3.0),
    _entry("two-factor-low", "two-factor tail", 10, families.two_factor, level=-1.5),
    _entry("two-factor-deep", "two-factor deep-tail", 20, families.two_factor, level=-8.0),
    # chains
    _entry("ar1+0.5", "ar1 markov", 5, families.ar1, rho=0.5, level=0.5),
    _entry("ar1-0.7", "ar1 markov", 20, families.ar1, rho=-0.7, level=1.0),
    _entry("ar1+0.9", "ar1 markov", 100, families.ar1, rho=0.9, level=2.0),
    _entry("ar1+0.5", "ar1 markov", 500, families.ar1, rho=0.5, level=3.0),
    _entry("ar1+0.8", "ar1 markov box", 10, families.ar1, rho=0.8, level=1.2),
    _entry("ar1+0.6", "ar1 markov box", 50, families.ar1, rho=0.6, level=2.5),
    _entry("ar1+0.95", "ar1 markov box", 200, families.ar1, rho=0.95, level=3.0),
    _entry("ar1+0.7", "ar1 markov tail", 10, families.ar1, rho=0.7, level=-3.0),
    _entry("ar1+0.9", "ar1 markov deep-tail", 50, families.ar1, rho=0.9, level=-20.0),
    _entry(
        "ar1+0.999", "ar1 markov near-singular", 8, families.ar1, rho=0.999, level=0.5, spread=0.05
    ),
    _entry(
        "ar1+0.999",
        "ar1 markov near-singular box",
        20,
        families.ar1,
        rho=0.999,
        level=1.0,
        spread=0.1,
    ),
    _entry("markov", "markov", 20, families.markov, level=1.0),
    _entry("markov-box", "markov box", 100, families.markov, level=2.5),
    _entry("brownian", "markov brownian", 20, families.brownian, level=1.0),
    _entry("brownian-box", "markov brownian box", 50, families.brownian, level=1.5),
    # independent blocks
    _entry("block", "block", 10, families.block, level=1.0),
    _entry("block", "block", 50, families.block, level=2.0),
    _entry("block", "block", 200, families.block, level=2.5),
    _entry("block-box", "block box", 20, families.block, level=1.5),
    _entry("block-box", "block box", 500, families.block, level=3.0),
    _entry("block-low", "block tail", 20, families.block, level=-0.5),
    # fewer dimensions than coordinates
    _entry("tied", "one-factor singular", 5, families.tiny_noise, noise=0.0),
    _entry("tied", "one-factor singular box", 20, families.tiny_noise, noise=0.5, tied=4),
    _entry("all-pairs", "singular", 6, families.all_pairs),
    _entry("all-pairs", "singular", 10, families.all_pairs),
    _entry("repeated", "singular", 8, families.repeated, rho=0.7),
    _entry("mirrored", "singular", 20, families.mirrored, rho=0.5),
    # stored on disk
    _stored("a_exch_d9", _EQUI),
    _stored("a_exch_d99", f"{_EQUI} tail"),
    _stored("bm_rand_d5", "random"),
    _stored("bm_rand_d20", "random"),
    _stored("bm_rand_d100", "random"),
    _stored("bn_rand_d20", "random tail"),
    _stored("cm_ar1_d50", "ar1 markov"),
    _stored("cn_ar1_d50", "ar1 markov tail"),
    _stored("d_tail_d20", f"{_EQUAL} tail"),
    _stored("e_orth_d99", _EQUAL),
    _stored("f_onefac_d50", "one-factor"),
)


@functools.cache
def _build(entry: _Entry) -> Problem:
    rng = np.random.default_rng(zlib.crc32(entry.name.encode()))
    problem = entry.build(rng)
    if "reference" not in entry.tags:
        problem = _shuffled(problem, rng, entry.tags)
    for array in (problem.lower, problem.upper, problem.cov):
        array.flags.writeable = False  # the cache hands the same arrays to everybody
    return replace(problem, name=entry.name, tags=entry.tags)


def _shuffled(problem: Problem, rng: Rng, tags: frozenset[str]) -> Problem:
    """The same problem in another order, other units and, for boxes, with other signs."""
    d = problem.upper.size
    order = rng.permutation(d)
    unit = np.ones(d)
    if "exchangeable" not in tags and rng.random() < 0.5:
        unit = np.ldexp(1.0, rng.integers(-2, 3, d))  # powers of two round nothing
    if "box" in tags and not tags & {"equicorrelation", "negative"}:
        unit *= rng.choice([-1.0, 1.0], d)
    limits = np.sort(unit * np.stack([problem.lower[order], problem.upper[order]]), axis=0)
    cov = problem.cov[np.ix_(order, order)] * np.outer(unit, unit)
    return replace(problem, lower=limits[0], upper=limits[1], cov=cov)
