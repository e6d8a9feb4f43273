"""Draws for Sigma = diag(c) + V V^T: the common factors first, by rejection cell by cell.

Given all limits the factors have the log-concave density f of ``mvnorth._cpu.factors_points`` up to
a constant.  The region where it counts is cut into cubes in the variable t.  Within a cube the
tangent of log f at its centre lies above log f, so that draws come by rejection from a density that
is an exponential in every cube: in k dimensions what Gilks & Wild (1992) do in one.  What lies
outside of all cubes is less than 1e-15 of the mass.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.factors_lattice import (
    AXES,
    KEY_OF_MODE,
    clear,
    enlarged,
    insert,
    place_points,
)
from mvnorth._cpu.factors_mode import find_mode
from mvnorth._cpu.factors_points import (
    LOWER,
    NODES,
    NUMERATOR,
    POINTS,
    POWER,
    ROWS,
    SCALE,
    SLOPE,
    UPPER,
    WIDTH,
    K,
    Place,
    T,
    V,
    evaluate,
    take_out_quadratic,
)

_LOG_2 = math.log(2.0)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
_DROP = 42.0  # of the logarithm, beyond which the density does not count
STEPS = (0.0, 0.0, 0.5, 0.7, 1.0)  # of cubes, by the number of factors


@inner()
def _load(row, lower, upper, scale, loadings):
    for i in range(row.shape[1]):
        row[UPPER, i], row[LOWER, i] = upper[i], lower[i]
        row[SCALE, i] = scale[i]
        row[WIDTH, i] = (upper[i] - lower[i]) * scale[i]
        for j in range(K):
            row[V + j, i] = loadings[i, j] if j < loadings.shape[1] else 0.0


@inner(FAST)
def _exponential(slope, width):
    """Logarithm of the integral of exp(slope x) over |x| <= width / 2."""
    half = 0.5 * abs(slope) * width
    if half < 1e-4:
        return math.log(width) + half * half / 6.0
    return half - math.log(abs(slope)) + math.log(-math.expm1(-2.0 * half))


@kernel()
def set_cells(lower, upper, scale, loadings, most):
    """Bound the density of the factors of one problem by an exponential in each of many cubes.

    ``(cells, total, z, map, row, linear, curvature)``: cells (n, 2 + 2 k) have the logarithm of the
    density at their centre, that of the integral of its bound, the centre and the slopes there, in
    t; ``total`` is the logarithm of the integral of all bounds, above that of the probability; the
    others are what ``draw_factors`` needs.  No cells, if there are more than ``most``.
    """
    d, k = loadings.shape
    row, nodes = np.empty((ROWS, d)), np.zeros((NODES, POINTS))
    place = Place(np.empty(K), np.empty((K, K)), np.empty((2, K)), np.empty((2, K, K)))
    _load(row, lower, upper, scale, loadings)
    one_sided, single = False, np.int64(0)
    log_volume, _ = find_mode(row, k, one_sided, place)
    results = place.z, place.map, row, place.linear, place.curvature
    cells = np.empty((1024, 2 + 2 * k))
    if not log_volume < np.inf:
        return cells[:0], -np.inf, *results
    constant = take_out_quadratic(row, place, one_sided) + log_volume - k * _HALF_LOG_2_PI
    table = np.empty(4096, dtype=np.int64)
    clear(table)
    points = np.empty(1024, dtype=np.int64)
    waiting = np.empty(POINTS + 2 * K, dtype=np.int64)
    waiting[0] = KEY_OF_MODE
    insert(table, KEY_OF_MODE)
    pending, done, count, seen = 1, 0, 0, 1
    step = STEPS[k]
    top = 0.0
    while done < count or pending > 0:
        while done < count and pending < POINTS:
            for j in range(k):
                for sign in (-1, 1):
                    key = points[done] + sign * AXES[j]
                    if insert(table, key):
                        waiting[pending] = key
                        pending += 1
                        seen += 1
            done += 1
            if 2 * seen > table.size - 64:
                table = enlarged(table)
        n = min(pending, POINTS)
        if not place_points(nodes, waiting, n, POINTS, step):
            return cells[:0], -np.inf, *results
        evaluate(row, nodes, None, n, place, k, one_sided, single)
        if count + POINTS > len(points):
            if count > most:
                return cells[:0], -np.inf, *results
            more_points = np.empty(2 * len(points), dtype=np.int64)
            more_cells = np.empty((2 * len(points), cells.shape[1]))
            more_points[:count], more_cells[:count] = points[:count], cells[:count]
            points, cells = more_points, more_cells
        for p in range(n):
            if not nodes[NUMERATOR, p] > 0.0:
                continue
            value = math.log(nodes[NUMERATOR, p]) + nodes[POWER, p] * _LOG_2
            if count == 0:
                top = value
            cells[count, 0] = cells[count, 1] = value
            reach = value  # the tangent at the cube's best corner
            for j in range(k):
                slope = nodes[SLOPE + j, p] - place.linear[1, j]
                for q in range(K):
                    slope -= place.curvature[1, j, q] * nodes[T + q, p]
                cells[count, 1] += _exponential(slope, step)
                cells[count, 2 + j], cells[count, 2 + k + j] = nodes[T + j, p], slope
                reach += 0.5 * step * abs(slope)
            if reach < top - _DROP:
                continue
            points[count] = waiting[p]
            count += 1
        for p in range(n, pending):
            waiting[p - n] = waiting[p]
        pending -= n
    if count == 0:
        return cells[:0], -np.inf, *results
    total, largest = 0.0, np.max(cells[:count, 1])
    for r in range(count):
        total += math.exp(cells[r, 1] - largest)
    return cells[:count].copy(), constant + largest + math.log(total), *results


@kernel()
def draw_several_factors(cells, total, place, row, u, z):
    """Draws of the common factors, the first columns of z; returns their number.

    Parameters
    ----------
    cells : (n, 2 + 2 k), see ``set_cells``
    total : (n,) sums of the integrals of the bounds, up to a factor
    place : the last four of its results but the row, as a tuple
    row : (17, d)
    u : (2 + k, count) inside (0, 1)
    z : (k, count) output
    """
    mode, transform, linear, curvature = place
    k, step = z.shape[0], STEPS[z.shape[0]]
    nodes, target = np.zeros((NODES, POINTS)), np.empty(POINTS)
    here = Place(mode, transform, linear, curvature)
    accepted = 0
    for first in range(0, u.shape[1], POINTS):
        n = min(POINTS, u.shape[1] - first)
        for p in range(n):
            s = first + p
            r = min(np.searchsorted(total, u[0, s] * total[-1]), len(total) - 1)
            bound = cells[r, 0]
            for j in range(k):
                slope = cells[r, 2 + k + j]
                fall = abs(slope) * step
                if fall < 1e-8:
                    move = (u[1 + j, s] - 0.5) * step
                else:
                    move = math.log1p(u[1 + j, s] * math.expm1(-fall)) / abs(slope) + 0.5 * step
                    move = move if slope > 0.0 else -move
                bound += slope * move
                nodes[T + j, p] = cells[r, 2 + j] + move
            target[p] = bound + math.log(u[1 + k, s])
        evaluate(row, nodes, None, n, here, k, False, np.int64(0))
        for p in range(n):
            if not nodes[NUMERATOR, p] > 0.0:
                continue
            if target[p] <= math.log(nodes[NUMERATOR, p]) + nodes[POWER, p] * _LOG_2:
                for j in range(k):
                    value = mode[j]
                    for q in range(k):
                        value += transform[j, q] * nodes[T + q, p]
                    z[j, accepted] = -value  # limits have plus V z here
                accepted += 1
    return accepted
