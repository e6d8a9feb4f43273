"""Genz's method for Sigma = diag(c) + v v^T in O(d) a sample, a sample a thread.

The twin of ``mvnorth._cpu.structured``.  A sample is five numbers in registers: S, the point's
numerator, and the weight as mantissa, power of two and exponent.  A variable costs some 160
operations in double precision, half of them in Phi and half in its inverse, in one chain of
about 110.  It reads seven numbers, 56 bytes, that are the same for all threads of a group, and
for all groups of a block but for the shift if they belong to one row: a request a warp
and number, out of a line of the first-level cache that serves 16 variables.  Arithmetic bounds
it more than tenfold, so the rows are read through the cache; a copy in shared memory would save
nothing that is waited for, and cost barriers.

Five blocks of 128 threads a multiprocessor hide the latency of the chain: 96 registers a thread.
In single precision the rows are stored so; arithmetic is the same.
"""

from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64

from mvnorth._cpu.genz import TILE
from mvnorth._cuda.groups import SLICES, THREADS, Split, join_group, progression
from mvnorth._cuda.launch import Queue, Shape, kernel
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

_RESIDENT = 5


@cuda.jit(device=True)
def weigh(lower, upper, t, w, rank, slope, z, shift, numerator):
    """Weight of one sample, as mantissa and power of two; arrays (d,) of one row and shift."""
    weight, power, exponent, S = 1.0, 0.0, 0.0, 0.0
    for i in range(rank):
        below = np.float64(upper[i]) - np.float64(t[i]) * S
        exponent -= np.float64(slope[i]) * np.float64(t[i]) * S
        u = lattice_point(numerator, z[i], shift[i])
        if lower[i] == -np.inf:
            factor, k, q, x = draw_below(below, u)
            sign = 1.0
        else:
            above = np.float64(lower[i]) - np.float64(t[i]) * S
            factor, k, q, x, sign = draw_between(above, below, u)
        weight *= factor
        power += k
        S += np.float64(w[i]) * (sign * quantile(q, x))
        if i % TILE == TILE - 1:
            weight, power = renormalised(weight, power)
    weight, power = tilted(weight, power, exponent)
    return renormalised(weight, power)


@kernel(THREADS, _RESIDENT)
def structured_sums(
    lower, upper, t, w, rank, slope, rows, z, shifts, first, stride, points, group, share, slices,
    out,
):  # fmt: skip
    """Logs of sums of weights over slices of shifted lattices.

    Parameters
    ----------
    lower, upper, t, w, rank, slope, rows, z, shifts : as for the twin
    first, stride, points : numerators first + k * stride, k < points, of every shift
    group, share, slices : see ``Split``
    out : (A, R, slices, 2) logs of the sum of weights and of the largest weight
    """
    shared = cuda.shared.array((3, THREADS), float64)
    slot = (cuda.blockIdx.x * THREADS + cuda.threadIdx.x) // group
    lane = cuda.threadIdx.x % group
    item, part = slot // slices, slot % slices
    replicates = shifts.shape[0]
    a, r = item // replicates, item % replicates
    exists = a < rows.size
    total, largest, top = 0.0, 0.0, -np.inf
    if exists:
        b = rows[a]
        for k in range(part * share + lane, min((part + 1) * share, points), group):
            numerator = np.float64(first + stride * k)
            weight, power = weigh(
                lower[b], upper[b], t[b], w[b], rank[b], slope[b], z, shifts[r], numerator
            )
            own = power if weight > 0.0 else -np.inf
            total, largest, top = join_sums(total, largest, top, weight, weight, own)
    total, largest, top = join_group(total, largest, top, group, shared)
    if exists and lane == 0:
        out[a, r, part, 0] = log_scaled(total, top) if total > 0.0 else -np.inf
        out[a, r, part, 1] = log_scaled(largest, top) if total > 0.0 else -np.inf


def _shape(real: Any) -> Shape:
    matrix, integers = real[:, ::1], int64[::1]
    row = (matrix, matrix, matrix, matrix, integers, matrix, integers)
    where = (float64[::1], float64[:, ::1], *(int64,) * 6)
    return Shape(structured_sums, (*row, *where, float64[:, :, :, ::1]))


SHAPES = tuple(_shape(real) for real in (float64, float32))


class StructuredSums:
    """Logs of sums of weights over shifted lattices, on a device.

    Parameters
    ----------
    dtype : in which rows are stored
    lower, upper, t, w, rank, slope : as for the twin
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
    ) -> None:
        self._queue = queue
        put = queue.put
        ends, factor = (put(lower, dtype), put(upper, dtype)), (put(t, dtype), put(w, dtype))
        self._rows = (*ends, *factor, put(rank, np.int64), put(slope, dtype))

    def __call__(self, rows: np.ndarray, points: Points) -> np.ndarray:
        """Logs of sum and largest weight (rows, R, slices, 2)."""
        queue, replicates = self._queue, len(points.shifts)
        items = rows.size * replicates
        progress = progression(points)
        split = Split.of(progress[2], SLICES)
        shape = (rows.size, replicates, split.slices, 2)
        if not items:
            return np.empty(shape)
        out = queue.empty(shape)
        where = (queue.put(rows, np.int64), queue.put(points.z), queue.put(points.shifts))
        sizes = (*progress, split.group, split.share, split.slices)
        queue.run(
            structured_sums, split.blocks(items), THREADS, *self._rows, *where, *sizes, out
        )  # fmt: skip
        return queue.get(out)
