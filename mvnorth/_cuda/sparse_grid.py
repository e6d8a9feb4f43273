"""Sparse grids of Gauss rules on a device, see ``_sparse`` of ``mvnorth._cpu.gauss``.

A block integrates one row at a time, a thread one point after the other: it finds from the number
of the point which node of which rule each variable has, and walks through all variables.  The CPU
shares the steps of points that begin alike, which saves a factor of level + 1 at most.  All threads
know all sums and decide alike.  All is in double precision.
"""

import numpy as np
from numba import cuda, float64, int64

from mvnorth._cuda.gauss_nodes import (
    CURVE,
    LOWER,
    SLOPE,
    UPPER,
    begin_variable,
    node,
    probability,
    relative_change,
)
from mvnorth._cuda.groups import THREADS, join_group
from mvnorth._cuda.launch import kernel
from mvnorth._scalar.exp_log import exp_parts, log_scaled
from mvnorth._scalar.gauss import (
    SPARSE_LANES,
    SPARSE_LEVELS,
    STEEP,
    allow_for_steps,
    between,
    largest_error,
    sparse_claim,
    sparse_is_done,
    sparse_points,
)
from mvnorth._scalar.genz import join_sums

MAX_COORDINATES = 50
RESIDENT = 4  # blocks a multiprocessor
_SUMS = SPARSE_LEVELS + 1
_CHANGES = SPARSE_LEVELS + 2


@cuda.jit(device=True)
def grid_size(variables, level):
    """Points of a grid of so many variables with up to ``level`` nodes more than one each."""
    size = 1
    for s in range(level):
        size = size * (2 * variables + s + 1) // (s + 1)
    return size


@cuda.jit(device=True)
def weigh_point(T, given, table, starts, legendre, sizes, y, b, d, item, level):
    """``(weight, power, spare)`` of a point of the grid; ``spare`` is what it leaves of the level.

    y : (d,) the nodes, in local memory
    """
    weight, power, exponent, left, spare = 1.0, 0.0, 0.0, item, level
    for i in range(d):
        acc = 0.0
        for j in range(i):
            acc -= T[b, i, j] * y[j]
        exponent += acc * (given[SLOPE, i] + given[CURVE, i] * acc)
        if i == d - 1:
            f, k = probability(given[LOWER, i] + acc, given[UPPER, i] + acc)
        else:
            n, size = 1, sizes[d - 2 - i, spare]
            while left >= n * size:
                left -= n * size
                n += 1
                size = sizes[d - 2 - i, spare - n + 1]
            low, high = given[LOWER, i] + acc, given[UPPER, i] + acc
            f, k = begin_variable(low, high)
            y[i], share, _, rise = node(
                table, starts, legendre, n, n, low, high, high - low, left // size
            )
            weight *= share
            exponent += rise
            left %= size
            spare -= n - 1
        weight *= f
        power += k
    f, k = exp_parts(exponent, 0.0)
    return weight * f, power + k, spare


@kernel(THREADS, RESIDENT)
def sparse_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, log_prob, rel_error, spent,
):  # fmt: skip
    """Integrate all rows without two limits that matter; see ``gauss_rows``.

    Others are left as they are: spent (B,) is 0, and the error infinite.
    """
    given = cuda.shared.array((4, MAX_COORDINATES), float64)
    sizes = cuda.shared.array((MAX_COORDINATES, _SUMS), int64)
    shared = cuda.shared.array((3, THREADS), float64)
    y = cuda.local.array(MAX_COORDINATES, float64)
    totals = cuda.local.array(_SUMS, float64)
    tops = cuda.local.array(_SUMS, float64)
    change = cuda.local.array(_CHANGES, float64)
    t, d = cuda.threadIdx.x, upper.shape[1]
    for e in range(t, d * _SUMS, cuda.blockDim.x):
        sizes[e // _SUMS, e % _SUMS] = grid_size(e // _SUMS, e % _SUMS)
    for b in range(cuda.blockIdx.x, upper.shape[0], cuda.gridDim.x):
        for i in range(t, d, cuda.blockDim.x):
            given[LOWER, i], given[UPPER, i] = lower[b, i], upper[b, i]
            given[SLOPE, i], given[CURVE, i] = slope[b, i], curve[b, i]
        cuda.syncthreads()
        sparse, points_spent, before, before_top = steep[b] <= STEEP, 0.0, 0.0, 0.0
        log, error = -np.inf, np.inf
        for i in range(d - 1):
            sparse = sparse and between(given[LOWER], given[UPPER], i, 1) == 1
        for level in range(1, _SUMS if sparse else 1):
            points = sparse_points(d - 1, level)
            if points_spent + points > most or points > SPARSE_LANES:
                break
            points_spent += points
            for s in range(level + 1):
                totals[s], tops[s] = 0.0, -np.inf
            for item in range(t, grid_size(d - 1, level), cuda.blockDim.x):
                weight, power, spare = weigh_point(
                    T, given, table, starts, legendre, sizes, y, b, d, item, level
                )
                s = level - spare
                own = power if weight > 0.0 else -np.inf
                totals[s], _, tops[s] = join_sums(totals[s], 0.0, tops[s], weight, 0.0, own)
            total, top, factor = 0.0, -np.inf, 1.0
            for r in range(level + 1):
                s = level - r
                part, _, part_top = join_group(totals[s], 0.0, tops[s], cuda.blockDim.x, shared)
                total, _, top = join_sums(total, 0.0, top, factor * part, 0.0, part_top)
                factor *= -(d - 2.0 - r) / (r + 1.0)
                if level == 1:
                    before, before_top = part, part_top
            if not 0.0 < total < np.inf:
                error = np.inf
                break
            change[level + 1] = relative_change(total, top, before, before_top)
            before, before_top = total, top
            log = min(0.0, log_scaled(total, top) + log_scale[b])
            error = allow_for_steps(sparse_claim(change, level), level + 1, steep[b])
            if sparse_is_done(change, level, error, largest_error(relative, absolute, log)):
                break
        if t == 0:
            log_prob[b], rel_error[b], spent[b] = log, error, points_spent
        cuda.syncthreads()  # wait until all threads have finished this row


_rows, _numbers, _whole = float64[:, ::1], float64[::1], int64[::1]
SIGNATURE = (
    float64[:, :, ::1], _rows, _rows, _rows, _rows, _numbers, _numbers, _whole,
    float64[:, :, ::1], float64, float64, float64, _numbers, _numbers, _numbers, _numbers,
)  # fmt: skip
