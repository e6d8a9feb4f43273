"""Genz's separation of variables on a device, see ``mvnorth._cpu.genz``.

A thread draws one sample at a time, a block THREADS of them for one problem and one shift.  A
variable costs about 200 operations in double precision for Phi and its inverse, and i
multiply-adds for the sum of row i.  For the sums rows are taken in panels: the sums of PANEL
rows stay in registers while y_j of the sample comes from a work array (one coalesced load for
PANEL multiply-adds: 32 bytes a cycle and multiprocessor in double precision at the full rate of
an A100, what its second-level cache gives) and PANEL entries of T, the same for all threads,
from shared memory, two or four at a time.  T is there transposed, so that these are neighbours
everywhere.  Inside a panel sums and what was drawn stay in shared memory.

The work array belongs to blocks, not to samples, so it stays in the caches where d allows it.
In single precision T and y are stored and multiplied so; limits, Phi, its inverse and weights
are double always.  Sums over parts of the points depend neither on the device nor on how many
problems there are.
"""

from typing import Any

import numpy as np
from numba import config, cuda, float32, float64, int64

from mvnorth._cuda.launch import Queue, Shape, kernel, multiprocessors
from mvnorth._points import Points
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.genz import (
    draw_below,
    draw_between,
    join_sums,
    lattice_point,
    quantile,
    renormalised,
    tilted,
)

THREADS = 128  # of a block: samples at a time
PANEL = 16  # rows whose sums a thread holds; T is padded to a multiple of it
CHUNK = 32  # variables whose entries of T are in shared memory at a time
RESIDENT = 4  # blocks a multiprocessor
SLICES = 256  # of the points of a shift, at most: enough for a device to share one problem
SCRATCH = 2**28  # bytes that a call may work in
# Of shared memory, so that threads load 16 bytes at a time; the simulator knows none.
ALIGNED = None if config.ENABLE_CUDASIM else 16


