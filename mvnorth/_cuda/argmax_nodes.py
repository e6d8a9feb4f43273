"""Independent normal scores of one row and the mode of their maximum, by a block of threads."""

import math

import numpy as np
from numba import cuda, float64, int64

from mvnorth._cpu.factor_nodes import BETA, SCALE, VECTOR, M, V, X
from mvnorth._cuda.factor_nodes import CURVATURE, LINEAR, TAU, WIDTH, A, any_thread, join
from mvnorth._scalar.argmax import (
    ABSENT,
    FOUND,
    LEAST_BEND,
    MODE_STEPS,
    REACH,
    hides,
    in_units,
    is_live,
    score_slopes,
    step_to_score,
    unit_of,
)
from mvnorth._scalar.one_factor import curve_map
from mvnorth._scalar.phi_mills import short


@cuda.jit(device=True)
def _largest(block, value):
    """The largest ``value`` of all threads."""
    block.part[0, cuda.threadIdx.x] = value
    join(block.part, 1, True)
    found = block.part[0, 0]
    cuda.syncthreads()
    return found


@cuda.jit(device=True)
def _origin(block, widest):
    """``(any live, origin)``: the mean of the narrowest score that may be the largest.

    The row has means and deviations as M and V.
    """
    row, first, step = block.row, cuda.threadIdx.x, cuda.blockDim.x
    low, live = -math.inf, False
    for i in range(first, row.shape[1], step):
        if is_live(row[M, i], row[V, i], widest):
            live = True
            low = max(low, row[M, i] - REACH * row[V, i])
    low = _largest(block, low)
    narrowest = math.inf
    for i in range(first, row.shape[1], step):
        if is_live(row[M, i], row[V, i], widest) and row[M, i] + REACH * row[V, i] >= low:
            narrowest = min(narrowest, row[V, i])
    narrowest = -_largest(block, -narrowest)
    where = math.inf
    for i in range(first, row.shape[1], step):
        may_win = is_live(row[M, i], row[V, i], widest) and row[M, i] + REACH * row[V, i] >= low
        if may_win and row[V, i] == narrowest:
            where = min(where, float64(i))
    where = -_largest(block, -where)
    return any_thread(live), row[M, int64(where)] if where < math.inf else 0.0


@cuda.jit(device=True)
def load(block, mu, sigma, b):
    """``(lost, regular, low, high, start)`` of row b, see ``load`` of the twin.

    lost : something is not a number, or no score can be
    regular : no constant can be the largest
    low, high, start : bracket of the mode, and where to start
    """
    row, part, first, step = block.row, block.part, cuda.threadIdx.x, cuda.blockDim.x
    shared = 0 if sigma.shape[0] == 1 else b
    widest, lost = 0.0, False
    for i in range(first, row.shape[1], step):
        mean, deviation = np.float64(mu[b, i]), np.float64(sigma[shared, i])
        lost |= not mean < math.inf or not 0.0 <= deviation < math.inf
        row[M, i], row[V, i] = mean, deviation
        if mean > -math.inf:
            widest = max(widest, deviation)
    lost = any_thread(lost)
    widest = _largest(block, widest)
    live, origin = _origin(block, widest)
    cuda.syncthreads()
    unit = unit_of(widest)
    low = high = start = constant = -math.inf
    for i in range(first, row.shape[1], step):
        mean, deviation = row[M, i], row[V, i]
        if is_live(mean, deviation, widest):
            m, rest, v = in_units(mean, deviation, origin, unit)
            row[M, i], row[VECTOR, i], row[V, i] = m, rest, v
            row[SCALE, i] = row[BETA, i] = unit / deviation
            low, high = max(low, -m - REACH * v), max(high, -m + REACH * v)
            start = max(start, -m + v)
        else:
            if mean > -math.inf:
                constant = max(constant, (mean - origin) / unit)
            row[M, i], row[VECTOR, i], row[V, i] = ABSENT, 0.0, 0.0
            row[SCALE, i], row[BETA, i] = 1.0, 0.0
    part[0, first], part[1, first], part[2, first], part[3, first] = low, high, start, constant
    join(part, 4, True)
    low, high, start, constant = part[0, 0], part[1, 0], part[2, 0], part[3, 0]
    cuda.syncthreads()
    return lost, live and constant <= low, low, high, start


@cuda.jit(device=True)
def find_mode(block, low, high, start):
    """``(s, width, skewness)``, see the twin."""
    row, part, first, step = block.row, block.part, cuda.threadIdx.x, cuda.blockDim.x
    s, width, skew = start, 0.0, 0.0
    for _ in range(MODE_STEPS):
        zeroth = once = twice = thrice = 0.0
        for i in range(first, row.shape[1], step):
            x = ((row[M, i] + s) + row[VECTOR, i]) * row[SCALE, i]
            parts = short(x)
            terms = score_slopes(parts[3], parts[4], row[BETA, i])
            zeroth += terms[0]
            once -= terms[1]
            twice += terms[2]
            thrice += terms[3]
        part[0, first], part[1, first], part[2, first], part[3, first] = zeroth, once, twice, thrice
        join(part, 4, False)
        zeroth, once, twice, thrice = part[0, 0], part[1, 0], part[2, 0], part[3, 0]
        cuda.syncthreads()
        state, s, low, high, width, skew = step_to_score(s, low, high, zeroth, once, twice, thrice)
        if state == FOUND:
            break
    return s, width, skew


@cuda.jit(device=True)
def centre(block, s, width, skew, single):
    """Centre the row at s, and put the map there on the desk; whether no score hides in it."""
    row, desk, first, step = block.row, block.desk, cuda.threadIdx.x, cuda.blockDim.x
    hidden = False
    for i in range(first, row.shape[1], step):
        x = ((row[M, i] + s) + row[VECTOR, i]) * row[SCALE, i]
        row[X, i] = x
        hidden |= hides(x, row[BETA, i], width, single)
    if first == 0:
        a, tau = curve_map(skew, LEAST_BEND)
        desk[WIDTH], desk[A], desk[TAU], desk[LINEAR], desk[CURVATURE] = width, a, tau, 0.0, 0.0
    return not any_thread(hidden)
