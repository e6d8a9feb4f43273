"""Boxes of the multivariate t distribution with one common factor, by two trapezoidal rules.

T = X / R with X ~ N(0, diag(c) + v v^T) and df R^2 chi-squared. Given w = log R and the factor z
the coordinates are independent, so that the probability is the integral over w and z of

    p(w) phi(z) prod_i [Phi((r b_i - v_i z) / sqrt(c_i)) - Phi((r a_i - v_i z) / sqrt(c_i))],

with r = exp(w) and the limits a and b.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, logsumexp

from validation.oracles.one_dimension import EPS, LOG_SQRT_2PI, FloatArray, log_interval

_REACH = 8.6  # of z from its mode; the logarithm of the integrand has a curvature of one at least
_DROP = 38.0  # of the logarithm of the integrand in w, where it is cut
_SCAN = 200  # nodes that find where the integrand is not negligible
_LARGEST_STEP = 0.12  # of w: the density is analytic in a strip of half width pi / 4
_LEAST_NODES = 80
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def log_prob(
    lower: FloatArray, upper: FloatArray, c: FloatArray, v: FloatArray, df: float
) -> tuple[float, float]:
    """Return log Pr(lower <= T <= upper) and its error.

    Half the step squares the error of either rule at least, so that the error is the square of
    the difference from the rules with every second node, plus rounding.

    Parameters
    ----------
    lower, upper, c, v : (d,)
        Limits, variances of the independent parts (> 0), and loadings.
    df : float
        Degrees of freedom.
    """
    width = 1.0 / math.sqrt(2.0 * df)
    scan = np.linspace(-45.0 / df - 6.0, 12.0 * width + 1.0, _SCAN)
    heights = _log_density(scan, df) + _log_normal(scan, lower, upper, c, v)[0]
    above = np.flatnonzero(heights > heights.max() - _DROP)
    start, stop = scan[max(above[0] - 1, 0)], scan[min(above[-1] + 1, _SCAN - 1)]
    nodes = max(_LEAST_NODES, math.ceil((stop - start) / _LARGEST_STEP))
    w, step = np.linspace(start, stop, nodes, retstep=True)
    fine, coarse = (_log_density(w, df) + inner for inner in _log_normal(w, lower, upper, c, v))
    found = float(logsumexp(fine)) + math.log(step)
    other = float(logsumexp(coarse[::2])) + math.log(2.0 * step)
    return found, (found - other) ** 2 + EPS * (4.0 * abs(found) + 4.0 * df + 100.0)


def _log_density(w: FloatArray, df: float) -> FloatArray:
    """Return the logarithm of the density of w = log(chi / sqrt(df))."""
    constant = math.log(2.0) + 0.5 * df * math.log(0.5 * df) - float(gammaln(0.5 * df))
    return constant + df * (w - 0.5 * np.exp(2.0 * w))


def _log_normal(
    w: FloatArray, lower: FloatArray, upper: FloatArray, c: FloatArray, v: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log Pr(r lower <= X <= r upper) for every r = exp(w), and that of half the nodes."""
    scale, r = np.sqrt(c), np.exp(w)[:, None]

    def log_integrand(z: FloatArray) -> FloatArray:
        total = -0.5 * z * z - LOG_SQRT_2PI
        for low, high, loading, s in zip(lower, upper, v, scale, strict=True):
            total += log_interval((r * low - loading * z) / s, (r * high - loading * z) / s)
        return total

    # The integrand is at most exp(-z^2 / 2), and at its mode no less than at zero.
    reach = np.sqrt(-2.0 * log_integrand(np.zeros_like(r)))
    mode = _argmax(log_integrand, -reach, reach)
    step = 0.5 / math.sqrt(1.0 + float(np.sum(v * v / c)))
    count = 2 * math.ceil(_REACH / step / 2)
    values = log_integrand(mode + step * np.arange(-count, count + 1))
    fine = logsumexp(values, axis=1) + math.log(step)
    return fine, logsumexp(values[:, ::2], axis=1) + math.log(2.0 * step)


def _argmax(
    log_f: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray
) -> FloatArray:
    """Return where concave functions of one variable each are largest, by golden sections."""
    for _ in range(60):
        first, second = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        is_left = log_f(first) > log_f(second)
        low, high = np.where(is_left, low, first), np.where(is_left, second, high)
        if np.max(high - low) < 0.1:
            break
    return 0.5 * (low + high)
