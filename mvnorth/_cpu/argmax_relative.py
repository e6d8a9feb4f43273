"""Who wins, with relative accuracy: an integral for each score, O(QC**2) a row.

Score i is the largest where all s_i - s_j are positive.  Their covariance is diag(c) + v v^T with
c_j = sigma_j**2 and v_j = sigma_i: the integral of one_factor.py, with its own mode for each i.
Constants are walls in it: the largest one counts as a score with a deviation so small that it does
not matter.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.factor_nodes import BETA, SCALE, M, V, allocate
from mvnorth._cpu.factor_trapezoid import integrate
from mvnorth._scalar.argmax import is_live
from mvnorth._scalar.normal import log_ndtr

_LOG_SMALLEST = math.log(1e-300)
_HOPELESS = -37.1  # Phi is below 1e-300
_WALL = 1e-8  # deviation of a constant, in those of the narrowest score; changes P by its square


@inner(FAST)
def _constants(mu, sigma, widest):
    """``(value, place, tied, narrowest)``: the largest constant, where it is first, how often it
    occurs, and the smallest deviation of a score that is not constant."""
    value, place, tied, narrowest = -np.inf, -1, 0, np.inf
    for j in range(mu.size):
        if is_live(mu[j], sigma[j], widest):
            narrowest = min(narrowest, sigma[j])
        elif mu[j] > value:
            value, place, tied = mu[j], j, 1
        elif mu[j] == value and value > -np.inf:
            tied += 1
    return value, place, tied, narrowest


@inner(FAST)
def _constant_wins(mu, sigma, widest, value):
    """Log of the probability that a constant exceeds all scores that are not constant."""
    total = 0.0
    for j in range(mu.size):
        if is_live(mu[j], sigma[j], widest):
            total += log_ndtr((value - mu[j]) / sigma[j])
    return total


@inner(FAST)
def _set_up(row, mu, sigma, i, widest, place, wall):
    """The differences of score i from all others; False if it wins with less than 1e-300."""
    for j in range(mu.size):
        deviation = wall if j == place else sigma[j]
        present = j == place or (j != i and is_live(mu[j], sigma[j], widest))
        difference = mu[i] - mu[j]
        if present and difference < _HOPELESS * math.hypot(sigma[i], deviation):
            return False
        row[M, j] = difference / widest if present else np.inf
        row[V, j] = sigma[i] / widest
        row[SCALE, j] = widest / deviation if present else 1.0
        row[BETA, j] = row[V, j] * row[SCALE, j]
    return True


@kernel()
def argmax_relative(mu, sigma, single, out, begin, end):
    """Probabilities that scores [begin, end), counted through all rows, are the largest.

    Relative error 1e-12 (1e-6 in single precision); 0 for less than 1e-300.  Parameters as for
    ``argmax``.
    """
    d = mu.shape[1]
    work = allocate(d, np.int64(0))
    row = -1
    for item in range(begin, end):
        b, i = item // d, item % d
        deviations = sigma[0 if sigma.shape[0] == 1 else b]
        if b != row:
            row, widest = b, 0.0
            for j in range(d):
                if mu[b, j] > -np.inf:
                    widest = max(widest, deviations[j])
            value, place, tied, narrowest = _constants(mu[b], deviations, widest)
            constant = _constant_wins(mu[b], deviations, widest, value) if tied else -np.inf
            wall = _WALL * narrowest
        log, share = -np.inf, 1
        if is_live(mu[b, i], deviations[i], widest):
            if _set_up(work.row, mu[b], deviations, i, widest, place, wall):
                log = integrate(work, None, single)[0]
        elif tied and mu[b, i] == value:
            log, share = constant, tied
        out[b, i] = math.exp(log) / share if log >= _LOG_SMALLEST else 0.0
