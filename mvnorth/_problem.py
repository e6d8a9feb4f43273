"""Problems: boxes with their covariances, and the request that says what to compute of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from mvnorth._device import Device

if TYPE_CHECKING:
    from mvnorth._covariance.dense import Dense
    from mvnorth._covariance.rows import CovarianceRows
    from mvnorth._estimate import Estimate

MAX_POINTS = 2**20  # where only a tolerance is given
DRAW_REACH = 1e7  # deviations beyond which numbers are too far apart for draws

_Rows = TypeVar("_Rows", bound="CovarianceRows")


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Problems(Generic[_Rows]):
    """A batch of boxes: Pr(lower <= X <= upper) for X ~ N(0, covariance).

    Attributes
    ----------
    lower, upper : (B, d) limits, infinite ones allowed; ``upper`` in single precision asks for
        results of that accuracy where a method can give them
    covariance : of 1 or B rows
    rounding : (B,) relative error that rounding of the limits and the covariance brings
    sides : 0 if all lower limits are -inf, 1 if some are not but no coordinate has two finite
        limits, 2 otherwise; None if not known yet
    one_block : whether every coordinate has a limit and a variance, and is linked to the one
        before; False if not known
    """

    lower: np.ndarray
    upper: np.ndarray
    covariance: _Rows
    rounding: np.ndarray
    sides: int | None = None
    one_block: bool = False

    @property
    def size(self) -> int:
        return self.lower.shape[0]

    @property
    def d(self) -> int:
        return self.lower.shape[1]

    @cached_property
    def two_sided(self) -> np.ndarray:
        """Rows with a coordinate that has two finite limits, (B,)."""
        if self.sides in (0, 1):
            return np.zeros(self.size, dtype=bool)
        return np.asarray((np.isfinite(self.lower) & np.isfinite(self.upper)).any(axis=1))

    def has_lower(self) -> bool:
        """Return whether any lower limit is finite."""
        return self.sides != 0 and bool(np.isfinite(self.lower).any())

    def take(
        self, rows: Any, coordinates: np.ndarray | None = None, drop_columns: bool = False
    ) -> "Problems[_Rows]":
        """Return some rows, and the marginals of some coordinates.

        ``drop_columns`` allows a factor to lose columns that are zero for these coordinates. It
        must not depend on how a batch is cut: sums over fewer columns round differently.
        """
        lower, upper = self.lower[rows], self.upper[rows]
        if coordinates is not None:
            lower, upper = (np.ascontiguousarray(a[:, coordinates]) for a in (lower, upper))
        covariance: Any = self.covariance.take(rows, coordinates, drop_columns)
        sides = None if self.sides == 2 else self.sides  # what is left may be one-sided
        return Problems(lower, upper, covariance, self.rounding[rows], sides)

    def dense(self) -> "Problems[Dense]":
        """Return the same problems in double precision with a factor as a matrix."""
        covariance = self.covariance.dense()
        if covariance is self.covariance and self.upper.dtype == np.float64:
            return self  # type: ignore[return-value]
        upper = self.upper.astype(np.float64)
        return Problems(np.array(self.lower), upper, covariance, self.rounding, self.sides)

    def double(self) -> "Problems[_Rows]":
        """Return the same problems with limits in double precision."""
        return replace(self, upper=self.upper.astype(np.float64))


@dataclass(frozen=True)
class Tolerance:
    """Largest error allowed: ``absolute``, or ``relative`` times the probability."""

    relative: float
    absolute: float

    def divided(self, parts: int) -> "Tolerance":
        """Return the tolerance for each of several factors of a probability."""
        return Tolerance(float(np.expm1(np.log1p(self.relative) / parts)), self.absolute / parts)

    def met(self, log_prob: Any, rel_error: Any) -> Any:
        """Return where an error is within the tolerance; takes arrays or numbers."""
        relative = (rel_error <= self.relative) & (rel_error < np.inf)
        if self.absolute == 0.0:  # a probability that underflows must not pass for exact
            return relative
        with np.errstate(invalid="ignore"):
            return relative | (rel_error * np.exp(log_prob) <= self.absolute)


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Request:
    """The derivatives and the accuracy wanted, and what the computation may cost.

    Attributes
    ----------
    tolerance : largest error allowed
    n : number of integration points, or None to add points until the tolerance is met
    most : largest number of points in that case
    seed : of the random shifts
    device : a CUDA device, or None for the CPU
    wrt : names of the derivatives wanted, see ``Derivatives``
    subsolve : ``subsolve(problems, method)`` estimates other problems, such as conditional ones,
        under the same request without derivatives
    """

    tolerance: Tolerance
    n: int | None = None
    most: int = MAX_POINTS
    seed: int = 0
    device: Device | None = None
    wrt: tuple[str, ...] = ()
    subsolve: "Callable[[Problems, str], Estimate] | None" = field(default=None, repr=False)

    def divided(self, parts: int) -> "Request":
        """Return the request for each of several factors of a probability."""
        if parts <= 1:
            return self
        n = None if self.n is None else max(1, self.n // parts)
        most = max(1, self.most // parts)
        return replace(self, n=n, most=most, tolerance=self.tolerance.divided(parts))

    @property
    def in_covariance(self) -> bool:
        """True if some derivatives are in the covariance or its parameters."""
        return not {"lower", "upper", "mean"}.issuperset(self.wrt)


def in_chunks(problems: Problems, rows: int, solve: "Callable[[Problems], Estimate]") -> "Estimate":
    """Estimate at most ``rows`` rows at a time, and concatenate."""
    if problems.size <= rows:
        return solve(problems)
    parts = [solve(problems.take(slice(k, k + rows))) for k in range(0, problems.size, rows)]
    return parts[0].concatenate(parts)
