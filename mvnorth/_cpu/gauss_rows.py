"""Gauss rules with as many nodes as the tolerance takes, see ``mvnorth._cpu.gauss``."""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.gauss import LANES, sparse_sums, sum_nodes
from mvnorth._linalg.reorder import row_or_none
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.gauss import (
    EQUAL,
    LEAST_CHANGE,
    MOST,
    RULES,
    SPARSE_LANES,
    SPARSE_LEVELS,
    STEEP,
    allow_for_steps,
    between,
    claim,
    claimed_error,
    largest_error,
    meets,
    points_suffice,
    set_counts,
    set_fewer,
    sparse_is_done,
    sparse_points,
    steepness,
)


@inner(FAST)
def _tensor(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, d, lanes, outer, y, counts,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by products of rules.

    Variables that matter less, by the change when they alone have three nodes instead of two, have
    fewer nodes.
    """
    change, fewer, alone = np.empty(RULES + 1), np.zeros(d, np.int64), np.zeros(d)
    before, reference, spent, points = 0.0, -np.inf, 0.0, 0.0
    log_prob, error = -np.inf, np.inf
    n, probed = 1, -1  # the variable that has one node more than others, if any
    while n <= RULES:
        if probed < 0:
            points = set_counts(counts, n, fewer, lower, upper, d)
            if spent + points > most:
                break
        else:
            counts[0, probed], counts[1, probed] = between(lower, upper, probed, n + 1), n + 1
        total, reference = sum_nodes(
            T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes,
            outer, y,
        )  # fmt: skip
        if probed >= 0:
            alone[probed] = max(abs(total - before) / before, LEAST_CHANGE)
            usual = between(lower, upper, probed, n)
            spent += points * counts[0, probed] / usual
            counts[0, probed], counts[1, probed] = usual, n
            probed += 1
            if probed == d - 1:
                set_fewer(fewer, alone, d)
                n, probed = n + 1, -1
            continue
        spent += points
        if not 0.0 < total < np.inf:
            return log_prob, np.inf, spent
        change[n] = max(abs(total - before) / total, LEAST_CHANGE)
        before = total
        log_prob = min(0.0, log_scaled(total, reference) + log_scale)
        target = largest_error(relative, absolute, log_prob)
        plain = claimed_error(change, n, counts, alone, d)
        error = allow_for_steps(plain, n, steep)
        if error < np.inf and error <= target:
            break
        if n == 2 and d > EQUAL and spent + 1.5 * (d - 1) * points < most:
            probed = 0
            continue
        if n > 3 and target > 0.0 and not points_suffice(
            change, n, plain, target, spent, most, counts, fewer, lower, upper, d
        ):  # fmt: skip
            break
        n += 1
    return log_prob, error, spent


@inner(FAST)
def _sparse(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, d, lanes, y,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by Smolyak's sparse grids.

    Level q combines the products whose variables have q nodes more than one each, together, and
    those with fewer: sum_s (-1)**(q - s) C(d - 2, q - s) sums[s].
    """
    change, sums = np.empty(SPARSE_LEVELS + 2), np.zeros(SPARSE_LEVELS + 1)
    reference, spent, before = -np.inf, 0.0, 0.0
    log_prob, error = -np.inf, np.inf
    for level in range(1, SPARSE_LEVELS + 1):
        points = sparse_points(d - 1, level)
        if spent + points > most or points > SPARSE_LANES:
            break
        reference = sparse_sums(
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
        change[level + 1] = max(abs(total - before) / total, LEAST_CHANGE)
        before = total
        log_prob = min(0.0, log_scaled(total, reference) + log_scale)
        target = largest_error(relative, absolute, log_prob)
        error = allow_for_steps(claim(change, level + 1), level + 1, steep)
        if sparse_is_done(change, level, error, target):
            break
    return log_prob, error, spent


@kernel(FAST)
def gauss_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    log_prob, rel_error, spent, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end`` by products of rules, unless they are solved already.

    Parameters
    ----------
    T, lower, upper, slope, curve : as for ``genz_sums``, of full rank
    log_scale : (B,) what logarithms of weights are to be increased by
    table, starts, legendre : see ``mvnorth._methods.gauss``
    relative, absolute : the tolerance; 0 for as many nodes as there are points
    most : points at most
    log_prob, rel_error, spent : (B,) results so far, replaced by better ones
    """
    d = upper.shape[1]
    lanes, outer = np.empty((2, d + 4, LANES)), np.empty((d, d + 4, MOST))
    y, counts = np.empty(LANES), np.empty((2, d), np.int64)
    for b in range(begin, end):
        steep = steepness(T[b], d)
        if steep > STEEP or meets(relative, absolute, log_prob[b], rel_error[b]):
            continue
        value, error, points = _tensor(
            T[b], row_or_none(lower, b), upper[b], slope[b], curve[b], log_scale[b], table, starts,
            legendre, relative, absolute, most - spent[b], steep, d, lanes, outer, y, counts,
        )  # fmt: skip
        spent[b] += points
        if error < rel_error[b] or (error == rel_error[b] and value > -np.inf):
            log_prob[b], rel_error[b] = value, error


@kernel(FAST)
def sparse_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    log_prob, rel_error, spent, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end`` by sparse grids, see ``gauss_rows``.

    Rows with two limits that are not close are left as they are.
    """
    d = upper.shape[1]
    lanes, y = np.empty((2, d + 4, SPARSE_LANES)), np.empty(SPARSE_LANES)
    for b in range(begin, end):
        low = row_or_none(lower, b)
        steep = steepness(T[b], d)
        suited = steep <= STEEP
        for i in range(d - 1):
            suited = suited and between(low, upper[b], i, 1) == 1
        if suited:
            log_prob[b], rel_error[b], spent[b] = _sparse(
                T[b], low, upper[b], slope[b], curve[b], log_scale[b], table, starts, legendre,
                relative, absolute, most, steep, d, lanes, y,
            )  # fmt: skip
