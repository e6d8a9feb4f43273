"""The table of problems with known answers: log Pr(lower <= X <= upper) for X ~ N(0, cov).

No answer comes from mvnorth. Closed forms, products, quadrature in one or two dimensions and
transfer operators (`validation.oracles.one_dimension`) give 1e-9 in log P or better; the stored
references carry their own error. Coordinates are shuffled and in about half the problems
rescaled, and boxes are reflected where their structure survives it, all seeded by the problem's
name, so that no method profits from the order in which a problem happens to be written down.

Tags
----
orthant, box            only upper limits; any other limits
independent, equicorrelation, one-factor, two-factor, ar1, markov, brownian, block
                        the structure of the covariance
random                  a covariance without structure (any with d = 2 or 3)
exchangeable            equal correlations, variances and limits
negative                no correlation is positive, some are negative
near-singular, singular some coordinate is all but fixed by the others; rank below d
tail, deep-tail         log P in (-745, -10]; P is zero in float64
small, high-dim         d <= 3, d >= 100
easy                    d <= 50, and neither a tail nor near or truly singular
hard                    near or truly singular, a deep tail, or a tail with d >= 20
reference               stored on disk, see `validation/reference/README.md`
"""

from __future__ import annotations

import functools
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag, inv

from validation.oracles.one_dimension import (
    EPS,
    FloatArray,
    log_interval,
    markov_logprob,
    minus_factor_logprob,
    one_factor_logprob,
    two_factor_logprob,
)

REFERENCE = Path(__file__).parent / "reference"


@dataclass(frozen=True, eq=False)
class Problem:
    """A box, a covariance matrix, and the logarithm of the box's probability.

    Attributes
    ----------
    name : str
        Unique in the table.
    tags : frozenset of str
        See the module's docstring.
    lower, upper : (d,)
        The box; lower is -inf everywhere for an orthant.
    cov : (d, d)
        Covariance of X ~ N(0, cov).
    log_prob : float
        log Pr(lower <= X <= upper).
    log_error : float
        Bound on the absolute error of `log_prob`.
    source : str
        Where the answer comes from.
    """

    name: str
    tags: frozenset[str]
    lower: FloatArray
    upper: FloatArray
    cov: FloatArray
    log_prob: float
    log_error: float
    source: str


