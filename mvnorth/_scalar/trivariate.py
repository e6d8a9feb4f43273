"""Probabilities of three normal variables: one integral over probabilities of two.

Given X_1 = y the other two are normal with means r_12 y and r_13 y, so that

    P = integral over y of phi(y) Pr(X_2 and X_3 inside their limits | X_1 = y),

of a function that is log-concave in y (Prekopa 1971, Acta Sci. Math. 32).  ``bivariate.py`` gives
it with relative accuracy in every tail and ``log_concave.py`` integrates it.

Accuracy against 30-digit arithmetic: relative error 7e-16 (1 + |log P|) also for matrices close
to singular, as long as that loses no more: the estimate counts how much the probability moves
when the conditional limits are rounded.
"""

import math
from collections.abc import Callable

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.bivariate import (
    EPS,
    INV_SQRT_2_PI,
    bivariate_box_parts,
    bivariate_parts,
    conditional_interval,
    most_likely,
)
from mvnorth._scalar.exp_log import exp_parts, log_scaled
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.normal import Z_MAX, gauss_parts

DETERMINANT_MIN = 1e-18


@scalar()
def _two_sum(a, b):
    """``(sum, error)``, the error of rounding the sum exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@scalar()
def _two_product(a, b):
    """``(product, error)``, the error of rounding the product exactly (Dekker)."""
    product = a * b
    c, d = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = c - (c - a), d - (d - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


@scalar()
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


@scalar(FAST)
def _parts(p, t):
    """phi(y) Pr(X_2 and X_3 below their limits | y) / phi(y0), where y = y0 + t."""
    y0, _, high_2, _, _, high_3, _, slope_2, slope_3, rho, s = p
    exponent = -t * (y0 + 0.5 * t)
    f, k = exp_parts(exponent, 0.0)
    f_pair, k_pair = bivariate_parts(high_2 - slope_2 * t, high_3 - slope_3 * t, rho, s)
    error = EPS * (8.0 + abs(exponent) + abs(log_scaled(f_pair, k_pair)))
    return f * f_pair, k + k_pair, error


@scalar(FAST)
def _box_parts(p, t):
    """Like ``_parts``, X_2 and X_3 inside their limits."""
    y0, low_2, high_2, width_2, low_3, high_3, width_3, slope_2, slope_3, rho, s = p
    if low_2 == -np.inf and low_3 == -np.inf:
        return _parts(p, t)
    low_2, high_2 = low_2 - slope_2 * t, high_2 - slope_2 * t
    low_3, high_3 = low_3 - slope_3 * t, high_3 - slope_3 * t
    exponent = -t * (y0 + 0.5 * t)
    f, k = exp_parts(exponent, 0.0)
    f_pair, k_pair, error = bivariate_box_parts(
        low_2, high_2, width_2, low_3, high_3, width_3, rho, s
    )
    error += EPS * (8.0 + abs(exponent) + abs(log_scaled(f_pair, k_pair)))
    return f * f_pair, k + k_pair, error


@scalar(FAST)
def _outside(a, b, y, rho, s):
    """How far, in standard deviations and with its sign, a < X < b is from the mean given y."""
    return max((a - rho * y) / s, 0.0) + min((b - rho * y) / s, 0.0)


def _compile_integral(parts: Callable) -> tuple[Callable, Callable]:
    """Compile ``integral_parts`` and ``sorted_parts`` for the function ``parts``."""
    integrate = log_concave_integrator(parts)

    @scalar(FAST)
    def sensitivity(p, t):
        """Relative change of ``parts`` per relative change of the limits that it takes."""
        y0, low_2, high_2, width_2, low_3, high_3, width_3, slope_2, slope_3, rho, s = p
        near_2 = min(abs(low_2 - slope_2 * t), abs(high_2 - slope_2 * t))
        near_3 = min(abs(low_3 - slope_3 * t), abs(high_3 - slope_3 * t))
        step_2 = 1e-8 * (abs(y0 + t) + near_2) if near_2 < np.inf else 0.0
        step_3 = 1e-8 * (abs(y0 + t) + near_3) if near_3 < np.inf else 0.0
        change = 0.0
        middle = 0.0
        for moved in range(3):
            d_2 = step_2 if moved == 1 else 0.0
            d_3 = step_3 if moved == 2 else 0.0
            f, k, _ = parts(
                (y0, low_2 + d_2, high_2 + d_2, width_2, low_3 + d_3, high_3 + d_3, width_3,
                 slope_2, slope_3, rho, s), t,
            )  # fmt: skip
            value = log_scaled(f, k)
            middle = value if moved == 0 else middle
            change += abs(value - middle)
        return 1e8 * change

    @scalar(FAST)
    def integral_parts(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23):
        """``(f, power, error)`` with Pr(a < X < b) = f * 2**power, integrating over the first.

        ``error`` estimates the relative error; it is infinite if the matrix is singular.
        """
        det = determinant(r_12, r_13, r_23)
        if not det > DETERMINANT_MIN:
            return np.nan, 0.0, np.inf
        s_2 = math.sqrt((1.0 - r_12) * (1.0 + r_12))
        s_3 = math.sqrt((1.0 - r_13) * (1.0 + r_13))
        s = math.sqrt(det) / (s_2 * s_3)
        product, product_low = _two_product(r_12, r_13)
        rho = ((r_23 - product) - product_low) / (s_2 * s_3)
        slope_2, slope_3 = r_12 / s_2, r_13 / s_3

        # Begin at the most likely point of one of the pairs, whichever is likelier for all three.
        y0 = most_likely(a_1, b_1, a_2, b_2, r_12)
        y = most_likely(a_1, b_1, a_3, b_3, r_13)
        out_2, out_3 = _outside(a_2, b_2, y0, r_12, s_2), _outside(a_3, b_3, y0, r_13, s_3)
        new_2, new_3 = _outside(a_2, b_2, y, r_12, s_2), _outside(a_3, b_3, y, r_13, s_3)
        if y * y + new_2 * new_2 + new_3 * new_3 < y0 * y0 + out_2 * out_2 + out_3 * out_3:
            y0, out_2, out_3 = y, new_2, new_3
        curvature = 1.0
        curvature += slope_2 * slope_2 if out_2 != 0.0 else 0.0
        curvature += slope_3 * slope_3 if out_3 != 0.0 else 0.0
        step = 1.0 / (abs(y0 - slope_2 * out_2 - slope_3 * out_3) + math.sqrt(curvature))

        low_2, high_2, width_2 = conditional_interval(a_2, b_2, b_2 - a_2, y0, r_12, s_2)
        low_3, high_3, width_3 = conditional_interval(a_3, b_3, b_3 - a_3, y0, r_13, s_3)
        p = (y0, low_2, high_2, width_2, low_3, high_3, width_3, slope_2, slope_3, rho, s)
        f, k, error, mode, _ = integrate(p, a_1 - y0, b_1 - y0, 0.0, step)
        error += 4.0 * EPS * sensitivity(p, mode)
        f_y, k_y = gauss_parts(min(abs(y0), Z_MAX))
        return f * f_y * INV_SQRT_2_PI, k + k_y, error

    @scalar(FAST)
    def sorted_parts(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23):
        """Like ``integral_parts``, over the variable that takes fewest panels."""
        # That is the one with the narrowest interval; of equal ones with the smallest limit.
        narrow = min(b_1 - a_1, b_2 - a_2, b_3 - a_3)
        limit_1 = b_1 if b_1 - a_1 == narrow else np.inf
        limit_2 = b_2 if b_2 - a_2 == narrow else np.inf
        limit_3 = b_3 if b_3 - a_3 == narrow else np.inf
        if limit_2 <= limit_1 and limit_2 <= limit_3:
            a_1, b_1, a_2, b_2, a_3, b_3 = a_2, b_2, a_3, b_3, a_1, b_1
            r_12, r_13, r_23 = r_23, r_12, r_13
        elif limit_3 <= limit_1:
            a_1, b_1, a_2, b_2, a_3, b_3 = a_3, b_3, a_1, b_1, a_2, b_2
            r_12, r_13, r_23 = r_13, r_23, r_12
        return integral_parts(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23)

    return integral_parts, sorted_parts


# One-sided, and with a box.  Variables with a single limit have an upper one.
integral_parts, trivariate_parts = _compile_integral(_parts)
_, trivariate_box_parts = _compile_integral(_box_parts)
