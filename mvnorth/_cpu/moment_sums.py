"""Weighted sums of the coordinates at the points of Genz's recursion, and of their products.

Every point of the recursion (``mvnorth._cpu.genz``) is a draw of all variables between their
limits, with a weight.  The coordinates are x_i = y_i + sum_j<i T_ij y_j, between lower_i and
upper_i, so that the sums of weight * (x - centre) and weight * (x - centre) (x - centre)^T give
the mean and the covariance of the truncated distribution.  With a centre close to the mean nothing
cancels, however far out in a tail the limits are and however close to each other.
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import (
    BLOCK,
    PANEL,
    ROW,
    WORK,
    add_weights,
    draw_variable,
    fill,
    finish_block,
    lattice,
    start_block,
    store_logs,
)
from mvnorth._cpu.pathwise import add_products
from mvnorth._cpu.reverse_variable import (
    add_derivatives,
    divide_all,
    fill_all,
    rescale,
    row_sum,
    shares,
)
from mvnorth._linalg.reorder import row_or_none


@inner(FAST)
def _tied_coordinates(T, attached, rank, d, y, x):
    """Set the coordinates (x, d rows) that others determine."""
    for i in range(rank, d):
        last = attached[i]
        row_sum(x[i], T[i], y, last)
        for s in range(BLOCK):
            x[i, s] = y[last, s] - x[i, s]


@kernel(FAST)
def median_path(T, lower, upper, rank, attached, slope, curve, centre, variables, begin, end):
    """Coordinates of the point whose variables are all at the median of what they are drawn from.

    Parameters
    ----------
    T, lower, upper, rank, attached, slope, curve : as for ``genz_sums``
    centre, variables : (B, d) output: the coordinates, and the variables y; 0 without a variable
    """
    work, sums = np.empty((WORK, BLOCK)), np.empty((PANEL, ROW))
    y, x = np.zeros((T.shape[1], ROW)), np.zeros((T.shape[1], ROW))
    for b in range(begin, end):
        start_block(work)
        tied = rank[b]
        for i in range(rank[b]):
            fill(work[2], 0.5)
            tied = draw_variable(
                T[b], row_or_none(lower, b), upper[b], rank[b], attached[b], slope[b], curve[b], i,
                tied, work, sums, y, True,
            )  # fmt: skip
            x[i, 0] = y[i, 0] - sums[i % PANEL, 0]
        _tied_coordinates(T[b], attached[b], rank[b], upper.shape[1], y, x)
        for i in range(upper.shape[1]):
            centre[b, i] = x[i, 0]
            variables[b, i] = y[i, 0] if i < rank[b] else 0.0


@kernel(FAST)
def moment_sums(
    T, lower, upper, rank, attached, slope, curve, centre, stats, products, rows, z, shifts, start,
    stride, points, out, begin, end,
):  # fmt: skip
    """Sums of weights, as in ``genz_sums``, and of coordinates less ``centre``.

    Variables increase with u.  If they were drawn from the side of the smaller tail as
    there, coordinates would jump with the variables before them, and a lattice sum of coordinates
    would converge no faster than one of random points.

    Parameters
    ----------
    T, lower, upper, rank, attached, slope, curve : as for ``genz_sums``
    centre : (B, d)
    stats : (A * R * parts, 3, 1, d) output: the sum of weight * (x - centre), the sum of absolute
        values and the largest of them, over the sum of weights
    products : (A * R * parts, S, S) output, S a multiple of STRIP: minus the products of two
        coordinates less their centres, weighted alike; only the lower triangle
    rows, z, shifts, start, stride, points, out, begin, end : as for ``genz_sums``
    """
    parts = start.size
    replicates = shifts.shape[0]
    D, d = T.shape[1], upper.shape[1]
    work, share = np.empty((WORK, BLOCK)), np.empty(BLOCK)
    sums = np.empty((PANEL, ROW))
    y, x, weighted = np.zeros((D, ROW)), np.zeros((D, ROW)), np.zeros((D, ROW))
    across = np.zeros((BLOCK, products.shape[1] + 8))
    for item in range(begin, end):
        shift = shifts[(item // parts) % replicates]
        b = rows[item // (parts * replicates)]
        low = row_or_none(lower, b)
        fill_all(stats[item].reshape(-1), 0.0)
        fill_all(products[item].reshape(-1), 0.0)
        total = largest = 0.0  # times 2**top, and so are stats and products
        top = -np.inf
        for s in range(0, points, BLOCK):
            first = start[item % parts] + s * stride
            start_block(work)
            tied = rank[b]
            for i in range(rank[b]):
                lattice(work[2], z[i], shift[i], first, stride)
                tied = draw_variable(
                    T[b], low, upper[b], rank[b], attached[b], slope[b], curve[b], i, tied, work,
                    sums, y, True,
                )  # fmt: skip
                acc = sums[i % PANEL]
                for k in range(BLOCK):
                    x[i, k] = y[i, k] - acc[k]
            _tied_coordinates(T[b], attached[b], rank[b], d, y, x)
            finish_block(work)
            size = BLOCK if points - s > BLOCK else points - s
            before = top
            total, largest, top = add_weights(work[0], work[1], size, total, largest, top)
            if top == -np.inf:
                continue
            rescale(stats[item].reshape(-1), before - top)
            rescale(products[item].reshape(-1), before - top)
            shares(work[0], work[1], size, top, share)
            for i in range(d):
                for k in range(BLOCK):
                    x[i, k] = x[i, k] - centre[b, i] if share[k] > 0.0 else 0.0
                    weighted[i, k] = share[k] * x[i, k]
                add_derivatives(share, x[i], stats[item], 0, i)
            add_products(x, d, weighted, across, products[item])
        if total > 0.0:
            divide_all(stats[item].reshape(-1), total)
            divide_all(products[item].reshape(-1), total)
        store_logs(out[item], total, largest, top)
