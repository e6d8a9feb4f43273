"""Genz's separation of variables (Genz 1992, J. Comput. Graph. Stat. 1) on blocks of samples.

For standard normal y the row limits  lower_i <= y_i + sum_j<i T_ij y_j <= upper_i  are met one
variable after the other:

    e_i = Phi(b_i) - Phi(a_i),   y_i = Phi^-1(Phi(a_i) + u_i e_i),   weight = prod e_i

A tilted weight has another factor exp(sum_i slope_i a_i + curve_i a_i**2), where
a_i = -sum_j<i T_ij y_j, see ``mvnorth._cpu.curved_tilting``.

Samples are innermost and contiguous, so that Phi and its inverse run as vector code; rows are
taken in panels, so that a loaded y serves many of them.  A weight is a mantissa and a
power of two, so it does not underflow.  Rows that a singular covariance ties to earlier
variables narrow the limits of the last variable they contain (Genz & Kwong 2000).
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._linalg.product import ROWS, subtract_product
from mvnorth._linalg.reorder import row_or_none
from mvnorth._scalar.exp_log import log_scaled, power_of_two
from mvnorth._scalar.genz import (
    interval_between,
    lattice_point,
    renormalised,
    tilted,
    width_parts,
)
from mvnorth._scalar.normal import ndtr_parts, quantile_central, quantile_tail, quantile_w
from mvnorth._tables.normal import QUANTILE_W_MAX

BLOCK = 128  # samples at a time
ROW = BLOCK + 8  # of y: rows a power of two apart would share few places of the caches
TILE = ROWS  # rows and columns between products
WORK = 9  # arrays of BLOCK that ``draw_variable`` works in
PANEL = 16  # rows whose sums stay in the first-level cache; T is padded to a multiple of it


@inner(FAST)
def lattice(u, z, shift, first, stride):
    """One coordinate of a shifted rank-1 lattice under the tent transform, inside (0, 1)."""
    for s in range(BLOCK):
        u[s] = lattice_point(first + stride * s, z, shift)


@inner(FAST)
def fill(a, value):
    for s in range(BLOCK):
        a[s] = value


@inner(FAST)
def _subtract_tiles(acc, T, panel, first_row, last_row, y, first, last):
    """acc -= T[first_row:last_row, first:last] @ y[first:last]; acc belongs to row ``panel`` on."""
    rows, count = last_row - first_row, last - first
    subtract_product(
        acc, first_row - panel, 0, T, first_row, first, y, first, 0, rows, BLOCK, count
    )


@inner(FAST)
def _subtract_row(acc, T_row, y, first, last):
    """acc -= T_row[first:last] @ y[first:last]."""
    for j in range(first, last):
        t = T_row[j]
        yj = y[j]
        for s in range(BLOCK):
            acc[s] -= t * yj[s]


@inner(FAST)
def _quantiles(q, w, far, y):
    """y = Phi^-1(q + 1/2); ``far`` says that some w lie beyond the rational function."""
    for s in range(BLOCK):
        y[s] = quantile_central(q[s], w[s])
    if far:
        for s in range(BLOCK):
            tail = quantile_tail(q[s], w[s])
            y[s] = tail if w[s] > QUANTILE_W_MAX else y[s]


@inner(FAST)
def one_sided(acc, upper, u, weight, power, q, w, y):
    """Factor Phi(b) into the weights and draw y below b = upper + acc."""
    far = 0
    for s in range(BLOCK):
        f, k = ndtr_parts(upper + acc[s])  # ``draw_below`` as a whole is a tenth slower here
        weight[s] *= f
        power[s] += k
        q[s], w[s] = quantile_w(f * u[s], k)
        far += w[s] > QUANTILE_W_MAX
    _quantiles(q, w, far > 0, y)


@inner(FAST)
def two_sided(low, high, u, weight, power, q, w, y, increasing=None):
    """Factor Phi(high) - Phi(low) into the weights and draw y between; ``low`` is overwritten.

    u counts from the side of the smaller tail, unless y is to be ``increasing`` in u for all
    samples: without jumps where the smaller tail changes.
    """
    far = 0
    for s in range(BLOCK):
        base, width, k, sign = interval_between(low[s], high[s])
        low[s] = sign
        m, k_width = width_parts(width)
        weight[s] *= m
        power[s] += k + k_width
        if increasing is None:
            q[s], w[s] = quantile_w(base + u[s] * width, k)
        else:
            below = u[s] if sign > 0.0 else 1.0 - u[s]
            q[s], w[s] = quantile_w(base + below * width, k)
        far += w[s] > QUANTILE_W_MAX
    _quantiles(q, w, far > 0, y)
    for s in range(BLOCK):
        y[s] *= low[s]


@inner(FAST)
def _narrow(low, high, acc, lower, upper):
    """Intersect [low, high] with lower + acc <= y <= upper + acc."""
    for s in range(BLOCK):
        a = lower + acc[s]
        b = upper + acc[s]
        low[s] = a if a > low[s] else low[s]
        high[s] = b if b < high[s] else high[s]


@inner(FAST)
def add_parabola(exponent, slope, curve, acc):
    for s in range(BLOCK):
        exponent[s] += acc[s] * (slope + curve * acc[s])


@inner(FAST)
def tilt(weight, power, exponent):
    """Multiply the weights by exp(exponent)."""
    for s in range(BLOCK):
        weight[s], power[s] = tilted(weight[s], power[s], exponent[s])


@inner(FAST)
def renormalise(weight, power):
    for s in range(BLOCK):
        weight[s], power[s] = renormalised(weight[s], power[s])


@inner(FAST)
def add_weights(weight, power, size, total, largest, top):
    """``(total, largest, top)`` with the first ``size`` weights added.

    The sum of weights so far is total * 2**top, the largest of them largest * 2**top; top is
    -inf before there is any.
    """
    peak = top
    for s in range(size):
        if weight[s] > 0.0 and power[s] > peak:
            peak = power[s]
    if peak == -np.inf:
        return total, largest, top
    shrink = power_of_two(top - peak)
    total *= shrink
    largest *= shrink
    for s in range(size):
        w = weight[s] * power_of_two(power[s] - peak)
        total += w
        largest = w if w > largest else largest
    return total, largest, peak


@inner(FAST)
def store_logs(out, total, largest, top):
    """Logs of the results of ``add_weights``."""
    out[0] = log_scaled(total, top) if total > 0.0 else -np.inf
    out[1] = log_scaled(largest, top) if total > 0.0 else -np.inf


@inner(FAST)
def start_block(work):
    """Unit weights, in the work of one block of samples."""
    fill(work[0], 1.0)
    fill(work[1], 0.0)
    fill(work[8], 0.0)


@inner(FAST)
def draw_variable(
    T, lower, upper, rank, attached, slope, curve, i, tied, work, sums, y, increasing=None
):
    """Draw y[i] of one block of samples from the uniform numbers in work[2].

    ``tied`` is the next row without a variable of its own, to start with ``rank``; returns it as
    the next variable is to be given it.  ``increasing`` is that of ``two_sided``.
    """
    weight, power, u, q, w = work[0], work[1], work[2], work[3], work[4]
    low, high, extra, exponent = work[5], work[6], work[7], work[8]
    panel = i - i % PANEL
    last_row = panel + PANEL if panel + PANEL < rank else rank
    if i == panel:
        for k in range(PANEL):
            fill(sums[k], 0.0)
        _subtract_tiles(sums, T, panel, i, last_row, y, np.int64(0), i)
    elif i % TILE == 0:
        _subtract_tiles(sums, T, panel, i, last_row, y, i - TILE, i)
    acc = sums[i - panel]
    _subtract_row(acc, T[i], y, i - i % TILE, i)
    add_parabola(exponent, slope[i], curve[i], acc)
    if lower is None or (lower[i] == -np.inf and (tied == lower.size or attached[tied] > i)):
        one_sided(acc, upper[i], u, weight, power, q, w, y[i])
    else:
        fill(low, -np.inf)
        fill(high, np.inf)
        _narrow(low, high, acc, lower[i], upper[i])
        while tied < lower.size and attached[tied] == i:
            fill(extra, 0.0)
            _subtract_row(extra, T[tied], y, np.int64(0), i)
            _narrow(low, high, extra, lower[tied], upper[tied])
            tied += 1
        two_sided(low, high, u, weight, power, q, w, y[i], increasing)
    if i % TILE == TILE - 1:
        renormalise(weight, power)
    return tied


@inner(FAST)
def finish_block(work):
    """Leave the weights in work[0] (mantissa) and work[1] (power of two)."""
    tilt(work[0], work[1], work[8])
    renormalise(work[0], work[1])


@kernel(FAST)
def genz_sums(
    T, lower, upper, rank, attached, slope, curve, rows, z, shifts, start, stride, points, out,
    begin, end,
):  # fmt: skip
    """Sums of weights over parts of shifted lattices, as logarithms.

    Item ``t`` in [begin, end) is part ``t % parts`` of shift ``(t // parts) % R`` of problem
    ``rows[t // (parts * R)]``, where ``parts = start.size``.

    Parameters
    ----------
    T : (B, D, D) unit lower triangular, D a multiple of PANEL
    lower, upper : (B, d) limits of the rows of T; lower is -inf for a one-sided row, or None if
        all are one-sided and none is tied
    rank : (B,) number of variables; rows beyond it are tied to variable ``attached``
    attached : (B, d) non-decreasing from ``rank`` on
    slope, curve : (B, d) tilt of the weights, zero for none
    rows : (A,) problems still at work
    z : (d,) lattice vector over the number of points
    shifts : (R, d)
    start : (parts,) numerator of the first point of each part
    stride, points : step between numerators, and points a part
    out : (A * R * parts, 2) logs of the sum of weights and of the largest weight
    """
    parts = start.size
    replicates = shifts.shape[0]
    work = np.empty((WORK, BLOCK))
    sums = np.empty((PANEL, ROW))
    y = np.empty((T.shape[1], ROW))
    for i in range(T.shape[1]):
        for s in range(ROW):
            y[i, s] = 0.0
    for item in range(begin, end):
        part = item % parts
        shift = shifts[(item // parts) % replicates]
        b = rows[item // (parts * replicates)]
        low, factor, high, r, own = row_or_none(lower, b), T[b], upper[b], rank[b], attached[b]
        total = largest = 0.0  # times 2**top
        top = -np.inf
        for s in range(0, points, BLOCK):
            first = start[part] + s * stride
            tied = r
            start_block(work)
            for i in range(r):
                lattice(work[2], z[i], shift[i], first, stride)
                tied = draw_variable(
                    factor, low, high, r, own, slope[b], curve[b], i, tied, work, sums, y
                )
            finish_block(work)
            size = BLOCK if points - s > BLOCK else points - s
            total, largest, top = add_weights(work[0], work[1], size, total, largest, top)
        store_logs(out[item], total, largest, top)
