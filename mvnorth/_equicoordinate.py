"""Events with equal limits: no coordinate exceeds q, in size or with its sign.

Quantiles and multiple comparisons read their arguments and compute their probabilities here.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._api import box
from mvnorth._status import Status
from mvnorth.covariance import Covariance, OneFactor

_NORMAL = 1e15  # degrees of freedom from which Student's t is the normal to rounding
_CLOSED = 3  # coordinates for which there are closed forms
_SHARE = 1e-3  # smallest complement that is computed as one minus the probability
_LEAST = 1e-14  # relative error that can be asked for


class Values(NamedTuple):
    """Probabilities of rows, (B,) each: logarithms, relative errors, and how they were computed."""

    log_prob: np.ndarray
    rel_error: np.ndarray
    n: np.ndarray
    method: np.ndarray
    met: np.ndarray


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
    method : one that computes probabilities to rounding, or "auto"
    groups : number of groups whose pairwise differences the coordinates are, with equal variances;
        else 0
    scale : (d,) multiples of q that are the limits, or 1
    """

    mean: np.ndarray
    cov: Any
    deviation: np.ndarray
    df: np.ndarray
    two_sided: bool
    batch: tuple[int, ...]
    method: str
    groups: int
    scale: Any = 1.0

    @property
    def d(self) -> int:
        return int(self.deviation.shape[-1])

    def limits(self, q: np.ndarray) -> np.ndarray:
        """Return the upper limits for q (B,), (B, d)."""
        upper = np.empty((q.size, self.d))
        upper[:] = q[:, None] * self.scale
        return upper

    def probability(
        self, upper: np.ndarray, rows: np.ndarray, complement: bool, rtol: float, seed: int
    ) -> Values:
        """Return the probabilities of the events, or of their complements, for some rows.

        A row of ``upper`` need not have equal limits, and infinite ones are allowed.
        """
        if self.groups:
            exact = (upper == upper[:, :1]).all(axis=1) & (upper[:, 0] > 0.0)
        else:
            exact = np.full(rows.size, self.method != "auto")
        if not exact.any():
            return self._box(upper, rows, complement, rtol, seed)
        compute = self._range if self.groups else self._box
        goal = max(_SHARE * rtol, _LEAST) if complement else rtol
        some = np.flatnonzero(exact)
        found = compute(upper[some], rows[some], False, goal, seed, self.method)
        known = found.rel_error < np.inf
        if complement:
            found = _subtract(found, rtol)
            known = found.met
        if some.size == rows.size and known.all():
            return found
        parts = Values(*(np.empty(rows.size, dtype) for dtype in (float, float, int, object, bool)))
        _put(parts, some, found)
        again, others = some[~known], np.flatnonzero(~exact)
        if self.groups and complement and again.size:
            _put(parts, again, self._range_complement(upper[again], rows[again], rtol, seed))
        elif again.size:
            others = np.concatenate([again, others])
        if others.size:
            _put(parts, others, self._box(upper[others], rows[others], complement, rtol, seed))
        return parts

    def _box(
        self,
        upper: np.ndarray,
        rows: np.ndarray,
        complement: bool,
        rtol: float,
        seed: int,
        method: str = "auto",
    ) -> Values:
        lower = -upper if self.two_sided else np.full(upper.shape, -np.inf)
        mean = self.mean if len(self.mean) == 1 else self.mean[rows]
        cov = self.cov
        if isinstance(cov, Covariance):
            cov = cov.take(self.batch, rows)
        elif cov.ndim > 2:
            cov = cov[rows]
        return _values(lower, upper, mean, cov, self.df[rows], complement, rtol, seed, method)

    def _range(
        self,
        upper: np.ndarray,
        rows: np.ndarray,
        complement: bool,
        rtol: float,
        seed: int,
        method: str,
    ) -> Values:
        """Return the probabilities that the range of k independent means does not exceed a limit.

        Each of them is the smallest with the same probability, and the others then lie between it
        and the limit: k times a box of differences with one common factor.
        """
        k = self.groups
        high = np.sqrt(2.0) * upper[:, : k - 1] / self.deviation[:, :1]
        cov = OneFactor(np.ones(k - 1), np.ones(k - 1))
        low = np.zeros(high.shape)
        found = _values(low, high, 0.0, cov, self.df[rows], complement, rtol, seed, method)
        return found._replace(log_prob=np.minimum(found.log_prob + math.log(k), 0.0))

    def _range_complement(
        self, upper: np.ndarray, rows: np.ndarray, rtol: float, seed: int
    ) -> Values:
        """Return the probabilities that the range exceeds a limit, as sums of disjoint events.

        In the one of number j the others before j lie below the limit, j lies above it, and those
        after j lie above the smallest.
        """
        k = self.groups
        limit = np.sqrt(2.0) * upper[:, :1, None] / self.deviation[:, :1, None]
        number = np.arange(k - 1)
        high = np.where(number < number[:, None], limit, np.inf)
        low = np.where(number == number[:, None], limit, np.zeros(high.shape))
        cov = OneFactor(np.ones(k - 1), np.ones(k - 1))
        df = np.repeat(self.df[rows], k - 1)
        low, high = low.reshape(-1, k - 1), high.reshape(-1, k - 1)
        terms = _values(low, high, 0.0, cov, df, False, rtol, seed, "quadrature")
        log_terms = terms.log_prob.reshape(-1, k - 1)
        largest = log_terms.max(axis=1, keepdims=True)
        shares = np.exp(log_terms - largest)
        total = shares.sum(axis=1)
        rel_error = (shares * terms.rel_error.reshape(shares.shape)).sum(axis=1) / total
        return Values(
            math.log(k) + largest[:, 0] + np.log(total),
            rel_error,
            terms.n.reshape(shares.shape).sum(axis=1),
            terms.method.reshape(shares.shape)[:, 0],
            np.asarray(terms.met.reshape(shares.shape).all(axis=1)),
        )


