"""Phi and phi/Phi of one number in single precision, for products over many of them.

The formulas are those of ``phi_mills.short``, in single precision throughout: a relative error of
4e-7 (1 + |log Phi|).  Loops over them run as vector code, twice as wide as in double precision.
"""

import math

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.bits import bits_single, single_bits
from mvnorth._scalar.instructions import single_polynomial
from mvnorth._tables.normal import EXP_SHORT, SHORT_P, SHORT_Q

_ROUND = np.float32(12582912.0)  # 1.5 * 2**23: adding and subtracting it rounds to an integer
_BIAS = np.int32(127 - 0x4B400000)  # from the bits of k + _ROUND to those of 2**k
_INV_LOG2 = np.float32(1.0 / math.log(2.0))
_LOG2_HIGH = np.float32(0.693145751953125)  # 16 bits, so that products with whole numbers are exact
_LOG2_LOW = np.float32(math.log(2.0) - 0.693145751953125)
_LEAST = np.float32(12582912.0 - 60.0)  # of k: what is below must not become subnormal
_PHI_0 = np.float32(1.0 / math.sqrt(2.0 * math.pi))
_ZERO, _ONE, _HALF = np.float32(0.0), np.float32(1.0), np.float32(0.5)
_THIRD, _QUARTER = np.float32(1.0 / 3.0), np.float32(0.25)
_SMALL = np.float32(2.0)  # above it 1 - Phi is small enough for four terms of log(1 - q)
_EXPONENT, _BIASED_ONE = np.int32(23), np.int32(127)
_exp, _p, _q = map(single_polynomial, (EXP_SHORT, SHORT_P, SHORT_Q))


@scalar(FAST, forceinline=True)
def mills(x):
    """Return ``(h, f, k, p, d, inverse, g)``: phi/Phi(x), and the parts that ``factor`` takes."""
    z = abs(x)
    y = -_HALF * z * z
    shifted = y * _INV_LOG2 + _ROUND
    k = shifted - _ROUND
    f = _exp((y - k * _LOG2_HIGH) - k * _LOG2_LOW)
    shifted = shifted if shifted > _LEAST else _LEAST
    g = f * bits_single((single_bits(shifted) + _BIAS) << _EXPONENT)
    p, q = _p(z), _q(z)
    positive = x > _ZERO
    d = q - g * p if positive else p
    inverse = _ONE / (d * q)
    h = _PHI_0 * (g if positive else _ONE) * (q * q) * inverse
    return h, f, k, p, d, inverse, g


@scalar(FAST, forceinline=True)
def factor(x, left, f, k, p, d, inverse, g):
    """``(f, k, s)`` with Phi(x) = f 2**k exp(-s), from the parts of ``mills``.

    Where ``left`` is true, without exp(-x**2/2), which is taken out there.
    """
    q = g * p * d * inverse  # 1 - Phi(x) for x > 0
    s = q * (_ONE + q * (_HALF + q * (_THIRD + q * _QUARTER)))
    ratio = d * d * inverse
    f = _ONE if left else f
    k = _ZERO if left else k
    f = _ONE if x > _ZERO else f
    k = _ZERO if x > _ZERO else k
    product = ratio * f
    product = _ONE if x > _SMALL else product
    s = s if x > _SMALL else _ZERO
    return product, k, s


@scalar(FAST, forceinline=True)
def split_single(x):
    """``(m, k)`` with x = m * 2**k and m in [1, 2), for a normal x > 0."""
    bits = single_bits(x)
    k = (bits >> _EXPONENT) - _BIASED_ONE
    return bits_single(bits - (k << _EXPONENT)), np.float32(k)
