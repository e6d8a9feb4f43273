"""The trapezoidal rule for the one-factor integral, by a block of threads; see the twin."""

import math

from numba import cuda, int64

from mvnorth._cpu.factor_nodes import (
    BEND,
    BETA,
    LEFT,
    NODES,
    NUMERATOR,
    OFFSET,
    POWER,
    RIGHT,
    SLOPE,
    STEEP,
    STEEP_TOTAL,
    STRETCH,
    TOLERANCE,
    TOTAL,
    TURN,
    TWIST,
    WEIGHT,
    X,
)
from mvnorth._cpu.factor_rule import Progress, first_nodes, hides_wall, proceed
from mvnorth._cpu.factor_sweep import note_edge
from mvnorth._cpu.factor_trapezoid import LARGEST
from mvnorth._cuda.factor_nodes import (
    COUNT,
    ERROR,
    HIDDEN,
    HIGH,
    LEVEL,
    LOW,
    NOISE,
    OUTERMOST,
    SIDE,
    SLOPE_ERROR,
    START,
    STEP,
    STRIDE,
    TOP,
    TRIES,
    USED,
    WIDTH,
    A,
    Z,
    add_moments,
    any_thread,
    evaluate,
)
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.one_factor import is_steep, may_count, node_terms

_SUMS = 6  # of a sweep, the first places in sums


@cuda.jit(device=True)
def _fold(block, n, left):
    """The weight of this thread's node, and its terms of the sums into part; 0 from ``left`` on."""
    nodes, part, desk, k = block.nodes, block.part, block.desk, cuda.threadIdx.x
    top = desk[TOP]
    if math.isnan(top):
        top = nodes[POWER, 0]
        for j in range(n):
            top = max(top, nodes[POWER, j])
    if k < left:
        weight = nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k] - top) * nodes[STRETCH, k]
        nodes[WEIGHT, k] = weight
        terms = node_terms(
            weight, nodes[STRETCH, k], nodes[TURN, k], nodes[OFFSET, k], nodes[SLOPE, k],
            nodes[BEND, k], nodes[TWIST, k], nodes[STEEP, k], desk[Z], desk[WIDTH], desk[A],
        )  # fmt: skip
        part[0, k], part[1, k], part[2, k] = terms[0], terms[1], terms[2]
        part[3, k], part[4, k], part[5, k] = terms[3], terms[4], terms[5]
    else:
        nodes[WEIGHT, k] = 0.0
        for j in range(_SUMS):
            part[j, k] = 0.0
    return top


@cuda.jit(device=True)
def sweep(block, single):
    """Add the nodes that the desk asks for; sets the power of two there if it is NaN."""
    nodes, sums, part, desk = block.nodes, block.sums, block.part, block.desk
    thread, count = cuda.threadIdx.x, int64(desk[COUNT])
    for done in range(0, count, NODES):
        left = count - done
        n = 32 if left > 16 else (16 if left > 8 else 8)
        evaluate(block, n, desk[START] + desk[STRIDE] * done, desk[STRIDE], single)
        top = 0.0
        if thread < n:
            top = _fold(block, n, left)
        cuda.syncthreads()
        if thread == 0:
            desk[TOP] = top
        if thread < _SUMS:
            total = 0.0
            for k in range(n):
                total += part[thread, k]
            sums[thread] += total
        if thread == _SUMS:
            outermost = int64(desk[OUTERMOST])
            if outermost & 1 and done == 0:
                note_edge(sums, LEFT, nodes, 0, 1)
            if outermost & 2:
                note_edge(sums, RIGHT, nodes, n - 1, n - 2)
        add_moments(block, n, single)
        cuda.syncthreads()


@cuda.jit(device=True)
def _has_wall(block, single):
    """Whether a wall is seen among the first nodes."""
    row, nodes, desk, seen = block.row, block.nodes, block.desk, False
    n, step, width = int64(desk[COUNT]), desk[STRIDE], desk[WIDTH]
    for k in range(n // 2 - 1, n // 2 + 1):
        seen |= is_steep(nodes[SLOPE, k], desk[Z], nodes[OFFSET, k], width)
    tolerance = TOLERANCE[single]
    for i in range(cuda.threadIdx.x, row.shape[1], cuda.blockDim.x):
        x, beta = row[X, i], row[BETA, i]
        seen |= hides_wall(x, beta, nodes, block.sums, n, width, step, tolerance, False)
    return any_thread(seen)


@cuda.jit(device=True)
def _gradient_is_hidden(block):
    """Whether phi/Phi is zero at all nodes so far, but not where |z| is up to 38."""
    row, z, counts = block.row, block.desk[Z], False
    for i in range(cuda.threadIdx.x, row.shape[1], cuda.blockDim.x):
        counts |= may_count(row[X, i], row[BETA, i], z)
    return any_thread(counts) and not block.sums[STEEP_TOTAL] > 0.0


@cuda.jit(device=True)
def _ask(desk, nodes, progress):
    """Put the nodes to add on the desk, and where the rule stands."""
    desk[COUNT], desk[START] = nodes.count, nodes.start
    desk[STRIDE], desk[OUTERMOST] = nodes.stride, nodes.outermost
    desk[LOW], desk[HIGH] = progress.low, progress.high
    desk[SIDE], desk[TRIES], desk[LEVEL] = progress.side, progress.tries, progress.level


@cuda.jit(device=True)
def _proceed(block, single):
    """Let the desk ask for what is to be added next, and say what has been reached."""
    desk = block.desk
    progress = Progress(
        int64(desk[LOW]), int64(desk[HIGH]), int64(desk[SIDE]), int64(desk[TRIES]),
        int64(desk[LEVEL]),
    )  # fmt: skip
    desk[USED] += desk[COUNT]
    hidden, tolerance = desk[HIDDEN] > 0.0, TOLERANCE[single] + desk[NOISE]
    nodes, progress, outcome = proceed(block.sums, progress, hidden, False, single, tolerance)
    _ask(desk, nodes, progress)
    desk[STEP], desk[ERROR] = outcome.step, outcome.error
    desk[SLOPE_ERROR] = outcome.slope_error


@cuda.jit(device=True)
def trapezoid(block, single):
    """Sums and moments by the rule, and on the desk what it has reached; see the twin.

    False if it does not resolve the integrand.
    """
    thread, desk = cuda.threadIdx.x, block.desk
    if thread == 0:
        nodes, progress = first_nodes(single)
        _ask(desk, nodes, progress)
        desk[USED], desk[TOP], desk[HIDDEN] = 0.0, math.nan, 0.0
        desk[ERROR] = math.inf
    cuda.syncthreads()
    while desk[COUNT] > 0.0:  # one place to sweep from, else the code would be there several times
        sweep(block, single)
        if desk[USED] == 0.0:
            if _has_wall(block, single):
                if thread == 0:
                    desk[USED] = desk[COUNT]
                return False
            hidden = _gradient_is_hidden(block)
            if thread == 0:
                desk[HIDDEN] = 1.0 if hidden else 0.0
        cuda.syncthreads()
        if thread == 0:
            _proceed(block, single)
        cuda.syncthreads()
    return desk[ERROR] < math.inf and 0.0 < block.sums[TOTAL] < LARGEST
