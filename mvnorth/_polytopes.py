"""Polytopes as boxes: parallel rows of A become one coordinate, and A X is normal.

Opposite rows a X <= b_1 and -a X <= b_2 are the two limits of one coordinate, so that a box that is
given as a polytope is computed as that box.  Of rows that are positive multiples of each other the
tightest counts, and rows of zeros are decided by their b.  What is left is a box in the coordinates
D X, whose covariance has the factor D L for cov = L L^T.  With more coordinates than variables it
is singular, which the methods take.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mvnorth import _checks
from mvnorth._covariance.dense import Dense
from mvnorth._linalg.inequalities import ParallelRows, contradict, find_parallel
from mvnorth._problem import Problems
from mvnorth._read_polytopes import Polytopes

_EPS = float(np.finfo(np.float64).eps)
_PLANE = 2  # variables of a polygon, which has a method of its own
_CONDITION = 1e-5  # of a Cholesky factor, relative: below it variances count as rounded


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of a batch whose polytopes have the same number of coordinates D X.

    Attributes
    ----------
    rows : (n,) which rows of the batch
    D : (n, k, d) rows of A
    place, scale : (n, r) the coordinate of each row of A, -1 for zeros, and its multiple of D
    lower, upper : (n, k) limits of D X, or (n, d) of X
    problems : boxes of D X - D mean, or of X - mean
    box : whether the coordinates of the problems are those of X
    """

    rows: np.ndarray
    D: np.ndarray
    place: np.ndarray
    scale: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    problems: Problems
    box: bool


def as_boxes(given: Polytopes, opposite: bool = True, boxes: bool = True) -> Iterator[Piece]:
    """Yield the polytopes of a batch as boxes, those with as many coordinates together.

    Parameters
    ----------
    opposite : whether opposite rows become one coordinate
    boxes : whether inequalities for single coordinates become a box of X itself
    """
    parallel = [find_parallel(A, opposite) for A in given.A]
    kinds = []
    for A, combined in zip(given.A, parallel, strict=True):
        single = np.count_nonzero(A, axis=1).max() <= 1
        # A polytope without any limits is a box.
        count = len(combined.chosen)
        kinds.append((bool(single and (boxes or count == 0)), count))
    for kind in dict.fromkeys(kinds):
        members = np.array([kind == other for other in kinds])
        rows = np.flatnonzero(members[given.of_A])
        if rows.size:
            yield _piece(given, rows, parallel, kind[0])


def _piece(given: Polytopes, rows: np.ndarray, parallel: list[ParallelRows], box: bool) -> Piece:
    of_A = given.of_A[rows]
    b = given.b[given.of_b[rows]]
    place, scale = (
        np.stack([getattr(p, name) for p in parallel])[of_A] for name in ("place", "scale")
    )
    chosen = np.stack([p.chosen if len(p.chosen) else np.zeros(0, int) for p in
                       (parallel[n] for n in of_A)])  # fmt: skip
    D = np.take_along_axis(given.A[of_A], chosen[:, :, None], axis=1)
    lower, upper, empty = limits(b, place, scale, D.shape[1])
    if box:
        lower, upper = _limits_of_coordinates(D, lower, upper)
        mean, cov = given.mean[given.of_mean[rows]], given.take_covariance(rows)
        problems, _ = _checks.box_problems(lower, upper, mean, cov)
    else:
        problems = _box_of_products(given, rows, D, lower, upper)
    problems.lower[empty, 0] = problems.upper[empty, 0] = 0.0
    if box:
        problems.one_block = problems.one_block and not empty.any()
    else:
        problems.one_block = _is_one_block(problems)
    return Piece(rows, D, place, scale, lower, upper, problems, box)


