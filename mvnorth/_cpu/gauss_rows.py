"""Gauss rules with as many nodes as the tolerance takes, see ``mvnorth._cpu.gauss``."""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.gauss import LANES, PADDING, sparse_sums, sum_nodes
from mvnorth._cpu.gauss_moments import (
    FIRST,
    SECOND,
    keep_derivatives,
    new_moments,
    place_origin,
    start_moments,
    store_derivatives,
    update_derivatives,
)
from mvnorth._linalg.reorder import row_or_none
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.gauss import (
    EQUAL,
    FIRST_LARGE,
    LARGE_COORDINATES,
    LARGE_SIZES,
    LAST_LARGE,
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
    join_changes,
    largest_error,
    meets,
    next_large,
    points_suffice,
    set_counts,
    set_fewer,
    set_large,
    sparse_claim,
    sparse_is_done,
    sparse_points,
    steepness,
)

_FURTHER = 2  # more nodes a variable for derivatives than the probability needs, at most
_FURTHER_SPARSE = 1  # the same of levels


@inner(FAST)
def _claim_derivatives(moments, change, n, counts, alone, steep, d):
    """Set the claimed errors of the derivatives, and return the largest."""
    largest = 0.0
    for k in (FIRST, SECOND):
        error = allow_for_steps(claimed_error(change[k], n, counts, alone[k], d), n, steep)
        error += moments.rounding[k] / moments.size[k]
        moments.error[k] = error
        largest = max(largest, error)
    return largest


