"""The Cholesky factor of diag(c) + V V^T in O(d k**2).

With S_0 = I, the covariance (k, k) of the factors given the coordinates before j:

    L_jj**2 = c_j + V_j S_(j-1) V_j^T,   W_j = V_j S_(j-1) / L_jj,   L_ij = V_i . W_j  (i > j),
    S_j = S_(j-1) - W_j^T W_j,

so that every column is V times k numbers below its diagonal.
"""

import math
from typing import NamedTuple

import numpy as np


class FactorsForm(NamedTuple):
    """Rows diag(c) + V V^T: c (1 or B, d), V (1 or B, d, k), and the error (1 or B,) relative to c.

    The error is infinite for rows that do not have this form.
    """

    c: np.ndarray
    V: np.ndarray
    error: np.ndarray


def cholesky(c: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(diag, W)``, (..., d) and (..., d, k): L_jj = diag_j and L_ij = V_i . W_j for i > j."""
    from mvnorth._cpu.factors_cholesky import factors_cholesky  # and numba

    diag, W = np.empty(c.shape), np.empty(V.shape)
    size = math.prod(c.shape[:-1])
    vectors = (a.reshape(size, *c.shape[-1:]) for a in (np.ascontiguousarray(c), diag))
    matrices = (a.reshape(size, *V.shape[-2:]) for a in (np.ascontiguousarray(V), W))
    factors_cholesky(*vectors, *matrices)
    return diag, W


def dense_cholesky(diag: np.ndarray, W: np.ndarray, V: np.ndarray) -> np.ndarray:
    """L as a matrix, (..., d, d)."""
    L = np.tril(V @ np.swapaxes(W, -1, -2), -1)
    index = np.arange(diag.shape[-1])
    L[..., index, index] = diag
    return L