def limits(
    b: np.ndarray, place: np.ndarray, scale: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lower and upper limits (n, k) of D X, and which polytopes are empty, (n,).

    b, place, scale : (n, r)
    """
    n, r = b.shape
    lower, upper = np.full((n, k), -np.inf), np.full((n, k), np.inf)
    empty = ((place < 0) & (b < 0.0)).any(axis=1) | (b == -np.inf).any(axis=1)
    row = np.arange(n)
    for i in range(r):
        j = place[:, i]
        some = j >= 0
        limit, at = (b[:, i] / scale[:, i])[some], (row[some], j[some])
        positive = scale[some, i] > 0.0
        upper[at] = np.where(positive, np.minimum(upper[at], limit), upper[at])
        lower[at] = np.where(positive, lower[at], np.maximum(lower[at], limit))
    crossed = lower >= upper
    empty |= crossed.any(axis=1)
    lower[crossed] = upper[crossed] = 0.0
    return lower, upper, empty


def _limits_of_coordinates(
    D: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return limits (n, d) of X itself, for rows of D with one entry each."""
    n, k, d = D.shape
    low, high = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    row = np.arange(n)
    for j in range(k):
        column = np.argmax(np.abs(D[:, j]), axis=1)
        entry = D[row, j, column]
        ends = np.sort(np.stack([lower[:, j] / entry, upper[:, j] / entry]), axis=0)
        low[row, column], high[row, column] = ends
    return low, high


def _box_of_products(
    given: Polytopes, rows: np.ndarray, D: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> Problems:
    """Return boxes of D X - D mean."""
    k, d = D.shape[1:]
    L, singular = given.factors(rows)
    mean = given.mean[given.of_mean[rows]]
    shared = len(L) == 1 and (given.of_A[rows] == given.of_A[rows[0]]).all()
    C = (D[:1] if shared else D) @ L
    peak = np.abs(C).max(axis=2)
    lost = peak <= 4.0 * _EPS * (np.abs(D[: len(C)]) @ np.abs(L)).max(axis=2)
    C[lost], peak[lost] = 0.0, 1.0  # combinations without variance
    norm = peak * np.sqrt(np.sum((C / peak[:, :, None]) ** 2, axis=2))
    norm[lost] = 1.0
    scale = np.exp2(np.round(np.log2(norm)))
    centre = np.einsum("nkd,nd->nk", D, mean)
    size = np.einsum("nkd,nd->nk", np.abs(D), np.abs(mean))
    low, high = lower - centre, upper - centre
    rounding = _rounding(low, high, size, np.where(lost, np.inf, norm))
    unit, rank = C / norm[:, :, None], C.shape[2]
    if rank > _PLANE and k > _PLANE:
        _, values, turn = np.linalg.svd(unit, full_matrices=False)
        rank = int(np.count_nonzero(values > 4.0 * k * _EPS * values[:, :1], axis=1).max())
        if rank <= _PLANE:
            C = C @ np.swapaxes(turn[:, :rank], 1, 2)
    if rank < k:
        mark_empty(unit, low / norm, high / norm, low, high)
    if L.shape[2] == d and not np.triu(L, 1).any():
        share = np.abs(np.diagonal(L, axis1=1, axis2=2)) / np.maximum(np.abs(L).sum(axis=2), 1e-300)
        if share.min() > _CONDITION:
            singular = 8 * max(k, d) * _EPS
            rounding += 4.0 * d * _EPS / share.min(axis=1) ** 2
    factor = np.ascontiguousarray(C / scale[:, :, None])
    return Problems(low / scale, high / scale, Dense(factor, singular, scale), rounding)


def _is_one_block(problems: Problems) -> bool:
    """Return whether every coordinate has a limit, and shares a variable with the one before."""
    links = problems.covariance.dense().links()
    limited = np.isfinite(problems.lower) | np.isfinite(problems.upper)
    if not limited.all() or (problems.lower == problems.upper).any() or not links.any(axis=2).all():
        return False
    return bool((links[:, 1:] & links[:, :-1]).any(axis=2).all())


def _rounding(low: np.ndarray, high: np.ndarray, size: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Return the relative error (n,) that rounding of the limits brings.

    size : (n, k) of what was subtracted from the limits
    norm : (n or 1, k) deviations
    """
    with np.errstate(invalid="ignore"):
        ends = np.stack([np.where(np.isfinite(a), np.abs(a), 0.0) for a in (low, high)])
        off = _EPS * (ends.max(axis=0) + 2.0 * size)
        one_sided = off / norm * (1.0 + np.minimum(ends[0], ends[1]) / norm)
        change = one_sided + np.where(high - low < np.inf, off / (high - low), 0.0)
    limited = np.isfinite(low) | np.isfinite(high)
    return np.sum(np.where(limited & np.isfinite(change), change, 0.0), axis=1)


def mark_empty(
    unit: np.ndarray, lower: np.ndarray, upper: np.ndarray, low: np.ndarray, high: np.ndarray
) -> None:
    """Set the first limits ``low`` and ``high`` of empty polytopes to an empty interval.

    unit, lower, upper : factors (1 or n, k, w) of unit deviations, and limits (n, k) in these
    """
    outside = (lower > 0.0) | (upper < 0.0)
    for b in np.flatnonzero(outside.any(axis=1)):
        if contradict(unit[b if len(unit) > 1 else 0], lower[b], upper[b]):
            low[b, 0] = high[b, 0] = 0.0
