"""Who wins: derivatives of a weighted sum of all probabilities, O(QC) a row.

For L = sum_i u_i Pr(argmax = i) and s_i ~ N(mu_i, sigma_i**2), with F and h as in argmax.py,
x_i = (s - mu_i)/sigma_i and U(s) = sum_i u_i h(x_i)/sigma_i,

    sigma_j dL/dmu_j    = int F h_j (u_j (x_j + h_j)/sigma_j - U) ds,
    sigma_j dL/dsigma_j = int F h_j (x_j (u_j (x_j + h_j)/sigma_j - U) - u_j/sigma_j) ds,

on the nodes that argmax.py takes for the probabilities themselves.  As these add up to 1, a number
subtracted from all u changes nothing: it is their mean under who wins at the mode, so that what
cancels is not computed.
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.argmax import find_place, trapezoid
from mvnorth._cpu.argmax_nodes import load
from mvnorth._cpu.argmax_panels import tolerance
from mvnorth._cpu.factor_nodes import BETA, SECOND_ORDER, X, allocate
from mvnorth._scalar.argmax import TOTAL
from mvnorth._scalar.phi_mills import short

# Of the tolerance for a sum of probabilities: derivatives have up to 100 times its error, which in
# double precision is rounding already.
_ALLOWED = (4.0, 0.25)


@inner(FAST)
def _centre(row, u, towards):
    """towards = (u - mean) / sigma, in units of the row, which is centred at the mode."""
    total = change = 0.0
    for i in range(u.size):
        share = short(row[X, i])[3] * row[BETA, i]
        total += share
        change += share * (u[i] - u[0])  # exactly 0 if u is constant
    mean = u[0] + change / total
    for i in range(u.size):
        towards[i] = (u[i] - mean) * row[BETA, i]


@kernel()
def argmax_pull(mu, sigma, u, single, in_mu, in_sigma, settled, begin, end):
    """Derivatives of sum_i u_i Pr(argmax = i) of rows [begin, end).

    Absolute error 1e-13, in sigma up to 3e-13, in units of max |u_i| / sigma_j; in single precision
    2e-6.  Mostly it is some 1e-15, or 1e-8.

    Parameters
    ----------
    mu, sigma, single : as for ``argmax``
    u : (B, C) weights
    in_mu, in_sigma : (B, C) results
    settled : (B,) whether the trapezoidal rule suffices; else the row's results are not set
    """
    work = allocate(mu.shape[1], np.int64(SECOND_ORDER + 1))  # so many that all h_i are kept
    row, moments = work.row, work.moments
    towards = np.empty(mu.shape[1])
    allowed = _ALLOWED[single] * tolerance(mu.shape[1], single)
    for b in range(begin, end):
        deviations = sigma[0 if sigma.shape[0] == 1 else b]
        live, origin, unit, _ = load(row, mu[b], deviations, np.int64(1))
        place = find_place(row, mu[b], live, origin, unit, single)
        settled[b] = False
        if place.width > 0.0:
            _centre(row, u[b], towards)
            settled[b] = trapezoid(work, place, allowed, towards)
        if settled[b]:
            for i in range(mu.shape[1]):
                share = row[BETA, i] / (unit * work.sums[TOTAL])
                in_mu[b, i] = share * moments[0, i]
                in_sigma[b, i] = share * moments[1, i]
