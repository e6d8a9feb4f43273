"""Random problems with known answers, by regime and number of coordinates.

Every problem is drawn anew, covariance and limits, so that claims about them are independent: a
method's share of false claims in a stratum has an honest interval, which many seeds on one problem
do not give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from validation.oracles.one_dimension import FloatArray, one_factor_logprob
from validation.problems import builders
from validation.problems.problem import Problem

Rng = np.random.Generator


class Regime(NamedTuple):
    """Where log P lies (a range, drawn evenly in log(-log P)), and own shares of variances.

    ``own`` is the range of a coordinate's own share of its variance, drawn evenly in its logarithm:
    the smaller, the nearer to singular.
    """

    least: float
    most: float
    own: tuple[float, float] = (0.1, 0.9)


REGIMES = {
    "ordinary": Regime(-5.0, -0.1),
    "near 1": Regime(-1e-2, -1e-5),
    "tail": Regime(-700.0, -10.0),
    "deep tail": Regime(-3000.0, -750.0),
    "nearly singular": Regime(-5.0, -0.1, (1e-5, 1e-2)),
}
SIZES = {"d from 4 to 10": (4, 10), "11 to 50": (11, 50), "51 to 100": (51, 100)}
_FAMILIES = ("two factors", "one factor", "two factors", "chain")
_SPREAD = 0.5  # of limits, in deviations
_KNOWN_WELL = 1e-6  # error of log P that an answer may have: it decides nothing
_TRIES = 100


def draw(regime: str, size: str, seed: int) -> Problem:
    """Return one problem; its source names the family.

    Half of the problems are orthants, half boxes in which some coordinates have both limits.
    """
    rng = np.random.default_rng([*regime.encode(), *size.encode(), seed])
    limits_of_log = REGIMES[regime]
    low, high = SIZES[size]
    family = _FAMILIES[seed % len(_FAMILIES)]
    if family == "chain" and regime in ("deep tail", "nearly singular"):
        family = "one factor"  # a chain's answer has too few digits there
    if regime == "nearly singular" and high > 10:
        family = "one factor"  # two narrow factors of many coordinates take seconds to integrate
    is_box = seed // len(_FAMILIES) % 2 == 1
    for _ in range(_TRIES):
        d = int(rng.integers(low, high + 1))
        problem = _problem(rng, family, d, limits_of_log, is_box)
        in_regime = limits_of_log.least <= problem.log_prob <= limits_of_log.most
        if in_regime and problem.log_error <= _KNOWN_WELL:
            return _shuffled(rng, replace(problem, source=family))
    raise ValueError(f"no problem of {regime!r}, {size!r}, seed {seed} in {_TRIES} tries")


def _problem(rng: Rng, family: str, d: int, regime: Regime, is_box: bool) -> Problem:
    target = -math.exp(rng.uniform(math.log(-regime.most), math.log(-regime.least)))
    own = np.exp(rng.uniform(math.log(regime.own[0]), math.log(regime.own[1]), d))
    spread = _SPREAD * rng.normal(size=d)
    width = rng.uniform(0.5, 6.0, d)
    width[rng.random(d) < 0.5] = math.inf
    width = width if is_box else np.full(d, math.inf)
    sign = rng.choice([-1.0, 1.0], d) if rng.random() < 0.5 else np.ones(d)
    first = sign * np.sqrt(1.0 - own)

    def limits(level: float) -> tuple[FloatArray, FloatArray]:
        upper = level + spread
        # At least as far below the mean as above it, so that boxes can have P near 1.
        return np.where(np.isfinite(width), np.minimum(upper - width, -upper), -math.inf), upper

    if family == "chain":
        steps = rng.uniform(-0.9, 0.95, d - 1)
        level = _level(lambda x: builders.independent(*limits(x)).log_prob, target)
        return builders.markov(*limits(level), steps)
    level = _level(lambda x: one_factor_logprob(*limits(x), own, first)[0], target)
    if family == "one factor":
        return builders.one_factor(*limits(level), own, first)
    angle = rng.normal(0.0, 0.7, d)
    loadings = first[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return builders.two_factor(*limits(level), own, loadings)


def _level(log_prob: Callable[[float], float], target: float) -> float:
    """Return about the level at which ``log_prob``, which rises with it, is ``target``."""
    low, high = -60.0, 12.0
    for _ in range(22):
        middle = (low + high) / 2
        low, high = (middle, high) if log_prob(middle) < target else (low, middle)
    return (low + high) / 2


def _shuffled(rng: Rng, problem: Problem) -> Problem:
    """Return the problem with coordinates in random order, and rescaled by powers of two."""
    order = rng.permutation(problem.upper.size)
    unit = 2.0 ** rng.integers(-3, 4, problem.upper.size)
    cov = problem.cov[np.ix_(order, order)] * np.outer(unit, unit)
    lower, upper = problem.lower[order] * unit, problem.upper[order] * unit
    return replace(problem, lower=lower, upper=upper, cov=cov)
