"""Orthant probabilities of diag(c) + v v^T to rounding accuracy, with derivatives: a block a row.

Work.  A coordinate costs 76 double-precision instructions at each node for its factor of the
integrand, and 59 more where phi/Phi is computed again for derivatives: 32 nodes in double and 16 in
single precision make 4,700 and 1,900 with the rest, for 16 to 40 bytes of input and results.  So
double precision arithmetic bounds it, by two orders of magnitude, and neither the five doubles a
coordinate that a block keeps in global memory nor reading them for every node matter: all lanes of
a warp read the same one.

Shapes.  Up to 32 coordinates a block is one warp, which keeps all phi/Phi in shared memory, 14 KB:
six blocks of 96 KB.  Above, a block has six warps, so that 256 rows fill a device, and two blocks
a multiprocessor, which leaves 168 registers a thread; phi/Phi are computed twice.

Rows that the trapezoidal rule does not resolve, those with walls, are left to a second kernel, one
thread a row, which is the twin as it is.  It looks for them itself: nothing is waited for.
"""

import math
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int8, int64

from mvnorth._cpu.factor_nodes import (
    BETA,
    FIRST_ORDER,
    NODES,
    SCALE,
    SECOND,
    STEEP_TOTAL,
    TOLERANCE,
    TOTAL,
    M,
    V,
    Work,
)
from mvnorth._cpu.factor_trapezoid import (
    DONE,
    HOPELESS,
    LARGEST_NOISE,
    WALL,
    integrate_unresolved,
)
from mvnorth._cpu.one_factor import set_slopes
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
    CONSTANT,
    DESK,
    ERROR,
    JOINED,
    KEPT,
    NOISE,
    SLOPE_ERROR,
    STEP,
    TOP,
    USED,
    WIDTH,
    Block,
    Z,
    any_thread,
    find_mode,
    join,
    take_out_quadratic,
)
from mvnorth._cuda.factor_trapezoid import trapezoid
from mvnorth._cuda.launch import Queue, Shape, cached_kernel, kernel
from mvnorth._rounding import ROUNDING
from mvnorth._scalar.one_factor import (
    conclude,
    final_bound,
    final_value,
    hidden_slope,
    measured,
    slope_bounds,
    slope_entry,
)

_ROUNDING = tuple(ROUNDING[np.dtype(kind)] for kind in (np.float64, np.float32))
_LOWEST = tuple(float(np.finfo(kind).min) for kind in (np.float64, np.float32))


@cuda.jit(device=True)
def _load(row, m, c, v, b, first, step):
    """Coordinates first, first + step, ... of row b; whether some are NaN, and minus infinity."""
    shared = 0 if c.shape[0] == 1 else b
    shared_v = 0 if v.shape[0] == 1 else b
    lost = impossible = False
    for i in range(first, row.shape[1], step):
        mean, loading = np.float64(m[b, i]), np.float64(v[shared_v, i])
        scale = 1.0 / math.sqrt(np.float64(c[shared, i]))
        row[M, i], row[V, i], row[SCALE, i], row[BETA, i] = mean, loading, scale, loading * scale
        lost |= math.isnan(mean) or math.isnan(loading) or math.isnan(scale)
        impossible |= mean == -math.inf
    return lost, impossible


@cuda.jit(device=True)
def _fill(grad, error, b, value, bound):
    for i in range(cuda.threadIdx.x, grad.shape[1], cuda.blockDim.x):
        grad[b, i], error[b, i] = value, bound


@cuda.jit(device=True)
def _set_errors(grad, error, b, bound, lost, rounding, first, step):
    """Errors of a row of derivatives, which are 0 where they are lost."""
    for i in range(first, grad.shape[1], step):
        if lost:
            grad[b, i] = 0.0
        error[b, i] = final_bound(bound, np.float64(grad[b, i]), lost, rounding)


