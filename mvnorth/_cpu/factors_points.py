"""The integrand of several common factors at many points at once.

    f(z) = phi(z) prod_i [Phi(b_i(z)) - Phi(a_i(z))],   b_i(z) = (upper_i + V_i . z) / sqrt(c_i)

for z in R^k, k <= 4, and a_i likewise of the lower limits; without these it is a product of Phi.
The variable is t of z = mode + T t, in which f is close to exp(-|t|**2/2) near the mode.  Points
are innermost and contiguous, so that a product of Phi runs as vector code however few coordinates
there are.  Coordinates that are far out at the mode, b_i < FAR, have exp(-b_i**2/2) taken out of
their Phi: together with phi(z) these are a quadratic in t.
"""

import math
from collections import namedtuple
from collections.abc import Callable

import numpy as np

from mvnorth._compile import FAST, SUMS, inner, scalar
from mvnorth._scalar.bivariate import interval_probability
from mvnorth._scalar.exp_log import exp_parts, power_of_two, split_mantissa
from mvnorth._scalar.normal import Z_MAX, gauss_parts
from mvnorth._scalar.one_factor import far_parts
from mvnorth._scalar.phi_mills import FAR, full, short

K = 4  # common factors at most; of fewer the others have loadings 0
POINTS = 32  # at a time
_EXPONENT = 1e12
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
# What belongs to a row of the batch, (17, d): its limits, 1/sqrt(c), the loadings V, the b_i and
# a_i at the mode, 1 where b_i is far out there, the b_i - a_i, and the loadings of t divided by
# sqrt(c); then two arrays for the search of the mode, whose first doubles as E[h_i] there.
UPPER, LOWER, SCALE, V, B, A, IS_FAR, WIDTH, BETA, H, BEND = 0, 1, 2, 3, 7, 8, 9, 10, 11, 15, 16
ROWS = 17
# What belongs to a block of points, (19, POINTS): the four entries of t, then the integrand without
# its quadratic, NUMERATOR (1 + LOST) / DENOMINATOR * 2**POWER; its weight, one more number, and of
# the logarithms of the probabilities in it the first derivatives in t, and minus the second ones;
# and another number.
T, NUMERATOR, DENOMINATOR, LOST, POWER, WEIGHT, PRODUCT, SLOPE, CURVE = 0, 4, 5, 6, 7, 8, 9, 10, 14
BENT, NODES = 18, 19
# The mode, (K,); T, (K, K); of the quadratic minus its first derivatives at the mode, (2, K), and
# minus the second ones, (2, K, K), in t: of all of it, and of phi(z) alone.
Place = namedtuple("Place", "z map linear curvature")


@inner(FAST)
def take_out_quadratic(row, place, one_sided):
    """Mark what is far out at the mode; fill in the quadratic, and return its constant."""
    z, transform, linear, curvature = place.z, place.map, place.linear[0], place.curvature[0]
    d = row.shape[1]
    constant = 0.0
    for j in range(K):
        constant += z[j] * z[j]
        total = 0.0
        for q in range(K):
            total += transform[q, j] * z[q]
        linear[j] = total
        for q in range(K):
            total = 0.0
            for r in range(K):
                total += transform[r, j] * transform[r, q]
            curvature[j, q] = total
    place.linear[1] = linear
    place.curvature[1] = curvature
    for i in range(d):
        row[IS_FAR, i] = 1.0 if one_sided and row[B, i] < FAR else 0.0
        if row[IS_FAR, i] > 0.0:
            constant += row[B, i] * row[B, i]
            for j in range(K):
                linear[j] += row[B, i] * row[BETA + j, i]
                for q in range(K):
                    curvature[j, q] += row[BETA + j, i] * row[BETA + q, i]
    return -0.5 * constant


@inner(FAST, forceinline=True)
def _renormalise(nodes, n):
    for p in range(n):
        m, exponent = split_mantissa(nodes[NUMERATOR, p] / nodes[DENOMINATOR, p])
        nodes[NUMERATOR, p] = m
        nodes[DENOMINATOR, p] = 1.0
        nodes[POWER, p] += exponent


