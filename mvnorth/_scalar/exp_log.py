"""exp and log in the pieces that kernels want: a mantissa and a power of two kept apart.

A product of many probabilities underflows long before its logarithm is large, so kernels
carry ``value * 2**power`` and never lose it.  Accuracy: 2e-16 relative (measured in the
tests of ``mvnorth.special``).
"""

import math

from numba import njit

from mvnorth._scalar.bits import bits_float, float_bits
from mvnorth._tables.normal import EXP, EXP_SHORT, LOG

# Flags that keep infinities and NaN meaningful: only contraction to fused multiply-adds and
# the sign of zero are given up.
FAST = {"contract", "nsz"}

_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding and subtracting it rounds to an integer
_LOG2_HIGH = 0.6931471803691238  # log(2) cut to 32 bits, so that k * _LOG2_HIGH is exact
_LOG2_LOW = 1.9082149292705877e-10
_INV_LOG2 = 1.0 / math.log(2.0)
_ROUND_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_ONE_BITS = 0x3FF0000000000000
LOG2 = math.log(2.0)


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def exp_parts(high: float, low: float) -> tuple[float, float]:
    """``(f, k)`` with exp(high + low) = f * 2**k, f in [0.7, 1.42], k a whole number.

    ``low`` is what ``high`` leaves of the exponent; |high| must be below 2**50.
    """
    k = ((high + low) * _INV_LOG2 + _ROUND) - _ROUND
    r = ((high - k * _LOG2_HIGH) - k * _LOG2_LOW) + low
    f = EXP[0]
    f = f * r + EXP[1]
    f = f * r + EXP[2]
    f = f * r + EXP[3]
    f = f * r + EXP[4]
    f = f * r + EXP[5]
    f = f * r + EXP[6]
    f = f * r + EXP[7]
    f = f * r + EXP[8]
    f = f * r + EXP[9]
    f = f * r + EXP[10]
    f = f * r + EXP[11]
    return f, k


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def exp_parts_short(x: float) -> tuple[float, float]:
    """Like ``exp_parts`` of one number, with a relative error of 3e-9."""
    k = (x * _INV_LOG2 + _ROUND) - _ROUND
    r = x - k * LOG2
    f = EXP_SHORT[0]
    f = f * r + EXP_SHORT[1]
    f = f * r + EXP_SHORT[2]
    f = f * r + EXP_SHORT[3]
    f = f * r + EXP_SHORT[4]
    f = f * r + EXP_SHORT[5]
    f = f * r + EXP_SHORT[6]
    return f, k


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def power_of_two(k: float) -> float:
    """2**k for a whole k in [-1022, 1023]; 0 below, 2**1023 above."""
    clipped = min(max(k, -1023.0), 1023.0)
    return bits_float(float_bits(clipped + (_ROUND + 1023.0)) << 52)


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def scale_by_power(f: float, k: float) -> float:
    """f * 2**k, through two steps so that the result may be subnormal."""
    half = (k * 0.5 + _ROUND) - _ROUND
    return f * power_of_two(half) * power_of_two(k - half)


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def split_mantissa(x: float) -> tuple[float, float]:
    """``(m, k)`` with x = m * 2**k and m in [sqrt(1/2), sqrt(2)), for a normal x > 0."""
    shifted = float_bits(x) + (_ONE_BITS - _SQRT_HALF_BITS)
    biased = (shifted >> 52) & 0x7FF
    m = bits_float((shifted & 0xFFFFFFFFFFFFF) + _SQRT_HALF_BITS)
    # int64 -> double through the rounding constant: a plain conversion is no vector code on AVX2
    k = bits_float(biased + _ROUND_BITS) - (_ROUND + 1023.0)
    return m, k


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def log_parts(f: float, k: float) -> float:
    """log(1 + f) + k log(2), for 1 + f in [sqrt(1/2), sqrt(2)]."""
    s = f / (2.0 + f)
    s2 = s * s
    p = LOG[0]
    p = p * s2 + LOG[1]
    p = p * s2 + LOG[2]
    p = p * s2 + LOG[3]
    p = p * s2 + LOG[4]
    p = p * s2 + LOG[5]
    p = p * s2 + LOG[6]
    p = p * s2 + LOG[7]
    p = p * s2 + LOG[8]
    return k * _LOG2_HIGH + ((s + s) * p + k * _LOG2_LOW)


@njit(fastmath=FAST, forceinline=True, error_model="numpy")
def log_scaled(x: float, power: float) -> float:
    """log(x * 2**power) for a normal x > 0."""
    m, k = split_mantissa(x)
    return log_parts(m - 1.0, k + power)
