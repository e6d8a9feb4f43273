"""Genz's recursion with one variable pinned to a limit: derivatives from the factor of the value.

The derivative of P in a limit x of row i (upper_i, or with a minus sign lower_i) is the same
integral, but for y_i, which is not drawn but x - sum_j<i T_ij y_j, with its density in the place of
the factor Phi(b_i) - Phi(a_i) (EXACT, Theorem 4.3, without a new factor).  Up to variable i the
samples are those of the value: at each i and for each finite limit they go on, pinned, to the end,
and are then drawn on from where they were.  O(d**3) a sample for all limits.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import (
    BLOCK,
    PANEL,
    ROW,
    WORK,
    add_weights,
    draw_variable,
    finish_block,
    lattice,
    start_block,
    store_logs,
)
from mvnorth._scalar.normal import Z_MAX, gauss_parts

_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)


@inner(FAST)
def _copy(source, target):
    for s in range(BLOCK):
        target[s] = source[s]


@inner(FAST)
def _pin(limit, acc, before, y, weight, power):
    """y = limit + acc, and its density as a factor of the weights before."""
    for s in range(BLOCK):
        y[s] = limit + acc[s]
    for s in range(BLOCK):
        f, k = gauss_parts(min(abs(y[s]), Z_MAX))
        weight[s] = before[0, s] * (f * _INV_SQRT_2_PI)
        power[s] = before[1, s] + k


@inner(FAST)
def _weigh_pinned(
    T, lower, upper, rank, attached, nothing, i, limit, before, u, work, sums, later, y
):
    """Weights of one block with variable i pinned, in work[0] and work[1]; ``sums`` are of i.

    ``later`` is in place of ``sums`` for the variables to come; y[i] and those after it are lost.
    """
    start_block(work)
    acc = sums[i % PANEL]
    _pin(limit, acc, before, y[i], work[0], work[1])
    for k in range(i % PANEL + 1, PANEL):
        _copy(sums[k], later[k])
    for k in range(i + 1, rank):
        _copy(u[k], work[2])
        draw_variable(
            T, lower, upper, rank, attached, nothing, nothing, k, rank, work, later, y
        )  # fmt: skip
    finish_block(work)


@kernel(FAST)
def pinned_sums(
    T, lower, upper, rank, attached, slope, curve, faces, rows, z, shifts, start, stride, points,
    out, begin, end,
):  # fmt: skip
    """Sums of weights, as in ``genz_sums`` and equal to its, and of weights with pinned variables.

    Parameters
    ----------
    T, lower, upper, rank, attached : as for ``genz_sums``
    slope, curve : (B, d) zeros
    faces : (A * R * parts, d, 2, 2) output: logs of the sum of weights and of the largest one, with
        variable i pinned to its lower and to its upper limit; -inf where that is infinite, and for
        all of a problem with tied rows
    rows, z, shifts, start, stride, points, out, begin, end : as for ``genz_sums``
    """
    parts = start.size
    replicates = shifts.shape[0]
    d = lower.shape[1]
    work, other = np.empty((WORK, BLOCK)), np.empty((WORK, BLOCK))
    sums, later = np.empty((PANEL, ROW)), np.empty((PANEL, ROW))
    y = np.zeros((T.shape[1], ROW))
    u = np.empty((d, BLOCK))
    before = np.empty((2, BLOCK))
    drawn = np.empty(BLOCK)
    sides = np.empty((d, 2, 3))  # total, largest, top of ``add_weights``
    for item in range(begin, end):
        part = item % parts
        shift = shifts[(item // parts) % replicates]
        b = rows[item // (parts * replicates)]
        r = rank[b]
        limits = (lower[b], upper[b])
        sides[:, :, :2] = 0.0
        sides[:, :, 2] = -np.inf
        total = largest = 0.0  # times 2**top
        top = -np.inf
        for s in range(0, points, BLOCK):
            size = min(BLOCK, points - s)
            first = start[part] + s * stride
            for i in range(r):
                lattice(u[i], z[i], shift[i], first, stride)
            start_block(work)
            tied = r
            for i in range(r):
                _copy(work[0], before[0])
                _copy(work[1], before[1])
                _copy(u[i], work[2])
                tied = draw_variable(
                    T[b], lower[b], upper[b], r, attached[b], slope[b], curve[b], i, tied, work,
                    sums, y,
                )  # fmt: skip
                if r < d:
                    continue
                _copy(y[i], drawn)
                for side in range(2):
                    limit = limits[side][i]
                    if np.isinf(limit):
                        continue
                    _weigh_pinned(
                        T[b], lower[b], upper[b], r, attached[b], slope[b], i, limit, before, u,
                        other, sums, later, y,
                    )  # fmt: skip
                    sides[i, side, 0], sides[i, side, 1], sides[i, side, 2] = add_weights(
                        other[0], other[1], size, sides[i, side, 0], sides[i, side, 1],
                        sides[i, side, 2],
                    )  # fmt: skip
                _copy(drawn, y[i])
            finish_block(work)
            total, largest, top = add_weights(work[0], work[1], size, total, largest, top)
        store_logs(out[item], total, largest, top)
        for i in range(d):
            for side in range(2):
                found = sides[i, side]
                store_logs(faces[item, i, side], found[0], found[1], found[2])
