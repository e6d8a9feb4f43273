"""The Cholesky factor of diag(c) + v v^T in O(d); see ``mvnorth.covariance`` for the formulas."""

import numpy as np


def running_sums(c: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(s_j, s_(j-1))``, each (..., d)."""
    s = 1.0 + np.cumsum(v * v / c, axis=-1)
    return s, np.concatenate([np.ones_like(s[..., :1]), s[..., :-1]], axis=-1)


def cholesky(c: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(diag, w)``, each (..., d): L_jj = diag_j and L_ij = v_i w_j for i > j."""
    s, before = running_sums(c, v)
    return np.sqrt(c) * np.sqrt(s / before), v / (np.sqrt(c) * np.sqrt(s) * np.sqrt(before))


def dense_cholesky(diag: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """L as a matrix, (..., d, d)."""
    L = np.tril(v[..., :, None] * w[..., None, :], -1)
    index = np.arange(diag.shape[-1])
    L[..., index, index] = diag
    return L
