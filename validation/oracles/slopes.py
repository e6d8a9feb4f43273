"""Derivatives of log Pr(lower <= X <= upper), X ~ N(0, cov), that owe nothing to mvnorth.

With one common factor by a fine trapezoid in float64, for two and three coordinates in closed form
to 40 digits (densities at the limits times probabilities of the others: Plackett 1954), and for
anything that has a value by differences of the fourth order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from validation.oracles import exact
from validation.oracles.one_dimension import LOG_SQRT_2PI, FloatArray, log_interval

NODES = 4001
HALF_WIDTH = 13.0  # the integrand falls at least as phi does: exp(-84) is left out


class Slopes(NamedTuple):
    """First derivatives of log P.

    Attributes
    ----------
    lower, upper : (d,)
        Zero where a limit is infinite.
    cov : (d, d)
        The symmetric G with d log P = sum_ij G_ij d cov_ij over all i and j.
    """

    lower: FloatArray
    upper: FloatArray
    cov: FloatArray


def one_factor(lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: ArrayLike) -> Slopes:
    """For cov = diag(c) + v v^T, c not much below v^2.

    Given the factor z the coordinates are independent, and each derivative is a mean over z with
    the weights phi(z) prod_i e_i(z), e_i = Phi(b_i) - Phi(a_i).

    Parameters
    ----------
    lower, upper, c, v : (d,)

    Returns
    -------
    Slopes
    """
    low, high, own, load = (np.asarray(x, dtype=np.float64) for x in (lower, upper, c, v))
    scale = np.sqrt(own)

    def logs(z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        a, b = ((limit - z[:, None] * load) / scale for limit in (low, high))
        each = log_interval(a, b)
        return a, b, each, each.sum(axis=1) - z**2 / 2

    def fall(z: float) -> float:
        return -float(logs(np.array([z]))[3][0])

    mode = float(minimize_scalar(fall, bracket=(-1.0, 1.0)).x)
    z = np.linspace(mode - HALF_WIDTH, mode + HALF_WIDTH, NODES)
    a, b, each, log_f = logs(z)
    weight = np.exp(log_f - log_f.max())
    weight /= weight.sum()
    at_low, at_high = (np.exp(-(x**2) / 2 - LOG_SQRT_2PI - each) / scale for x in (a, b))
    slope = at_low - at_high  # of log e_i in the mean of X_i
    cov = 0.5 * (slope * weight[:, None]).T @ slope
    # The second derivative of e_i in that mean, over e_i; infinite limits have no part in it.
    curve = sum(
        sign * np.where(np.isfinite(x), x, 0.0) * density
        for sign, x, density in ((1.0, a, at_low), (-1.0, b, at_high))
    )
    np.fill_diagonal(cov, 0.5 * weight @ (curve / scale))
    return Slopes(-weight @ at_low, weight @ at_high, cov)


def few(upper: ArrayLike, cov: ArrayLike) -> Slopes:
    """For an orthant of two or three coordinates, from 40 digits.

    Parameters
    ----------
    upper : (d,)
        Finite.
    cov : (d, d)
        Positive definite.

    Returns
    -------
    Slopes
    """
    with mpmath.workdps(exact.DIGITS):
        b = [mpf(float(x)) for x in np.asarray(upper)]
        sigma = [[mpf(float(x)) for x in row] for row in np.asarray(cov)]
        d = len(b)
        prob = _orthant(b, sigma)
        slope = [_density([b[i]], [[sigma[i][i]]]) * _given(b, sigma, [i]) / prob for i in range(d)]
        G = [[mpf(0)] * d for _ in range(d)]
        for i in range(d):
            for j in range(i):
                pair = [[sigma[k][n] for n in (i, j)] for k in (i, j)]
                density = _density([b[i], b[j]], pair) * _given(b, sigma, [i, j])
                G[i][j] = G[j][i] = density / prob / 2
        for i in range(d):  # P does not change with the units of a coordinate
            others = mpmath.fsum(G[i][j] * sigma[i][j] for j in range(d) if j != i)
            G[i][i] = -(2 * others + b[i] * slope[i]) / (2 * sigma[i][i])
        return Slopes(np.zeros(d), np.array(slope, float), np.array(G, float))


def differences(value: Callable[[FloatArray], float], x: ArrayLike, steps: ArrayLike) -> FloatArray:
    """Central differences of the fourth order in every finite entry of x; zero in the others.

    Parameters
    ----------
    value : callable
    x : (d,)
    steps : float or (d,)

    Returns
    -------
    (d,)
    """
    at = np.asarray(x, dtype=np.float64)
    found = np.zeros(at.size)
    for i, step in enumerate(np.broadcast_to(np.asarray(steps, dtype=np.float64), at.shape)):
        if np.isfinite(at[i]):
            unit = step * (np.arange(at.size) == i)
            near = value(at + unit) - value(at - unit)
            far = value(at + 2 * unit) - value(at - 2 * unit)
            found[i] = (8 * near - far) / (12 * step)
    return found


Numbers = Sequence[mpf]


def _orthant(b: Numbers, sigma: Sequence[Numbers]) -> mpf:
    """Pr(X <= b) for up to three coordinates; one for none."""
    sd = [mpmath.sqrt(sigma[i][i]) for i in range(len(b))]
    x = [bi / s for bi, s in zip(b, sd, strict=True)]
    if len(x) < 2:
        return exact.ndtr(x[0]) if x else mpf(1)
    corr = [[sigma[i][j] / (sd[i] * sd[j]) for j in range(len(x))] for i in range(len(x))]
    if len(x) == 2:
        return exact.bivariate_prob(x[0], x[1], corr[0][1])
    return exact.trivariate_prob(x, corr)


def _density(x: Numbers, sigma: Sequence[Numbers]) -> mpf:
    """The density of one or two coordinates at x."""
    matrix, point = mpmath.matrix(sigma), mpmath.matrix(x)
    square = (point.T * mpmath.inverse(matrix) * point)[0]
    return mpmath.exp(-square / 2) / mpmath.sqrt(mpmath.det(2 * mpmath.pi * matrix))


def _given(b: Numbers, sigma: Sequence[Numbers], at: list[int]) -> mpf:
    """Pr(the others <= their limits), given that those of ``at`` are at theirs."""
    others = [i for i in range(len(b)) if i not in at]
    if not others:
        return mpf(1)
    inverse = mpmath.inverse(mpmath.matrix([[sigma[i][j] for j in at] for i in at]))
    cross = mpmath.matrix([[sigma[i][j] for j in at] for i in others])
    mean = cross * inverse * mpmath.matrix([b[i] for i in at])
    less = cross * inverse * cross.T
    limits = [b[i] - mean[k] for k, i in enumerate(others)]
    left = [[sigma[i][j] - less[k, n] for n, j in enumerate(others)] for k, i in enumerate(others)]
    return _orthant(limits, left)