def _put(parts: Values, some: np.ndarray, found: Values) -> None:
    for column, values in zip(parts, found, strict=True):
        column[some] = values


def _subtract(found: Values, rtol: float) -> Values:
    """Return one minus the probabilities; the tolerance is met if little cancels."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_rest = np.log(-np.expm1(found.log_prob))
        rel_error = found.rel_error * np.exp(found.log_prob - log_rest)
    rel_error = np.where(log_rest > -np.inf, rel_error, np.inf)
    return found._replace(log_prob=log_rest, rel_error=rel_error, met=rel_error <= rtol)


def _values(
    lower: np.ndarray,
    upper: np.ndarray,
    mean: ArrayLike,
    cov: Any,
    df: np.ndarray,
    complement: bool,
    rtol: float,
    seed: int,
    method: str,
) -> Values:
    degrees = df if (df < np.inf).any() else None
    found = box(
        lower, upper, mean, cov, df=degrees, complement=complement, rtol=rtol, method=method,
        seed=seed,
    )  # fmt: skip
    met = found.status != Status.LIMIT
    return Values(found.log_prob, found.rel_error, found.n, found.method, met)


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
    groups = 0
    if isinstance(covariance, Covariance):
        own = covariance.shape[:-1]
        deviation = covariance.rows(own).deviations().reshape(*own, d)
    else:
        deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
        if covariance.ndim > 2:
            covariance = _rows(covariance, batch, 2)
        elif two_sided and d >= 3 and not means.any():
            groups = _equal_groups(covariance)
    method = "closed_form" if d <= _CLOSED else "auto"
    if groups or isinstance(covariance, OneFactor):
        method = "quadrature"
    degrees = _arguments.as_rows(degrees, batch, 0)
    deviation = _rows(deviation, batch, 1)
    return Equicoordinate(means, covariance, deviation, degrees, two_sided, batch, method, groups)


def _equal_groups(cov: np.ndarray) -> int:
    """Return the number of groups with equal variances whose differences have covariance ``cov``.

    The pairs are in the order (1, 0), (2, 0), ..., (2, 1), ... of ``pairwise``; 0 for others.
    """
    k = (1 + math.isqrt(1 + 8 * len(cov))) // 2
    if k * (k - 1) // 2 != len(cov):
        return 0
    coefficients = pairwise(k)
    differences = cov / cov[0, 0] - 0.5 * coefficients @ coefficients.T
    return k if np.abs(differences).max() <= 1e-14 else 0


def pairwise(k: int) -> np.ndarray:
    """Return the coefficients (k (k - 1) / 2, k) of all differences of k groups."""
    pairs = [(j, i) for i in range(k) for j in range(i + 1, k)]
    first, second = np.array(pairs).T
    return np.asarray(np.eye(k)[first] - np.eye(k)[second])


def _rows(array: np.ndarray, batch: tuple[int, ...], core: int) -> np.ndarray:
    """Return one row for all, or one for each problem of the batch."""
    return array[None] if array.ndim == core else _arguments.as_rows(array, batch, core)
