"""Gradients of the expected maximum and of the expected improvement."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arms import (
    LOG_LEAST,
    Arms,
    add_best,
    excess,
    independent_excess,
    log_error,
    log_improvement,
    read_arms,
    read_tolerance,
    relative_error,
    row_tolerances,
    tail_gradients,
)
from mvnorth._docstrings import document
from mvnorth._expected import OF_IMPROVEMENT, OF_MAXIMUM
from mvnorth._expected_result import ExpectedGradient
from mvnorth._problem import Tolerance
from mvnorth.covariance import Factors


def _without_errors(parameters: str) -> str:
    begin, end = parameters.index("errors : bool"), parameters.index("seed : int")
    return parameters[:begin] + parameters[end:]


@document(_without_errors(OF_MAXIMUM))
def expected_max_grad(
    mu: ArrayLike,
    sigma: ArrayLike | None = None,
    *,
    cov: ArrayLike | Factors | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> ExpectedGradient:
    """Return the expectation of the largest of several normal scores, with its gradient.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    ExpectedGradient
        With ``cov`` the derivatives are as accurate as probabilities with that relative error
        allow; their errors say how accurate that is.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.expected_max_grad([1.0, 0.0, 0.0], 1.0)
    >>> result.grad_mu.round(6), result.grad_sigma.round(6)
    (array([0.633702, 0.183149, 0.183149]), array([0.289319, 0.203084, 0.203084]))
    """
    arms = read_arms("expected_max_grad", mu, sigma, cov)
    tolerance = read_tolerance(arms, rtol, atol, False, seed)
    if arms.covariance is None:
        found, in_mu, in_sigma = independent_excess(arms, derivatives=True)
        value = arms.shaped(found.largest + found.loss)
        return ExpectedGradient(value, arms.shaped(in_mu), arms.shaped(in_sigma))
    found = excess(arms, tolerance, seed)
    value = found.largest + found.loss
    error = found.error + np.finfo(arms.dtype).eps * np.abs(value)
    in_mu, mu_error, in_cov, cov_error = _correlated(arms, tolerance, np.zeros(len(value)), seed)
    return ExpectedGradient(
        arms.shaped(value),
        arms.shaped(in_mu),
        grad_cov=arms.shaped(in_cov),
        error=arms.shaped(error),
        grad_mu_error=arms.shaped(mu_error),
        grad_cov_error=arms.shaped(cov_error),
    )


@document(_without_errors(OF_IMPROVEMENT))
def expected_improvement_grad(
    mu: ArrayLike,
    sigma: ArrayLike | None = None,
    *,
    best: ArrayLike,
    cov: ArrayLike | Factors | None = None,
    log: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> ExpectedGradient:
    """Return the expected improvement of the best of several candidates, with its gradient.

    Parameters
    ----------
    {parameters}
    best : float or array_like (...)
        The value to improve upon; it broadcasts with the rows.
    log : bool
        The logarithm of the expected improvement, and derivatives of it.

    Returns
    -------
    ExpectedGradient
        With ``cov`` the derivatives are as accurate as probabilities with that relative error
        allow; their errors say how accurate that is.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.expected_improvement_grad([0.0, -1.0], [1.0, 2.0], best=0.5)
    >>> result.grad_mu.round(6), result.grad_sigma.round(6), round(result.grad_best, 6)
    (array([0.262297, 0.202945]), array([0.307297, 0.278263]), -0.465242)
    """
    arms = add_best(read_arms("expected_improvement_grad", mu, sigma, cov), best)
    tolerance = read_tolerance(arms, rtol, atol, False, seed)
    if arms.covariance is None:
        return _independent_improvement(arms, log)
    found = excess(arms, tolerance, seed)
    ahead = found.largest - arms.means[:, -1]
    logs = log_improvement(arms, found)
    # An improvement of 0 has a logarithm of -inf, whose derivatives are set to 0.
    unit = np.where(log & np.isfinite(logs), logs, 0.0)
    in_mu, mu_error, in_cov, cov_error = _correlated(arms, tolerance, unit, seed)
    in_mu, mu_error = in_mu[:, :-1], mu_error[:, :-1]
    if log:
        value, error = logs, log_error(arms, found, logs)
        relative = relative_error(found, logs)
        mu_error += np.abs(in_mu) * relative[:, None]
        cov_error += np.abs(in_cov) * relative[:, None, None]
    else:
        value = ahead + found.loss
        error = found.error + np.finfo(arms.dtype).eps * value
    return ExpectedGradient(
        arms.shaped(value),
        arms.shaped(in_mu),
        grad_cov=arms.shaped(in_cov[:, :-1, :-1]),
        grad_best=arms.shaped(-in_mu.sum(axis=1)),
        error=arms.shaped(error),
        grad_mu_error=arms.shaped(mu_error),
        grad_cov_error=arms.shaped(cov_error[:, :-1, :-1]),
        grad_best_error=arms.shaped(mu_error.sum(axis=1)),
    )


def _independent_improvement(arms: Arms, log: bool) -> ExpectedGradient:
    """Return the expected improvement of independent candidates, with its gradient."""
    found, in_mu, in_sigma = independent_excess(arms, derivatives=True)
    in_mu, in_sigma = in_mu[:, :-1], in_sigma[:, :-1]
    value = (found.largest - arms.means[:, -1]) + found.loss
    if log:
        plain, value = value, log_improvement(arms, found)
        small = value < LOG_LEAST
        scale = np.where(small, 1.0, plain)[:, None]
        in_mu, in_sigma = in_mu / scale, in_sigma / scale
        in_mu[small], in_sigma[small] = tail_gradients(arms, np.flatnonzero(small))
    return ExpectedGradient(
        arms.shaped(value),
        arms.shaped(in_mu),
        arms.shaped(in_sigma),
        grad_best=arms.shaped(-in_mu.sum(axis=1)),
    )


def _correlated(arms: Arms, tolerance: Tolerance, log_unit: np.ndarray, seed: int) -> Any:
    """Return derivatives in means (B, C) and in covariances (B, C, C), and the errors of both.

    All are in units of exp(log_unit), (B,).
    """
    from mvnorth._correlated_max import contests
    from mvnorth._correlated_max_grad import derivatives

    size, classes = arms.means.shape
    in_mu, mu_error = np.empty((2, size, classes))
    in_cov, cov_error = np.empty((2, size, classes, classes))
    assert arms.covariance is not None
    rows = contests(arms.means, arms.covariance, row_tolerances(arms, tolerance))
    for b, contest in enumerate(rows):
        found = derivatives(contest, float(log_unit[b]), seed)
        in_mu[b], mu_error[b], in_cov[b], cov_error[b] = found
    return in_mu, mu_error, in_cov, cov_error
