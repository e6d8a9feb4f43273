"""The public functions for moments of truncated distributions: check, run, wrap."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._docstrings import document
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._moments_result import Moments, wrap_moments
from mvnorth._problem import MAX_POINTS, Problems, Request, Tolerance
from mvnorth._solve_moments import solve_moments
from mvnorth.covariance import Factors

_DEFAULT = Tolerance(1e-2, 0.0)
_EPS = float(np.finfo(np.float64).eps)

_PARAMETERS = """n : int, optional
        Number of integration points in all where it is sampled, rounded down to what the point
        set takes (by 11 % at most). Without it points are added until the moments meet the
        tolerance, up to 2**20.
    rtol, atol : float, optional
        Error asked for, of all means and covariances. ``rtol`` is relative to the standard
        deviations of the truncated distribution: a mean may be off by ``rtol`` deviations, a
        covariance by ``rtol`` times the product of both deviations. ``atol`` is absolute. One of
        the two must be met. Default: ``rtol=0.01``, or none if ``n`` is given. Up to three
        coordinates and with one or two common factors, results are far more accurate than that.
    seed : int
        Seed of the random shifts. The same input and seed give the same bits, whatever the
        number of threads and however a batch is cut."""


@document(_PARAMETERS)
def box_moments(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> Moments:
    """Return mean and covariance of X ~ N(mean, cov) given lower <= X <= upper, with errors.

    Parameters
    ----------
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, a number stands for all coordinates. Where their
        probability is 0 the moments are NaN with infinite errors.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    {parameters}

    Returns
    -------
    Moments
        With ``mean`` (..., d), ``cov`` (..., d, d) and bounds on their errors, entry by entry.

    Examples
    --------
    >>> import mvnorth
    >>> moments = mvnorth.box_moments(1.0, [2.0, 4.0], 0.0, [[1.0, 0.5], [0.5, 1.0]])
    >>> moments.mean.round(6)
    array([1.426778, 1.598027])
    >>> moments.cov.round(6)
    array([[0.076874, 0.011561],
           [0.011561, 0.224445]])
    """
    problems, shape = _checks.box_problems(lower, upper, mean, cov)
    centre = _rows(mean, shape, problems.d)
    limits = (_rows(lower, shape, problems.d), _rows(upper, shape, problems.d))
    return _moments(problems, shape, centre, 1.0, limits, n, rtol, atol, seed)


@document(_PARAMETERS)
def orthant_moments(
    m: ArrayLike,
    L: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> Moments:
    """Return mean and covariance of t ~ N(m, L L^T) given that all are >= 0, with errors.

    Parameters
    ----------
    m : array_like (..., d)
        Means, finite.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, with a diagonal >= 0; or diag(c) + V V^T.
    {parameters}

    Returns
    -------
    Moments
        With ``mean`` (..., d), ``cov`` (..., d, d) and bounds on their errors, entry by entry.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> moments = mvnorth.orthant_moments([0.0, 0.0], np.eye(2))  # two half-normals
    >>> moments.mean.round(6), np.diag(moments.cov).round(6)
    (array([0.797885, 0.797885]), array([0.36338, 0.36338]))
    """
    problems, shape = _checks.orthant_problems(m, L)
    _arguments.real_array("m", m, infinite=False)
    centre = _rows(m, shape, problems.d)
    limits = (np.zeros_like(centre), np.full_like(centre, np.inf))
    return _moments(problems, shape, centre, -1.0, limits, n, rtol, atol, seed)


def _rows(value: ArrayLike, shape: tuple[int, ...], d: int) -> np.ndarray:
    array = np.asarray(value, dtype=np.float64)
    return np.broadcast_to(array, (*shape, d)).reshape(-1, d)


def _moments(
    problems: Problems,
    shape: tuple[int, ...],
    centre: np.ndarray,
    sign: float,
    limits: tuple[np.ndarray, np.ndarray],
    n: Any,
    rtol: Any,
    atol: Any,
    seed: Any,
) -> Moments:
    """Return moments of centre + sign * X, for the X of ``problems``."""
    points = _arguments.points_count(n)
    given = (rtol, atol) != (None, None)
    tolerance = _arguments.tolerance(rtol, atol, points) if given else None
    if not given and points is None:
        tolerance = _DEFAULT
    start = _arguments.whole_number("seed", seed, at_least=0)
    request = Request(tolerance or _DEFAULT, points, MAX_POINTS, start)
    moments, methods = solve_moments(problems, request)
    _to_user_units(moments, centre, sign * problems.covariance.unit)
    moments.mean[:] = np.clip(moments.mean, *limits)
    return wrap_moments(moments, methods, tolerance, shape)


def _to_user_units(moments: MomentEstimate, centre: np.ndarray, unit: Any) -> None:
    """Turn moments of X into those of centre + unit * X; unit (1 or B, d) or a number."""
    scale = np.broadcast_to(unit, moments.mean.shape)
    size = np.abs(scale)
    with np.errstate(invalid="ignore", over="ignore"):
        moments.mean[:] = centre + scale * moments.mean
        moments.mean_error[:] *= size
        moments.mean_error[:] += _EPS * (np.abs(centre) + np.abs(moments.mean))
        moments.cov[:] *= scale[:, :, None] * scale[:, None]
        moments.cov_error[:] *= size[:, :, None] * size[:, None]
    for error in (moments.mean_error, moments.cov_error):
        error[np.isnan(error)] = np.inf
