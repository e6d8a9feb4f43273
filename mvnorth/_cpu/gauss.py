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
from mvnorth._scalar.gauss import (
    CHUNK,
    DEGREE,
    EQUAL,
    LEAST_CHANGE,
    MOST,
    RULES,
    claimed_error,
    largest_error,
    place_rule,
    points_suffice,
    rule_width,
    set_counts,
    set_fewer,
    single_limit,
)
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import interval_parts, ndtr_parts

LANES = 4096
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_chunk = stack_array(CHUNK)


@inner(FAST)
def rule_below(table, first, n, b, stride, begin, y, weight):
    """Write nodes y and weights of the n-point rule below b, at begin + k * stride.

    ``first`` is where the rule starts in the table.
    """
    piece, x, high, scale = place_rule(b)
    width = rule_width(n)
    start = first + piece * (DEGREE + 1) * width
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
        sign, limit = single_limit(low, high)
        if sign != 0.0:
            f, k2 = ndtr_parts(limit)
            rule_below(table, first, n, limit, count, p, y, later[0])
            for k in range(n):
                q = k * count + p
                y[q] *= sign
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
            points = set_counts(counts, n, fewer, low, upper[b], d)
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
            change[n] = max(abs(total - before) / total, LEAST_CHANGE)
            before = total
            log_prob[b] = log_scaled(total, reference) + log_scale[b]
            target = largest_error(relative, absolute, log_prob[b])
            rel_error[b] = claimed_error(change, n, counts, alone, d)
            if rel_error[b] <= target:
                break
            if n == 2 and d > EQUAL:
                for i in range(d - 1):
                    counts[0, i], counts[1, i] = counts[0, i] + 1, 3
                    changed, _ = sum_nodes(
                        T[b], low, upper[b], slope[b], curve[b], counts, table, starts, legendre,
                        d, reference, lanes, outer, y,
                    )  # fmt: skip
                    alone[i] = max(abs(changed - total) / total, LEAST_CHANGE)
                    spent += points * counts[0, i] / (counts[0, i] - 1)
                    counts[0, i], counts[1, i] = counts[0, i] - 1, 2
                set_fewer(fewer, alone, d)
            if n > 3 and target > 0.0 and not points_suffice(
                change, n, rel_error[b], target, spent, most, counts, fewer, low, upper[b], d
            ):  # fmt: skip
                break
        used[b] = int(spent)
