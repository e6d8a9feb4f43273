"""Inequalities that are multiples of each other, and inequalities that contradict each other."""

from dataclasses import dataclass

import numpy as np

_SAME = 8.0 * float(np.finfo(np.float64).eps)  # relative, for entries of rows that are multiples
_TOUCHES = 1e-12  # relative: how far a redundant limit may cut into the others
_REACH = 10.0  # deviations from the mean within which that holds
_CERTAIN = 1e-11  # what is left of a combination of rows that should vanish
_ROUNDED = 1e-14  # relative error of limits, and of rows
_FAR = 1e-4  # what may be left of rows because they are rounded


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


def find_redundant(C: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return which of the limits (k, 2) of C y the others imply, by linear programming.

    Limits that are only just implied, or cut off less than 1e-12, count as implied.  Infinite ones
    do not.  The multipliers of the program are checked, since its tolerance is 1e-7: they combine
    other inequalities into one that is at least as tight.

    Parameters
    ----------
    C : (k, q) rows of unit length
    lower, upper : (k,) limits, may be infinite
    """
    from scipy.optimize import linprog

    limits = np.stack([-lower, upper], axis=1)
    rows, sides = np.nonzero(np.isfinite(limits))
    M, g = C[rows] * (2.0 * sides - 1.0)[:, None], limits[rows, sides]
    redundant = np.zeros(limits.shape, dtype=bool)
    kept = np.ones(g.size, dtype=bool)
    for i in range(g.size):
        kept[i] = False
        # Also limited itself, if farther out, for a maximum that is finite.
        above = np.concatenate([g[kept], [g[i] + 1.0]])
        program = linprog(-M[i], np.concatenate([M[kept], M[[i]]]), above, bounds=(None, None))
        if program.status == 0:
            u = np.maximum(-program.ineqlin.marginals[:-1], 0.0)
            most = u @ g[kept] + _REACH * np.abs(M[i] - u @ M[kept]).sum()
            implied = most <= g[i] + _TOUCHES * (1.0 + abs(g[i]))
        kept[i] = program.status != 0 or not implied
    redundant[rows, sides] = ~kept
    return redundant


def contradict(C: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
    """Return whether no y has lower <= C y <= upper, with certainty.

    Some combination of the inequalities with weights u >= 0 then says 0 <= -1 (Farkas).  The
    weights are those of a least-squares problem (Lawson and Hanson 1974, chapter 23), and are
    checked: they prove that all y are farther away than 1e10 deviations, or than 1e3 if rounding of
    C decides between that and no y at all.

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
    # Limits may be off by rounding, which must not matter.
    contradiction = g @ u + _ROUNDED * np.abs(g) @ u < -0.5
    rounding = _ROUNDED * (np.abs(M).T @ u).sum()
    return bool(contradiction and np.abs(M.T @ u).sum() <= max(_CERTAIN, min(rounding, _FAR)))