@inner(FAST)
def _large(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, d, lanes, outer, y, counts, alone, reference, before, moments,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by products of large rules.

    Variables that matter less have fewer nodes, or small rules.  ``before`` is the last sum by
    small rules, and ``reference`` its reference.
    """
    change = np.ones((3, LARGE_SIZES + 2))
    log_prob, error, spent, k, n = -np.inf, np.inf, 0.0, 1, FIRST_LARGE
    while n <= LAST_LARGE:
        points = set_large(counts, n, alone, lower, upper, d)
        if spent + points > most:
            break
        total, reference = sum_nodes(
            T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes,
            outer, y, moments,
        )  # fmt: skip
        spent += points
        if not 0.0 < total < np.inf:
            return log_prob, np.inf, spent
        k += 1
        change[0, k] = max(abs(total - before) / total, LEAST_CHANGE)
        before = total
        log_prob = min(0.0, log_scaled(total, reference) + log_scale)
        error = allow_for_steps(claim(change[0], k), n, steep)
        if moments is not None:
            update_derivatives(moments, moments.sums[0], change, k, d)
            keep_derivatives(moments)
            for j in (FIRST, SECOND):
                bound = allow_for_steps(claim(change[j], k), n, steep)
                moments.error[j] = bound + moments.rounding[j] / moments.size[j]
        if meets(relative, absolute, log_prob, error):
            break
        n = next_large(n)
    return log_prob, error, spent


@inner(FAST)
def _probe(
    T, lower, upper, slope, curve, table, starts, legendre, d, lanes, outer, y, counts, fewer,
    reference, before, alone, moments,
):  # fmt: skip
    """Set ``alone`` from the changes when a variable alone has one or three nodes instead of two.

    ``before`` is the sum with two of each.  Return the points spent.
    """
    spent = 0.0
    for i in range(d - 1):
        for n in (1, 3):
            others = set_counts(counts, 2, fewer, lower, upper, d) / counts[0, i]
            counts[0, i], counts[1, i] = between(lower, upper, i, n), n
            spent += others * counts[0, i]
            total, _ = sum_nodes(
                T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference,
                lanes, outer, y, moments,
            )  # fmt: skip
            alone[0, i] = join_changes(alone[0, i], abs(total - before) / before, n)
            if moments is not None:
                first, second = alone[FIRST, i], alone[SECOND, i]
                update_derivatives(moments, moments.sums[0], alone, i, d)
                alone[FIRST, i] = join_changes(first, alone[FIRST, i], n)
                alone[SECOND, i] = join_changes(second, alone[SECOND, i], n)
    return spent


@inner(FAST)
def _tensor(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, d, lanes, outer, y, counts, moments, base, stretch, shift, diagonal,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by products of rules.

    Variables that matter less, by the change when they alone have three nodes instead of two, have
    fewer nodes.  Derivatives are left in ``moments``, if not None.
    """
    change, fewer, alone = np.empty((3, RULES + 1)), np.zeros(d, np.int64), np.zeros((3, d))
    before, reference, spent, two = 0.0, -np.inf, 0.0, 0.0  # the sum with two nodes of each
    log_prob, error, target, n, probed = -np.inf, np.inf, 0.0, 1, False
    enough, used = 0, 0.0  # nodes with which the probability is known, and points; or 0
    if moments is not None:
        set_counts(counts, 1, fewer, lower, upper, d)
        start_moments(moments)
        sum_nodes(
            T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes,
            outer, y, moments,
        )  # fmt: skip
        place_origin(moments, base, T, stretch, shift, diagonal, d)
    while n <= RULES:
        points = set_counts(counts, n, fewer, lower, upper, d)
        if spent + points > most:
            break
        total, reference = sum_nodes(
            T, lower, upper, slope, curve, counts, table, starts, legendre, d, reference, lanes,
            outer, y, moments,
        )  # fmt: skip
        spent += points
        if not 0.0 < total < np.inf:
            return log_prob, np.inf, spent
        two = total if n == 2 else two
        plain = 0.0
        if enough == 0:
            change[0, n] = max(abs(total - before) / total, LEAST_CHANGE)
            before = total
            log_prob = min(0.0, log_scaled(total, reference) + log_scale)
            target = largest_error(relative, absolute, log_prob)
            plain = claimed_error(change[0], n, counts, alone[0], d)
            error = allow_for_steps(plain, n, steep)
            used = spent
            if error < np.inf and error <= target:
                enough = n
        if moments is None:
            if enough > 0:
                break
        else:
            update_derivatives(moments, moments.sums[0], change, n, d)
            keep_derivatives(moments)
            largest = _claim_derivatives(moments, change, n, counts, alone, steep, d)
            if enough > 0 and (largest <= target or n == enough + _FURTHER):
                break
        if n == 2 and d > EQUAL and spent + 2.0 * (d - 1) * points < most:
            spent += _probe(
                T, lower, upper, slope, curve, table, starts, legendre, d, lanes, outer, y, counts,
                fewer, reference, two, alone, moments,
            )  # fmt: skip
            set_fewer(fewer, alone[0], d)
            probed = True
        if n > 3 and target > 0.0 and enough == 0 and not points_suffice(
            change[0], n, plain, target, spent, most, counts, fewer, lower, upper, d
        ):  # fmt: skip
            break
        n += 1
    if enough > 0:
        return log_prob, error, used
    if d <= LARGE_COORDINATES and n > 3 and target > 0.0:
        if not probed:
            fewer[:] = 0
            spent += _probe(
                T, lower, upper, slope, curve, table, starts, legendre, d, lanes, outer, y, counts,
                fewer, reference, two, alone, None,
            )  # fmt: skip
        value, bound, more = _large(
            T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute,
            most - spent, steep, d, lanes, outer, y, counts, alone[0], reference, before, moments,
        )  # fmt: skip
        spent += more
        if bound < error:
            return value, bound, spent
    return log_prob, error, spent


@inner(FAST)
def _combine_levels(sums, level, d):
    """Return sum_s (-1)**(level - s) C(d - 2, level - s) sums[s]."""
    total, share = 0.0, 1.0
    for s in range(level, -1, -1):
        total += share * sums[s]
        share *= -(d - 2.0 - (level - s)) / (level - s + 1.0)
    return total


@inner(FAST)
def _sparse(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    steep, d, lanes, y, moments, base, stretch, shift, diagonal,
):  # fmt: skip
    """Return log P, its relative error and the points spent, by Smolyak's sparse grids.

    Level q combines the products whose variables have q nodes more than one each, together, and
    those with fewer.  Derivatives are left in ``moments``, if not None.
    """
    change, sums = np.empty((3, SPARSE_LEVELS + 2)), np.zeros(SPARSE_LEVELS + 1)
    reference, spent, before = -np.inf, 0.0, 0.0
    log_prob, error, target = -np.inf, np.inf, 0.0
    enough, used = 0, 0.0  # level at which the probability is known, and points; or 0
    if moments is not None:
        start_moments(moments)
        sparse_sums(
            T, lower, upper, slope, curve, table, starts, legendre, np.int64(0), d, reference,
            lanes, y, sums, moments,
        )  # fmt: skip
        place_origin(moments, base, T, stretch, shift, diagonal, d)
    for level in range(1, SPARSE_LEVELS + 1):
        points = sparse_points(d - 1, level)
        if spent + points > most or points > SPARSE_LANES:
            break
        reference = sparse_sums(
            T, lower, upper, slope, curve, table, starts, legendre, level, d, reference, lanes, y,
            sums, moments,
        )  # fmt: skip
        spent += points
        total = _combine_levels(sums, level, d)
        if not 0.0 < total < np.inf:
            return log_prob, np.inf, spent
        done = False
        if enough == 0:
            if level == 1:
                before = sums[0]
            change[0, level + 1] = max(abs(total - before) / total, LEAST_CHANGE)
            before = total
            log_prob = min(0.0, log_scaled(total, reference) + log_scale)
            target = largest_error(relative, absolute, log_prob)
            error = allow_for_steps(sparse_claim(change[0], level), level + 1, steep)
            done = sparse_is_done(change[0], level, error, target)
            used = spent
            if error < np.inf and error <= target:
                enough = level
        if moments is not None:
            if level == 1:
                update_derivatives(moments, moments.sums[0].copy(), change, 1, d)
                keep_derivatives(moments)
            combined = moments.sums[level].copy()
            for i in range(d + 1):
                for j in range(i + 1):
                    combined[i, j] = _combine_levels(moments.sums[:, i, j], level, d)
            update_derivatives(moments, combined, change, level + 1, d)
            keep_derivatives(moments)
            largest = 0.0
            for k in (FIRST, SECOND):
                bound = allow_for_steps(sparse_claim(change[k], level), level + 1, steep)
                moments.error[k] = bound + moments.rounding[k] / moments.size[k]
                largest = max(largest, moments.error[k])
            if enough > 0:
                done = largest <= target or level == enough + _FURTHER_SPARSE
        if done:
            break
    return log_prob, error, used


@kernel(FAST)
def gauss_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    base, stretch, shift, diagonal, log_prob, rel_error, spent, first, second, errors, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end`` by products of rules, unless they are solved already.

    Parameters
    ----------
    T, lower, upper, slope, curve : as for ``genz_sums``, of full rank
    log_scale : (B,) what logarithms of weights are to be increased by
    table, starts, legendre : see ``mvnorth._methods.gauss``
    relative, absolute : the tolerance; 0 for as many nodes as there are points
    most : points at most
    base, stretch, shift, diagonal : T before tilting and other arrays of ``System``; ``base`` is
        None if no derivatives are wanted
    log_prob, rel_error, spent : (B,) results so far, replaced by better ones
    first, second : (B, d) and (B, d, d) derivatives of log P in the mean and, times 2, in the
        covariance, in the order of integration, see ``gauss_moments``
    errors : (B, 2) their errors relative to the largest of them
    """
    d = upper.shape[1]
    lanes, outer = np.empty((2, d + 4, LANES + PADDING)), np.empty((d, d + 4, MOST))
    y, counts = np.empty(LANES), np.empty((3, d), np.int64)
    moments = new_moments(base, 1, d)
    for b in range(begin, end):
        steep = steepness(T[b], d)
        if steep > STEEP or meets(relative, absolute, log_prob[b], rel_error[b]):
            continue
        value, error, points = _tensor(
            T[b], row_or_none(lower, b), upper[b], slope[b], curve[b], log_scale[b], table, starts,
            legendre, relative, absolute, most - spent[b], steep, d, lanes, outer, y, counts,
            moments, row_or_none(base, b), stretch[b], shift[b], diagonal[b],
        )  # fmt: skip
        spent[b] += points
        if error < rel_error[b] or (error == rel_error[b] and value > -np.inf):
            log_prob[b], rel_error[b] = value, error
            if base is not None:
                store_derivatives(moments, first[b], second[b], errors[b])


@kernel(FAST)
def sparse_rows(
    T, lower, upper, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
    base, stretch, shift, diagonal, log_prob, rel_error, spent, first, second, errors, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end`` by sparse grids, see ``gauss_rows``.

    Rows with two limits that are not close are left as they are.
    """
    d = upper.shape[1]
    lanes, y = np.empty((2, d + 4, SPARSE_LANES + PADDING)), np.empty(SPARSE_LANES)
    moments = new_moments(base, SPARSE_LEVELS + 1, d)
    for b in range(begin, end):
        low = row_or_none(lower, b)
        steep = steepness(T[b], d)
        suited = steep <= STEEP
        for i in range(d - 1):
            suited = suited and between(low, upper[b], i, 1) == 1
        if suited and not meets(relative, absolute, log_prob[b], rel_error[b]):
            log_prob[b], rel_error[b], spent[b] = _sparse(
                T[b], low, upper[b], slope[b], curve[b], log_scale[b], table, starts, legendre,
                relative, absolute, most, steep, d, lanes, y, moments, row_or_none(base, b),
                stretch[b], shift[b], diagonal[b],
            )  # fmt: skip
            if base is not None:
                store_derivatives(moments, first[b], second[b], errors[b])
