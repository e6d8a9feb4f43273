"""Reverse sweep through the Genz recursion on a device, see ``mvnorth._cpu.pathwise``.

Samples are taken in batches of THREADS, of one problem and one shift each, as many at a time as
the work arrays have room for:

1. ``sweep``, a block a batch: draw the samples like ``mvnorth._cuda.genz``, then from the last
   variable to the first the derivatives of the log weights, by the same product with T as the
   forward one with its transpose.  What was drawn and the derivatives times weights stay in the
   work arrays.
2. ``settle``, a thread a pair of problem and shift: the sum of weights so far, and the powers of
   two that make batches and earlier sums comparable.
3. ``add_statistics``: PANEL rows a block, eight threads a row.
4. ``add_products``: a tile of TILE x TILE entries a block, over all samples of the pair, so that
   no partial matrices are kept.

A sample and variable costs about 600 operations in double precision and d multiply-adds in the
sweep, d/2 more for the products, against four numbers written once and read once or twice: the
arithmetic bounds all but ``add_statistics``, which the memory does.
"""

from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64

from mvnorth._cuda import pathwise_sums
from mvnorth._cuda.genz import (
    ALIGNED,
    CHUNK,
    PANEL,
    SCRATCH,
    THREADS,
    draw_sample,
    join_block,
    put_points,
    put_rows,
    stage,
    subtract_product,
    take_rows,
)
from mvnorth._cuda.launch import Queue, Shape, kernel
from mvnorth._cuda.pathwise_sums import (
    DRAWN,
    HIGH,
    LOW,
    SUMS,
    TILE,
    add_products,
    add_statistics,
    settle,
)
from mvnorth._points import Points
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.genz import (
    claimed,
    lattice_point,
    pull_below,
    pull_high,
    pull_low,
)

RESIDENT = 3  # blocks a multiprocessor: what both directions in one kernel leave registers for


