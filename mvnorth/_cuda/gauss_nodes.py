"""One variable of a point of a Gauss rule on a device: its limits, nodes and weights."""

import math

import numpy as np
from numba import cuda

from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.gauss import (
    DEGREE,
    DISTANT,
    LEAST_CHANGE,
    distant_limit,
    place_rule,
    rule_width,
)
from mvnorth._scalar.normal import interval_parts, ndtr_parts

_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
# Rows of ``given``, what is said of the variables
LOWER, UPPER, SLOPE, CURVE = range(4)


@cuda.jit(device=True)
def node_below(table, first, n, b, k):
    """Node k of the n-point rule below b, and its weight."""
    piece, x, high, scale = place_rule(b)
    width = rule_width(n)
    start = first + piece * (DEGREE + 1) * width + k
    distance, weight = table[start], table[start + n]
    for j in range(1, DEGREE + 1):
        distance = distance * x + table[start + j * width]
        weight = weight * x + table[start + j * width + n]
    return high - scale * distance, weight


@cuda.jit(device=True)
def begin_variable(lower, upper, acc):
    """``(f, k)``: what all nodes below one limit are to be multiplied by, Phi of it = f * 2**k.

    1 if there are two limits, ``lower`` and ``upper`` plus acc.
    """
    if lower > -np.inf:
        return 1.0, 0.0
    return ndtr_parts(upper + acc)


@cuda.jit(device=True)
def node(table, starts, legendre, m, n, lower, upper, acc, k):
    """``(y, weight, power, exponent)``: node k, and its weight * 2**power * exp(exponent).

    Of m nodes between two limits, which are those given plus acc, or n below one; then Phi of it,
    see ``begin_variable``, is not part of the weight.
    """
    low, high = lower + acc, upper + acc
    if lower > -np.inf and not upper - lower > DISTANT:
        half = 0.5 * (high - low)
        half = half if half > 0.0 else 0.0
        y = 0.5 * (low + high) + half * legendre[m, 0, k]
        return y, half * legendre[m, 1, k], 0.0, -0.5 * y * y - _LOG_SQRT_2_PI
    side, limit, f, power = 1.0, high, 1.0, 0.0
    if lower > -np.inf:
        side, limit = distant_limit(low, high, 0 if k < n else 1)
        f, power = ndtr_parts(limit)
        f = f if k < n else -f
    y, weight = node_below(table, starts[n], n, limit, k if k < n else k - n)
    return side * y, f * weight, power, 0.0


@cuda.jit(device=True)
def probability(low, high):
    """``(f, k)``: the probability between two limits is f * 2**k."""
    if low > -np.inf:
        _, f, k, _ = interval_parts(low, high)
        return (f if f > 0.0 else 0.0), k
    return ndtr_parts(high)


@cuda.jit(device=True)
def relative_change(total, top, other, other_top):
    """|other - total| / total, but not less than rounding makes of no change."""
    change = abs(other * power_of_two(other_top - top) - total) / total
    return max(change, LEAST_CHANGE)
