"""Two and three variables: against 40-digit arithmetic, closed forms and sums over parts."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numba import njit

from mvnorth._cpu import closed_form
from mvnorth._precompute import quadrature
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.trivariate import determinant, trivariate_parts
from mvnorth._tables.quadrature import NODES, PANEL_NODES, PANEL_SERIES, PANEL_WEIGHTS, WEIGHTS
from validation.oracles.exact import one_factor_logprob, trivariate_prob

INF = math.inf
DIGITS = 40
KERNELS = {1: closed_form.univariate, 2: closed_form.bivariate, 3: closed_form.trivariate}


def solve(lower, upper, corr):
    """``(log_prob, rel_error)`` of a batch: limits (B, d), correlations (B, d(d-1)/2)."""
    lower, upper = np.atleast_2d(lower).astype(float), np.atleast_2d(upper).astype(float)
    size, d = upper.shape
    lower = np.ascontiguousarray(np.broadcast_to(lower, upper.shape))
    corr = np.ascontiguousarray(np.broadcast_to(np.atleast_2d(corr), (size, d * (d - 1) // 2)))
    log_prob, rel_error = np.full(size, np.nan), np.full(size, np.nan)
    KERNELS[d](lower, upper, corr.astype(float), log_prob, rel_error)
    assert (rel_error >= 1e-15).all()
    return log_prob, rel_error


def below(upper, corr):
    """``solve`` for one-sided limits."""
    return solve(-INF, upper, corr)


def exact_bivariate(h, k, rho):
    """Pr(X <= h, Y <= k), from |rho| = 1 down by Plackett's d Phi2/d rho = phi2, rho = cos(u)."""
    if math.isinf(h) or math.isinf(k):
        return mpmath.ncdf(min(h, k))
    digits = DIGITS
    while True:
        with mpmath.workdps(digits):
            h, k = mpf(h), mpf(k)
            sign = 1 if rho > 0 else -1
            start = mpmath.ncdf(min(h, k)) if rho > 0 else mpf(0)
            if rho <= 0 and h > -k:
                start = mpmath.ncdf(h) - mpmath.ncdf(-k)
            end = 2 * mpmath.asin(mpmath.sqrt((1 - abs(mpf(rho))) / 2))
            prob = start
            if end > 0:
                prob -= sign * _plackett(h, sign * k, sign, end)
            if prob > start * mpf(10) ** (DIGITS // 2 - digits):
                return prob
        digits *= 2


def _plackett(h, k, sign, end):
    def log_density(u):
        return -((h - k) ** 2 + 4 * h * k * mpmath.sin(u / 2) ** 2) / (2 * mpmath.sin(u) ** 2)

    points = [mpf(0), end]
    u = abs(h - k) / 16
    while 0 < u < end:
        points.insert(-1, u)
        u *= 2
    top = max(log_density(u) for u in points[1:])
    total = mpmath.quad(lambda u: mpmath.exp(log_density(u) - top) if u else mpf(0), points)
    return total * mpmath.exp(top) / (2 * mpmath.pi)


def exact_box(lower, upper, rho):
    """Pr(lower < (X, Y) < upper) by inclusion and exclusion, in 4 * DIGITS digits."""
    with mpmath.workdps(4 * DIGITS):
        total = mpf(0)
        for x, s in ((upper[0], 1), (lower[0], -1)):
            for y, t in ((upper[1], 1), (lower[1], -1)):
                if x > -INF and y > -INF:
                    total += s * t * exact_bivariate_digits(x, y, rho)
        return total


def exact_bivariate_digits(h, k, rho):
    """``exact_bivariate`` at the digits of the context."""
    global DIGITS
    old, DIGITS = DIGITS, mpmath.mp.dps
    try:
        return exact_bivariate(h, k, rho)
    finally:
        DIGITS = old
