"""Tensor products of Gauss rules on a device, see ``mvnorth._cpu.gauss``.

A block integrates one row at a time.  A point of the tensor product is a path through the
variables, and paths that begin alike share what they begin with: a thread takes the nodes of the
first variables as its item gives them, and runs through all nodes of the others, so that most
steps are those of the last variables.  As many variables are the first ones as it takes to give
every thread an item; all threads then do the same steps at the same time.  A step costs Phi of a
limit, about 100 operations, and two polynomials of degree 11 for a node and its weight, whose
coefficients come through the caches.  What a thread knows of its path, six numbers a variable, is
in local memory.

Sums are kept as mantissa and power of two, and added in an order that depends on d alone.  After
each sum the first thread decides what is next, by the functions that the CPU calls.  All is in
double precision, whatever the precision of the input.
"""

from typing import Any

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
from mvnorth._cuda.launch import Queue, Shape, kernel, multiprocessors
from mvnorth._cuda.sparse_grid import SIGNATURE, sparse_rows
from mvnorth._scalar.exp_log import exp_parts, log_scaled
from mvnorth._scalar.gauss import (
    EQUAL,
    RULES,
    STEEP,
    TENSOR,
    TENSOR_ONLY,
    allow_for_steps,
    between,
    claimed_error,
    join_changes,
    largest_error,
    meets,
    points_suffice,
    set_counts,
    set_fewer,
)
from mvnorth._scalar.genz import join_sums

FEW, FEW_THREADS = 5, 32  # coordinates up to which a block has but one warp, as points are few
RESIDENT = 4  # blocks a multiprocessor
_CHANGES = RULES + 1
# Rows of ``path``: weight * 2**power * exp(exponent) before the node of a variable is chosen; how
# far the earlier ones have moved its limits; and y
WEIGHT, POWER, EXPONENT, MOVED, NODE = range(5)
# Entries of ``state``: whether there is a sum to do; nodes of the variable that has most; which
# variable alone has one less (2i) or one more (2i + 1), or -1; points spent; points of the last sum
# without that; that sum, and its power of two
ACTIVE, NODES, PROBED, SPENT, POINTS, TOTAL, TOP = range(7)


@cuda.jit(device=True)
def conditional_sum(factor, path, i):
    """-sum_j T_ij y_j over the variables before i."""
    acc = 0.0
    for j in range(i):
        acc -= factor[i, j] * path[NODE, j]
    return acc


@cuda.jit(device=True)
def enter_variable(factor, given, path, i):
    """Compute the limits of variable i and, if there is only one of them, Phi of it."""
    acc = conditional_sum(factor, path, i)
    f, k = begin_variable(given[LOWER, i] + acc, given[UPPER, i] + acc)
    path[WEIGHT, i] *= f
    path[POWER, i] += k
    path[EXPONENT, i] += acc * (given[SLOPE, i] + given[CURVE, i] * acc)
    path[MOVED, i] = acc


@cuda.jit(device=True)
def choose_node(given, counts, table, starts, legendre, path, i, k):
    """Let y be node k of variable i, and write the weight before the next variable."""
    low, high = given[LOWER, i] + path[MOVED, i], given[UPPER, i] + path[MOVED, i]
    width = given[UPPER, i] - given[LOWER, i]
    y, share, shift, rise = node(
        table, starts, legendre, counts[0, i], counts[1, i], low, high, width, k
    )
    path[NODE, i] = y
    path[WEIGHT, i + 1], path[POWER, i + 1] = path[WEIGHT, i] * share, path[POWER, i] + shift
    path[EXPONENT, i + 1] = path[EXPONENT, i] + rise


@cuda.jit(device=True)
def finish_path(factor, given, path, last):
    """``(weight, power)`` of a path, with the probability of the last variable."""
    acc = conditional_sum(factor, path, last)
    f, k = probability(given[LOWER, last] + acc, given[UPPER, last] + acc)
    exponent = path[EXPONENT, last] + acc * (given[SLOPE, last] + given[CURVE, last] * acc)
    tilt, rise = exp_parts(exponent, 0.0)
    return path[WEIGHT, last] * f * tilt, path[POWER, last] + k + rise


