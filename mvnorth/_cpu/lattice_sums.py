"""Sums of weights over the parts and shifts of lattices, and the errors of what they estimate."""

import math

import numpy as np

from mvnorth._compile import inner, kernel
from mvnorth._scalar.normal import Z_MAX

# Corners of the integrand that points may miss, in shares of a point: of a smooth one, and of one
# with steps, which a row of the factor makes whose norm is above STEEP.
CORNER, STEP_CORNER, STEEP = 0.1, 5.0, 20.0


@kernel()
def join_parts(parts, out):
    """Fill ``out`` (K, 2) with logs of sum and largest weight of ``parts`` (K, P, 2)."""
    for k in range(parts.shape[0]):
        peak, largest, lost = -np.inf, -np.inf, False
        for p in range(parts.shape[1]):
            lost = lost or parts[k, p, 0] != parts[k, p, 0]
            peak = parts[k, p, 0] if parts[k, p, 0] > peak else peak
            largest = parts[k, p, 1] if parts[k, p, 1] > largest else largest
        total = 0.0
        if peak > -np.inf:
            for p in range(parts.shape[1]):
                total += math.exp(parts[k, p, 0] - peak)
        out[k, 0] = peak + math.log(total) if total > 0.0 else -np.inf
        if lost:  # a NaN must not pass for a weight of zero
            out[k, 0] = np.nan
        out[k, 1] = largest


@inner()
def _spread(values, count):
    """Return the standard error of the mean of ``count`` estimates, from any number of them."""
    mean = 0.0
    for value in values:
        mean += value
    mean /= values.size
    total = 0.0
    for value in values:
        total += (value - mean) * (value - mean)
    return math.sqrt(total / (values.size - 1) / count)


@inner()
def _unseen_share(carriers, n):
    """Return a bound on what unseen points may add to a sum of n terms, relative to the sum.

    Where few points carry the sum, all replicates may have missed what matters and their spread
    says little.  What the unseen may add was measured in shares of the heaviest point.
    """
    uneven = (n / carriers - 8.0) / 12.0
    if not uneven > 0.0:
        return 0.0
    uneven = 1.0 if uneven > 1.0 else uneven
    rest = carriers - 3.0 if carriers > 3.0 else 0.0
    return uneven * (3.0 / carriers + 120.0 / (rest * rest))


@kernel()
def unseen_shares(carriers, n, out):
    """Fill ``out`` with ``_unseen_share`` of n terms each; all are (K,)."""
    for k in range(carriers.size):
        out[k] = _unseen_share(carriers[k], n[k])


@kernel()
def corner_shares(rows, dependent, out):
    """Fill ``out`` (B,) with the share of a point that may hide a corner of the integrand.

    The limits of a row of the factor are met or not within 1/norm of a variable: steps, the larger
    it is.  Of steps all or nothing is seen, so that the spread of the shifts does not tell of them.
    A constant has no corner.

    Parameters
    ----------
    rows : (B, ., .) rows of factors below the diagonal
    dependent : (B,) number of variables that depend on each other
    """
    for b in range(out.size):
        largest = 0.0
        for i in range(rows.shape[1]):
            norm2 = 0.0
            for j in range(rows.shape[2]):
                norm2 += rows[b, i, j] * rows[b, i, j]
            largest = norm2 if norm2 > largest else largest
        out[b] = 0.0
        if dependent[b] > 1 and largest > 0.0:
            step = math.sqrt(largest) / STEEP
            step = 1.0 if step > 1.0 else step
            out[b] = CORNER + STEP_CORNER * (step * step)