@cuda.jit(device=True)
def stage(tile, M, first, column, count):
    """tile[:count] = M[first:first+count, column:column+PANEL]."""
    cuda.syncthreads()
    for e in range(cuda.threadIdx.x, count * PANEL, THREADS):
        tile[e // PANEL, e % PANEL] = M[first + e // PANEL, column + e % PANEL]
    cuda.syncthreads()


@cuda.jit(device=True)
def subtract_product(sums, tile, M, column, vectors, first, last):
    """sums -= M[first:last, column:column+PANEL]^T @ vectors[first:last, thread]."""
    t = cuda.threadIdx.x
    for start in range(first, last, CHUNK):
        count = min(CHUNK, last - start)
        stage(tile, M, start, column, count)
        for j in range(count):
            value = vectors[start + j, t]
            for r in range(PANEL):
                sums[r] -= tile[j, r] * value


@cuda.jit(device=True)
def take_rows(given, lower, upper, slope, curve, z, shift, panel):
    """What is said of PANEL rows, in shared memory; follows ``stage``, whose barrier it needs."""
    t = cuda.threadIdx.x
    i = panel + t
    if t < PANEL and i < lower.size:
        given[0, t], given[1, t], given[2, t] = lower[i], upper[i], slope[i]
        given[3, t], given[4, t], given[5, t] = curve[i], z[i], shift[i]
    cuda.syncthreads()


@cuda.jit(device=True)
def join_block(shared):
    """``join_sums`` over the columns of ``shared`` (3, THREADS), left in the first."""
    t = cuda.threadIdx.x
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            shared[0, t], shared[1, t], shared[2, t] = join_sums(
                shared[0, t], shared[1, t], shared[2, t],
                shared[0, t + step], shared[1, t + step], shared[2, t + step],
            )  # fmt: skip
        cuda.syncthreads()
        step //= 2


@cuda.jit(device=True)
def draw_sample(
    Tt, lower, upper, rank, attached, slope, curve, z, shift, numerator, tile, slots, given, y,
    acc, keep,
):  # fmt: skip
    """``(weight, power)`` of one sample a thread.

    Parameters
    ----------
    Tt, lower, upper, rank, attached, slope, curve : of one problem, see ``genz_sums``
    tile, slots, given : (CHUNK, PANEL), (PANEL, THREADS) and (6, PANEL) shared memory
    y : (d, THREADS) output, what was drawn
    acc : (d, THREADS) output, the sums of all rows, if ``keep``
    """
    t = cuda.threadIdx.x
    d = lower.size
    sums = cuda.local.array(PANEL, dtype=Tt.dtype)
    weight, power, exponent = 1.0, 0.0, 0.0
    tied = rank
    for panel in range(0, rank, PANEL):
        for r in range(PANEL):
            sums[r] = 0
        subtract_product(sums, tile, Tt, panel, y, 0, panel)
        for r in range(PANEL):
            slots[r, t] = sums[r]
        stage(tile, Tt, panel, panel, PANEL)
        take_rows(given, lower, upper, slope, curve, z, shift, panel)
        for i in range(panel, min(panel + PANEL, rank)):
            r = i - panel
            own = slots[i - panel, t]
            for k in range(i - panel):
                own -= tile[k, i - panel] * slots[k, t]
            if keep:
                acc[i, t] = own
            a = np.float64(own)
            exponent += a * (given[2, r] + given[3, r] * a)
            u = lattice_point(numerator, given[4, r], given[5, r])
            if given[0, r] == -np.inf and (tied == d or attached[tied] > i):
                f, k, q, w = draw_below(given[1, r] + a, u)
                sign = 1.0
            else:
                low, high = given[0, r] + a, given[1, r] + a
                while tied < d and attached[tied] == i:
                    extra = Tt[0, tied] * 0
                    for j in range(i):
                        extra -= Tt[j, tied] * y[j, t]
                    if keep:
                        acc[tied, t] = extra
                    low = max(low, lower[tied] + extra)
                    high = min(high, upper[tied] + extra)
                    tied += 1
                f, k, q, w, sign = draw_between(low, high, u)
            weight *= f
            power += k
            value = sign * quantile(q, w)
            slots[i - panel, t] = value
            y[i, t] = value
            if i % 4 == 3:
                weight, power = renormalised(weight, power)
    weight, power = tilted(weight, power, exponent)
    return renormalised(weight, power)


@kernel(THREADS, RESIDENT)
def genz_sums(
    Tt, lower, upper, rank, attached, slope, curve, rows, z, shifts, first, stride, total, length,
    work, out,
):  # fmt: skip
    """Sums of weights over slices of shifted lattices, as logarithms.

    Item ``t`` is slice ``t % slices`` of shift ``(t // slices) % R`` of problem
    ``rows[t // (slices * R)]``; blocks take them in turns.

    Parameters
    ----------
    Tt : (B, D, D) transposes of T
    lower, upper, rank, attached, slope, curve, rows, z, shifts : see ``_cpu.genz.genz_sums``
    first, stride, total : numerators first + k * stride, k < total
    length : points a slice
    work : (blocks, d, THREADS)
    out : (A * R * slices, 2) output, logs of the sum of weights and of the largest weight
    """
    tile = cuda.shared.array((CHUNK, PANEL), dtype=Tt.dtype, alignment=ALIGNED)
    slots = cuda.shared.array((PANEL, THREADS), dtype=Tt.dtype)
    given = cuda.shared.array((6, PANEL), dtype=float64)
    shared = cuda.shared.array((3, THREADS), dtype=float64)
    t = cuda.threadIdx.x
    slices = (total + length - 1) // length
    y = work[cuda.blockIdx.x]
    for item in range(cuda.blockIdx.x, out.shape[0], cuda.gridDim.x):
        begin = item % slices * length
        end = min(begin + length, total)
        shift = shifts[item // slices % shifts.shape[0]]
        b = rows[item // (slices * shifts.shape[0])]
        # Registers are dear: sums of weights are in shared memory.
        shared[0, t], shared[1, t], shared[2, t] = 0.0, 0.0, -np.inf
        for k in range(begin, end, THREADS):
            weight, power = draw_sample(
                Tt[b], lower[b], upper[b], rank[b], attached[b], slope[b], curve[b], z, shift,
                first + (k + t) * stride, tile, slots, given, y, y, False,
            )  # fmt: skip
            if k + t < end and weight > 0.0:
                shared[0, t], shared[1, t], shared[2, t] = join_sums(
                    shared[0, t], shared[1, t], shared[2, t], weight, weight, power
                )
        join_block(shared)
        if t < 2:
            out[item, t] = log_scaled(shared[t, 0], shared[2, 0]) if shared[0, 0] > 0.0 else -np.inf
        cuda.syncthreads()


def _signature(real: Any) -> tuple[Any, ...]:
    limits, whole = float64[:, ::1], int64[:, ::1]
    problems = (real[:, :, ::1], limits, limits, int64[::1], whole, limits, limits)
    points = (int64[::1], float64[::1], limits, int64, int64, int64, int64)
    return (*problems, *points, real[:, :, ::1], limits)


SHAPES = tuple(Shape(genz_sums, _signature(real)) for real in (float64, float32))


def put_rows(
    queue: Queue,
    lower: np.ndarray,
    upper: np.ndarray,
    rank: np.ndarray,
    attached: np.ndarray,
    slope: np.ndarray,
    curve: np.ndarray,
) -> tuple[Any, ...]:
    """What is said of the rows of T, on the device."""
    kinds = (np.float64, np.float64, np.int64, np.int64, np.float64, np.float64)
    rows = (lower, upper, rank, attached, slope, curve)
    return tuple(queue.put(a, kind) for a, kind in zip(rows, kinds, strict=True))


def put_points(queue: Queue, rows: np.ndarray, points: Points) -> tuple[Any, ...]:
    """``rows, z, shifts, first, stride, total`` as kernels take them."""
    arrays = (queue.put(rows, np.int64), queue.put(points.z), queue.put(points.shifts))
    total = points.start.size * int(points.count)
    return (*arrays, int(points.start[0]), int(points.stride), total)


class GenzSums:
    """Logs of sums of weights over shifted lattices, on a device.

    The arrays are those of ``mvnorth._methods.genz.System.kernel_arguments``; ``dtype`` is that
    of T and of the variables.
    """

    def __init__(
        self,
        queue: Queue,
        dtype: Any,
        T: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        rank: np.ndarray,
        attached: np.ndarray,
        slope: np.ndarray,
        curve: np.ndarray,
    ) -> None:
        self._queue, self._dtype = queue, np.dtype(dtype)
        rows = put_rows(queue, lower, upper, rank, attached, slope, curve)
        self._system = (queue.put(np.swapaxes(T, 1, 2), self._dtype), *rows)
        self._d = lower.shape[1]
        most = SCRATCH // (self._d * THREADS * self._dtype.itemsize)
        self._blocks = max(1, min(most, RESIDENT * multiprocessors()))
        self._work: Any = None

    def __call__(self, rows: np.ndarray, points: Points) -> np.ndarray:
        """Logs of sum and largest weight, (rows, R, slices, 2)."""
        queue = self._queue
        total = points.start.size * int(points.count)
        length = -(-total // (SLICES * THREADS)) * THREADS
        shape = (rows.size, len(points.shifts), -(-total // length), 2)
        items = int(np.prod(shape[:3]))
        blocks = min(items, self._blocks)
        if self._work is None or len(self._work) < blocks:
            self._work = queue.empty((blocks, self._d, THREADS), self._dtype)
        out = queue.empty((items, 2))
        where = put_points(queue, rows, points)
        queue.run(genz_sums, blocks, THREADS, *self._system, *where, length, self._work, out)
        return queue.get(out).reshape(shape)