@cuda.jit(device=True)
def sum_paths(factor, given, counts, table, starts, legendre, path, d):
    """Sum of the weights of all paths of this thread, as ``(total, top)``, see ``join_sums``."""
    chosen = cuda.local.array(TENSOR, int64)
    last, begin, items = d - 1, 0, 1
    while begin < last and items < cuda.blockDim.x:
        items *= counts[0, begin]
        begin += 1
    total, top = 0.0, -np.inf
    for item in range(cuda.threadIdx.x, items, cuda.blockDim.x):
        for i in range(last):
            chosen[i] = 0
        rest = item
        for i in range(begin):
            chosen[i], rest = rest % counts[0, i], rest // counts[0, i]
        path[WEIGHT, 0], path[POWER, 0], path[EXPONENT, 0] = 1.0, 0.0, 0.0
        enter_variable(factor, given, path, 0)
        i = 0
        while i >= 0:
            choose_node(given, counts, table, starts, legendre, path, i, chosen[i])
            i += 1
            if i < last:
                enter_variable(factor, given, path, i)
                continue
            weight, power = finish_path(factor, given, path, last)
            own = power if weight != 0.0 else -np.inf
            total, _, top = join_sums(total, 0.0, top, weight, 0.0, own)
            i -= 1
            while i >= begin and chosen[i] == counts[0, i] - 1:
                chosen[i] = 0
                i -= 1
            if i < begin:
                break
            chosen[i] += 1
    return total, top


@cuda.jit(device=True)
def set_nodes(given, counts, i, n):
    """Give variable i alone another number of nodes."""
    counts[0, i], counts[1, i] = between(given[LOWER], given[UPPER], i, n), n


@cuda.jit(device=True)
def start_sum(state, given, counts, fewer, n, most, d):
    """Ask for the sum with n nodes, if there are points left for it."""
    points = set_counts(counts, n, fewer, given[LOWER], given[UPPER], d)
    within = state[SPENT] + points <= most
    state[ACTIVE] = 1.0 if within else 0.0
    state[NODES], state[PROBED], state[POINTS] = n, -1.0, points


