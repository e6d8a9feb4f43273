"""Sums over batches of samples of what ``mvnorth._cuda.pathwise`` leaves of each.

A batch is THREADS samples of one pair, that is of one problem and one shift; its derivatives are
relative to a power of two of its own.  Every sum has one owner and one order, so that nothing
depends on the device, or on how many batches are there at a time but for rounding.
"""

from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64

from mvnorth._cuda.genz import PANEL, THREADS
from mvnorth._cuda.launch import Shape, kernel
from mvnorth._scalar.exp_log import log_scaled, power_of_two
from mvnorth._scalar.genz import join_sums

TILE = 32  # rows and columns of products, and samples in shared memory at a time
PADDED = TILE + 1  # columns of these in shared memory: neighbours across rows in different banks
SEGMENTS = THREADS // PANEL  # threads a row of statistics
DRAWN, SUMS, HIGH, LOW = 0, 1, 2, 3  # the work arrays of a batch; LOW only where there are limits
RESIDENT = 4  # blocks a multiprocessor


@kernel(THREADS, RESIDENT)
def settle(sums, begin, batches, state, logs, scale, shrink):
    """Add the weights of batches ``begin`` and following to those of their pairs.

    Parameters
    ----------
    sums : (blocks, 3) of these batches
    batches : of a pair
    state : (pairs, 3) updated; to start with 0, 0 and -inf
    logs : (pairs, 2) output, logs of the sum of weights and of the largest weight
    scale : (blocks,) output, what derivatives of a batch are to be multiplied by
    shrink : (pairs,) output, what earlier sums of derivatives are to be multiplied by
    """
    pair = begin // batches + cuda.grid(1)
    start = max(begin, pair * batches) - begin
    end = min(begin + sums.shape[0], (pair + 1) * batches) - begin
    if start >= end:
        return
    total, largest, top = state[pair, 0], state[pair, 1], state[pair, 2]
    before = top
    for k in range(start, end):
        total, largest, top = join_sums(total, largest, top, sums[k, 0], sums[k, 1], sums[k, 2])
    known = top > -np.inf
    for k in range(start, end):
        scale[k] = power_of_two(sums[k, 2] - top) if known else 0.0
    shrink[pair] = power_of_two(before - top) if known else 0.0
    state[pair, 0], state[pair, 1], state[pair, 2] = total, largest, top
    logs[pair, 0] = log_scaled(total, top) if known else -np.inf
    logs[pair, 1] = log_scaled(largest, top) if known else -np.inf


