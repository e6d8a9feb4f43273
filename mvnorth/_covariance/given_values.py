"""Normal vectors given the values of some coordinates: density, conditional mean and covariance.

With o the coordinates that are given, u the others, r the values less their means, and
X ~ N(0, Sigma),

    X_u | X_o = r  ~  N(K r, Sigma_uu - K Sigma_ou),   K = Sigma_uo Sigma_oo^-1.

For Sigma = A A^T an orthogonal Q from the QR factorisation of A_o^T makes A_o Q = [L, 0] and
A_u Q = [W, F]: then Sigma_oo = L L^T, K = W L^-1, and F is a factor of the covariance that is left.
Sigma is not formed, so that what little is left of a nearly dependent coordinate is as accurate as
A.  With Sigma = diag(c) + V V^T and B = V_o / sqrt(c_o), let [B; I] = [Q; R^-1] R be a QR
factorisation.  The common factors have the mean R^-1 Q^T (r / sqrt(c_o)) and the covariance
(R^T R)^-1 given X_o; the others keep their c, and have loadings V_u R^-1.  The projection with Q
keeps digits that a solution with R^T R loses where c is small beside V.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mvnorth._covariance.dense import Dense
    from mvnorth._covariance.rows import CovarianceRows

_EPS = float(np.finfo(np.float64).eps)
_LOG_2_PI = float(np.log(2.0 * np.pi))


def apply(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the products of matrices (1 or B, m, k) with vectors (B, k), (B, m)."""
    if len(matrices) == 1:
        return np.asarray(vectors @ matrices[0].T)
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def transposed(matrices: np.ndarray) -> np.ndarray:
    """Return the transposes of matrices (..., m, k)."""
    return np.swapaxes(matrices, -1, -2)


