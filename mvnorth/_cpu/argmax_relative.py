"""Who wins, with relative accuracy: an integral for each score, O(QC**2) a row.

Score i is the largest where all s_i - s_j are positive.  Their covariance is diag(c) + v v^T with
c_j = sigma_j**2 and v_j = sigma_i: the integral of one_factor.py, with its own mode for each i.

Where deviations differ much, or a constant cuts the integral off, the integrand has walls beside
which the trapezoidal rule is lost.  It is log-concave, though: panels that double in size from its
mode on, each halved as often as it takes, meet every scale, and once a panel holds nothing those
after it do not either.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.argmax_nodes import is_live, rules
from mvnorth._cpu.factor_nodes import (
    BETA,
    INNER,
    NODES,
    NUMERATOR,
    OFFSET,
    POWER,
    SCALE,
    SLOPE,
    WEIGHT,
    M,
    Place,
    V,
    allocate,
    evaluate,
    recentre,
    slopes,
    take_out_quadratic,
)
from mvnorth._cpu.factor_trapezoid import _find_mode
from mvnorth._cpu.one_factor import one_factor
from mvnorth._scalar.exp_log import log_scaled, power_of_two
from mvnorth._scalar.normal import log_ndtr

_LOG_SMALLEST = math.log(1e-300)
_HOPELESS = -37.1  # Phi is below 1e-300
_CERTAIN = 1e200  # a difference that counts for nothing
_CLASSES = 16  # integrals at a time
_ALIKE = 4.0  # ratio of deviations up to which there are no walls
_RULE = NODES - 3  # two of the other nodes are the ends of the panel
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS, _COARSE = rules(_RULE)
_TOLERANCE = (1e-14, 1e-7)
_DOUBTFUL = (1e-12, 1e-6)  # errors
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
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


@njit(**INNER)
def _panel(work, place, low, width, top):
    """``(integral, error)`` of the integrand f over one panel.

    The same rule for f' has to give the difference of f between the ends: times the width, what it
    misses bounds the error, and walls that lie between all nodes are seen.
    """
    nodes = work.nodes
    centre = place.z + (low + 0.5 * width)
    shift = centre - place.z
    recentre(work.row, centre)
    for k in range(NODES):
        if k < _RULE:
            inside = (0.5 * width) * (1.0 + _LEGENDRE_NODES[k])
        else:
            inside = width if k == _RULE else 0.0  # the last node is idle
        nodes[OFFSET, k] = (low - shift) + inside
    linear, curvature = place.linear, place.curvature
    n = np.int64(NODES)
    evaluate(work.row, nodes, work.mills, n, shift, linear, curvature, place.single)
    for k in range(NODES):
        nodes[WEIGHT, k] = nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k] - top)
    total, coarse, change = 0.0, 0.0, nodes[WEIGHT, _RULE + 1] - nodes[WEIGHT, _RULE]
    for k in range(_RULE):
        f = (0.5 * width) * nodes[WEIGHT, k]
        weight = _LEGENDRE_WEIGHTS[k] * f
        total += weight
        coarse += _COARSE[k] * f
        change += weight * (nodes[SLOPE, k] - (centre + nodes[OFFSET, k]))
    return total, max(abs(change) * width, 1e-6 * abs(coarse - total))


@njit(**INNER)
def _add_panel(work, place, low, width, top, whole):
    """The integral over a panel, halved as often as it takes; ``whole`` is what is known so far."""
    stack = np.empty((120, 2))
    tolerance = _TOLERANCE[place.single]
    smallest = 1e-16 * width
    stack[0, 0], stack[0, 1] = low, width
    total, size, evaluations = 0.0, 1, 0
    while size:
        size -= 1
        low, width = stack[size, 0], stack[size, 1]
        part, error = _panel(work, place, low, width, top)
        evaluations += 1
        settled = error <= tolerance * (whole + total + part)
        if settled or width <= smallest or evaluations > 500:
            total += part
        else:
            half = 0.5 * width
            stack[size, 0], stack[size, 1] = low, half
            stack[size + 1, 0], stack[size + 1, 1] = low + half, half
            size += 2
    return total


@njit(**INNER)
def _mode(row):
    """``(z, width)``: the mode, just right of it where a wall rises to it.

    _find_mode is right to a part of the width, which near a wall may be on its wrong side.
    """
    z, width, _, _ = _find_mode(row)
    step = width
    for j in range(row.shape[1]):
        step = min(step, 1.0 / row[BETA, j])
    smallest, low, high = step, z, z
    while slopes(row, high)[0] > high:
        low = high
        high += max(step, 1e-15 * abs(high))
        step *= 2.0
    while low == high or slopes(row, low)[0] < low:
        low -= max(step, 1e-15 * abs(low))
        step *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        if high - low <= smallest or not low < middle < high:
            break
        if slopes(row, middle)[0] > middle:
            low = middle
        else:
            high = middle
    return high, width


@njit(**INNER)
def _with_walls(work, m, scale, v, single):
    """Log of the probability that all of m_j + v_j z + e_j / scale_j are positive."""
    row = work.row
    for j in range(m.size):
        row[M, j], row[V, j], row[SCALE, j], row[BETA, j] = m[j], v[j], scale[j], v[j] * scale[j]
    z, width = _mode(row)
    constant, linear, curvature = take_out_quadratic(row, z)
    place = Place(z, width, 1.0, 0.0, linear, curvature, single)
    for k in range(8):
        work.nodes[OFFSET, k] = 0.0
    evaluate(row, work.nodes, work.mills, np.int64(8), 0.0, linear, curvature, single)
    top = work.nodes[POWER, 0]
    whole = 0.0
    for side in range(2):
        low, size = 0.0, width
        for _ in range(200):
            part = _add_panel(work, place, low if side else -low - size, size, top, whole)
            whole += part
            if part <= 1e-18 * whole:
                break
            low += size
            size *= 2.0
    return min(log_scaled(whole, top) + constant - _HALF_LOG_2_PI, 0.0)


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
    work = allocate(d, np.int64(0))
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
            wall = _WALL * narrowest
        out[b, i] = 0.0
        if not is_live(mu[b, i], deviations[i], widest):
            if mu[b, i] == value and tied and constant >= _LOG_SMALLEST:
                out[b, i] = math.exp(constant) / tied
        elif _set_up(mu[b], deviations, i, widest, place, wall, m[size], scale[size], v[size]):
            where[size, 0], where[size, 1] = b, i
            if place >= 0 or widest > _ALIKE * narrowest:
                log = _with_walls(work, m[size], scale[size], v[size], single)
                out[b, i] = math.exp(log) if log >= _LOG_SMALLEST else 0.0
            else:
                size += 1
        if size == _CLASSES or item == end - 1:
            one_factor(
                m, scale, v, single, log_prob, rel_error, used, nothing, nothing, nothing, 0, size
            )
            for t in range(size):
                log = log_prob[t]
                if not rel_error[t] <= _DOUBTFUL[single]:
                    log = _with_walls(work, m[t], scale[t], v[t], single)
                out[where[t, 0], where[t, 1]] = math.exp(log) if log >= _LOG_SMALLEST else 0.0
            size = 0
