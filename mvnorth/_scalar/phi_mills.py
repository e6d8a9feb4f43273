"""Phi and phi/Phi of one number together, in the form that products over many of them want.

R(z) = Phi(-z) exp(z**2/2) is a rational function N(z)/D(z) with positive coefficients, so with
g = exp(-z**2/2)

    Phi(x) = g N / D               phi/Phi = phi(0) D / N             for x <= 0,
    Phi(x) = (D - g N) / D         phi/Phi = phi(0) g D / (D - g N)   for x > 0,

and a product of many Phi needs no division at all: numerators and denominators are multiplied up
on their own.  One exponential, nineteen multiply-adds and one division a coordinate.
"""

import math

from numba import njit

from mvnorth._scalar.exp_log import FAST, exp_parts, exp_parts_short, power_of_two
from mvnorth._tables.normal import (
    RATIO_P,
    RATIO_Q,
    RATIO_Z_MAX,
    SHORT_P,
    SHORT_Q,
)

FAR = -50.0  # below it exp(-x**2/2) is better kept apart
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def _combine(x, z, f, k, n, d):
    """``(a, d, k, h, r, lost)`` from exp(-z**2/2) = f * 2**k and R(z) = n / d."""
    positive = x > 0.0
    g = f * power_of_two(k)
    upper = d - g * n
    inverse = 1.0 / (upper if positive else n)
    h = _INV_SQRT_2_PI * (g * d if positive else d) * inverse
    lost = ((d - upper) - g * n) * inverse
    return (
        upper if positive else f * n,
        d,
        0.0 if positive else k,
        h,
        (z if positive else -z) + h,
        lost if positive else 0.0,
    )


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def full(x: float) -> tuple[float, float, float, float, float, float]:
    """``(a, d, k, h, r, lost)``: Phi(x) = a (1 + lost) / d * 2**k, h = phi/Phi and r = x + h.

    ``lost`` is what rounding took from a factor near one, where the same rounding many times over
    would add up.  Relative error 7e-16 (1 + |log Phi|); |x| is cut off at RATIO_Z_MAX.
    """
    z = min(abs(x), RATIO_Z_MAX)
    f, k = exp_parts(-0.5 * z * z, 0.0)
    n = RATIO_P[0]
    d = RATIO_Q[0] * z + RATIO_Q[1]
    n = n * z + RATIO_P[1]
    d = d * z + RATIO_Q[2]
    n = n * z + RATIO_P[2]
    d = d * z + RATIO_Q[3]
    n = n * z + RATIO_P[3]
    d = d * z + RATIO_Q[4]
    n = n * z + RATIO_P[4]
    d = d * z + RATIO_Q[5]
    n = n * z + RATIO_P[5]
    d = d * z + RATIO_Q[6]
    n = n * z + RATIO_P[6]
    d = d * z + RATIO_Q[7]
    n = n * z + RATIO_P[7]
    d = d * z + RATIO_Q[8]
    n = n * z + RATIO_P[8]
    d = d * z + RATIO_Q[9]
    n = n * z + RATIO_P[9]
    d = d * z + RATIO_Q[10]
    return _combine(x, z, f, k, n, d)


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def short(x: float) -> tuple[float, float, float, float, float, float]:
    """Like ``full``, with a relative error of 5e-8."""
    z = min(abs(x), RATIO_Z_MAX)
    f, k = exp_parts_short(-0.5 * z * z)
    n = SHORT_P[0]
    d = SHORT_Q[0] * z + SHORT_Q[1]
    n = n * z + SHORT_P[1]
    d = d * z + SHORT_Q[2]
    n = n * z + SHORT_P[2]
    d = d * z + SHORT_Q[3]
    n = n * z + SHORT_P[3]
    d = d * z + SHORT_Q[4]
    n = n * z + SHORT_P[4]
    d = d * z + SHORT_Q[5]
    a, d, k, h, r, _ = _combine(x, z, f, k, n, d)
    return a, d, k, h, r, 0.0  # nobody pays for what is not needed


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def far(x: float) -> tuple[float, float]:
    """``(h, r)`` for x <= FAR / 2; Phi(x) exp(x**2/2) is phi(0) / h.

    Laplace's continued fraction, 1e-16 relative, for r too.
    """
    z = max(-x, 1.0)
    r = 1.0 / (z + 2.0 / (z + 3.0 / (z + 4.0 / (z + 5.0 / (z + 6.0 / z)))))
    return z + r, r
