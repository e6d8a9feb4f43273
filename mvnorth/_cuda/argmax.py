"""Who wins: the probabilities that each of independent normal scores is the largest: a block a row.

The same shape and the same work a score and node as one_factor.py, with 32 or 40 nodes in double
and 16 in single precision.  Rows for which the trapezoidal rule does not suffice, and those with
constants that may win, are left to a second kernel, one thread a row, which is the twin's.
"""

import math
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int8, int64

from mvnorth._cpu.argmax import argmax_by_panels
from mvnorth._cpu.argmax_panels import tolerance
from mvnorth._cpu.factor_nodes import (
    BEND,
    BETA,
    NODES,
    NUMERATOR,
    POWER,
    SLOPE,
    STRETCH,
    TURN,
    WEIGHT,
    Work,
)
from mvnorth._cuda.argmax_nodes import centre, find_mode, load
from mvnorth._cuda.factor_memory import (
    RESIDENT,
    RESIDENT_FEW,
    WARPS,
    blocks,
    few,
    panel_memory,
    plain,
    row_memory,
    threads,
)
from mvnorth._cuda.factor_nodes import (
    COUNT,
    DESK,
    HIGH,
    JOINED,
    KEPT,
    LEVEL,
    LOW,
    SIDE,
    START,
    STRIDE,
    TRIES,
    WIDTH,
    A,
    Block,
    add_moments,
    evaluate,
    join,
)
from mvnorth._cuda.launch import Queue, Shape, cached_kernel, kernel
from mvnorth._scalar.argmax import (
    BEFORE,
    LEFT,
    RIGHT,
    SUFFICES,
    Progress,
    first_nodes,
    proceed,
    score_node,
)

_SUMS = 3  # of a sweep, the first places in sums
# More places on the desk: F' at the last node on the right and before it, the error with twice the
# step, and whether the rule suffices.
_LAST, _PREVIOUS, _COARSE, _STATE, _DESK = range(DESK, DESK + 5)


@cuda.jit(device=True)
def _sweep(block, single):
    """Add the nodes that the desk asks for to sums and moments."""
    nodes, sums, part, desk = block.nodes, block.sums, block.part, block.desk
    thread, count = cuda.threadIdx.x, int64(desk[COUNT])
    for done in range(0, count, NODES):
        left = min(count - done, NODES)
        n = 32 if left > 16 else (16 if left > 8 else 8)
        evaluate(block, n, desk[START] + desk[STRIDE] * done, desk[STRIDE], single)
        if thread < n:
            weight = total = other = first = 0.0
            if thread < left:
                weight, total, other, first = score_node(
                    nodes[NUMERATOR, thread], nodes[POWER, thread], nodes[STRETCH, thread],
                    nodes[TURN, thread], nodes[SLOPE, thread], nodes[BEND, thread], desk[WIDTH],
                    thread % 2,
                )  # fmt: skip
            nodes[WEIGHT, thread] = weight
            part[0, thread], part[1, thread], part[2, thread] = total, other, first
        cuda.syncthreads()
        if thread < _SUMS:
            total = 0.0
            for k in range(n):
                total += part[thread, k]
            sums[thread] += total
        if thread == _SUMS:
            if done == 0:
                sums[LEFT] = nodes[WEIGHT, 0] / nodes[STRETCH, 0]
            last, before = left - 1, (left - 2) % NODES  # of the sweep before if there is but one
            sums[RIGHT] = nodes[WEIGHT, last] * nodes[SLOPE, last]
            sums[BEFORE] = nodes[WEIGHT, before] * nodes[SLOPE, before]
        add_moments(block, n, single)
        cuda.syncthreads()


@cuda.jit(device=True)
def _ask(desk, nodes, progress, state):
    """Put the nodes to add on the desk, and where the rule stands."""
    desk[COUNT], desk[START], desk[STRIDE] = nodes.count, nodes.start, nodes.stride
    desk[LOW], desk[HIGH], desk[SIDE] = progress.low, progress.high, progress.side
    desk[TRIES], desk[LEVEL], desk[_LAST] = progress.tries, progress.level, progress.right
    desk[_PREVIOUS], desk[_COARSE], desk[_STATE] = progress.before, progress.coarse, state


@cuda.jit(device=True)
def _trapezoid(block, single):
    """Whether the trapezoidal rule suffices; then the results are proportional to moments."""
    thread, desk = cuda.threadIdx.x, block.desk
    if thread == 0:
        nodes, progress = first_nodes(desk[A], single)
        _ask(desk, nodes, progress, 0)
    cuda.syncthreads()
    while desk[_STATE] == 0.0:
        _sweep(block, single)
        if thread == 0:
            progress = Progress(
                int64(desk[LOW]), int64(desk[HIGH]), int64(desk[SIDE]), int64(desk[TRIES]),
                int64(desk[LEVEL]), desk[_LAST], desk[_PREVIOUS], desk[_COARSE],
            )  # fmt: skip
            allowed = 4.0 * tolerance(block.row.shape[1], single)
            nodes, progress, state = proceed(block.sums, progress, desk[WIDTH], single, allowed)
            _ask(desk, nodes, progress, state)
        cuda.syncthreads()
    return desk[_STATE] == SUFFICES


