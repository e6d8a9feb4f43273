"""exp and log in the pieces that kernels want: a mantissa and a power of two kept apart.

A product of many probabilities underflows long before its logarithm is large, so kernels
carry ``value * 2**power`` and never lose it.  Accuracy: 2e-16 relative (measured in the
tests of ``mvnorth.special``).
"""

import math

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.bits import bits_float, float_bits
from mvnorth._scalar.instructions import polynomial
from mvnorth._tables.normal import EXP, EXP_SHORT, LOG

_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding and subtracting it rounds to an integer
LOG2_HIGH = 0.6931471803691238  # log(2) cut to 32 bits, so that k * LOG2_HIGH is exact
LOG2_LOW = 1.9082149292705877e-10
_INV_LOG2 = 1.0 / math.log(2.0)
_ROUND_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_ONE_BITS = 0x3FF0000000000000
LOG2 = math.log(2.0)
_exp, _exp_short, _log = polynomial(EXP), polynomial(EXP_SHORT), polynomial(LOG)


@scalar(FAST, forceinline=True)
def exp_parts(high: float, low: float) -> tuple[float, float]:
    """``(f, k)`` with exp(high + low) = f * 2**k, f in [0.7, 1.42], k a whole number.

    ``low`` is what ``high`` leaves of the exponent; |high| must be below 2**50.
    """
    k = ((high + low) * _INV_LOG2 + _ROUND) - _ROUND
    r = ((high - k * LOG2_HIGH) - k * LOG2_LOW) + low
    return _exp(r), k


@scalar(FAST, forceinline=True)
def exp_parts_short(x: float) -> tuple[float, float]:
    """Like ``exp_parts`` of one number, with a relative error of 3e-9."""
    k = (x * _INV_LOG2 + _ROUND) - _ROUND
    r = x - k * LOG2
    return _exp_short(r), k


@scalar(FAST, forceinline=True)
def power_of_two(k: float) -> float:
    """2**k for a whole k in [-1022, 1023]; 0 below, 2**1023 above."""
    clipped = min(max(k, -1023.0), 1023.0)
    return bits_float(float_bits(clipped + (_ROUND + 1023.0)) << 52)


@scalar(FAST, forceinline=True)
def scale_by_power(f: float, k: float) -> float:
    """f * 2**k, through two steps so that the result may be subnormal."""
    half = (k * 0.5 + _ROUND) - _ROUND
    return f * power_of_two(half) * power_of_two(k - half)


@scalar(FAST, forceinline=True)
def split_mantissa(x: float) -> tuple[float, float]:
    """``(m, k)`` with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for a normal x > 0."""
    shifted = float_bits(x) + (_ONE_BITS - _SQRT_HALF_BITS)
    biased = (shifted >> 52) & 0x7FF
    m = bits_float((shifted & 0xFFFFFFFFFFFFF) + _SQRT_HALF_BITS)
    # int64 -> double through the rounding constant: a plain conversion is no vector code on AVX2
    k = bits_float(biased + _ROUND_BITS) - (_ROUND + 1023.0)
    return m, k


@scalar(FAST, forceinline=True)
def log_parts(f: float, k: float) -> float:
    """log(1 + f) + k log(2), for 1 + f in [sqrt(1/2), sqrt(2)]."""
    s = f / (2.0 + f)
    return k * LOG2_HIGH + ((s + s) * _log(s * s) + k * LOG2_LOW)


@scalar(FAST, forceinline=True)
def log_scaled(x: float, power: float) -> float:
    """log(x * 2**power) for a normal x > 0."""
    m, k = split_mantissa(x)
    return log_parts(m - 1.0, k + power)