@cuda.jit(device=True)
def note_sum(
    state, given, counts, fewer, alone, change, d, relative, absolute, most, log_scale, steep,
    result, total, top,
):  # fmt: skip
    """Write what is known after a sum to ``result``, and ask for the next one.

    See ``mvnorth._cpu.gauss_rows``, whose large rules are not here.

    result : (2,) logarithm of the probability, and its relative error
    """
    n, probed = int64(state[NODES]), int64(state[PROBED])
    if probed >= 0:
        i, own = probed // 2, 1 + 2 * (probed % 2)
        moved = relative_change(state[TOTAL], state[TOP], total, top)
        alone[i] = join_changes(alone[i], moved, own)
        state[SPENT] += state[POINTS] * counts[0, i] / between(given[LOWER], given[UPPER], i, 2)
        set_nodes(given, counts, i, 2)
        if probed + 1 < 2 * (d - 1):
            state[PROBED] = probed + 1
            set_nodes(given, counts, (probed + 1) // 2, 1 + 2 * ((probed + 1) % 2))
            return
        set_fewer(fewer, alone, d)
    else:
        state[SPENT] += state[POINTS]
        state[ACTIVE] = 0.0
        if not 0.0 < total < np.inf:
            result[1] = np.inf
            return
        change[n] = relative_change(total, top, state[TOTAL], state[TOP])
        state[TOTAL], state[TOP] = total, top
        result[0] = min(0.0, log_scaled(total, top) + log_scale)
        plain = claimed_error(change, n, counts, alone, d)
        result[1] = allow_for_steps(plain, n, steep)
        target = largest_error(relative, absolute, result[0])
        if result[1] < np.inf and result[1] <= target:
            return
        if n == 2 and d > EQUAL and state[SPENT] + 2.0 * (d - 1) * state[POINTS] < most:
            state[ACTIVE], state[PROBED] = 1.0, 0.0
            set_nodes(given, counts, 0, 1)
            return
        if n > 3 and target > 0.0 and not points_suffice(
            change, n, plain, target, state[SPENT], most, counts, fewer, given[LOWER],
            given[UPPER], d,
        ):  # fmt: skip
            return
    if n < RULES:
        start_sum(state, given, counts, fewer, n + 1, most, d)
    else:
        state[ACTIVE] = 0.0


@kernel(THREADS, RESIDENT)
def gauss_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, log_prob, rel_error, spent,
):  # fmt: skip
    """Integrate rows whose error is too large, with more nodes until the tolerance is met.

    Arguments as on the CPU; what was found and spent before is in log_prob, rel_error and
    spent (B,).
    """
    factor = cuda.shared.array((TENSOR, TENSOR), float64)
    given = cuda.shared.array((4, TENSOR), float64)
    counts = cuda.shared.array((2, TENSOR), int64)
    fewer = cuda.shared.array(TENSOR, int64)
    alone = cuda.shared.array(TENSOR, float64)
    change = cuda.shared.array(_CHANGES, float64)
    state = cuda.shared.array(7, float64)
    result = cuda.shared.array(2, float64)
    sums = cuda.shared.array((3, THREADS), float64)
    path = cuda.local.array((5, TENSOR), float64)
    t, d = cuda.threadIdx.x, upper.shape[1]
    for b in range(cuda.blockIdx.x, upper.shape[0], cuda.gridDim.x):
        if steep[b] > STEEP or meets(relative, absolute, log_prob[b], rel_error[b]):
            continue
        for e in range(t, d * d, cuda.blockDim.x):
            factor[e // d, e % d] = T[b, e // d, e % d]
        if t < d:
            given[LOWER, t], given[UPPER, t] = lower[b, t], upper[b, t]
            given[SLOPE, t], given[CURVE, t] = slope[b, t], curve[b, t]
            fewer[t], alone[t] = 0, 0.0
        left = most - spent[b]
        cuda.syncthreads()
        if t == 0:
            state[SPENT], state[TOTAL], state[TOP] = 0.0, 0.0, 0.0
            result[0], result[1] = -np.inf, np.inf
            start_sum(state, given, counts, fewer, 1, left, d)
        cuda.syncthreads()
        while state[ACTIVE] > 0.0:  # one place to sum from, else it would be compiled twice
            total, top = sum_paths(factor, given, counts, table, starts, legendre, path, d)
            total, _, top = join_group(total, 0.0, top, cuda.blockDim.x, sums)
            if t == 0:
                note_sum(
                    state, given, counts, fewer, alone, change, d, relative, absolute, left,
                    log_scale[b], steep[b], result, total, top,
                )  # fmt: skip
            cuda.syncthreads()
        if t == 0:
            spent[b] += state[SPENT]
            better = result[1] < rel_error[b]
            if better or (result[1] == rel_error[b] and result[0] > -np.inf):
                log_prob[b], rel_error[b] = result[0], result[1]
        cuda.syncthreads()  # wait until all threads have finished this row


SHAPES = (Shape(gauss_rows, SIGNATURE), Shape(sparse_rows, SIGNATURE))


def integrate(queue: Queue, *given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logarithms, relative errors and points spent; ``given`` is what kernels take."""
    size, d = given[1].shape
    below = np.tril(given[0][:, :d, :d], -1)
    steep = np.sqrt(np.max(np.sum(below**2, axis=2), axis=1))
    out = [queue.put(np.full(size, start)) for start in (-np.inf, np.inf, 0.0)]
    arguments = [queue.put(a) if isinstance(a, np.ndarray) else a for a in (*given, steep)]
    threads = FEW_THREADS if d <= FEW else THREADS
    blocks = min(size, multiprocessors() * RESIDENT * (THREADS // threads))
    if d > TENSOR_ONLY:
        queue.run(sparse_rows, blocks, threads, *arguments, *out)
    if d <= TENSOR:
        queue.run(gauss_rows, blocks, threads, *arguments, *out)
    log_prob, rel_error, spent = map(queue.get, out)
    return log_prob, rel_error, spent