def _by_blocks(warps: int, single: int) -> Any:
    """The kernel for blocks of so many warps, in double or single precision."""
    bounds = (32, RESIDENT_FEW) if warps == 1 else (32 * warps, RESIDENT)
    lanes, kept = bounds[0], (KEPT, NODES + 1) if warps == 1 else (1, 1)

    @kernel(*bounds)
    def argmax_rows(mu, sigma, rows, moments, state, out):
        """Results of rows, a block a row; state says which of them are left.

        rows (blocks, 7, C) and moments (blocks, 4, C) are memory.
        """
        nodes = cuda.shared.array((13, NODES), float64)
        sums = cuda.shared.array(8, float64)
        part = cuda.shared.array((JOINED, lanes), float64)
        mills = cuda.shared.array(kept, float64)
        desk = cuda.shared.array(_DESK, float64)
        thread, stride = cuda.threadIdx.x, cuda.blockDim.x
        row, moment = plain(rows)[cuda.blockIdx.x], plain(moments)[cuda.blockIdx.x]
        block = Block(row, nodes, sums, part, mills, moment, True, desk)
        for b in range(cuda.blockIdx.x, mu.shape[0], cuda.gridDim.x):
            lost, regular, low, high, start = load(block, mu, sigma, b)
            if lost:
                for i in range(thread, mu.shape[1], stride):
                    out[b, i] = math.nan
            if thread < 8:
                sums[thread] = 0.0
            for i in range(thread, mu.shape[1], stride):
                moment[0, i] = 0.0
            settled = lost
            if regular and not lost:
                s, spread, skew = find_mode(block, low, high, start)
                if spread > 0.0 and centre(block, s, spread, skew, single):
                    settled = _trapezoid(block, single)
            if thread == 0:
                state[b] = 0 if settled else 1
            if settled and not lost:
                total = 0.0
                for i in range(thread, mu.shape[1], stride):
                    total += moment[0, i] * row[BETA, i]
                part[0, thread] = total
                join(part, 1, False)
                share = 1.0 / part[0, 0]
                for i in range(thread, mu.shape[1], stride):
                    out[b, i] = min(moment[0, i] * row[BETA, i] * share, 1.0)
            cuda.syncthreads()

    return argmax_rows


def _by_threads(single: int) -> Any:
    """The kernel for rows that are left, in double or single precision."""

    @cached_kernel()
    def argmax_left(mu, sigma, rows, moments, state, out, nodes, mills, sums, stacks, lines):
        """Results of the rows that are left, by blocks of one thread.

        lines (slots, 3, C) is memory, for a row of mu, of sigma and of the result in double.
        """
        slot = cuda.blockIdx.x
        work = Work(
            plain(rows)[slot], plain(nodes)[slot], plain(mills)[slot], plain(moments)[slot],
            plain(sums)[slot], plain(stacks)[slot],
        )  # fmt: skip
        line = plain(lines)[slot]
        for b in range(slot, mu.shape[0], cuda.gridDim.x):
            if state[b] != 0:
                shared = 0 if sigma.shape[0] == 1 else b
                for i in range(mu.shape[1]):
                    line[0, i], line[1, i] = mu[b, i], sigma[shared, i]
                argmax_by_panels(work, line[0], line[1], single, line[2])
                for i in range(mu.shape[1]):
                    out[b, i] = line[2, i]

    return argmax_left


_FEW = tuple(_by_blocks(1, single) for single in (0, 1))
_MANY = tuple(_by_blocks(WARPS, single) for single in (0, 1))
_REST = tuple(_by_threads(single) for single in (0, 1))


def _shapes(real: Any, single: int) -> tuple[Shape, ...]:
    matrix, double, box = real[:, ::1], float64[:, ::1], float64[:, :, ::1]
    common = (matrix, double, box, box, int8[::1], matrix)
    memory = (box, box, double, float64[:, :, :, ::1], box)
    return (
        Shape(_FEW[single], common),
        Shape(_MANY[single], common),
        Shape(_REST[single], common + memory),
    )


SHAPES = (*_shapes(float64, 0), *_shapes(float32, 1))


def argmax(queue: Queue, mu: Any, sigma: Any) -> Any:
    """Probabilities (B, C) that each of independent normal scores is the largest.

    Parameters
    ----------
    mu : (B, C) on the device, in double or single precision; -inf allowed, but not for all of a
        row; rows with NaN or +inf give NaN
    sigma : (1 or B, C) on the device, in double precision; >= 0
    """
    size, d = mu.shape
    single, count = int(mu.dtype == np.float32), blocks(size, d)
    out, state = queue.empty((size, d), mu.dtype), queue.empty((size,), np.int8)
    common = (mu, sigma, *row_memory(queue, count, d, True), state, out)
    queue.run((_FEW if few(d) else _MANY)[single], count, threads(d), *common)
    panels = panel_memory(queue, count)
    lines = queue.empty((panels[0].shape[0], 3, d))
    queue.run(_REST[single], panels[0].shape[0], 1, *common, *panels, lines)
    return out
