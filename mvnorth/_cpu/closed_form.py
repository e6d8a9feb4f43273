"""Probabilities of one, two and three variables, a row a problem, without random points.

The mathematics is in ``_scalar/bivariate.py`` and ``_scalar/trivariate.py``.  All kernels take
standardised limits (B, d), the correlations above the diagonal (B, d(d-1)/2), and fill the
outputs (B,); where a form does not hold, ``rel_error`` is infinite.
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
    for i in range(log_prob.size):
        a, b = lower[i, 0], upper[i, 0]
        if a == -np.inf or b == np.inf:
            log_prob[i] = log_ndtr(min(b, -a))
            rel_error[i] = ROUNDING * (2.0 - log_prob[i])
        else:
            f, k = interval_probability(a, b, b - a)
            log_prob[i], rel_error[i] = log_with_error(f, k, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def bivariate(
    lower: np.ndarray,
    upper: np.ndarray,
    corr: np.ndarray,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
) -> None:
    for i in range(log_prob.size):
        log_prob[i], rel_error[i] = bivariate_log(
            lower[i, 0], upper[i, 0], lower[i, 1], upper[i, 1], corr[i, 0]
        )


@njit(cache=True, nogil=True, error_model="numpy")
def trivariate(
    lower: np.ndarray,
    upper: np.ndarray,
    corr: np.ndarray,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
) -> None:
    for i in range(log_prob.size):
        log_prob[i], rel_error[i] = trivariate_log(
            lower[i, 0], upper[i, 0], lower[i, 1], upper[i, 1], lower[i, 2], upper[i, 2],
            corr[i, 0], corr[i, 1], corr[i, 2],
        )  # fmt: skip
