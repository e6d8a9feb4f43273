"""Boxes of diag(c) + V V^T with one or two common factors, in 60 digits.

Given the factors f the coordinates are independent, so that P is the integral over f of

    phi(f) prod_i [Phi((upper_i - V_i f) / sqrt(c_i)) - Phi((lower_i - V_i f) / sqrt(c_i))],

a log-concave function. It is scaled by its curvature at the mode, where the trapezoidal rule
converges exponentially.
"""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
from mpmath import mpf

DIGITS = 60
STEP, REACH = 0.75, 7.5  # of the rule, in deviations at the mode: its error is about 1e-12
_NEWTON = 60
_SERIES = 9  # terms, for narrow intervals


def log_prob(
    lower: np.ndarray,
    upper: np.ndarray,
    c: np.ndarray,
    V: np.ndarray,
    step: float = STEP,
    reach: float = REACH,
) -> mpf:
    """Return log Pr(lower <= X <= upper) for X ~ N(0, diag(c) + V V^T), numbers taken as exact.

    Parameters
    ----------
    lower, upper, c : (d,)
    V : (d, 1) or (d, 2)
    step, reach : of the trapezoidal rule, in deviations at the mode
    """
    with mpmath.workdps(DIGITS):
        root = [mpmath.sqrt(mpf(float(x))) for x in c]
        low, high = (
            [mpf(float(x)) / s for x, s in zip(limits, root, strict=True)]
            for limits in (lower, upper)
        )
        loading = [[mpf(float(x)) / s for x in row] for row, s in zip(V, root, strict=True)]
        centre, hessian = _mode(low, high, loading)
        scale = mpmath.cholesky(hessian) ** -1  # f = centre + scale^T z
        count = round(reach / step)
        steps = [step * n for n in range(-count, count + 1)]
        top = _log_density(low, high, loading, centre)
        total = mpf(0)
        for z in itertools.product(steps, repeat=len(centre)):
            if sum(x * x for x in z) > reach * reach:
                continue
            f = centre + scale.T * mpmath.matrix(z)
            total += mpmath.exp(_log_density(low, high, loading, f) - top)
        volume = mpmath.det(scale) * mpf(step) ** len(centre)
        return top + mpmath.log(total * volume)


def _mode(low: list, high: list, loading: list) -> tuple[mpmath.matrix, mpmath.matrix]:
    """Where the integrand is largest, and minus the Hessian of its logarithm there."""
    k = len(loading[0])
    f = mpmath.matrix(k, 1)
    value = None
    for _ in range(_NEWTON):
        if value is None:
            f, hessian = _regression(low, high, loading), mpmath.eye(k)
            value = _log_density(low, high, loading, f)
        gradient, hessian = -f, mpmath.eye(k)
        for a, b, row in zip(low, high, loading, strict=True):
            shift = sum(row[j] * f[j] for j in range(k))
            mean, variance = _moments(a - shift, b - shift)
            for i in range(k):
                gradient[i] += row[i] * mean
                for j in range(k):
                    hessian[i, j] += row[i] * row[j] * (1 - variance)
        move = mpmath.lu_solve(hessian, gradient)
        length = mpf(1)
        while True:
            trial = f + length * move
            trial_value = _log_density(low, high, loading, trial)
            if trial_value >= value or length < 1e-12:
                break
            length /= 2
        f, value = trial, trial_value
        decrement = sum(gradient[i] * move[i] for i in range(k))
        if decrement < mpf(10) ** -12:
            return f, hessian
    return f, hessian


def _regression(low: list, high: list, loading: list) -> mpmath.matrix:
    """The mean of the factors given coordinates in the middle of their limits."""
    k = len(loading[0])
    matrix, vector = mpmath.eye(k), mpmath.matrix(k, 1)
    for a, b, row in zip(low, high, loading, strict=True):
        if mpmath.isinf(a) or mpmath.isinf(b):
            continue
        for i in range(k):
            vector[i] += row[i] * (a + b) / 2
            for j in range(k):
                matrix[i, j] += row[i] * row[j]
    return mpmath.lu_solve(matrix, vector)


def _log_density(low: list, high: list, loading: list, f: mpmath.matrix) -> mpf:
    k = len(loading[0])
    total = -sum(f[j] * f[j] for j in range(k)) / 2 - k * mpmath.log(2 * mpmath.pi) / 2
    for a, b, row in zip(low, high, loading, strict=True):
        shift = sum(row[j] * f[j] for j in range(k))
        total += _log_interval(a - shift, b - shift)
    return total


def _log_interval(a: mpf, b: mpf) -> mpf:
    """log(Phi(b) - Phi(a)): a difference of tails, or Hermite's series for a narrow interval."""
    half, middle = (b - a) / 2, (a + b) / 2
    if half * (1 + abs(middle)) < 1e-3:
        # He_2j(middle) half**2j / (2j + 1)!
        before, here = mpf(1), middle  # He_0, He_1
        total, factor, square = mpf(1), mpf(1), half * half
        for j in range(1, _SERIES):
            before = middle * here - (2 * j - 1) * before  # He_2j
            here = middle * before - 2 * j * here  # He_(2j+1)
            factor *= square / ((2 * j) * (2 * j + 1))
            total += before * factor
        density = -middle * middle / 2 - mpmath.log(2 * mpmath.pi) / 2
        return density + mpmath.log(2 * half * total)
    if middle > 0:
        a, b = -b, -a
    root = mpmath.sqrt(2)
    return mpmath.log((mpmath.erfc(-b / root) - mpmath.erfc(-a / root)) / 2)


def _moments(a: mpf, b: mpf) -> tuple[mpf, mpf]:
    """Mean and variance of a standard normal between two limits."""
    log_p = _log_interval(a, b)
    log_root = mpmath.log(2 * mpmath.pi) / 2
    at_a, at_b = (
        mpf(0) if mpmath.isinf(x) else mpmath.exp(-x * x / 2 - log_root - log_p) for x in (a, b)
    )
    mean = at_a - at_b
    left = mpf(0) if mpmath.isinf(a) else a * at_a
    right = mpf(0) if mpmath.isinf(b) else b * at_b
    return mean, 1 + left - right - mean * mean
