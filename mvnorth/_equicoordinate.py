"""Events with equal limits: no coordinate exceeds q, in size or with its sign.

Quantiles and multiple comparisons read their arguments and compute their probabilities here.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._api import box
from mvnorth._result import OrthantResult
from mvnorth.covariance import Covariance

_NORMAL = 1e15  # degrees of freedom from which Student's t is the normal to rounding


@dataclass(frozen=True, eq=False)
class Equicoordinate:
    """The events X_j <= q scale_j for all j, or abs(X_j) <= q scale_j, in rows.

    Attributes
    ----------
    mean : (1 or B, d)
    cov : matrix (d, d), matrices (B, d, d), or a covariance of the batch axes ``batch``
    deviation : (1 or B, d) standard deviations of the coordinates
    df : (B,) degrees of freedom, infinity for the normal
    two_sided : whether sizes are compared with the limits
    batch : batch axes of B rows
    scale : (d,) multiples of q that are the limits, or 1
    """

    mean: np.ndarray
    cov: Any
    deviation: np.ndarray
    df: np.ndarray
    two_sided: bool
    batch: tuple[int, ...]
    scale: Any = 1.0

    @property
    def d(self) -> int:
        return int(self.deviation.shape[-1])

    def probability(
        self, q: np.ndarray, rows: np.ndarray, complement: bool, rtol: float, seed: int
    ) -> OrthantResult:
        """Return the probabilities of the events, or of their complements, for some rows."""
        upper = np.empty((q.size, self.d))
        upper[:] = q[:, None] * self.scale
        lower = -upper if self.two_sided else np.full(upper.shape, -np.inf)
        mean = self.mean if len(self.mean) == 1 else self.mean[rows]
        cov = self.cov
        if isinstance(cov, Covariance):
            cov = cov.take(self.batch, rows)
        elif cov.ndim > 2:
            cov = cov[rows]
        return event_probability(lower, upper, mean, cov, self.df[rows], complement, rtol, seed)


def event_probability(
    lower: np.ndarray,
    upper: np.ndarray,
    mean: ArrayLike,
    cov: Any,
    df: np.ndarray,
    complement: bool,
    rtol: float,
    seed: int,
) -> OrthantResult:
    """Return Pr(lower <= X <= upper) of rows, or 1 minus it, with relative accuracy."""
    degrees = df if (df < np.inf).any() else None
    result = box(lower, upper, mean, cov, df=degrees, rtol=rtol, seed=seed)
    if not complement:
        return result
    rest = np.maximum(-np.expm1(result.log_prob), 1e-300)
    return replace(result, log_prob=np.log(rest), prob=rest, rel_error=result.error / rest)


def degrees_of_freedom(df: ArrayLike | None) -> np.ndarray:
    """Return degrees of freedom > 0; infinity, or None, is the normal distribution."""
    if df is None:
        return np.array(np.inf)
    array = _arguments.real_array("df", df, infinite=True)
    if not (array > 0.0).all():
        raise ValueError(
            f"df must be > 0, with infinity for the normal distribution, got {array.min():g}"
        )
    return np.where(array >= _NORMAL, np.inf, array)


def read_equicoordinate(
    mean: ArrayLike,
    cov: ArrayLike | Covariance,
    df: ArrayLike | None,
    shape: tuple[int, ...],
    two_sided: bool,
) -> Equicoordinate:
    """Read the distributions of rows; ``shape`` are the batch axes of the probabilities p."""
    degrees = degrees_of_freedom(df)
    given: Any = cov
    covariance: Any = given if isinstance(cov, Covariance) else _arguments.square("cov", given)
    _, inner = _checks.box_problems(-np.inf, np.inf, mean, covariance)
    batch = _checks.batch_shape(("p", "df", "mean and cov"), shape, degrees.shape, inner)
    d = covariance.shape[-1]
    means = _arguments.numbers("mean", mean)
    means = np.full((1, d), means) if means.ndim == 0 else _rows(means, batch, 1)
    if isinstance(covariance, Covariance):
        own = covariance.shape[:-1]
        deviation = covariance.rows(own).deviations().reshape(*own, d)
    else:
        deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        covariance = covariance if covariance.ndim == 2 else _rows(covariance, batch, 2)
    degrees = _arguments.as_rows(degrees, batch, 0)
    return Equicoordinate(means, covariance, _rows(deviation, batch, 1), degrees, two_sided, batch)


def _rows(array: np.ndarray, batch: tuple[int, ...], core: int) -> np.ndarray:
    """Return one row for all, or one for each problem of the batch."""
    return array[None] if array.ndim == core else _arguments.as_rows(array, batch, core)