def _multiplier(parts: Callable, wide: bool) -> Callable:
    """Compile the multiplication by Phi of coordinates [begin, end) for one form of Phi.

    ``wide`` is for three and four factors; with two the others are left out.
    """

    @inner(FAST)
    def multiply(row, nodes, mills, n, begin, end):
        for i in range(begin, end):
            b = row[B, i]
            beta_0, beta_1 = row[BETA, i], row[BETA + 1, i]
            beta_2, beta_3 = row[BETA + 2, i], row[BETA + 3, i]
            for p in range(n):
                x = b + beta_0 * nodes[T, p] + beta_1 * nodes[T + 1, p]
                if wide:
                    x += beta_2 * nodes[T + 2, p] + beta_3 * nodes[T + 3, p]
                a, d, exponent, h, r, rest = parts(x)
                nodes[NUMERATOR, p] *= a
                nodes[DENOMINATOR, p] *= d
                nodes[LOST, p] += rest
                nodes[POWER, p] += exponent
                nodes[PRODUCT, p] = h
                nodes[BENT, p] = h * r
            for p in range(n):  # apart, for a loop over so many arrays would be no vector code
                h, bend = nodes[PRODUCT, p], nodes[BENT, p]
                nodes[SLOPE, p] += h * beta_0
                nodes[SLOPE + 1, p] += h * beta_1
                nodes[CURVE, p] += bend * (beta_0 * beta_0)
                nodes[CURVE + 1, p] += bend * (beta_1 * beta_1)
                if wide:
                    nodes[SLOPE + 2, p] += h * beta_2
                    nodes[SLOPE + 3, p] += h * beta_3
                    nodes[CURVE + 2, p] += bend * (beta_2 * beta_2)
                    nodes[CURVE + 3, p] += bend * (beta_3 * beta_3)
                if mills is not None:
                    mills[0, i, p] = h
            if i % 16 == 15:
                _renormalise(nodes, n)

    return multiply


_narrow_full, _narrow_short, _narrow_far, _wide_full, _wide_short, _wide_far = (
    _multiplier(parts, wide) for wide in (False, True) for parts in (full, short, far_parts)
)


@scalar(FAST)
def interval_parts(a, b, width):
    """``(f, k, h_b, h_a)``: Phi(b) - Phi(a) = f * 2**k, and phi(b) and phi(a) over that."""
    f, k = interval_probability(a, b, width)
    g_b, k_b = gauss_parts(min(abs(b), Z_MAX))
    g_a, k_a = gauss_parts(min(abs(a), Z_MAX))
    over = _INV_SQRT_2_PI / f if f > 0.0 else 0.0
    h_b = 0.0 if np.isinf(b) else g_b * over * power_of_two(k_b - k)
    h_a = 0.0 if np.isinf(a) else g_a * over * power_of_two(k_a - k)
    return f, k, h_b, h_a


@scalar(FAST)
def interval_derivatives(a, b, width, h_b, h_a):
    """Derivative of log(Phi(b) - Phi(a)) if both move alike, and minus the second one.

    Of a narrow interval those of log phi(m) + (m**2 - 1) width**2 / 24 for its middle m.
    """
    middle = 0.5 * (a + b)
    if width * (1.0 + abs(middle)) < 1e-3:
        share = width * width / 12.0
        return middle * (share - 1.0), 1.0 - share
    slope = h_b - h_a
    bend = slope * slope
    bend += b * h_b if h_b > 0.0 else 0.0
    bend -= a * h_a if h_a > 0.0 else 0.0
    return slope, min(max(bend, 0.0), 1.0)


@inner(FAST)
def _multiply_intervals(row, nodes, mills, n):
    for i in range(row.shape[1]):
        for p in range(n):
            shift = 0.0
            for j in range(K):
                shift += row[BETA + j, i] * nodes[T + j, p]
            a, b = row[A, i] + shift, row[B, i] + shift
            f, k, h_b, h_a = interval_parts(a, b, row[WIDTH, i])
            m, exponent = split_mantissa(nodes[NUMERATOR, p] * f) if f > 0.0 else (0.0, 0.0)
            nodes[NUMERATOR, p] = m
            nodes[POWER, p] += k + exponent
            slope, bend = interval_derivatives(a, b, row[WIDTH, i], h_b, h_a)
            for j in range(K):
                nodes[SLOPE + j, p] += slope * row[BETA + j, i]
                nodes[CURVE + j, p] += bend * row[BETA + j, i] ** 2
            if mills is not None:
                mills[0, i, p] = h_b
                mills[1, i, p] = h_a


