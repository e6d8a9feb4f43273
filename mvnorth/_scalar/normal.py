"""Phi and its inverse for one number, in the forms that the kernels use.

The lower tail is written Phi(-z) = exp(-z**2/2) R(z); R is a polynomial in (z-4)/(z+4)
divided by z+4, with relative accuracy for z from 0 to infinity.  The inverse is
y**2 = w G(w) with w = -log(4p(1-p)): one rational function where others need three pieces.
Both forms, and their coefficients, are ours; ``_precompute/normal.py`` generates them.
"""

import math

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.exp_log import (
    exp_parts,
    log_parts,
    log_scaled,
    power_of_two,
    scale_by_power,
    split_mantissa,
)
from mvnorth._scalar.instructions import polynomial
from mvnorth._tables.normal import QUANTILE_P, QUANTILE_Q, TAIL, TAIL_SHIFT

# Beyond this a square no longer fits exp_parts; Phi(-4e7) is exp(-8e14).
Z_MAX = 4.0e7
_LOG_Z_MAX = 1e300  # tail_ratio is still a normal number
_SNAP = 6755399441055744.0 / 256.0  # rounds to multiples of 1/256, whose squares are exact
_LOG_4 = math.log(4.0)
_LOG_4_PI = math.log(4.0 * math.pi)
_SQRT_2_PI = math.sqrt(2.0 * math.pi)
_INV_SQRT_2_PI = 1.0 / _SQRT_2_PI
_tail = polynomial(TAIL)
_quantile_p, _quantile_q = polynomial(QUANTILE_P), polynomial(QUANTILE_Q)


@scalar(FAST, forceinline=True)
def tail_ratio(z: float) -> float:
    """R(z) = Phi(-z) exp(z**2/2) for z >= 0; 7e-16 relative for z <= 8, 1e-15 beyond."""
    inverse = 1.0 / (z + TAIL_SHIFT)
    t = (z - TAIL_SHIFT) * inverse
    return (0.5 * TAIL_SHIFT + 2.0 * (z * inverse) * _tail(t)) * inverse  # 1 + t = 2z/(z + 4)


@scalar(FAST, forceinline=True)
def gauss_parts(z: float) -> tuple[float, float]:
    """``(f, k)`` with exp(-z**2/2) = f * 2**k, for 0 <= z <= Z_MAX."""
    head = (z + _SNAP) - _SNAP
    return exp_parts(-0.5 * head * head, -0.5 * (z - head) * (z + head))


@scalar(FAST, forceinline=True)
def ndtr_parts(x: float) -> tuple[float, float]:
    """``(f, k)`` with Phi(x) = f * 2**k; k = 0 for x > 0."""
    z = Z_MAX if abs(x) > Z_MAX else abs(x)
    f, k = gauss_parts(z)
    f = f * tail_ratio(z)
    upper = 1.0 - f * power_of_two(k)
    positive = x > 0.0
    return (upper if positive else f), (0.0 if positive else k)


@scalar(FAST, forceinline=True)
def log_ndtr(x: float) -> float:
    """log Phi(x) for any x but NaN; 1e-15 relative."""
    z = _LOG_Z_MAX if abs(x) > _LOG_Z_MAX else abs(x)
    ratio = tail_ratio(z)
    negative = log_scaled(ratio, 0.0) - 0.5 * z * z
    f, k = gauss_parts(Z_MAX if z > Z_MAX else z)
    q = scale_by_power(f * ratio, k)  # Phi(-z)
    m, power = split_mantissa(1.0 - q)
    near_one = q < 0.25
    positive = log_parts(-q if near_one else m - 1.0, 0.0 if near_one else power)
    return positive if x > 0.0 else negative


@scalar(FAST, forceinline=True)
def mills(x: float) -> float:
    """phi(x)/Phi(x) for any x but NaN; 1e-15 relative."""
    z = _LOG_Z_MAX if abs(x) > _LOG_Z_MAX else abs(x)
    ratio = tail_ratio(z)
    f, k = gauss_parts(Z_MAX if z > Z_MAX else z)
    positive = scale_by_power(f * _INV_SQRT_2_PI, k) / (1.0 - f * ratio * power_of_two(k))
    value = positive if x > 0.0 else _INV_SQRT_2_PI / ratio
    return -x if x < -1e16 else value  # -x - 1/x + ..., to rounding


@scalar(FAST, forceinline=True)
def quantile_w(p: float, k: float) -> tuple[float, float]:
    """``(q, w)`` for the probability P = p * 2**k in (0, 1): q = P - 1/2, w = -log(4P(1-P))."""
    probability = p * power_of_two(k)
    q = probability - 0.5
    m, power = split_mantissa(4.0 * p * (1.0 - probability))
    # Near P = 1/2 the logarithm is that of 1 - 4q**2, which must not be rounded first.
    central = abs(q) < 0.25
    f = -4.0 * q * q if central else m - 1.0
    total = 0.0 if central else power + k
    return q, -log_parts(f, total)


@scalar(FAST, forceinline=True)
def quantile_central(q: float, w: float) -> float:
    """y with Phi(y) = 1/2 + q, from ``quantile_w``; for w <= QUANTILE_W_MAX."""
    return math.copysign(math.sqrt(w * _quantile_p(w) / _quantile_q(w)), q)


@scalar(FAST, forceinline=True)
def quantile_tail(q: float, w: float) -> float:
    """Like ``quantile_central``, for w > QUANTILE_W_MAX: Newton's method on log Phi.

    The start errs by less than 0.01, each step squares the error and divides it by 2|y|.
    """
    target = w + _LOG_4  # -log of the smaller side; the other side is 1 to rounding
    z = math.sqrt(2.0 * target - _LOG_4_PI - log_scaled(target, 0.0))
    for _ in range(3):
        ratio = tail_ratio(z)
        z += (target - 0.5 * z * z + log_scaled(ratio, 0.0)) * ratio * _SQRT_2_PI
    return math.copysign(z, q)


@scalar(FAST, forceinline=True)
def interval_parts(low: float, high: float) -> tuple[float, float, float, float]:
    """Phi(high) - Phi(low) without cancellation, for low <= high.

    ``(base, width, k, sign)``: the probability is width * 2**k, and the point that cuts off a
    share u of it is sign * Phi^-1((base + u * width) * 2**k), u counted from the side of the
    smaller tail.
    """
    reflect = low + high > 0.0
    a = -high if reflect else low
    b = -low if reflect else high
    f_high, k = ndtr_parts(b)
    f_low, k_low = ndtr_parts(a)
    base = f_low * power_of_two(k_low - k)
    # A narrow interval: the density at its middle times its width, to fourth order.
    delta = b - a
    middle = 0.5 * (a + b)
    z = Z_MAX if abs(middle) > Z_MAX else abs(middle)
    f, k_middle = gauss_parts(z)
    narrow = f * power_of_two(k_middle - k) * (_INV_SQRT_2_PI * delta)
    narrow *= 1.0 + (z * z - 1.0) * (delta * delta) * (1.0 / 24.0)
    width = narrow if delta * (1.0 + z) < 1e-3 else f_high - base
    return base, width, k, (-1.0 if reflect else 1.0)
