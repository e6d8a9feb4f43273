"""A factor of the covariance given one coordinate, from that of all of them.

For X = A y, plane rotations of y from the last column to the first leave row i of A a single
entry, in the first column.  X_i then stands for that variable, so the other columns are a factor of
the covariance of the others given X_i, and the first one over its entry i is their regression on
X_i.  Sigma = A A^T is never formed, so what little is left of a nearly dependent row is as
accurate as A is.  A lower triangular A with a diagonal >= 0 stays one, and zeros between
independent coordinates stay zeros.
"""

from functools import partial

import numpy as np

from mvnorth._compile import SUMS, kernel
from mvnorth._threads import run_items


@kernel(SUMS)
def _condition(factor, which, coordinates, slope, out, begin, end):
    """``condition`` of items ``begin`` to ``end``."""
    d, width = factor.shape[1], factor.shape[2]
    # Columns c-1 and c become cos * first + sin * second and sin * first + turn * second.
    cos, sin, turn = np.empty(width), np.empty(width), np.empty(width)
    for k in range(begin, end):
        A = factor[which[k]]
        i = coordinates[k]
        pivot = A[i, width - 1]
        for c in range(width - 1, 0, -1):
            if pivot == 0.0:
                cos[c], sin[c], turn[c] = 1.0, 0.0, 1.0
                pivot = A[i, c - 1]
            else:
                norm = np.hypot(A[i, c - 1], pivot)
                cos[c], sin[c] = A[i, c - 1] / norm, pivot / norm
                turn[c] = -cos[c]
                pivot = norm
        for j in range(d):
            if j == i:
                continue
            row = j if j < i else j - 1
            carried = A[j, width - 1]
            for c in range(width - 1, 0, -1):
                out[k, row, c - 1] = sin[c] * A[j, c - 1] + turn[c] * carried
                carried = cos[c] * A[j, c - 1] + sin[c] * carried
            slope[k, row] = carried / pivot if pivot != 0.0 else 0.0


def condition(
    factor: np.ndarray, which: np.ndarray, coordinates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``(slope, factor)`` of the others given one coordinate: (K, d-1) and (K, d-1, width-1).

    A factor of one column leaves one of zeros.  Entries are accurate to about the rounding unit
    times the root of the width and the norm of the row they come from.

    Parameters
    ----------
    factor : (N, d, width)
    which, coordinates : (K,) which factor, and the coordinate of it that is given
    """
    _, d, width = factor.shape
    slope = np.empty((which.size, d - 1))
    out = np.zeros((which.size, d - 1, max(width - 1, 1)))
    kernel = partial(_condition, np.ascontiguousarray(factor), which, coordinates, slope, out)
    run_items(kernel, which.size, out.size * 2e-9)
    return slope, out


@kernel(SUMS)
def _given_the_others(factor, singular, root, determined, begin, end):
    """``given_the_others`` of factors ``begin`` to ``end``."""
    d, width = factor.shape[1], factor.shape[2]
    Q = np.empty((d, width))  # rows made orthonormal, each to those before
    L = np.empty((d, d))
    norm, x = np.empty(d), np.empty(d)
    for b in range(begin, end):
        for i in range(d):
            total = 0.0
            for c in range(width):
                total += factor[b, i, c] ** 2
            norm[i] = np.sqrt(total) if total > 0.0 else 1.0
            for c in range(width):
                Q[i, c] = factor[b, i, c] / norm[i]
            L[i] = 0.0
            for _ in range(2):  # what rounding leaves of the directions before goes the second time
                for j in range(i):
                    dot = 0.0
                    for c in range(width):
                        dot += Q[i, c] * Q[j, c]
                    L[i, j] += dot
                    for c in range(width):
                        Q[i, c] -= dot * Q[j, c]
            left = 0.0
            for c in range(width):
                left += Q[i, c] ** 2
            left = np.sqrt(left)
            tied = left <= singular
            determined[b, i] = tied and total > 0.0
            L[i, i] = 1.0 if tied else left
            for c in range(width):
                Q[i, c] = 0.0 if tied else Q[i, c] / left
            for j in range(i if tied else 0):
                L[i, j] = 0.0
        for j in range(d):  # (Sigma^-1)_jj is the square of column j of the inverse of L
            total = 0.0
            for i in range(j, d):
                value = 1.0 if i == j else 0.0
                for k in range(j, i):
                    value -= L[i, k] * x[k]
                x[i] = value / L[i, i]
                total += x[i] * x[i]
            root[b, j] = np.sqrt(total) / norm[j]


def given_the_others(factor: np.ndarray, singular: float) -> tuple[np.ndarray, np.ndarray]:
    """Root of the precision of every coordinate, and whether those before determine it, (N, d).

    The root of (Sigma^-1)_ii is one over the deviation of X_i given all others, and does not change
    when some of them are given.  A coordinate that less than ``singular`` of its deviation
    keeps apart from those before counts as if it were independent of all, and so does one without
    variance, as of unit variance.
    """
    root = np.empty(factor.shape[:2])
    determined = np.empty(factor.shape[:2], dtype=bool)
    source = np.ascontiguousarray(factor)
    kernel = partial(_given_the_others, source, singular, root, determined)
    run_items(kernel, len(factor), factor.size * factor.shape[1] * 2e-9)
    return root, determined
