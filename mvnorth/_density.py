"""The public function for marginal densities of truncated distributions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._moments_result import Density, wrap_density
from mvnorth._problem import MAX_POINTS, Problems, Request
from mvnorth.covariance import Factors


def box_density(
    x: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    coordinates: int | tuple[int, ...],
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> Density:
    """Return the density of one or two coordinates of X ~ N(mean, cov) given lower <= X <= upper.

    It is the normal density of these coordinates at ``x`` times the probability of the limits of
    the others given that, over the probability of all limits.

    Parameters
    ----------
    x : array_like (...) or (..., k)
        Where the density is wanted: numbers if ``coordinates`` is a number, else the values of
        all of them along the last axis. Broadcasts with the batch of the limits.
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, a number stands for all coordinates.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance. Those of the chosen coordinates must have a density: not singular.
    coordinates : int, or tuple of one or two int
        Which ones, 0 to d - 1.
    n, rtol, atol, seed
        As in ``box``, for the probability behind each point; the relative error of a density is
        about twice that.

    Returns
    -------
    Density
        With ``density``, ``log_density``, ``error`` and ``rel_error``.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> cov = [[1.0, 0.5], [0.5, 1.0]]
    >>> x = np.linspace(0.0, 8.0, 2001)
    >>> result = mvnorth.box_density(x, 0.0, np.inf, 0.0, cov, coordinates=0)
    >>> round(float(np.trapezoid(result.density, x)), 6)
    1.0
    >>> round(mvnorth.box_density([1.0, 2.0], 0.0, np.inf, 0.0, cov, (0, 1)).density, 6)
    0.074614
    """
    problems, shape = _checks.box_problems(lower, upper, mean, cov)
    chosen = _coordinates(coordinates, problems.d)
    values = _arguments.real_array("x", x, infinite=True)
    if isinstance(coordinates, (int, np.integer)):
        values = values[..., None]
    if values.ndim == 0 or values.shape[-1] != len(chosen):
        raise ValueError(
            f"x must have shape (..., {len(chosen)}) to go with coordinates={coordinates!r}, got "
            f"{np.shape(x)}"
        )
    whole = _checks.batch_shape(("x", "the limits"), values.shape[:-1], shape)
    rows = np.broadcast_to(np.arange(problems.size).reshape(shape), whole).reshape(-1)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points) or _arguments.DEFAULT_TOLERANCE
    start = _arguments.whole_number("seed", seed, at_least=0)
    request = Request(tolerance, points, MAX_POINTS, start)
    values = _arguments.as_rows(values, whole, 1)
    centre = np.broadcast_to(np.asarray(mean, dtype=np.float64), (*shape, problems.d))
    centre = centre.reshape(-1, problems.d)[rows][:, chosen]
    return _density(problems, rows, chosen, values, centre, request, whole)


def _coordinates(coordinates: Any, d: int) -> list[int]:
    given = (coordinates,) if isinstance(coordinates, (int, np.integer)) else coordinates
    try:
        chosen = [_arguments.whole_number("coordinates", i, at_least=0) for i in given]
    except TypeError:
        chosen = []
    if not 1 <= len(chosen) <= 2 or len({*chosen}) < len(chosen) or max(chosen) >= d:
        raise ValueError(
            f"coordinates must be an integer from 0 to {d - 1}, or a tuple of one or two different "
            f"ones, got {coordinates!r}"
        )
    return chosen


def _density(
    problems: Problems,
    rows: np.ndarray,
    chosen: list[int],
    values: np.ndarray,
    centre: np.ndarray,
    request: Request,
    shape: tuple[int, ...],
) -> Density:
    from mvnorth._methods.marginal_density import log_densities  # and numba

    unit = np.broadcast_to(problems.covariance.unit, problems.lower.shape)[rows][:, chosen]
    scaled = (values - centre) / unit
    log_density, rel_error = log_densities(problems.double(), rows, chosen, scaled, request)
    return wrap_density(log_density - np.log(np.abs(unit)).sum(axis=1), rel_error, shape)
