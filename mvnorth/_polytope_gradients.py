"""Derivatives of the probability of a polytope in A, b, mean and cov.

The boundary of {x : A x <= b} consists of faces, one for each row that matters.  With f_i the
density of a_i X at b_i times Pr(the other rows | a_i X = b_i),

    dP/db_i = f_i        dP/dmean = -A^T f        dP/dA_i = -f_i E[X | face i, the other rows]

Moments of faces come from their own faces, the edges: with the density f_ij of (a_i X, a_j X) at
(b_i, b_j) times Pr(the others given these), G_ij = f_ij / 2 and G_ii such that P does not change
with the unit of row i (docs/polytopes.md),

    dP/dA = 2 G A cov - f mean^T        dP/dcov = A^T G A

For rows that do not determine each other G is the derivative in the covariance of A X.  Where they
do, that does not exist, but these products do.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._docstrings import document, method_parameter
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._linalg.bounds import times
from mvnorth._linalg.inequalities import find_redundant
from mvnorth._methods import METHODS, derivative_methods
from mvnorth._polytopes import Piece, as_boxes, mark_empty
from mvnorth._problem import Problems, Request
from mvnorth._read_polytopes import Polytopes, read_polytopes
from mvnorth._result import OrthantGradient, wrap, wrap_gradient
from mvnorth._solve import solve
from mvnorth.covariance import Factors

_NAMES = ("A", "b", "mean", "cov")
_EDGE_POINTS = 2**14  # at most, for each face and each edge
_LOG_2 = float(np.log(2.0))
_TIED = 1e-12  # relative difference of limits of parallel rows that coincide

_AUTO = """differentiates the methods of ``polytope`` where rows of A are independent of each
other, and polygons exactly. Otherwise it computes the probabilities of all faces, and for "A" and
"cov" of all edges (up to r**2 / 2), with at most 2**14 points each. See docs/polytopes.md."""

_PARAMETERS = f"""n : int, optional
        Number of integration points for the probability, as in ``polytope``.
    {method_parameter(derivative_methods(), _AUTO)}
    log : bool
        Derivatives of the logarithm of the probability instead of the probability.
    rtol, atol : float, optional
        Error of the probability asked for, as in ``polytope``.
    seed : int
        Seed of the random shifts."""


@document(_PARAMETERS)
def polytope_grad(
    A: ArrayLike,
    b: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    wrt: tuple[str, ...] = ("b",),
    method: str = "auto",
    log: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> OrthantGradient:
    """Pr(A X <= b) for X ~ N(mean, cov), and its derivatives.

    Parameters
    ----------
    A : array_like (r, d) or (..., r, d)
        Normal vectors, a row for each inequality.
    b : float or array_like (..., r)
        Right-hand sides.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite.
    wrt : tuple of {{"A", "b", "mean", "cov"}}
        What to differentiate with respect to.
    {parameters}

    Returns
    -------
    OrthantGradient
        ``grad_A`` (..., r, d), ``grad_b`` (..., r), ``grad_mean`` (..., d) and ``grad_cov``
        (..., d, d), each with an error. Rows that do not bound the polytope have derivatives of
        zero. Where two rows are the same face, the probability has a kink, and for a row of zeros
        with b = 0 a jump: their derivatives have infinite errors.

    Examples
    --------
    >>> import mvnorth
    >>> A = [[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]]
    >>> result = mvnorth.polytope_grad(A, [0.0, 0.0, 1.0], 0.0, [[1.0, 0.0], [0.0, 1.0]])
    >>> result.grad_b.round(6)
    array([0.136177, 0.136177, 0.114352])
    """
    given = read_polytopes(A, b, mean, cov)
    names = _arguments.subset("wrt", wrt, _NAMES)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points)
    chosen = _arguments.method_name(method, derivative_methods)
    start = _arguments.whole_number("seed", seed, at_least=0)
    target = tolerance or _arguments.DEFAULT_TOLERANCE
    request = Request(target, points, seed=start, wrt=("lower", "upper"))
    if {"A", "cov"} & {*names}:
        request = replace(request, wrt=("lower", "upper", "cov"))
        if chosen != "auto" and METHODS[chosen].limits_only:
            raise ValueError(
                f"method={chosen!r} differentiates in 'b' and 'mean' only, got {wrt!r}"
            )
    estimate = Estimate.exact(np.zeros(given.size), np.zeros(given.size))
    labels = np.full(given.size, "", dtype=object)
    total = _Gradient.zeros(given, names)
    for piece in as_boxes(given, opposite="A" not in names, boxes=False):
        part, labels[piece.rows] = _differentiate(piece.problems, request, chosen)
        estimate.replace(piece.rows, part)
        total.add(given, piece, part)
    result = wrap(estimate, labels.astype(str), tolerance, given.shape, np.dtype(np.float64))
    return wrap_gradient(result, total.derivatives, log)


def _differentiate(
    problems: Problems, request: Request, method: str
) -> tuple[Estimate, np.ndarray]:
    """Return estimates with derivatives in limits and, if wanted, G, in units of A X."""
    active = np.isfinite(problems.lower) | np.isfinite(problems.upper)
    simple = not request.in_covariance or method != "auto"
    if simple or problems.covariance.regular(active).all():
        estimate, labels = solve(problems, request, method)
    else:
        estimate, labels = _differentiate_faces(problems, request)
    assert estimate.derivatives is not None
    derivatives = estimate.derivatives.only(request.wrt)
    problems.covariance.to_user_units(derivatives)
    return replace(estimate, derivatives=derivatives), labels


def _differentiate_faces(problems: Problems, request: Request) -> tuple[Estimate, np.ndarray]:
    """Return estimates with derivatives from the probabilities of faces and edges."""
    from mvnorth._methods import conditional, polygon

    plain = replace(request, wrt=())
    estimate, labels = solve(problems, plain, "auto")
    polygons = polygon.preference(problems) is not None
    if not polygons:
        problems = _without_redundant(problems)
    few = replace(plain, most=_EDGE_POINTS)

    def solve_part(part: Problems) -> Estimate:
        unit, norm = _unit_rows(part)
        lower, upper = part.lower.copy(), part.upper.copy()
        mark_empty(unit, lower / norm, upper / norm, lower, upper)
        found = solve(replace(part, lower=lower, upper=upper), few, "auto")[0]
        # Where no point was inside, the probability is known to be between zero and its bound.
        missed = np.isinf(found.rel_error)
        found.log_prob[missed], found.rel_error[missed] = found.log_bound[missed] - _LOG_2, 1.0
        return found

    rows = np.flatnonzero(estimate.log_prob > -np.inf)
    derivatives = Derivatives.unknown(problems, request.wrt)
    if rows.size:
        part, known, wrt = problems.take(rows), estimate.take(rows), request.wrt
        if polygons:
            some = polygon.differentiate(part, wrt, known, keep_rank=True)
        else:
            some = conditional.differentiate(part, wrt, known, solve_part, keep_rank=True)
        derivatives.replace(rows, some)
    derivatives.clear_infinite(problems, estimate.log_prob > -np.inf)
    return replace(estimate, derivatives=derivatives), labels


def _without_redundant(problems: Problems) -> Problems:
    """Return the same problems with infinite limits where the others imply them.

    Three faces that meet in an edge, one of them redundant, would leave it to rounding which two
    have it; and each limit less saves as many edges as there are limits.
    """
    unit, norm = _unit_rows(problems)
    lower, upper = problems.lower.copy(), problems.upper.copy()
    for b in range(problems.size):
        of = b if len(unit) > 1 else 0
        redundant = find_redundant(unit[of], lower[b] / norm[of], upper[b] / norm[of])
        lower[b, redundant[:, 0]], upper[b, redundant[:, 1]] = -np.inf, np.inf
    return replace(problems, lower=lower, upper=upper, sides=None, one_block=False)


def _unit_rows(problems: Problems) -> tuple[np.ndarray, np.ndarray]:
    """Return factors with rows of unit length (1 or B, d, r), and the lengths they had."""
    factor = problems.covariance.dense().factor
    norm = np.sqrt(np.sum(factor * factor, axis=2))
    norm[norm == 0.0] = 1.0
    return factor / norm[:, :, None], norm


@dataclass(frozen=True, eq=False)
class _Gradient:
    """Derivatives of log P in the user's arguments, for all rows of a batch."""

    derivatives: Derivatives

    @classmethod
    def zeros(cls, given: Polytopes, names: tuple[str, ...]) -> "_Gradient":
        r, d = given.A.shape[1:]
        shapes = {"A": (r, d), "b": (r,), "mean": (d,), "cov": (d, d)}
        value, error = (
            {name: np.zeros((given.size, *shapes[name])) for name in names} for _ in range(2)
        )
        return cls(Derivatives(value, error))

    def add(self, given: Polytopes, piece: Piece, estimate: Estimate) -> None:
        """Fill in the rows of a piece, from derivatives in limits of D X and in G."""
        assert estimate.derivatives is not None
        of, bound = estimate.derivatives.value, estimate.derivatives.error
        value, error = self.derivatives.value, self.derivatives.error
        rows, D = piece.rows, piece.D
        if piece.box:  # all rows of A are zeros: P is 1, or 0, of whose logarithm nothing is known
            for bounds in error.values():
                bounds[rows[~(estimate.log_prob > -np.inf)]] = np.inf
            self._mark_jumps(given, piece)
            return
        if "b" in value:
            parts = (of["lower"], of["upper"]), (bound["lower"], bound["upper"])
            self._add_rows(given, piece, "b", *parts)
        if "mean" in value:
            face, at = of["lower"] + of["upper"], bound["lower"] + bound["upper"]
            product = times(-face[:, None], at[:, None], D)
            value["mean"][rows], error["mean"][rows] = (a[:, 0] for a in product)
        if "cov" in value or "A" in value:
            right = times(of["cov"], bound["cov"], D)
        if "cov" in value:
            left, left_error = (np.swapaxes(a, 1, 2) for a in right)
            first, at = times(left, left_error, D)
            value["cov"][rows] = 0.5 * (first + np.swapaxes(first, 1, 2))
            error["cov"][rows] = np.maximum(at, np.swapaxes(at, 1, 2))
        if "A" in value:
            cov = given.rows.matrix() * _outer(given.rows.unit)
            sigma = cov if len(cov) == 1 else cov[given.of_mean[rows]]
            whole, at = times(2.0 * right[0], 2.0 * right[1], sigma)
            mean = given.mean[given.of_mean[rows]][:, None]
            shift = times(of["upper"][:, :, None], bound["upper"][:, :, None], mean)
            parts = (whole, whole - shift[0]), (at, at + shift[1])
            self._add_rows(given, piece, "A", *parts)
        self._mark_jumps(given, piece)

    def _mark_jumps(self, given: Polytopes, piece: Piece) -> None:
        """Set infinite errors for rows of zeros with b = 0: P jumps there."""
        row, i = np.nonzero((piece.place < 0) & (given.b[given.of_b[piece.rows]] == 0.0))
        for name in {"A", "b"} & {*self.derivatives.error}:
            self.derivatives.error[name][piece.rows[row], i] = np.inf

    def _add_rows(
        self,
        given: Polytopes,
        piece: Piece,
        name: str,
        of: tuple[np.ndarray, np.ndarray],
        bound: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Assign derivatives of lower and upper limits (n, k, ...) to the rows of A that set them.

        Of parallel rows only the tightest has a derivative, and if two are as tight P has a kink.
        """
        b = given.b[given.of_b[piece.rows]]
        value, error = self.derivatives.value[name], self.derivatives.error[name]
        with np.errstate(invalid="ignore"):
            limit = b / piece.scale
        upwards = piece.scale > 0.0
        for i in range(b.shape[1]):
            j = np.maximum(piece.place[:, i], 0)
            same = (piece.place == piece.place[:, [i]]) & (upwards == upwards[:, [i]])
            same[:, i] = False
            sign = np.where(upwards[:, i], 1.0, -1.0)
            with np.errstate(invalid="ignore"):
                ahead = sign[:, None] * (limit - limit[:, [i]])  # negative where another is tighter
            near = _TIED * (1.0 + np.abs(limit[:, [i]]))
            behind = (same & (ahead < -near)).any(axis=1) | np.isinf(b[:, i])
            behind |= piece.place[:, i] < 0
            kink = (same & (np.abs(ahead) <= near)).any(axis=1) & ~behind
            some = np.flatnonzero(~behind)
            side = upwards[some, i].astype(np.int64)
            scale = piece.scale[some, i]
            at = (piece.rows[some], i)
            for target, source in ((value, of), (error, bound)):
                both = np.stack(source)[side, some, j[some]]
                shape = (-1, *(1,) * (both.ndim - 1))
                size = scale if target is value else np.abs(scale)
                target[at] = both / size.reshape(shape)
            error[piece.rows[kink], i] = np.inf


def _outer(unit: np.ndarray | float) -> np.ndarray | float:
    if isinstance(unit, float):
        return unit * unit
    return np.asarray(unit[:, :, None] * unit[:, None, :])
