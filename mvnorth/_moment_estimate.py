"""Estimates of the mean and the covariance of truncated distributions, with their errors."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._problem import Tolerance


@dataclass(eq=False)
class MomentEstimate:
    """Moments of X between its limits, of a batch of problems.

    Attributes
    ----------
    log_prob, rel_error, n, log_bound : (B,) as in ``Estimate``
    mean, mean_error : (B, d), and bounds on the absolute errors at about 99 % confidence
    cov, cov_error : (B, d, d), the same
    """

    log_prob: np.ndarray
    rel_error: np.ndarray
    n: np.ndarray
    log_bound: np.ndarray
    mean: np.ndarray
    mean_error: np.ndarray
    cov: np.ndarray
    cov_error: np.ndarray

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        mean: np.ndarray,
        mean_error: np.ndarray,
        cov: np.ndarray,
        cov_error: np.ndarray,
    ) -> "MomentEstimate":
        """Return moments with the probabilities of ``estimate``; NaN becomes an infinite error."""
        probability = (estimate.log_prob, estimate.rel_error, estimate.n, estimate.log_bound)
        for value, error in ((mean, mean_error), (cov, cov_error)):
            error[np.isnan(error) | ~np.isfinite(value)] = np.inf
        return cls(*probability, mean, mean_error, cov, cov_error)

    @classmethod
    def unknown(cls, size: int, d: int) -> "MomentEstimate":
        """Return moments that are not known: NaN with infinite errors, probabilities of zero."""
        return cls(
            np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size, dtype=np.int64),
            np.zeros(size), np.full((size, d), np.nan), np.full((size, d), np.inf),
            np.full((size, d, d), np.nan), np.full((size, d, d), np.inf),
        )  # fmt: skip

    def take(self, rows: Any) -> "MomentEstimate":
        """Return some rows."""
        return MomentEstimate(*(getattr(self, field.name)[rows] for field in fields(self)))

    def replace(self, rows: Any, other: "MomentEstimate", other_rows: Any = slice(None)) -> None:
        """Overwrite ``rows`` with ``other_rows`` of ``other``."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(other, field.name)[other_rows]

    def set_row(
        self,
        row: Any,
        mean: np.ndarray,
        mean_error: np.ndarray,
        cov: np.ndarray,
        cov_error: np.ndarray,
    ) -> None:
        """Set the moments of one row, (d,) and (d, d); errors that are NaN become infinite."""
        self.mean[row], self.cov[row] = mean, cov
        self.mean_error[row] = np.where(np.isnan(mean_error), np.inf, mean_error)
        self.cov_error[row] = np.where(np.isnan(cov_error), np.inf, cov_error)

    @classmethod
    def concatenate(cls, parts: Sequence["MomentEstimate"]) -> "MomentEstimate":
        """Put rows of several batches together."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations (B, d)."""
        variance = np.diagonal(self.cov, axis1=1, axis2=2)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def add_relative_error(self, relative: np.ndarray) -> None:
        """Add errors (B,) relative to the deviations of the result, and their products."""
        deviation = self.deviations
        with np.errstate(invalid="ignore"):
            self.mean_error += _times(relative[:, None], deviation)
            self.cov_error += _times(
                relative[:, None, None], deviation[:, :, None] * deviation[:, None]
            )

    def excess(self, tolerance: Tolerance, unit: np.ndarray | float = 1.0) -> np.ndarray:
        """Return the largest error of each row over what the tolerance allows, (B,).

        The relative tolerance counts in deviations of the result, and in their products. The
        absolute one is in the user's units: ``unit`` (1 or B, d) or a number times those of the
        moments, see ``CovarianceRows.unit``.
        """
        deviation, unit = self.deviations, np.broadcast_to(unit, self.mean.shape)
        products, units = (a[:, :, None] * a[:, None] for a in (deviation, unit))
        allowed = np.maximum(tolerance.relative * deviation, tolerance.absolute / unit)
        allowed_cov = np.maximum(tolerance.relative * products, tolerance.absolute / units)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = np.where(self.mean_error > 0.0, self.mean_error / allowed, 0.0)
            of_cov = np.where(self.cov_error > 0.0, self.cov_error / allowed_cov, 0.0)
        worst = np.maximum(of_mean.max(axis=1, initial=0.0), of_cov.max(axis=(1, 2), initial=0.0))
        return np.where(np.isnan(worst), np.inf, worst)


def _times(share: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return share * size, where infinity times 0 is 0."""
    return np.where(size > 0.0, share * size, 0.0)
