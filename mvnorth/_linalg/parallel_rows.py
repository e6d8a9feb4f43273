"""Inequalities that are multiples of each other, and inequalities that contradict each other."""

from dataclasses import dataclass

import numpy as np

_SAME = 8.0 * float(np.finfo(np.float64).eps)  # relative, for entries of rows that are multiples
_CERTAIN = 1e-12  # what is left of a combination of rows that should vanish


@dataclass(frozen=True, eq=False)
class ParallelRows:
    """Rows of a matrix (r, d) as multiples of some of them.

    Attributes
    ----------
    chosen : (k,) the rows that the others are multiples of
    place : (r,) which of these; -1 for a row of zeros
    scale : (r,) the multiple, negative for opposite rows
    """

    chosen: np.ndarray
    place: np.ndarray
    scale: np.ndarray


def find_parallel(A: np.ndarray, opposite: bool) -> ParallelRows:
    """Return which rows of A (r, d) are positive multiples of others, or any multiples.

    Entries may differ by rounding, and zeros must be zeros.
    """
    r = len(A)
    place, scale = np.full(r, -1), np.ones(r)
    largest = np.argmax(np.abs(A), axis=1)
    left = np.abs(A).max(axis=1) > 0.0
    chosen: list[int] = []
    for i in range(r):
        if not left[i]:
            continue
        others = np.flatnonzero(left)
        ratio = A[others, largest[i]] / A[i, largest[i]]
        wanted = ratio[:, None] * A[i]
        same = (np.abs(A[others] - wanted) <= _SAME * np.abs(wanted)).all(axis=1)
        same &= (ratio != 0.0) if opposite else (ratio > 0.0)
        place[others[same]], scale[others[same]] = len(chosen), ratio[same]
        place[i], scale[i] = len(chosen), 1.0
        left[others[same]] = False
        chosen.append(i)
    return ParallelRows(np.array(chosen, dtype=np.int64), place, scale)


def contradict(C: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
    """Return whether no y has lower <= C y <= upper, with certainty.

    Some combination of the inequalities with weights u >= 0 then says 0 <= -1 (Farkas).  The
    weights are those of a least-squares problem (Lawson and Hanson 1974, chapter 23), and are
    checked: they prove that all y are farther away than 1e11 deviations.

    Parameters
    ----------
    C : (k, q)
    lower, upper : (k,) limits, may be infinite
    """
    from scipy.optimize import nnls

    signs = ((1.0, upper), (-1.0, lower))
    M = np.concatenate([s * C[np.isfinite(limit)] for s, limit in signs])
    g = np.concatenate([s * limit[np.isfinite(limit)] for s, limit in signs])
    size = np.maximum(np.sqrt(np.sum(M * M, axis=1)), np.abs(g))
    size[size == 0.0] = 1.0
    M, g = M / size[:, None], g / size
    target = np.zeros(C.shape[1] + 1)
    target[-1] = -1.0
    try:
        u, _ = nnls(np.concatenate([M.T, g[None]]), target)
    except RuntimeError:  # too many iterations
        return False
    left = np.abs(M.T @ u).sum() + _CERTAIN * np.abs(g) @ u
    return bool(g @ u < -0.5 and left <= 10.0 * _CERTAIN)
