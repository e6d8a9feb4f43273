"""The one-factor integral by adaptive Gauss-Legendre panels, for integrands with walls.

Where c_i is tiny, Phi(x_i) is all but a step: no single step of the trapezoidal rule suits the wall
and the plain beside it.  From the mode outwards panels double in width until nothing is left; then
they are halved until they agree with their halves, and until the rule applied to f' gives the
difference of f between their ends: so no wall hides between an end and the nodes.  All edges are
multiples of a power of two, so that neighbours meet exactly, and every panel has the x_i computed
at its own centre: at a wall as narrow as 1e-6 no digits are lost.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner
from mvnorth._cpu.factor_nodes import (
    BETA,
    NODES,
    NUMERATOR,
    OFFSET,
    PARTS,
    POWER,
    SLOPE,
    SQUARE_ERROR,
    SQUARE_TOTAL,
    STACK,
    STEEP,
    STEEP_TOTAL,
    TOLERANCE,
    TOTAL,
    WEIGHT,
    add_moments,
    clear,
    evaluate,
    has_squares,
    recentre,
)  # fmt: skip
from mvnorth._scalar.exp_log import power_of_two

_PANELS = 1500  # evaluations of two half panels, at most; with the next, as many as stacks hold
_DOUBLINGS = (STACK - 2 * _PANELS) // 4  # on either side of the mode, at most
_NEGLIGIBLE = 1e-18
_SMALLEST = 2.0**-1022
_HALF = NODES // 2 - 2  # nodes of a half panel; three of the others are its ends
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(_HALF)


@inner(FAST)
def _halves(work, place, low, width, top, parts):
    """Gauss-Legendre on the halves of a panel.

    parts (10,): the integrals of f over the halves, of f STEEP, and by how much the rule for f'
    misses the difference of f between the two ends of each half, less what rounding may do; then
    f at the two ends of the panel, and the integrals of f STEEP**2.
    Returns the distance of the panel's centre from the mode.
    """
    row, nodes = work.row, work.nodes
    centre = low + 0.5 * width
    shift = centre - place.z
    recentre(row, centre)
    for k in range(_HALF):
        inside = (0.25 * width) * (1.0 + _LEGENDRE_NODES[k])
        nodes[OFFSET, k] = inside - 0.5 * width
        nodes[OFFSET, _HALF + k] = inside
    for k in range(2 * _HALF, NODES):  # low end, middle, high end, one too many
        nodes[OFFSET, k] = 0.5 * width * (min(k - 2 * _HALF, 2) - 1.0)
    n = nodes.shape[1]
    evaluate(row, nodes, work.mills, n, shift, place.linear, place.curvature, place.single)
    for k in range(n):
        nodes[WEIGHT, k] = nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k] - top)
    for half in range(2):
        first, last = nodes[WEIGHT, 2 * _HALF + half], nodes[WEIGHT, 2 * _HALF + half + 1]
        f = g = square = change = size = 0.0
        for j in range(_HALF):
            k = half * _HALF + j
            weight = (0.25 * width) * _LEGENDRE_WEIGHTS[j] * nodes[WEIGHT, k]
            slope = nodes[SLOPE, k] - (centre + nodes[OFFSET, k])
            nodes[WEIGHT, k] = weight
            f += weight
            g += weight * nodes[STEEP, k]
            square += weight * nodes[STEEP, k] ** 2
            change += weight * slope
            size += weight * (abs(slope) + nodes[STEEP, k])
        parts[half] = f
        parts[2 + half] = g
        parts[8 + half] = square
        # The further f is below its peak, the larger the exponents that its rounding comes from.
        rounding = 1e-14 - 1e-15 * math.log(min(max(first, last, 1e-300), 1.0))
        missed = abs(change - (last - first))
        parts[4 + half] = max(missed - rounding * (size + first + last), 0.0)
    parts[6], parts[7] = nodes[WEIGHT, 2 * _HALF], nodes[WEIGHT, 2 * _HALF + 2]
    for k in range(2 * _HALF, n):
        nodes[WEIGHT, k] = 0.0
    return shift


@inner(FAST)
def _push_halves(stack, size, low, width, parts):
    for half in range(2):
        stack[size + half, 0] = low + 0.5 * half * width
        stack[size + half, 1] = 0.5 * width
        stack[size + half, 2] = parts[half]
        stack[size + half, 3] = parts[2 + half]
        stack[size + half, 4] = parts[8 + half]
    return size + 2


@inner(FAST)
def _narrowest(z):
    """Width of a panel at z whose nodes are still told apart: a power of two."""
    return power_of_two(math.floor(math.log2(max(abs(z), 1e-30))) - 49.0)


@inner(FAST)
def _start(work, place):
    """``(edge, width, top)`` to start from: a round number near the mode, and 2**top there.

    In the width no x_i changes by more than about one.
    """
    row, nodes = work.row, work.nodes
    steepest = 1.0 / place.width
    for i in range(row.shape[1]):
        steepest = max(steepest, abs(row[BETA, i]))
    width = max(power_of_two(1.0 * math.floor(-math.log2(steepest))), _narrowest(place.z))
    edge = width * math.floor(place.z / width)
    n = np.int64(8)
    for k in range(n):
        nodes[OFFSET, k] = 0.0
    recentre(row, place.z)
    linear, curvature = place.linear, place.curvature
    evaluate(row, nodes, work.mills, n, 0.0, linear, curvature, place.single)
    return edge, width, nodes[POWER, 0]


@inner(FAST)
def panels(work, moments, place):
    """``(error, steep_error, used, top)``: totals and moments by panels, those of f / 2**top.

    Errors are relative, of the integrals of f and of f STEEP.
    """
    # Halves are better than their panel by several digits, of which two are counted on.
    tolerance = 100.0 * TOLERANCE[place.single]
    sums = work.sums
    # Panels to do (low, width, integrals of f, of f STEEP and of f STEEP**2): first those that f
    # itself asks to halve, which lead to the walls; only then is known what f STEEP amounts to.
    now, later = work.stacks[0], work.stacks[1]
    parts = sums[PARTS:]
    squares = has_squares(moments)
    steepest = 0.0
    for i in range(work.row.shape[1]):
        steepest = max(steepest, abs(work.row[BETA, i]))
    clear(sums, moments)
    edge, smallest, top = _start(work, place)
    size, used = 0, 0
    whole = steep = steeper = 0.0
    for side in range(2):
        width, empty = smallest, 0
        low = edge if side else edge - width
        for _ in range(_DOUBLINGS):
            _halves(work, place, low, width, top, parts)
            used += NODES
            size = _push_halves(now, size, low, width, parts)
            f, g = parts[0] + parts[1], parts[2] + parts[3]
            whole += f
            steep += g
            square = parts[8] + parts[9]
            steeper += square
            # f is 1 or so at the mode, and falls from there.
            over = parts[6 + side] <= _NEGLIGIBLE and f <= _NEGLIGIBLE * whole
            over &= g <= _NEGLIGIBLE * steep
            over &= not squares or square <= _NEGLIGIBLE * steeper
            empty = empty + 1 if over else 0
            if empty == 2:
                break
            low = low + width if side else low - 2.0 * width
            width *= 2.0
    error = steep_error = square_error = 0.0
    evaluations = put_off = taken_up = 0
    while size or taken_up < put_off:
        postponed = size == 0
        if postponed:  # in turn, for they may still lead to walls
            low, width, f = later[taken_up, 0], later[taken_up, 1], later[taken_up, 2]
            g, square = later[taken_up, 3], later[taken_up, 4]
            taken_up += 1
        else:
            size -= 1
            low, width, f = now[size, 0], now[size, 1], now[size, 2]
            g, square = now[size, 3], now[size, 4]
        shift = _halves(work, place, low, width, top, parts)
        used += NODES
        evaluations += 1
        f_new, g_new = parts[0] + parts[1], parts[2] + parts[3]
        square_new = parts[8] + parts[9]
        missed = parts[4] + parts[5]
        settled = abs(f_new - f) <= tolerance * whole and missed * width <= 0.01 * tolerance * whole
        also_steep = abs(g_new - g) <= 0.01 * tolerance * steep and missed <= tolerance * steep
        if squares:
            also_steep &= abs(square_new - square) <= 0.01 * tolerance * steeper
        given_up = evaluations > _PANELS or width <= _narrowest(low)
        if settled and not (also_steep or postponed or given_up):
            later[put_off, 0], later[put_off, 1] = low, width
            later[put_off, 2], later[put_off, 3], later[put_off, 4] = f, g, square
            put_off += 1
            continue
        settled &= also_steep
        whole += f_new - f
        steep += g_new - g
        steeper += square_new - square
        if settled or given_up:
            # What is given up counts in full, also for what may lie between the nodes.
            share = 0.01 if settled else 1.0
            sums[TOTAL] += f_new
            sums[STEEP_TOTAL] += g_new
            sums[SQUARE_TOTAL] += square_new
            error += share * abs(f_new - f) + missed * width
            steep_error += share * abs(g_new - g) + missed
            square_error += share * abs(square_new - square) + missed * steepest
            if moments is not None:
                n, single = work.nodes.shape[1], place.single
                add_moments(work.row, work.nodes, work.mills, n, shift, single, moments)
        else:
            size = _push_halves(now, size, low, width, parts)
    steep_error /= max(sums[STEEP_TOTAL], _SMALLEST)
    sums[SQUARE_ERROR] = square_error / max(sums[SQUARE_TOTAL], _SMALLEST)
    return error / sums[TOTAL], steep_error, used, top
