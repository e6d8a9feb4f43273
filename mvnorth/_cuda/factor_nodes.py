"""The one-factor integrand by a block of threads: nodes over lanes, coordinates over groups.

A sweep has n = 32, 16 or 8 nodes.  Thread t has node t % n and every (threads / n)-th coordinate,
multiplies its factors up in registers, and the threads of a node join their products through
shared memory, in the same order always.  No sum over coordinates is left to a tree, and no thread
waits but where products are joined.  Moments turn it around: a thread has a coordinate and goes
through the nodes, so that nothing is to be joined at all.

Decisions are taken by one thread, or by all alike from the same numbers.  What belongs to the row
as a whole lies in shared memory, on the desk, so that registers are left to the sums.
"""

from collections import namedtuple

import numpy as np
from numba import cuda

from mvnorth._cpu.factor_nodes import (
    BEND,
    BETA,
    NUMERATOR,
    OFFSET,
    POWER,
    SCALE,
    SLOPE,
    STEEP,
    STRETCH,
    TURN,
    TWIST,
    WEIGHT,
    M,
    V,
    X,
)
from mvnorth._cpu.factor_trapezoid import LEAST_BEND
from mvnorth._scalar.exp_log import split_mantissa
from mvnorth._scalar.one_factor import (
    FOUND,
    WALL,
    add_moment,
    curve_map,
    far_parts,
    log_slopes,
    map_point,
    mode_parts,
    noise_of,
    quadratic_parts,
    shape_at_mode,
    step_to_mode,
)
from mvnorth._scalar.phi_mills import FAR, full, short

JOINED = 7  # rows of what threads join: numbers of a node, or terms of sums
# What a block works on: its row (5, d) and moments (4, d) as of the twin, in global memory; in
# shared memory nodes and sums, also as of the twin, part (JOINED, threads), and mills (KEPT, 33),
# the phi/Phi of rows with so few coordinates that they are all kept, else (1, 1); whether only the
# moment of h is wanted; and the desk (DESK,).
Block = namedtuple("Block", "row nodes sums part mills moments plain_only desk")
# Places on the desk: the map from t to z and what was taken out there; then the nodes to add, where
# the rule stands and what it has reached, see the twin; then nodes used so far, the power of two of
# the integrand, and whether derivatives were zero at the first nodes.
Z, WIDTH, A, TAU, LINEAR, CURVATURE, CONSTANT, NOISE = range(8)
COUNT, START, STRIDE, OUTERMOST, LOW, HIGH, SIDE, TRIES, LEVEL = range(8, 17)
STEP, ERROR, SLOPE_ERROR, USED, TOP, HIDDEN, DESK = range(17, 24)
KEPT = 32
_CHAINS = 16  # sums that a sum over threads is made of


@cuda.jit(device=True)
def any_thread(flag):
    """Whether ``flag`` is set on any thread; waits for all of them."""
    return cuda.syncthreads_or(np.int32(1 if flag else 0)) != 0


@cuda.jit(device=True)
def join(part, rows, largest):
    """part[q, 0], for the first ``rows`` q: the sum over all threads, or the largest.

    The caller waits for all threads before it writes to ``part`` again.
    """
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    cuda.syncthreads()
    for j in range(thread, rows * _CHAINS, threads):
        q, start = j // _CHAINS, j % _CHAINS
        total = -np.inf if largest else 0.0
        for k in range(start, threads, _CHAINS):
            total = max(total, part[q, k]) if largest else total + part[q, k]
        part[q, start] = total
    cuda.syncthreads()
    if thread < rows:
        total = -np.inf if largest else 0.0
        for k in range(_CHAINS):
            total = max(total, part[thread, k]) if largest else total + part[thread, k]
        part[thread, 0] = total
    cuda.syncthreads()


@cuda.jit(device=True)
def find_mode(block):
    """Put the mode on the desk, with the map around it; see the twin."""
    row, part, d = block.row, block.part, block.row.shape[1]
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    low, high = -np.inf, np.inf
    z = gentle = 0.0
    gentlest = np.inf
    second = third = size = 0.0
    state, step = 0, 0
    while state != FOUND:
        first = second = third = size = 0.0
        for i in range(thread, d, threads):
            h, r = mode_parts((row[M, i] + row[V, i] * z) * row[SCALE, i])
            once, twice, thrice = log_slopes(h, r, row[BETA, i])
            first += once
            second += twice
            third += thrice
            size += abs(once)
        part[0, thread], part[1, thread] = first, second
        part[2, thread], part[3, thread] = third, size
        join(part, 4, False)
        first, second, third, size = part[0, 0], part[1, 0], part[2, 0], part[3, 0]
        cuda.syncthreads()
        if state == WALL:
            break
        state, z, low, high, gentle, gentlest = step_to_mode(
            step, z, low, high, gentle, gentlest, first, second, third
        )
        step += 1
    if thread == 0:
        width, skew = shape_at_mode(second, third)
        a, tau = curve_map(skew, LEAST_BEND)
        desk = block.desk
        desk[Z], desk[WIDTH], desk[A], desk[TAU] = z, width, a, tau
        desk[NOISE], desk[USED] = noise_of(width, size, z), 0.0