@cuda.jit(device=True)
def pull_sample(
    T, lower, upper, rank, attached, slope, curve, z, shift, numerator, share, tile, slots, given,
    y, acc, high, low,
):  # fmt: skip
    """Derivatives of the log weight of one sample a thread, times its ``share`` of the weights.

    Parameters
    ----------
    T, lower, upper, rank, attached, slope, curve : of one problem, see ``genz_sums``
    tile, slots, given : shared memory, see ``draw_sample``
    y, acc : (d, THREADS) what was drawn and the sums of all rows; the latter become the
        derivatives in them
    high, low : (d, THREADS) output: for the upper and lower limits of all rows, the latter only
        of those that have one
    """
    t = cuda.threadIdx.x
    d = lower.size
    sums = cuda.local.array(PANEL, dtype=T.dtype)
    tied = d
    for panel in range((rank - 1) // PANEL * PANEL, -1, -PANEL):
        for r in range(PANEL):
            sums[r] = 0
        subtract_product(sums, tile, T, panel, acc, panel + PANEL, rank)
        subtract_product(sums, tile, T, panel, acc, tied, d)
        for r in range(PANEL):
            slots[r, t] = sums[r]
        stage(tile, T, panel, panel, PANEL)
        take_rows(given, lower, upper, slope, curve, z, shift, panel)
        beyond, count = tied, min(PANEL, rank - panel)  # tied rows that are in the sums
        for r in range(count - 1, -1, -1):
            i = panel + r
            own = slots[r, t]
            for k in range(r + 1, count):
                own -= tile[k, r] * slots[k, t]
            for k in range(tied, beyond):
                own -= T[k, i] * acc[k, t]
            y_bar, drawn, a = np.float64(own), np.float64(y[i, t]), np.float64(acc[i, t])
            u = lattice_point(numerator, given[4, r], given[5, r])
            last = tied
            while tied > rank and attached[tied - 1] == i:
                tied -= 1
            if given[0, r] == -np.inf and tied == last:
                both = pull_below(given[1, r] + a, u, drawn, y_bar)
                high[i, t] = share * both
            else:
                a_low, a_high = given[0, r] + a, given[1, r] + a
                for k in range(tied, last):
                    a_low = max(a_low, lower[k] + acc[k, t])
                    a_high = min(a_high, upper[k] + acc[k, t])
                low_bar = pull_low(a_low, a_high, u, drawn, y_bar)
                high_bar = pull_high(a_low, a_high, u, drawn, y_bar)
                for k in range(last - 1, tied - 1, -1):  # what none of these takes is of row i
                    row_low, low_bar = claimed(a_low, lower[k] + acc[k, t], low_bar)
                    row_high, high_bar = claimed(a_high, upper[k] + acc[k, t], high_bar)
                    acc[k, t] = row_low + row_high
                    high[k, t] = share * row_high
                    if lower[k] > -np.inf:
                        low[k, t] = share * row_low
                both = low_bar + high_bar
                high[i, t] = share * high_bar
                if given[0, r] > -np.inf:
                    low[i, t] = share * low_bar
            both += given[2, r] + 2.0 * given[3, r] * a
            slots[r, t] = both
            acc[i, t] = both


@kernel(THREADS, RESIDENT)
def sweep(
    T, Tt, lower, upper, rank, attached, slope, curve, rows, z, shifts, first, stride, total,
    begin, work, sums,
):  # fmt: skip
    """Weights and derivatives of batches ``begin`` and following, one a block.

    Batch ``t`` is the ``t % batches``-th of pair ``t // batches``, which is shift ``pair % R`` of
    problem ``rows[pair // R]``.

    Parameters
    ----------
    T, Tt : (B, D, D), and the transposes
    lower, upper, rank, attached, slope, curve, rows, z, shifts, first, stride, total : see
        ``mvnorth._cuda.genz.genz_sums``
    work : (blocks, 3 or 4, d, THREADS) output, see DRAWN and the following
    sums : (blocks, 3) output, see ``join_sums``; derivatives are to be multiplied by 2**top
    """
    tile = cuda.shared.array((CHUNK, PANEL), dtype=T.dtype, alignment=ALIGNED)
    slots = cuda.shared.array((PANEL, THREADS), dtype=T.dtype)
    given = cuda.shared.array((6, PANEL), dtype=float64)
    shared = cuda.shared.array((3, THREADS), dtype=float64)
    block, t = cuda.blockIdx.x, cuda.threadIdx.x
    batches = (total + THREADS - 1) // THREADS
    pair = (begin + block) // batches
    point = (begin + block) % batches * THREADS + t
    numerator = first + point * stride
    b = rows[pair // shifts.shape[0]]
    shift = shifts[pair % shifts.shape[0]]
    y, acc = work[block, DRAWN], work[block, SUMS]
    weight, power = draw_sample(
        Tt[b], lower[b], upper[b], rank[b], attached[b], slope[b], curve[b], z, shift, numerator,
        tile, slots, given, y, acc, True,
    )  # fmt: skip
    seen = point < total and weight > 0.0
    weight = weight if seen else 0.0
    shared[0, t] = shared[1, t] = weight
    shared[2, t] = power if seen else -np.inf
    join_block(shared)
    if t < 3:
        sums[block, t] = shared[t, 0]
    top = shared[2, 0]
    if top == -np.inf:
        return
    pull_sample(
        T[b], lower[b], upper[b], rank[b], attached[b], slope[b], curve[b], z, shift, numerator,
        weight * power_of_two(power - top), tile, slots, given, y, acc, work[block, HIGH],
        work[block, min(LOW, work.shape[1] - 1)],
    )  # fmt: skip


def _signature(real: Any) -> tuple[Any, ...]:
    limits, whole, rows = float64[:, ::1], int64[:, ::1], int64[::1]
    problems = (limits, limits, rows, whole, limits, limits)
    points = (rows, float64[::1], limits, int64, int64, int64, int64)
    return (real[:, :, ::1], real[:, :, ::1], *problems, *points, real[:, :, :, ::1], limits)


SHAPES = (
    *(Shape(sweep, _signature(real)) for real in (float64, float32)),
    *pathwise_sums.SHAPES,
)


class PathwiseSums:
    """Sums of weights and of their gradients over shifted lattices, on a device.

    The arrays are those of ``mvnorth._methods.genz.System.kernel_arguments``; ``dtype`` is that
    of T, of the variables and of derivatives of single samples.
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
        *,
        products: bool,
    ) -> None:
        self._queue, self._dtype, self._products = queue, np.dtype(dtype), products
        matrices = (queue.put(a, self._dtype) for a in (T, np.swapaxes(T, 1, 2)))
        rows = put_rows(queue, lower, upper, rank, attached, slope, curve)
        self._system = (*matrices, *rows)
        arrays = 4 if (lower > -np.inf).any() else 3
        self._batch = (arrays, lower.shape[1], THREADS)
        size = int(np.prod(self._batch)) * self._dtype.itemsize
        self._most = max(1, SCRATCH // size)
        self._work: Any = None

    def __call__(
        self, rows: np.ndarray, points: Points
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """What ``Sums.of_parts`` takes, one part for each row and shift.

        logs : (rows, R, 1, 2), of the sum of weights and of the largest weight
        stats : (rows * R, 3, 3, d)
        products : (rows * R, d, d), zero from the diagonal on; or None
        """
        queue, d = self._queue, self._batch[1]
        replicates = len(points.shifts)
        pairs = rows.size * replicates
        where = put_points(queue, rows, points)
        batches = -(-where[-1] // THREADS)
        count = pairs * batches
        state = queue.put(np.tile([0.0, 0.0, -np.inf], (pairs, 1)))
        logs, shrink = queue.empty((pairs, 2)), queue.empty((pairs,))
        stats = queue.empty((pairs, 3, 3, d))
        products = queue.empty((pairs, d, d)) if self._products else None
        most = max(1, min(self._most, count))
        if self._work is None or len(self._work) < most:
            self._work = queue.empty((most, *self._batch), self._dtype)
        work = self._work
        sums, scale = queue.empty((most, 3)), queue.empty((most,))
        lower, rank = self._system[2], self._system[4]
        groups, tiles = -(-d // PANEL), -(-d // TILE)
        tiles = tiles * (tiles + 1) // 2
        for begin in range(0, count, most):
            blocks = min(most, count - begin)
            some, each = sums[:blocks], scale[:blocks]
            touched = (begin + blocks - 1) // batches - begin // batches + 1
            queue.run(sweep, blocks, THREADS, *self._system, *where, begin, work, some)
            outputs = (state, logs, each, shrink)
            queue.run(settle, -(-touched // THREADS), THREADS, some, begin, batches, *outputs)
            known = (where[0], replicates, begin, batches, each, shrink)
            queue.run(add_statistics, touched * groups, THREADS, work, lower, *known, stats)
            if self._products:
                blocks = touched * tiles
                queue.run(add_products, blocks, THREADS, work, lower, rank, *known, products)
        total = queue.get(state)[:, 0]
        total[total == 0.0] = 1.0
        shape = (rows.size, replicates, 1, 2)
        means = [queue.get(a) for a in (stats, products) if a is not None]
        for a in means:
            a /= total.reshape(-1, *(1,) * (a.ndim - 1))
        return queue.get(logs).reshape(shape), means[0], means[1] if self._products else None
