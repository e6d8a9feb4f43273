"""Products of matrices that are known to within errors."""

import numpy as np

_EPS = float(np.finfo(np.float64).eps)


def times(
    value: np.ndarray, error: np.ndarray, matrix: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """value @ matrix and a bound on its error, where some of the errors may be infinite.

    Parameters
    ----------
    value, error : (..., d, k)
    matrix : (..., k, r), exact
    """
    unknown = np.isinf(error)
    size = np.abs(matrix)
    rounding = 0.5 * _EPS * (matrix.shape[-2] + 2.0) * np.abs(value)
    with np.errstate(over="ignore", invalid="ignore"):
        product = value @ matrix
        bound = (np.where(unknown, 0.0, error) + rounding) @ size
    lost = unknown.any(axis=-1, keepdims=True) | ~np.isfinite(product)  # also what is times zero
    return np.where(np.isfinite(product), product, 0.0), np.where(lost, np.inf, bound)
