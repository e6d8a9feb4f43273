"""Probabilities of diag(c) + V V^T with two to four common factors, with derivatives.

The integrand f(z) = phi(z) prod_i [Phi(b_i(z)) - Phi(a_i(z))] is log-concave.  In the variable t,
in which it is round at its mode, it is summed over a lattice with equal weights: over all points
where it has not fallen below exp(-drop) of its peak.  These are found from neighbour to neighbour,
since they are those of a convex set.  The lattice is refined until the error is small enough, and
all points are used again.

Error.  The rule gives the integral plus the Fourier transform F of f summed over all vectors w of
the dual lattice but 0.  The same rule applied to a second derivative of f gives 0 less the sum of
w_j**2 F(w), so that the error is not guessed from two lattices but measured on the one that is
used, as for one factor.  Walls (c much less than V**2) between the points hide from that.  Where
there are some, the differences from the lattices before are the error, each halved for every
lattice since; elsewhere the difference from the one before must be explained by the error that was
measured on that one, else it counts itself.  What lies outside of the points is at most what an
exponential density has there, the worst of all log-concave ones: exp(-drop) sum_(j<k) drop**j / j!.

With weights proportional to f, and h_i = phi(b_i) / (Phi(b_i) - Phi(a_i)), all derivatives are
means over the same points, those in a_i likewise:

    d log P/d upper_i = E[h_i] / sqrt(c_i)       d log P/dV_ij = E[h_i z_j] / sqrt(c_i)
    d log P/dc_i = -E[h_i b_i] / (2 c_i)         d log P/dSigma_ij = E[h_i h_j] / (2 sqrt(c_i c_j))
"""

import math
from collections import namedtuple

import numpy as np

from mvnorth._compile import FAST, inner, kernel, scalar
from mvnorth._cpu.factors_lattice import (
    COUNTS,
    FIRST,
    KEY_OF_MODE,
    LEVELS,
    STEPS,
    clear,
    coordinate,
    dual_length,
    enlarged,
    insert,
    place_points,
    unit,
    volume,
)
from mvnorth._cpu.factors_mode import find_mode
from mvnorth._cpu.factors_points import (
    BETA,
    LOWER,
    NODES,
    NUMERATOR,
    POINTS,
    POWER,
    ROWS,
    SCALE,
    UPPER,
    WEIGHT,
    WIDTH,
    A,
    B,
    K,
    Place,
    V,
    add_moments,
    add_second_derivatives,
    evaluate,
    take_out_quadratic,
)
from mvnorth._cpu.factors_slopes import STEEP, set_derivatives
from mvnorth._scalar.exp_log import power_of_two

_LOG_2 = math.log(2.0)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
_FEW = 2**10  # points for which there is memory to begin with
_SAFETY = 3.0
_ROUNDING = 2e-15  # relative
_NEAR = 8.0  # where Phi is 1
_COARSEST = 1e-3  # relative error at which errors are measured reliably
_LEAST = (4e-15, 2e-7)  # tolerance, in double and in single precision
_STORED = (2e-15, 2e-7)  # rounding of the result for each unit of its logarithm
Work = namedtuple("Work", "row nodes mills place moments earlier pairs pairs_earlier")
# log P; relative errors of P: of the rule, of what is left out and of rounding; the sum of weights;
# those of the two lattices before, and by what the differences of means from theirs are to be
# multiplied to give the error of the last, (2,) both; the length of the shortest dual vectors; the
# density on a wall that is not resolved, at most, 0 without such walls; and the number of points.
Integral = namedtuple(
    "Integral", "log_prob error outside rounding whole earlier share frequency wall used"
)


@inner()
def _allocate(d, k, sides, derivatives, pairs):
    kept = d if derivatives else 0
    moments = np.empty((sides, 1 + k, kept))
    matrix = np.empty((d, d) if pairs else (0, 0))
    place = Place(np.empty(K), np.empty((K, K)), np.empty((2, K)), np.empty((2, K, K)))
    return Work(
        np.empty((ROWS, d)), np.empty((NODES, POINTS)), np.empty((sides, kept, POINTS)), place,
        moments, np.empty((2, *moments.shape)), matrix, np.empty((2, *matrix.shape)),
    )  # fmt: skip


@scalar(FAST)
def _outside(drop, k):
    """Mass that an exponential density in k dimensions has below exp(-drop) of its peak."""
    term = total = 1.0
    for j in range(1, k):
        term *= drop / j
        total += term
    return total * math.exp(-drop)


@inner(FAST)
def _find_neighbours(points, done, half, k, parity, table, waiting, pending):
    """Let the neighbours of a point wait that have not been seen; return how many wait."""
    for v in range(COUNTS[k - 2, parity]):
        key = points[done] + half * STEPS[k - 2, parity, v]
        if insert(table, key):
            waiting[pending] = key
            pending += 1
    return pending


