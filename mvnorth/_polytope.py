"""The public functions for polytopes: check, bring into the form of boxes, run, wrap."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._api import _AUTO
from mvnorth._distribution import Distribution
from mvnorth._docstrings import document, method_parameter
from mvnorth._estimate import Estimate
from mvnorth._methods import value_methods
from mvnorth._polytopes import as_boxes
from mvnorth._problem import Request
from mvnorth._read_polytopes import read_polytopes
from mvnorth._result import OrthantResult, wrap
from mvnorth.covariance import Factors

_PARAMETERS = f"""n : int, optional
        Number of integration points in all, as in ``box``.
    rtol, atol : float, optional
        Error asked for, relative to the probability or absolute; one of the two must be met.
        Default: a relative error of 1e-4, or none if ``n`` is given.
    {method_parameter(value_methods(), _AUTO)}
    df : float or array_like (...), optional
        Degrees of freedom of Student's t: X is mean + Y / R for a normal Y, as in ``box``.
    complement : bool
        Compute one minus the probability instead: that of at least one inequality being violated.
    seed : int
        Seed of the random shifts. The same input and seed give the same bits."""


@document(_PARAMETERS)
def polytope(
    A: ArrayLike,
    b: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
) -> OrthantResult:
    """Pr(A X <= b) for X ~ N(mean, cov), with error and status; A has any number of rows.

    Rows of A that are multiples of each other are combined, so that a box that is given as a
    polytope is computed as that box. Polytopes that depend on two variables (polygons) are exact.
    An empty polytope has probability 0; unbounded polytopes are allowed.

    Parameters
    ----------
    A : array_like (r, d) or (..., r, d)
        Normal vectors, a row for each inequality. A row of zeros is no constraint if its b is >= 0,
        and cannot be met if it is negative.
    b : float or array_like (..., r)
        Right-hand sides; plus infinity is no constraint, a number stands for all rows.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed. The structure of ``Factors``
        is used if every row of A has one entry; otherwise it is a matrix like any other.
    {parameters}

    Returns
    -------
    OrthantResult

    Examples
    --------
    The triangle x >= 0, y >= 0, x + y <= 1, and a square of side 2 that stands on a corner:

    >>> import mvnorth
    >>> A = [[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]]
    >>> result = mvnorth.polytope(A, [0.0, 0.0, 1.0], 0.0, [[1.0, 0.0], [0.0, 1.0]])
    >>> round(result.prob, 10), result.rel_error < 1e-12
    (0.0677300307, True)
    >>> diamond = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
    >>> round(mvnorth.polytope_prob(diamond, 2.0**0.5, 0.0, [[1.0, 0.0], [0.0, 1.0]]), 10)
    0.4660649427
    """
    given = read_polytopes(A, b, mean, cov)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points)
    name = _arguments.method_name(method, value_methods)
    start = _arguments.whole_number("seed", seed, at_least=0)
    request = Request(tolerance or _arguments.DEFAULT_TOLERANCE, points, seed=start)
    given, degrees = given.with_degrees(df)
    estimate = Estimate.exact(np.zeros(given.size), np.zeros(given.size))
    labels = np.full(given.size, "", dtype=object)
    for piece in as_boxes(given):
        rows = piece.rows
        distribution = Distribution(None if degrees is None else degrees[rows], None, complement)
        problems, _, solver = distribution.solver(piece.problems, rows.shape)
        part, labels[rows] = solver(problems, request, name)
        estimate.replace(rows, part)
    return wrap(estimate, labels.astype(str), tolerance, given.shape, np.dtype(np.float64))


@document(_PARAMETERS)
def polytope_prob(
    A: ArrayLike,
    b: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
) -> Any:
    """Pr(A X <= b) for X ~ N(mean, cov).

    Parameters
    ----------
    A : array_like (r, d) or (..., r, d)
        Normal vectors, a row for each inequality.
    b : float or array_like (..., r)
        Right-hand sides; plus infinity is no constraint, a number stands for all rows.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    {parameters}

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> a = 2.0 * np.pi * np.arange(100) / 100  # a regular polygon, almost a disc
    >>> A = np.stack([np.cos(a), np.sin(a)], axis=1)
    >>> print(f"{mvnorth.polytope_prob(A, 1.0, 0.0, np.eye(2)):.4f} {1 - np.exp(-0.5):.4f}")
    0.3936 0.3935
    """
    return polytope(
        A, b, mean, cov, n, rtol=rtol, atol=atol, method=method, df=df, complement=complement,
        seed=seed,
    ).prob  # fmt: skip


@document(_PARAMETERS)
def polytope_logprob(
    A: ArrayLike,
    b: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
) -> Any:
    """Logarithm of ``polytope_prob``, accurate where the probability underflows.

    Parameters
    ----------
    A : array_like (r, d) or (..., r, d)
        Normal vectors, a row for each inequality.
    b : float or array_like (..., r)
        Right-hand sides; plus infinity is no constraint, a number stands for all rows.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    {parameters}

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import mvnorth
    >>> A = [[-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0]]
    >>> round(mvnorth.polytope_logprob(A, [-30.0, -30.0, -80.0], 0.0, [[1.0, 0.0], [0.0, 1.0]]), 6)
    -1604.954704
    """
    return polytope(
        A, b, mean, cov, n, rtol=rtol, atol=atol, method=method, df=df, complement=complement,
        seed=seed,
    ).log_prob  # fmt: skip
