"""Tensor products of Gauss rules in the variables of Genz's recursion.

Variable i of the recursion is a standard normal y_i below a limit b that depends on the earlier
ones.  ``genz`` draws it; here it is integrated over,

    int_{-inf}^b phi(y) g(y) dy = Phi(b) sum_k w_k(b) g(y_k(b)),

by the n-point Gauss rule of the normal distribution below b, which is exact for polynomials g of
degree 2n - 1; nodes and weights are tabulated (``mvnorth._precompute.gauss``).  Between two limits
it is Gauss and Legendre's rule for phi(y) g(y), or between distant limits the difference of two
such integrals.  The last variable is integrated exactly.  The
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
SPARSE_LANES = 16384
MOST = 24  # nodes of a variable between two limits, at most
RULES = 12  # nodes of a variable with one limit, at most
CHUNK = 8  # numbers of a rule that are evaluated at a time
DEGREE = 11  # of the polynomials in the table
LEFT, RIGHT = -6.0, 9.0
FAR_PIECES, NEAR_PIECES = 8, 30
_FAR_SCALE = FAR_PIECES * LEFT * LEFT
_NEAR_SCALE = NEAR_PIECES / (RIGHT - LEFT)
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_DISTANT = 3.0  # limits: from here on a variable has the nodes of both of them
_EXTRA_NODES = 1.25  # for phi between two limits, a unit of width
_SAFETY, _FIRST_SAFETY = 4.0, 20.0  # of claimed errors, the latter with three nodes
_HISTORY = 0.2  # share of earlier changes that counts as evidence
_FASTEST, _SLOWEST = 0.05, 0.97  # range of the ratio of successive changes
_TENSOR = 8  # coordinates for which there are products of rules
_TENSOR_ONLY = 5  # coordinates up to which there are no sparse grids
_SPARSE_LEVELS = 4
_PROMISING = 0.1  # change at the first level of a sparse grid, beyond which it is given up
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
def _weigh_below(upper, slope, curve, acc, lanes, begin, end):
    """Multiply Phi(b), b = upper + acc, and the tilt into the weights; leave b in lanes[3]."""
    weight, power, exponent, limit = lanes[0], lanes[1], lanes[2], lanes[3]
    for p in range(begin, end):
        b = upper + acc[p]
        f, k = ndtr_parts(b)
        limit[p] = b
        weight[p] *= f
        power[p] += k
        exponent[p] += acc[p] * (slope + curve * acc[p])


@inner(FAST)
def _weigh_between(lower, upper, slope, curve, acc, lanes, begin, end):
    """Like ``_weigh_below`` with the probability between two limits."""
    weight, power, exponent = lanes[0], lanes[1], lanes[2]
    for p in range(begin, end):
        _, width, k, _ = interval_parts(lower + acc[p], upper + acc[p])
        weight[p] *= width if width > 0.0 else 0.0
        power[p] += k
        exponent[p] += acc[p] * (slope + curve * acc[p])


@inner(FAST)
def _weigh(lower, upper, slope, curve, i, lanes, begin, end):
    """Multiply the probability between the limits of variable i into the weights."""
    acc = lanes[4 + i]
    if lower is not None and lower[i] > -np.inf:
        _weigh_between(lower[i], upper[i], slope[i], curve[i], acc, lanes, begin, end)
    else:
        _weigh_below(upper[i], slope[i], curve[i], acc, lanes, begin, end)


@inner(FAST)
def _split_below(table, first, n, lanes, later, y, begin, end, to):
    """Split lanes by the n nodes below their limits."""
    count = end - begin
    limit, weight, after = lanes[3], lanes[0], later[0]
    for p in range(count):
        rule_below(table, first, n, limit[begin + p], count, to + p, y, after)
    for k in range(n):
        start = to + k * count
        for p in range(count):
            after[start + p] *= weight[begin + p]
        for a in (1, 2):
            old, new = lanes[a], later[a]
            for p in range(count):
                new[start + p] = old[begin + p]


@inner(FAST)
def _split_between(
    table, first, n, legendre, m, lower, upper, slope, curve, acc, lanes, later, y, begin, end, to
):  # fmt: skip
    """Split lanes by m nodes between two limits.

    Between distant limits these are n nodes below one limit, and n below the other to subtract,
    on the side where that is less.
    """
    count = end - begin
    for p in range(count):
        a = acc[begin + p]
        low, high = lower + a, upper + a
        weight, power = lanes[0, begin + p], lanes[1, begin + p]
        exponent = lanes[2, begin + p] + a * (slope + curve * a)
        if upper - lower > _DISTANT:
            side = 1.0 if low + high < 0.0 else -1.0
            for part in range(2):
                limit = side * high if (side > 0.0) == (part == 0) else side * low
                f, shift = ndtr_parts(limit)
                start = to + part * n * count + p
                rule_below(table, first, n, limit, count, start, y, later[0])
                for k in range(n):
                    q = start + k * count
                    y[q] *= side
                    later[0, q] *= weight * f if part == 0 else -weight * f
                    later[1, q], later[2, q] = power + shift, exponent
        else:
            half = max(0.0, 0.5 * (high - low))
            for k in range(m):
                q = to + k * count + p
                node = 0.5 * (low + high) + half * legendre[0, k]
                y[q] = node
                later[0, q], later[1, q] = weight * half * legendre[1, k], power
                later[2, q] = exponent - 0.5 * node * node - _LOG_SQRT_2_PI


@inner(FAST)
def _finish(lanes, reference, begin, end):
    """Return the sum of weight * 2**(power - reference) * exp(exponent)."""
    weight, power, exponent = lanes[0], lanes[1], lanes[2]
    total = 0.0
    for p in range(begin, end):
        f, k = exp_parts(exponent[p], 0.0)
        weight[p] *= f * power_of_two(power[p] + k - reference)
    for p in range(begin, end):
        total += weight[p]
    return total


@inner(FAST)
def _split(
    T, lower, upper, slope, curve, m, n, table, starts, legendre, i, d, lanes, later, y, begin,
    end, to,
):  # fmt: skip
    """Split lanes ``begin`` to ``end``, written from ``to`` on, by the nodes of variable i.

    n nodes with one limit, which ``_weigh`` has multiplied into the weights, and m with two.
    """
    if lower is not None and lower[i] > -np.inf:
        _split_between(
            table, starts[n], n, legendre[m], m, lower[i], upper[i], slope[i], curve[i],
            lanes[4 + i], lanes, later, y, begin, end, to,
        )  # fmt: skip
    else:
        _split_below(table, starts[n], n, lanes, later, y, begin, end, to)
    count = end - begin
    for r in range(i + 1, d):
        t, old, new = T[r, i], lanes[4 + r], later[4 + r]
        for k in range(m):
            start = to + k * count
            for p in range(count):
                new[start + p] = old[begin + p] - t * y[start + p]


@inner(FAST)
def _sum_lanes(
    T, lower, upper, slope, curve, counts, table, starts, legendre, begin, d, reference, lanes, y
):  # fmt: skip
    """Return the sum over all nodes of the variables from ``begin`` on, and its reference.

    The lane to start with is the first one of lanes[begin % 2].
    """
    count = 1
    for i in range(begin, d - 1):
        now, later = lanes[i % 2], lanes[(i + 1) % 2]
        if lower is None or lower[i] == -np.inf:
            _weigh_below(upper[i], slope[i], curve[i], now[4 + i], now, 0, count)
        m, n = counts[0, i], counts[1, i]
        _split(
            T, lower, upper, slope, curve, m, n, table, starts, legendre, i, d, now, later, y, 0,
            count, 0,
        )  # fmt: skip
        count *= m
    now = lanes[(d - 1) % 2]
    _weigh(lower, upper, slope, curve, d - 1, now, 0, count)
    if reference == -np.inf:
        reference = now[1, 0] + exp_parts(now[2, 0], 0.0)[1]
    return _finish(now, reference, 0, count), reference


@inner(FAST)
def _start_lane(lanes, d):
    """Make the first lane one without variables."""
    lanes[0, 0], lanes[1, 0], lanes[2, 0] = 1.0, 0.0, 0.0
    for i in range(d):
        lanes[4 + i, 0] = 0.0


@inner(FAST)
def sum_nodes(
    T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes, outer, y,
):  # fmt: skip
    """Return the sum over all nodes, and its reference; the first variables in loops."""
    begin, inner_count = d - 1, 1
    while begin > 0 and inner_count * counts[0, begin - 1] <= LANES:
        begin -= 1
        inner_count *= counts[0, begin]
    _start_lane(lanes[0], d)
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
            now = lanes[i % 2]
            if lower is None or lower[i] == -np.inf:
                _weigh_below(upper[i], slope[i], curve[i], now[4 + i], now, 0, 1)
            _split(
                T, lower, upper, slope, curve, counts[0, i], counts[1, i], table, starts, legendre,
                i, d, now, outer[i], y, 0, 1, 0,
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
def _between(lower, upper, i, n):
    """Return the nodes of variable i with two limits, if it has n with one."""
    if lower is None or lower[i] == -np.inf:
        return n
    width = upper[i] - lower[i]
    return 2 * n if width > _DISTANT else n + int(_EXTRA_NODES * width)


@inner()
def _set_counts(counts, n, fewer, lower, upper, d):
    """Set the nodes of all variables, n - fewer but 2 at least; return how many points that is."""
    points = 1.0
    for i in range(d - 1):
        counts[1, i] = n if n <= 2 else max(2, n - fewer[i])
        counts[0, i] = _between(lower, upper, i, counts[1, i])
        points *= counts[0, i]
    return points


@inner(FAST)
def _tensor(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    d, lanes, outer, y, counts,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by products of rules.

    Variables that matter less, by the change when they alone have three nodes instead of two, have
    fewer nodes.
    """
    change, fewer, alone = np.empty(RULES + 1), np.zeros(d, np.int64), np.zeros(d)
    before, reference, spent = 0.0, -np.inf, 0.0
    log_prob, error = -np.inf, np.inf
    for n in range(1, RULES + 1):
        points = _set_counts(counts, n, fewer, lower, upper, d)
        if n > 1 and spent + points > most:
            break
        total, reference = sum_nodes(
            T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes,
            outer, y,
        )  # fmt: skip
        spent += points
        if not 0.0 < total < np.inf:
            return log_prob, np.inf, spent
        change[n] = max(abs(total - before) / total, _LEAST_CHANGE)
        before = total
        log_prob = log_scaled(total, reference) + log_scale
        target = max(relative, absolute * math.exp(-log_prob))
        error = claim(change, n)
        if n > 3:
            for i in range(d - 1):
                if counts[1, i] == 2:
                    error += _SAFETY * alone[i]
        if error <= target:
            break
        if n == 2 and d > _EQUAL and spent + 1.5 * (d - 1) * points < most:
            largest = 0.0
            for i in range(d - 1):
                counts[0, i], counts[1, i] = _between(lower, upper, i, 3), 3
                changed, _ = sum_nodes(
                    T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference,
                    lanes, outer, y,
                )  # fmt: skip
                alone[i] = max(abs(changed - total) / total, _LEAST_CHANGE)
                largest = max(largest, alone[i])
                spent += points * counts[0, i] / _between(lower, upper, i, 2)
                counts[0, i], counts[1, i] = _between(lower, upper, i, 2), 2
            for i in range(d - 1):
                fewer[i] = int(min(_MOST_FEWER, math.log10(largest / alone[i])))
        if n > 3 and target > 0.0:
            # Go on only if the points will do, should the error fall on as it did.
            ratio, expected, m, need = math.sqrt(change[n] / change[n - 2]), error, n, 0.0
            while expected > target and m <= RULES and spent + need <= most:
                m += 1
                expected *= ratio
                need = _set_counts(counts, m, fewer, lower, upper, d)
            if expected > target or m > RULES or spent + need > most:
                break
    return log_prob, error, spent


