"""Probabilities of two and three variables, a row a problem, by deterministic integration.

The mathematics is in ``_scalar/bivariate.py`` and ``_scalar/trivariate.py``.
"""

import numpy as np
from numba import njit

from mvnorth._scalar.bivariate import bivariate_log
from mvnorth._scalar.trivariate import trivariate_log


@njit(cache=True, nogil=True, error_model="numpy")
def bivariate(
    lower: np.ndarray,
    upper: np.ndarray,
    rho: np.ndarray,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
) -> None:
    for i in range(rho.size):
        log_prob[i], rel_error[i] = bivariate_log(
            lower[i, 0], upper[i, 0], lower[i, 1], upper[i, 1], rho[i]
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
