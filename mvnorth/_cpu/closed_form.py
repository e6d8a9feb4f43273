"""Probabilities of one, two and three variables, a problem a row, without random points.

Limits and correlations are those of variables with mean 0 and variance 1.  Kernels fill
``log_prob`` and ``rel_error``, an estimate of the relative error of the probability itself, at
least 2e-15; it is infinite where nothing is claimed.  The mathematics, and the accuracy reached,
are in ``_scalar/bivariate.py`` and ``_scalar/trivariate.py``.
"""

import numpy as np
from numba import njit

from mvnorth._scalar.bivariate import (
    ROUNDING,
    bivariate_log,
    interval_probability,
    log_with_error,
)
from mvnorth._scalar.normal import log_ndtr
from mvnorth._scalar.trivariate import trivariate_log


@njit(cache=True, nogil=True, error_model="numpy")
def univariate(
    lower: np.ndarray,
    upper: np.ndarray,
    corr: np.ndarray,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
) -> None:
    """Pr(lower < X < upper) of one variable: a difference of tails, or a series if narrow.

    Relative error below 1e-15 (2 + |log P|).

    Parameters
    ----------
    lower, upper : (B, 1) limits, may be infinite
    corr : (B, 0) not used
    log_prob, rel_error : (B,) results
    """
    for i in range(log_prob.size):
        a, b = lower[i, 0], upper[i, 0]
        if a == -np.inf or b == np.inf:  # right beyond where parts reach
            log_prob[i] = log_ndtr(min(b, -a))
            error = ROUNDING * (2.0 - log_prob[i])
        else:
            f, power = interval_probability(a, b, b - a)
            log_prob[i], error = log_with_error(f, power, 0.0)
        rel_error[i] = error if error < 0.01 and log_prob[i] > -np.inf else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def bivariate(
    lower: np.ndarray,
    upper: np.ndarray,
    rho: np.ndarray,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
) -> None:
    """Pr(lower < X < upper) of two variables: one-dimensional Gauss-Legendre integration.

    Relative error below 1e-15 (2 + |log P|) for one-sided limits, for boxes below ``rel_error``;
    absolute error 2e-16.  Any correlation, -1 and 1 included.

    Parameters
    ----------
    lower, upper : (B, 2) limits, may be infinite
    rho : (B,) or (B, 1) correlations
    log_prob, rel_error : (B,) results
    """
    for i in range(log_prob.size):
        log_prob[i], rel_error[i] = bivariate_log(
            lower[i, 0], upper[i, 0], lower[i, 1], upper[i, 1], rho.flat[i]
        )


@njit(cache=True, nogil=True, error_model="numpy")
def trivariate(
    lower: np.ndarray,
    upper: np.ndarray,
    corr: np.ndarray,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
) -> None:
    """Pr(lower < X < upper) of three variables: adaptive integration over ``bivariate``.

    Relative error typically 1e-14, below ``rel_error``, which is infinite if the correlation
    matrix is singular (determinant below 1e-18) or the integral was not resolved.

    Parameters
    ----------
    lower, upper : (B, 3) limits, may be infinite
    corr : (B, 3) correlations of the pairs (1, 2), (1, 3), (2, 3)
    log_prob, rel_error : (B,) results
    """
    for i in range(log_prob.size):
        log_prob[i], rel_error[i] = trivariate_log(
            lower[i, 0], upper[i, 0], lower[i, 1], upper[i, 1], lower[i, 2], upper[i, 2],
            corr[i, 0], corr[i, 1], corr[i, 2],
        )  # fmt: skip
