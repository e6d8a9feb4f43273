"""Likelihoods of normal vectors whose coordinates are observed, censored or missing."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._censored_problems import CensoredProblems, read_censored
from mvnorth._censored_result import CensoredGradient, wrap_censored
from mvnorth._censored_solve import solve_censored
from mvnorth._docstrings import document, method_parameter
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._methods import METHODS, derivative_methods, value_methods
from mvnorth._problem import MAX_POINTS, Request
from mvnorth.covariance import Factors

_ARGUMENTS = """lower, upper : float or array_like (..., d)
        What is known of each coordinate. lower = upper is an observed value, which counts with its
        density; lower < upper an interval, with its probability given the observed values, and one
        of them may be infinite (left- and right-censored); -inf and inf a missing value, which is
        integrated out. Rows may differ in which coordinates are observed.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance; that of the observed coordinates must not be singular.
    n : int, optional
        Number of integration points for the probability of each row, as in ``box``.
    rtol : float, optional
        Relative error of the likelihood asked for, the absolute one of its logarithm. Default:
        1e-4, or none if ``n`` is given."""

_AUTO = "chooses as in ``box``."


@document(_ARGUMENTS + f"\n    {method_parameter(value_methods(), _AUTO)}")
def censored_logpdf(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    method: str = "auto",
    errors: bool = False,
    seed: int = 0,
) -> Any:
    """Return the log-likelihood of normal vectors that are observed, censored or missing in part.

    It is the log-density of the observed coordinates plus the log-probability of the intervals
    given them: ``scipy.stats.multivariate_normal.logpdf`` if all are observed, ``box_logprob`` if
    none is.

    Parameters
    ----------
    {parameters}
    errors : bool
        Return bounds on the absolute errors of the logarithms too, at about 99 % confidence.
    seed : int
        Seed of the random shifts where a probability is sampled.

    Returns
    -------
    float, or ndarray of the batch shape; or two of them with ``errors``

    Examples
    --------
    A value of 0.3, one above 1 and one that is missing:

    >>> import numpy as np
    >>> import mvnorth
    >>> cov = 0.5 * np.eye(3) + 0.5
    >>> round(mvnorth.censored_logpdf([0.3, 1.0, -np.inf], [0.3, np.inf, np.inf], 0.0, cov), 6)
    -2.776875
    """
    censored, shape = read_censored(lower, upper, mean, cov)
    name = _arguments.method_name(method, value_methods)
    points = _arguments.points_count(n)
    target = _arguments.tolerance(rtol, None, points) or _arguments.DEFAULT_TOLERANCE
    start = _arguments.whole_number("seed", seed, at_least=0)
    request = Request(target, points, MAX_POINTS, start)
    with np.errstate(over="ignore", invalid="ignore"):
        estimate, _ = solve_censored(censored, request, name)
    found = tuple(
        a.reshape(shape) if shape else a.item() for a in (estimate.log_prob, estimate.rel_error)
    )
    return found if errors else found[0]


@document(_ARGUMENTS + f"\n    {method_parameter(derivative_methods(), _AUTO)}")
def censored_logpdf_grad(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    wrt: tuple[str, ...] = ("mean", "cov"),
    method: str = "auto",
    rtol: float | None = None,
    seed: int = 0,
) -> CensoredGradient:
    """Return ``censored_logpdf`` and its derivatives, with errors.

    Parameters
    ----------
    {parameters}
    wrt : tuple of {"lower", "upper", "mean", "cov", "c", "V", "v"}
        What to differentiate with respect to; "c" and "V" only of ``Factors``. The derivative in
        an observed value, which is both limits, is the sum of those in ``lower`` and ``upper``,
        half of it in each: so the chain rule holds for limits that are functions of something, as
        long as equal ones stay equal. Where the likelihood is 0 derivatives are 0 with infinite
        errors.
    seed : int
        Seed of the random shifts where a probability is sampled.

    Returns
    -------
    CensoredGradient

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> cov = [[1.0, 0.5], [0.5, 1.0]]
    >>> result = mvnorth.censored_logpdf_grad([0.3, 1.0], [0.3, np.inf], 0.0, cov)
    >>> result.grad_mean.round(6)
    array([-0.571992,  1.743985])
    """
    censored, shape = read_censored(lower, upper, mean, cov)
    covariance = censored.problems.covariance
    parameters = (name for name in covariance.parameters if name != "factor")
    allowed = ("lower", "upper", "mean", "cov", *parameters, *covariance.columns)
    names = _arguments.subset("wrt", wrt, allowed)
    chosen = _arguments.method_name(method, derivative_methods)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, None, points)
    start = _arguments.whole_number("seed", seed, at_least=0)
    wanted = tuple(dict.fromkeys(covariance.columns.get(name, name) for name in names))
    target = tolerance or _arguments.DEFAULT_TOLERANCE
    request = Request(target, points, MAX_POINTS, start, wrt=wanted)
    if chosen != "auto" and METHODS[chosen].limits_only and request.in_covariance:
        raise ValueError(
            f"method={chosen!r} differentiates in limits and means only, got wrt={names!r}; "
            "use 'auto', 'pathwise' or 'conditional'"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        estimate, methods = _solve(censored, request, chosen)
    return wrap_censored(estimate, methods, tolerance, shape, names, covariance.columns)


def _solve(
    censored: CensoredProblems, request: Request, method: str
) -> tuple[Estimate, np.ndarray]:
    """Return estimates with derivatives in the user's units."""
    estimate, methods = solve_censored(censored, request, method)
    derivatives = estimate.derivatives
    assert isinstance(derivatives, Derivatives)
    censored.problems.covariance.to_user_units(derivatives)
    derivatives.store(np.dtype(np.float64))
    return estimate, methods
