"""Derivatives of probabilities with several common factors, from moments over the points.

Errors.  Differences from the means over the two lattices before, reduced as the error of the value
was since then; and what is known of h_i = phi/Phi, which lies on a wall of width 1/|beta_i|: times
a normal density it is one of variance 1/(1 + |beta_i|**2), so that the rule returns E[h_i] with the
relative error exp(-w**2 / 2 (1 + |beta_i|**2)) for every dual vector w.  Of a wall between the
points nothing is known but that E[h_i] |beta_i| is at most a density.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner
from mvnorth._cpu.factors_points import BETA, SCALE, A, B, K

_ROUNDING = 1e-14  # relative to the largest entry
STEEP = 3.0  # walls with |beta| above the frequency divided by this are not resolved
_ALIASES = 4.0  # shortest dual vectors
_SAFETY = 4.0
_CUT = 20.0  # times the mass outside of the points, for phi/Phi grows there


@inner(FAST)
def _mean_products(row, place, moments, whole, side, i, k, out):
    """Set out (2 + K,) to E[h_i], E[h_i x_i] and E[h_i z_j], for the x_i of a side.

    Returns the size of the terms of the second.
    """
    h = moments[side, 0, i] / whole
    x = (row[B, i] if side == 0 else row[A, i]) if h > 0.0 else 0.0
    product, size = h * x, abs(h * x)
    for j in range(K):
        out[2 + j] = h * place.z[j]
    for q in range(k):
        moment = moments[side, 1 + q, i] / whole
        product += row[BETA + q, i] * moment
        size += abs(row[BETA + q, i] * moment)
        for j in range(k):
            out[2 + j] += place.map[j, q] * moment
    out[0], out[1] = h, product
    return size


@inner(FAST)
def set_derivatives(work, integral, k, b, results):
    """Set the derivatives of row b, and bounds on the errors of any entry of each kind."""
    in_upper, in_lower, in_c, in_loadings, in_covariance, errors = results
    row, place, sides = work.row, work.place, work.moments.shape[0]
    now, before = np.empty((2, 2 + K)), np.empty((2, 2 + K))
    size, change = np.zeros(5), np.zeros(5)
    share, frequency, wall = integral.share, integral.frequency, np.zeros(5)
    reach = widest = 0.0
    for j in range(k):
        widest = max(widest, abs(place.map[j, j]))
        reach = max(reach, abs(place.z[j]) + 3.0 * abs(place.map[j, j]))
    for i in range(row.shape[1]):
        scale, size_c = row[SCALE, i], 0.0
        square = 0.5 * scale * scale
        square_beta = 0.0
        for j in range(k):
            square_beta += row[BETA + j, i] ** 2
        beta = math.sqrt(square_beta)
        alias = _ALIASES * math.exp(-0.5 * frequency**2 / (1.0 + square_beta))
        missed = integral.wall / beta if beta * STEEP > frequency else 0.0
        if missed > 0.0:
            alias = 1.0
        if row[B, i] < math.inf or sides == 2:  # a wall may stand where no points are
            missed += (integral.error + integral.outside) * frequency / max(beta, 1.0)
        turn = frequency / (1.0 + square_beta)
        farthest = reach + widest * turn
        for side in range(sides):
            size_c += _mean_products(
                row, place, work.moments, integral.whole, side, i, k, now[side]
            )
            lost = alias * now[side, 0] + missed
            wall[side] = max(wall[side], scale * lost)
            lost_product = lost * (1.0 + beta * turn) + alias * abs(now[side, 1])
            wall[2] = max(wall[2], square * lost_product)
            wall[3] = max(wall[3], scale * lost * farthest)
        in_upper[b, i] = scale * now[0, 0]
        size[0] = max(size[0], scale * now[0, 0])
        if sides == 2:
            in_lower[b, i] = -scale * now[1, 0]
            size[1] = max(size[1], scale * now[1, 0])
            for j in range(2, 2 + k):
                size[3] = max(size[3], scale * abs(now[1, j]))
            now[0, 1:] -= now[1, 1:]
        in_c[b, i] = -square * now[0, 1]
        size[2] = max(size[2], square * size_c)
        for j in range(k):
            in_loadings[b, i, j] = scale * now[0, 2 + j]
            size[3] = max(size[3], scale * abs(now[0, 2 + j]))
        for e in range(2):
            for side in range(sides):
                _mean_products(
                    row, place, work.earlier[e], integral.earlier[e], side, i, k, before[side]
                )
            if sides == 2:
                change[1] = max(change[1], share[e] * scale * abs(now[1, 0] - before[1, 0]))
                before[0, 1:] -= before[1, 1:]
            change[0] = max(change[0], share[e] * scale * abs(now[0, 0] - before[0, 0]))
            change[2] = max(change[2], share[e] * square * abs(now[0, 1] - before[0, 1]))
            for j in range(2, 2 + k):
                change[3] = max(change[3], share[e] * scale * abs(now[0, j] - before[0, j]))
    if in_covariance.size:
        for i in range(row.shape[1]):
            for j in range(i):
                scale = 0.5 * row[SCALE, i] * row[SCALE, j]
                value = scale * (work.pairs[i, j] / integral.whole)
                in_covariance[b, i, j] = in_covariance[b, j, i] = value
                size[4] = max(size[4], abs(value))
                for e in range(2):
                    earlier = scale * (work.pairs_earlier[e, i, j] / integral.earlier[e])
                    change[4] = max(change[4], share[e] * abs(value - earlier))
            in_covariance[b, i, i] = in_c[b, i]
        size[4] = max(size[4], size[2])
        change[4] = max(change[4], change[2])
    wall[4] = max(wall[2], max(wall[0], wall[1]) * max(size[0], size[1]))
    rounding = _ROUNDING + 10.0 * integral.rounding + _CUT * integral.outside
    for j in range(5):
        bound = _SAFETY * change[j] + rounding * size[j] + wall[j]
        bound += integral.error * size[j]
        errors[b, j] = bound if integral.error < math.inf else math.inf
