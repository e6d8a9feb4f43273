"""Boxes that a singular covariance leaves empty, decided in exact arithmetic.

Where X_i = sum_j beta_j X_j almost surely, the limits of the X_j leave X_i an interval; if that is
apart from the limits of X_i, the probability is 0.  Coefficients and interval are first computed
in floating point.  Where these say that the box is empty, they are computed again as fractions of
integers, from the numbers as they were given: only a covariance that is singular to the last bit
makes a box empty with certainty.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

_LARGEST = 24  # coordinates with limits, for fractions grow with each
_APART = 1e-9  # relative: intervals in floating point that are further apart than rounding


def empty_rows(
    cov: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    mean: np.ndarray,
    singular: np.ndarray,
    level: float,
) -> np.ndarray:
    """Return which rows of a batch are empty with certainty, (B,) bool.

    Parameters
    ----------
    cov : (1 or B, d, d)
    lower, upper, mean : (B, d) limits may be infinite
    singular : (1 or B,) bool, which covariances are singular or close to it
    level : relative variance below which a coordinate counts as determined by others
    """
    inside = (lower <= mean) & (mean <= upper)
    candidates = singular & ~inside.all(axis=1)
    empty = np.zeros(len(lower), dtype=bool)
    for b in np.flatnonzero(candidates):
        matrix = cov[b if len(cov) > 1 else 0]
        empty[b] = _is_empty(matrix, lower[b], upper[b], mean[b], level)
    return empty


def _is_empty(
    cov: np.ndarray, lower: np.ndarray, upper: np.ndarray, mean: np.ndarray, level: float
) -> bool:
    """Whether a coordinate that others determine cannot be within its limits.

    Narrow intervals come first: they are what determines others.
    """
    low, high = lower - mean, upper - mean
    limited = np.flatnonzero((np.isfinite(low) | np.isfinite(high)) & (np.diagonal(cov) > 0.0))
    if not 2 <= limited.size <= _LARGEST:
        return False
    width = (high[limited] - low[limited]) / np.sqrt(np.diagonal(cov)[limited])
    order = limited[np.argsort(width, kind="stable")]
    free: list[int] = []
    for i in order.tolist():
        beta = np.linalg.solve(cov[np.ix_(free, free)], cov[free, i]) if free else np.zeros(0)
        if cov[i, i] - cov[i, free] @ beta > level * cov[i, i]:
            free.append(i)
        elif _seems_apart(beta, low, high, free, i) and _is_apart(cov, lower, upper, mean, free, i):
            return True
    return False


def _seems_apart(
    beta: np.ndarray, low: np.ndarray, high: np.ndarray, free: list[int], i: int
) -> bool:
    used = np.abs(beta) > 1e-12 * np.max(np.abs(beta), initial=0.0)
    weights, columns = beta[used], np.array(free)[used]
    ends = np.sort(weights * np.stack([low[columns], high[columns]]), axis=0)
    least, most = ends.sum(axis=1)
    finite = ends[np.isfinite(ends)]
    rounding = _APART * np.sum(np.abs(finite))
    return bool(most + rounding < low[i] or least - rounding > high[i])


def _is_apart(
    cov: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    mean: np.ndarray,
    free: list[int],
    i: int,
) -> bool:
    """The same in exact arithmetic, and that the others do determine coordinate i."""
    matrix = [[Fraction(float(cov[j, k])) for k in (*free, i)] for j in free]
    beta = _solve(matrix)
    if beta is None:
        return False
    along = sum(b * Fraction(float(cov[j, i])) for b, j in zip(beta, free, strict=True))
    if Fraction(float(cov[i, i])) != along:
        return False
    least = most = Fraction(0)
    known_least = known_most = True
    for b, j in zip(beta, free, strict=True):
        if b == 0:
            continue
        first, second = (lower[j], upper[j]) if b > 0 else (upper[j], lower[j])
        centre = Fraction(float(mean[j]))
        if np.isfinite(first):
            least += b * (Fraction(float(first)) - centre)
        else:
            known_least = False
        if np.isfinite(second):
            most += b * (Fraction(float(second)) - centre)
        else:
            known_most = False
    centre = Fraction(float(mean[i]))
    below = known_most and np.isfinite(lower[i]) and most < Fraction(float(lower[i])) - centre
    above = known_least and np.isfinite(upper[i]) and least > Fraction(float(upper[i])) - centre
    return bool(below or above)


def _solve(matrix: Sequence[list[Fraction]]) -> list[Fraction] | None:
    """Solution of n equations, (n, n + 1) with the right-hand side; None if they are singular."""
    rows = [list(row) for row in matrix]
    n = len(rows)
    for k in range(n):
        pivot = next((r for r in range(k, n) if rows[r][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(n):
            if r != k and rows[r][k] != 0:
                factor = rows[r][k] / rows[k][k]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]
