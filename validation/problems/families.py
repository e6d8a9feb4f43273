"""Problems of d coordinates drawn with `rng`; the table picks their settings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from validation.oracles.one_dimension import FloatArray
from validation.problems import builders
from validation.problems.problem import Problem

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


def independent(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    return builders.independent(*_limits(rng, np.ones(d), level, box))


def equal(rng: Rng, d: int, rho: float, upper: float, lower: float = -np.inf) -> Problem:
    return builders.exchangeable(np.full(d, lower), np.full(d, upper), rho)


def equicorrelation(rng: Rng, d: int, rho: float, level: float, box: bool = False) -> Problem:
    return builders.exchangeable(*_limits(rng, np.ones(d), level, box), rho)


def one_factor(
    rng: Rng, d: int, level: float, box: bool = False, positive: bool = False
) -> Problem:
    c, v = rng.lognormal(0.0, 0.7, d), rng.normal(0.0, 1.2, d)
    v = np.abs(v) if positive else v
    return builders.one_factor(*_limits(rng, np.sqrt(c + v**2), level, box), c, v)


def tiny_noise(rng: Rng, d: int, noise: float, box: bool = False, tied: int = 0) -> Problem:
    """Own variances of `noise`, and none at all for the first `tied`."""
    # Few bits, so that diag(c) + v v^T is exact in float64 however small c is.
    v = rng.choice([-1.0, 1.0], d) * np.round(1024 * rng.uniform(0.5, 1.5, d)) / 1024
    c = np.full(d, noise)
    c[:tied] = 0.0
    # Zero lies inside: nearly tied coordinates with limits that exclude each other have P = 0.
    upper = np.abs(v) * rng.uniform(0.5, 1.5, d)
    lower = -np.abs(v) * rng.uniform(0.5, 1.5, d) if box else np.full(d, -np.inf)
    return builders.one_factor(lower, upper, c, v, exact=True)


def two_factor(
    rng: Rng, d: int, level: float, box: bool = False, positive: bool = False
) -> Problem:
    c, v = rng.lognormal(0.0, 0.5, d), rng.normal(0.0, 0.8, (d, 2))
    v = np.abs(v) if positive else v
    return builders.two_factor(*_limits(rng, np.sqrt(c + np.sum(v**2, axis=1)), level, box), c, v)


def bivariate(
    rng: Rng, d: int, rho: float, upper: ArrayLike, lower: ArrayLike = (-np.inf, -np.inf)
) -> Problem:
    return builders.bivariate(lower, upper, rho)


def trivariate(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    cov = _wishart(rng, d)
    return builders.trivariate(*_limits(rng, np.sqrt(np.diag(cov)), level, box), cov)


def ar1(
    rng: Rng, d: int, rho: float, level: float, box: bool = False, spread: float = 0.7
) -> Problem:
    return builders.ar1(*_limits(rng, np.ones(d), level, box, spread), rho)


def markov(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    rho = rng.uniform(-0.9, 0.95, d - 1)
    return builders.markov(*_limits(rng, np.ones(d), level, box), rho)


def brownian(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    times = np.cumsum(rng.uniform(0.2, 1.8, d))
    return builders.brownian(*_limits(rng, np.full(d, math.sqrt(times[-1])), level, box), times)


def block(rng: Rng, d: int, level: float, box: bool = False) -> Problem:
    n = d // 5
    return builders.block(
        equicorrelation(rng, n, 0.6, level, box),
        one_factor(rng, 2 * n, level, box),
        ar1(rng, n, 0.8, level, box),
        independent(rng, d - 4 * n, level, box),
    )


def zero_2(rng: Rng, d: int, rho: float) -> Problem:
    prob = 0.25 + math.asin(rho) / (2 * math.pi)
    return builders.zero_orthant(
        np.array([[1, rho], [rho, 1]]), math.log(prob), "1/4 + asin(rho)/(2 pi)"
    )


def zero_3(rng: Rng, d: int) -> Problem:
    cov = _wishart(rng, d)
    sd = np.sqrt(np.diag(cov))
    angles = np.arcsin((cov / np.outer(sd, sd))[np.triu_indices(3, 1)])
    prob = 0.125 + float(angles.sum()) / (4 * math.pi)
    return builders.zero_orthant(cov, math.log(prob), "1/8 + sum asin(rho)/(4 pi)")


def zero_half(rng: Rng, d: int) -> Problem:
    return builders.zero_orthant((np.eye(d) + 1) / 2, -math.log(d + 1), "1/(d + 1)")


def ordering(rng: Rng, d: int) -> Problem:
    """Pr(Z_1 <= ... <= Z_{d+1}) for independent Z, by its d neighbour differences."""
    cov = 2 * np.eye(d) - np.eye(d, k=1) - np.eye(d, k=-1)
    return builders.zero_orthant(cov, -math.lgamma(d + 2), "1/(d + 1)!")


def all_pairs(rng: Rng, d: int) -> Problem:
    """The same order by all n(n - 1)/2 = d differences: rank n - 1."""
    n = (1 + math.isqrt(1 + 8 * d)) // 2
    low, high = np.triu_indices(n, 1)
    differences = np.eye(n)[low] - np.eye(n)[high]
    return builders.zero_orthant(differences @ differences.T, -math.lgamma(n + 1), "1/n!")


def walk(rng: Rng, d: int) -> Problem:
    """A random walk that stays below zero for d steps (Sparre Andersen)."""
    steps = np.arange(1.0, d + 1)
    log_prob = float(np.log1p(-1 / (2 * steps)).sum())
    return builders.zero_orthant(np.minimum.outer(steps, steps), log_prob, "binomial(2d, d)/4^d")


def repeated(rng: Rng, d: int, rho: float) -> Problem:
    """Every coordinate twice, with two limits: the tighter one counts."""
    upper = rng.normal(1.0, 0.7, (2, d // 2))
    once = builders.ar1(np.full(d // 2, -np.inf), upper.min(axis=0), rho)
    return replace(
        once,
        lower=np.full(d, -np.inf),
        upper=upper.ravel(),
        cov=np.block([[once.cov, once.cov], [once.cov, once.cov]]),
    )


def mirrored(rng: Rng, d: int, rho: float) -> Problem:
    """A box in d/2 dimensions as an orthant in d: the limits of X and of -X."""
    upper = rng.normal(2.0, 0.5, (2, d // 2))
    once = builders.exchangeable(-upper[1], upper[0], rho)
    return replace(
        once,
        lower=np.full(d, -np.inf),
        upper=upper.ravel(),
        cov=np.block([[once.cov, -once.cov], [-once.cov, once.cov]]),
    )


def reference(rng: Rng, d: int, stored: str) -> Problem:
    return builders.reference(stored)


def _wishart(rng: Rng, d: int) -> FloatArray:
    a = rng.normal(size=(d, d + 2))
    return a @ a.T
