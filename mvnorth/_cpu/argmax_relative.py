"""Who wins, with relative accuracy: an integral for each score, O(QC**2) a row.

Score i is the largest where all s_i - s_j are positive.  Their covariance is diag(c) + v v^T with
c_j = sigma_j**2 and v_j = sigma_i: the integral of one_factor.py, with its own mode for each i.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.argmax_nodes import is_live
from mvnorth._cpu.factor_nodes import INNER
from mvnorth._cpu.one_factor import one_factor
from mvnorth._scalar.normal import log_ndtr

_LOG_SMALLEST = math.log(1e-300)
_HOPELESS = -37.1  # Phi is below 1e-300
_CERTAIN = 1e200  # a difference that counts for nothing
_CLASSES = 16  # integrals at a time
_WALL = 1e-8  # deviation of a constant, in those of the narrowest score; changes P by its square


@njit(**INNER)
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


@njit(**INNER)
def _constant_wins(mu, sigma, widest, value):
    """Log of the probability that a constant exceeds all scores that are not constant."""
    total = 0.0
    for j in range(mu.size):
        if is_live(mu[j], sigma[j], widest):
            total += log_ndtr((value - mu[j]) / sigma[j])
    return total


@njit(**INNER)
def _set_up(mu, sigma, i, widest, place, wall, m, scale, v):
    """The differences of score i from all others; False if it wins with less than 1e-300."""
    for j in range(mu.size):
        deviation = sigma[j]
        present = is_live(mu[j], sigma[j], widest) and j != i
        if j == place:
            deviation, present = wall, True
        v[j] = sigma[i] / widest
        m[j], scale[j] = _CERTAIN, 1.0
        if present:
            difference = mu[i] - mu[j]
            if difference < _HOPELESS * math.hypot(sigma[i], deviation):
                return False
            m[j] = difference / widest
            scale[j] = widest / deviation
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def argmax_relative(mu, sigma, single, out, begin, end):
    """Probabilities that scores [begin, end), counted through all rows, are the largest.

    Relative error 1e-12 (1e-6 in single precision); 0 for less than 1e-300.  Parameters as for
    ``argmax``.
    """
    d = mu.shape[1]
    m, scale, v = np.empty((_CLASSES, d)), np.empty((_CLASSES, d)), np.empty((_CLASSES, d))
    where = np.empty((_CLASSES, 2), np.int64)
    log_prob, rel_error = np.empty(_CLASSES), np.empty(_CLASSES)
    used = np.empty(_CLASSES, np.int64)
    nothing = np.empty((0, 0))
    row, size = -1, 0
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
        out[b, i] = 0.0
        if not is_live(mu[b, i], deviations[i], widest):
            if mu[b, i] == value and tied and constant >= _LOG_SMALLEST:
                out[b, i] = math.exp(constant) / tied
        else:
            wall = _WALL * narrowest
            if _set_up(
                mu[b], deviations, i, widest, place, wall, m[size], scale[size], v[size]
            ):
                where[size, 0], where[size, 1] = b, i
                size += 1
        if size == _CLASSES or item == end - 1:
            one_factor(
                m, scale, v, single, log_prob, rel_error, used, nothing, nothing, nothing, 0, size
            )
            for t in range(size):
                if log_prob[t] >= _LOG_SMALLEST:
                    out[where[t, 0], where[t, 1]] = math.exp(log_prob[t])
            size = 0
