"""What passes between the rooms: problems in, tolerances beside them, estimates out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from mvnorth._device import Device
from mvnorth._linalg.bounds import times

MAX_POINTS = 2**20  # where the tolerance decides and nobody said otherwise
DRAW_REACH = 1e7  # deviations, beyond which numbers are too far apart for draws


@dataclass(frozen=True)
class Problems:
    """A batch of boxes: Pr(lower <= X <= upper) for X ~ N(0, A A^T).

    Attributes
    ----------
    lower, upper : (B, d) limits, infinite ones allowed
    factor : (1 or B, d, r) A, not necessarily triangular or square; one for all rows, or one each
    rounding : (B,) relative error that rounding of the limits brings
    singular : relative standard deviation below which a coordinate counts as determined by
        others: the rounding level of where A came from
    scale : (1 or B, d) powers of two by which limits and rows of A have been divided
    """

    lower: np.ndarray
    upper: np.ndarray
    factor: np.ndarray
    rounding: np.ndarray
    singular: float
    scale: np.ndarray

    @property
    def size(self) -> int:
        return self.lower.shape[0]

    @property
    def d(self) -> int:
        return self.lower.shape[1]

    @property
    def width(self) -> int:
        """Columns of A."""
        return self.factor.shape[2]

    def take(
        self, rows: Any, coordinates: np.ndarray | None = None, drop_columns: bool = False
    ) -> "Problems":
        """The same problems for some rows, and the marginals of some coordinates.

        Columns of A may only be dropped where all rows have them zero whatever the batch: sums
        over fewer columns round differently.
        """
        shared = self.factor.shape[0] == 1
        factor, scale = (a if shared else a[rows] for a in (self.factor, self.scale))
        lower, upper = self.lower[rows], self.upper[rows]
        if coordinates is not None:
            factor = factor[:, coordinates]
            if drop_columns:
                factor = factor[:, :, factor.any(axis=(0, 1))]
            factor = np.ascontiguousarray(factor)
            lower, upper = lower[:, coordinates], upper[:, coordinates]
            scale = scale[:, coordinates]
        return Problems(lower, upper, factor, self.rounding[rows], self.singular, scale)


@dataclass(frozen=True)
class OneFactorProblems:
    """A batch of boxes: Pr(lower <= X <= upper) for X ~ N(0, diag(c) + v v^T).

    Attributes
    ----------
    lower, upper : (B, d) limits, infinite ones allowed; upper may be in single precision, which
        asks for results of that accuracy
    c, v : (1 or B, d) one for all rows, or one each; c > 0
    rounding : (B,) relative error of c and v, or of limits in units of the deviation
    """

    lower: np.ndarray
    upper: np.ndarray
    c: np.ndarray
    v: np.ndarray
    rounding: np.ndarray

    @property
    def size(self) -> int:
        return self.lower.shape[0]

    @property
    def d(self) -> int:
        return self.lower.shape[1]

    @property
    def width(self) -> int:
        """There is no factor as a matrix."""
        return 0

    def take(self, rows: Any) -> "OneFactorProblems":
        """The same problems for some rows."""
        c, v = (a if a.shape[0] == 1 else a[rows] for a in (self.c, self.v))
        return OneFactorProblems(self.lower[rows], self.upper[rows], c, v, self.rounding[rows])

    def dense(self) -> Problems:
        """The same problems with a factor as a matrix, (.., d, d + 1): A = [diag(sqrt(c)), v]."""
        d = self.d
        factor = np.zeros((*self.c.shape, d + 1))
        factor[:, np.arange(d), np.arange(d)] = np.sqrt(self.c)
        factor[:, :, d] = self.v
        upper = self.upper.astype(np.float64)
        singular = 8 * d * float(np.finfo(np.float64).eps)
        scale = np.ones(self.c.shape)
        return Problems(np.array(self.lower), upper, factor, self.rounding, singular, scale)

    def double(self) -> "OneFactorProblems":
        """The same problems in double precision."""
        upper = self.upper.astype(np.float64)
        return OneFactorProblems(self.lower, upper, self.c, self.v, self.rounding)


AnyProblems = Problems | OneFactorProblems


@dataclass(frozen=True)
class Tolerance:
    """Error asked for: at most ``absolute``, or at most ``relative`` times the probability."""

    relative: float
    absolute: float

    def divided(self, parts: int) -> "Tolerance":
        """The tolerance for each of several factors of a probability."""
        return Tolerance(float(np.expm1(np.log1p(self.relative) / parts)), self.absolute / parts)

    def met(self, log_prob: np.ndarray, rel_error: np.ndarray) -> np.ndarray:
        relative = (rel_error <= self.relative) & np.isfinite(rel_error)
        if self.absolute == 0.0:  # a probability that underflows must not pass for exact
            return relative
        with np.errstate(invalid="ignore"):
            return relative | (rel_error * np.exp(log_prob) <= self.absolute)


@dataclass(frozen=True)
class Budget:
    """How many points a method may use: ``n``, or up to ``most`` until the tolerance is met.

    And where: on the CPU, or on a ``device``.
    """

    n: int | None
    most: int
    tolerance: Tolerance
    device: Device | None = None

    def divided(self, parts: int) -> "Budget":
        """The budget for each of several factors of a probability."""
        n = None if self.n is None else max(1, self.n // parts)
        most = max(1, self.most // parts)
        return replace(self, n=n, most=most, tolerance=self.tolerance.divided(parts))


@dataclass(frozen=True)
class Slopes:
    """Derivatives of log P by name, and bounds on their errors.

    They are those in "lower" and "upper" (B, d) limits; in "mean" (B, d), which moves both limits
    the other way; in "cov" (B, d, d): the symmetric G with d log P = sum_ij G_ij d Sigma_ij, over
    all i and j; of ``Problems`` in "factor" (B, d, r): 2 G A for Sigma = A A^T; and of
    ``OneFactorProblems`` in "c" and "v", (B, d).

    Attributes
    ----------
    value : name to derivatives of log P
    error : name to bounds on their absolute errors at about 99 % confidence, entry by entry;
        infinite where nothing is known
    """

    value: dict[str, np.ndarray]
    error: dict[str, np.ndarray]

    def only(self, names: Sequence[str]) -> "Slopes":
        """Those of some names."""
        value, error = ({name: of[name] for name in names} for of in (self.value, self.error))
        return Slopes(value, error)

    def take(self, rows: Any) -> "Slopes":
        value, error = ({k: a[rows] for k, a in of.items()} for of in (self.value, self.error))
        return Slopes(value, error)

    def replace(self, rows: np.ndarray, other: "Slopes", of_other: Any = slice(None)) -> None:
        """Take over ``other``'s rows ``of_other`` as the ``rows`` of these."""
        for name in self.value:
            self.value[name][rows] = other.value[name][of_other]
            self.error[name][rows] = other.error[name][of_other]

    def add_parts(self, problems: "AnyProblems", wanted: Sequence[str]) -> None:
        """From slopes in "cov" those in what it is made of: "factor", or "c" and "v"."""
        value, error = self.value["cov"], self.error["cov"]
        if isinstance(problems, Problems):
            if "factor" in wanted:
                matrix = 2.0 * problems.factor
                self.value["factor"], self.error["factor"] = times(value, error, matrix)
            return
        if "c" in wanted:
            for of in (self.value, self.error):
                of["c"] = np.diagonal(of["cov"], axis1=1, axis2=2).copy()
        if "v" in wanted:
            vector = 2.0 * np.broadcast_to(problems.v, problems.upper.shape)[:, :, None]
            product = times(value, error, vector)
            self.value["v"], self.error["v"] = (a[:, :, 0] for a in product)

    def clear_infinite(self, problems: "AnyProblems", rows: np.ndarray) -> None:
        """Nothing depends on limits that are infinite, nor on coordinates without a finite one.

        rows : (B,) bool, whose probability has derivatives
        """
        for name in self.value:
            nothing = np.isinf(problems.upper if name == "upper" else problems.lower)
            if name not in ("lower", "upper"):
                nothing &= np.isinf(problems.upper)
            if nothing.any():
                nothing &= rows[:, None]
                for of in (self.value, self.error):
                    of[name][nothing] = 0.0
                    if name == "cov":
                        np.swapaxes(of[name], 1, 2)[nothing] = 0.0

    def round(self, relative: np.ndarray) -> None:
        """Add a relative error, (B,)."""
        for name, value in self.value.items():
            size = np.abs(value, dtype=np.float64)
            of_rows = relative.reshape(-1, *(1,) * (value.ndim - 1))
            self.error[name] += np.multiply(
                of_rows, size, where=size > 0.0, out=np.zeros(size.shape)
            )

    def store(self, dtype: np.dtype) -> None:
        """Keep values in a precision; numbers too large for it leave nothing."""
        for name, error in self.error.items():
            value = self.value[name] = self.value[name].astype(dtype, copy=False)
            lost = ~np.isfinite(value)
            error[lost | np.isnan(error)], value[lost] = np.inf, 0.0
            if dtype != np.float64:
                error += np.where(error > 0.0, np.finfo(dtype).tiny, 0.0)
                error += np.finfo(dtype).eps * np.abs(value, dtype=np.float64)

    @classmethod
    def of_columns(cls, names: Sequence[str], value: np.ndarray, error: np.ndarray) -> "Slopes":
        """From (B, k, d), k the number of names."""
        each = ({name: a[:, k] for k, name in enumerate(names)} for a in (value, error))
        return Slopes(*each)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> "Slopes":
        value, error = (
            {k: np.concatenate([of[k] for of in all_of]) for k in all_of[0]}
            for all_of in ([p.value for p in parts], [p.error for p in parts])
        )
        return Slopes(value, error)

    @classmethod
    def unknown(cls, problems: AnyProblems, names: Sequence[str]) -> "Slopes":
        """Zeros with infinite errors."""
        size, d = problems.lower.shape
        shape = {"cov": (size, d, d), "factor": (size, d, problems.width)}
        return Slopes(
            {name: np.zeros(shape.get(name, (size, d))) for name in names},
            {name: np.full(shape.get(name, (size, d)), np.inf) for name in names},
        )