@kernel(THREADS, RESIDENT)
def add_statistics(work, lower, rows, replicates, begin, batches, scale, shrink, stats):
    """Add the derivatives in limits of batches ``begin`` and following to those of their pairs.

    Parameters
    ----------
    work : (blocks, 3 or 4, d, THREADS) from ``mvnorth._cuda.pathwise.sweep``
    lower, rows : as there
    begin, batches, scale, shrink : see ``settle``
    stats : (pairs, 3, 3, d) updated, see ``mvnorth._cpu.pathwise.pathwise_sums``
    """
    shared = cuda.shared.array((9, THREADS), dtype=float64)
    t = cuda.threadIdx.x
    d = stats.shape[3]
    groups = (d + PANEL - 1) // PANEL
    pair = begin // batches + cuda.blockIdx.x // groups
    panel = cuda.blockIdx.x % groups * PANEL
    i = panel + t // SEGMENTS
    low_sum = low_size = low_top = high_sum = high_size = high_top = 0.0
    both_sum = both_size = both_top = 0.0
    start = max(begin, pair * batches) - begin
    end = min(begin + scale.shape[0], (pair + 1) * batches) - begin
    bounded = i < d and lower[rows[pair // replicates], min(i, d - 1)] > -np.inf
    for block in range(start, end if i < d else start):
        factor = scale[block]
        if factor == 0.0:  # not even written
            continue
        for s in range(t % SEGMENTS, THREADS, SEGMENTS):
            high = factor * work[block, HIGH, i, s]
            low = 0.0
            if bounded:
                low = factor * work[block, LOW, i, s]
            both = low + high
            low_sum += low
            low_size += abs(low)
            low_top = max(low_top, abs(low))
            high_sum += high
            high_size += abs(high)
            high_top = max(high_top, abs(high))
            both_sum += both
            both_size += abs(both)
            both_top = max(both_top, abs(both))
    shared[0, t], shared[1, t], shared[2, t] = low_sum, high_sum, both_sum
    shared[3, t], shared[4, t], shared[5, t] = low_size, high_size, both_size
    shared[6, t], shared[7, t], shared[8, t] = low_top, high_top, both_top
    cuda.syncthreads()
    for e in range(t, 9 * PANEL, THREADS):
        kind, name, row = e // PANEL // 3, e // PANEL % 3, e % PANEL
        if panel + row < d:
            value = 0.0
            if shrink[pair] > 0.0:
                value = shrink[pair] * stats[pair, kind, name, panel + row]
            for s in range(row * SEGMENTS, (row + 1) * SEGMENTS):
                other = shared[e // PANEL, s]
                value = value + other if kind < 2 else max(value, other)
            stats[pair, kind, name, panel + row] = value


@kernel(THREADS, RESIDENT)
def add_products(work, lower, rank, rows, replicates, begin, batches, scale, shrink, products):
    """Subtract derivatives in both limits of row i times y_j, like ``add_statistics``.

    products : (pairs, d, d) updated below the diagonal, otherwise 0
    """
    left = cuda.shared.array((TILE, PADDED), dtype=work.dtype)
    right = cuda.shared.array((TILE, PADDED), dtype=work.dtype)
    part = cuda.local.array((2, 4), dtype=work.dtype)
    whole = cuda.local.array((2, 4), dtype=float64)
    t = cuda.threadIdx.x
    d = products.shape[1]
    tiles = (d + TILE - 1) // TILE
    tiles = tiles * (tiles + 1) // 2
    pair = begin // batches + cuda.blockIdx.x // tiles
    i, j = 0, cuda.blockIdx.x % tiles  # of the tile, counted row by row
    while j > i:
        i += 1
        j -= i
    i *= TILE
    j *= TILE
    b = rows[pair // replicates]
    for m in range(2):
        for n in range(4):
            whole[m, n] = 0.0
    start = max(begin, pair * batches) - begin
    end = min(begin + scale.shape[0], (pair + 1) * batches) - begin
    for block in range(start, end):
        factor = scale[block]
        if factor == 0.0:
            continue
        for m in range(2):
            for n in range(4):
                part[m, n] = 0
        for s in range(0, THREADS, TILE):
            cuda.syncthreads()
            for e in range(t, TILE * TILE, THREADS):
                row, sample = e // TILE, e % TILE
                left[sample, row] = right[sample, row] = 0
                if i + row < rank[b]:
                    both = work[block, HIGH, i + row, s + sample]
                    if lower[b, i + row] > -np.inf:
                        both += work[block, LOW, i + row, s + sample]
                    left[sample, row] = both
                if j + row < rank[b]:
                    right[sample, row] = work[block, DRAWN, j + row, s + sample]
            cuda.syncthreads()
            for k in range(TILE):
                for m in range(2):
                    for n in range(4):
                        part[m, n] -= left[k, t // 8 + 16 * m] * right[k, t % 8 + 8 * n]
        for m in range(2):
            for n in range(4):
                whole[m, n] += factor * part[m, n]
    for m in range(2):
        for n in range(4):
            row, column = i + t // 8 + 16 * m, j + t % 8 + 8 * n
            if row < d and column <= row:
                value = whole[m, n] if column < row else 0.0
                if shrink[pair] > 0.0:
                    value += shrink[pair] * products[pair, row, column]
                else:
                    products[pair, column, row] = 0.0
                products[pair, row, column] = value


def _shapes(real: Any) -> tuple[Shape, ...]:
    limits, rows, pairs = float64[:, ::1], int64[::1], float64[::1]
    work = real[:, :, :, ::1]
    known = (rows, int64, int64, int64, pairs, pairs)
    statistics = (work, limits, *known, float64[:, :, :, ::1])
    products = (work, limits, rows, *known, float64[:, :, ::1])
    return (
        Shape(add_statistics, statistics),
        Shape(add_products, products),
    )


_SETTLE = (float64[:, ::1], int64, int64, float64[:, ::1], float64[:, ::1], *(float64[::1],) * 2)
SHAPES = (Shape(settle, _SETTLE), *_shapes(float64), *_shapes(float32))
