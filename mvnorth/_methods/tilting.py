"""Tilt the problems of Genz's method: many small ones side by side, a large one by all threads."""

from functools import partial

import numpy as np

from mvnorth._cpu.curved_tilting import (
    ENOUGH,
    LARGEST_GAP,
    PATH_NEAR,
    PATH_STEPS,
    SETTLED,
    add_one,
    choose_curvatures,
    copy_factor,
    first_order,
    look_ahead,
    new_factor,
    place,
    reverse,
    rounding_error,
    tilt_dense,
)
from mvnorth._cpu.tilting import CLOSE, NEAR, ROUNDING, STEPS, advance, assemble, evaluate
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
    stretch: np.ndarray,
    shift: np.ndarray,
    singular: float,
    rounds: int = ROUNDS,
) -> Tilt:
    """``tilt_dense`` of all problems: T, limits and what follows ``attached`` are overwritten."""
    size, d = lower.shape
    found = Tilt.empty(size)
    system = (T, lower, upper, rank, attached, slope, curve, stretch, shift)
    if d < _LARGE:
        kernel = partial(tilt_dense, *system, singular, rounds, *found.outputs)
        run_items(kernel, size, size * d * (d * d * 2e-9 + 1e-6))
        return found
    for b in range(size):
        limits, outputs = (lower[b], upper[b]), (slope[b], curve[b], stretch[b], shift[b])
        results = _tilt_large(T[b], *limits, int(rank[b]), attached[b], *outputs, singular, rounds)
        for output, value in zip(found.outputs, results, strict=True):
            output[b] = value
    return found


def _tilt_large(
    T: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    r: int,
    attached: np.ndarray,
    slope: np.ndarray,
    curve: np.ndarray,
    stretch: np.ndarray,
    shift: np.ndarray,
    singular: float,
    rounds: int,
) -> tuple[float, float, float, float]:
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

    def settle(steps: int, damped: bool) -> tuple[float, float, float]:
        """Smallest G, how far above its minimum it may be, and the length of the last step."""
        limits, state = (S, nothing, nothing, scale, lower, upper), (s, e, W)
        value, size = evaluate(*limits, *state, work[0], r)
        best, decrement, far = value + ROUNDING * size, 0.0, np.inf
        for _ in range(steps):
            run_items(partial(assemble, S, scale, W, matrix, r), side, side**2 * 5e-10)
            parallel_cholesky(matrix)
            value, size, decrement, far = advance(
                *limits, *state, work, matrix, damped, r, value, size
            )
            best = min(best, value + ROUNDING * size)
            if not far > CLOSE:
                break
        return best, abs(decrement) + 8.0 * ROUNDING * size, far

    def factor(rows: int) -> None:
        kernel = partial(new_factor, T, J, scale, attached, G, rows)
        run_items(kernel, -(-rows // ROWS), rows**3 * 1e-11)

    product(T, np.ones(side), S)
    first_order(tau, J, scale, r)
    best, gap = np.inf, np.inf
    for damped in (False, True):
        s[:] = 0.0
        value, gap, far = settle(STEPS, damped)
        best = min(best, value)
        if far < NEAR:
            break
        gap = np.inf
    if not gap < LARGEST_GAP:
        gap = np.inf
        e[:] = 0.0
    first = e.copy()
    lost = rounding_error(T, scale, e, singular, lower, upper, work, r)
    log_bound = min(best + lost, 0.0)
    for _ in range(rounds if gap < np.inf and best < ENOUGH else 0):
        factor(r)
        choose_curvatures(G, scale, lower, upper, s, e, W, tau, work, r)
        reverse(T, tau, G, root, r)
        product(G, root, matrix)
        add_one(matrix, side)
        parallel_cholesky(matrix)
        change = look_ahead(T, tau, matrix, J, scale, s, r)
        if not settle(PATH_STEPS, False)[2] < PATH_NEAR:
            first_order(tau, J, scale, r)
            e[:] = first
            break
        if change < SETTLED:
            break
    factor(d)
    lost = rounding_error(T, scale, e, singular, lower, upper, work, r)
    system = (T, G, scale, tau, attached, e)
    log_scale, size = place(*system, lower, upper, slope, curve, stretch, shift, work, d, r)
    copy_factor(G, attached, T, d)
    rounding = 4.0 * float(np.finfo(np.float64).eps) * size + lost
    return log_scale, rounding, log_bound, gap