@inner(FAST)
def _sparse_sums(
    T, lower, upper, slope, curve, table, starts, legendre, levels, d, reference, lanes, y, sums
):  # fmt: skip
    """Sum over all products whose variables have s nodes more than one each, together.

    sums[s] for s = 0 to ``levels``.  All of it in one pass: lanes are in order of the nodes that
    they have spent.
    """
    ends, new_ends = np.empty(levels + 1, np.int64), np.empty(levels + 1, np.int64)
    for s in range(levels + 1):
        ends[s] = 1
    _start_lane(lanes[0], d)
    for i in range(d - 1):
        now, later = lanes[i % 2], lanes[(i + 1) % 2]
        if lower is None or lower[i] == -np.inf:
            _weigh_below(upper[i], slope[i], curve[i], now[4 + i], now, 0, ends[levels])
        to = 0
        for spent in range(levels + 1):
            for s in range(spent + 1):
                begin = 0 if s == 0 else ends[s - 1]
                if begin == ends[s]:
                    continue
                n = 1 + spent - s
                _split(
                    T, lower, upper, slope, curve, n, n, table, starts, legendre, i, d, now, later,
                    y, begin, ends[s], to,
                )  # fmt: skip
                to += n * (ends[s] - begin)
            new_ends[spent] = to
        for s in range(levels + 1):
            ends[s] = new_ends[s]
    now = lanes[(d - 1) % 2]
    _weigh(lower, upper, slope, curve, d - 1, now, 0, ends[levels])
    if reference == -np.inf:
        reference = now[1, 0] + exp_parts(now[2, 0], 0.0)[1]
    for s in range(levels + 1):
        sums[s] = _finish(now, reference, 0 if s == 0 else ends[s - 1], ends[s])
    return reference


