"""Normal vectors given the values of some coordinates: the density, and what is left of the rest.

With o the coordinates that are given, u the others, r the values less their means, and
X ~ N(0, Sigma),

    X_u | X_o = r  ~  N(K r, Sigma_uu - K Sigma_ou),   K = Sigma_uo Sigma_oo^-1.

For Sigma = A A^T an orthogonal Q from the QR factorisation of A_o^T makes A_o Q = [L, 0] and
A_u Q = [W, F]: then Sigma_oo = L L^T, K = W L^-1, and F is a factor of the covariance that is left.
Sigma is not formed, so that what little is left of a nearly dependent coordinate is as accurate as
A.  With Sigma = diag(c) + V V^T and B = V_o / sqrt(c_o), the common factors have the covariance
(R^T R)^-1 given X_o, where R^T R = I + B^T B; the others keep their c, and have loadings V_u R^-1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
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
    """What the values of the coordinates o leave of the others; N is 1 or the number of rows.

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
    def back(self, g: np.ndarray) -> np.ndarray:
        """Return K^T g for g (B, u), (B, o)."""

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
        pull = np.sum(np.abs(weight) * self.deviation, axis=1)
        unknown = self.rounded * (pull**2 + self.precision_trace())
        slope = np.sum(np.abs(weight * r), axis=1)
        return value, unknown + _EPS * (slope + count + square + np.abs(value)), weight

    @property
    def rounded(self) -> float:
        """Rounding error of entries of the covariance relative to the deviations."""
        return (4.0 + np.sqrt(self.deviation.shape[1])) * _EPS

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

    def back(self, g: np.ndarray) -> np.ndarray:
        return apply(transposed(self._gain), g)

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
        self._c, self._V, self._others = c[:, observed], V[:, observed], V[:, ~observed]
        self._B = self._V / np.sqrt(self._c)[:, :, None]
        identity = np.broadcast_to(np.eye(V.shape[2]), (len(V), V.shape[2], V.shape[2]))
        self._R = np.linalg.qr(np.concatenate([self._B, identity], axis=1), mode="r")
        self._root = np.linalg.inv(self._R)
        own = np.ascontiguousarray(c[:, ~observed])
        self.covariance = make(own, np.ascontiguousarray(self._others @ self._root))
        self.deviation = np.sqrt(self._c + np.sum(self._V**2, axis=2))
        self.determined = np.zeros(self._c.shape, dtype=bool)
        # c and V are rounded relative to themselves, and so are the conditional deviations.
        self.spread = self.covariance.deviations()
        self.sharpness = 1.0 / np.sqrt(own)

    def _factors(self, r: np.ndarray) -> np.ndarray:
        """Return the conditional means of the common factors, (B, k)."""
        inner = apply(transposed(self._B), r / np.sqrt(self._c))
        return apply(self._root, apply(transposed(self._root), inner))

    def whiten(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = self._factors(r)
        own = r - apply(self._V, z)
        return np.concatenate([own / np.sqrt(self._c), z], axis=1), own / self._c

    def half_log_det(self) -> np.ndarray:
        diagonal = np.abs(np.diagonal(self._R, axis1=1, axis2=2))
        return np.asarray(0.5 * np.log(self._c).sum(axis=1) + np.log(diagonal).sum(axis=1))

    def shift(self, r: np.ndarray) -> np.ndarray:
        return apply(self._others, self._factors(r))

    def shift_error(self, r: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return self.rounded * apply(np.abs(self._others), np.abs(self._factors(r)))

    def covariance_cost(self) -> np.ndarray:
        return np.full(self.sharpness.shape, self.rounded)

    def back(self, g: np.ndarray) -> np.ndarray:
        inner = apply(transposed(self._others), g)
        z = apply(self._root, apply(transposed(self._root), inner))
        return np.asarray(apply(self._B, z) / np.sqrt(self._c))

    @cached_property
    def _regression(self) -> np.ndarray:
        """Regression of the common factors on the coordinates that are given, (N, k, o)."""
        scaled = transposed(self._B / np.sqrt(self._c)[:, :, None])
        return self._root @ (transposed(self._root) @ scaled)

    @property
    def gain(self) -> np.ndarray:
        return self._others @ self._regression

    @property
    def precision(self) -> np.ndarray:
        left = np.eye(self._c.shape[1]) - self._V @ self._regression
        return left / self._c[:, :, None]

    def precision_trace(self) -> np.ndarray:
        # c and V are rounded, not the covariance: nothing is amplified.
        return np.full(len(self._c), float(self._c.shape[1]))


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
