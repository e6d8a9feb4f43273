"""Free parameters of correlation and covariance matrices, and their Jacobians.

Optimisers want parameters without constraints; results report the entries of the matrix.
"""

from abc import ABC, abstractmethod

import numpy as np


class MatrixParameters(ABC):
    """A matrix (q, q) as a function of free parameters.

    Attributes
    ----------
    rows, columns : (k,) the entries that are reported; the matrix is symmetric
    """

    rows: np.ndarray
    columns: np.ndarray

    @property
    def count(self) -> int:
        return self.rows.size

    @abstractmethod
    def matrix(self, free: np.ndarray) -> np.ndarray:
        """Return the matrix (q, q)."""

    @abstractmethod
    def free(self, matrix: np.ndarray) -> np.ndarray:
        """Return the parameters of a matrix, (k,)."""

    @abstractmethod
    def _factor_slopes(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the factor (q, q), and its derivatives in each parameter, (k, q, q)."""

    def entries(self, matrix: np.ndarray) -> np.ndarray:
        """Return the entries that are reported, (k,)."""
        return np.asarray(matrix[self.rows, self.columns])

    def jacobian(self, free: np.ndarray) -> np.ndarray:
        """Return the derivatives of the entries, (k, k): one row for each entry."""
        L, slopes = self._factor_slopes(free)
        product = slopes @ L.T
        change = product + np.swapaxes(product, 1, 2)
        return np.asarray(change[:, self.rows, self.columns].T)

    def in_entries(self, G: np.ndarray) -> np.ndarray:
        """Return derivatives in the entries (n, k) from the symmetric ones G (n, q, q)."""
        twice = np.where(self.rows == self.columns, 1.0, 2.0)
        return np.asarray(G[:, self.rows, self.columns] * twice)

    def full(self, entries: np.ndarray, q: int, diagonal: float) -> np.ndarray:
        """Return a symmetric matrix with these entries, and ``diagonal`` where none is given."""
        matrix = np.eye(q) * diagonal
        matrix[self.rows, self.columns] = entries
        matrix[self.columns, self.rows] = entries
        return matrix


class CorrelationParameters(MatrixParameters):
    """Correlation matrices R = L L^T; row i of L is (free, 1, 0, ...) over its length."""

    def __init__(self, q: int) -> None:
        self.q = q
        self.rows, self.columns = np.tril_indices(q, -1)

    def _lengths(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.eye(self.q)
        rows[self.rows, self.columns] = free
        length = np.linalg.norm(rows, axis=1)
        return rows / length[:, None], length

    def matrix(self, free: np.ndarray) -> np.ndarray:
        L, _ = self._lengths(free)
        R = L @ L.T
        np.fill_diagonal(R, 1.0)
        return np.asarray(R)

    def free(self, matrix: np.ndarray) -> np.ndarray:
        L = np.linalg.cholesky(matrix)
        return np.asarray((L / np.diag(L)[:, None])[self.rows, self.columns])

    def _factor_slopes(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        L, length = self._lengths(free)
        slopes = np.zeros((self.count, self.q, self.q))
        for k, (i, j) in enumerate(zip(self.rows, self.columns, strict=True)):
            slopes[k, i] = (np.eye(self.q)[j] - L[i, j] * L[i]) / length[i]
        return L, slopes


class ScaledCovarianceParameters(MatrixParameters):
    """Covariances L L^T whose first variance is 1; the diagonal of L is exp(free)."""

    def __init__(self, q: int) -> None:
        self.q = q
        rows, columns = np.tril_indices(q)
        self.rows, self.columns = rows[1:], columns[1:]

    def _factor(self, free: np.ndarray) -> np.ndarray:
        L = np.eye(self.q)
        own = self.rows == self.columns
        L[self.rows, self.columns] = np.where(own, np.exp(np.where(own, free, 0.0)), free)
        return L

    def matrix(self, free: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # a step may be too long
            L = self._factor(free)
            return np.asarray(L @ L.T)

    def free(self, matrix: np.ndarray) -> np.ndarray:
        L = np.linalg.cholesky(matrix)
        own = self.rows == self.columns
        values = L[self.rows, self.columns]
        return np.where(own, np.log(np.where(own, values, 1.0)), values)

    def _factor_slopes(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        L = self._factor(free)
        slopes = np.zeros((self.count, self.q, self.q))
        for k, (i, j) in enumerate(zip(self.rows, self.columns, strict=True)):
            slopes[k, i, j] = L[i, i] if i == j else 1.0
        return L, slopes