def _by_blocks(warps: int, single: int) -> Any:
    """The kernel for blocks of so many warps, in double or single precision."""
    bounds = (32, RESIDENT_FEW) if warps == 1 else (32 * warps, RESIDENT)
    lanes, kept = bounds[0], (KEPT, NODES + 1) if warps == 1 else (1, 1)
    largest, lowest, rounding = -_LOWEST[single], _LOWEST[single], _ROUNDING[single]
    tolerance = TOLERANCE[single]

    @kernel(*bounds)
    def one_factor_rows(
        m, c, v, rows, moments, state, log_prob, prob, rel_error, error, used, grad_m, grad_c,
        grad_v, error_m, error_c, error_v,
    ):  # fmt: skip
        """Results of rows, a block a row; state says which of them are left.

        rows (blocks, 7, d) and moments (blocks, 4, d), or (blocks, 4, 0) for the value alone, are
        memory; the rest as in ``one_factor`` below.
        """
        nodes = cuda.shared.array((13, NODES), float64)
        sums = cuda.shared.array(32, float64)
        part = cuda.shared.array((JOINED, lanes), float64)
        mills = cuda.shared.array(kept, float64)
        desk = cuda.shared.array(DESK, float64)
        thread, stride = cuda.threadIdx.x, cuda.blockDim.x
        row, moment = plain(rows)[cuda.blockIdx.x], plain(moments)[cuda.blockIdx.x]
        plain_only = grad_c.size + grad_v.size == 0
        block = Block(row, nodes, sums, part, mills, moment, plain_only, desk)
        for b in range(cuda.blockIdx.x, m.shape[0], cuda.gridDim.x):
            lost, impossible = _load(row, m, c, v, b, thread, stride)
            is_lost = any_thread(lost)
            if any_thread(impossible) or is_lost:
                nothing = math.nan if is_lost else 0.0
                if thread == 0:
                    log_prob[b] = math.nan if is_lost else -math.inf
                    prob[b] = rel_error[b] = error[b] = nothing
                    used[b], state[b] = 0, DONE
                bound = math.nan if is_lost else math.inf
                _fill(grad_m, error_m, b, nothing, bound)
                _fill(grad_c, error_c, b, nothing, bound)
                _fill(grad_v, error_v, b, nothing, bound)
                continue
            for j in range(thread, 32, stride):
                sums[j] = 0.0
            for i in range(thread, moment.shape[1], stride):
                for j in range(1 if plain_only else FIRST_ORDER):
                    moment[j, i] = 0.0
            find_mode(block)
            take_out_quadratic(block)
            resolvable = desk[NOISE] <= LARGEST_NOISE
            if not resolvable or not trapezoid(block, single):
                if thread == 0:
                    wall = resolvable and desk[ERROR] == math.inf
                    state[b], used[b] = WALL if wall else HOPELESS, int64(desk[USED])
                cuda.syncthreads()
                continue
            whole, steep, width = sums[TOTAL], sums[STEEP_TOTAL], desk[WIDTH]
            log, relative, slope_error = conclude(
                row.shape[1], width, desk[NOISE], whole, measured(desk[STEP], sums[SECOND]),
                desk[STEP] * width, desk[TOP], desk[CONSTANT], steep, desk[ERROR],
                desk[SLOPE_ERROR],
            )  # fmt: skip
            log, probability, relative, absolute, is_lost = final_value(
                log, relative, rounding, lowest
            )
            if thread == 0:
                log_prob[b], prob[b], rel_error[b], error[b] = log, probability, relative, absolute
                used[b], state[b] = int64(desk[USED]), DONE
            if moment.shape[1] > 0:
                z, hidden = desk[Z], hidden_slope(slope_error, steep, whole, width, tolerance)
                for j in range(5):
                    part[j, thread] = 0.0
                for i in range(thread, row.shape[1], stride):
                    m1 = m2 = m3 = 0.0
                    if not plain_only:
                        m1, m2, m3 = moment[1, i], moment[2, i], moment[3, i]
                    in_m, in_c, in_v, size_c, size_v, hidden_m, hidden_c = slope_entry(
                        row[SCALE, i], row[BETA, i], row[V, i], moment[0, i], m1, m2, m3, whole, z,
                        width, hidden,
                    )  # fmt: skip
                    part[0, thread] = max(part[0, thread], in_m)
                    part[1, thread] = max(part[1, thread], size_c)
                    part[2, thread] = max(part[2, thread], size_v)
                    part[3, thread] = max(part[3, thread], hidden_m)
                    part[4, thread] = max(part[4, thread], hidden_c)
                    if grad_m.size > 0:
                        grad_m[b, i] = min(in_m, largest)
                    if grad_c.size > 0:
                        grad_c[b, i] = min(max(in_c, -largest), largest)
                    if grad_v.size > 0:
                        grad_v[b, i] = min(max(in_v, -largest), largest)
                join(part, 5, True)
                bound_m, bound_c, bound_v = slope_bounds(
                    slope_error, single, largest, part[0, 0], part[1, 0], part[2, 0], part[3, 0],
                    part[4, 0], z, width,
                )  # fmt: skip
                _set_errors(grad_m, error_m, b, bound_m, is_lost, rounding, thread, stride)
                _set_errors(grad_c, error_c, b, bound_c, is_lost, rounding, thread, stride)
                _set_errors(grad_v, error_v, b, bound_v, is_lost, rounding, thread, stride)
            cuda.syncthreads()

    return one_factor_rows


