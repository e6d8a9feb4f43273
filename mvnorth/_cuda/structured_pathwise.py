"""Reverse sweep through the structured Genz recursion, a sample a thread.

The twin of ``mvnorth._cpu.structured_pathwise``; samples are split over threads as in
``structured``.  On the way forward a thread keeps y and S of every variable in memory, the
threads of a block side by side; the sweep reads them again: 32 bytes for some 300 operations.  To
bound what is kept, only one segment of the variables is, and the others are drawn once more, from
their first S, before they are swept.  Up to d = 512, and 1024 in single precision, one segment is
all.

Three blocks of 128 threads a multiprocessor: the two phi/Phi of a variable, side by side, take 155
registers a thread.  Statistics are those of ``derivative_statistics``; they are kept for each
slice, and joined by another kernel.
"""

from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64

from mvnorth._cpu.genz import TILE
from mvnorth._cuda.derivative_statistics import PITCH, ROWS, STEPS, STRANDS, add_tile, join_slices
from mvnorth._cuda.groups import SLICES, THREADS, Split, join_group, progression
from mvnorth._cuda.launch import Queue, Shape, kernel
from mvnorth._points import Points
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.genz import draw_below, join_sums, lattice_point, quantile, renormalised
from mvnorth._scalar.normal import mills
from mvnorth._scalar.structured import (
    half_A,
    half_W,
    limit_bar,
    log_c_bar,
    running_sum_bar,
    v_bar,
)

KEPT = 2**28  # bytes of what samples keep, and of statistics
LEAST = 256  # blocks that what is kept must suffice for
_RESIDENT = 3


@cuda.jit(device=True)
def _draw(upper, t, w, z, shift, numerator, start, stop, keep, S, kept, starts):
    """Weight of the variables from ``start`` on, as mantissa and power of two.

    S is the sum before them.  From ``keep`` on y and S are kept, and S before every
    segment that ends there or earlier.
    """
    thread, segment = cuda.threadIdx.x, kept.shape[0]
    weight, power = 1.0, 0.0
    border, leg = start, 0
    for i in range(start, stop):
        if i == border and border < keep:
            starts[leg, thread] = S
            border += segment
            leg += 1
        u = lattice_point(numerator, z[i], shift[i])
        f, k, q, x = draw_below(np.float64(upper[i]) - np.float64(t[i]) * S, u)
        y = quantile(q, x)
        if i >= keep:
            kept[i - keep, 0, thread] = y
            kept[i - keep, 1, thread] = S
        weight *= f
        power += k
        S += np.float64(w[i]) * y
        if i % TILE == TILE - 1:
            weight, power = renormalised(weight, power)
    return renormalised(weight, power)


@cuda.jit(device=True)
def _pull(upper, t, w, recursion, i, y, S, S_bar, s_bar, later):
    """Derivatives in m_i L_ii, log c_i and v_i; then S_bar, s_bar and ``later`` before i."""
    limit, t_i, w_i = np.float64(upper[i]), np.float64(t[i]), np.float64(w[i])
    inverse_s, v2_over_c = np.float64(recursion[0, i]), np.float64(recursion[1, i])
    inverse_diag = np.float64(recursion[2, i])
    w_of_v, s_of_v = np.float64(recursion[3, i]), np.float64(recursion[4, i])
    b_bar = limit_bar(mills(limit - t_i * S), mills(y), w_i, S_bar)
    A, W = half_A(limit, t_i, S, b_bar), half_W(w_i, y, S_bar)
    s_bar = running_sum_bar(s_bar, A, W, later, inverse_s)
    of_c = log_c_bar(A, W, s_bar, v2_over_c)
    of_v = v_bar(S, y, S_bar, s_bar, b_bar, inverse_diag, w_of_v, s_of_v)
    return b_bar, of_c, of_v, S_bar - t_i * b_bar, s_bar, A + W


