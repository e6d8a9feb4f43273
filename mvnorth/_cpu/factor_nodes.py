"""The one-factor integrand at many values of the common factor at once.

    f(z) = phi(z) prod_i Phi(x_i(z)),    x_i(z) = (m_i + v_i z) / sqrt(c_i)

Nodes are innermost and contiguous, so that all of it runs as vector code however few coordinates
there are.  They are offsets from a centre at which the x_i have been computed with one rounding,
so that neither a large z nor steep x_i cost digits.  Coordinates that are far out at the mode,
x_i < FAR, have exp(-x_i**2/2) taken out of their Phi: together these are a quadratic in the offset,
and the rest neither underflows nor loses digits however far out they are.
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._scalar.exp_log import split_mantissa
from mvnorth._scalar.one_factor import add_moment, far_parts, log_slopes, quadratic_parts
from mvnorth._scalar.phi_mills import FAR, far, full, short

NODES = 32  # at most at a time; every number of nodes is a multiple of 8
_KEPT = 16384  # coordinates whose phi/Phi are kept; of more they are faster computed twice

# What belongs to a row of the batch, (7, d): its m, v, 1/sqrt(c), beta = v/sqrt(c), the x_i at the
# centre, 1 where x_i is far out at the mode, and a vector for products with second derivatives or,
# for a matrix, the share of h_i at the mode that is its reference.
M, V, SCALE, BETA, X, IS_FAR, VECTOR = range(7)
# What belongs to a block of nodes, (13, NODES): the integrand without its quadratic is
# NUMERATOR (1 + LOST) / DENOMINATOR * 2**POWER; SLOPE, BEND and TWIST are the first derivative in z
# of sum_i log Phi(x_i), minus the second, and the third; STEEP is sum_i |beta_i| h_i; the rest is
# for the rule.
OFFSET, NUMERATOR, DENOMINATOR, LOST, POWER, SLOPE, BEND, TWIST, STEEP = range(9)
STRETCH, TURN, WEIGHT, DOT = range(9, 13)
# Places in sums, (32,): of F, F', F''; of the derivatives (F SLOPE)', (F SLOPE)''; of F STEEP, over
# all nodes; then F at the outermost node and at its neighbour, and both times STEEP, on the left
# and on the right.  Then, for second derivatives, of (F SLOPE**2)', (F SLOPE**2)'' and F STEEP**2,
# the last at the outermost nodes and their neighbours, and the relative error of all these; then
# ten numbers of a panel.
TOTAL, FIRST, SECOND, SLOPE_FIRST, SLOPE_SECOND, STEEP_TOTAL, LEFT, RIGHT = 0, 1, 2, 3, 4, 5, 6, 10
SQUARE_FIRST, SQUARE_SECOND, SQUARE_TOTAL, SQUARE_LEFT, SQUARE_RIGHT = 14, 15, 16, 17, 19
SQUARE_ERROR, PARTS = 21, 22
# Rows of moments for first derivatives, for products with second ones, and, with d rows more, for a
# matrix; see ``add_moments``.
FIRST_ORDER, SECOND_ORDER = 4, 8
# All of these; mills (power of two, NODES) with the h_i of the last coordinates;
# moments (k, d); stacks (2, STACK, 5) of panels.  Few arrays: with every call each costs a
# reference count.
Work = namedtuple("Work", "row nodes mills moments sums stacks")
STACK = 4600
# The map from t to z, what was taken out of the integrand there, and the precision.
Place = namedtuple("Place", "z width a tau linear curvature single")
TOLERANCE = (1e-13, 1e-7)  # of the integral, in double and in single precision


@inner(FAST)
def allocate(d, order):
    """A ``Work`` for rows of d coordinates, with ``order`` rows of moments."""
    kept = 1
    while order and kept < (d if d <= _KEPT or order > SECOND_ORDER else 64):
        kept *= 2
    moments = np.empty((order, d if order else 0))
    nodes, mills = np.empty((13, NODES)), np.empty((kept, NODES))
    stacks = np.empty((2, STACK, 5))
    return Work(np.empty((7, d)), nodes, mills, moments, np.empty(32), stacks)


def moments_or_none(work: Any, wanted: Any) -> Any:
    """The moments of ``work``, or None: what they need is not compiled where ``wanted`` is None."""
    return None if wanted is None else work.moments


@overload(moments_or_none, inline="always")
def _moments_or_none(work, wanted):
    if isinstance(wanted, types.NoneType):
        return lambda work, wanted: None
    return lambda work, wanted: work.moments


@inner(FAST)
def recentre(row, z):
    """Set x to its values at z; m + v z is one fused operation where the machine has it."""
    for i in range(row.shape[1]):
        row[X, i] = (row[M, i] + row[V, i] * z) * row[SCALE, i]


@inner(SUMS)
def _far_sums(row):
    constant = linear = curvature = 0.0  # x may be infinite where it does not count
    for i in range(row.shape[1]):
        x = row[X, i] if row[IS_FAR, i] > 0.0 else 0.0
        beta = row[BETA, i] if row[IS_FAR, i] > 0.0 else 0.0
        constant += x * x
        linear += x * beta
        curvature += beta * beta
    return constant, linear, curvature


@inner(FAST)
def take_out_quadratic(row, z):
    """Centre the row at the mode z and mark what is far out there.

    ``(constant, linear, curvature)``: at z + delta the logarithm of what is taken out is
    constant - linear * delta - curvature * delta**2 / 2, that of exp(-z**2/2) included.
    """
    recentre(row, z)
    for i in range(row.shape[1]):
        row[IS_FAR, i] = 1.0 if row[X, i] < FAR else 0.0
    constant, linear, curvature = _far_sums(row)
    return -0.5 * (constant + z * z), linear + z, curvature + 1.0


@inner(FAST, forceinline=True)
def _renormalise(nodes, n):
    for k in range(n):
        m, exponent = split_mantissa(nodes[NUMERATOR, k] / nodes[DENOMINATOR, k])
        nodes[NUMERATOR, k] = m
        nodes[DENOMINATOR, k] = 1.0
        nodes[POWER, k] += exponent


def _multiplier(parts: Callable) -> Callable:
    """Compile the multiplication by Phi of coordinates [begin, end) for one form of Phi."""

    @inner(FAST)
    def multiply(row, nodes, mills, n, begin, end):
        mask = mills.shape[0] - 1  # mills holds a power of two of coordinates
        for i in range(begin, end):
            x, beta, size = row[X, i], row[BETA, i], abs(row[BETA, i])
            h_i = mills[i & mask]
            for k in range(n):
                a, d, exponent, h, r, rest = parts(x + beta * nodes[OFFSET, k])
                nodes[NUMERATOR, k] *= a
                nodes[DENOMINATOR, k] *= d
                nodes[LOST, k] += rest
                nodes[POWER, k] += exponent
                once, twice, thrice = log_slopes(h, r, beta)
                nodes[SLOPE, k] += once
                nodes[BEND, k] += twice
                nodes[TWIST, k] += thrice
                nodes[STEEP, k] += h * size
                h_i[k] = h
            if i % 16 == 15:
                _renormalise(nodes, n)

    return multiply


_multiply_full, _multiply_short, _multiply_far = map(_multiplier, (full, short, far_parts))


@inner(FAST)
def _multiply(row, nodes, mills, n, begin, end, single):
    """Nodes with the factors of coordinates [begin, end), in runs of the same kind."""
    for k in range(n):
        nodes[NUMERATOR, k] = 1.0
        nodes[DENOMINATOR, k] = 1.0
        nodes[LOST, k] = 0.0
        nodes[POWER, k] = 0.0
        nodes[SLOPE, k] = 0.0
        nodes[BEND, k] = 0.0
        nodes[TWIST, k] = 0.0
        nodes[STEEP, k] = 0.0
    while begin < end:
        stop = begin + 1
        while stop < end and row[IS_FAR, stop] == row[IS_FAR, begin]:
            stop += 1
        if row[IS_FAR, begin] > 0.0:
            _multiply_far(row, nodes, mills, n, begin, stop)
        elif single:
            _multiply_short(row, nodes, mills, n, begin, stop)
        else:
            _multiply_full(row, nodes, mills, n, begin, stop)
        begin = stop


@inner(FAST)
def evaluate(row, nodes, mills, n, shift, linear, curvature, single):
    """The integrand at the first n offsets, with denominators 1 in the end.

    ``shift`` is the distance of the row's centre from the mode, at which ``linear`` and
    ``curvature`` were taken out.
    """
    begin = np.int64(0)  # a literal would be compiled for itself
    _multiply(row, nodes, mills, n, begin, row.shape[1], single)
    for k in range(n):
        f, exponent = quadratic_parts(shift + nodes[OFFSET, k], linear, curvature)
        nodes[NUMERATOR, k] *= f * (1.0 + nodes[LOST, k])
        nodes[POWER, k] += exponent
    _renormalise(nodes, n)


@inner(SUMS)
def _add_moments(row, nodes, mills, n, shift, moments, begin, end):
    mask = mills.shape[0] - 1
    for i in range(begin, end):
        h_i = mills[i & mask]
        plain = tilted = spread = 0.0
        for k in range(n):
            term = nodes[WEIGHT, k] * h_i[k]
            plain += term
            tilted += term * nodes[OFFSET, k]
            spread += term * abs(nodes[OFFSET, k])
        add_moment(moments, i, plain, tilted, spread, shift, row[X, i], row[BETA, i])


@inner(SUMS)
def _add_products(row, nodes, mills, n, moments, begin, end):
    """DOT += sum_i (h_i - reference_i) VECTOR_i."""
    mask = mills.shape[0] - 1
    for i in range(begin, end):
        h_i = mills[i & mask]
        for k in range(n):
            nodes[DOT, k] += (h_i[k] - moments[4, i]) * row[VECTOR, i]


@inner(SUMS)
def _add_second_moments(row, nodes, mills, n, moments, begin, end):
    mask = mills.shape[0] - 1
    for i in range(begin, end):
        h_i = mills[i & mask]
        plain = product = curvature = 0.0
        for k in range(n):
            x = row[X, i] + row[BETA, i] * nodes[OFFSET, k]
            h = h_i[k]
            r = far(x)[1] if row[IS_FAR, i] > 0.0 else x + h
            term = nodes[WEIGHT, k] * (h - moments[4, i])
            plain += term
            product += term * nodes[DOT, k]
            curvature += nodes[WEIGHT, k] * h * r if h > 0.0 else 0.0
        moments[5, i] += plain
        moments[6, i] += product
        moments[7, i] += curvature


@inner(SUMS)
def _add_outer_products(nodes, mills, n, moments):
    d = moments.shape[1]
    for i in range(d):
        for k in range(n):
            mills[i, k] -= moments[4, i]
    for i in range(d):
        g_i, row = mills[i], moments[SECOND_ORDER + i]
        for k in range(n):
            nodes[DOT, k] = nodes[WEIGHT, k] * g_i[k]
        for j in range(i + 1):
            g_j = mills[j]
            total = 0.0
            for k in range(n):
                total += nodes[DOT, k] * g_j[k]
            row[j] += total


@inner(FAST)
def add_moments(row, nodes, mills, n, shift, single, moments):
    """Add the weighted nodes: to row 0 h_i, to row 1 h_i delta, to row 2 h_i x_i and to row 3 about
    its size; then, for second derivatives, to row 5 g_i = h_i - reference_i, to row 6
    g_i sum_j g_j VECTOR_j and to row 7 h_i (x_i + h_i); row 4 holds the reference.  For a matrix,
    to entry j <= i of row 8 + i g_i g_j instead of row 6.

    After ``evaluate`` of the same nodes, whose products may be lost here.
    """
    d, kept = moments.shape[1], mills.shape[0]
    second = moments.shape[0] > FIRST_ORDER
    for k in range(n):
        nodes[DOT, k] = 0.0
    for begin in range(0, d, kept):
        end = d if d < begin + kept else begin + kept
        if kept < d:
            _multiply(row, nodes, mills, n, begin, end, single)
        _add_moments(row, nodes, mills, n, shift, moments, begin, end)
        if moments.shape[0] == SECOND_ORDER:
            _add_products(row, nodes, mills, n, moments, begin, end)
    if second:
        for begin in range(0, d, kept):
            end = d if d < begin + kept else begin + kept
            if kept < d:
                _multiply(row, nodes, mills, n, begin, end, single)
            _add_second_moments(row, nodes, mills, n, moments, begin, end)
    if moments.shape[0] > SECOND_ORDER:  # all h_i have been kept
        _add_outer_products(nodes, mills, n, moments)


@inner(FAST)
def set_reference(row, moments):
    """Row 4 of moments: h_i at the centre, so that covariances do not cancel."""
    for i in range(row.shape[1]):
        x = row[X, i]
        moments[4, i] = far(x)[0] if row[IS_FAR, i] > 0.0 else full(x)[3]
        if moments.shape[0] > SECOND_ORDER:
            moments[4, i] *= row[VECTOR, i]


@inner(FAST)
def clear(sums, moments):
    """Set sums and moments to zero, but for the reference."""
    for j in range(sums.size):
        sums[j] = 0.0
    if moments is not None:
        for j in range(moments.shape[0]):
            if j != 4:
                for i in range(moments.shape[1]):
                    moments[j, i] = 0.0


@inner(FAST)
def has_squares(moments):
    """Whether products of two phi/Phi are wanted."""
    if moments is None:
        return False
    return moments.shape[0] > SECOND_ORDER
