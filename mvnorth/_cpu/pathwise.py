"""Reverse sweep through the Genz recursion: the gradient of every sample's log weight.

For one sample let x^ be the derivative in x of the log weight, which is the sum over i of log e_i
and slope_i a_i + curve_i a_i**2 (see ``mvnorth._cpu.genz``; a_i = -sum_j<i T_ij y_j).  From the
last variable to the first, with limits low_i = lower_i + a_i and high_i = upper_i + a_i,

    y^_i    = -sum_k>i T_ki a^_k
    high^_i =  phi(high_i)/e_i + y^_i u_i phi(high_i)/phi(y_i)
    low^_i  = -phi(low_i)/e_i  + y^_i (1 - u_i) phi(low_i)/phi(y_i)
    a^_i    = high^_i + low^_i + slope_i + 2 curve_i a_i

so that with the derivatives in the limits those in T are -(high^_i + low^_i) y_j, for a tilt that
is held.  The products with T run like those of the forward pass, in panels from the last row on;
the mean of (high^_i + low^_i) y_j over a block of samples is another product.
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import (
    BLOCK,
    PANEL,
    ROW,
    TILE,
    WORK,
    add_weights,
    draw_variable,
    fill,
    finish_block,
    lattice,
    start_block,
    store_logs,
)
from mvnorth._cpu.reverse_variable import (
    SWEEP,
    add_derivatives,
    add_limits,
    divide_all,
    fill_all,
    one_sided,
    rescale,
    shares,
    tied_variable,
    two_sided,
)
from mvnorth._linalg.product import STRIP, subtract_product
from mvnorth._linalg.reorder import row_or_none


@inner(FAST)
def _pull_back(Tt, a_bar, y_bar, i, rank):
    """What later variables give y_bar[i], as far as it is not there yet; see ``draw_variable``."""
    panel = i - i % PANEL
    tile = i - i % TILE
    last = (panel + PANEL if panel + PANEL < rank else rank) - 1
    end = tile + TILE if tile + TILE < rank else rank
    after = i + 1
    rows = count = np.int64(0)
    if i == last:
        rows, count = np.int64(PANEL), rank - after
    elif i == tile + TILE - 1:
        rows, count = after - panel, (after + TILE if after + TILE < rank else rank) - after
    subtract_product(y_bar, panel, 0, Tt, panel, after, a_bar, after, 0, rows, BLOCK, count)
    for k in range(i + 1, end):
        t = Tt[i, k]
        for s in range(BLOCK):
            y_bar[i, s] -= t * a_bar[k, s]


@inner(FAST)
def _sweep_block(
    T, Tt, lower, upper, rank, attached, slope, curve, z, shift, first, stride, share, sweep,
    acc, y, y_bar, stats,
):  # fmt: skip
    """Add one block's derivatives to ``stats``.

    acc becomes a_bar, and y_bar share * (low_bar + high_bar).
    """
    u, low_bar, high_bar = sweep[0], sweep[1], sweep[2]
    tied = upper.size
    for i in range(y_bar.shape[0]):
        fill(y_bar[i], 0.0)
    for i in range(rank - 1, -1, -1):
        lattice(u, z[i], shift[i], first, stride)
        _pull_back(Tt, acc, y_bar, i, rank)
        while tied > rank and attached[tied - 1] == i:
            tied -= 1
        if lower is None:
            one_sided(acc[i], upper[i], u, y[i], y_bar[i], low_bar)
            add_derivatives(share, low_bar, stats, 1, i)
        elif tied < lower.size and attached[tied] == i:
            tied_variable(T, lower, upper, attached, i, tied, share, sweep, acc[i], y, y_bar, stats)
        elif lower[i] == -np.inf:
            one_sided(acc[i], upper[i], u, y[i], y_bar[i], low_bar)
            add_derivatives(share, low_bar, stats, 1, i)
        else:
            low, high = sweep[3], sweep[4]
            for s in range(BLOCK):
                low[s] = lower[i] + acc[i, s]
                high[s] = upper[i] + acc[i, s]
            two_sided(low, high, u, y[i], y_bar[i], low_bar, high_bar)
            add_limits(share, low_bar, high_bar, stats, i)
        for s in range(BLOCK):
            y_bar[i, s] = share[s] * low_bar[s]
        for s in range(BLOCK):
            acc[i, s] = low_bar[s] + slope[i] + 2.0 * curve[i] * acc[i, s]


@inner(FAST)
def add_products(y, rank, weighted, across, products):
    """products -= weighted @ y^T below the diagonal; ``across`` (BLOCK, ..) is y turned over."""
    for s in range(BLOCK):
        for j in range(rank):
            across[s, j] = y[j, s]
    for i in range(0, rank, STRIP):
        rows = STRIP if weighted.shape[0] - i > STRIP else weighted.shape[0] - i
        subtract_product(products, i, 0, weighted, i, 0, across, 0, 0, rows, i + STRIP, BLOCK)


@kernel(FAST)
def pathwise_sums(
    T, lower, upper, rank, attached, slope, curve, Tt, stats, products, rows, z, shifts, start,
    stride, points, out, begin, end,
):  # fmt: skip
    """Sums of weights, as in ``genz_sums`` and equal to its, and of their gradients.

    Parameters
    ----------
    T, lower, upper, rank, attached, slope, curve : as for ``genz_sums``
    Tt : (B, D, D) the transposes of T
    stats : (A * R * parts, 3, 3, d) output: for lower, upper and both limits the sum of
        weight * derivative of log weight, the sum of its absolute values and the largest of them,
        over the sum of weights, kinds first
    products : (A * R * parts, S, S) output, S a multiple of STRIP: the derivatives in T of a tilt
        that is held, weighted alike; only what is below the diagonal.  Or (0, S, S), for none
    rows, z, shifts, start, stride, points, out, begin, end : as for ``genz_sums``
    """
    parts = start.size
    replicates = shifts.shape[0]
    D = T.shape[1]
    work, sweep = np.empty((WORK, BLOCK)), np.empty((SWEEP, BLOCK))
    share = np.empty(BLOCK)
    sums = np.empty((PANEL, ROW))
    y, acc, y_bar = np.zeros((D, ROW)), np.zeros((D, ROW)), np.zeros((D, ROW))
    across = np.zeros((BLOCK, products.shape[1] + 8))
    d = upper.shape[1]
    wanted = products.shape[0] > 0
    for item in range(begin, end):
        shift = shifts[(item // parts) % replicates]
        b = rows[item // (parts * replicates)]
        low = row_or_none(lower, b)
        fill_all(stats[item].reshape(-1), 0.0)
        if wanted:
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
                    sums, y,
                )  # fmt: skip
                for k in range(ROW):
                    acc[i, k] = sums[i % PANEL, k]
            finish_block(work)
            size = BLOCK if points - s > BLOCK else points - s
            before = top
            total, largest, top = add_weights(work[0], work[1], size, total, largest, top)
            if top == -np.inf:
                continue
            rescale(stats[item].reshape(-1), before - top)
            if wanted:
                rescale(products[item].reshape(-1), before - top)
            shares(work[0], work[1], size, top, share)
            _sweep_block(
                T[b], Tt[b], low, upper[b], rank[b], attached[b], slope[b], curve[b], z,
                shift, first, stride, share, sweep, acc, y, y_bar, stats[item],
            )  # fmt: skip
            if wanted:
                add_products(y, rank[b], y_bar, across, products[item])
        for i in range(d):
            if lower is not None and lower[b, i] != -np.inf:
                continue
            for k in range(3):
                stats[item, k, 2, i] = stats[item, k, 1, i]
        if total > 0.0:
            divide_all(stats[item].reshape(-1), total)
            if wanted:
                divide_all(products[item].reshape(-1), total)
        store_logs(out[item], total, largest, top)
