"""Sums over the classes of a row, for the integral of label_best.py, in single precision.

Several classes at several nodes are computed together, in a fixed number of lanes, so that bits do
not depend on the width of vectors.
"""

import numpy as np
from numba import types

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._cpu.factor_nodes import (
    BEND,
    NUMERATOR,
    OFFSET,
    POWER,
    SLOPE,
    STEEP,
    TWIST,
    WEIGHT,
)
from mvnorth._scalar.exp_log import split_mantissa
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.one_factor import quadratic_parts
from mvnorth._scalar.single import factor, mills, split_single

_NODES, AT_ONCE = 12, 4  # nodes and classes that are computed together
_LANES = _NODES * AT_ONCE
_CHUNK = 1024  # classes whose sums are in single precision
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_lanes = stack_array(_LANES, types.float32)


@inner(FAST)
def _total(values):
    """The sum of a multiple of 16 numbers, which it overwrites."""
    for begin in range(16, values.size, 16):
        for i in range(16):
            values[i] += values[begin + i]
    for i in range(8):
        values[i] += values[i + 8]
    for i in range(4):
        values[i] += values[i + 4]
    return np.float64((values[0] + values[2]) + (values[1] + values[3]))


@inner(FAST)
def slopes(a, size, z, lanes):
    """Derivatives in z of sum_j log Phi(a_j + z): the first, minus the second, the third."""
    once, twice, thrice = lanes[0], lanes[1], lanes[2]
    n = once.size
    for i in range(n):
        once[i] = twice[i] = thrice[i] = _ZERO
    for begin in range(0, size, n):
        block = a[begin : begin + n]
        for i in range(n):
            x = block[i] + z
            h = mills(x)[0]
            r = x + h
            once[i] += h
            twice[i] += h * r
            thrice[i] += h * (r * (r + h) - _ONE)
    return _total(once), _total(twice), _total(thrice)


@inner(SUMS)
def sum_far_ahead(x, size, far):
    """``(sum of x**2, sum of x, number)`` of the classes far ahead."""
    square = total = count = 0.0
    for j in range(size):
        value = np.float64(x[j]) if x[j] < far else 0.0
        square += value * value
        total += value
        count += 1.0 if x[j] < far else 0.0
    return square, total, count


@inner(FAST)
def _multiply(x, begin, end, far, nodes, first, n):
    """Multiply nodes by Phi(x_j + offset), and add up the derivatives of its logarithm.

    For classes [begin, end), AT_ONCE of them at a time, and up to _NODES nodes, beginning with
    the first; n are there in all.
    """
    product, power, small = _lanes(), _lanes(), _lanes()
    once, twice, thrice = _lanes(), _lanes(), _lanes()
    offset = _lanes()
    for i in range(_LANES):
        product[i] = _ONE
        power[i] = small[i] = once[i] = twice[i] = thrice[i] = offset[i] = _ZERO
    count = min(n - first, _NODES)
    for c in range(AT_ONCE):
        for k in range(count):
            offset[c * _NODES + k] = np.float32(nodes[OFFSET, first + k])
    for j in range(begin, end, AT_ONCE):
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(_LANES):
            centre = x0 if i < _NODES else x1
            centre = centre if i < 2 * _NODES else x2
            centre = centre if i < 3 * _NODES else x3
            moved = centre + offset[i]
            h, f, exponent, p, d, inverse, g = mills(moved)
            f, exponent, s = factor(moved, centre < far, f, exponent, p, d, inverse, g)
            r = moved + h
            product[i] *= f
            power[i] += exponent
            small[i] += s
            once[i] += h
            twice[i] += h * r
            thrice[i] += h * (r * (r + h) - _ONE)
        if j % (4 * AT_ONCE) == 3 * AT_ONCE:
            for i in range(_LANES):
                m, exponent = split_single(product[i])
                product[i] = m
                power[i] += exponent
    for c in range(AT_ONCE):
        for k in range(count):
            i, node = c * _NODES + k, first + k
            m, exponent = split_mantissa(nodes[NUMERATOR, node] * product[i])
            nodes[NUMERATOR, node] = m
            nodes[POWER, node] += exponent + power[i]
            nodes[WEIGHT, node] += small[i]
            nodes[SLOPE, node] += once[i]
            nodes[BEND, node] += twice[i]
            nodes[TWIST, node] += thrice[i]


@inner(FAST)
def evaluate(nodes, place, x, size, far, n):
    """Set the first n nodes to the integrand there, and the derivatives of its logarithm."""
    for k in range(n):
        nodes[NUMERATOR, k] = 1.0
        nodes[POWER, k] = nodes[WEIGHT, k] = 0.0
        nodes[SLOPE, k] = nodes[BEND, k] = nodes[TWIST, k] = 0.0
    for begin in range(0, size, _CHUNK):
        for first in range(0, n, _NODES):
            _multiply(x, begin, min(size, begin + _CHUNK), far, nodes, first, n)
    for k in range(n):
        nodes[STEEP, k] = nodes[SLOPE, k]
        f, exponent = quadratic_parts(nodes[OFFSET, k], place.linear, place.curvature)
        g, more = quadratic_parts(1.0, nodes[WEIGHT, k], 0.0)  # exp(-s)
        nodes[NUMERATOR, k] *= f * g
        nodes[POWER, k] += exponent + more


@inner(FAST)
def add_moments(x, size, nodes, n, least, moments):
    """Add weight times phi/Phi at nodes to the moments of classes."""
    for k in range(n):
        if nodes[WEIGHT, k] * nodes[STEEP, k] >= least:
            weight, offset = np.float32(nodes[WEIGHT, k]), np.float32(nodes[OFFSET, k])
            for j in range(size):
                moments[j] += weight * mills(x[j] + offset)[0]
