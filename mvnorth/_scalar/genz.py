"""One variable of one sample in Genz's recursion, forward and backward.

Forward a variable is drawn between its limits, and the probability of these becomes a factor of
the sample's weight; see ``mvnorth._cpu.genz``.  Backward the derivatives of the log weight in
the limits follow from those in what was drawn; see ``mvnorth._cpu.pathwise``.
"""

import math

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.exp_log import exp_parts, power_of_two, split_mantissa
from mvnorth._scalar.normal import (
    Z_MAX,
    gauss_parts,
    interval_parts,
    mills,
    ndtr_parts,
    quantile_central,
    quantile_tail,
    quantile_w,
)
from mvnorth._tables.normal import QUANTILE_W_MAX

_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding and subtracting it rounds to an integer
_LEAST = -0.5 * Z_MAX**2  # exponent


@scalar(FAST, forceinline=True)
def lattice_point(numerator, z, shift):
    """One coordinate of a shifted rank-1 lattice under the tent transform, inside (0, 1)."""
    x = numerator * z + shift
    x -= (x + _ROUND) - _ROUND
    return (1.0 - 2.0**-53) - (1.0 - 2.0 * abs(x)) * (1.0 - 2.0**-52)


@scalar(FAST, forceinline=True)
def draw_below(b: float, u: float) -> tuple[float, float, float, float]:
    """``(f, k, q, w)``: Phi(b) = f * 2**k, and what ``quantile`` makes u Phi(b) a y < b of."""
    f, k = ndtr_parts(b)
    q, w = quantile_w(f * u, k)
    return f, k, q, w


@scalar(FAST, forceinline=True)
def interval_between(low: float, high: float) -> tuple[float, float, float, float]:
    """``interval_parts``, of nothing where the limits have changed places."""
    return interval_parts(low, high if high > low else low)


@scalar(FAST, forceinline=True)
def width_parts(width: float) -> tuple[float, float]:
    """``(m, k)`` with width = m * 2**k, m near 1 or 0."""
    m, k = split_mantissa(width if width > 0.0 else 1.0)
    return (m if width > 0.0 else 0.0), k


@scalar(FAST, forceinline=True)
def draw_between(low: float, high: float, u: float) -> tuple[float, float, float, float, float]:
    """``(m, k, q, w, sign)``: Phi(high) - Phi(low) = m * 2**k, and y = sign * quantile(q, w).

    m is 0 where there is nothing between the limits.
    """
    base, width, k, sign = interval_between(low, high)
    m, k_width = width_parts(width)
    q, w = quantile_w(base + u * width, k)
    return m, k + k_width, q, w, sign


@scalar(FAST, forceinline=True)
def quantile(q: float, w: float) -> float:
    """Phi^-1(q + 1/2), from ``quantile_w``; with a branch, where loops over samples want none."""
    if w > QUANTILE_W_MAX:
        return quantile_tail(q, w)
    return quantile_central(q, w)


@scalar(FAST, forceinline=True)
def renormalised(weight: float, power: float) -> tuple[float, float]:
    """The same weight * 2**power with a weight near 1, or 0."""
    positive = weight > 0.0
    m, k = split_mantissa(weight if positive else 1.0)
    return (m if positive else 0.0), power + k


@scalar(FAST, forceinline=True)
def tilted(weight: float, power: float, exponent: float) -> tuple[float, float]:
    """weight * 2**power * exp(exponent)."""
    f, k = exp_parts(exponent, 0.0)
    return weight * f, power + k


@scalar(FAST, forceinline=True)
def join_sums(total, largest, top, its_total, its_largest, its_top):
    """``(total, largest, top)`` of two sets of weights together.

    The sum of weights is total * 2**top, the largest of them largest * 2**top; top is -inf for
    none, and a single weight is a sum of its own.
    """
    peak = max(top, its_top)
    if peak == -np.inf:
        return total, largest, top
    own, its = power_of_two(top - peak), power_of_two(its_top - peak)
    return total * own + its_total * its, max(largest * own, its_largest * its), peak


@scalar(FAST, forceinline=True)
def pull_below(b: float, u: float, y: float, y_bar: float) -> float:
    """Derivative of the log weight in the limit b of y; ``y_bar`` is that in y."""
    exponent = 0.5 * (y - b) * (y + b)
    f, k = exp_parts(_LEAST if exponent < _LEAST else exponent, 0.0)
    return mills(b) + y_bar * (u * f * power_of_two(k))


@scalar(FAST, forceinline=True)
def pull_high(low: float, high: float, u: float, y: float, y_bar: float) -> float:
    """Like ``pull_below`` in the upper limit of two; 0 where there is nothing between."""
    a = max(low, -Z_MAX)
    b = min(high, Z_MAX)
    _, width, k, sign = interval_parts(a, max(a, b))
    f, k_high = gauss_parts(min(abs(b), Z_MAX))
    density = f * power_of_two(k_high - k) * _INV_SQRT_2_PI / width
    f, k_y = exp_parts(0.5 * (y - b) * (y + b), 0.0)
    below = u if sign > 0.0 else 1.0 - u  # share of the interval below y
    value = density + y_bar * (below * f * power_of_two(k_y))
    return value if width > 0.0 and b < Z_MAX else 0.0


@scalar(FAST, forceinline=True)
def pull_low(low: float, high: float, u: float, y: float, y_bar: float) -> float:
    """Like ``pull_high`` in the lower limit."""
    a = max(low, -Z_MAX)
    b = min(high, Z_MAX)
    _, width, k, sign = interval_parts(a, max(a, b))
    f, k_low = gauss_parts(min(abs(a), Z_MAX))
    density = f * power_of_two(k_low - k) * _INV_SQRT_2_PI / width
    f, k_y = exp_parts(0.5 * (y - a) * (y + a), 0.0)
    above = 1.0 - u if sign > 0.0 else u
    value = y_bar * (above * f * power_of_two(k_y)) - density
    return value if width > 0.0 and a > -Z_MAX else 0.0


@scalar(FAST, forceinline=True)
def claimed(limit: float, own: float, limit_bar: float) -> tuple[float, float]:
    """What a row takes of the derivative in a limit, if its own is the one that binds; the rest."""
    binds = own == limit
    return (limit_bar if binds else 0.0), (0.0 if binds else limit_bar)
