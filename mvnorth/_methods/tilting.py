"""Tilt the problems of Genz's method: many small ones side by side, a large one by all threads."""

from functools import partial

import numpy as np

from mvnorth._cpu.tilting import STEPS, advance, assemble, evaluate, shift_dense, tilt_dense
from mvnorth._linalg.cholesky import parallel_cholesky, square
from mvnorth._linalg.product import STRIP, padded
from mvnorth._methods.lattice_rule import Tilt
from mvnorth._threads import run_items

_LARGE = 256  # from here on one problem occupies all threads


def tilt(
    T: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rank: np.ndarray,
    attached: np.ndarray,
    slope: np.ndarray,
) -> Tilt:
    """``tilt_dense`` of all problems: ``lower``, ``upper`` and ``slope`` are overwritten."""
    size, d = lower.shape
    found = Tilt.empty(size)
    if d < _LARGE:
        system = (T, lower, upper, rank, attached, slope)
        saddle = partial(tilt_dense, *system, found.log_scale, found.log_bound)
        run_items(saddle, size, size * d * (d * d * 2e-9 + 1e-6))
        return found
    for b in range(size):
        G, gap = _saddle_point(T[b], lower[b], upper[b], int(rank[b]), slope[b])
        found.log_bound[b] = min(G + gap, 0.0)
        own = (T[b], lower[b], upper[b], rank[b], attached[b], slope[b])
        found.log_scale[b] = shift_dense(*own, np.empty(d))
    return found


def _saddle_point(
    T: np.ndarray, lower: np.ndarray, upper: np.ndarray, r: int, e: np.ndarray
) -> tuple[float, float]:
    """As the kernel of the same name, with the work of O(d**3) and more cut between threads."""
    side = padded(lower.size)
    S, matrix, nothing = np.empty((side, side)), np.empty((side, side)), np.empty(0)
    s, W, F, trial, step = np.zeros((5, lower.size))
    run_items(partial(square, T, S), side // STRIP, side**3 * 8e-12)
    limits, state = (S, nothing, nothing, lower, upper), (s, e, W, F)
    G, size = evaluate(*limits, *state, r)
    gap = np.inf
    for _ in range(STEPS):
        run_items(partial(assemble, S, W, matrix, r), side, side**2 * 5e-10)
        parallel_cholesky(matrix)
        G, size, gap = advance(*limits, *state, trial, step, matrix, r, G, size)
        if gap < np.inf:
            break
    return G, gap
