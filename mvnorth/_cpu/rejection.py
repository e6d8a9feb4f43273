"""Accept-reject from tilted proposals (Botev 2017, J. R. Stat. Soc. B 79, section 3).

A proposal has a weight of which ``tilting`` knows an upper bound; accepted with the probability
weight / bound, it is a draw from the normal between its limits.  What is accepted is brought back
to the coordinates of the user, measured from the limit that is nearer: no digits are lost where
all of the probability lies close to a limit.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, kernel, scalar
from mvnorth._cpu.genz import BLOCK, PANEL, ROW, WORK, draw_variable, finish_block, start_block
from mvnorth._scalar.exp_log import log_scaled


@scalar(FAST, forceinline=True)
def place(value, low, high, at_low, at_high, centre, step):
    """The coordinate of the user for low <= value <= high, between at_low and at_high.

    ``step`` is what one unit of ``value`` is worth, ``centre`` where 0 is.
    """
    below, above = high - value, value - low
    if below < np.inf and below <= above:
        found = at_high - step * below
    elif above < np.inf:
        found = at_low + step * above
    else:
        found = centre + step * value
    return min(max(found, min(at_low, at_high)), max(at_low, at_high))


@scalar(SUMS)
def _row_value(T_row, x, last):
    total = x[last]
    for j in range(last):
        total += T_row[j] * x[j]
    return total


@kernel(FAST)
def accept(
    T, lower, upper, rank, attached, slope, curve, log_share, order, places, u, count, draws
):
    """Draws of one problem from uniform numbers: ``(accepted, sum of shares, largest share)``.

    A share is a weight over its bound; their mean estimates the acceptance, and none may be above
    1 but for rounding.

    Parameters
    ----------
    T, lower, upper, rank, attached, slope, curve : one problem of ``genz_sums``
    log_share : what the logarithm of a weight is to be increased by to be that of a share
    order : (d,) which coordinate comes where
    places : (4, d) at_low, at_high, centre and step of ``place``, in the order of T
    u : (blocks, rank + 1, BLOCK) inside (0, 1)
    count : number of proposals, blocks * BLOCK at most
    draws : (blocks * BLOCK, d) output; as many rows as are accepted
    """
    work = np.empty((WORK, BLOCK))
    sums = np.empty((PANEL, ROW))
    y = np.zeros((T.shape[0], ROW))
    x = np.empty(rank)
    accepted = 0
    total = largest = 0.0
    for block in range(-(-count // BLOCK)):
        start_block(work)
        tied = rank
        for i in range(rank):
            work[2] = u[block, i]
            tied = draw_variable(
                T, lower, upper, rank, attached, slope, curve, i, tied, work, sums, y
            )
        finish_block(work)
        for s in range(min(BLOCK, count - block * BLOCK)):
            if not work[0, s] > 0.0:
                continue
            share = math.exp(min(log_scaled(work[0, s], work[1, s]) + log_share, 1.0))
            total += share
            largest = max(largest, share)
            if u[block, rank, s] > share:
                continue
            for i in range(rank):
                x[i] = y[i, s]
            for i in range(order.size):
                value = _row_value(T[i], x, attached[i])
                draws[accepted, order[i]] = place(
                    value, lower[i], upper[i],
                    places[0, i], places[1, i], places[2, i], places[3, i],
                )  # fmt: skip
            accepted += 1
    return accepted, total, largest