@dataclass(frozen=True)
class Estimate:
    """What a method returns, each ``(B,)``.

    Attributes
    ----------
    log_prob : logarithm of the probability
    rel_error : bound on its relative error at about 99 % confidence
    n : points used
    log_bound : what log_prob can never exceed, certainly; 0 where nothing better is known
    slopes : derivatives of log_prob, where they were asked for
    """

    log_prob: np.ndarray
    rel_error: np.ndarray
    n: np.ndarray
    log_bound: np.ndarray = field(default_factory=lambda: np.zeros(1))
    slopes: Slopes | None = None

    def __post_init__(self) -> None:
        if self.log_bound.size != self.log_prob.size:
            object.__setattr__(self, "log_bound", np.zeros(self.log_prob.size))

    def take(self, rows: Any) -> "Estimate":
        """The same for some rows."""
        slopes = None if self.slopes is None else self.slopes.take(rows)
        log_prob, rel_error, n = self.log_prob[rows], self.rel_error[rows], self.n[rows]
        return Estimate(log_prob, rel_error, n, self.log_bound[rows], slopes)

    def replace(self, rows: np.ndarray, other: "Estimate", of_other: Any = slice(None)) -> None:
        """Take over ``other``'s rows ``of_other`` as this estimate's ``rows``."""
        self.log_prob[rows] = other.log_prob[of_other]
        self.rel_error[rows] = other.rel_error[of_other]
        self.n[rows] = other.n[of_other]
        self.log_bound[rows] = other.log_bound[of_other]
        if self.slopes is not None:
            assert other.slopes is not None
            self.slopes.replace(rows, other.slopes, of_other)

    @classmethod
    def unknown(cls, problems: AnyProblems, wanted: Sequence[str] = ()) -> "Estimate":
        """Probabilities of zero with infinite errors, and such slopes in what is ``wanted``."""
        size = problems.size
        slopes = Slopes.unknown(problems, wanted) if wanted else None
        nothing = np.full(size, -np.inf), np.full(size, np.inf)
        return Estimate(*nothing, np.zeros(size, dtype=np.int64), slopes=slopes)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> "Estimate":
        slopes = [p.slopes for p in parts if p.slopes is not None]
        return Estimate(
            np.concatenate([p.log_prob for p in parts]),
            np.concatenate([p.rel_error for p in parts]),
            np.concatenate([p.n for p in parts]),
            np.concatenate([p.log_bound for p in parts]),
            Slopes.concatenate(slopes) if slopes else None,
        )


def in_covariance(wanted: Sequence[str]) -> bool:
    """Whether some of these slopes are in the covariance or in what it is made of."""
    return not {"cov", "factor", "c", "v"}.isdisjoint(wanted)


_Kind = TypeVar("_Kind", Problems, OneFactorProblems)


def in_chunks(problems: _Kind, rows: int, solve: Callable[[_Kind], Estimate]) -> Estimate:
    """Estimates of at most so many rows at a time, put together."""
    return Estimate.concatenate(
        [solve(problems.take(slice(k, k + rows))) for k in range(0, problems.size, rows)]
    )
