"""Reverse sweep through the structured Genz recursion: the gradient of every sample's log weight.

For one sample let x^ be the derivative of log prod Phi(b_i) in x.  From the last variable to the
first, with h = phi/Phi and u_i phi(b_i)/phi(y_i) = h(b_i)/h(y_i),

    b^_i = h(b_i) (1 + w_i S^_i / h(y_i)),      S^_(i-1) = S^_i - t_i b^_i,      t_i = v_i / L_ii

m_i enters through b_i alone; c and v also through L_ii and w_i, that is through the running sums
s_i of the Cholesky recursion (see ``mvnorth.covariance``).  With A_i = L_ii L^_ii = -b^_i b_i and
W_i = w_i w^_i = w_i y_i S^_i,

    s^_i   = s^_(i+1) + ((A_i - W_i) - (A_(i+1) + W_(i+1))) / (2 s_i)
    m^_i   = b^_i / L_ii
    c^_i   = ((A_i - W_i) / 2 - s^_i v_i**2 / c_i) / c_i
    v^_i   = -b^_i S_(i-1) / L_ii + y_i S^_i / sqrt(c_i s_i s_(i-1)) + 2 s^_i v_i / c_i

Going through the recursion sample by sample costs a few multiplications where Phi costs dozens,
and shows how evenly the samples carry a derivative.
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import BLOCK, add_weights, fill, store_logs
from mvnorth._cpu.reverse_variable import add_derivatives, rescale, shares
from mvnorth._cpu.structured import WORK, weigh_block
from mvnorth._scalar.normal import mills
from mvnorth._scalar.structured import (
    half_A,
    half_W,
    limit_bar,
    log_c_bar,
    running_sum_bar,
    v_bar,
)


@inner(FAST)
def _through_limits(upper, t, w, S, y, S_bar, b_bar, A, W):
    """b_bar, A / 2 and W / 2 of one variable; one output a loop, or it is no vector code."""
    for s in range(BLOCK):
        b_bar[s] = limit_bar(mills(upper - t * S[s]), mills(y[s]), w, S_bar[s])
    for s in range(BLOCK):
        A[s] = half_A(upper, t, S[s], b_bar[s])
    for s in range(BLOCK):
        W[s] = half_W(w, y[s], S_bar[s])


@inner(FAST)
def _through_sums(recursion, i, S, y, S_bar, s_bar, later, b_bar, A, W):
    """Put the derivatives in log c_i and v_i in the place of A / 2 and W / 2."""
    inverse_s, v2_over_c, inverse_diag = recursion[0, i], recursion[1, i], recursion[2, i]
    w_of_v, s_of_v = recursion[3, i], recursion[4, i]
    for s in range(BLOCK):
        s_bar[s] = running_sum_bar(s_bar[s], A[s], W[s], later[s], inverse_s)
        later[s] = A[s] + W[s]
    for s in range(BLOCK):
        A[s] = log_c_bar(A[s], W[s], s_bar[s], v2_over_c)
    for s in range(BLOCK):
        W[s] = v_bar(S[s], y[s], S_bar[s], s_bar[s], b_bar[s], inverse_diag, w_of_v, s_of_v)


@inner(FAST)
def _sweep(upper, t, w, rank, recursion, S, y, share, work, stats):
    """Add the derivatives of one block to ``stats``; see ``structured_pathwise_sums``."""
    S_bar, s_bar, later = work[0], work[1], work[2]
    g_m, g_c, g_v = work[3], work[4], work[5]
    fill(S_bar, 0.0)
    fill(s_bar, 0.0)
    fill(later, 0.0)  # (A + W) / 2 of the next variable
    for i in range(rank - 1, -1, -1):
        _through_limits(upper[i], t[i], w[i], S[i], y[i], S_bar, g_m, g_c, g_v)
        _through_sums(recursion, i, S[i], y[i], S_bar, s_bar, later, g_m, g_c, g_v)
        for s in range(BLOCK):
            S_bar[s] -= t[i] * g_m[s]
        add_derivatives(share, g_m, stats, 0, i)
        add_derivatives(share, g_c, stats, 1, i)
        add_derivatives(share, g_v, stats, 2, i)


@kernel(FAST)
def structured_pathwise_sums(
    lower, upper, t, w, rank, slope, recursion, stats, rows, z, shifts, start, stride, points, out,
    begin, end,
):  # fmt: skip
    """Sums of weights, as in ``structured_sums`` and equal to its, and of their gradients.

    Parameters
    ----------
    lower, upper, t, w, rank, slope : as for ``structured_sums``, lower all -inf, upper > -inf,
        slope 0
    recursion : (B, 5, d) 1/s_i, v_i**2/c_i, 1/L_ii, 1/sqrt(c_i s_i s_(i-1)), 2 v_i/c_i
    stats : (A * R * parts, 3, 3, d) output: for m_i L_ii, log c_i and v_i the sum of
        weight * derivative of log weight, the sum of its absolute values and the largest of them,
        over the sum of weights, kinds first
    rows, z, shifts, start, stride, points, out, begin, end : as for ``genz_sums``
    """
    parts = start.size
    replicates = shifts.shape[0]
    d = t.shape[1]
    work = np.empty((WORK, BLOCK))
    share = np.empty(BLOCK)
    S = np.empty((d + 1, BLOCK))
    y = np.empty((max(d, 1), BLOCK))
    for item in range(begin, end):
        shift = shifts[(item // parts) % replicates]
        b = rows[item // (parts * replicates)]
        flat = stats[item].reshape(-1)
        flat[:] = 0.0
        total = largest = 0.0  # times 2**top, and so is stats
        top = -np.inf
        for s in range(0, points, BLOCK):
            first = start[item % parts] + s * stride
            weigh_block(
                lower[b], upper[b], t[b], w[b], rank[b], slope[b], z, shift, first, stride,
                work, S, y,
            )  # fmt: skip
            size = min(BLOCK, points - s)
            before = top
            total, largest, top = add_weights(work[0], work[1], size, total, largest, top)
            if top == -np.inf:
                continue
            rescale(flat, before - top)
            shares(work[0], work[1], size, top, share)
            _sweep(upper[b], t[b], w[b], rank[b], recursion[b], S, y, share, work, stats[item])
        if total > 0.0:
            flat /= total
        store_logs(out[item], total, largest, top)
