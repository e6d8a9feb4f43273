"""Moments and densities of truncated distributions as users get them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._problem import Tolerance
from mvnorth._result import OrthantResult, as_ratio, wrap
from mvnorth._status import Status


@dataclass(frozen=True, repr=False, eq=False)
class Moments(OrthantResult):
    """Mean and covariance of a truncated distribution, and the probability of its limits.

    ``prob``, ``log_prob``, ``error``, ``rel_error``, ``log_bound``, ``n`` and ``method`` are those
    of the probability, as in ``OrthantResult``. ``status`` and ``tolerance`` are those of the
    moments.

    Attributes
    ----------
    mean : ndarray (..., d)
        Mean between the limits; NaN where their probability is 0.
    mean_error : ndarray (..., d)
        Bounds on the absolute errors, entry by entry, at about 99 % confidence; infinite where
        nothing is known.
    cov : ndarray (..., d, d)
        Covariance between the limits.
    cov_error : ndarray (..., d, d)
        Bounds on its absolute errors, entry by entry.

    Examples
    --------
    >>> import mvnorth
    >>> moments = mvnorth.box_moments(0.0, [1.0, 2.0], 0.0, [[1.0, 0.5], [0.5, 1.0]])
    >>> moments
    mean            0.4859, 0.7329 +- ...e-1...
    deviations      0.2826, 0.4939
    probability     0.198477... +- ...
    method          closed_form
    status          converged (rtol=0.01)
    """

    mean: Any = None
    mean_error: Any = None
    cov: Any = None
    cov_error: Any = None

    def __repr__(self) -> str:
        d = self.mean.shape[-1]
        if self.mean.ndim > 1:
            largest = np.max(self.mean_error, initial=0.0)
            lines = [
                f"moments of {'x'.join(map(str, self.mean.shape[:-1]))} truncated distributions "
                f"of {d} coordinates",
                f"largest errors  {largest:.1e} of means, "
                f"{np.max(self.cov_error, initial=0.0):.1e} of covariances",
            ]
            return "\n".join([*lines, super().__repr__()])
        with np.errstate(invalid="ignore"):
            deviation = np.sqrt(np.diagonal(self.cov))
        described = super().__repr__().splitlines()
        lines = [
            f"mean            {_some(self.mean)} +- {np.max(self.mean_error):.1e}",
            f"deviations      {_some(deviation)}",
            *(described[k] for k in (0, 3, 4)),  # probability, method, status
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Density:
    """Marginal density of a truncated distribution; numbers for one point, arrays for several.

    Attributes
    ----------
    density : float or ndarray (...)
        The density; 0 outside the limits.
    log_density : float or ndarray (...)
        Its logarithm.
    error : float or ndarray (...)
        Bound on the absolute error of ``density`` at about 99 % confidence.
    rel_error : float or ndarray (...)
        Bound on the relative error.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.box_density([0.5, 3.0], 0.0, 1.0, 0.0, [[1.0]], coordinates=0)
    >>> result.density.round(6)
    array([1.031407, 0.      ])
    """

    density: Any
    log_density: Any
    error: Any
    rel_error: Any


def _some(values: np.ndarray, most: int = 6) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:most])
    return shown + (", ..." if len(values) > most else "")


def wrap_moments(
    moments: MomentEstimate,
    methods: np.ndarray,
    tolerance: Tolerance | None,
    shape: tuple[int, ...],
) -> Moments:
    """Return ``Moments`` of the batch shape, from moments in the user's units."""
    estimate = Estimate(moments.log_prob, moments.rel_error, moments.n, moments.log_bound)
    result = vars(wrap(estimate, methods, None, shape, np.dtype(np.float64)))
    if tolerance is not None:
        met = moments.excess(tolerance) <= 1.0
        status = np.where(met, Status.CONVERGED, Status.LIMIT).astype(np.int8)
        result["status"] = status.reshape(shape) if shape else Status(int(status[0]))
        result["tolerance"] = (tolerance.relative, tolerance.absolute)
    arrays = {
        name: getattr(moments, name).reshape(*shape, *getattr(moments, name).shape[1:])
        for name in ("mean", "mean_error", "cov", "cov_error")
    }
    return Moments(**{**result, **arrays})


def wrap_density(log_density: np.ndarray, rel_error: np.ndarray, shape: tuple[int, ...]) -> Density:
    """Return a ``Density`` of the shape, from logarithms (K,) and relative errors."""
    rel_error = as_ratio(rel_error)
    density = np.exp(log_density)
    with np.errstate(invalid="ignore"):
        error = np.where(rel_error > 0.0, density * rel_error, 0.0)
    error[np.isnan(error)] = np.inf

    def shaped(a: np.ndarray) -> Any:
        return a.reshape(shape) if shape else a[0].item()

    return Density(shaped(density), shaped(log_density), shaped(error), shaped(rel_error))
