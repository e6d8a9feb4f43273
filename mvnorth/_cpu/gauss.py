"""Tensor products of Gauss rules in the variables of Genz's recursion.

Variable i of the recursion is a standard normal y_i below a limit b that depends on the earlier
ones.  ``genz`` draws it; here it is integrated over,

    int_{-inf}^b phi(y) g(y) dy = Phi(b) sum_k w_k(b) g(y_k(b)),

by the n-point Gauss rule of the normal distribution below b, which is exact for polynomials g of
degree 2n - 1; nodes and weights are tabulated (``mvnorth._precompute.gauss``).  Between two limits
it is Gauss and Legendre's rule for phi(y) g(y).  The last variable is integrated exactly.  The
error falls exponentially with n, because g has no singularity, whereas the integrand of a lattice
rule has one where a uniform variable is 0.  The method is ours.

Lanes are the combinations of nodes so far; a variable with n nodes turns N lanes into n N, lane p
into lanes k N + p.  The first variables are run through one combination after the other if there
are more than LANES in all.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._linalg.reorder import row_or_none
from mvnorth._scalar.exp_log import exp_parts, log_scaled, power_of_two
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import interval_parts, ndtr_parts

LANES = 4096
MOST = 24  # nodes of a variable between two limits, at most
RULES = 12  # nodes of a variable with one limit, at most
CHUNK = 8  # numbers of a rule that are evaluated at a time
DEGREE = 11  # of the polynomials in the table
LEFT, RIGHT = -6.0, 9.0
FAR_PIECES, NEAR_PIECES = 8, 30
_FAR_SCALE = FAR_PIECES * LEFT * LEFT
_NEAR_SCALE = NEAR_PIECES / (RIGHT - LEFT)
_IRRELEVANT = 76.0  # 2 log of the ratio of densities beyond which a limit does not matter
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_ONE_LIMIT = 2.0 * math.sqrt(_IRRELEVANT)  # width beyond which one of two limits never matters
_EXTRA_NODES, _MOST_EXTRA = (
    1.25,
    12.0,
)  # nodes for phi between two limits: a unit of width, and at most
_SAFETY, _FIRST_SAFETY = 4.0, 20.0  # of claimed errors, the latter with three nodes
_HISTORY = 0.2  # share of earlier changes that counts as evidence
_FASTEST, _SLOWEST = 0.05, 0.97  # range of the ratio of successive changes
_EQUAL = 4  # coordinates up to which all variables have the same number of nodes
_MOST_FEWER = 3.0  # nodes of a variable, than the one that matters most has
_LEAST_CHANGE = 1e-15  # what rounding makes of no change
_CONVERGED = 1e-13  # changes that may be rounding
_chunk = stack_array(CHUNK)


@inner(FAST)
def rule_below(table, first, n, b, stride, begin, y, weight):
    """Write nodes y and weights of the n-point rule below b, at begin + k * stride.

    ``first`` is where the rule starts in the table.
    """
    high = b if b < RIGHT else RIGHT
    far = high < LEFT
    place = _FAR_SCALE / (high * high) if far else (high - LEFT) * _NEAR_SCALE
    piece = int(place)
    last = FAR_PIECES - 1 if far else NEAR_PIECES - 1
    piece = last if piece > last else piece
    x = 2.0 * (place - piece) - 1.0
    width = -(-2 * n // CHUNK) * CHUNK
    start = first + (piece if far else piece + FAR_PIECES) * (DEGREE + 1) * width
    scale = -1.0 / high if far else 1.0
    value = _chunk()
    for chunk in range(0, width, CHUNK):
        for c in range(CHUNK):
            value[c] = table[start + chunk + c]
        for j in range(1, DEGREE + 1):
            row = start + j * width + chunk
            for c in range(CHUNK):
                value[c] = value[c] * x + table[row + c]
        for c in range(CHUNK):
            k = chunk + c
            if k < n:
                y[begin + k * stride] = high - scale * value[c]
            elif k < 2 * n:
                weight[begin + (k - n) * stride] = value[c]


@inner(FAST)
def _weigh_below(upper, slope, curve, acc, weight, power, exponent, limit, count):
    """Multiply Phi(b), b = upper + acc, and the tilt into the weights; leave b in ``limit``."""
    for p in range(count):
        limit[p] = upper + acc[p]
        f, k = ndtr_parts(limit[p])
        weight[p] *= f
        power[p] += k
        exponent[p] += acc[p] * (slope + curve * acc[p])


@inner(FAST)
def _weigh_between(lower, upper, slope, curve, acc, weight, power, exponent, count):
    """Like ``_weigh_below`` with the probability between two limits."""
    for p in range(count):
        _, width, k, _ = interval_parts(lower + acc[p], upper + acc[p])
        weight[p] *= width if width > 0.0 else 0.0
        power[p] += k
        exponent[p] += acc[p] * (slope + curve * acc[p])


@inner(FAST)
def _split_below(table, first, n, limit, state, later, y, count):
    """Split lanes by the nodes below their limits; ``later`` has the lanes after it."""
    weight, after = state[0], later[0]
    for p in range(count):
        rule_below(table, first, n, limit[p], count, p, y, after)
    for k in range(n):
        for p in range(count):
            after[k * count + p] *= weight[p]
        for a in (1, 2):
            old, new = state[a], later[a]
            for p in range(count):
                new[k * count + p] = old[p]


@inner(FAST)
def _split_between(
    table, first, n, legendre, m, lower, upper, slope, curve, acc, state, later, y, count
):  # fmt: skip
    """Split lanes by m nodes between two limits, or n <= m where only one of them matters."""
    for p in range(count):
        low, high = lower + acc[p], upper + acc[p]
        weight, power = state[0, p], state[1, p]
        exponent = state[2, p] + acc[p] * (slope + curve * acc[p])
        below, above = min(high, 0.0), max(low, 0.0)
        without_low = low < -math.sqrt(below * below + _IRRELEVANT)
        without_high = high > math.sqrt(above * above + _IRRELEVANT)
        if without_low or without_high:
            limit = high if without_low else -low
            f, k2 = ndtr_parts(limit)
            rule_below(table, first, n, limit, count, p, y, later[0])
            for k in range(n):
                q = k * count + p
                y[q] = y[q] if without_low else -y[q]
                later[0, q] *= weight * f
                later[1, q], later[2, q] = power + k2, exponent
            for k in range(n, m):
                q = k * count + p
                y[q] = y[p]
                later[0, q], later[1, q], later[2, q] = 0.0, power, exponent
        else:
            half = 0.5 * (high - low)
            half = half if half > 0.0 else 0.0
            for k in range(m):
                q = k * count + p
                node = 0.5 * (low + high) + half * legendre[0, k]
                y[q] = node
                later[0, q], later[1, q] = weight * half * legendre[1, k], power
                later[2, q] = exponent - 0.5 * node * node - _LOG_SQRT_2_PI


@inner(FAST)
def _move_limits(T, i, d, n, acc, later_acc, y, count):
    """What later rows have of the variables so far: acc - T_ri y for each lane."""
    for r in range(i + 1, d):
        t, old, new = T[r, i], acc[r], later_acc[r]
        for k in range(n):
            for p in range(count):
                new[k * count + p] = old[p] - t * y[k * count + p]


@inner(FAST)
def _finish(weight, power, exponent, reference, count):
    """Turn weights into weight * 2**(power - reference) * exp(exponent); return their sum."""
    total = 0.0
    for p in range(count):
        f, k = exp_parts(exponent[p], 0.0)
        weight[p] *= f * power_of_two(power[p] + k - reference)
    for p in range(count):
        total += weight[p]
    return total


@inner(FAST)
def _split(T, lower, upper, slope, curve, counts, table, starts, legendre, i, d, lane, later, y,
           count):  # fmt: skip
    """Split lanes by the nodes of variable i."""
    m, n = counts[0, i], counts[1, i]
    acc = lane[4:]
    if lower is not None and lower[i] > -np.inf:
        _split_between(
            table, starts[n], n, legendre[m], m, lower[i], upper[i], slope[i], curve[i], acc[i],
            lane, later, y, count,
        )  # fmt: skip
    else:
        weight, power, exponent, limit = lane[0], lane[1], lane[2], lane[3]
        _weigh_below(upper[i], slope[i], curve[i], acc[i], weight, power, exponent, limit, count)
        _split_below(table, starts[n], n, limit, lane, later, y, count)
    _move_limits(T, i, d, m, acc, later[4:], y, count)


@inner(FAST)
def _sum_lanes(
    T, lower, upper, slope, curve, counts, table, starts, legendre, begin, d, reference, lanes, y,
):  # fmt: skip
    """Return the sum over all nodes of the variables from ``begin`` on, and its reference.

    See ``gauss_rows``; the lane to start with is the first one of lanes[begin % 2].
    """
    count, last = 1, d - 1
    for i in range(begin, last):
        _split(
            T, lower, upper, slope, curve, counts, table, starts, legendre, i, d, lanes[i % 2],
            lanes[(i + 1) % 2], y[i], count,
        )  # fmt: skip
        count *= counts[0, i]
    state = lanes[last % 2]
    weight, power, exponent, acc = state[0], state[1], state[2], state[4 + last]
    if lower is not None and lower[last] > -np.inf:
        _weigh_between(
            lower[last], upper[last], slope[last], curve[last], acc, weight, power, exponent, count
        )
    else:
        _weigh_below(
            upper[last], slope[last], curve[last], acc, weight, power, exponent, y[last], count
        )
    if reference == -np.inf:
        reference = power[0] + exp_parts(exponent[0], 0.0)[1]
    return _finish(weight, power, exponent, reference, count), reference


@inner(FAST)
def sum_nodes(
    T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes, outer, y,
):  # fmt: skip
    """Return the sum over all nodes, and its reference; the first variables in loops."""
    begin, inner_count = d - 1, 1
    while begin > 0 and inner_count * counts[0, begin - 1] <= LANES:
        begin -= 1
        inner_count *= counts[0, begin]
    before = lanes[0]
    before[0, 0], before[1, 0], before[2, 0] = 1.0, 0.0, 0.0
    for i in range(d):
        before[4 + i, 0] = 0.0
    if begin == 0:
        return _sum_lanes(
            T, lower, upper, slope, curve, counts, table, starts, legendre, 0, d, reference,
            lanes, y,
        )  # fmt: skip
    chosen = np.zeros(d, np.int64)
    grand = 0.0
    i = 0
    while i >= 0:
        if i < begin and chosen[i] == 0:  # its lane is the first one of lanes[i % 2]
            _split(
                T, lower, upper, slope, curve, counts, table, starts, legendre, i, d, lanes[i % 2],
                outer[i], y[i], 1,
            )  # fmt: skip
        if i == begin:
            total, reference = _sum_lanes(
                T, lower, upper, slope, curve, counts, table, starts, legendre, begin, d,
                reference, lanes, y,
            )  # fmt: skip
            grand += total
            i -= 1
        elif chosen[i] == counts[0, i]:
            chosen[i] = 0
            i -= 1
        else:
            k = chosen[i]
            chosen[i] += 1
            after = lanes[(i + 1) % 2]
            for a in range(3):
                after[a, 0] = outer[i, a, k]
            for r in range(i + 1, d):
                after[4 + r, 0] = outer[i, 4 + r, k]
            i += 1
    return grand, reference


@inner()
def claim(change, n):
    """Return a bound on the relative error of the sum with n nodes a variable, from ``change``.

    change[k] is the relative change from k - 1 to k nodes.  Two sums may agree by accident, so
    earlier changes count as well, and changes that do not fall are taken for the start of a long
    series.  The constants are measured (docs/gauss.md).
    """
    if n < 3:
        return np.inf
    evidence, share, ratio = 0.0, 1.0, _FASTEST
    for k in range(n, max(1, n - 3), -1):
        evidence = max(evidence, share * change[k])
        share *= _HISTORY
    for k in range(n, max(2, n - 3), -1):
        ratio = max(ratio, change[k] / change[k - 1])
    ratio = min(ratio, _SLOWEST)
    series = ratio / (1.0 - ratio) if change[n] > _CONVERGED else 1.0
    return (_FIRST_SAFETY if n == 3 else _SAFETY) * evidence * series


@inner()
def _set_counts(counts, n, fewer, lower, upper, d):
    """Set the nodes of all variables, n - fewer but 2 at least; return how many points that is."""
    points = 1.0
    for i in range(d - 1):
        nodes = n if n <= 2 else max(2, n - fewer[i])
        counts[0, i] = counts[1, i] = nodes
        if lower is not None and upper[i] - lower[i] < _ONE_LIMIT:
            extra = min(_MOST_EXTRA, _EXTRA_NODES * (upper[i] - lower[i]))
            counts[0, i] = min(MOST, nodes + int(extra))
        points *= counts[0, i]
    return points


@kernel(FAST)
def gauss_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    log_prob, rel_error, used, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end``, with more nodes until the tolerance is met.

    Variables that matter less, by the change when they alone have three nodes instead of two, have
    fewer nodes.

    Parameters
    ----------
    T, lower, upper, slope, curve : as for ``genz_sums``, of full rank
    log_scale : (B,) what logarithms of weights are to be increased by
    table, starts, legendre : see ``mvnorth._methods.gauss``
    relative, absolute : the tolerance; 0 for as many nodes as there are points
    most : points at most
    log_prob, rel_error, used : (B,) output; the error is infinite where nothing is known
    """
    d = upper.shape[1]
    lanes, outer = np.empty((2, d + 4, LANES)), np.empty((d, d + 4, MOST))
    y, change = np.empty((d, LANES)), np.empty(RULES + 1)
    counts, fewer, alone = np.empty((2, d), np.int64), np.zeros(d, np.int64), np.zeros(d)
    for b in range(begin, end):
        low = row_or_none(lower, b)
        before, reference, spent = 0.0, -np.inf, 0.0
        log_prob[b], rel_error[b] = -np.inf, np.inf
        for i in range(d):
            fewer[i], alone[i] = 0, 0.0
        for n in range(1, RULES + 1):
            points = _set_counts(counts, n, fewer, low, upper[b], d)
            if n > 1 and spent + points > most:
                break
            total, reference = sum_nodes(
                T[b], low, upper[b], slope[b], curve[b], counts, table, starts, legendre, d,
                reference, lanes, outer, y,
            )  # fmt: skip
            spent += points
            if not 0.0 < total < np.inf:
                rel_error[b] = np.inf
                break
            change[n] = max(abs(total - before) / total, _LEAST_CHANGE)
            before = total
            log_prob[b] = log_scaled(total, reference) + log_scale[b]
            target = max(relative, absolute * math.exp(-log_prob[b]))
            rel_error[b] = claim(change, n)
            if n > 3:
                for i in range(d - 1):
                    if counts[1, i] == 2:
                        rel_error[b] += _SAFETY * alone[i]
            if rel_error[b] <= target:
                break
            if n == 2 and d > _EQUAL:
                largest = 0.0
                for i in range(d - 1):
                    counts[0, i], counts[1, i] = counts[0, i] + 1, 3
                    changed, _ = sum_nodes(
                        T[b], low, upper[b], slope[b], curve[b], counts, table, starts, legendre,
                        d, reference, lanes, outer, y,
                    )  # fmt: skip
                    alone[i] = max(abs(changed - total) / total, _LEAST_CHANGE)
                    largest = max(largest, alone[i])
                    spent += points * counts[0, i] / (counts[0, i] - 1)
                    counts[0, i], counts[1, i] = counts[0, i] - 1, 2
                for i in range(d - 1):
                    fewer[i] = int(min(_MOST_FEWER, math.log10(largest / alone[i])))
            if n > 3 and target > 0.0:
                # Go on only if the points will do, should the error fall on as it did.
                ratio, error, m, need = math.sqrt(change[n] / change[n - 2]), rel_error[b], n, 0.0
                while error > target and m <= RULES and spent + need <= most:
                    m += 1
                    error *= ratio
                    need = _set_counts(counts, m, fewer, low, upper[b], d)
                if error > target or m > RULES or spent + need > most:
                    break
        used[b] = int(spent)
