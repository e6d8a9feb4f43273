"""The mode of the integrand of several common factors, and the map that makes it round there.

Newton's method for the maximum of a concave function, with steps that are shortened until the
derivative along them has not become more negative than half of what it was positive.  The second
derivatives H at the mode give T = L^-T for H = L L^T: in t of z = mode + T t they are the identity.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._cpu.factors_points import (
    BEND,
    BETA,
    LOWER,
    SCALE,
    UPPER,
    WIDTH,
    A,
    B,
    H,
    K,
    V,
    interval_derivatives,
    interval_parts,
)
from mvnorth._scalar.one_factor import mode_parts

_STEPS, _HALVINGS = 100, 60
_CLOSE = 1e-4  # square of the distance from the mode in widths
_EPS = 2.0**-52


@inner(FAST)
def _locate(row, z, one_sided):
    """Set b_i and a_i at z."""
    for i in range(row.shape[1]):
        shift = row[V, i] * z[0] + row[V + 1, i] * z[1]
        shift += row[V + 2, i] * z[2] + row[V + 3, i] * z[3]
        row[B, i] = (row[UPPER, i] + shift) * row[SCALE, i]
        if not one_sided:
            row[A, i] = (row[LOWER, i] + shift) * row[SCALE, i]


@inner(FAST)
def _derive(row, one_sided):
    """Set the derivatives of the logarithms of the factors in b_i, and minus the second ones."""
    if one_sided:
        for i in range(row.shape[1]):
            h, r = mode_parts(row[B, i])
            row[H, i] = h
            row[BEND, i] = h * r
        return
    for i in range(row.shape[1]):
        a, b = row[A, i], row[B, i]
        _, _, h_b, h_a = interval_parts(a, b, row[WIDTH, i])
        row[H, i], row[BEND, i] = interval_derivatives(a, b, row[WIDTH, i], h_b, h_a)


@inner(SUMS)
def _dot(row, first, j):
    total = 0.0
    for i in range(row.shape[1]):
        total += row[first, i] * (row[V + j, i] * row[SCALE, i])
    return total


@inner(SUMS)
def _dot_pair(row, j, q):
    total = 0.0
    for i in range(row.shape[1]):
        square = row[SCALE, i] * row[SCALE, i] * row[BEND, i]
        total += square * (row[V + j, i] * row[V + q, i])
    return total


@inner(FAST)
def _gradient(row, z, k, out):
    for j in range(k):
        out[j] = _dot(row, H, j) - z[j]


@inner(FAST)
def _factorise(row, k, L):
    """Set L to the Cholesky factor of H, and beyond k to the identity."""
    for j in range(K):
        for q in range(K):
            L[j, q] = 1.0 if j == q else 0.0
    for j in range(k):
        for q in range(j + 1):
            total = _dot_pair(row, j, q)
            total += 1.0 if j == q else 0.0
            for r in range(q):
                total -= L[j, r] * L[q, r]
            L[j, q] = math.sqrt(max(total, _EPS)) if j == q else total / L[q, q]


@inner(FAST)
def _solve(L, x):
    """Overwrite x with (L L^T)^-1 x."""
    for j in range(K):
        for r in range(j):
            x[j] -= L[j, r] * x[r]
        x[j] /= L[j, j]
    for j in range(K - 1, -1, -1):
        for r in range(j + 1, K):
            x[j] -= L[r, j] * x[r]
        x[j] /= L[j, j]


@inner(FAST)
def find_mode(row, k, one_sided, place):
    """Set the mode, the map, and b_i, a_i and BETA there.

    ``(log |T|, rounding)``; NaN if there is no mode to be found.  ``rounding`` is what rounding of
    the b_i does to the logarithm of the integrand.
    """
    z, L = place.z, np.empty((K, K))
    gradient, step, trial = np.zeros(K), np.zeros(K), np.zeros(K)
    for j in range(K):
        z[j] = 0.0
    _locate(row, z, one_sided)
    _derive(row, one_sided)
    found = False
    for _ in range(_STEPS):
        _gradient(row, z, k, gradient)
        _factorise(row, k, L)
        decrement = 0.0
        for j in range(K):
            step[j] = gradient[j]
        _solve(L, step)
        for j in range(K):
            decrement += gradient[j] * step[j]
        if not decrement > _CLOSE:
            found = decrement <= _CLOSE  # not where it is NaN
            break
        length, along = 1.0, -decrement
        for _ in range(_HALVINGS):
            for j in range(K):
                trial[j] = z[j] + length * step[j]
            _locate(row, trial, one_sided)
            _derive(row, one_sided)
            _gradient(row, trial, k, gradient)
            along = 0.0
            for j in range(K):
                along += gradient[j] * step[j]
            if along >= -0.5 * decrement:
                break
            length *= min(max(decrement / (decrement - along), 0.1), 0.7)
        for j in range(K):
            z[j] = trial[j]
    rounding = 0.0
    for i in range(row.shape[1]):
        size = abs(row[V, i] * z[0]) + abs(row[V + 1, i] * z[1])
        size += abs(row[V + 2, i] * z[2]) + abs(row[V + 3, i] * z[3])
        size += min(abs(row[UPPER, i]), abs(row[LOWER, i]) if not one_sided else np.inf)
        rounding += abs(row[H, i]) * row[SCALE, i] * size if row[H, i] != 0.0 else 0.0
        for j in range(K):  # L^-1 times the loadings
            total = row[V + j, i] * row[SCALE, i]
            for r in range(j):
                total -= L[j, r] * row[BETA + r, i]
            row[BETA + j, i] = total / L[j, j]
    log_volume = 0.0
    for j in range(K):
        log_volume -= math.log(L[j, j])
        for q in range(K):  # column q of L^-1, transposed
            total = 1.0 if j == q else 0.0
            for r in range(j):
                total -= L[j, r] * place.map[q, r]
            place.map[q, j] = total / L[j, j]
    return log_volume if found else np.nan, _EPS * rounding
