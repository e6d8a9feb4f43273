"""Tilt the problems of Genz's method: many small ones side by side, a large one by all threads."""

from functools import partial

import numpy as np

from mvnorth._compile import for_python
from mvnorth._cpu import curved_tilting, rounding, tilting
from mvnorth._cpu.curved_tilting import (
    ENOUGH,
    LARGEST_GAP,
    PATH_NEAR,
    PATH_STEPS,
    SETTLED,
    tilt_dense,
)
from mvnorth._cpu.tilting import CLOSE, HALVINGS, NEAR, ROUNDING, STEPS
from mvnorth._linalg.cholesky import parallel_cholesky, square
from mvnorth._linalg.product import ROWS, STRIP, padded
from mvnorth._methods.lattice_rule import Tilt
from mvnorth._threads import run_items

ROUNDS = 5  # of second-order tilting, at most
_LARGE = 256  # from here on one problem occupies all threads

# The parts of ``tilt_dense``, for large problems.
add_one = for_python(curved_tilting.add_one)
bound_rounding = for_python(curved_tilting.bound_rounding)
choose_curvatures = for_python(curved_tilting.choose_curvatures)
copy_factor = for_python(curved_tilting.copy_factor)
first_order = for_python(curved_tilting.first_order)
look_ahead = for_python(curved_tilting.look_ahead)
new_factor = for_python(curved_tilting.new_factor)
place = for_python(curved_tilting.place)
reverse = for_python(curved_tilting.reverse)
rounding_error = for_python(curved_tilting.rounding_error)
inverse_row_sums = for_python(rounding.inverse_row_sums)
of_limits = for_python(rounding.of_limits)
row_norms = for_python(rounding.row_norms)
advance = for_python(tilting.advance)
assemble = for_python(tilting.assemble)
evaluate = for_python(tilting.evaluate)
keep_best = for_python(tilting.keep_best)


def tilt(
    T: np.ndarray,
    lower: np.ndarray | None,
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
    """Tilt all problems: T, limits and what follows ``attached`` are overwritten.

    ``lower`` is None if all are minus infinity.
    """
    size, d = upper.shape
    found = Tilt.empty(size)
    system = (T, lower, upper, rank, attached, slope, curve, stretch, shift)
    if d < _LARGE:
        blocked = None if d <= STRIP else True
        kernel = partial(tilt_dense, *system, singular, rounds, *found.outputs, blocked)
        run_items(kernel, size, size * d * (d * d * 2e-9 + 1e-6))
        return found
    for b in range(size):
        limits = (None if lower is None else lower[b], upper[b])
        outputs = (slope[b], curve[b], stretch[b], shift[b])
        results = _tilt_large(T[b], *limits, int(rank[b]), attached[b], *outputs, singular, rounds)
        for output, value in zip(found.outputs, results, strict=True):
            output[b] = value
    return found


def _tilt_large(
    T: np.ndarray,
    lower: np.ndarray | None,
    upper: np.ndarray,
    r: int,
    attached: np.ndarray,
    slope: np.ndarray,
    curve: np.ndarray,
    stretch: np.ndarray,
    shift: np.ndarray,
    singular: float,
    rounds: int,
) -> tuple[float, float, float, float, float]:
    """Tilt one large problem as ``tilt_dense`` does, with the O(d**3) work on several threads."""
    d = upper.size
    side = padded(d)
    S, matrix, G = np.empty((3, side, side))
    J = np.zeros((side, side))
    root = np.empty(side)
    s, e, W, tau, norm, z, drawn = np.zeros((7, d))
    scale = np.ones(d)
    work = np.empty((5, d))

    def product(X: np.ndarray, diagonal: np.ndarray, out: np.ndarray) -> None:
        run_items(partial(square, X, diagonal, out), side // STRIP, side**3 * 8e-12)

    def settle(steps: int, damped: bool, least: float) -> tuple[float, float, float]:
        """Return the smallest G, how far above its minimum it may be, and the last step length.

        ``least`` is the smallest G so far; where it was found is left in work[3:].
        """
        limits, state = (S, None, None, scale, lower, upper), (s, e, W)
        of_best = (e, W, work[3], work[4], r)
        value, size, lost = evaluate(*limits, *state, work[0], r)
        best = keep_best(least, value, lost, *of_best)
        decrement, far = 0.0, np.inf
        for _ in range(steps):
            run_items(partial(assemble, S, scale, W, matrix, r), side, side**2 * 5e-10)
            parallel_cholesky(matrix)
            value, size, lost, decrement, far = advance(
                *limits, *state, work, matrix, HALVINGS if damped else 1, r, value, size
            )
            best = keep_best(best, value, lost, *of_best)
            if not far > CLOSE:
                break
        return best, abs(decrement) + 8.0 * ROUNDING * size, far

    def factor(rows: int) -> None:
        kernel = partial(new_factor, T, J, scale, attached, G, True, rows)
        run_items(kernel, -(-rows // ROWS), rows**3 * 1e-11)

    product(T, np.ones(side), S)
    first_order(tau, J, scale, r)
    best, gap = np.inf, np.inf
    for damped in (False, True):
        s[:] = 0.0
        best, gap, far = settle(STEPS, damped, best)
        if far < NEAR:
            break
        gap = np.inf
    if not gap < LARGEST_GAP:
        gap = np.inf
        e[:] = 0.0
    first, first_s, first_W = e.copy(), s.copy(), W.copy()
    row_norms(T, norm, r)
    inverse_row_sums(T, norm, G, z, r)
    bound = best + bound_rounding(T, work[3], work[4], norm, z, singular, work[0], r)
    log_bound = bound if bound < 0.0 else 0.0
    for _ in range(rounds if gap < np.inf and best < ENOUGH else 0):
        factor(r)
        choose_curvatures(G, scale, lower, upper, s, e, W, tau, work, r)
        reverse(T, tau, G, root, r)
        product(G, root, matrix)
        add_one(matrix, side)
        parallel_cholesky(matrix)
        change = look_ahead(T, tau, matrix, J, scale, s, r)
        if not settle(PATH_STEPS, False, -np.inf)[2] < PATH_NEAR:
            first_order(tau, J, scale, r)
            e[:], s[:] = first, first_s
            break
        if change < SETTLED:
            break
    factor(d)
    limits, sums = (singular, lower, upper, attached), (norm, z, first_W)
    of_problem = rounding_error(
        T, scale, s, e, gap < np.inf, *limits, *sums, work, drawn, d, r
    )  # fmt: skip
    system = (T, G, scale, tau, attached, e)
    log_scale, size = place(*system, lower, upper, slope, curve, stretch, shift, work, d, r)
    copy_factor(G, attached, T, d)
    lost = of_limits(G, lower, upper, shift, drawn, r)
    of_weights = 4.0 * float(np.finfo(np.float64).eps) * size + lost
    return log_scale, of_weights, of_problem, log_bound, gap
