"""Derivatives of log P from the mean and the covariance of the variables, see ``_cpu.gauss``.

Let Y be the standard normal variables of Genz's recursion before tilting, X = diag(diagonal) T Y
the coordinates in units of their deviations, L = diag(diagonal) T, and E the expectation given that
the limits are met.  Then

    d log P / d mean = L^-T E[Y],     d log P / d cov = 1/2 L^-T (E[Y Y^T] - I) L^-1

for the mean and the covariance of X (Stein's identity).  The nodes are those of the tilted
variables x with T' x = stretch T Y + shift.  So with B = L^-T T^-1 diag(1 / stretch) T' both are

    first = B E[x - origin] + first at the origin,     second = B Cov[x] B^T + first first^T - N,

the latter without the factor 1/2, with N = L^-T L^-1: all from sums over the same nodes as P.  The
last variable, which is integrated exactly, adds its conditional mean and mean square.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from mvnorth._compile import FAST, inner
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.gauss import LEAST_CHANGE
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import Z_MAX, gauss_parts, interval_parts, mills

_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
_EPS = 2.0**-52
_NARROW = 1e-3  # width of an interval below which the density in it is nearly constant
_WIDTH = 8  # partial sums at a time
_parts = stack_array(_WIDTH)
FIRST, SECOND = 1, 2  # rows of ``change`` and ``alone``; row 0 is for the probability


class Moments(NamedTuple):
    """What derivatives are computed from, and with; d variables.

    Attributes
    ----------
    origin : (d,) a point near the means
    sums : (levels, d + 1, d + 1) sums over nodes, for sparse grids one of each level: weights times
        products of two variables less the origin in the lower triangle, times one in the last row,
        and weights in the last entry
    linear, offset, precision : B (d, d), first at the origin (d,) and N (d, d)
    first, second : (2, d) and (2, d, d) derivatives of now, and of before
    size, rounding, error : (3,) largest entry of either, at FIRST and SECOND, a bound on its
        rounding error, and the error claimed relative to the largest
    """

    origin: np.ndarray
    sums: np.ndarray
    linear: np.ndarray
    offset: np.ndarray
    precision: np.ndarray
    first: np.ndarray
    second: np.ndarray
    size: np.ndarray
    rounding: np.ndarray
    error: np.ndarray


def new_moments(base: Any, levels: int, d: int) -> Any:
    """Return ``Moments`` of d variables, or None if ``base`` is None."""
    return None if base is None else _empty(levels, d)


@overload(new_moments, inline="always")
def _new_moments(base, levels, d):
    if isinstance(base, types.NoneType):
        return lambda base, levels, d: None
    return lambda base, levels, d: _empty(levels, d)


@inner()
def _empty(levels, d):
    return Moments(
        np.zeros(d), np.zeros((levels, d + 1, d + 1)), np.empty((d, d)), np.empty(d),
        np.empty((d, d)), np.empty((2, d)), np.empty((2, d, d)), np.empty(3), np.empty(3),
        np.empty(3),
    )  # fmt: skip


@inner(FAST)
def _last_below(lanes, origin, last, begin, end):
    """Replace what is in row ``last`` of lanes by the conditional mean, and put squares in row 1.

    Both less the origin; squares are weighted.
    """
    weight, mean = lanes[0, begin:end], lanes[last, begin:end]
    square, limit = lanes[1, begin:end], lanes[3, begin:end]
    for p in range(end - begin):
        h = mills(limit[p])
        mean[p] = -h - origin
        square[p] = weight[p] * (1.0 - limit[p] * h + origin * (2.0 * h + origin))


@inner(FAST)
def _last_between(lower, upper, lanes, origin, last, begin, end):
    """Like ``_last_below`` between two limits."""
    weight, mean, square = lanes[0], lanes[last], lanes[1]
    for p in range(begin, end):
        low, high = lower + mean[p], upper + mean[p]
        _, width, k, _ = interval_parts(low, high)
        middle, delta = 0.5 * (low + high), high - low
        if delta * (1.0 + abs(middle)) < _NARROW or not width > 0.0:
            centre = middle * (1.0 - delta * delta / 12.0)
            about = centre * centre + delta * delta / 12.0
        else:
            f, power = gauss_parts(min(abs(low), Z_MAX))
            at_low = f * power_of_two(power - k) * (_INV_SQRT_2_PI / width)
            f, power = gauss_parts(min(abs(high), Z_MAX))
            at_high = f * power_of_two(power - k) * (_INV_SQRT_2_PI / width)
            centre = at_low - at_high
            about = 1.0 + low * at_low - high * at_high
        mean[p] = centre - origin
        square[p] = weight[p] * (about - origin * (2.0 * centre - origin))


@inner(FAST)
def total(x):
    """Return the sum of x, in an order that vectors of any width keep."""
    parts = _parts()
    for c in range(_WIDTH):
        parts[c] = 0.0
    whole = x.size // _WIDTH * _WIDTH
    for p in range(0, whole, _WIDTH):
        for c in range(_WIDTH):
            parts[c] += x[p + c]
    rest = 0.0
    for p in range(whole, x.size):
        rest += x[p]
    for c in range(_WIDTH):
        rest += parts[c]
    return rest


@inner(FAST)
def _dot(x, y):
    """Return the sum of x * y, like ``total``."""
    parts = _parts()
    for c in range(_WIDTH):
        parts[c] = 0.0
    whole = x.size // _WIDTH * _WIDTH
    for p in range(0, whole, _WIDTH):
        for c in range(_WIDTH):
            parts[c] += x[p + c] * y[p + c]
    rest = 0.0
    for p in range(whole, x.size):
        rest += x[p] * y[p]
    for c in range(_WIDTH):
        rest += parts[c]
    return rest


@inner(FAST)
def add_moments(lower, upper, lanes, origin, sums, d, begin, end):
    """Add lanes ``begin`` to ``end``, whose weights are final, to ``sums``.

    Overwrites rows 1, 2 and from 4 on of the lanes.
    """
    if begin == end:
        return
    last = d - 1
    if lower is not None and lower[last] > -np.inf:
        _last_between(lower[last], upper[last], lanes, origin[last], 4 + last, begin, end)
    else:
        _last_below(lanes, origin[last], 4 + last, begin, end)
    weight, weighted = lanes[0, begin:end], lanes[2, begin:end]
    sums[d, d] += total(weight)
    sums[last, last] += total(lanes[1, begin:end])
    for i in range(d):
        x = lanes[4 + i, begin:end]
        if i < last:
            for p in range(x.size):
                x[p] -= origin[i]
        for p in range(x.size):
            weighted[p] = weight[p] * x[p]
        sums[d, i] += total(weighted)
        for j in range(i + 1 if i < last else i):
            sums[i, j] += _dot(weighted, lanes[4 + j, begin:end])


@inner()
def place_origin(moments, T, tilted, stretch, shift, diagonal, d):
    """Move the origin to the means that sums[0] has, and compute what depends on it."""
    origin, sums, B, N = moments.origin, moments.sums[0], moments.linear, moments.precision
    inverse, rows = np.zeros((d, d)), np.empty((d, d))
    for i in range(d):
        origin[i] += sums[d, i] / sums[d, d]
        for j in range(i):
            total = T[i, j]
            for k in range(j + 1, i):
                total += T[i, k] * inverse[k, j]
            inverse[i, j] = -total
        inverse[i, i] = 1.0
    for i in range(d):  # T^-1 diag(1 / stretch) T'
        for j in range(d):
            total = 0.0
            for k in range(j, i + 1):
                total += inverse[i, k] / stretch[k] * (1.0 if k == j else tilted[k, j])
            rows[i, j] = total
    start, largest = np.empty(d), 0.0
    for i in range(d):
        total = 0.0
        for k in range(i + 1):
            total += rows[i, k] * origin[k] - inverse[i, k] * shift[k] / stretch[k]
        start[i] = total
    for i in range(d):
        total, size, scale = 0.0, 0.0, 1.0 / diagonal[i]
        for k in range(i, d):
            total += inverse[k, i] * start[k]
            size += abs(inverse[k, i]) * (1.0 + abs(start[k]))
        moments.offset[i] = scale * total
        largest = max(largest, abs(scale) * size)
        for j in range(d):
            product, square = 0.0, 0.0
            for k in range(i, d):
                product += inverse[k, i] * rows[k, j]
                square += inverse[k, i] * inverse[k, j]
            B[i, j], N[i, j] = scale * product, scale * square / diagonal[j]
    moments.rounding[FIRST] = 8.0 * d * _EPS * largest
    moments.rounding[SECOND] = 8.0 * d * _EPS * largest * largest


@inner()
def update_derivatives(moments, sums, change, n, d):
    """Compute the derivatives from ``sums`` and their relative changes, change[FIRST, n] and so on.

    ``sums`` becomes the covariance of the variables.  Those of before are kept in the second half;
    ``change`` may have any number of columns.
    """
    B, N = moments.linear, moments.precision
    first, before = moments.first[0], moments.first[1]
    second, second_before = moments.second[0], moments.second[1]
    whole = sums[d, d]
    for i in range(d):
        sums[d, i] /= whole
        for j in range(i + 1):
            sums[i, j] = sums[i, j] / whole - sums[d, i] * sums[d, j]
            sums[j, i] = sums[i, j]
    largest, moved = 0.0, 0.0
    for i in range(d):
        total = moments.offset[i]
        for j in range(d):
            total += B[i, j] * sums[d, j]
        moved = max(moved, abs(total - before[i]))
        largest = max(largest, abs(total))
        first[i] = total
    moments.size[FIRST] = largest
    change[FIRST, n] = max(moved / largest, LEAST_CHANGE) if largest > 0.0 else 1.0
    largest, moved = 0.0, 0.0
    half = np.zeros(d)
    for i in range(d):
        for k in range(d):
            half[k] = 0.0
        for j in range(d):
            for k in range(d):
                half[k] += B[i, j] * sums[j, k]
        for j in range(i + 1):
            total = first[i] * first[j] - N[i, j]
            for k in range(d):
                total += half[k] * B[j, k]
            moved = max(moved, abs(total - second_before[i, j]))
            largest = max(largest, abs(total))
            second[i, j] = second[j, i] = total
    moments.size[SECOND] = largest
    change[SECOND, n] = max(moved / largest, LEAST_CHANGE) if largest > 0.0 else 1.0


@inner()
def start_moments(moments):
    """Prepare for another problem: the origin is 0, and no error is known."""
    moments.origin[:] = 0.0
    moments.first[:] = 0.0
    moments.second[:] = 0.0
    moments.error[:] = np.inf


@inner()
def store_derivatives(moments, first, second, errors):
    """Copy derivatives (d,), (d, d) and their errors (2,)."""
    first[:] = moments.first[0]
    second[:] = moments.second[0]
    errors[:] = moments.error[FIRST:]


@inner()
def keep_derivatives(moments):
    """Let the derivatives of now be those of before."""
    moments.first[1, :] = moments.first[0]
    moments.second[1, :] = moments.second[0]
