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

from mvnorth._compile import FAST, inner
from mvnorth._scalar.exp_log import exp_parts, power_of_two
from mvnorth._scalar.gauss import (
    CHUNK,
    DEGREE,
    DISTANT,
    place_rule,
    rule_width,
)
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import interval_parts, ndtr_parts

LANES = 4096
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_ZERO, _ONE = np.int64(0), np.int64(1)  # constants of another type are compiled again
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
        if upper - lower > DISTANT:
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
    count = _ONE
    for i in range(begin, d - 1):
        now, later = lanes[i % 2], lanes[(i + 1) % 2]
        if lower is None or lower[i] == -np.inf:
            _weigh_below(upper[i], slope[i], curve[i], now[4 + i], now, _ZERO, count)
        m, n = counts[0, i], counts[1, i]
        _split(
            T, lower, upper, slope, curve, m, n, table, starts, legendre, i, d, now, later, y,
            _ZERO, count, _ZERO,
        )  # fmt: skip
        count *= m
    now = lanes[(d - 1) % 2]
    _weigh(lower, upper, slope, curve, d - 1, now, _ZERO, count)
    if reference == -np.inf:
        reference = now[1, 0] + exp_parts(now[2, 0], 0.0)[1]
    return _finish(now, reference, _ZERO, count), reference


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
    begin, inner_count = d - 1, np.int64(1)
    while begin > 0 and inner_count * counts[0, begin - 1] <= LANES:
        begin -= 1
        inner_count *= counts[0, begin]
    _start_lane(lanes[0], d)
    chosen = np.zeros(d, np.int64)
    grand = 0.0
    i = 0
    while i >= 0:
        if i < begin and chosen[i] == 0:  # its lane is the first one of lanes[i % 2]
            now = lanes[i % 2]
            if lower is None or lower[i] == -np.inf:
                _weigh_below(upper[i], slope[i], curve[i], now[4 + i], now, _ZERO, _ONE)
            _split(
                T, lower, upper, slope, curve, counts[0, i], counts[1, i], table, starts, legendre,
                i, d, now, outer[i], y, _ZERO, _ONE, _ZERO,
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


@inner(FAST)
def sparse_sums(
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
            _weigh_below(upper[i], slope[i], curve[i], now[4 + i], now, _ZERO, ends[levels])
        to = _ZERO
        for spent in range(levels + 1):
            for s in range(spent + 1):
                begin = _ZERO if s == 0 else ends[s - 1]
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
    _weigh(lower, upper, slope, curve, d - 1, now, _ZERO, ends[levels])
    if reference == -np.inf:
        reference = now[1, 0] + exp_parts(now[2, 0], 0.0)[1]
    for s in range(levels + 1):
        sums[s] = _finish(now, reference, _ZERO if s == 0 else ends[s - 1], ends[s])
    return reference
