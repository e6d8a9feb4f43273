"""Derivatives of a block of samples in the limits of one variable: ``mvnorth._cpu.pathwise``."""

import numpy as np

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._cpu.genz import BLOCK, fill
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.genz import claimed, pull_below, pull_high, pull_low

SWEEP = 7  # arrays of BLOCK that a variable works in


@inner(SUMS)
def add_derivatives(share, g, stats, kind, i):
    """Add share * g to stats[:, kind, i]: the sum, that of absolute values, the largest of them."""
    kind = np.int64(kind)
    total = size = largest = 0.0
    for s in range(BLOCK):
        value = share[s] * g[s]
        total += value
        size += abs(value)
    for s in range(BLOCK):
        value = abs(share[s] * g[s])
        largest = value if value > largest else largest
    stats[0, kind, i] += total
    stats[1, kind, i] += size
    if largest > stats[2, kind, i]:
        stats[2, kind, i] = largest


@inner(FAST)
def rescale(sums, power):
    """sums *= 2**power, when the common power of two of weights has changed."""
    factor = power_of_two(power)
    if factor != 1.0:
        for i in range(sums.size):
            sums[i] *= factor


@inner(FAST)
def fill_all(a, value):
    for i in range(a.size):
        a[i] = value


@inner(FAST)
def divide_all(a, divisor):
    for i in range(a.size):
        a[i] /= divisor


@inner(FAST)
def shares(weight, power, size, top, share):
    """Weights over 2**top; 0 beyond the first ``size``."""
    for s in range(BLOCK):
        value = weight[s] * power_of_two(power[s] - top)
        share[s] = value if s < size else 0.0


@inner(FAST)
def one_sided(acc, upper, u, y, y_bar, high_bar):
    """high_bar of a variable without a lower limit."""
    for s in range(BLOCK):
        high_bar[s] = pull_below(upper + acc[s], u[s], y[s], y_bar[s])


@inner(FAST)
def two_sided(low, high, u, y, y_bar, low_bar, high_bar):
    """low_bar and high_bar of a variable between limits; 0 where there is nothing between.

    One output a loop, or it is no vector code.
    """
    for s in range(BLOCK):
        high_bar[s] = pull_high(low[s], high[s], u[s], y[s], y_bar[s])
    for s in range(BLOCK):
        low_bar[s] = pull_low(low[s], high[s], u[s], y[s], y_bar[s])


@inner(FAST)
def row_sum(acc, T_row, y, last):
    """acc = -T_row[:last] @ y[:last], in the order of ``draw_variable``."""
    fill(acc, 0.0)
    for j in range(last):
        t = T_row[j]
        yj = y[j]
        for s in range(BLOCK):
            acc[s] -= t * yj[s]


@inner(FAST)
def _narrow(low, high, acc, lower, upper):
    for s in range(BLOCK):
        a, b = lower + acc[s], upper + acc[s]
        low[s] = a if a > low[s] else low[s]
        high[s] = b if b < high[s] else high[s]


@inner(FAST)
def _claim(limit, own, limit_bar, own_bar):
    """own_bar = limit_bar where the row's own limit is the one that binds, of which it is taken."""
    for s in range(BLOCK):
        own_bar[s], limit_bar[s] = claimed(limit[s], own[s], limit_bar[s])


@inner(FAST)
def _claim_row(acc, lower, upper, low, high, low_bar, high_bar, own, row_low, row_high):
    """Derivatives in the limits of one of the rows that narrow a variable."""
    for s in range(BLOCK):
        own[s] = lower + acc[s]
    _claim(low, own, low_bar, row_low)
    for s in range(BLOCK):
        own[s] = upper + acc[s]
    _claim(high, own, high_bar, row_high)


@inner(FAST)
def add_limits(share, low_bar, high_bar, stats, i):
    """Statistics of a two-sided row; leaves the derivative in both limits in ``low_bar``."""
    add_derivatives(share, low_bar, stats, 0, i)
    add_derivatives(share, high_bar, stats, 1, i)
    for s in range(BLOCK):
        low_bar[s] += high_bar[s]
    add_derivatives(share, low_bar, stats, 2, i)


@inner(FAST)
def tied_variable(T, lower, upper, attached, i, tied, share, sweep, acc, y, y_bar, stats):
    """Variable i, which tied rows from ``tied`` on narrow; leaves its own row's in sweep[1].

    ``acc`` is the sum of row i; the y_bar of earlier variables receive what tied rows give them.
    """
    u, low_bar, high_bar, low, high = sweep[0], sweep[1], sweep[2], sweep[3], sweep[4]
    extra, own = sweep[5], sweep[6]
    row_low, row_high = np.empty(BLOCK), np.empty(BLOCK)
    fill(low, -np.inf)
    fill(high, np.inf)
    _narrow(low, high, acc, lower[i], upper[i])
    r = tied
    while r < lower.size and attached[r] == i:
        row_sum(extra, T[r], y, i)
        _narrow(low, high, extra, lower[r], upper[r])
        r += 1
    two_sided(low, high, u, y[i], y_bar[i], low_bar, high_bar)
    for k in range(r - 1, tied - 1, -1):
        row_sum(extra, T[k], y, i)
        _claim_row(
            extra, lower[k], upper[k], low, high, low_bar, high_bar, own, row_low, row_high
        )  # fmt: skip
        add_limits(share, row_low, row_high, stats, k)
        for j in range(i):
            for s in range(BLOCK):
                y_bar[j, s] -= T[k, j] * row_low[s]
    _claim_row(acc, lower[i], upper[i], low, high, low_bar, high_bar, own, row_low, row_high)
    add_limits(share, row_low, row_high, stats, i)
    for s in range(BLOCK):
        low_bar[s] = row_low[s]
