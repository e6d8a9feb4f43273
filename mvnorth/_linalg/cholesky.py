"""Cholesky factorisation and solution in place, whatever the number of threads elsewhere.

LAPACK's would be as fast or faster, but its rounding depends on the number of its threads.
"""

import math

from numba import njit

SUMS = {"contract", "nsz", "reassoc"}


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _dot(a, b, size):
    total = 0.0
    for k in range(size):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def cholesky_in_place(A, d):
    """Overwrite the lower triangle of A[:d, :d], positive definite, with its Cholesky factor."""
    for i in range(d):
        for j in range(i):
            A[i, j] = (A[i, j] - _dot(A[i], A[j], j)) / A[j, j]
        A[i, i] = math.sqrt(max(A[i, i] - _dot(A[i], A[i], i), 1e-300))


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def solve_in_place(A, x, d):
    """Overwrite x[:d] with the solution of (L L^T) x = x, L in the lower triangle of A."""
    for i in range(d):
        x[i] = (x[i] - _dot(A[i], x, i)) / A[i, i]
    for i in range(d - 1, -1, -1):
        x[i] /= A[i, i]
        for j in range(i):
            x[j] -= A[i, j] * x[i]
