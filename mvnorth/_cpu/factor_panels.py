"""The one-factor integral by adaptive Gauss-Legendre panels, for integrands with walls.

Where c_i is tiny, Phi(x_i) is all but a step: no single step of the trapezoidal rule suits the wall
and the plain beside it.  Panels are halved until they agree with their halves.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.factor_nodes import (
    INNER,
    NODES,
    NUMERATOR,
    OFFSET,
    POWER,
    STEEP,
    STEEP_TOTAL,
    TOLERANCE,
    TOTAL,
    WEIGHT,
    add_moments,
    clear,
    evaluate,
    recentre,
)
from mvnorth._scalar.exp_log import power_of_two

_PANELS = 600  # evaluations of two half panels, at most
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(NODES // 2)


@njit(**INNER)
def offset(place, t):
    sinh, cosh = math.sinh(0.5 * place.a * t), math.cosh(0.5 * place.a * t)
    return (2.0 * place.width / place.a) * sinh * (cosh + place.tau * sinh)


@njit(**INNER)
def _halves(work, place, low, width, top, parts):
    """Gauss-Legendre on the halves of a panel: parts = integrals of f and of f steep, (4,)."""
    nodes, half = work.nodes, work.nodes.shape[1] // 2
    centre = place.z + (low + 0.5 * width)
    shift = centre - place.z
    recentre(work.row, centre)
    for k in range(half):
        inside = (0.25 * width) * (1.0 + _LEGENDRE_NODES[k])
        nodes[OFFSET, k] = (low - shift) + inside
        nodes[OFFSET, half + k] = (low - shift) + (0.5 * width + inside)
    evaluate(
        work.row, nodes, work.mills, 2 * half, shift, place.linear, place.curvature, place.single
    )
    for j in range(4):
        parts[j] = 0.0
    for k in range(2 * half):
        weight = (0.25 * width) * _LEGENDRE_WEIGHTS[k % half]
        weight *= nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k] - top)
        nodes[WEIGHT, k] = weight
        parts[k // half] += weight
        parts[2 + k // half] += weight * nodes[STEEP, k]
    return shift


@njit(**INNER)
def panels(work, place, low, high, top):
    """``(error, used)``: totals and moments from panels, halved until they agree with their halves.

    The panels lie between the offsets low and high.  Panels at walls are small, and centred on
    themselves, so that steep x_i are accurate there.
    """
    tolerance = TOLERANCE[place.single]
    sums = work.sums
    stack = np.empty((2 * _PANELS + 8, 4))  # low, width, integrals of f and of f steep
    parts = np.empty(4)
    clear(work)
    # The first halves are taken as they are, to be compared with theirs.
    size = 0
    whole, steep = 0.0, 0.0
    for side in range(2):
        begin, end = (low, 0.0) if side == 0 else (0.0, high)
        _halves(work, place, begin, end - begin, top, parts)
        for half in range(2):
            stack[size, 0] = begin + 0.5 * half * (end - begin)
            stack[size, 1] = 0.5 * (end - begin)
            stack[size, 2] = parts[half]
            stack[size, 3] = parts[2 + half]
            size += 1
        whole += parts[0] + parts[1]
        steep += parts[2] + parts[3]
    error = steep_error = 0.0
    used = 2 * NODES
    evaluations = 0
    while size:
        size -= 1
        begin, width, f, g = stack[size]
        shift = _halves(work, place, begin, width, top, parts)
        used += NODES
        evaluations += 1
        change = abs(parts[0] + parts[1] - f)
        steep_change = abs(parts[2] + parts[3] - g)
        whole += parts[0] + parts[1] - f
        steep += parts[2] + parts[3] - g
        settled = change <= tolerance * whole and steep_change <= 10.0 * tolerance * steep
        if settled or evaluations > _PANELS or width <= 1e-15 * (high - low):
            sums[TOTAL] += parts[0] + parts[1]
            sums[STEEP_TOTAL] += parts[2] + parts[3]
            error += change
            steep_error += steep_change
            if work.moments.shape[1]:
                nodes, mills = work.nodes, work.mills
                n = nodes.shape[1]
                add_moments(work.row, nodes, mills, n, shift, place.single, work.moments)
        else:
            for half in range(2):
                stack[size, 0] = begin + 0.5 * half * width
                stack[size, 1] = 0.5 * width
                stack[size, 2] = parts[half]
                stack[size, 3] = parts[2 + half]
                size += 1
    recentre(work.row, place.z)
    return error / sums[TOTAL], used
