"""Who wins: the probabilities that each of independent normal scores is the largest.

For s_i ~ N(mu_i, sigma_i**2), with F(s) = prod_j Phi((s - mu_j)/sigma_j) and h = phi/Phi,

    Pr(argmax = i) = int F(s) h((s - mu_i)/sigma_i) / sigma_i ds,

for all i on one grid of s: O(QC).  The integrands add up to F', the density of the maximum, whose
integral is 1: what the sum misses of it is the error of the trapezoidal rule as such, and the rule
applied to F'' gives the part of the error that is a quarter of a period off, see
factor_trapezoid.py.  F' need not be log-concave where deviations differ; rows for which the rule
does not suffice go to panels.
"""

import numpy as np

from mvnorth._compile import FAST, SUMS, inner, kernel, scalar
from mvnorth._cpu.argmax_nodes import add_slopes, allocate_chain, centre_at, load, lowest
from mvnorth._cpu.argmax_panels import normalise, panels, tolerance
from mvnorth._cpu.factor_nodes import (
    BEND,
    BETA,
    FIRST_ORDER,
    NODES,
    NUMERATOR,
    POWER,
    SCALE,
    SLOPE,
    STRETCH,
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
from mvnorth._scalar.argmax import (
    BEFORE,
    FIRST,
    FOUND,
    LEAST_BEND,
    LEFT,
    MODE_STEPS,
    OTHER,
    REACH,
    RIGHT,
    SUFFICES,
    TOTAL,
    first_nodes,
    hides,
    proceed,
    score_node,
    score_slopes,
    step_to_score,
)
from mvnorth._scalar.one_factor import curve_map
from mvnorth._scalar.phi_mills import short


@inner(SUMS)
def _slopes(row, s):
    """The sum S of h_i / sigma_i at s and its first three derivatives, to 1e-6."""
    zeroth = first = second = third = 0.0
    for i in range(row.shape[1]):
        beta = row[BETA, i]
        x = ((row[M, i] + s) + row[VECTOR, i]) * row[SCALE, i]
        _, _, _, h, r, _ = short(x)
        terms = score_slopes(h, r, beta)
        zeroth += terms[0]
        first -= terms[1]
        second += terms[2]
        third += terms[3]
    return zeroth, first, second, third


@inner(FAST)
def _find_mode(row, low, high, start):
    """``(s, width, skewness)`` of a mode of F', within 0.1 widths; the width is 0 without one."""
    s, width, skew, state = start, 0.0, 0.0, 0
    for _ in range(MODE_STEPS):
        zeroth, first, second, third = _slopes(row, s)
        state, s, low, high, width, skew = step_to_score(s, low, high, zeroth, first, second, third)
        if state == FOUND:
            break
    return s, width, skew


@inner(FAST)
def _sweep(work, place, start, step, count, towards):
    """Add ``count`` nodes from t = start on to sums and moments."""
    row, nodes, mills, sums = work.row, work.nodes, work.mills, work.sums
    for begin in range(0, count, NODES):
        n = min(NODES, count - begin)
        place_nodes(work, place, n, start + step * begin, step)
        evaluate(row, nodes, mills, n, 0.0, 0.0, 0.0, place.single)
        total = first = other = 0.0
        for k in range(n):
            weight, plain, odd, change = score_node(
                nodes[NUMERATOR, k], nodes[POWER, k], nodes[STRETCH, k], nodes[TURN, k],
                nodes[SLOPE, k], nodes[BEND, k], place.width, k % 2,
            )  # fmt: skip
            nodes[WEIGHT, k] = weight
            total += plain
            other += odd
            first += change
        sums[TOTAL] += total
        sums[OTHER] += other
        sums[FIRST] += first
        if begin == 0:
            sums[LEFT] = nodes[WEIGHT, 0] / nodes[STRETCH, 0]
        sums[RIGHT] = nodes[WEIGHT, n - 1] * nodes[SLOPE, n - 1]
        sums[BEFORE] = nodes[WEIGHT, n - 2] * nodes[SLOPE, n - 2]  # of the sweep before if n is 1
        if towards is None:
            add_moments(row, nodes, mills, n, 0.0, place.single, work.moments)
        else:
            add_slopes(row, nodes, mills, n, towards, work.moments)


@inner(FAST)
def trapezoid(work, place, allowed, towards):
    """Whether the trapezoidal rule suffices; then the results are proportional to moments.

    They are probabilities if ``towards`` is None, else what ``add_slopes`` gives.  ``allowed`` is
    the error that their sum may have.
    """
    clear(work.sums, work.moments)
    nodes, progress = first_nodes(place.a, place.single)
    state = 0
    while state == 0:
        _sweep(work, place, nodes.start, nodes.stride, nodes.count, towards)
        nodes, progress, state = proceed(work.sums, progress, place.width, place.single, allowed)
    return state == SUFFICES


@inner(FAST)
def find_place(row, mu, live, origin, unit, single):
    """Where to put the trapezoidal rule, with the row centred there; width 0 if it cannot suffice.

    After ``load`` of the row, which gives ``live``, ``origin`` and ``unit``.
    """
    high, start, constant = -np.inf, -np.inf, -np.inf
    for i in range(mu.size):
        if row[V, i] > 0.0:
            high = max(high, -row[M, i] + REACH * row[V, i])
            start = max(start, -row[M, i] + row[V, i])
        elif mu[i] > -np.inf:
            constant = max(constant, (mu[i] - origin) / unit)
    low = lowest(row, np.int64(1))
    s, width, skew = 0.0, 0.0, 0.0
    if live and constant <= low:
        s, width, skew = _find_mode(row, low, high, start)
        centre_at(row, s)
        for i in range(mu.size):
            if hides(row[X, i], row[BETA, i], width, single):
                width = 0.0
    a, tau = curve_map(skew, LEAST_BEND)
    return Place(s, width, a, tau, 0.0, 0.0, single)


@kernel()
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
    row, moments = work.row, work.moments
    allowed = 4.0 * tolerance(d, single)
    for b in range(begin, end):
        deviations = sigma[0 if sigma.shape[0] == 1 else b]
        live, origin, unit, widest = load(row, mu[b], deviations, one)
        place = find_place(row, mu[b], live, origin, unit, single)
        if place.width > 0.0 and trapezoid(work, place, allowed, None):
            for i in range(d):
                out[b, i] = moments[0, i] * row[BETA, i]
            normalise(out[b], one)
        else:
            panels(
                work, None, None, mu[b], deviations, live, origin, unit, widest, one, single, out[b]
            )  # fmt: skip


@scalar()
def argmax_by_panels(work, mu, sigma, single, out):
    """The probabilities (C,) of one row, for any scores."""
    one = np.int64(1)
    live, origin, unit, widest = load(work.row, mu, sigma, one)
    panels(work, None, None, mu, sigma, live, origin, unit, widest, one, single, out)


@inner(FAST)
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


@kernel()
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
                work, pair, chain, near, deviations, live, origin, unit, widest, left, single,
                inside,
            )  # fmt: skip
            for i in range(d):
                if near[i] > -np.inf:
                    out[b, i] = inside[i]
