"""Probabilities of three normal variables: one integral over the probabilities of two.

Given X_1 = y the other two are normal with means r_12 y and r_13 y, so that

    Pr = integral over y of phi(y) Pr(X_2, X_3 inside their limits | X_1 = y),

a log-concave function of y (Prekopa 1971), whose factor has relative accuracy in both tails
(``bivariate.py``); ``log_concave.py`` integrates it.
"""

import math

import numpy as np
from numba import njit

from mvnorth._scalar.bivariate import (
    EPS,
    INV_SQRT_2_PI,
    bivariate_box_parts,
    bivariate_log,
    bivariate_parts,
    conditional_interval,
    log_with_error,
    most_likely,
)
from mvnorth._scalar.exp_log import FAST, exp_parts, log_scaled
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.normal import Z_MAX, gauss_parts

DETERMINANT_MIN = 1e-18


@njit(error_model="numpy")
def _two_sum(a, b):
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(error_model="numpy")
def _two_product(a, b):
    product = a * b
    c, d = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = c - (c - a), d - (d - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


@njit(error_model="numpy")
def determinant(r_12, r_13, r_23):
    """1 - r_12**2 - r_13**2 - r_23**2 + 2 r_12 r_13 r_23 with an absolute error near 1e-32."""
    a, a_low = _two_product(r_12, r_12)
    b, b_low = _two_product(r_13, r_13)
    c, c_low = _two_product(r_23, r_23)
    product, product_low = _two_product(r_12, r_13)
    d, d_low = _two_product(product, r_23)
    total, e_1 = _two_sum(1.0, -a)
    total, e_2 = _two_sum(total, -b)
    total, e_3 = _two_sum(total, -c)
    total, e_4 = _two_sum(total, 2.0 * d)
    low = 2.0 * (d_low + product_low * r_23) - a_low - b_low - c_low
    return total + (e_1 + e_2 + e_3 + e_4 + low)


@njit(fastmath=FAST, error_model="numpy")
def _parts(p, t):
    """phi(y) Pr(X_2, X_3 inside their limits | y) / phi(y0), y = y0 + t."""
    y0, low_2, high_2, width_2, low_3, high_3, width_3, slope_2, slope_3, rho, s = p
    shift_2 = slope_2 * t
    shift_3 = slope_3 * t
    exponent = -t * (y0 + 0.5 * t)
    f, k = exp_parts(exponent, 0.0)
    if low_2 == -np.inf and low_3 == -np.inf:
        f_pair, k_pair = bivariate_parts(high_2 - shift_2, high_3 - shift_3, rho, s)
        error = 0.0
    else:
        f_pair, k_pair, error = bivariate_box_parts(
            low_2 - shift_2, high_2 - shift_2, width_2,
            low_3 - shift_3, high_3 - shift_3, width_3, rho, s,
        )  # fmt: skip
    error += EPS * (8.0 + abs(exponent) + abs(log_scaled(f_pair, k_pair)))
    return f * f_pair, k + k_pair, error


_integrate = log_concave_integrator(_parts)


@njit(fastmath=FAST, error_model="numpy")
def _sensitivity(p, t):
    """Relative change of ``_parts`` if the limits given y change by one part of themselves."""
    y0, low_2, high_2, width_2, low_3, high_3, width_3, slope_2, slope_3, rho, s = p
    f, k, _ = _parts(p, t)
    middle = log_scaled(f, k)
    delta = 1e-8 * (abs(y0 + t) + min(abs(low_2 - slope_2 * t), abs(high_2 - slope_2 * t)))
    p_2 = (y0, low_2 + delta, high_2 + delta, width_2, low_3, high_3, width_3,
           slope_2, slope_3, rho, s)  # fmt: skip
    f, k, _ = _parts(p_2, t)
    change = abs(log_scaled(f, k) - middle)
    delta = 1e-8 * (abs(y0 + t) + min(abs(low_3 - slope_3 * t), abs(high_3 - slope_3 * t)))
    p_3 = (y0, low_2, high_2, width_2, low_3 + delta, high_3 + delta, width_3,
           slope_2, slope_3, rho, s)  # fmt: skip
    f, k, _ = _parts(p_3, t)
    return 1e8 * (change + abs(log_scaled(f, k) - middle))


@njit(fastmath=FAST, error_model="numpy")
def trivariate_parts(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23):
    """``(f, power, error)`` with Pr(a < X < b) = f * 2**power, integrating over the first."""
    s_2 = math.sqrt((1.0 - r_12) * (1.0 + r_12))
    s_3 = math.sqrt((1.0 - r_13) * (1.0 + r_13))
    det = determinant(r_12, r_13, r_23)
    if not det > DETERMINANT_MIN:
        return np.nan, 0.0, np.inf
    s = math.sqrt(det) / (s_2 * s_3)
    product, product_low = _two_product(r_12, r_13)
    rho = ((r_23 - product) - product_low) / (s_2 * s_3)
    slope_2, slope_3 = r_12 / s_2, r_13 / s_3

    # Start from the most likely point of one of the two pairs, the likelier of them for all.
    y0 = 0.0
    step = 0.0
    best = np.inf
    for pair in range(2):
        if pair == 0:
            y = most_likely(a_1, b_1, a_2, b_2, r_12)
        else:
            y = most_likely(a_1, b_1, a_3, b_3, r_13)
        outside_2 = max((a_2 - r_12 * y) / s_2, 0.0) + min((b_2 - r_12 * y) / s_2, 0.0)
        outside_3 = max((a_3 - r_13 * y) / s_3, 0.0) + min((b_3 - r_13 * y) / s_3, 0.0)
        distance = y * y + outside_2 * outside_2 + outside_3 * outside_3
        if distance < best:
            best = distance
            y0 = y
            curvature = 1.0
            curvature += slope_2 * slope_2 if outside_2 != 0.0 else 0.0
            curvature += slope_3 * slope_3 if outside_3 != 0.0 else 0.0
            force = abs(y - slope_2 * outside_2 - slope_3 * outside_3)
            step = 1.0 / (force + math.sqrt(curvature))
    low_2, high_2, width_2 = conditional_interval(a_2, b_2, b_2 - a_2, y0, r_12, s_2)
    low_3, high_3, width_3 = conditional_interval(a_3, b_3, b_3 - a_3, y0, r_13, s_3)
    p = (y0, low_2, high_2, width_2, low_3, high_3, width_3, slope_2, slope_3, rho, s)
    left = a_1 - b_1 if y0 == b_1 else a_1 - y0
    f, k, error, mode = _integrate(p, left, b_1 - y0, 0.0, step)
    error += 4.0 * EPS * _sensitivity(p, mode)
    f_y, k_y = gauss_parts(min(abs(y0), Z_MAX))
    return f * f_y * INV_SQRT_2_PI, k + k_y, error


@njit(fastmath=FAST, error_model="numpy")
def trivariate_log(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23):
    """``(log_prob, rel_error)`` of Pr(a < X < b) for three variables, any limits.

    ``rel_error`` is infinite where the correlation matrix is singular.
    """
    if b_1 == np.inf:
        a_1, b_1, r_12, r_13 = -np.inf, -a_1, -r_12, -r_13
    if b_2 == np.inf:
        a_2, b_2, r_12, r_23 = -np.inf, -a_2, -r_12, -r_23
    if b_3 == np.inf:
        a_3, b_3, r_13, r_23 = -np.inf, -a_3, -r_13, -r_23
    # A variable without limits drops out.
    if b_1 == np.inf:
        return bivariate_log(a_2, b_2, a_3, b_3, r_23)
    if b_2 == np.inf:
        return bivariate_log(a_1, b_1, a_3, b_3, r_13)
    if b_3 == np.inf:
        return bivariate_log(a_1, b_1, a_2, b_2, r_12)
    # Integrate over the narrowest variable, then the one with the smallest limit: fewest panels.
    width_1, width_2, width_3 = b_1 - a_1, b_2 - a_2, b_3 - a_3
    narrow = min(width_1, width_2, width_3)
    limit_1 = b_1 if width_1 == narrow else np.inf
    limit_2 = b_2 if width_2 == narrow else np.inf
    limit_3 = b_3 if width_3 == narrow else np.inf
    if limit_2 <= limit_1 and limit_2 <= limit_3:
        a_1, b_1, a_2, b_2, a_3, b_3 = a_2, b_2, a_3, b_3, a_1, b_1
        r_12, r_13, r_23 = r_23, r_12, r_13
    elif limit_3 <= limit_1:
        a_1, b_1, a_2, b_2, a_3, b_3 = a_3, b_3, a_1, b_1, a_2, b_2
        r_12, r_13, r_23 = r_13, r_23, r_12
    f, power, error = trivariate_parts(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23)
    return log_with_error(f, power, error)