@inner(FAST)
def _weigh(nodes, n, width, top, cut, waiting, points, count):
    """Set the weights of n points, and keep those that count; their number and total."""
    total = 0.0
    for p in range(width):
        weight = nodes[NUMERATOR, p] * power_of_two(nodes[POWER, p] - top)
        inside = p < n and weight >= cut
        nodes[WEIGHT, p] = weight if inside else 0.0
        if inside:
            total += weight
            points[count] = waiting[p]
            count += 1
    return count, total


@inner(FAST)
def _hidden_wall(row, one_sided, points, count, length, frequency):
    """Return the largest |beta| of walls within a step of the points that the lattice misses, or 0.

    A lattice resolves walls whose |beta| is below its frequency divided by STEEP.
    """
    step, steepest = 2.0 * math.pi / frequency, 0.0
    for i in range(row.shape[1]):
        size = 0.0
        for j in range(K):
            size += row[BETA + j, i] ** 2
        size = math.sqrt(size)
        if size * STEEP <= frequency or size <= steepest:
            continue
        for p in range(count):
            shift = 0.0
            for j in range(K):
                shift += row[BETA + j, i] * (length * coordinate(points[p], j))
            near = row[B, i] + shift < size * step + _NEAR
            if not one_sided:
                near = near or row[A, i] + shift > -size * step - _NEAR
            if near:
                steepest = size
                break
    return steepest