class Given(ABC):
    """The distribution of the coordinates u given those of o; N is 1 or the number of rows.

    Attributes
    ----------
    covariance : of the others, N rows
    deviation : (N, o) standard deviations of the coordinates that are given
    determined : (N, o) which of these are determined by those before them
    spread : (N, u) deviations that rounding of the conditional covariance is relative to
    sharpness : (N, u) one over the deviation of each of the others, given all coordinates
    """

    covariance: "CovarianceRows"
    deviation: np.ndarray
    determined: np.ndarray
    spread: np.ndarray
    sharpness: np.ndarray

    @abstractmethod
    def whiten(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors of length sqrt(r^T Sigma_oo^-1 r), and Sigma_oo^-1 r, for r (B, o)."""

    @abstractmethod
    def half_log_det(self) -> np.ndarray:
        """Return half the logarithm of the determinant of Sigma_oo, (N,)."""

    @abstractmethod
    def shift(self, r: np.ndarray) -> np.ndarray:
        """Return K r, (B, u)."""

    @abstractmethod
    def shift_error(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return bounds on the rounding errors of K r, (B, u); ``weight`` is Sigma_oo^-1 r."""

    @abstractmethod
    def covariance_cost(self) -> np.ndarray:
        """Return the relative change of a probability by rounding of variances, (N, u)."""

    @abstractmethod
    def weight_error(self, r: np.ndarray, weight: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Return bounds on the rounding errors of Sigma_oo^-1 r - K^T g, (B, o)."""

    @abstractmethod
    def precision_error(self) -> np.ndarray:
        """Return bounds on the rounding errors of Sigma_oo^-1, (N, o, o)."""

    @property
    @abstractmethod
    def gain(self) -> np.ndarray:
        """K, (N, u, o)."""

    @property
    @abstractmethod
    def precision(self) -> np.ndarray:
        """Inverse of Sigma_oo, (N, o, o)."""

    def log_density(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log N(r; 0, Sigma_oo) (B,), a bound on its rounding error, Sigma_oo^-1 r (B, o).

        The covariance counts as rounded, and r, a difference, as rounded once.
        """
        white, weight = self.whiten(r)
        count = r.shape[1]
        square = np.sum(white * white, axis=1)
        value = -0.5 * (square + count * _LOG_2_PI) - self.half_log_det()
        unknown = self.rounded * (self.square_cost(r, weight) + self.precision_trace())
        slope = np.sum(np.abs(weight * r), axis=1)
        return value, unknown + _EPS * (slope + count + square + np.abs(value)), weight

    @property
    def rounded(self) -> float:
        """Rounding error of entries of the covariance relative to the deviations."""
        return (4.0 + np.sqrt(self.deviation.shape[1])) * _EPS

    def square_cost(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the change of r^T Sigma_oo^-1 r by rounding, over ``rounded``, (B,)."""
        return np.asarray(np.sum(np.abs(weight) * self.deviation, axis=1) ** 2)

    @abstractmethod
    def precision_trace(self) -> np.ndarray:
        """Return the sum of (Sigma_oo^-1)_ii Sigma_ii, (N,): what rounding does to log det."""


class DenseGiven(Given):
    """Conditional covariances from a factor as a matrix."""

    def __init__(self, covariance: "Dense", observed: np.ndarray) -> None:
        A, count = covariance.factor, int(observed.sum())
        given, others = A[:, observed], A[:, ~observed]
        self.deviation = np.sqrt(np.sum(given**2, axis=2))
        missing = max(0, count - A.shape[2])  # of columns, for as many coordinates
        given, others = (np.pad(a, ((0, 0), (0, 0), (0, missing))) for a in (given, others))
        Q, R = np.linalg.qr(transposed(given), mode="complete")
        L = transposed(R[:, :count])
        own = np.abs(np.diagonal(L, axis1=1, axis2=2))
        self.determined = own <= covariance.singular * self.deviation
        self._L = np.where(self.determined[:, :, None] & np.eye(count, dtype=bool), 1.0, L)
        self._inverse = np.linalg.inv(self._L)
        turned = others @ Q
        self._gain = turned[:, :, :count] @ self._inverse
        factor = _lower_triangular(turned[:, :, count:])
        reach = np.sum(np.abs(self._gain) * self.deviation[:, None], axis=2)
        self.spread = np.sqrt(np.sum(others**2, axis=2)) + reach
        left = np.sqrt(np.sum(factor**2, axis=2))
        factor[left <= covariance.singular * self.spread] = 0.0
        scale = np.ascontiguousarray(covariance.scale[:, ~observed])
        self.covariance = type(covariance)(factor, covariance.singular, scale)
        self.sharpness = _sharpness(factor, covariance.singular)

    def whiten(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        white = apply(self._inverse, r)
        return white, apply(transposed(self._inverse), white)

    def half_log_det(self) -> np.ndarray:
        own = np.abs(np.diagonal(self._L, axis1=1, axis2=2))
        return np.asarray(np.sum(np.log(own), axis=1))

    def shift(self, r: np.ndarray) -> np.ndarray:
        return apply(self._gain, r)

    def shift_error(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        # The covariance is rounded, which moves K r by its rounding times the weights.
        pull = np.sum(np.abs(weight) * self.deviation, axis=1, keepdims=True)
        return self.rounded * self.spread * pull

    def covariance_cost(self) -> np.ndarray:
        return self.rounded * (self.sharpness * self.spread) ** 2

    def weight_error(self, r: np.ndarray, weight: np.ndarray, g: np.ndarray) -> np.ndarray:
        pull = np.sum(np.abs(weight) * self.deviation, axis=1)
        pull = pull + np.sum(np.abs(g) * self.spread, axis=1)
        moved = self.rounded * self.deviation * pull[:, None] + _EPS * np.abs(r)
        return apply(np.abs(self.precision), moved)

    def precision_error(self) -> np.ndarray:
        moved = np.sum(np.abs(self.precision) * self.deviation[:, None], axis=2)
        return self.rounded * moved[:, :, None] * moved[:, None, :]

    @property
    def gain(self) -> np.ndarray:
        return self._gain

    @property
    def precision(self) -> np.ndarray:
        return transposed(self._inverse) @ self._inverse

    def precision_trace(self) -> np.ndarray:
        scaled = self._inverse * self.deviation[:, None]
        return np.asarray(np.sum(scaled**2, axis=(1, 2)))


class FactorsGiven(Given):
    """Conditional covariances diag(c) + V V^T, which keep their form."""

    def __init__(
        self,
        c: np.ndarray,
        V: np.ndarray,
        observed: np.ndarray,
        make: "Callable[[np.ndarray, np.ndarray], CovarianceRows]",
    ) -> None:
        """``make`` makes covariances of c (N, u) and V (N, u, k)."""
        self._root_c, self._others = np.sqrt(c[:, observed]), V[:, ~observed]
        B = V[:, observed] / self._root_c[:, :, None]
        identity = np.broadcast_to(np.eye(V.shape[2]), (len(V), V.shape[2], V.shape[2]))
        Q, self._R = np.linalg.qr(np.concatenate([B, identity], axis=1))
        self._Q = np.ascontiguousarray(Q[:, : B.shape[1]])
        self._root = np.linalg.inv(self._R)
        own = np.ascontiguousarray(c[:, ~observed])
        self._loadings = np.ascontiguousarray(self._others @ self._root)
        self.covariance = make(own, self._loadings)
        self.deviation = np.sqrt(c[:, observed] + np.sum(V[:, observed] ** 2, axis=2))
        self.determined = np.zeros(self._root_c.shape, dtype=bool)
        self.spread = self.covariance.deviations()
        self.sharpness = 1.0 / np.sqrt(own)
        self._norm = np.linalg.norm(self._R, axis=(1, 2))
        self._condition = self._norm * np.linalg.norm(self._root, axis=(1, 2))

    def _project(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the residual (B, o) in units of sqrt(c), Q^T (r / sqrt(c)), and R^-1 times it."""
        scaled = r / self._root_c
        y = apply(transposed(self._Q), scaled)
        return scaled - apply(self._Q, y), y, apply(self._root, y)

    def _lost(self, r: np.ndarray) -> np.ndarray:
        """Return the rounding error of the projection, (B,), over ``rounded``.

        Perturbations E of [B; I], which are small beside its columns, move the projection by
        E z and R^-T E^T times the residual.
        """
        residual, _, z = self._project(r)
        left = np.hypot(np.linalg.norm(residual, axis=1), np.linalg.norm(z, axis=1))
        size = np.linalg.norm(r / self._root_c, axis=1)
        return np.asarray(size + self._norm * np.linalg.norm(z, axis=1) + self._condition * left)

    def whiten(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, _, z = self._project(r)
        return np.concatenate([residual, z], axis=1), residual / self._root_c

    def half_log_det(self) -> np.ndarray:
        diagonal = np.abs(np.diagonal(self._R, axis1=1, axis2=2))
        return np.asarray(np.log(self._root_c).sum(axis=1) + np.log(diagonal).sum(axis=1))

    def shift(self, r: np.ndarray) -> np.ndarray:
        return apply(self._loadings, self._project(r)[1])

    def shift_error(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        y = np.abs(self._project(r)[1])
        product = apply(np.abs(self._others) @ np.abs(self._root), y)
        moved = np.linalg.norm(self._loadings, axis=2) * self._lost(r)[:, None]
        return self.rounded * (product + moved)

    def covariance_cost(self) -> np.ndarray:
        product = np.sum(np.abs(self._others) @ np.abs(self._root), axis=2)
        return self.rounded * (self._condition[:, None] + self.sharpness * product)

    def weight_error(self, r: np.ndarray, weight: np.ndarray, g: np.ndarray) -> np.ndarray:
        product = np.abs(self._others) @ np.abs(self._root)
        pull = np.linalg.norm(apply(transposed(product), np.abs(g)), axis=1)
        lost = self._lost(r) + self._condition * pull
        return self.rounded * lost[:, None] / self._root_c

    def precision_error(self) -> np.ndarray:
        error = self.rounded * self._condition[:, None, None]
        return error / self._root_c[:, :, None] / self._root_c[:, None, :]

    @property
    def gain(self) -> np.ndarray:
        return self._loadings @ transposed(self._Q / self._root_c[:, :, None])

    @property
    def precision(self) -> np.ndarray:
        left = np.eye(self._Q.shape[1]) - self._Q @ transposed(self._Q)
        return left / self._root_c[:, :, None] / self._root_c[:, None, :]

    def square_cost(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.norm(self.whiten(r)[0], axis=1) * self._lost(r))

    def precision_trace(self) -> np.ndarray:
        return self._Q.shape[1] + self._Q.shape[2] * self._condition


def _lower_triangular(factor: np.ndarray) -> np.ndarray:
    """Return factors of the same covariances that are lower triangular with a diagonal >= 0."""
    if 0 in factor.shape[1:]:
        return np.zeros((*factor.shape[:2], max(1, factor.shape[1])))
    L = transposed(np.asarray(np.linalg.qr(transposed(factor), mode="r")))
    sign = np.where(np.diagonal(L, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray(L * sign[:, None])


def _sharpness(factor: np.ndarray, singular: float) -> np.ndarray:
    from mvnorth._linalg.condition import given_the_others

    if factor.shape[1] == 0:
        return np.zeros(factor.shape[:2])
    return given_the_others(factor, singular)[0]
