"""Where a Gauss-Markov chain between limits has its mass, roughly: expectation propagation.

Each pair of limits is replaced by a Gaussian factor that gives its coordinate the same mean and
variance given the factors of all others (Minka 2001); messages run forwards and backwards along the
chain.  Factors of limits have precisions >= 0, so that nothing can diverge.  The result only says
where nodes go at first, and is measured afterwards.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._scalar.exp_log import exp_parts, power_of_two

_SWEEPS = 40  # there and back, at most
_SETTLED = 0.05  # change of means in deviations, and of variances in relation, that may be left
_DROP = 25.0  # beyond exp(-25) of its peak a density does not count for moments
_WINDOW, _FAR = 60.0, 60.0  # where the first windows end
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_NODES = 0.5 + 0.5 * _NODES


@inner(FAST)
def _fall(peak, drop):
    """How far a standard normal density falls by exp(-drop), away from a point at distance peak."""
    return 2.0 * drop / (peak + math.sqrt(peak * peak + 2.0 * drop))


@inner(SUMS)
def _side(length, slope, curvature):
    """Integrals of u**k exp(-slope u - curvature u**2/2), k = 0, 1, 2, for u from 0 to length."""
    s0 = s1 = s2 = 0.0
    for j in range(_NODES.size):
        u = length * _NODES[j]
        f, k = exp_parts(-u * (slope + 0.5 * curvature * u), 0.0)
        f *= _WEIGHTS[j] * power_of_two(k)
        s0 += f
        s1 += f * u
        s2 += f * u * u
    return length * s0, length * s1, length * s2


@inner(FAST)
def truncated(mean, variance, low, high):
    """``(peak, mean, variance)`` of a normal variable between limits, the mean as its excess."""
    deviation = math.sqrt(variance)
    peak = min(max(mean, low), high)
    reach = deviation * _fall(abs(peak - mean) / deviation, _DROP)
    slope = (peak - mean) / variance
    right = _side(min(high - peak, reach), slope, 1.0 / variance)
    left = _side(min(peak - low, reach), -slope, 1.0 / variance)
    total = right[0] + left[0]
    excess = (right[1] - left[1]) / total
    return peak, excess, max((right[2] + left[2]) / total - excess * excess, 1e-300)


@inner(FAST)
def _reach(peak, excess, variance, centre, cavity):
    """How far from its mean the density of a coordinate may count.

    The normal density given the factors of the others ends where it has fallen by exp(-60).  But
    far from limits those do not bind, and only a curvature >= 1 is certain: from 2 deviations on.
    """
    deviation = math.sqrt(cavity)
    near = deviation * _fall(abs(peak - centre) / deviation, _WINDOW) + abs(excess)
    spread = math.sqrt(variance)
    return max(near, 2.0 * spread + _fall(2.0 / spread, _FAR))


@inner(FAST)
def locate(low, high, rho, noise, place, left, right):
    """Means of the coordinates between their limits, and windows [left, right] around them.

    Parameters
    ----------
    low, high : (n,) limits of standardised coordinates
    rho, noise : (n - 1,) correlations of neighbours, >= 0, and sqrt(1 - rho**2)
    place, left, right : (n,) results; windows are relative to ``place``
    """
    n = low.size
    site, tilt = np.zeros(n), np.zeros(n)  # precision, and precision times mean, of the factors
    mean, variance = np.zeros(n), np.ones(n)  # of messages forwards
    ahead, ahead_tilt = np.zeros(n), np.zeros(n)  # precisions of messages backwards
    spread = np.ones(n)
    for sweep in range(2 * _SWEEPS):  # mean[0] and variance[0] stay those of the first coordinate
        forwards = sweep % 2 == 0
        change = 0.0
        for step in range(n):
            i = step if forwards else n - 1 - step
            if forwards and i > 0:
                precision = 1.0 / variance[i - 1] + site[i - 1]
                before = (mean[i - 1] / variance[i - 1] + tilt[i - 1]) / precision
                mean[i] = rho[i - 1] * before
                variance[i] = rho[i - 1] ** 2 / precision + noise[i - 1] ** 2
            if not forwards and i < n - 1:
                precision = ahead[i + 1] + site[i + 1]
                share = rho[i] / (1.0 + precision * noise[i] ** 2)
                ahead[i] = rho[i] * share * precision
                ahead_tilt[i] = share * (ahead_tilt[i + 1] + tilt[i + 1])
            cavity = 1.0 / (1.0 / variance[i] + ahead[i])
            centre = (mean[i] / variance[i] + ahead_tilt[i]) * cavity
            peak, excess, width2 = truncated(centre, cavity, low[i], high[i])
            found = peak + excess
            change = max(change, abs(found - place[i]) / math.sqrt(width2))
            change = max(change, abs(width2 / spread[i] - 1.0))
            place[i], spread[i] = found, width2
            site[i] = max(1.0 / width2 - 1.0 / cavity, 0.0)
            tilt[i] = found / width2 - centre / cavity
            reach = _reach(peak, excess, width2, centre, cavity)
            left[i] = max(-reach, low[i] - found)
            right[i] = min(reach, high[i] - found)
        if sweep > 0 and change < _SETTLED:
            break
    _smooth(rho, noise, site, tilt, mean, variance, place, left, right)


@inner(FAST)
def _smooth(rho, noise, site, tilt, mean, variance, place, left, right):
    """Put places on the mean path of the normal chain with these factors.

    Its steps are smooth on the scale of the noise, however small that is; means that were updated
    one by one need not be.  Windows stay where they are.
    """
    n = place.size
    for i in range(n):
        if i > 0:
            variance[i] = rho[i - 1] ** 2 * variance[i - 1] + noise[i - 1] ** 2
            mean[i] = rho[i - 1] * mean[i - 1]
        precision = 1.0 / variance[i] + site[i]
        mean[i] = (mean[i] / variance[i] + tilt[i]) / precision
        variance[i] = 1.0 / precision
    for back in range(n):
        i = n - 1 - back
        path = mean[i]
        if back > 0:
            gain = rho[i] * variance[i] / (rho[i] ** 2 * variance[i] + noise[i] ** 2)
            path += gain * (mean[i + 1] - rho[i] * path)
        mean[i] = path
        left[i] -= path - place[i]
        right[i] -= path - place[i]
        place[i] = path
