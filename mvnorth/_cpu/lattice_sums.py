"""Sums of weights over the parts and shifts of lattices: totals, spread, and largest weights."""

import math

import numpy as np

from mvnorth._compile import inner, kernel


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


@kernel()
def summarise(even, odd, points, joined, log_prob, spread, carriers):
    """Summarise lattices of ``points`` points a shift from their two halves.

    Parameters
    ----------
    even, odd : (rows, R, 2) logs of the sum of weights and of the largest weight of each shift
    joined : (rows, R, 2) the same of both halves together
    log_prob : (rows,) log of the mean weight
    spread : (rows, 2) standard errors of the mean weight relative to it: from shifts, from halves
    carriers : (rows,) the sum of weights over the largest one
    """
    rows, shifts, _ = even.shape
    whole, halves = np.empty(shifts), np.empty(2 * shifts)
    for row in range(rows):
        peak, largest, lost = -np.inf, -np.inf, False
        for r in range(shifts):
            lost = lost or even[row, r, 0] != even[row, r, 0] or odd[row, r, 0] != odd[row, r, 0]
            for k in range(2):
                first, second = even[row, r, k], odd[row, r, k]
                joined[row, r, k] = first if first > second else second
            largest = joined[row, r, 1] if joined[row, r, 1] > largest else largest
            high = joined[row, r, 0]
            if high > -np.inf:
                halves[r] = math.exp(even[row, r, 0] - high)
                halves[shifts + r] = math.exp(odd[row, r, 0] - high)
                joined[row, r, 0] = high + math.log(halves[r] + halves[shifts + r])
            peak = joined[row, r, 0] if joined[row, r, 0] > peak else peak
        carriers[row] = 1.0
        if lost or peak == -np.inf:
            log_prob[row], spread[row, 0], spread[row, 1] = -np.inf, np.inf, np.inf
            continue
        total = 0.0
        for r in range(shifts):
            total += math.exp(joined[row, r, 0] - peak)
        log_total = peak + math.log(total)
        log_prob[row] = log_total - math.log(shifts * points)
        scale = log_prob[row] + math.log(points)
        for r in range(shifts):
            whole[r] = math.exp(joined[row, r, 0] - scale)
            halves[r] = 2.0 * math.exp(even[row, r, 0] - scale)
            halves[shifts + r] = 2.0 * math.exp(odd[row, r, 0] - scale)
        spread[row, 0] = _spread(whole, shifts)
        spread[row, 1] = _spread(halves, shifts)
        carriers[row] = math.exp(log_total - largest)
