"""Tilting for Sigma = diag(c) + v v^T, in O(d) a step, and what rounding does to its results.

c and v are exact, and entries T_ij = t_i w_j of the factor have relative errors of some rounding
units, so that to first order the rounding of the factor moves log P by q^T dT E[y], see
``mvnorth._cpu.rounding``.
"""

import math

import numpy as np

from mvnorth._compile import inner, kernel
from mvnorth._cpu.tilting import interval_moments, saddle_point

_ROUNDING = 8.0 * 2.0**-52  # relative, of entries of the factor
_EPS = 2.0**-52


@inner()
def _of_factor(t, w, q, y, W, r):
    """Bound on the change of log P, or of its bound, that rounding of the factor makes."""
    later = total = 0.0
    for j in range(r - 1, -1, -1):
        total += abs(y[j]) * (abs(w[j]) * later + abs(q[j])) + W[j]
        later += abs(t[j] * q[j])
    return _ROUNDING * math.sqrt(r) * total


@inner()
def _of_limits(low, high, shift, t, w, y, r):
    """The same of limits less conditional means, see ``of_limits`` in ``mvnorth._cpu.rounding``."""
    before = total = 0.0
    for i in range(r):
        limit = high[i] if low[i] == -np.inf else low[i]
        terms = abs(limit - shift[i]) + abs(shift[i]) + abs(t[i]) * before
        total += terms * abs(y[i])
        if low[i] > -np.inf:
            total += terms / (high[i] - low[i])
        before += abs(w[i]) * (1.0 + abs(y[i]))
    return 2.0 * _EPS * total


@inner()
def _mean_path(t, w, q, y, r):
    """y = T^T q."""
    later = 0.0
    for j in range(r - 1, -1, -1):
        y[j] = q[j] + w[j] * later
        later += t[j] * q[j]


@inner()
def _sequential(low, high, t, w, q, y, W, r):
    """Means y of one variable after the other, W = 1 - variances, and q = T^-T y."""
    before = 0.0
    for i in range(r):
        shift = t[i] * before
        _, y[i], variance = interval_moments(low[i] - shift, high[i] - shift)
        W[i] = 1.0 - variance
        before += w[i] * y[i]
    later = 0.0
    for j in range(r - 1, -1, -1):
        q[j] = y[j] - w[j] * later
        later += t[j] * q[j]


@kernel()
def structured_rounding(lower, upper, t, w, rank, rounding, begin, end):
    """Rounding errors (B,) of log P for problems ``begin`` to ``end`` that are not tilted."""
    work = np.zeros((4, lower.shape[1]))
    q, y, W, none = work[0], work[1], work[2], work[3]
    for b in range(begin, end):
        r = rank[b]
        _sequential(lower[b], upper[b], t[b], w[b], q, y, W, r)
        lost = _of_factor(t[b], w[b], q, y, W, r)
        lost += _of_limits(lower[b], upper[b], none, t[b], w[b], y, r)
        rounding[b] = lost if lost >= 0.0 else np.inf  # NaN: numbers too large for this


@kernel()
def tilt_structured(
    lower, upper, t, w, own, rank, slope, log_scale, rounding, of_problem, log_bound, gap, begin,
    end,
):  # fmt: skip
    """Tilt problems ``begin`` to ``end`` of ``structured_sums``, in O(d) a step.

    Parameters
    ----------
    lower, upper : (B, d) limits, overwritten with those for x
    t, w, rank : as for ``structured_sums``
    own : (B, d) c_i / L_ii**2
    slope : (B, d) output, see ``structured_sums``
    log_scale : (B,) output, what logarithms of weights are to be increased by
    rounding : (B,) output, bound on the rounding error of that and of the weights' logarithms
    of_problem : (B,) output, zero: c and v are exact
    log_bound : (B,) output, upper bound on the logarithm of the probability
    gap : (B,) output, by how much weights may exceed the bound; infinite if there is no tilt
    """
    d = lower.shape[1]
    scale = np.ones(d)
    work = np.empty((10, d))
    best_e, best_W, s, W, mu, y = work[3], work[4], work[5], work[6], work[7], work[8]
    shift = work[9]
    for b in range(begin, end):
        r, low, high, e = rank[b], lower[b], upper[b], slope[b]
        for i in range(d):
            e[i] = 0.0
        bound, gap[b] = saddle_point(
            None, own[b], t[b], scale, low, high, s, e, W, work, None, None, r
        )
        _mean_path(t[b], w[b], best_e, y, r)
        bound += _of_factor(t[b], w[b], best_e, y, best_W, r)
        log_bound[b] = bound if bound < 0.0 else 0.0
        if gap[b] == np.inf:
            _sequential(low, high, t[b], w[b], mu, y, W, r)
            lost = _of_factor(t[b], w[b], mu, y, W, r)
            for i in range(d):
                e[i] = 0.0
        else:
            _mean_path(t[b], w[b], e, y, r)
            lost = _of_factor(t[b], w[b], e, y, W, r)
        later = total = 0.0
        for j in range(r - 1, -1, -1):
            mu[j] = w[b, j] * later
            later += t[b, j] * e[j]
            total += mu[j] * mu[j]
        log_scale[b] = -0.5 * total
        before = 0.0
        for i in range(r):
            shift[i] = -mu[i] - t[b, i] * before
            before += w[b, i] * mu[i]
            low[i] += shift[i]
            high[i] += shift[i]
        if gap[b] < np.inf:
            y[:r] = e[:r]
        lost += _of_limits(low, high, shift, t[b], w[b], y, r)
        lost += 2.0 * _EPS * total
        rounding[b] = lost if lost >= 0.0 else np.inf  # NaN: numbers too large for this
        of_problem[b] = 0.0