@kernel(THREADS, _RESIDENT)
def structured_pathwise_sums(
    upper, t, w, rank, recursion, rows, z, shifts, first, stride, points, log_group, share, slices,
    kept, starts, stats, sums,
):  # fmt: skip
    """Sums of weights and of their gradients over slices of shifted lattices.

    Parameters
    ----------
    upper, t, w, rank, recursion, rows, z, shifts : as for the twin
    first, stride, points : numerators first + k * stride, k < points, of every shift
    log_group, share, slices : see ``Split``
    kept : (blocks, segment, 2, THREADS) for y and S of a segment, a multiple of STEPS variables
    starts : (blocks, segments, THREADS) for S before each segment
    stats : (A * R * slices, 3, 3, d) output as for the twin, but over 2**top
    sums : (A * R * slices, 3) output: total, largest and top, see ``join_sums``
    """
    shared = cuda.shared.array((3, THREADS), float64)
    shrink = cuda.shared.array(THREADS, float64)
    tile = cuda.shared.array((ROWS, PITCH), float64)
    strands = cuda.shared.array((3, STRANDS), float64)
    block, thread, group = cuda.blockIdx.x, cuda.threadIdx.x, 1 << log_group
    lane, own = thread & (group - 1), thread >> log_group
    d, segment, segments = upper.shape[1], kept.shape[1], starts.shape[1]
    slots, replicates, served = stats.shape[0], shifts.shape[0], THREADS >> log_group
    for first_slot in range(block * served, slots, cuda.gridDim.x * served):
        slot = min(first_slot + own, slots - 1)
        item, part = slot // slices, slot % slices
        b, r = rows[item // replicates], item % replicates
        total, largest, top = 0.0, 0.0, -np.inf
        # A block of several slots has them served at once.
        for begin in range(part * share, min((part + 1) * share, points), group):
            k = begin + lane
            numerator = np.float64(first + stride * k)
            counts = k < points
            weight = 0.0  # over 2**top
            S_bar, s_bar, later = 0.0, 0.0, 0.0
            for leg in range(segments - 1, -1, -1):
                keep, stop = leg * segment, min((leg + 1) * segment, d)
                last = leg == segments - 1
                start = 0 if last else keep  # all variables first, then one segment after another
                S = 0.0 if last else starts[block, leg, thread]
                m, power = _draw(
                    upper[b], t[b], w[b], z, shifts[r], numerator, start, min(stop, rank[b]), keep,
                    S, kept[block], starts[block],
                )  # fmt: skip
                if last:
                    m = m if counts else 0.0
                    its_top = power if m > 0.0 else -np.inf
                    before = top
                    m_all, m_largest, peak = join_group(m, m, its_top, group, shared)
                    total, largest, top = join_sums(total, largest, top, m_all, m_largest, peak)
                    weight = m if top == -np.inf else m * power_of_two(its_top - top)
                    same = 1.0 if before == top else power_of_two(before - top)
                    shrink[thread] = -1.0 if begin == part * share else same
                padded = (stop + STEPS - 1) // STEPS * STEPS  # no row of the tile is left out
                for i in range(padded - 1, keep - 1, -1):
                    of_m, of_c, of_v = 0.0, 0.0, 0.0
                    if counts and i < rank[b]:
                        y = np.float64(kept[block, i - keep, 0, thread])
                        S = np.float64(kept[block, i - keep, 1, thread])
                        of_m, of_c, of_v, S_bar, s_bar, later = _pull(
                            upper[b], t[b], w[b], recursion[b], i, y, S, S_bar, s_bar, later
                        )
                    row = i % STEPS
                    tile[row, thread] = weight * of_m
                    tile[row + STEPS, thread] = weight * of_c
                    tile[row + 2 * STEPS, thread] = weight * of_v
                    if row == 0:
                        add_tile(tile, strands, shrink, log_group, stats, first_slot, i)
        if lane == 0 and first_slot + own < slots:
            sums[slot, 0], sums[slot, 1], sums[slot, 2] = total, largest, top


def _shape(real: Any) -> Shape:
    matrix, integers = real[:, ::1], int64[::1]
    row = (matrix, matrix, matrix, integers, real[:, :, ::1], integers)
    where = (float64[::1], float64[:, ::1], *(int64,) * 6)
    work = (real[:, :, :, ::1], float64[:, :, ::1], float64[:, :, :, ::1], float64[:, ::1])
    return Shape(structured_pathwise_sums, (*row, *where, *work))


_STATS, _SUMS = float64[:, :, :, ::1], float64[:, ::1]
SHAPES = (
    *(_shape(real) for real in (float64, float32)),
    Shape(join_slices, (_STATS, _SUMS, int64, _STATS, _SUMS)),
)


class StructuredPathwiseSums:
    """Sums of weights and of their gradients over shifted lattices, on a device.

    Parameters
    ----------
    dtype : in which rows, and what samples keep, are stored
    lower, upper, t, w, rank, slope, recursion : as for the twin
    """

    def __init__(
        self,
        queue: Queue,
        dtype: Any,
        lower: np.ndarray,
        upper: np.ndarray,
        t: np.ndarray,
        w: np.ndarray,
        rank: np.ndarray,
        slope: np.ndarray,
        *,
        recursion: np.ndarray,
    ) -> None:
        self._queue, self._dtype, self._d = queue, np.dtype(dtype), t.shape[1]
        put = queue.put
        factor = put(t, dtype), put(w, dtype)
        self._rows = (put(upper, dtype), *factor, put(rank, np.int64), put(recursion, dtype))

    def __call__(self, rows: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """Logs (rows, R, 1, 2) and statistics (rows * R, 3, 3, d), as ``Sums.of_parts`` has them.

        The device works on some rows at a time, to bound its memory.
        """
        queue, replicates, d = self._queue, len(points.shifts), self._d
        where = (queue.put(points.z), queue.put(points.shifts))
        logs = np.empty((rows.size, replicates, 1, 2))
        stats = np.empty((rows.size * replicates, 3, 3, d))
        progress = progression(points)
        of_slice = 72 * replicates * d  # bytes of statistics of a row
        split = Split.of(progress[2], min(SLICES, KEPT // of_slice))
        chunk = max(1, KEPT // (of_slice * split.slices))
        for k in range(0, rows.size, chunk):
            some, items = rows[k : k + chunk], slice(k * replicates, (k + chunk) * replicates)
            found, stats[items] = self._some(some, where, progress, split)
            logs[k : k + chunk, :, 0] = found.reshape(-1, replicates, 2)
        return logs, stats

    def _some(
        self,
        rows: np.ndarray,
        where: tuple[Any, Any],
        progress: tuple[int, int, int],
        split: Split,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logs (items, 2) and statistics (items, 3, 3, d) of some rows."""
        queue, d, items = self._queue, self._d, rows.size * where[1].shape[0]
        sizes = (*progress, split.log_group, split.share, split.slices)
        column = 2 * THREADS * self._dtype.itemsize  # bytes that a block keeps of a variable
        segment = min(KEPT // (LEAST * column), -(-d // STEPS) * STEPS)
        blocks = min(split.blocks(items), KEPT // (segment * column))
        kept = queue.empty((blocks, segment, 2, THREADS), self._dtype)
        starts = queue.empty((blocks, -(-d // segment), THREADS))
        parts = queue.empty((items * split.slices, 3, 3, d))
        sums = queue.empty((items * split.slices, 3))
        queue.run(
            structured_pathwise_sums, blocks, THREADS, *self._rows, queue.put(rows, np.int64),
            *where, *sizes, kept, starts, parts, sums,
        )  # fmt: skip
        out = parts if split.slices == 1 else queue.empty((items, 3, 3, d))
        logs = queue.empty((items, 2))
        arguments = (parts, sums, split.slices, out, logs)
        queue.run(join_slices, -(-items * 9 * d // THREADS), THREADS, *arguments)
        return queue.get(logs), queue.get(out)