@cuda.jit(device=True)
def take_out_quadratic(block):
    """Centre the row at the mode; see the twin.  What is far out has x < FAR there."""
    row, part, d = block.row, block.part, block.row.shape[1]
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    cuda.syncthreads()
    z, constant, linear, curvature = block.desk[Z], 0.0, 0.0, 0.0
    for i in range(thread, d, threads):
        x, beta = (row[M, i] + row[V, i] * z) * row[SCALE, i], row[BETA, i]
        row[X, i] = x
        if x < FAR:
            constant += x * x
            linear += x * beta
            curvature += beta * beta
    part[0, thread], part[1, thread], part[2, thread] = constant, linear, curvature
    join(part, 3, False)
    if thread == 0:
        desk = block.desk
        desk[CONSTANT] = -0.5 * (part[0, 0] + z * z)
        desk[LINEAR], desk[CURVATURE] = part[1, 0] + z, part[2, 0] + 1.0
    cuda.syncthreads()


@cuda.jit(device=True)
def _parts(centre, x, single):
    """Phi and phi/Phi at x of a coordinate that is at ``centre`` at the mode."""
    if centre < FAR:
        return far_parts(x)
    if single:
        return short(x)
    return full(x)


@cuda.jit(device=True)
def _multiply(block, n, offset, single):
    """Products over the coordinates of this thread, into ``part``; phi/Phi into mills."""
    row, part, mills = block.row, block.part, block.mills
    thread = cuda.threadIdx.x
    node, group, groups = thread % n, thread // n, cuda.blockDim.x // n
    numerator = denominator = 1.0
    lost = power = slope = bend = twist = steep = 0.0
    factors = 0  # since the product was last normalised
    for i in range(group, row.shape[1], groups):
        centre, beta = row[X, i], row[BETA, i]
        a, b, exponent, h, r, rest = _parts(centre, centre + beta * offset, single)
        numerator *= a
        denominator *= b
        lost += rest
        power += exponent
        once, twice, thrice = log_slopes(h, r, beta)
        slope += once
        bend += twice
        twist += thrice
        steep += h * abs(beta)
        if mills.shape[0] > 1:
            mills[i, node] = h
        factors += 1
        if factors == 16:
            factors = 0
            numerator, exponent = split_mantissa(numerator / denominator)
            denominator = 1.0
            power += exponent
    numerator, exponent = split_mantissa(numerator / denominator)
    part[0, thread], part[1, thread], part[2, thread] = numerator, power + exponent, lost
    part[3, thread], part[4, thread], part[5, thread] = slope, bend, twist
    part[6, thread] = steep


@cuda.jit(device=True)
def _join_products(block, n):
    """The integrand at the node of this thread, one of the first n, into nodes."""
    nodes, part, desk = block.nodes, block.part, block.desk
    k = cuda.threadIdx.x
    numerator = 1.0
    power = lost = slope = bend = twist = steep = 0.0
    for j in range(k, cuda.blockDim.x, n):
        numerator *= part[0, j]
        power += part[1, j]
        lost += part[2, j]
        slope += part[3, j]
        bend += part[4, j]
        twist += part[5, j]
        steep += part[6, j]
    f, exponent = quadratic_parts(nodes[OFFSET, k], desk[LINEAR], desk[CURVATURE])
    numerator, more = split_mantissa(numerator * (f * (1.0 + lost)))
    nodes[NUMERATOR, k], nodes[POWER, k] = numerator, power + exponent + more
    nodes[SLOPE, k], nodes[BEND, k], nodes[TWIST, k], nodes[STEEP, k] = slope, bend, twist, steep


@cuda.jit(device=True)
def evaluate(block, n, start, stride, single):
    """The integrand at the n nodes from t = start on."""
    nodes, desk, thread = block.nodes, block.desk, cuda.threadIdx.x
    t = start + stride * (thread % n)
    offset, stretch, turn = map_point(t, desk[WIDTH], desk[A], desk[TAU])
    if thread < n:
        nodes[OFFSET, thread], nodes[STRETCH, thread], nodes[TURN, thread] = offset, stretch, turn
    _multiply(block, n, offset, single)
    cuda.syncthreads()
    if thread < n:
        _join_products(block, n)
    cuda.syncthreads()


@cuda.jit(device=True)
def add_moments(block, n, single):
    """Add the weighted nodes to the moments."""
    row, nodes, mills, moments = block.row, block.nodes, block.mills, block.moments
    for i in range(cuda.threadIdx.x, moments.shape[1], cuda.blockDim.x):
        centre, beta = row[X, i], row[BETA, i]
        plain = tilted = spread = 0.0
        for k in range(n):
            offset = nodes[OFFSET, k]
            if mills.shape[0] > 1:
                h = mills[i, k]
            else:
                h = _parts(centre, centre + beta * offset, single)[3]
            term = nodes[WEIGHT, k] * h
            plain += term
            tilted += term * offset
            spread += term * abs(offset)
        if block.plain_only:
            moments[0, i] += plain
        else:
            add_moment(moments, i, plain, tilted, spread, 0.0, centre, beta)
