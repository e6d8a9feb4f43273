"""Tilt the problems of Genz's method: many small ones side by side, a large one by all threads."""

from functools import partial

import numpy as np

from mvnorth._cpu.curved_tilting import (
    ENOUGH,
    PATH_STEPS,
    SETTLED,
    add_one,
    choose_curvatures,
    copy_factor,
    look_ahead,
    new_factor,
    no_look_ahead,
    place,
    reverse,
    tilt_dense,
    usable,
)
from mvnorth._cpu.tilting import STEPS, advance, assemble, evaluate
from mvnorth._linalg.cholesky import parallel_cholesky, square
from mvnorth._linalg.product import ROWS, STRIP, padded
from mvnorth._methods.lattice_rule import Tilt
from mvnorth._threads import run_items

ROUNDS = 5  # of second-order tilting, at most
_LARGE = 256  # from here on one problem occupies all threads


def tilt(
    T: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rank: np.ndarray,
    attached: np.ndarray,
    slope: np.ndarray,
    curve: np.ndarray,
    singular: float,
    rounds: int = ROUNDS,
) -> Tilt:
    """``tilt_dense`` of all problems: T, limits, slope and curve are overwritten."""
    size, d = lower.shape
    found = Tilt.empty(size)
    system = (T, lower, upper, rank, attached, slope, curve)
    if d < _LARGE:
        kernel = partial(tilt_dense, *system, singular, rounds, *found.outputs)
        run_items(kernel, size, size * d * (d * d * 2e-9 + 1e-6))
        return found
    for b in range(size):
        limits, outputs = (lower[b], upper[b]), (slope[b], curve[b])
        found.log_scale[b], found.rounding[b], found.log_bound[b] = _tilt_large(
            T[b], *limits, int(rank[b]), attached[b], *outputs, singular, rounds
        )
    return found


def _tilt_large(
    T: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    r: int,
    attached: np.ndarray,
    slope: np.ndarray,
    curve: np.ndarray,
    singular: float,
    rounds: int,
) -> tuple[float, float, float]:
    """As ``tilt_dense``, with the work of O(d**3) cut between threads."""
    d = lower.size
    side = padded(d)
    S, matrix, G = np.empty((3, side, side))
    J = np.zeros((side, side))
    nothing, root = np.empty(0), np.empty(side)
    s, e, W, tau = np.zeros((4, d))
    scale = np.ones(d)
    work = np.empty((3, d))

    def product(X: np.ndarray, diagonal: np.ndarray, out: np.ndarray) -> None:
        run_items(partial(square, X, diagonal, out), side // STRIP, side**3 * 8e-12)

    def path(steps: int) -> tuple[float, float]:
        """As ``saddle_point``."""
        limits, state = (S, nothing, nothing, scale, lower, upper), (s, e, W)
        value, size = evaluate(*limits, *state, work[0], r)
        gap = np.inf
        for _ in range(steps):
            run_items(partial(assemble, S, scale, W, matrix, r), side, side**2 * 5e-10)
            parallel_cholesky(matrix)
            value, size, gap = advance(*limits, *state, work, matrix, r, value, size)
            if gap < np.inf:
                break
        return value, gap

    def factor(rows: int) -> None:
        kernel = partial(new_factor, T, J, scale, attached, G, rows)
        run_items(kernel, -(-rows // ROWS), rows**3 * 1e-11)

    product(T, np.ones(side), S)
    no_look_ahead(e, tau, J, scale, r)
    value, gap = path(STEPS)
    log_bound = min(value + gap, 0.0) if gap < np.inf else 0.0
    for _ in range(rounds if log_bound < ENOUGH or gap == np.inf else 0):
        factor(r)
        choose_curvatures(G, scale, lower, upper, s, e, W, tau, work, r)
        reverse(T, tau, G, root, r)
        product(G, root, matrix)
        add_one(matrix, side)
        parallel_cholesky(matrix)
        change = look_ahead(T, tau, matrix, J, scale, s, r)
        path(PATH_STEPS)
        if change < SETTLED:
            break
    if not usable(e, scale, tau, r):
        no_look_ahead(e, tau, J, scale, r)
    factor(d)
    system = (T, G, scale, tau, attached, e, singular)
    log_scale, rounding = place(*system, lower, upper, slope, curve, work, d, r)
    copy_factor(G, attached, T, d)
    return log_scale, rounding, log_bound
