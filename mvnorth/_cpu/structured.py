"""Genz's method for Sigma = diag(c) + v v^T in O(d) a sample, on blocks of samples.

Below its diagonal every column of the Cholesky factor is v times a number w_j (see
``mvnorth.covariance``), so that the sum over earlier variables is a running scalar:

    b_i = (upper_i - v_i S_(i-1)) / L_ii,   S_i = S_(i-1) + w_i y_i

and likewise for lower limits.  This is the optimisation that appendix B of the EXACT paper asks
for, for any c and v.  Nothing of size d is kept for a sample unless a reverse sweep wants it.
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import (
    BLOCK,
    TILE,
    add_parabola,
    add_weights,
    fill,
    lattice,
    one_sided,
    renormalise,
    store_logs,
    tilt,
    two_sided,
)
from mvnorth._linalg.reorder import log_interval

WORK = 8  # arrays of BLOCK that ``weigh_block`` works in


@kernel()
def sort_keys(lower, upper, keys, begin, end):
    """Keys that order coordinates by their marginal probability, the smallest first.

    Parameters
    ----------
    lower, upper : (B, d) limits of standard normal variables; a single one is an upper one
    keys : (B, d) output, inf for a coordinate without limits
    """
    d = lower.shape[1]
    for b in range(begin, end):
        one_sided_only = True
        for i in range(d):
            one_sided_only = one_sided_only and lower[b, i] == -np.inf
        for i in range(d):
            keys[b, i] = upper[b, i]  # orders one-sided limits as Phi of it does
            if not one_sided_only and keys[b, i] < np.inf:
                keys[b, i] = log_interval(lower[b, i], upper[b, i])


@inner(FAST)
def _shifted(limit, t, S, out):
    for s in range(BLOCK):
        out[s] = limit - t * S[s]


@inner(FAST)
def _advance(S, w, y, out):
    for s in range(BLOCK):
        out[s] = S[s] + w * y[s]


@inner(FAST)
def weigh_block(lower, upper, t, w, rank, slope, z, shift, first, stride, work, S, y):
    """Weights of one block of samples, left in work[0] (mantissa) and work[1] (power of two).

    ``S`` and ``y`` have as many rows as are to be kept: with rank + 1 and rank, S[i] is the sum
    before variable i and y[i] the variable; with one row each nothing is kept.
    """
    weight, power, u, q, x = work[0], work[1], work[2], work[3], work[4]
    low, high, exponent = work[5], work[6], work[7]
    fill(weight, 1.0)
    fill(power, 0.0)
    fill(exponent, 0.0)
    fill(S[0], 0.0)
    for i in range(rank):
        before, after = S[i % S.shape[0]], S[(i + 1) % S.shape[0]]
        variable = y[i % y.shape[0]]
        add_parabola(exponent, -slope[i] * t[i], 0.0, before)
        lattice(u, z[i], shift[i], first, stride)
        if lower[i] == -np.inf:
            _shifted(0.0, t[i], before, high)
            one_sided(high, upper[i], u, weight, power, q, x, variable)
        else:
            _shifted(lower[i], t[i], before, low)
            _shifted(upper[i], t[i], before, high)
            two_sided(low, high, u, weight, power, q, x, variable)
        _advance(before, w[i], variable, after)
        if i % TILE == TILE - 1:
            renormalise(weight, power)
    tilt(weight, power, exponent)
    renormalise(weight, power)


@kernel(FAST)
def structured_sums(
    lower, upper, t, w, rank, slope, rows, z, shifts, start, stride, points, out, begin, end
):
    """Sums of weights over parts of shifted lattices, as logarithms.

    Parameters
    ----------
    lower, upper : (B, d) limits over L_ii; lower is -inf for a one-sided row
    t : (B, d) v_i / L_ii
    w : (B, d) L_ij = v_i w_j for i > j
    rank : (B,) number of coordinates with limits, which come first
    slope, rows, z, shifts, start, stride, points, out, begin, end : as for ``genz_sums``
    """
    parts = start.size
    replicates = shifts.shape[0]
    work = np.empty((WORK, BLOCK))
    S = np.empty((1, BLOCK))
    y = np.empty((1, BLOCK))
    for item in range(begin, end):
        shift = shifts[(item // parts) % replicates]
        b = rows[item // (parts * replicates)]
        total = largest = 0.0  # times 2**top
        top = -np.inf
        for s in range(0, points, BLOCK):
            first = start[item % parts] + s * stride
            weigh_block(
                lower[b], upper[b], t[b], w[b], rank[b], slope[b], z, shift, first, stride,
                work, S, y,
            )  # fmt: skip
            size = min(BLOCK, points - s)
            total, largest, top = add_weights(work[0], work[1], size, total, largest, top)
        store_logs(out[item], total, largest, top)
