"""Probability that the label's score is the largest under noise of equal deviation, in float32.

With scores s_j ~ N(mu_j, sigma**2) the label y wins with the one-factor integral

    P = int phi(z) prod_{j != y} Phi(x_j(z)) dz,    x_j = (mu_y - mu_j) / sigma + z

by the trapezoidal rule of factor_trapezoid.py, with the same decisions and the same measured error,
but in single precision (label_classes.py).  Derivatives are computed in a second pass over classes
and nodes, which is cheaper than storing phi/Phi of all of them.

Classes that trail far behind the label are left out: given that no other class exceeds the label,
each of them does with a probability below 1 - Phi(REACH).  Classes that are far ahead of the label
at the mode have exp(-x**2/2) taken out of their Phi, as in factor_nodes.py.

Accuracy: log P to 1e-6 (1 + |log P|), derivatives to 1e-5 of the largest of a row, usually to
1e-6: the rounding errors of equal scores are equal and add up; of classes that are left out
1e-11/sigma for each.  Rows that the rule does not resolve are left to the kernel of one_factor.py.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, inner, kernel
from mvnorth._cpu.factor_nodes import (
    LEFT,
    NODES,
    POWER,
    RIGHT,
    SECOND,
    STEEP_TOTAL,
    TOTAL,
    Place,
    Work,
    clear,
)
from mvnorth._cpu.factor_rule import first_nodes, proceed
from mvnorth._cpu.factor_sweep import fold, note_edge, place_nodes
from mvnorth._cpu.factor_trapezoid import LEAST_BEND
from mvnorth._cpu.label_classes import AT_ONCE, add_moments, evaluate, slopes, sum_far_ahead
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.one_factor import (
    FOUND,
    WALL,
    curve_map,
    map_point,
    measured,
    shape_at_mode,
    step_to_mode,
)

REACH = 7.0  # deviations by which a class must trail to be left out
DONE, GENERAL, NO_LABEL = 0, 1, 2  # what becomes of a row
_PAD = np.float32(100.0)  # a distance at which nobody exceeds the label
_CUT = np.float32(REACH * math.sqrt(2.0))  # the mode is above 0, and the width below 1
_FURTHEST = -2000.0  # deviations that a class may be ahead
_AHEAD = 8.0  # deviations from which on exp(-x**2/2) is taken out
_SHARE = 0.25  # of classes that must be left out for the others to be worth packing
_SINGLE = 2  # the place of this precision in the tables of the rule
_TOLERANCE = 2e-7  # of the integral
_MOST = 4 * NODES
_NEGLIGIBLE = 1e-8  # share of a node in the sum of derivatives
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_EPS = 2.0**-24
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@inner()
def _padded(count, block):
    """The number of classes in whole blocks."""
    return -(-count // block) * block


@inner(FAST)
def _distances(scores, y, inverse_sigma, margin, a, padded):
    """Fill in a_j = min(mu_y - mu_j, margin) / sigma, padded, and return the lowest, or NaN.

    Also returns how many are above _CUT.
    """
    own = scores[y]
    lowest = _PAD
    invalid, beyond = np.int32(0), np.int32(0)
    for j in range(scores.shape[0]):
        gap = own - scores[j]
        gap = margin if gap > margin else gap
        x = gap * inverse_sigma
        invalid |= np.int32(x != x)
        x = _PAD if x > _PAD else x
        beyond += np.int32(x > _CUT)
        a[j] = x
    a[y] = _PAD
    for j in range(scores.shape[0]):
        lowest = a[j] if a[j] < lowest else lowest
    for j in range(scores.shape[0], padded):
        a[j] = _PAD
    return (np.nan if invalid else np.float64(lowest)), beyond


@inner(FAST)
def _pack(a, size, partial, places):
    """Move the classes up to _CUT to the front; return their number, and that padded."""
    count = 0
    for j in range(size):
        x = a[j]
        a[count] = x
        places[count] = j
        count += x <= _CUT
    padded = _padded(count, partial)
    for j in range(count, padded):
        a[j] = _PAD
    return count, padded


@inner(FAST)
def _find_mode(a, size, lowest, lanes):
    """``(z, width, skewness)``: as ``factor_mode.find_mode``."""
    low, high = 0.0, np.inf  # all derivatives are positive
    z = gentle = max(0.0, -0.5 * lowest)
    gentlest = np.inf
    state, i = 0, 0
    while state != FOUND:
        first, second, third = slopes(a, size, np.float32(z), lanes)
        if state == WALL:
            break
        state, z, low, high, gentle, gentlest = step_to_mode(
            i, z, low, high, gentle, gentlest, first, second, third
        )
        i += 1
    width, skew = shape_at_mode(second, third)
    return z, width, skew


@inner(FAST)
def _sweep(work, place, x, count, far, chosen, top, moments):
    """Add nodes, as ``factor_sweep.sweep`` does."""
    nodes, n = work.nodes, chosen.count
    place_nodes(work, place, n, chosen.start, chosen.stride)
    evaluate(nodes, place, x, _padded(count, AT_ONCE), far, n)
    if math.isnan(top):
        top = nodes[POWER, 0]
        for k in range(n):
            top = nodes[POWER, k] if nodes[POWER, k] > top else top
    fold(work, place, n, top)
    if chosen.outermost & 1:
        note_edge(work.sums, np.int64(LEFT), nodes, np.int64(0), np.int64(1))
    if chosen.outermost & 2:
        note_edge(work.sums, np.int64(RIGHT), nodes, n - 1, n - 2)
    if moments.size:
        least = _NEGLIGIBLE * work.sums[STEEP_TOTAL]
        add_moments(x, _padded(count, 16), nodes, n, least, moments)
    return top


@inner(FAST)
def _integrate(work, a, count, size, lowest, lanes, moments):
    """``(state, log_prob, whole)``: moments are to be divided by ``whole``."""
    z, width, skew = _find_mode(a, size, lowest, lanes)
    bend, tau = curve_map(skew, LEAST_BEND)
    mode = np.float32(z)
    z = np.float64(mode)
    for j in range(size):
        a[j] += mode
    nodes, progress = first_nodes(np.int64(_SINGLE))
    right, _, _ = map_point(-nodes.start, width, bend, tau)
    far = np.float32(-max(_AHEAD, right + 1.0))
    square = total = ahead = 0.0
    if lowest + z < far:
        square, total, ahead = sum_far_ahead(a, size, far)
    place = Place(z, width, bend, tau, z + total, 1.0 + ahead, np.int64(1))
    clear(work.sums, None)
    if moments.size:
        moments[:size] = _ZERO
    # Derivatives of the integrand, which measure the error, are differences of sums like z.
    tolerance = _TOLERANCE * min(1.0 + 1e-3 * size, 3.0) + 2.0 * _EPS * width * z
    top, used = np.nan, np.int64(0)
    while nodes.count:
        used += nodes.count
        reach, _, _ = map_point(nodes.start + nodes.stride * (nodes.count - 1), width, bend, tau)
        if nodes.count > NODES or used > _MOST or (ahead and reach >= -far):
            return GENERAL, 0.0, 1.0
        top = _sweep(work, place, a, count, far, nodes, top, moments)
        nodes, progress, outcome = proceed(
            work.sums, progress, False, False, np.int64(_SINGLE), tolerance
        )
    whole = work.sums[TOTAL]
    if not (outcome.error < np.inf and 0.0 < whole < np.inf):
        return GENERAL, 0.0, 1.0
    integral = (whole + measured(outcome.step, work.sums[SECOND])) * width * outcome.step
    log_prob = log_scaled(integral, top) - 0.5 * (square + z * z) - _HALF_LOG_2_PI
    return DONE, min(log_prob, 0.0), whole


@inner(FAST)
def _set_gradient(scores, y, inverse_sigma, margin, moments, whole, places, count, grad):
    """Fill in the derivatives in scores.

    ``places`` has the classes that moments are of, or none if they are of all.
    """
    scale, own = np.float32(1.0 / whole) * inverse_sigma, scores[y]
    if places.size:
        grad[:] = _ZERO
        for i in range(count):
            j = places[i]
            grad[j] = _ZERO if own - scores[j] > margin else -scale * moments[i]
    else:
        for j in range(count):
            grad[j] = _ZERO if own - scores[j] > margin else -scale * moments[j]
    grad[y] = _ZERO
    grad[y] = -_sum(grad)


@inner(SUMS)
def _sum(values):
    total = 0.0
    for j in range(values.size):
        total += float(values[j])
    return total


@inner(FAST)
def _derivative_in_sigma(scores, y, inverse_sigma, margin, moments, whole, places, count):
    """Minus sum_j a_j d log P/da_j / sigma, classes beyond the margin included."""
    own, total = scores[y], 0.0
    for i in range(count):
        gap = own - scores[places[i] if places.size else i]
        if moments[i] > _ZERO:  # else the gap may be infinite
            total += float(min(gap, margin)) * float(moments[i])
    return -total / whole * float(inverse_sigma) ** 2


@kernel(FAST)
def label_best(scores, labels, sigma, margin, log_prob, grad_scores, grad_sigma, state, begin, end):
    """Log probabilities that labels win, and their derivatives, of rows [begin, end).

    Parameters
    ----------
    scores : (B, C) means, in single precision; C is at least 2
    labels : (B,)
    sigma : (1 or B,) > 0, in single precision
    margin : upper limit of mu_y - mu_j, in single precision
    log_prob : (B,) results
    grad_scores : (B, C) derivatives of log_prob, or (0, 0) if they are not wanted
    grad_sigma : (B,) derivatives in the deviation that a row uses, or (0,)
    state : (B,) output: DONE, GENERAL for rows that are left to other kernels, NO_LABEL for
        labels that are no class
    """
    classes = scores.shape[1]
    partial = 16 if classes <= 128 else 64  # sums over classes
    padded = _padded(classes, partial)
    a = np.empty(padded, np.float32)
    moments = np.empty(padded if grad_scores.size else 0, np.float32)
    lanes = np.empty((3, partial), np.float32)
    places = np.empty(classes, np.int64)
    unpacked = places[:0]
    work = Work(
        np.empty((0, 0)), np.empty((13, NODES)), np.empty((0, 0)), np.empty((0, 0)), np.empty(32),
        np.empty((0, 0, 0)),
    )  # fmt: skip
    for b in range(begin, end):
        y = labels[b]
        if y < 0 or y >= classes:
            state[b] = NO_LABEL
            continue
        inverse_sigma = _ONE / sigma[b if b < sigma.shape[0] else 0]
        lowest, beyond = _distances(scores[b], y, inverse_sigma, margin, a, padded)
        state[b] = GENERAL
        if not (lowest > _FURTHEST and abs(scores[b, y]) < np.inf):
            continue
        if beyond == classes - 1:  # nobody else may win
            state[b], log_prob[b] = DONE, _ZERO
            if grad_scores.size:
                grad_scores[b] = _ZERO
            if grad_sigma.size:
                grad_sigma[b] = _ZERO
            continue
        count, size, chosen = classes, padded, unpacked
        if beyond > _SHARE * classes:
            count, size = _pack(a, classes, partial, places)
            chosen = places[:count]
        state[b], log_prob[b], whole = _integrate(work, a, count, size, lowest, lanes, moments)
        if state[b] == DONE and grad_scores.size:
            if chosen.size == 0:
                moments[y] = _ZERO
            given = (scores[b], y, inverse_sigma, margin, moments, whole, chosen, count)
            _set_gradient(*given, grad_scores[b])
            if grad_sigma.size:
                grad_sigma[b] = _derivative_in_sigma(*given)
