"""Base of probit models: parameters, the log-likelihood, and the fit."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._gradients import box_grad, cdf_grad
from mvnorth._probit.maximise import Maximum, Scores, covariance, maximise
from mvnorth._probit.parameters import MatrixParameters
from mvnorth._problem import MAX_POINTS

COVARIANCES = ("hessian", "opg", "robust")
_BOUNDARY = 0.98  # of correlations
_FEW = 6  # coordinates up to which Gauss rules meet the tolerance for most observations
_RTOL, _MOST, _POINTS = 1e-4, 4096, 4096


@dataclass(frozen=True)
class Accuracy:
    """How to integrate: points or a tolerance, and the seed, the same for every evaluation.

    ``most`` is the largest number of points that the tolerance may take.
    """

    n: int | None
    rtol: float | None
    seed: int
    most: int = MAX_POINTS

    @classmethod
    def read(cls, n: Any, rtol: Any, seed: Any, d: int) -> "Accuracy":
        """Return the accuracy of these arguments; defaults depend on the number of coordinates."""
        points = _arguments.points_count(n)
        _arguments.tolerance(rtol, None, points)
        start = _arguments.whole_number("seed", seed, at_least=0)
        if points is not None or rtol is not None:
            return cls(points, rtol, start)
        return cls(None, _RTOL, start, _MOST) if d <= _FEW else cls(_POINTS, None, start)

    def box_grad(self, lower: Any, upper: Any, mean: Any, cov: Any, wrt: tuple[str, ...]) -> Any:
        """Return log-probabilities of boxes and their derivatives."""
        if self.n is not None:
            return box_grad(lower, upper, mean, cov, self.n, seed=self.seed, wrt=wrt, log=True)
        return cdf_grad(
            upper, mean, cov, maxpts=self.most, releps=self.rtol, lower_limit=lower, wrt=wrt,
            log=True, seed=self.seed,
        )  # fmt: skip


@dataclass(eq=False)
class Fit:
    """A fit in terms of the parameters that are reported.

    Attributes
    ----------
    params : (k,)
    cov_params : (k, k), NaN where it is not known
    matrix : correlation or covariance matrix of the errors
    maximum : where the search ended
    cov_type : how ``cov_params`` was computed
    """

    params: np.ndarray
    cov_params: np.ndarray
    matrix: np.ndarray
    maximum: Maximum
    cov_type: str

    def estimates(self, model: "ProbitModel") -> dict[str, Any]:
        """Return the fields of ``ProbitEstimates``."""
        return {
            "model": model,
            "names": model.names,
            "params": self.params,
            "cov_params": self.cov_params,
            "llf": self.maximum.at.total,
            "llf_error": float(self.maximum.at.errors.sum()),
            "nobs": model.nobs,
            "converged": self.maximum.converged,
            "evaluations": self.maximum.evaluations,
            "cov_type": self.cov_type,
        }


class ProbitModel(ABC):
    """A probit model: coefficients, and the matrix of its errors, from observations.

    Attributes
    ----------
    names : names of the parameters: coefficients, then entries of the matrix
    d : coordinates of the largest integral
    nobs : number of observations
    free_matrix : the matrix as a function of free parameters; None if it is fixed
    """

    names: tuple[str, ...]
    d: int
    nobs: int
    free_matrix: MatrixParameters | None

    @property
    def coefficient_count(self) -> int:
        entries = 0 if self.free_matrix is None else self.free_matrix.count
        return len(self.names) - entries

    @abstractmethod
    def _scores(self, coefficients: np.ndarray, matrix: np.ndarray, accuracy: Accuracy) -> Scores:
        """Return log-likelihoods and derivatives in coefficients and entries of the matrix."""

    @abstractmethod
    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and the matrix to start from."""

    @abstractmethod
    def _matrix(self, entries: np.ndarray) -> np.ndarray:
        """Return the matrix with these entries."""

    def loglike(
        self,
        params: ArrayLike,
        n: int | None = None,
        *,
        rtol: float | None = None,
        seed: int = 0,
    ) -> float:
        """Return the log-likelihood at parameters (k,), in the order of ``names``."""
        return self._at(params, Accuracy.read(n, rtol, seed, self.d)).total

    def score_obs(
        self,
        params: ArrayLike,
        n: int | None = None,
        *,
        rtol: float | None = None,
        seed: int = 0,
    ) -> np.ndarray:
        """Return the derivatives of the log-likelihood of every observation, (n, k)."""
        return self._at(params, Accuracy.read(n, rtol, seed, self.d)).scores

    def _at(self, params: ArrayLike, accuracy: Accuracy) -> Scores:
        values = _arguments.real_array("params", params, infinite=False)
        if values.shape != (len(self.names),):
            raise ValueError(
                f"params must be {len(self.names)} numbers, for {', '.join(self.names)}; got the "
                f"shape {values.shape}"
            )
        k = self.coefficient_count
        matrix = self._matrix(values[k:])
        if np.linalg.eigvalsh(matrix).min() <= 0.0:
            raise ValueError("params have a matrix that is not positive definite")
        return self._scores(values[:k], matrix, accuracy)

    def _fit(self, cov_type: str, accuracy: Accuracy, maxiter: Any) -> Fit:
        if cov_type not in COVARIANCES:
            listed = ", ".join(map(repr, COVARIANCES))
            raise ValueError(f"cov_type must be one of {listed}, got {cov_type!r}")
        steps = _arguments.whole_number("maxiter", maxiter, at_least=1)
        k, free_matrix = self.coefficient_count, self.free_matrix

        def unpack(free: np.ndarray) -> np.ndarray:
            return free_matrix.matrix(free[k:]) if free_matrix else self._matrix(free[k:])

        def evaluate(free: np.ndarray) -> Scores:
            matrix = unpack(free)
            if not np.isfinite(matrix).all():
                nothing = np.full(1, -np.inf)
                return Scores(nothing, nothing, np.zeros((1, free.size)))
            found = self._scores(free[:k], matrix, accuracy)
            if free_matrix is None:
                return found
            inner = found.scores[:, k:] @ free_matrix.jacobian(free[k:])
            return Scores(found.logs, found.errors, np.hstack([found.scores[:, :k], inner]))

        coefficients, matrix = self._start()
        start = coefficients
        if free_matrix is not None:
            start = np.concatenate([coefficients, free_matrix.free(matrix)])
        maximum = maximise(evaluate, start, steps)
        free = maximum.parameters
        of_free = covariance(evaluate, maximum, cov_type)
        matrix = unpack(free)
        jacobian, params = np.eye(free.size), free.copy()
        if free_matrix is not None:
            jacobian[k:, k:] = free_matrix.jacobian(free[k:])
            params[k:] = free_matrix.entries(matrix)
        size = free.size
        cov = np.full((size, size), np.nan) if of_free is None else jacobian @ of_free @ jacobian.T
        self._warn(maximum, of_free is None, self._hint(matrix))
        return Fit(params, cov, matrix, maximum, cov_type)

    def _hint(self, matrix: np.ndarray) -> str:
        """Return a sentence on correlations near 1, a likely cause of a failure, or nothing."""
        correlation = matrix / np.sqrt(np.outer(np.diag(matrix), np.diag(matrix)))
        largest = np.abs(np.tril(correlation, -1)).max(initial=0.0)
        if largest < _BOUNDARY:
            return ""
        return (
            f". A correlation of the errors is {largest:.4f} in size: the likelihood may have no "
            "maximum below 1, where two outcomes say nearly the same"
        )

    def _warn(self, maximum: Maximum, singular: bool, hint: str) -> None:
        if not maximum.converged:
            warnings.warn(
                f"the fit has not converged: after {maximum.evaluations} passes over the data it "
                f"is about {maximum.distance:.2g} standard errors from the maximum. Give a larger "
                "maxiter, or more points with n= if the likelihood is sampled; look for parameters "
                "with huge standard errors, which the data do not determine" + hint,
                RuntimeWarning,
                stacklevel=4,
            )
        if singular:
            warnings.warn(
                "the information is singular: the data do not determine all parameters, and "
                "standard errors are NaN" + hint,
                RuntimeWarning,
                stacklevel=4,
            )
