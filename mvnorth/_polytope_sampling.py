"""Draws of X ~ N(mean, cov) given A X <= b: draws of the box A X, and X given these.

With X = mean + L y and C = D L for the rows D that matter, a draw of D X leaves

    y = C^+ (D X - D mean) + (I - C^+ C) e        e standard normal

where C^+ is the pseudo-inverse; e is needed only if D has fewer independent rows than columns.
"""

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._plan import find_impossible
from mvnorth._polytopes import Piece, as_boxes
from mvnorth._problem import Problems
from mvnorth._read_polytopes import Polytopes, read_polytopes
from mvnorth._result import OrthantSample, wrap_sample
from mvnorth.covariance import Factors

_RANK = 1e-13  # relative singular value below which rows are dependent


def sample_polytope(
    A: ArrayLike,
    b: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    size: int,
    *,
    max_proposals: int | None = None,
    seed: int = 0,
) -> OrthantSample:
    """Independent draws of X ~ N(mean, cov) given A X <= b, exact up to rounding.

    Proposals are accepted or rejected such that the accepted ones have that distribution. A X <= b
    holds up to the rounding error of computing A X.

    Parameters
    ----------
    A : array_like (r, d) or (..., r, d)
        Normal vectors, a row for each inequality.
    b : float or array_like (..., r)
        Right-hand sides; plus infinity is no constraint.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    size : int
        Number of draws, for every row of a batch.
    max_proposals : int, optional
        How many proposals may be spent on a row of a batch; default: 2e9 over the number of rows
        of A that matter, about a minute of one core.
    seed : int
        The same input and seed give the same bits; fewer draws are the first of more.

    Returns
    -------
    OrthantSample
        ``draws`` (..., size, d) of X.

    Raises
    ------
    AcceptanceError
        If so few proposals are accepted that ``max_proposals`` would not suffice.
    ValueError
        If the polytope is empty, among other wrong arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> A, b = [[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0]  # a triangle
    >>> draws = np.asarray(mvnorth.sample_polytope(A, b, 0.0, np.eye(2), 1000))
    >>> draws.shape, bool((draws @ np.transpose(A) <= np.add(b, 1e-14)).all())
    ((1000, 2), True)
    """
    given = read_polytopes(A, b, mean, cov)
    count = _arguments.whole_number("size", size, at_least=1)
    most = _arguments.points_count(max_proposals, "max_proposals")
    start = _arguments.whole_number("seed", seed, at_least=0)
    pieces = list(as_boxes(given))
    for piece in pieces:
        _refuse_empty(piece, given.shape)
        _checks.within_reach(piece.problems)
    draws = np.empty((given.size, count, given.A.shape[2]))
    acceptance, log_bound = np.ones(given.size), np.zeros(given.size)
    proposals = np.zeros(given.size, dtype=np.int64)
    for piece in pieces:
        for index, row in enumerate(piece.rows):
            found = _sample_row(given, piece, index, count, most, start)
            draws[row], acceptance[row], proposals[row], log_bound[row] = found
    return wrap_sample(draws, acceptance, proposals, log_bound, given.shape)


def _refuse_empty(piece: Piece, shape: tuple[int, ...]) -> None:
    never = find_impossible(piece.problems)
    if never.any():
        row = f" in row {int(piece.rows[np.argmax(never)])} of the batch" if shape else ""
        raise ValueError(
            f"there is nothing to draw{row}: A X <= b has probability zero, since the inequalities "
            "contradict each other, or leave a set without volume"
        )


def _sample_row(
    given: Polytopes, piece: Piece, index: int, size: int, most: int | None, seed: int
) -> tuple[np.ndarray, float, int, float]:
    """Return draws (size, d) of one row, the share accepted, the proposals and a bound on log P."""
    from mvnorth._methods.rejection import Target, sample  # numba is imported with the first call

    row = piece.rows[index]
    mean = given.mean[given.of_mean[row]]
    D = np.eye(len(mean)) if piece.box else piece.D[index]
    problems = piece.problems.take(np.array([index]))
    unit = np.broadcast_to(problems.covariance.unit, problems.lower.shape)
    limited = np.isfinite(problems.lower[0]) | np.isfinite(problems.upper[0])
    if not piece.box:  # coordinates of X are drawn with the others, limited or not
        problems, D, unit = _take_coordinates(problems, limited), D[limited], unit[:, limited]
    else:
        limited[:] = True
    centre = (D @ mean)[None]
    low, high = (a[index : index + 1][:, limited] for a in (piece.lower, piece.upper))
    key = int(np.random.SeedSequence([seed, int(row)]).generate_state(1)[0])
    draws, found = np.empty((size, 0)), (1.0, 0, 0.0)
    if problems.d:
        part = sample(problems, Target(low, high, centre, np.array(unit)), size, most, key)
        draws = part.draws[0]
        found = float(part.acceptance[0]), int(part.proposals[0]), float(part.log_bound[0])
    if not piece.box:
        L = given.factors(np.array([row]))[0][0]
        draws = _given_products(draws, D, mean, L, np.random.default_rng([key, 1]))
    return (draws, *found)


def _take_coordinates(problems: Problems, chosen: np.ndarray) -> Problems:
    return problems.take(slice(None), np.flatnonzero(chosen))


def _given_products(
    products: np.ndarray, D: np.ndarray, mean: np.ndarray, L: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return draws of X (size, d) given those of D X, (size, k)."""
    C = D @ L
    norm = np.sqrt(np.sum(C * C, axis=1))
    norm[norm == 0.0] = 1.0
    C /= norm[:, None]
    inverse = np.linalg.pinv(C, rcond=_RANK)
    y = ((products - D @ mean) / norm) @ inverse.T
    if len(C) == 0 or np.linalg.matrix_rank(C, tol=_RANK * len(C)) < C.shape[1]:
        rest = rng.standard_normal((len(products), C.shape[1]))
        y += rest - (rest @ C.T) @ inverse.T
    return mean + y @ L.T
