"""Expected largest excess of correlated normals over zero, by a mixture of size-biased draws.

For d ~ N(-delta, S) with delta >= 0 let L_j = E[d_j^+].  Draw j with probability L_j / sum(L), then
d_j from the density proportional to d_j^+ times its own, and the others given d_j.  The density of
such draws is that of d times sum_k d_k^+ / sum(L), so that

    E[max_k d_k^+] = sum(L) E[max_k d_k^+ / sum_k d_k^+],

a mean of numbers between 1/n and 1, however small the result is.  For rare events, with indicators
in place of d_k^+, this is the estimator of Owen, Maximov and Chertkov (2019), "Importance sampling
the union of rare events with an application to power systems analysis".  Here all j take part in
every point of a lattice, with weights L_j / sum(L).

The first coordinate of a point, u, gives d_j = s_j e for all j, through tables of e as a function
of sqrt(-2 log u); the others are normal variables, the columns of a factor of S by their size.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import BLOCK, add_weights, lattice, store_logs
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.normal import quantile_central, quantile_w

FARTHEST = 9.0  # of sqrt(-2 log u): what is cut off is 3e-18 of the draws
CELLS = 256  # of a table


@inner(FAST)
def _read_tables(u, tables, j, out):
    """e of component j at u: cubic polynomials through values and derivatives."""
    step = FARTHEST / CELLS
    for s in range(BLOCK):
        place = math.sqrt(-2.0 * log_scaled(u[s], 0.0)) / step
        place = min(place, CELLS - 1e-9)
        cell = int(place)
        t = place - cell
        a, b = tables[j, cell, 0], tables[j, cell + 1, 0]
        slope_a, slope_b = step * tables[j, cell, 1], step * tables[j, cell + 1, 1]
        c = 3.0 * (b - a) - 2.0 * slope_a - slope_b
        d = 2.0 * (a - b) + slope_a + slope_b
        out[s] = a + t * (slope_a + t * (c + t * d))


@inner(FAST)
def _add_component(j, excess, delta, share, lift, values, work, weight):
    """Add the weights of component j; ``excess`` is d_j."""
    n = delta.size
    top, total, change = work[0], work[1], work[2]
    for s in range(BLOCK):
        top[s] = total[s] = excess[s]
        change[s] = excess[s] + delta[j] - values[j, s]
    for k in range(n):
        if k != j:
            for s in range(BLOCK):
                other = values[k, s] - delta[k] + lift[j, k] * change[s]
                other = other if other > 0.0 else 0.0
                total[s] += other
                top[s] = other if other > top[s] else top[s]
    for s in range(BLOCK):
        weight[s] += share[j] * top[s] / total[s] if total[s] > 0.0 else share[j]


@kernel(FAST)
def largest_excess(
    factor, delta, deviation, share, lift, tables, rows, z, shifts, start, stride, points, out,
    begin, end,
):  # fmt: skip
    """Logs of sums of weights over parts of shifted lattices, see ``genz.genz_sums``.

    Parameters
    ----------
    factor : (n, r) factor of the covariance S
    delta, deviation : (n,) minus the means, >= 0, and deviations > 0
    share : (n,) L_j / sum(L)
    lift : (n, n) regression coefficients S_jk / S_jj
    tables : (n, CELLS + 1, 2) of e = d_j / s_j, and of its derivative, by sqrt(-2 log u)
    rows, z, shifts, start, stride, points, out : as for ``genz_sums``, with points of r + 1
        coordinates, of one problem
    """
    n, r = factor.shape
    parts, replicates = start.size, shifts.shape[0]
    first_u, u, excess, weight, power = np.empty((5, BLOCK))
    work, values = np.empty((3, BLOCK)), np.empty((n, BLOCK))
    power[:] = 0.0
    for item in range(begin, end):
        part = item % parts
        shift = shifts[(item // parts) % replicates]
        total, largest, top = 0.0, 0.0, -np.inf
        for s in range(0, points, BLOCK):
            first = start[part] + s * stride
            lattice(first_u, z[0], shift[0], first, stride)
            values[:] = 0.0
            weight[:] = 0.0
            for i in range(r):
                lattice(u, z[i + 1], shift[i + 1], first, stride)
                for p in range(BLOCK):
                    q, w = quantile_w(u[p], 0.0)
                    excess[p] = quantile_central(q, w)
                for k in range(n):
                    for p in range(BLOCK):
                        values[k, p] += factor[k, i] * excess[p]
            for j in range(n):
                _read_tables(first_u, tables, j, excess)
                for p in range(BLOCK):
                    excess[p] *= deviation[j]
                _add_component(j, excess, delta, share, lift, values, work, weight)
            size = BLOCK if points - s > BLOCK else points - s
            total, largest, top = add_weights(weight, power, size, total, largest, top)
        store_logs(out[item], total, largest, top)
