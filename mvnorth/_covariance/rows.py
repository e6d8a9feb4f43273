"""The questions that a covariance answers, with answers that go through a dense factor.

A new kind of covariance needs ``take`` and ``dense``, and overrides what it can do better.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mvnorth._estimate import Derivatives
from mvnorth._linalg.factors import FactorsForm
from mvnorth._linalg.one_factor import OneFactorForm
from mvnorth._problem import Problems

if TYPE_CHECKING:
    from mvnorth._covariance.dense import Dense
    from mvnorth._covariance.given_values import Given


class CovarianceRows(ABC):
    """Covariance matrices of a batch: one for all rows, or one for each."""

    parameters: tuple[str, ...] = ()
    """Names of the derivatives in its own parameters."""

    columns: dict[str, str] = {}  # noqa: RUF012
    """Names of derivatives that are one of ``parameters`` with an axis of length 1 appended."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """``(1 or B, d)``."""

    @abstractmethod
    def take(
        self, rows: Any, coordinates: np.ndarray | None = None, drop_columns: bool = False
    ) -> "CovarianceRows":
        """Return the covariances of some rows, and of some coordinates."""

    @abstractmethod
    def dense(self) -> "Dense":
        """Return the same covariances with a factor as a matrix."""

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return self.shape[1]

    @property
    def unit(self) -> np.ndarray | float:
        """Powers of two by which limits have been divided, (1 or B, d) or one for all."""
        return 1.0

    @property
    def memory(self) -> int:
        """Number of floats that one row takes."""
        return self.dense().memory

    def deviations(self) -> np.ndarray:
        """Return the standard deviations, (1 or B, d)."""
        return self.dense().deviations()

    def matrix(self) -> np.ndarray:
        """Return the covariance matrices, (1 or B, d, d)."""
        return self.dense().matrix()

    def constant(self) -> np.ndarray:
        """Return which coordinates have no variance, (1 or B, d)."""
        return self.deviations() == 0.0

    def links(self) -> np.ndarray | None:
        """Return which coordinate depends on which variable, (1 or B, d, r), or None if all do.

        Variables of a single coordinate may be left out.
        """
        return self.dense().links()

    def triangular(self) -> "Dense":
        """Return the same covariances with a lower triangular factor, or rows of one."""
        return self.dense()

    def regular(self, active: np.ndarray) -> np.ndarray:
        """Return rows (B,) in which no ``active`` coordinate (B, d) is determined by others."""
        return self.dense().regular(active)

    def given_one_factor(self) -> OneFactorForm | None:
        """Return c and v if the covariance was given as diag(c) + v v^T."""
        return None

    def one_factor(self) -> OneFactorForm | None:
        """Return c and v of rows that have the form diag(c) + v v^T, given or found."""
        return self.given_one_factor() or self.dense().one_factor()

    def given_factors(self) -> FactorsForm | None:
        """Return c and V if the covariance was given as diag(c) + V V^T with several factors."""
        return None

    def factors(self) -> FactorsForm | None:
        """Return c and V of rows that have the form diag(c) + V V^T, given or found."""
        return self.given_factors()

    def given_value(
        self, problems: Problems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
    ) -> Problems:
        """Return problems of d - 1 coordinates: ``rows`` given that X_i is ``values``, (K,) all.

        ``rounding`` grows by what the limits and the covariance lose, for probabilities that are
        not small; of a small one it counts |log P| times.  It is infinite where a coordinate that
        X_i determines is so close to its limit that rounding decides.
        """
        dense = problems.dense()
        return dense.covariance.given_value(dense, rows, coordinates, values)

    def given_values(self, observed: np.ndarray) -> "Given":
        """Return the distribution of the others given the ``observed`` coordinates, (d,) bool."""
        from mvnorth._covariance.given_values import DenseGiven

        return DenseGiven(self.dense(), observed)

    def derivative_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the derivative of that name for one row."""
        return (self.d, self.d) if name == "cov" else (self.d,)

    def add_parameters(self, derivatives: Derivatives, names: Sequence[str]) -> None:
        """Add derivatives in own parameters, as far as ``names`` has them, to those in "cov"."""
        return

    def to_user_units(self, derivatives: Derivatives) -> None:
        """Undo the scaling of limits and covariance in derivatives."""
        return
