"""Who wins: the probabilities that each of independent normal scores is the largest.

For s_i ~ N(mu_i, sigma_i**2), with F(s) = prod_j Phi((s - mu_j)/sigma_j) and h = phi/Phi,

    Pr(argmax = i) = int F(s) h((s - mu_i)/sigma_i) / sigma_i ds,

for all i on one grid of s: O(QC).  The integrands add up to F', the density of the maximum, whose
integral is 1: what the sum misses of it is the error of the trapezoidal rule as such, and the rule
applied to F'' gives the part of the error that is a quarter of a period off, see
factor_trapezoid.py.  F' need not be log-concave where deviations differ; rows for which the rule
does not suffice go to panels.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.argmax_nodes import REACH, allocate_chain, centre_at, load, lowest
from mvnorth._cpu.argmax_panels import normalise, panels, tolerance
from mvnorth._cpu.factor_nodes import (
    BEND,
    BETA,
    FIRST_ORDER,
    INNER,
    NODES,
    NUMERATOR,
    POWER,
    SCALE,
    SLOPE,
    STRETCH,
    SUMS,
    TURN,
    VECTOR,
    WEIGHT,
    M,
    Place,
    V,
    X,
    add_moments,
    allocate,
    clear,
    evaluate,
)
from mvnorth._cpu.factor_sweep import place_nodes
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.phi_mills import short

# Step, nodes left and right of the mode to start with, and what may be omitted at an end: in double
# and in single precision.  The numbers suit normal scores of like deviations, whose maximum has a
# skewness between 0 and 1, where nearly normal tails reach further than Gumbel's in the map.
_STEP = (0.42, 0.72)
_LEFT_NODES, _RIGHT_NODES = (17, 8), (15, 8)
_MORE = (4, 0)  # on either side for a skewness below _SKEWED
_SKEWED = 0.55
_OMITTED = (1e-17, 1e-8)
_LEAST_BEND = 0.1
_LEVELS = 2  # halvings of the step
_SKEW = 1.2  # how much faster than the skewness asks for the map grows in its tails
_EXTENSIONS = 4  # on either side, by eight nodes
_SHARP = 3.0  # deviations from node to node
_COARSE = (1e-7, 1e-2)  # error that the rule may have with twice the step
# Places in sums: of F' and F'' over all nodes; F at the first node; F' at the last and before it;
# of F' over every other node.
_TOTAL, _FIRST_ORDER, _LEFT, _RIGHT, _BEFORE, _OTHER = range(6)


@njit(**SUMS)
def _slopes(row, s):
    """The sum S of h_i / sigma_i at s and its first three derivatives, to 1e-6."""
    zeroth = first = second = third = 0.0
    for i in range(row.shape[1]):
        beta = row[BETA, i]
        x = ((row[M, i] + s) + row[VECTOR, i]) * row[SCALE, i]
        _, _, _, h, r, _ = short(x)
        bend = r * (r + h) - 1.0
        term = h * beta
        zeroth += term
        term *= beta
        first -= term * r
        term *= beta
        second += term * bend
        third += term * beta * ((1.0 - h * r) * (2.0 * r + h) - h * r * r - r * bend)
    return zeroth, first, second, third


@njit(**INNER)
def _find_mode(row, low, high, start):
    """``(s, width, skewness)`` of a mode of F', within 0.1 widths; the width is 0 without one.

    F'' = F (S**2 + S').  Newton's method for log(S**2) = log(-S'), which is linear where F is
    like Gumbel's distribution, safeguarded by a bracket.
    """
    s = start
    for _ in range(60):
        zeroth, first, second, third = _slopes(row, s)
        ratio = first / zeroth
        curvature = first + second / zeroth - ratio * ratio  # of log F'
        excess = math.log(zeroth * zeroth / -first)
        fall = 2.0 * ratio - second / first
        step = -excess / fall
        if curvature < 0.0 and fall < 0.0:
            width = 1.0 / math.sqrt(-curvature)
            if abs(step) <= 0.1 * width:
                bend = second + third / zeroth - 3.0 * ratio * second / zeroth + 2.0 * ratio**3
                return s + step, width, bend * width**3
        if excess > 0.0:
            low = s
        else:
            high = s
        s += step
        if not (fall < 0.0 and low < s < high):
            s = 0.5 * (low + high)
    return s, 0.0, 0.0


@njit(**INNER)
def _sweep(work, place, start, step, count):
    """Add ``count`` nodes from t = start on to sums and moments."""
    row, nodes, mills, sums = work.row, work.nodes, work.mills, work.sums
    for begin in range(0, count, NODES):
        n = min(NODES, count - begin)
        place_nodes(work, place, n, start + step * begin, step)
        evaluate(row, nodes, mills, n, 0.0, 0.0, 0.0, place.single)
        total = first = other = 0.0
        for k in range(n):
            f = nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k])
            stretch, slope = nodes[STRETCH, k], nodes[SLOPE, k]
            weight = f * stretch
            nodes[WEIGHT, k] = weight
            total += weight * slope
            other += weight * slope * (k % 2)
            change = (slope * slope - nodes[BEND, k]) * place.width * stretch
            first += weight * change + f * slope * nodes[TURN, k]
        sums[_TOTAL] += total
        sums[_OTHER] += other
        sums[_FIRST_ORDER] += first
        if begin == 0:
            sums[_LEFT] = nodes[WEIGHT, 0] / nodes[STRETCH, 0]
        sums[_RIGHT] = nodes[WEIGHT, n - 1] * nodes[SLOPE, n - 1]
        sums[_BEFORE] = nodes[WEIGHT, n - 2] * nodes[SLOPE, n - 2]
        add_moments(row, nodes, mills, n, 0.0, place.single, work.moments)


@njit(**INNER)
def _trapezoid(work, place):
    """Whether the trapezoidal rule suffices; then the results are proportional to moments."""
    single = place.single
    sums = work.sums
    step, cut = _STEP[single], _OMITTED[single]
    more = _MORE[single] if place.a < _SKEW * _SKEWED / 3.0 else 0
    # Nodes are the odd multiples of half a step, for k in [low, high).
    low, high = -_LEFT_NODES[single] - more, _RIGHT_NODES[single] + more
    clear(work)
    _sweep(work, place, (low + 0.5) * step, step, high - low)
    left, right, before = sums[_LEFT], sums[_RIGHT], sums[_BEFORE]
    for _ in range(_EXTENSIONS):  # all that is left of a node is F there
        if left <= cut:
            break
        low -= 8
        _sweep(work, place, (low + 0.5) * step, step, np.int64(8))
        left = sums[_LEFT]
    for _ in range(_EXTENSIONS):
        if right < before and place.width * right * right <= cut * (before - right):
            break
        if right <= 0.0:
            break
        high += 8
        _sweep(work, place, (high - 7.5) * step, step, np.int64(8))
        right, before = sums[_RIGHT], sums[_BEFORE]
    allowed = 4.0 * tolerance(work.row.shape[1], single)
    coarse = abs(2.0 * step * place.width * sums[_OTHER] - 1.0)
    for level in range(_LEVELS + 1):
        if level == 1:  # the even multiples of half a step
            _sweep(work, place, low * step, step, high - low + 8)
        elif level > 1:  # the odd multiples of the new step
            fine = step * 0.5**level
            _sweep(work, place, low * step + fine, 2.0 * fine, (high - low) * 2 ** (level - 1))
        fine = step * 0.5**level
        real = abs(fine * place.width * sums[_TOTAL] - 1.0)
        imaginary = abs(fine / (2.0 * math.pi) * fine * place.width * sums[_FIRST_ORDER])
        # Errors of several scores may cancel: with twice the step it must be good already.
        if real <= allowed and imaginary <= allowed and coarse <= _COARSE[single]:
            return True
        if real > 0.1:
            return False
        coarse = real
    return False


@njit(**INNER)
def _by_trapezoid(work, low, high, start, single):
    """Whether moments of the row could be found by the trapezoidal rule."""
    s, width, skew = _find_mode(work.row, low, high, start)
    if width == 0.0:
        return False
    kappa = skew / 3.0
    a = min(max(_SKEW * abs(kappa), _LEAST_BEND), 3.0)
    tau = min(max(kappa / a, -1.0 / _SKEW), 1.0 / _SKEW)
    centre_at(work.row, s)
    for i in range(work.row.shape[1]):
        # A score so narrow that it hides between nodes, and not far below all of them.
        beta = work.row[BETA, i]
        if beta * width * _STEP[single] > _SHARP and work.row[X, i] < 12.0 * width * beta:
            return False
    return _trapezoid(work, Place(s, width, a, tau, 0.0, 0.0, single))


@njit(cache=True, nogil=True, error_model="numpy")
def argmax(mu, sigma, single, out, begin, end):
    """Probabilities of rows [begin, end) that each score is the largest.

    Absolute error 1e-15, growing like the rounding of a product: 1e-14 for 10,000 scores.

    Parameters
    ----------
    mu : (B, C) means; -inf allowed, but not for all of a row
    sigma : (1 or B, C) standard deviations >= 0
    single : 1 for an accuracy of 1e-6
    out : (B, C) results
    """
    d = mu.shape[1]
    work = allocate(d, FIRST_ORDER)
    one = np.int64(1)
    pair, chain = allocate_chain(d, one)
    row, moments = work.row, work.moments
    for b in range(begin, end):
        deviations = sigma[0 if sigma.shape[0] == 1 else b]
        live, origin, unit, widest = load(row, mu[b], deviations, one)
        high, start, constant = -np.inf, -np.inf, -np.inf
        for i in range(d):
            if row[V, i] > 0.0:
                high = max(high, -row[M, i] + REACH * row[V, i])
                start = max(start, -row[M, i] + row[V, i])
            elif mu[b, i] > -np.inf:
                constant = max(constant, (mu[b, i] - origin) / unit)
        low = lowest(row, one)
        if live and constant <= low and _by_trapezoid(work, low, high, start, single):
            for i in range(d):
                out[b, i] = moments[0, i] * row[BETA, i]
            normalise(out[b], one)
        else:
            panels(
                work,
                pair,
                chain,
                mu[b],
                deviations,
                live,
                origin,
                unit,
                widest,
                one,
                single,
                out[b],
            )


@njit(**INNER)
def _set_apart(mu, sigma, k, out, near):
    """The places left for scores that are neither surely among the k largest nor surely not.

    Scores fall into groups whose ranges do not meet.  Those of groups above the one with the k-th
    place have probability 1, those below 0; ``near`` gets the means of that one group, minus
    infinity for all others.  Positions within a group are known to rounding of its own width.
    """
    upper = mu + REACH * sigma
    order = np.argsort(-upper)
    finite = np.count_nonzero(mu > -np.inf)
    for i in range(mu.size):
        near[i] = -np.inf
        out[i] = 0.0
    if finite <= k:
        for j in range(mu.size):
            share = (k - finite) / max(mu.size - finite, 1)
            out[order[j]] = 1.0 if j < finite else share
        return 0
    begin, end = 0, 0
    while end < k:
        begin = end
        low = np.inf
        while end < finite and (end == begin or upper[order[end]] >= low):
            low = min(low, mu[order[end]] - REACH * sigma[order[end]])
            end += 1
    for j in range(end):
        if end == k or j < begin:
            out[order[j]] = 1.0
        else:
            near[order[j]] = mu[order[j]]
    return 0 if end == k else k - begin


@njit(cache=True, nogil=True, error_model="numpy")
def topk(mu, sigma, k, single, out, begin, end):
    """Probabilities of rows [begin, end) that each score is among the k > 1 largest.

    O(QCk) a row.  Parameters as for ``argmax``.
    """
    d = mu.shape[1]
    work = allocate(d, FIRST_ORDER)
    pair, chain = allocate_chain(d, k)
    near, inside = np.empty(d), np.empty(d)
    for b in range(begin, end):
        deviations = sigma[0 if sigma.shape[0] == 1 else b]
        left = _set_apart(mu[b], deviations, k, out[b], near)
        if left:
            live, origin, unit, widest = load(work.row, near, deviations, left)
            panels(
                work,
                pair,
                chain,
                near,
                deviations,
                live,
                origin,
                unit,
                widest,
                left,
                single,
                inside,
            )
            for i in range(d):
                if near[i] > -np.inf:
                    out[b, i] = inside[i]