def problems(*tags: str) -> list[Problem]:
    """All problems that carry all the tags, in the table's order.

    Only the problems asked for are computed, and each of them once.

    Parameters
    ----------
    *tags : str
        See the module's docstring; none of them means the whole table.

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


def reference_gradient(name: str) -> FloatArray | None:
    """The gradient of log P in the upper limits of a stored reference.

    Parameters
    ----------
    name : str
        Name of a problem tagged `reference`.

    Returns
    -------
    (d,) array, or None where it is not known
    """
    with np.load(REFERENCE / f"{name}.npz") as stored:
        gradient: FloatArray | None = stored.get("dlogp_db")
        return gradient


# Builders: an unnamed, untagged problem from its limits and the structure of its covariance.
# They all return a Problem; one line says what they take, with shapes.


def independent(lower: ArrayLike, upper: ArrayLike) -> Problem:
    """Independent standard normals; lower, upper : (d,)."""
    log_prob = float(log_interval(lower, upper).sum())
    cov = np.eye(np.size(upper))
    return _problem(lower, upper, cov, _closed(log_prob), "product of Phi differences", True)


def exchangeable(lower: ArrayLike, upper: ArrayLike, rho: float) -> Problem:
    """Unit variances, all correlations rho > -1/(d - 1); lower, upper : (d,)."""
    d = np.size(upper)
    c, v = np.full(d, 1 - rho), np.full(d, math.sqrt(abs(rho)))
    rule = one_factor_logprob if rho >= 0 else minus_factor_logprob
    cov = np.full((d, d), rho)
    np.fill_diagonal(cov, 1.0)
    return _problem(lower, upper, cov, rule(lower, upper, c, v), "one-factor integral")


def one_factor(
    lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: ArrayLike, *, exact: bool = False
) -> Problem:
    """Covariance diag(c) + v v^T; all arrays (d,), c >= 0; exact: cov holds it to the last bit."""
    answer = one_factor_logprob(lower, upper, c, v)
    cov = np.diag(c) + np.multiply.outer(v, v)
    return _problem(lower, upper, cov, answer, "one-factor integral", exact)


def two_factor(lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: FloatArray) -> Problem:
    """Covariance diag(c) + V V^T; lower, upper, c : (d,), v : (d, 2)."""
    answer = two_factor_logprob(lower, upper, c, v)
    cov = np.diag(c) + np.outer(v[:, 0], v[:, 0]) + np.outer(v[:, 1], v[:, 1])
    return _problem(lower, upper, cov, answer, "two-factor integral")


def bivariate(lower: ArrayLike, upper: ArrayLike, rho: float) -> Problem:
    """Two standard normals with correlation rho; lower, upper : (2,)."""
    root = math.sqrt(abs(rho))
    return one_factor(lower, upper, np.full(2, 1 - abs(rho)), [root, math.copysign(root, rho)])


def trivariate(lower: ArrayLike, upper: ArrayLike, cov: FloatArray) -> Problem:
    """Any positive definite cov, (3, 3); lower, upper : (3,).

    Without its smallest eigenvalue on the diagonal cov has rank two: a two-factor model.
    """
    values, vectors = np.linalg.eigh(cov)
    v = vectors[:, 1:] * np.sqrt(values[1:] - values[0])
    answer = two_factor_logprob(lower, upper, np.full(3, values[0]), v)
    return _problem(lower, upper, cov, answer, "two-factor integral")


def markov(lower: ArrayLike, upper: ArrayLike, rho: ArrayLike) -> Problem:
    """A chain with unit variances and neighbour correlations rho, (d - 1,); limits : (d,)."""
    d = np.size(upper)
    cov = np.eye(d)
    for i in range(d - 1):
        cov[i, i + 1 :] = cov[i + 1 :, i] = np.cumprod(np.asarray(rho)[i:])
    return _problem(lower, upper, cov, markov_logprob(lower, upper, rho), "transfer operator")


def ar1(lower: ArrayLike, upper: ArrayLike, rho: float) -> Problem:
    """Correlations rho^|i - j|; lower, upper : (d,)."""
    return markov(lower, upper, np.full(np.size(upper) - 1, rho))


def brownian(lower: ArrayLike, upper: ArrayLike, times: FloatArray) -> Problem:
    """A Brownian path seen at increasing times, (d,): covariance min(s, t); limits : (d,)."""
    sd = np.sqrt(times)
    limits = np.asarray(lower) / sd, np.asarray(upper) / sd
    answer = markov_logprob(*limits, sd[:-1] / sd[1:])
    return _problem(lower, upper, np.minimum.outer(times, times), answer, "transfer operator")


def block(*parts: Problem) -> Problem:
    """Independent problems side by side."""
    return _problem(
        np.concatenate([p.lower for p in parts]),
        np.concatenate([p.upper for p in parts]),
        block_diag(*(p.cov for p in parts)),
        (sum(p.log_prob for p in parts), sum(p.log_error for p in parts)),
        "sum over blocks: " + ", ".join(sorted({p.source for p in parts})),
        exact=True,  # the parts have counted their rounding
    )


def zero_orthant(cov: FloatArray, log_prob: float, source: str) -> Problem:
    """Pr(X <= 0) for cov, (d, d), from a closed form."""
    d = len(cov)
    return _problem(np.full(d, -np.inf), np.zeros(d), cov, _closed(log_prob), source, True)


def reference(name: str) -> Problem:
    """A stored reference, as it stands on disk."""
    stored = json.loads((REFERENCE / "references.json").read_text())[name]
    with np.load(REFERENCE / f"{name}.npz") as arrays:
        b, cov = arrays["b"], arrays["Sigma"]
    answer = stored["logp"], max(stored["err_logp"], _closed(stored["logp"])[1])
    return _problem(np.full(b.size, -np.inf), b, cov, answer, stored["method"], True)


def _problem(
    lower: ArrayLike,
    upper: ArrayLike,
    cov: FloatArray,
    answer: tuple[float, float],
    source: str,
    exact: bool = False,
) -> Problem:
    log_prob, log_error = answer
    if not exact:
        # The answer belongs to the structure, cov to its rounding, which counts the more the
        # nearer cov is to singular: diag(inv(corr)) is variance over conditional variance.
        log_error += EPS * (1 + abs(log_prob)) * float((np.diag(cov) * np.diag(inv(cov))).max())
    lower, upper = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    return Problem("", frozenset(), lower, upper, cov, log_prob, log_error, source)


def _closed(log_prob: float) -> tuple[float, float]:
    """A closed form is right to rounding."""
    return log_prob, 8 * EPS * (1 + abs(log_prob))


# Families: a problem of d coordinates drawn with `rng`; the table picks their settings.

Rng = np.random.Generator


def _limits(
    rng: Rng, sd: FloatArray, level: float, box: bool, spread: float = 0.7
) -> tuple[FloatArray, FloatArray]:
    """Limits around `level` standard deviations: above, or in boxes on every possible side."""
    upper = rng.normal(level, spread, sd.size)
    lower = np.full(sd.size, -np.inf)
    if box:
        lower = rng.normal(-level, spread, sd.size)
        lower, upper = np.minimum(lower, upper - 0.2), np.maximum(upper, lower + 0.2)
        kind = rng.random(sd.size)
        lower[kind < 0.2] = -np.inf
        upper[(kind > 0.1) & (kind < 0.35)] = np.inf
    return lower * sd, upper * sd


def _independent(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    return independent(*_limits(rng, np.ones(d), level, box))


def _equal(rng: Rng, d: int, rho: float, upper: float, lower: float = -np.inf) -> Problem:
    return exchangeable(np.full(d, lower), np.full(d, upper), rho)


def _equicorrelation(rng: Rng, d: int, rho: float, level: float, box: bool = False) -> Problem:
    return exchangeable(*_limits(rng, np.ones(d), level, box), rho)


def _one_factor(
    rng: Rng, d: int, level: float, box: bool = False, positive: bool = False
) -> Problem:
    c, v = rng.lognormal(0.0, 0.7, d), rng.normal(0.0, 1.2, d)
    v = np.abs(v) if positive else v
    return one_factor(*_limits(rng, np.sqrt(c + v**2), level, box), c, v)


def _tiny_noise(rng: Rng, d: int, noise: float, box: bool = False, tied: int = 0) -> Problem:
    """Own variances of `noise`, and none at all for the first `tied`."""
    # Few bits, so that diag(c) + v v^T is exact in float64 however small c is.
    v = rng.choice([-1.0, 1.0], d) * np.round(1024 * rng.uniform(0.5, 1.5, d)) / 1024
    c = np.full(d, noise)
    c[:tied] = 0.0
    # Zero lies inside: nearly tied coordinates with limits that exclude each other have P = 0.
    upper = np.abs(v) * rng.uniform(0.5, 1.5, d)
    lower = -np.abs(v) * rng.uniform(0.5, 1.5, d) if box else np.full(d, -np.inf)
    return one_factor(lower, upper, c, v, exact=True)


def _two_factor(
    rng: Rng, d: int, level: float, box: bool = False, positive: bool = False
) -> Problem:
    c, v = rng.lognormal(0.0, 0.5, d), rng.normal(0.0, 0.8, (d, 2))
    v = np.abs(v) if positive else v
    return two_factor(*_limits(rng, np.sqrt(c + np.sum(v**2, axis=1)), level, box), c, v)


def _bivariate(
    rng: Rng, d: int, rho: float, upper: ArrayLike, lower: ArrayLike = (-np.inf, -np.inf)
) -> Problem:
    return bivariate(lower, upper, rho)


def _trivariate(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    cov = _wishart(rng, d)
    return trivariate(*_limits(rng, np.sqrt(np.diag(cov)), level, box), cov)


def _ar1(
    rng: Rng, d: int, rho: float, level: float, box: bool = False, spread: float = 0.7
) -> Problem:
    return ar1(*_limits(rng, np.ones(d), level, box, spread), rho)


def _markov(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    rho = rng.uniform(-0.9, 0.95, d - 1)
    return markov(*_limits(rng, np.ones(d), level, box), rho)


def _brownian(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    times = np.cumsum(rng.uniform(0.2, 1.8, d))
    return brownian(*_limits(rng, np.full(d, math.sqrt(times[-1])), level, box), times)


def _block(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    n = d // 5
    return block(
        _equicorrelation(rng, n, 0.6, level, box),
        _one_factor(rng, 2 * n, level, box),
        _ar1(rng, n, 0.8, level, box),
        _independent(rng, d - 4 * n, level, box),
    )


def _zero_2(rng: Rng, d: int, rho: float) -> Problem:
    prob = 0.25 + math.asin(rho) / (2 * math.pi)
    return zero_orthant(np.array([[1, rho], [rho, 1]]), math.log(prob), "1/4 + asin(rho)/(2 pi)")


def _zero_3(rng: Rng, d: int) -> Problem:
    cov = _wishart(rng, d)
    sd = np.sqrt(np.diag(cov))
    angles = np.arcsin((cov / np.outer(sd, sd))[np.triu_indices(3, 1)])
    prob = 0.125 + float(angles.sum()) / (4 * math.pi)
    return zero_orthant(cov, math.log(prob), "1/8 + sum asin(rho)/(4 pi)")


def _zero_half(rng: Rng, d: int) -> Problem:
    return zero_orthant((np.eye(d) + 1) / 2, -math.log(d + 1), "1/(d + 1)")


def _ordering(rng: Rng, d: int) -> Problem:
    """Pr(Z_1 <= ... <= Z_{d+1}) for independent Z, by its d neighbour differences."""
    cov = 2 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1)
    return zero_orthant(cov, -math.lgamma(d + 2), "1/(d + 1)!")


def _all_pairs(rng: Rng, d: int) -> Problem:
    """The same order by all n(n - 1)/2 = d differences: rank n - 1."""
    n = (1 + math.isqrt(1 + 8 * d)) // 2
    low, high = np.triu_indices(n, 1)
    differences = np.eye(n)[low] - np.eye(n)[high]
    return zero_orthant(differences @ differences.T, -math.lgamma(n + 1), "1/n!")


def _walk(rng: Rng, d: int) -> Problem:
    """A random walk that stays below zero for d steps (Sparre Andersen)."""
    steps = np.arange(1.0, d + 1)
    log_prob = float(np.log1p(-1 / (2 * steps)).sum())
    return zero_orthant(np.minimum.outer(steps, steps), log_prob, "binomial(2d, d)/4^d")


def _repeated(rng: Rng, d: int, rho: float) -> Problem:
    """Every coordinate twice, with two limits: the tighter one counts."""
    upper = rng.normal(1.0, 0.7, (2, d // 2))
    once = ar1(np.full(d // 2, -np.inf), upper.min(axis=0), rho)
    return replace(
        once,
        lower=np.full(d, -np.inf),
        upper=upper.ravel(),
        cov=np.block([[once.cov, once.cov], [once.cov, once.cov]]),
    )


def _mirrored(rng: Rng, d: int, rho: float) -> Problem:
    """A box in d/2 dimensions as an orthant in d: the limits of X and of -X."""
    upper = rng.normal(2.0, 0.5, (2, d // 2))
    once = exchangeable(-upper[1], upper[0], rho)
    return replace(
        once,
        lower=np.full(d, -np.inf),
        upper=upper.ravel(),
        cov=np.block([[once.cov, -once.cov], [-once.cov, once.cov]]),
    )


def _reference(rng: Rng, d: int, stored: str) -> Problem:
    return reference(stored)


def _wishart(rng: Rng, d: int) -> FloatArray:
    a = rng.normal(size=(d, d + 2))
    return a @ a.T


# The table. A problem's full name ends in its dimension; stored ones keep their file's name.


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
    entry = _entry(name, f"reference {tags}", d, _reference, stored=name)
    return replace(entry, name=name)


_EQUI = "equicorrelation one-factor"
_EQUAL = f"exchangeable {_EQUI}"
_MINUS = "equicorrelation negative"

_ENTRIES = (
    _entry("independent", "independent", 1, _independent, level=0.7),
    _entry("independent", "independent", 5, _independent, level=1.0),
    _entry("independent", "independent", 20, _independent, level=1.5),
    _entry("independent", "independent", 100, _independent, level=2.5),
    _entry("independent-box", "independent box", 1, _independent, level=0.7),
    _entry("independent-box", "independent box", 8, _independent, level=1.0),
    _entry("independent-box", "independent box", 500, _independent, level=3.0),
    _entry("independent-low", "independent tail", 1, _independent, level=-6.0),
    _entry("independent-low", "independent tail", 10, _independent, level=-1.5),
    _entry("independent-deep", "independent deep-tail", 1, _independent, level=-42.0),
    _entry("independent-deep", "independent deep-tail", 500, _independent, level=-1.0),
    # closed forms at zero
    _entry("zero+0.3", "random", 2, _zero_2, rho=0.3),
    _entry("zero-0.8", "random negative", 2, _zero_2, rho=-0.8),
    _entry("zero+0.99", "random", 2, _zero_2, rho=0.99),
    _entry("zero", "random", 3, _zero_3),
    _entry("zero-half", _EQUAL, 4, _zero_half),
    _entry("zero-half", _EQUAL, 10, _zero_half),
    _entry("zero-half", _EQUAL, 50, _zero_half),
    _entry("zero-half", _EQUAL, 200, _zero_half),
    _entry("zero-half", _EQUAL, 500, _zero_half),
    _entry("ordering", "negative", 4, _ordering),
    _entry("ordering", "negative tail", 8, _ordering),
    _entry("ordering", "negative tail", 20, _ordering),
    _entry("ordering", "negative tail", 100, _ordering),
    _entry("ordering", "negative deep-tail", 200, _ordering),
    _entry("walk", "markov brownian", 8, _walk),
    _entry("walk", "markov brownian", 50, _walk),
    _entry("walk", "markov brownian", 200, _walk),
    _entry("walk", "markov brownian", 500, _walk),
    # two and three coordinates
    _entry("bivariate+0.6", "random", 2, _bivariate, rho=0.6, upper=(0.4, 1.3)),
    _entry("bivariate-0.95", "random negative", 2, _bivariate, rho=-0.95, upper=(0.2, 0.5)),
    _entry("bivariate-0.5", "random negative tail", 2, _bivariate, rho=-0.5, upper=(-4.0, -3.0)),
    _entry("bivariate+0.2", "random deep-tail", 2, _bivariate, rho=0.2, upper=(-32.0, -30.0)),
    _entry(
        "bivariate+0.9999", "random near-singular", 2, _bivariate, rho=0.9999, upper=(0.3, 0.31)
    ),
    _entry(
        "bivariate-box", "random box", 2, _bivariate, rho=0.7, lower=(-0.5, -1.0), upper=(1.5, 0.3)
    ),
    _entry("trivariate", "random", 3, _trivariate, level=0.5),
    _entry("trivariate-box", "random box", 3, _trivariate, level=1.0),
    _entry("trivariate-low", "random tail", 3, _trivariate, level=-4.0),
    # equal correlations
    _entry("equal+0.1", _EQUAL, 10, _equal, rho=0.1, upper=1.0),
    _entry("equal+0.8", _EQUAL, 100, _equal, rho=0.8, upper=0.5),
    _entry("equal+0.3", f"{_EQUAL} box", 20, _equal, rho=0.3, lower=-2.5, upper=2.0),
    _entry("equal+0.9", f"{_EQUAL} box", 5, _equal, rho=0.9, lower=-0.3, upper=0.4),
    _entry("equal+0.5", f"{_EQUAL} tail", 20, _equal, rho=0.5, upper=-6.0),
    _entry("equal+0.2", f"{_EQUAL} tail box", 10, _equal, rho=0.2, lower=2.0, upper=3.0),
    _entry("equal+0.3", f"{_EQUAL} deep-tail", 50, _equal, rho=0.3, upper=-35.0),
    _entry("equal+0.9999", f"{_EQUAL} near-singular", 20, _equal, rho=0.9999, upper=0.5),
    _entry("equal-0.2", f"exchangeable {_MINUS}", 4, _equal, rho=-0.2, upper=0.5),
    _entry("equal-0.2", f"exchangeable {_MINUS}", 5, _equal, rho=-0.2, upper=1.0),
    _entry("equal-0.1", f"exchangeable {_MINUS}", 10, _equal, rho=-0.1, upper=1.0),
    _entry("equal-0.015", f"exchangeable {_MINUS}", 50, _equal, rho=-0.015, upper=2.5),
    _entry("equicorrelation+0.4", _EQUI, 4, _equicorrelation, rho=0.4, level=0.5),
    _entry("equicorrelation+0.95", _EQUI, 20, _equicorrelation, rho=0.95, level=0.5),
    _entry("equicorrelation+0.1", _EQUI, 50, _equicorrelation, rho=0.1, level=1.5),
    _entry("equicorrelation+0.5", _EQUI, 200, _equicorrelation, rho=0.5, level=1.5),
    _entry("equicorrelation+0.7", _EQUI, 500, _equicorrelation, rho=0.7, level=2.0),
    _entry("equicorrelation+0.6", f"{_EQUI} box", 10, _equicorrelation, rho=0.6, level=1.2),
    _entry("equicorrelation+0.3", f"{_EQUI} box", 100, _equicorrelation, rho=0.3, level=2.5),
    _entry("equicorrelation+0.5", f"{_EQUI} tail", 8, _equicorrelation, rho=0.5, level=-4.0),
    _entry("equicorrelation+0.2", f"{_EQUI} tail", 100, _equicorrelation, rho=0.2, level=0.3),
    _entry("equicorrelation-0.4", _MINUS, 3, _equicorrelation, rho=-0.4, level=1.0),
    _entry("equicorrelation-0.12", f"{_MINUS} box", 8, _equicorrelation, rho=-0.12, level=1.5),
    _entry("equicorrelation-0.04", _MINUS, 20, _equicorrelation, rho=-0.04, level=1.5),
    # one and two factors
    _entry("one-factor", "one-factor", 3, _one_factor, level=0.5),
    _entry("one-factor", "one-factor", 5, _one_factor, level=0.0),
    _entry("one-factor", "one-factor", 10, _one_factor, level=1.0),
    _entry("one-factor", "one-factor", 20, _one_factor, level=1.0),
    _entry("one-factor", "one-factor", 50, _one_factor, level=2.0),
    _entry("one-factor", "one-factor", 100, _one_factor, level=2.0),
    _entry("one-factor", "one-factor", 500, _one_factor, level=3.0),
    _entry("one-factor-box", "one-factor box", 4, _one_factor, level=0.5),
    _entry("one-factor-box", "one-factor box", 20, _one_factor, level=1.5),
    _entry("one-factor-box", "one-factor box", 200, _one_factor, level=3.0),
    _entry("one-factor-low", "one-factor tail", 8, _one_factor, level=-1.5),
    _entry("one-factor-low", "one-factor tail", 50, _one_factor, level=0.3),
    _entry("one-factor-low", "one-factor tail box", 20, _one_factor, level=0.3),
    _entry("one-factor-same-sign", "one-factor tail", 20, _one_factor, level=-2.0, positive=True),
    _entry("one-factor-deep", "one-factor deep-tail", 20, _one_factor, level=-9.0),
    _entry("one-factor-deep", "one-factor deep-tail", 200, _one_factor, level=-3.0),
    _entry("tiny-noise", "one-factor near-singular", 4, _tiny_noise, noise=2.0**-20),
    _entry("tiny-noise", "one-factor near-singular box", 20, _tiny_noise, noise=2.0**-14),
    _entry("tiny-noise", "one-factor near-singular", 100, _tiny_noise, noise=2.0**-26),
    _entry("two-factor", "two-factor", 4, _two_factor, level=0.5),
    _entry("two-factor", "two-factor", 10, _two_factor, level=1.0),
    _entry("two-factor", "two-factor", 50, _two_factor, level=1.5),
    _entry("two-factor", "two-factor", 100, _two_factor, level=2.0),
    _entry("two-factor-box", "two-factor box", 8, _two_factor, level=1.0),
    _entry("two-factor-box", "two-factor box", 50, _two_factor, level=2.0),
    _entry("two-factor-box", "two-factor box", 200, _two_factor, level=3.0),
    _entry("two-factor-low", "two-factor tail", 10, _two_factor, level=-1.5),
    _entry("two-factor-deep", "two-factor deep-tail", 20, _two_factor, level=-8.0),
    # chains
    _entry("ar1+0.5", "ar1 markov", 5, _ar1, rho=0.5, level=0.5),
    _entry("ar1-0.7", "ar1 markov", 20, _ar1, rho=-0.7, level=1.0),
    _entry("ar1+0.9", "ar1 markov", 100, _ar1, rho=0.9, level=2.0),
    _entry("ar1+0.5", "ar1 markov", 500, _ar1, rho=0.5, level=3.0),
    _entry("ar1+0.8", "ar1 markov box", 10, _ar1, rho=0.8, level=1.2),
    _entry("ar1+0.6", "ar1 markov box", 50, _ar1, rho=0.6, level=2.5),
    _entry("ar1+0.95", "ar1 markov box", 200, _ar1, rho=0.95, level=3.0),
    _entry("ar1+0.7", "ar1 markov tail", 10, _ar1, rho=0.7, level=-3.0),
    _entry("ar1+0.9", "ar1 markov deep-tail", 50, _ar1, rho=0.9, level=-20.0),
    _entry("ar1+0.999", "ar1 markov near-singular", 8, _ar1, rho=0.999, level=0.5, spread=0.05),
    _entry("ar1+0.999", "ar1 markov near-singular box", 20, _ar1, rho=0.999, level=1.0, spread=0.1),
    _entry("markov", "markov", 20, _markov, level=1.0),
    _entry("markov-box", "markov box", 100, _markov, level=2.5),
    _entry("brownian", "markov brownian", 20, _brownian, level=1.0),
    _entry("brownian-box", "markov brownian box", 50, _brownian, level=1.5),
    # independent blocks
    _entry("block", "block", 10, _block, level=1.0),
    _entry("block", "block", 50, _block, level=2.0),
    _entry("block", "block", 200, _block, level=2.5),
    _entry("block-box", "block box", 20, _block, level=1.5),
    _entry("block-box", "block box", 500, _block, level=3.0),
    _entry("block-low", "block tail", 20, _block, level=-0.5),
    # fewer dimensions than coordinates
    _entry("tied", "one-factor singular", 5, _tiny_noise, noise=0.0),
    _entry("tied", "one-factor singular box", 20, _tiny_noise, noise=0.5, tied=4),
    _entry("all-pairs", "singular", 6, _all_pairs),
    _entry("all-pairs", "singular", 10, _all_pairs),
    _entry("repeated", "singular", 8, _repeated, rho=0.7),
    _entry("mirrored", "singular", 20, _mirrored, rho=0.5),
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