@inner(FAST)
def evaluate(row, nodes, mills, n, place, k, one_sided, single):
    """Set the integrand at the first n points: NUMERATOR * 2**POWER, without the constant."""
    for p in range(n):
        nodes[NUMERATOR, p] = 1.0
        nodes[DENOMINATOR, p] = 1.0
        nodes[LOST, p] = 0.0
        nodes[POWER, p] = 0.0
        for j in range(K):
            nodes[SLOPE + j, p] = nodes[CURVE + j, p] = 0.0
    begin, d = np.int64(0), row.shape[1]
    if not one_sided:
        _multiply_intervals(row, nodes, mills, n)
        begin = d
    while begin < d:
        stop = begin + 1
        while stop < d and row[IS_FAR, stop] == row[IS_FAR, begin]:
            stop += 1
        if row[IS_FAR, begin] > 0.0:
            if k == 2:
                _narrow_far(row, nodes, mills, n, begin, stop)
            else:
                _wide_far(row, nodes, mills, n, begin, stop)
        elif single:
            if k == 2:
                _narrow_short(row, nodes, mills, n, begin, stop)
            else:
                _wide_short(row, nodes, mills, n, begin, stop)
        elif k == 2:
            _narrow_full(row, nodes, mills, n, begin, stop)
        else:
            _wide_full(row, nodes, mills, n, begin, stop)
        begin = stop
    linear, curvature = place.linear[0], place.curvature[0]
    for p in range(n):
        nodes[PRODUCT, p] = 0.0
    for j in range(K):
        for p in range(n):
            slope = linear[j] + 0.5 * (
                curvature[j, 0] * nodes[T, p] + curvature[j, 1] * nodes[T + 1, p]
                + curvature[j, 2] * nodes[T + 2, p] + curvature[j, 3] * nodes[T + 3, p]
            )  # fmt: skip
            nodes[PRODUCT, p] -= slope * nodes[T + j, p]
    for p in range(n):
        exponent = nodes[PRODUCT, p]
        f, lead = exp_parts(min(max(exponent, -_EXPONENT), _EXPONENT), 0.0)
        value = nodes[NUMERATOR, p] / nodes[DENOMINATOR, p] * f * (1.0 + nodes[LOST, p])
        m, power = split_mantissa(value) if value > 0.0 else (0.0, 0.0)
        nodes[NUMERATOR, p] = m
        nodes[POWER, p] += lead + power


@inner(SUMS)
def add_second_derivatives(nodes, n, place, sums):
    """Add WEIGHT times the second derivatives of the integrand in each t_j, over the integrand."""
    linear, curvature = place.linear[1], place.curvature[1]
    for j in range(sums.size):
        total = 0.0
        for p in range(n):
            slope = nodes[SLOPE + j, p] - (
                linear[j]
                + curvature[j, 0] * nodes[T, p] + curvature[j, 1] * nodes[T + 1, p]
                + curvature[j, 2] * nodes[T + 2, p] + curvature[j, 3] * nodes[T + 3, p]
            )  # fmt: skip
            bend = nodes[CURVE + j, p] + curvature[j, j]
            total += nodes[WEIGHT, p] * (slope * slope - bend)
        sums[j] += total


@inner(SUMS)
def add_moments(nodes, mills, n, factors, moments, pairs):
    """Add WEIGHT times h_i, and times h_i t_j, to moments (sides, 1 + k, d).

    To pairs (d, d), if it has entries, g_i g_j for j <= i, where g_i is h_i less that of the lower
    limit.
    """
    sides, d = moments.shape[0], moments.shape[2]
    for side in range(sides):
        for i in range(d):
            h = mills[side, i]
            total = 0.0
            for p in range(n):
                total += nodes[WEIGHT, p] * h[p]
            moments[side, 0, i] += total
            for j in range(factors):
                t = nodes[T + j]
                total = 0.0
                for p in range(n):
                    total += nodes[WEIGHT, p] * h[p] * t[p]
                moments[side, 1 + j, i] += total
    if pairs.size:
        weighted = nodes[PRODUCT]
        for i in range(d):
            if sides == 2:
                for p in range(n):
                    mills[0, i, p] -= mills[1, i, p]
            g_i = mills[0, i]
            for p in range(n):
                weighted[p] = nodes[WEIGHT, p] * g_i[p]
            for j in range(i + 1):
                g_j = mills[0, j]
                total = 0.0
                for p in range(n):
                    total += weighted[p] * g_j[p]
                pairs[i, j] += total
