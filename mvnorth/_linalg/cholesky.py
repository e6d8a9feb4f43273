"""Cholesky factorisation and solution in place, whatever the number of threads elsewhere.

LAPACK's would be as fast, but its rounding depends on the number of its threads.  Strips of
columns are finished one after the other, so that what is left to be cut between threads is rows
times a small matrix.
"""

import math
from functools import partial

import numpy as np

from mvnorth._compile import SUMS, inner, kernel
from mvnorth._linalg.product import ROWS, STRIP, subtract_product, transpose_strip
from mvnorth._threads import run_items

_ITEM = 16  # rows an item of work
PLAIN = 48  # up to here plain rows are faster than strips


@inner(SUMS)
def _dot(a, b, first, last):
    total = 0.0
    for k in range(first, last):
        total += a[k] * b[k]
    return total


@inner(SUMS)
def _factor_rows(A, first, last):
    """Rows of the factor from ``first`` to ``last``, once columns before ``first`` are done."""
    for i in range(first, last):
        for j in range(first, i):
            A[i, j] = (A[i, j] - _dot(A[i], A[j], first, j)) / A[j, j]
        left = A[i, i] - _dot(A[i], A[i], first, i)
        A[i, i] = math.sqrt(left if left > 1e-300 else 1e-300)


@kernel()
def factor_strip(A, first, packed, inverse):
    """Finish the square A[first:first+STRIP, first:first+STRIP] on the diagonal.

    ``packed[:first]`` becomes the transpose of the rows before it, and ``inverse`` minus the
    transposed inverse of the square's factor: what ``finish_rows`` needs.
    """
    transpose_strip(A, first, 0, first, packed)
    subtract_product(A, first, first, A, first, 0, packed, 0, 0, STRIP, STRIP, first)
    last = first + STRIP
    _factor_rows(A, first, last)
    for j in range(STRIP):
        for i in range(j):
            inverse[j, i] = 0.0
        inverse[j, j] = -1.0 / A[first + j, first + j]
        for i in range(j + 1, STRIP):
            total = 0.0
            for k in range(j, i):
                total += A[first + i, first + k] * inverse[j, k]
            inverse[j, i] = -total / A[first + i, first + i]


@kernel()
def finish_rows(A, first, packed, inverse, begin, end):
    """Finish A[rows, first:first+STRIP], items ``begin`` to ``end`` of _ITEM rows below it."""
    work = np.empty((ROWS, STRIP))
    start = first + STRIP
    last = start + end * _ITEM if start + end * _ITEM < A.shape[0] else A.shape[0]
    for row in range(start + begin * _ITEM, last, ROWS):
        subtract_product(A, row, first, A, row, 0, packed, 0, 0, ROWS, STRIP, first)
        for r in range(ROWS):
            for j in range(STRIP):
                work[r, j] = A[row + r, first + j]
                A[row + r, first + j] = 0.0
        subtract_product(A, row, first, work, 0, 0, inverse, 0, 0, ROWS, STRIP, STRIP)


@inner()
def cholesky_in_place(A, d, blocked):
    """Overwrite the lower triangle of A[:d, :d], positive definite, with its Cholesky factor.

    Parameters
    ----------
    A : (D, D), D = padded(d) or more; the unit matrix beyond d
    blocked : True, or None for d <= PLAIN: strips are not compiled then
    """
    if blocked is not None and d > PLAIN:
        packed, inverse = np.empty((A.shape[0], STRIP)), np.empty((STRIP, STRIP))
        for first in range(0, d, STRIP):
            factor_strip(A, first, packed, inverse)
            finish_rows(A, first, packed, inverse, 0, (A.shape[0] - first) // _ITEM)
        return
    _factor_rows(A, 0, d)


def parallel_cholesky(A: np.ndarray) -> None:
    """``cholesky_in_place`` of one large matrix by all threads: the same bits."""
    packed, inverse = np.empty((len(A), STRIP)), np.empty((STRIP, STRIP))
    for first in range(0, len(A), STRIP):
        factor_strip(A, first, packed, inverse)
        items = -(-(len(A) - first - STRIP) // _ITEM)
        cost = items * _ITEM * STRIP * (first + STRIP) * 5e-11
        run_items(partial(finish_rows, A, first, packed, inverse), items, cost)


@inner(SUMS)
def solve_in_place(A, x, d):
    """Overwrite x[:d] with the solution of (L L^T) x = x, L in the lower triangle of A."""
    for i in range(d):
        x[i] = (x[i] - _dot(A[i], x, 0, i)) / A[i, i]
    for i in range(d - 1, -1, -1):
        x[i] /= A[i, i]
        for j in range(i):
            x[j] -= A[i, j] * x[i]


@kernel()
def square(X, diagonal, S, begin, end):
    """The lower triangle of S = (X + D) (X + D)^T, D = diag(diagonal): strips ``begin`` to ``end``.

    Parameters
    ----------
    X : (E, E) or smaller, square, entries on and above the diagonal 0
    diagonal : (E,)
    S : (E, E) output, E a multiple of STRIP
    """
    D = X.shape[0]
    packed = np.empty((D, STRIP))
    for first in range(begin * STRIP, end * STRIP, STRIP):
        count = min(first + STRIP, D)
        transpose_strip(X, first, 0, count, packed)
        for k in range(count):
            for j in range(STRIP):
                packed[k, j] *= -1.0
        for j in range(count - first):
            packed[first + j, j] = -diagonal[first + j]
        for i in range(first, S.shape[0]):
            for j in range(STRIP):
                S[i, first + j] = 0.0
        subtract_product(S, first, first, X, first, 0, packed, 0, 0, D - first, STRIP, count)
        for i in range(first, first + STRIP):
            S[i, i] += diagonal[i] * diagonal[i]


@inner(SUMS)
def square_plain(X, diagonal, S, d):
    """``square`` for up to PLAIN rows, the first d of any number."""
    for i in range(d):
        for j in range(i):
            S[i, j] = _dot(X[i], X[j], 0, j) + X[i, j] * diagonal[j]
        S[i, i] = _dot(X[i], X[i], 0, i) + diagonal[i] * diagonal[i]


@inner()
def square_first(X, diagonal, S, d, blocked):
    """``square`` for the first d rows; ``blocked`` is as for ``cholesky_in_place``."""
    if blocked is not None and d > PLAIN:
        square(X, diagonal, S, 0, S.shape[0] // STRIP)
        return
    square_plain(X, diagonal, S, d)