@kernel()
def summarise(
    even, odd, points, rows, log_scale, corner, of_shifts, of_halves, floor, joined, log_prob,
    rel_error, used,
):  # fmt: skip
    """Summarise lattices of ``points`` points a shift from their two halves.

    Parameters
    ----------
    even, odd : (K, R, 2) logs of the sum of weights and of the largest weight of each shift
    rows : (K,) which of the problems
    log_scale : (B,) what makes probabilities of mean weights
    corner : (B,) share of a point that may hide a corner of the integrand
    of_shifts, of_halves : what to multiply the standard errors from shifts, and from halves, by;
        infinite if there are too few shifts
    floor : smallest relative error
    joined : (K, R, 2) output, what even and odd are, of both halves together
    log_prob, rel_error, used : (B,) output
    """
    shifts = even.shape[1]
    n = shifts * points
    whole, halves = np.empty(shifts), np.empty(2 * shifts)
    for k in range(rows.size):
        row = rows[k]
        used[row] = n
        peak, largest, lost = -np.inf, -np.inf, False
        for r in range(shifts):
            lost = lost or even[k, r, 0] != even[k, r, 0] or odd[k, r, 0] != odd[k, r, 0]
            for which in range(2):
                first, second = even[k, r, which], odd[k, r, which]
                joined[k, r, which] = first if first > second else second
            largest = joined[k, r, 1] if joined[k, r, 1] > largest else largest
            high = joined[k, r, 0]
            if high > -np.inf:
                halves[r] = math.exp(even[k, r, 0] - high)
                halves[shifts + r] = math.exp(odd[k, r, 0] - high)
                joined[k, r, 0] = high + math.log(halves[r] + halves[shifts + r])
            peak = joined[k, r, 0] if joined[k, r, 0] > peak else peak
        if lost or peak == -np.inf:
            # No point had any weight: that says nothing of how small the probability is.
            log_prob[row], rel_error[row] = -np.inf, np.inf
            continue
        total = 0.0
        for r in range(shifts):
            total += math.exp(joined[k, r, 0] - peak)
        log_total = peak + math.log(total)
        log_mean = log_total - math.log(n)
        log_prob[row] = log_mean + log_scale[row]
        scale = log_mean + math.log(points)
        for r in range(shifts):
            whole[r] = math.exp(joined[k, r, 0] - scale)
            halves[r] = 2.0 * math.exp(even[k, r, 0] - scale)
            halves[shifts + r] = 2.0 * math.exp(odd[k, r, 0] - scale)
        if of_shifts == np.inf:  # too few to say anything about their spread
            rel_error[row] = np.inf
            continue
        error = of_shifts * _spread(whole, shifts)
        if points > 1:
            from_halves = of_halves * _spread(halves, shifts)
            error = from_halves if from_halves > error else error
        # A corner of the integrand with less than a point's share is easily missed by all of them.
        unseen = _unseen_share(math.exp(log_total - largest), n)
        rel_error[row] = error + (unseen + (floor + corner[row] / n))


@kernel()
def add_rounding(log_prob, rel_error, rounding, of_problem, most, lower, upper, factor):
    """Add rounding errors of log P to relative errors of P, in place.

    They are infinite where a limit lies beyond Z_MAX, at which Phi is cut off.

    Parameters
    ----------
    rounding : (B,) that of weights and limits
    of_problem : (B,) that of the covariance, to first order
    most : what the latter moves a probability by at most
    lower, upper : (B, d) limits
    factor : (1 or B, d, r) rows whose norms are the standard deviations
    """
    for b in range(log_prob.size):
        # A logarithm known to 1000 is not known at all.
        from_problem, largest = math.expm1(of_problem[b]), most * math.exp(-log_prob[b])
        if not from_problem < largest and largest == largest:
            from_problem = largest
        error = rel_error[b]
        total = error + (math.expm1(rounding[b]) + from_problem) * (1.0 + error)
        beyond = log_prob[b] < -0.45 * Z_MAX**2  # a conditional limit did
        shared = b if factor.shape[0] > 1 else 0
        for i in range(lower.shape[1]):
            low, high = lower[b, i], -upper[b, i]
            farthest = low if low > high else high
            if farthest > 0.0:
                variance = 0.0
                for j in range(factor.shape[2]):
                    variance += factor[shared, i, j] * factor[shared, i, j]
                beyond = beyond or farthest - Z_MAX * math.sqrt(variance) > 0.0
        rel_error[b] = np.inf if beyond or total != total else total