def _by_threads(single: int) -> Any:
    """The kernel for rows that are left, in double or single precision."""
    largest, lowest, rounding = -_LOWEST[single], _LOWEST[single], _ROUNDING[single]

    @cached_kernel()
    def one_factor_left(
        m, c, v, rows, moments, state, log_prob, prob, rel_error, error, used, grad_m, grad_c,
        grad_v, error_m, error_c, error_v, nodes, mills, sums, stacks,
    ):  # fmt: skip
        """Results of the rows that are left, by blocks of one thread.

        nodes (slots, 13, NODES), mills (slots, 64, NODES), sums (slots, 32) and
        stacks (slots, 2, STACK, 5) are memory.
        """
        slot = cuda.blockIdx.x
        work = Work(
            plain(rows)[slot], plain(nodes)[slot], plain(mills)[slot], plain(moments)[slot],
            plain(sums)[slot], plain(stacks)[slot],
        )  # fmt: skip
        for b in range(slot, m.shape[0], cuda.gridDim.x):
            if state[b] != DONE:
                _load(work.row, m, c, v, b, 0, 1)
                integral = integrate_unresolved(
                    work, work.moments, single, used[b], state[b] == WALL
                )
                log, probability, relative, absolute, is_lost = final_value(
                    integral.log_prob, integral.error, rounding, lowest
                )
                log_prob[b], prob[b], rel_error[b], error[b] = log, probability, relative, absolute
                used[b], state[b] = integral.used, DONE
                bounds = set_slopes(
                    work, integral, b, single, largest, plain(grad_m), plain(grad_c),
                    plain(grad_v),
                )  # fmt: skip
                _set_errors(grad_m, error_m, b, bounds[0], is_lost, rounding, 0, 1)
                _set_errors(grad_c, error_c, b, bounds[1], is_lost, rounding, 0, 1)
                _set_errors(grad_v, error_v, b, bounds[2], is_lost, rounding, 0, 1)

    return one_factor_left


_FEW, _MANY, _REST = (
    tuple(made(single) for single in (0, 1))
    for made in (
        lambda single: _by_blocks(1, single),
        lambda single: _by_blocks(WARPS, single),
        _by_threads,
    )
)


def _shapes(real: Any, single: int) -> tuple[Shape, ...]:
    matrix, vector, box = real[:, ::1], real[::1], float64[:, :, ::1]
    double, numbers = float64[:, ::1], float64[::1]
    results = (vector, vector, numbers, numbers, int64[::1], matrix, matrix, matrix)
    common = (matrix, double, double, box, box, int8[::1], *results, double, double, double)
    memory = (box, box, double, float64[:, :, :, ::1])
    return (
        Shape(_FEW[single], common),
        Shape(_MANY[single], common),
        Shape(_REST[single], common + memory),
    )


SHAPES = (*_shapes(float64, 0), *_shapes(float32, 1))


def one_factor(queue: Queue, m: Any, c: Any, v: Any, wrt: tuple[str, ...]) -> dict[str, Any]:
    """Probabilities that N(m, diag(c) + v v^T) is positive, and derivatives of their logarithms.

    Parameters
    ----------
    m : (B, d) on the device, in double or single precision; +inf allowed, with -inf a row has
        probability 0, with NaN all its results are
    c, v : (1 or B, d) on the device, in double precision; c > 0
    wrt : some of "m", "c", "v"

    Returns
    -------
    dict
        On the device: prob and log_prob (B,) in m's precision; rel_error and error (B,) in double;
        n (B,), nodes used; and for each name of ``wrt`` grad_name (B, d) in m's precision and
        grad_name_error (B, d) in double.
    """
    size, d = m.shape
    single = int(m.dtype == np.float32)
    found = {name: queue.empty((size,), m.dtype) for name in ("log_prob", "prob")}
    found |= {name: queue.empty((size,)) for name in ("rel_error", "error")}
    found["n"] = queue.empty((size,), np.int64)
    shapes = [(size, d) if name in wrt else (0, 0) for name in "mcv"]
    grad = [queue.empty(shape, m.dtype) for shape in shapes]
    error = [queue.empty(shape) for shape in shapes]
    count = blocks(size, d)
    memory = row_memory(queue, count, d, bool(wrt))
    state = queue.empty((size,), np.int8)
    common = (m, c, v, *memory, state, *found.values(), *grad, *error)
    queue.run((_FEW if few(d) else _MANY)[single], count, threads(d), *common)
    panels = panel_memory(queue, count)
    queue.run(_REST[single], panels[0].shape[0], 1, *common, *panels)
    for name, value, bound in zip("mcv", grad, error, strict=True):
        if name in wrt:
            found[f"grad_{name}"], found[f"grad_{name}_error"] = value, bound
    return found