@inner(FAST)
def _sparse(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    d, lanes, y,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by Smolyak's sparse grids.

    Level q combines the products whose variables have q nodes more than one each, together, and
    those with fewer: sum_s (-1)**(q - s) C(d - 2, q - s) sums[s].
    """
    change, sums = np.empty(_SPARSE_LEVELS + 2), np.zeros(_SPARSE_LEVELS + 1)
    reference, spent, before = -np.inf, 0.0, 0.0
    log_prob, error = -np.inf, np.inf
    for level in range(1, _SPARSE_LEVELS + 1):
        points = 1.0  # C(2 (d - 1) + level, level)
        for s in range(level):
            points *= (2.0 * (d - 1) + s + 1.0) / (s + 1.0)
        if spent + points > most or points > y.size:
            break
        reference = _sparse_sums(
            T, lower, upper, slope, curve, table, starts, legendre, level, d, reference, lanes, y,
            sums,
        )  # fmt: skip
        spent += points
        if level == 1:
            before = sums[0]
        total, share = 0.0, 1.0
        for s in range(level, -1, -1):
            total += share * sums[s]
            share *= -(d - 2.0 - (level - s)) / (level - s + 1.0)
        if not 0.0 < total < np.inf:
            return log_prob, np.inf, spent
        change[level + 1] = max(abs(total - before) / total, _LEAST_CHANGE)
        before = total
        log_prob = log_scaled(total, reference) + log_scale
        target = max(relative, absolute * math.exp(-log_prob))
        error = claim(change, level + 1)
        if error <= target or (level == 1 and change[2] > _PROMISING):
            break
        if level > 1 and target > 0.0:
            ratio = change[level + 1] / change[level]
            if error * ratio ** (_SPARSE_LEVELS - level) > target:
                break
    return log_prob, error, spent


@kernel(FAST)
def gauss_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    log_prob, rel_error, used, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end``, with more nodes until the tolerance is met.

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
    size = LANES if d <= _TENSOR_ONLY else SPARSE_LANES
    lanes, outer = np.empty((2, d + 4, size)), np.empty((d, d + 4, MOST))
    y, counts = np.empty(size), np.empty((2, d), np.int64)
    for b in range(begin, end):
        low = row_or_none(lower, b)
        log_prob[b], rel_error[b], spent = -np.inf, np.inf, 0.0
        sparse = d > _TENSOR_ONLY
        for i in range(d - 1):
            sparse = sparse and _between(low, upper[b], i, 1) == 1
        target = relative
        if sparse:
            log_prob[b], rel_error[b], spent = _sparse(
                T[b], low, upper[b], slope[b], curve[b], log_scale[b], table, starts, legendre,
                relative, absolute, most, d, lanes, y,
            )  # fmt: skip
            target = max(relative, absolute * math.exp(-log_prob[b]))
        if d <= _TENSOR and not rel_error[b] <= target:
            value, error, points = _tensor(
                T[b], low, upper[b], slope[b], curve[b], log_scale[b], table, starts, legendre,
                relative, absolute, most - spent, d, lanes, outer, y, counts,
            )  # fmt: skip
            spent += points
            if error <= rel_error[b]:
                log_prob[b], rel_error[b] = value, error
        used[b] = int(spent)
