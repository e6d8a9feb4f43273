"""Tensor products of Gauss rules in the variables of Genz's recursion.

Variable i of the recursion is a standard normal y_i below a limit b that depends on the earlier
ones.  ``genz`` draws it; here it is integrated over,

    int_{-inf}^b phi(y) g(y) dy = Phi(b) sum_k w_k(b) g(y_k(b)),

by the n-point Gauss rule of the normal distribution below b, which is exact for polynomials g of
degree 2n - 1; nodes and weights are tabulated (``mvnorth._precompute.gauss``).  Between two limits
it is Gauss and Legendre's rule for phi(y) g(y), or between distant limits the difference of two
such integrals.  Where twelve nodes are not enough, larger rules are Gauss and Legendre's.  The last
variable is integrated exactly.  The error falls exponentially with n, because g has no singularity,
whereas the integrand of a lattice rule has one where a uniform variable is 0.  The method is ours.

Lanes are the combinations of nodes so far; a variable with n nodes turns N lanes into n N, lane p
into lanes k N + p.  The first variables are run through one combination after the other if there
are more than LANES in all.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner
from mvnorth._cpu.gauss_moments import add_moments, total
from mvnorth._scalar.exp_log import exp_parts, power_of_two
from mvnorth._scalar.gauss import (
    CHUNK,
    DEGREE,
    DISTANT,
    RULES,
    cut_interval,
    place_rule,
    rule_width,
)
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import interval_parts, ndtr_parts

LANES = 4096
PADDING = 40  # of rows of lanes, so that they do not compete for the same lines of a cache
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_ZERO, _ONE = np.int64(0), np.int64(1)  # constants of another type are compiled again
BLOCK = 32  # lanes whose rules are evaluated before they are put in order
_chunk, _block = stack_array(CHUNK), stack_array(BLOCK)
_rules = stack_array(BLOCK * rule_width.py_func(RULES))


@inner(FAST)
def rule_below(table, first, n, b, values):
    """Set values[:n] and values[n : 2n] of the n-point rule below b; return ``(high, scale)``.

    Nodes are high - scale * values, and what follows are the weights.  ``first`` is where the rule
    starts in the table; ``values`` has a whole number of chunks.
    """
    piece, x, high, scale = place_rule(b)
    width = rule_width(n)
    start = first + piece * (DEGREE + 1) * width
    value = _chunk()
    for chunk in range(0, width, CHUNK):
        top = table[start + chunk : start + chunk + CHUNK]
        for c in range(CHUNK):
            value[c] = top[c]
        for j in range(1, DEGREE + 1):
            row = start + j * width + chunk
            coefficient = table[row : row + CHUNK]
            for c in range(CHUNK):
                value[c] = value[c] * x + coefficient[c]
        to = values[chunk : chunk + CHUNK]
        for c in range(CHUNK):
            to[c] = value[c]
    return high, scale


@inner(FAST)
def _weigh_below(upper, slope, curve, i, lanes, begin, end):
    """Multiply Phi(b), b = upper + acc, and the tilt into the weights; leave b in lanes[3]."""
    acc, weight, power = lanes[4 + i, begin:end], lanes[0, begin:end], lanes[1, begin:end]
    exponent, limit = lanes[2, begin:end], lanes[3, begin:end]
    for p in range(end - begin):
        b = upper + acc[p]
        f, k = ndtr_parts(b)
        limit[p] = b
        weight[p] *= f
        power[p] += k
        exponent[p] += acc[p] * (slope + curve * acc[p])


@inner(FAST)
def _weigh_between(lower, upper, slope, curve, i, lanes, begin, end):
    """Like ``_weigh_below`` with the probability between two limits."""
    acc, weight, power = lanes[4 + i, begin:end], lanes[0, begin:end], lanes[1, begin:end]
    exponent = lanes[2, begin:end]
    for p in range(end - begin):
        _, width, k, _ = interval_parts(lower + acc[p], upper + acc[p])
        weight[p] *= width if width > 0.0 else 0.0
        power[p] += k
        exponent[p] += acc[p] * (slope + curve * acc[p])


@inner(FAST)
def _weigh(lower, upper, slope, curve, i, lanes, begin, end):
    """Multiply the probability between the limits of variable i into the weights."""
    if lower is not None and lower[i] > -np.inf:
        _weigh_between(lower[i], upper[i], slope[i], curve[i], i, lanes, begin, end)
    else:
        _weigh_below(upper[i], slope[i], curve[i], i, lanes, begin, end)


@inner(FAST)
def copy_lanes(lanes, later, row, m, begin, end, to):
    """Copy a row of lanes ``begin`` to ``end`` m times, to lanes ``to`` and on."""
    count = end - begin
    old = lanes[row, begin:end]
    for k in range(m):
        new = later[row, to + k * count : to + (k + 1) * count]
        for p in range(count):
            new[p] = old[p]


@inner(FAST)
def _split_below(table, first, n, lanes, later, y, begin, end, to):
    """Split lanes by the n nodes below their limits."""
    count, width = end - begin, rule_width(n)
    values, high, scale = _rules(), _block(), _block()
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        limit = lanes[3, begin + start : begin + start + size]
        weight = lanes[0, begin + start : begin + start + size]
        for p in range(size):
            rule = values[p * width : (p + 1) * width]
            high[p], scale[p] = rule_below(table, first, n, limit[p], rule)
        for k in range(n):
            q = to + k * count + start
            node, after = y[q : q + size], later[0, q : q + size]
            for p in range(size):
                node[p] = high[p] - scale[p] * values[p * width + k]
                after[p] = weight[p] * values[p * width + n + k]
    copy_lanes(lanes, later, 1, n, begin, end, to)
    copy_lanes(lanes, later, 2, n, begin, end, to)


@inner(FAST)
def _split_between(
    table, first, n, legendre, m, lower, upper, slope, curve, i, lanes, later, y, begin, end, to
):  # fmt: skip
    """Split lanes by m nodes between two limits.

    Between distant limits these are n nodes below one limit, and n below the other to subtract,
    on the side where that is less.
    """
    count = end - begin
    values = _rules()
    for p in range(count):
        a = lanes[4 + i, begin + p]
        low, high = lower + a, upper + a
        weight, power = lanes[0, begin + p], lanes[1, begin + p]
        exponent = lanes[2, begin + p] + a * (slope + curve * a)
        if upper - lower > DISTANT:
            side = 1.0 if low + high < 0.0 else -1.0
            for part in range(2):
                limit = side * high if (side > 0.0) == (part == 0) else side * low
                f, shift = ndtr_parts(limit)
                top, scale = rule_below(table, first, n, limit, values)
                share = weight * f if part == 0 else -weight * f
                for k in range(n):
                    q = to + (part * n + k) * count + p
                    y[q] = side * (top - scale * values[k])
                    later[0, q] = share * values[n + k]
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
def _split_wide(legendre, m, lower, upper, slope, curve, i, lanes, later, y, begin, end, to):
    """Split lanes by the m nodes of Legendre's rule for phi(y) g(y), where phi is not negligible.

    ``lower`` is minus infinity where there is one limit.
    """
    count = end - begin
    acc, power = lanes[4 + i, begin:end], lanes[1, begin:end]
    weight, exponent = lanes[0, begin:end], lanes[2, begin:end]
    for k in range(m):
        x, share, start = legendre[0, k], legendre[1, k], to + k * count
        node, after = y[start : start + count], later[0, start : start + count]
        rise, shift = later[2, start : start + count], later[1, start : start + count]
        for p in range(count):
            a = acc[p]
            low, high = cut_interval(lower + a, upper + a)
            half = max(0.0, 0.5 * (high - low))
            point = 0.5 * (low + high) + half * x
            node[p] = point
            after[p] = weight[p] * half * share
            shift[p] = power[p]
            tilt = a * (slope + curve * a)
            rise[p] = exponent[p] + tilt - 0.5 * point * point - _LOG_SQRT_2_PI


@inner(FAST)
def _finish(lanes, reference, begin, end):
    """Return the sum of weight * 2**(power - reference) * exp(exponent)."""
    weight, power, exponent = lanes[0, begin:end], lanes[1, begin:end], lanes[2, begin:end]
    for p in range(end - begin):
        f, k = exp_parts(exponent[p], 0.0)
        weight[p] *= f * power_of_two(power[p] + k - reference)
    return total(weight)


@inner(FAST)
def _split(
    T, lower, upper, slope, curve, m, n, table, starts, legendre, i, d, lanes, later, y, begin,
    end, to, moments,
):  # fmt: skip
    """Split lanes ``begin`` to ``end``, written from ``to`` on, by the nodes of variable i.

    n nodes with one limit, which ``_weigh`` has multiplied into the weights, and m with two; more
    than RULES are Legendre's in either case.  For ``moments`` nodes are kept.
    """
    if n > RULES:
        low = -np.inf if lower is None else lower[i]
        _split_wide(
            legendre[m], m, low, upper[i], slope[i], curve[i], i, lanes, later, y, begin, end, to
        )
    elif lower is not None and lower[i] > -np.inf:
        _split_between(
            table, starts[n], n, legendre[m], m, lower[i], upper[i], slope[i], curve[i],
            i, lanes, later, y, begin, end, to,
        )  # fmt: skip
    else:
        _split_below(table, starts[n], n, lanes, later, y, begin, end, to)
    count = end - begin
    for r in range(i + 1, d):
        t, old = T[r, i], lanes[4 + r, begin:end]
        for k in range(m):
            start = to + k * count
            node, new = y[start : start + count], later[4 + r, start : start + count]
            for p in range(count):
                new[p] = old[p] - t * node[p]
    if moments is not None:
        node, kept = y[to : to + m * count], later[4 + i, to : to + m * count]
        for p in range(m * count):
            kept[p] = node[p]
        for r in range(i):
            copy_lanes(lanes, later, 4 + r, m, begin, end, to)


@inner(FAST)
def _sum_lanes(
    T, lower, upper, slope, curve, counts, table, starts, legendre, begin, d, reference, lanes, y,
    moments,
):  # fmt: skip
    """Return the sum over all nodes of the variables from ``begin`` on, and its reference.

    The lane to start with is the first one of lanes[begin % 2].  ``moments`` are added to, if not
    None.
    """
    count = _ONE
    for i in range(begin, d - 1):
        now, later = lanes[i % 2], lanes[(i + 1) % 2]
        m, n = counts[0, i], counts[1, i]
        if n <= RULES and (lower is None or lower[i] == -np.inf):
            _weigh_below(upper[i], slope[i], curve[i], i, now, _ZERO, count)
        _split(
            T, lower, upper, slope, curve, m, n, table, starts, legendre, i, d, now, later, y,
            _ZERO, count, _ZERO, moments,
        )  # fmt: skip
        count *= m
    now = lanes[(d - 1) % 2]
    _weigh(lower, upper, slope, curve, d - 1, now, _ZERO, count)
    if reference == -np.inf:
        reference = now[1, 0] + exp_parts(now[2, 0], 0.0)[1]
    whole = _finish(now, reference, _ZERO, count)
    if moments is not None:
        add_moments(lower, upper, now, moments.origin, moments.sums[0], d, _ZERO, count)
    return whole, reference


@inner(FAST)
def _start_lane(lanes, d):
    """Make the first lane one without variables."""
    lanes[0, 0], lanes[1, 0], lanes[2, 0] = 1.0, 0.0, 0.0
    for i in range(d):
        lanes[4 + i, 0] = 0.0


@inner(FAST)
def sum_nodes(
    T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes, outer, y,
    moments,
):  # fmt: skip
    """Return the sum over all nodes, and its reference; the first variables in loops.

    Moments, if not None, become those of all nodes.  counts[2] is work.
    """
    if moments is not None:
        moments.sums[0, :] = 0.0
    begin, inner_count = d - 1, np.int64(1)
    while begin > 0 and inner_count * counts[0, begin - 1] <= LANES:
        begin -= 1
        inner_count *= counts[0, begin]
    _start_lane(lanes[0], d)
    chosen = counts[2]
    chosen[:] = 0
    grand = 0.0
    i = 0
    while i >= 0:
        if i < begin and chosen[i] == 0:  # its lane is the first one of lanes[i % 2]
            now = lanes[i % 2]
            if counts[1, i] <= RULES and (lower is None or lower[i] == -np.inf):
                _weigh_below(upper[i], slope[i], curve[i], i, now, _ZERO, _ONE)
            _split(
                T, lower, upper, slope, curve, counts[0, i], counts[1, i], table, starts, legendre,
                i, d, now, outer[i], y, _ZERO, _ONE, _ZERO, moments,
            )  # fmt: skip
        if i == begin:
            part, reference = _sum_lanes(
                T, lower, upper, slope, curve, counts, table, starts, legendre, begin, d,
                reference, lanes, y, moments,
            )  # fmt: skip
            grand += part
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
            for r in range(d):
                after[4 + r, 0] = outer[i, 4 + r, k]
            i += 1
    return grand, reference


@inner(FAST)
def sparse_sums(
    T, lower, upper, slope, curve, table, starts, legendre, levels, d, reference, lanes, y, sums,
    moments,
):  # fmt: skip
    """Sum over all products whose variables have s nodes more than one each, together.

    sums[s], and those of moments if not None, for s = 0 to ``levels``.  All of it in one pass:
    lanes are in order of the nodes that they have spent.
    """
    ends, new_ends = np.empty(levels + 1, np.int64), np.empty(levels + 1, np.int64)
    for s in range(levels + 1):
        ends[s] = 1
    _start_lane(lanes[0], d)
    for i in range(d - 1):
        now, later = lanes[i % 2], lanes[(i + 1) % 2]
        if lower is None or lower[i] == -np.inf:
            _weigh_below(upper[i], slope[i], curve[i], i, now, _ZERO, ends[levels])
        to = _ZERO
        for spent in range(levels + 1):
            for s in range(spent + 1):
                begin = _ZERO if s == 0 else ends[s - 1]
                if begin == ends[s]:
                    continue
                n = 1 + spent - s
                _split(
                    T, lower, upper, slope, curve, n, n, table, starts, legendre, i, d, now, later,
                    y, begin, ends[s], to, moments,
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
        begin = _ZERO if s == 0 else ends[s - 1]
        sums[s] = _finish(now, reference, begin, ends[s])
        if moments is not None:
            moments.sums[s, :] = 0.0
            add_moments(lower, upper, now, moments.origin, moments.sums[s], d, begin, ends[s])
    return reference