@inner(FAST)
def _integrate(work, k, relative, absolute, most, single, derivatives):
    """Return the ``Integral`` of a row; ``derivatives`` is None where no moments are wanted."""
    row, nodes, place = work.row, work.nodes, work.place
    one_sided = work.moments.shape[0] == 1
    mills = work.mills if derivatives is not None else None
    earlier, measured, share = np.ones(2), np.full(2, np.inf), np.ones(2)
    failed = Integral(-np.inf, np.inf, 0.0, 0.0, 1.0, earlier, share, 1.0, 0.0, np.int64(0))
    log_volume, rounding = find_mode(row, k, one_sided, place)
    if not log_volume < np.inf:
        return failed
    log_scale = take_out_quadratic(row, place, one_sided) + log_volume
    for j in range(NODES):
        for p in range(POINTS):
            nodes[j, p] = 0.0
    width = np.int64(8)
    evaluate(row, nodes, mills, width, place, k, one_sided, single)  # at the mode
    top, peak = nodes[POWER, 0], nodes[NUMERATOR, 0]
    if not peak > 0.0:
        return failed
    # By Laplace's approximation of P; the error is compared with the tolerance for P itself.
    log_prob = log_scale + top * _LOG_2
    goal = relative
    if absolute > 0.0:
        goal = max(relative, 0.1 * absolute * math.exp(min(-log_prob, 500.0)))
    least = _LEAST[single] + rounding + 0.5 * _ROUNDING * abs(log_prob)
    drop = 1.0
    while _outside(drop, k) > 0.1 * min(max(goal, least), _COARSEST):
        drop += 0.25
    outside, cut = _outside(drop, k), math.exp(-drop) * peak
    log_scale -= k * _HALF_LOG_2_PI

    table = np.empty(2 * _FEW, dtype=np.int64)
    clear(table)
    points = np.empty(_FEW, dtype=np.int64)
    waiting = np.empty(POINTS + 24, dtype=np.int64)
    waiting[0] = KEY_OF_MODE
    insert(table, KEY_OF_MODE)
    second = np.zeros(k)
    seen, pending, count, used = 1, 1, 0, 0  # the mode waits
    whole, jump, hidden = 0.0, 0.0, 0.0
    if derivatives is not None:
        work.moments[:] = 0.0
        work.pairs[:] = 0.0
    length = unit(k)
    for level in range(LEVELS):
        half = (FIRST >> (level // 2)) // 2
        done = 0
        if level > 0:
            earlier[1], earlier[0] = earlier[0] if level > 1 else whole, whole
        if derivatives is not None:
            work.earlier[1] = work.earlier[0] if level > 1 else work.moments
            work.earlier[0] = work.moments
            work.pairs_earlier[1] = work.pairs_earlier[0] if level > 1 else work.pairs
            work.pairs_earlier[0] = work.pairs
        while done < count or pending > 0:
            while done < count and pending < POINTS:
                known = pending
                pending = _find_neighbours(
                    points, done, half, k, level % 2, table, waiting, pending
                )
                seen += pending - known
                done += 1
                if 2 * seen > table.size - 64:
                    table = enlarged(table)
            n = min(pending, POINTS)
            width = np.int64((n + 7) // 8 * 8)
            if not place_points(nodes, waiting, n, width, length):
                return failed
            evaluate(row, nodes, mills, width, place, k, one_sided, single)
            if count + POINTS > len(points):
                larger = np.empty(2 * len(points), dtype=np.int64)
                larger[:count] = points[:count]
                points = larger
            count, total = _weigh(nodes, n, width, top, cut, waiting, points, count)
            whole += total
            add_second_derivatives(nodes, width, place, second)
            if derivatives is not None:
                add_moments(nodes, work.mills, width, k, work.moments, work.pairs)
            for p in range(n, pending):
                waiting[p - n] = waiting[p]
            pending -= n
            used += n
            if used > 2 * most:  # the first lattice, or an integrand that falls too slowly
                return failed
        log_prob = log_scale + math.log(whole * volume(k, level)) + top * _LOG_2
        error = 0.0
        for j in range(k):
            error += abs(second[j])
        frequency = dual_length(k, level)
        error /= whole * frequency**2
        if level > 0:
            growth = volume(k, level - 1) / volume(k, level)
            difference = abs(earlier[0] * growth / whole - 1.0)
            jump = max(difference, 0.5 * jump)
            hidden = _hidden_wall(row, one_sided, points, count, length, frequency)
            if hidden > 0.0:
                error = max(error, jump)
            elif difference > _SAFETY * measured[0] + _ROUNDING:
                error = max(error, difference)
            for j in range(2):
                share[j] = min(1.0, math.sqrt(error / measured[j])) if level > 1 else 1.0
            goal = relative
            if absolute > 0.0:
                goal = max(relative, absolute * math.exp(min(-log_prob, 500.0)))
            goal = min(goal, _COARSEST)
            unavoidable = outside + rounding + _STORED[single] * (1.0 + abs(log_prob))
            if _SAFETY * error + unavoidable <= goal or _SAFETY * error <= least:
                break
            # With a wall errors fall like 1 / points, unless a later lattice resolves it.
            left = most / used
            if hidden * STEEP > 8.0 * frequency * left ** (1.0 / k) and error > goal * left:
                break
        measured[1], measured[0] = measured[0], error
        if level + 1 < LEVELS and used * volume(k, level) > most * volume(k, level + 1):
            break
    if level == 0:
        return failed  # there is nothing to compare with
    error *= _SAFETY
    if error > _COARSEST:
        error = max(_SAFETY * error, _SAFETY * difference)
    wall = 0.0
    if hidden > 0.0:  # at most the integral of a normal density over a plane through the mode
        wall = (2.0 * math.pi) ** (0.5 * (k - 1)) * peak / (whole * volume(k, level))
    return Integral(
        log_prob, error, outside, rounding, whole, earlier, share, frequency, wall, used
    )  # fmt: skip


@inner()
def _load(row, upper, lower, scale, loadings, b):
    own = 0 if scale.shape[0] == 1 else b
    k = loadings.shape[2]
    for i in range(row.shape[1]):
        row[UPPER, i] = upper[b, i]
        row[SCALE, i] = scale[own, i]
        if lower.size:
            row[LOWER, i] = lower[b, i]
            row[WIDTH, i] = (row[UPPER, i] - row[LOWER, i]) * row[SCALE, i]
        for j in range(K):
            row[V + j, i] = loadings[own, i, j] if j < k else 0.0


@kernel()
def factors(
    upper, lower, scale, loadings, relative, absolute, most, single, log_prob, rel_error, used,
    derivatives, begin, end,
):  # fmt: skip
    """Log probabilities, and derivatives of them, of rows [begin, end).

    Parameters
    ----------
    upper : (B, d) limits, in double or single precision; +inf allowed
    lower : (B, d) limits with lower < upper, -inf allowed; or (0, d) if all are -inf
    scale : (1 or B, d) 1/sqrt(c)
    loadings : (1 or B, d, k) V, as many as scale; k is 2, 3 or 4
    relative, absolute : tolerance of P; one of the two must be met
    most : points a row, about
    single : 1 for an accuracy of 1e-7 rather than 1e-14
    log_prob, rel_error, used : (B,) results; rel_error is infinite where nothing is known
    derivatives : None, or a tuple of derivatives of log_prob, all results: in the upper limits
        (B, d), the lower ones (B, d) or (0, d), c (B, d), V (B, d, k), and the covariance
        (B, d, d) or (0, 0, 0); then bounds on the errors of any entry of each of these, (B, 5)
    """
    d, k = upper.shape[1], loadings.shape[2]
    pairs = False
    if derivatives is not None:
        pairs = derivatives[4].size > 0
    sides = 2 if lower.size else 1
    work = _allocate(d, k, sides, derivatives is not None, pairs)
    for b in range(begin, end):
        _load(work.row, upper, lower, scale, loadings, b)
        integral = _integrate(work, k, relative, absolute, most, single, derivatives)
        log_prob[b], used[b] = integral.log_prob, integral.used
        rel_error[b] = integral.error + integral.outside + integral.rounding
        if derivatives is not None:
            set_derivatives(work, integral, k, b, derivatives)
