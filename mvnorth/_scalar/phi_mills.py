"""Phi and phi/Phi of one number together, in the form that products over many of them want.

R(z) = Phi(-z) exp(z**2/2) is a rational function N(z)/D(z) with positive coefficients, so with
g = exp(-z**2/2)

    Phi(x) = g N / D               phi/Phi = phi(0) D / N             for x <= 0,
    Phi(x) = (D - g N) / D         phi/Phi = phi(0) g D / (D - g N)   for x > 0,

and a product of many Phi needs no division at all: numerators and denominators are multiplied up
on their own.  One exponential, nineteen multiply-adds and one division a coordinate.
"""

import math

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.exp_log import exp_parts, exp_parts_short, power_of_two
from mvnorth._scalar.instructions import polynomial
from mvnorth._tables.normal import (
    RATIO_P,
    RATIO_Q,
    RATIO_Z_MAX,
    SHORT_P,
    SHORT_Q,
)

FAR = -50.0  # below it exp(-x**2/2) is better kept apart
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
_ratio_p, _ratio_q = polynomial(RATIO_P), polynomial(RATIO_Q)
_short_p, _short_q = polynomial(SHORT_P), polynomial(SHORT_Q)


@scalar(FAST, forceinline=True)
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


@scalar(FAST, forceinline=True)
def full(x: float) -> tuple[float, float, float, float, float, float]:
    """``(a, d, k, h, r, lost)``: Phi(x) = a (1 + lost) / d * 2**k, h = phi/Phi and r = x + h.

    ``lost`` is what rounding took from a factor near one, where the same rounding many times over
    would add up.  Relative error 7e-16 (1 + |log Phi|); |x| is cut off at RATIO_Z_MAX.
    """
    z = RATIO_Z_MAX if abs(x) > RATIO_Z_MAX else abs(x)
    f, k = exp_parts(-0.5 * z * z, 0.0)
    return _combine(x, z, f, k, _ratio_p(z), _ratio_q(z))


@scalar(FAST, forceinline=True)
def short(x: float) -> tuple[float, float, float, float, float, float]:
    """Like ``full``, with a relative error of 5e-8."""
    z = RATIO_Z_MAX if abs(x) > RATIO_Z_MAX else abs(x)
    f, k = exp_parts_short(-0.5 * z * z)
    a, d, k, h, r, _ = _combine(x, z, f, k, _short_p(z), _short_q(z))
    return a, d, k, h, r, 0.0  # nobody pays for what is not needed


@scalar(FAST, forceinline=True)
def far(x: float) -> tuple[float, float]:
    """``(h, r)`` for x <= FAR / 2; Phi(x) exp(x**2/2) is phi(0) / h.

    Laplace's continued fraction, 1e-16 relative, for r too.
    """
    z = 1.0 if -x < 1.0 else -x
    r = 1.0 / (z + 2.0 / (z + 3.0 / (z + 4.0 / (z + 5.0 / (z + 6.0 / z)))))
    return z + r, r
