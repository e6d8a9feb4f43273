"""Botev's minimax exponential tilting as published, in plain numpy and scipy.

Botev (2017, J. R. Stat. Soc. B 79, 125-148): the order of Gibson, Glasbey & Elston (1994), the
saddle point of psi from its 2(d - 1) equations, and the mean of exp(psi) over scrambled Sobol'
points.  Works for any box and any positive definite covariance; nothing comes from mvnorth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import root
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import qmc

from validation.oracles.one_dimension import LOG_SQRT_2PI, FloatArray, log_interval

BLOCK = 2**11  # points at a time: what they need fits into a cache


class Ordered(NamedTuple):
    """A box in the order of integration, rows divided by the diagonal of the Cholesky factor.

    Attributes
    ----------
    lower, upper : (d,)
    below : (d, d)
        The factor without its unit diagonal.
    """

    lower: FloatArray
    upper: FloatArray
    below: FloatArray


class Saddle(NamedTuple):
    """Where psi has its saddle point, and its value there: an upper bound on log P.

    Attributes
    ----------
    x, mu : (d,)
    log_bound : float
    residual : float
        Largest absolute value of the equations.
    """

    x: FloatArray
    mu: FloatArray
    log_bound: float
    residual: float


class Estimate(NamedTuple):
    """log P, three standard errors of it, the bound, and the effective share of the points."""

    log_prob: float
    log_error: float
    log_bound: float
    effective: float


def order(lower: ArrayLike, upper: ArrayLike, cov: ArrayLike, *, sort: bool = True) -> Ordered:
    """Next comes the coordinate with the smallest probability given the means of those before.

    Parameters
    ----------
    lower, upper : (d,)
    cov : (d, d)
        Positive definite.
    sort : bool
        False keeps the order given.
    """
    cov = np.array(cov, dtype=np.float64)
    d = len(cov)
    low, high = (np.array(np.broadcast_to(a, d), dtype=np.float64) for a in (lower, upper))
    L = np.zeros((d, d))
    y = np.zeros(d)
    for j in range(d):
        mean = L[j:, :j] @ y[:j]
        sd = np.sqrt(np.diag(cov)[j:] - np.sum(L[j:, :j] ** 2, axis=1))
        k = j
        if sort:
            k += int(np.argmin(log_interval((low[j:] - mean) / sd, (high[j:] - mean) / sd)))
        for a in (cov, cov.T, L, low, high):
            a[[j, k]] = a[[k, j]]
        L[j, j] = np.sqrt(cov[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (cov[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
        shift = L[j, :j] @ y[:j]
        a, b = (low[j] - shift) / L[j, j], (high[j] - shift) / L[j, j]
        left, right = _densities(a, b)
        y[j] = left - right
    diagonal = np.diag(L).copy()
    return Ordered(low / diagonal, high / diagonal, L / diagonal[:, None] - np.eye(d))


def _densities(low: ArrayLike, high: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """phi(low) and phi(high), each over Phi(high) - Phi(low)."""
    log_prob = log_interval(low, high) + LOG_SQRT_2PI
    left = np.exp(-(np.asarray(low) ** 2) / 2 - log_prob)
    right = np.exp(-(np.asarray(high) ** 2) / 2 - log_prob)
    return left, right


def psi(ordered: Ordered, x: FloatArray, mu: FloatArray) -> float:
    """The logarithm of a weight (Botev's equation 7)."""
    mean = mu + ordered.below @ x
    terms = log_interval(ordered.lower - mean, ordered.upper - mean)
    return float(np.sum(terms + mu**2 / 2 - x * mu))


def saddle_point(ordered: Ordered) -> Saddle:
    """Zero of the gradient of psi in x and mu, whose last entries are zero."""
    lower, upper, below = ordered
    d = len(below)
    N = below[:, : d - 1]
    one = np.eye(d - 1)

    def equations(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        x, mu = z[: d - 1], z[d - 1 :]
        mean = np.append(mu, 0.0) + N @ x
        left, right = _densities(lower - mean, upper - mean)
        slope = left - right
        curve = -(slope**2)
        for limit, density, sign in ((lower, left, 1.0), (upper, right, -1.0)):
            finite = np.isfinite(limit)
            curve[finite] += sign * (limit - mean)[finite] * density[finite]
        bent = curve[:, None] * N
        jacobian = np.block([[N.T @ bent, bent[:-1].T - one], [bent[:-1] - one, one]])
        jacobian[d - 1 :, d - 1 :] += np.diag(curve[:-1])
        return np.concatenate([N.T @ slope - mu, mu - x + slope[:-1]]), jacobian

    z = root(equations, np.zeros(2 * (d - 1)), jac=True, options={"xtol": 1e-12}).x
    x, mu = np.append(z[: d - 1], 0.0), np.append(z[d - 1 :], 0.0)
    residual = float(np.max(np.abs(equations(z)[0]), initial=0.0))
    return Saddle(x, mu, psi(ordered, x, mu), residual)


def log_weights(ordered: Ordered, mu: FloatArray, u: FloatArray) -> FloatArray:
    """psi at the points that u, (n, d - 1) or more columns, stands for; (n,)."""
    d = len(mu)
    total = np.zeros(len(u))
    x = np.empty((d, len(u)))
    for k in range(d):
        mean = mu[k] + ordered.below[k, :k] @ x[:k]
        low, high = ordered.lower[k] - mean, ordered.upper[k] - mean
        log_prob, draw = _draw(low, high, u[:, min(k, d - 2)])
        total += log_prob + mu[k] ** 2 / 2
        if k < d - 1:
            x[k] = mu[k] + draw
            total -= mu[k] * x[k]
    return total


def _draw(low: FloatArray, high: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logs of the probabilities between limits, and quantiles of normals cut to them."""
    flip = low + high > 0  # so that the interval lies to the left or around zero
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    u = np.where(flip, 1.0 - u, u)
    left = ndtr(low)
    width = ndtr(high) - left
    far = (high < -20.0) | (width < 1e-6 * left)
    with np.errstate(divide="ignore"):
        log_prob, out = np.log(width), ndtri(left + u * width)
    if far.any():
        low, high, u = low[far], high[far], u[far]
        below = np.exp(log_ndtr(low) - log_ndtr(high))
        log_prob[far] = log_interval(low, high)
        out[far] = ndtri_exp(log_ndtr(high) + np.log(below + u * (1.0 - below)))
    return log_prob, np.where(flip, -out, out)


def logprob(
    lower: ArrayLike,
    upper: ArrayLike,
    cov: ArrayLike,
    points: int = 2**10,
    replicates: int = 12,
    seed: int = 0,
) -> Estimate:
    """log Pr(lower <= X <= upper) for X ~ N(0, cov).

    Parameters
    ----------
    lower, upper : (d,)
    cov : (d, d)
        Positive definite.
    points : int
        Sobol' points a replicate, a power of two.
    replicates : int
        Independent scramblings, at least two.
    seed : int
    """
    ordered = order(lower, upper, cov)
    saddle = saddle_point(ordered)
    rng = np.random.default_rng(seed)
    means, squares = np.empty(replicates), np.empty(replicates)
    for r in range(replicates):
        sobol = qmc.Sobol(max(1, len(saddle.mu) - 1), rng=rng)
        parts = []
        for first in range(0, points, BLOCK):
            u = np.clip(sobol.random(min(BLOCK, points - first)), 1e-16, 1.0 - 1e-16)
            parts.append(np.exp(log_weights(ordered, saddle.mu, u) - saddle.log_bound))
        weights = np.concatenate(parts)
        means[r], squares[r] = weights.mean(), np.mean(weights**2)
    mean = float(means.mean())
    error = 3 * float(means.std(ddof=1) / np.sqrt(replicates)) / mean
    log_prob = saddle.log_bound + float(np.log(mean))
    return Estimate(log_prob, error, saddle.log_bound, mean**2 / float(squares.mean()))
