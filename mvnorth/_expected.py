"""Expected maximum, expected loss and expected improvement of normal scores."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arms import add_best, excess, log_error, log_improvement, read_arms, read_tolerance
from mvnorth._docstrings import document
from mvnorth.covariance import Factors

_PARAMETERS = """mu : array_like (..., C)
        Means. Minus infinity is a score that is never the largest. In single precision the result
        is too.
    sigma : float or array_like (C,), (..., 1) or (..., C)
        Standard deviations >= 0 of independent scores: for all, per score, per row, or both; they
        broadcast with mu. A score with deviation zero is a constant.
    cov : array_like (C, C) or (..., C, C), or Factors of shape (C,) or (..., C)
        Covariance of the scores instead of ``sigma``; a singular one is allowed."""

_TOLERANCE = """rtol, atol : float, optional
        With ``cov``: error asked for, relative to {what} or absolute; one of the two must be
        met. Default: a relative error of 1e-3. Up to four scores, and ``Factors`` of up to three
        columns with moderate loadings, are integrated, to about 1e-10; others are sampled, with
        up to 2**20 points, which mostly reach 3e-4.
    errors : bool
        With ``cov``: return bounds on the absolute errors too, at about 99 % confidence. Where no
        more could be reached they are larger than the tolerance.
    seed : int
        With ``cov``: seed of the random shifts where a covariance is sampled."""
_OVER_MEAN = "the excess of the expected maximum over the largest mean"
OF_MAXIMUM = _PARAMETERS + "\n    " + _TOLERANCE.format(what=_OVER_MEAN)
OF_IMPROVEMENT = _PARAMETERS + "\n    " + _TOLERANCE.format(what="the expected improvement")


@document(OF_MAXIMUM)
def expected_max(
    mu: ArrayLike,
    sigma: ArrayLike | None = None,
    *,
    cov: ArrayLike | Factors | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    errors: bool = False,
    seed: int = 0,
) -> Any:
    """Return the expectation of the largest of several normal scores.

    Independent scores are integrated to rounding, O(C) a row.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    float or ndarray (...), or two of them with ``errors``
        E[max_i X_i].

    Examples
    --------
    >>> import mvnorth
    >>> round(mvnorth.expected_max([1.0, 0.0, 0.0], 1.0), 12)
    1.329188440937
    >>> cov = mvnorth.Factors(0.5, [[0.7, 0.1], [0.7, -0.3], [-0.2, 0.6]])
    >>> round(mvnorth.expected_max([1.0, 0.0, 0.0], cov=cov, rtol=1e-9), 8)
    1.28318449
    """
    arms = read_arms("expected_max", mu, sigma, cov)
    tolerance = read_tolerance(arms, rtol, atol, errors, seed)
    found = excess(arms, tolerance, seed)
    value = found.largest + found.loss
    if not errors:
        return arms.shaped(value)
    error = found.error + np.finfo(arms.dtype).eps * np.abs(value)
    return arms.shaped(value), arms.shaped(error)


@document(OF_MAXIMUM)
def expected_loss(
    mu: ArrayLike,
    sigma: ArrayLike | None = None,
    *,
    cov: ArrayLike | Factors | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    errors: bool = False,
    seed: int = 0,
) -> Any:
    """Return the expected loss of choosing each of several normal arms instead of the best one.

    That is E[max_j X_j] - mu_i. Independent arms are integrated O(C) a row, with a relative
    accuracy of about 1e-12 down to losses of 1e-300; smaller ones are 0.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    ndarray (..., C), or two of them with ``errors``
        Of a score of minus infinity it is infinite.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.expected_loss([1.0, 0.0, 0.0], 1.0).round(6)
    array([0.329188, 1.329188, 1.329188])
    >>> print(f"{mvnorth.expected_loss([20.0, 0.0], [1.0, 2.0])[0]:.4e}")
    4.5698e-20
    """
    arms = read_arms("expected_loss", mu, sigma, cov)
    tolerance = read_tolerance(arms, rtol, atol, errors, seed)
    found = excess(arms, tolerance, seed)
    loss = (found.largest[:, None] - arms.means) + found.loss[:, None]
    if not errors:
        return arms.shaped(loss)
    rounding = np.where(np.isinf(loss), 0.0, np.finfo(arms.dtype).eps * loss)
    return arms.shaped(loss), arms.shaped(found.error[:, None] + rounding)


@document(OF_IMPROVEMENT)
def expected_improvement(
    mu: ArrayLike,
    sigma: ArrayLike | None = None,
    *,
    best: ArrayLike,
    cov: ArrayLike | Factors | None = None,
    log: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    errors: bool = False,
    seed: int = 0,
) -> Any:
    """Return the expected improvement of the best of several normal candidates upon ``best``.

    That is E[max(max_i X_i - best, 0)], the acquisition function of Bayesian optimisation: with one
    candidate the classic one, with q candidates, whose covariance is ``cov``, that of a batch. Its
    accuracy is relative, however small it is.

    Parameters
    ----------
    {parameters}
    best : float or array_like (...)
        The value to improve upon, such as the largest one observed; it broadcasts with the rows.
    log : bool
        Return the logarithm, which does not underflow.

    Returns
    -------
    float or ndarray (...), or two of them with ``errors``
        The expected improvement. With ``log`` its logarithm, and the bound is that on the
        logarithm's error.

    Examples
    --------
    >>> import mvnorth
    >>> round(mvnorth.expected_improvement([0.0], 1.0, best=0.0), 6)
    0.398942
    >>> cov = [[1.0, 0.5], [0.5, 2.0]]
    >>> round(mvnorth.expected_improvement([0.0, -1.0], cov=cov, best=0.5, rtol=1e-8), 6)
    0.266944
    >>> round(mvnorth.expected_improvement([0.0, -1.0], 1.0, best=50.0, log=True), 6)
    -1258.744183
    """
    arms = add_best(read_arms("expected_improvement", mu, sigma, cov), best)
    tolerance = read_tolerance(arms, rtol, atol, errors, seed)
    found = excess(arms, tolerance, seed)
    ahead = found.largest - arms.means[:, -1]
    if log:
        logs = log_improvement(arms, found)
        if not errors:
            return arms.shaped(logs)
        return arms.shaped(logs), arms.shaped(log_error(arms, found, logs))
    value = ahead + found.loss
    if not errors:
        return arms.shaped(value)
    return arms.shaped(value), arms.shaped(found.error + np.finfo(arms.dtype).eps * value)
