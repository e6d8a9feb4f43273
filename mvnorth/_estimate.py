"""Estimates of log-probabilities with their errors, and derivatives with theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._problem import Problems


@dataclass(frozen=True)
class Derivatives:
    """Derivatives of log P by name, and bounds on their errors.

    The names are "lower" and "upper" (B, d), the limits; "mean" (B, d), which moves both limits the
    other way; "cov" (B, d, d), the symmetric G with d log P = sum_ij G_ij d Sigma_ij over all i
    and j; and the parameters of the covariance, such as "factor" (B, d, r), which is 2 G A for
    Sigma = A A^T, or "c" and "v".

    Attributes
    ----------
    value : name to derivatives of log P
    error : name to bounds on their absolute errors at about 99 % confidence, entry by entry;
        infinite where the derivative is not known
    """

    value: dict[str, np.ndarray]
    error: dict[str, np.ndarray]

    def only(self, names: Sequence[str]) -> "Derivatives":
        """Return the derivatives of some names."""
        value, error = ({name: of[name] for name in names} for of in (self.value, self.error))
        return Derivatives(value, error)

    def take(self, rows: Any) -> "Derivatives":
        """Return the derivatives of some rows."""
        value, error = ({k: a[rows] for k, a in of.items()} for of in (self.value, self.error))
        return Derivatives(value, error)

    def replace(
        self, rows: np.ndarray, other: "Derivatives", other_rows: Any = slice(None)
    ) -> None:
        """Overwrite ``rows`` with ``other_rows`` of ``other``."""
        for name in self.value:
            self.value[name][rows] = other.value[name][other_rows]
            self.error[name][rows] = other.error[name][other_rows]

    def clear_infinite(self, problems: Problems, rows: np.ndarray) -> None:
        """Set derivatives to zero in limits that are infinite and in unlimited coordinates.

        rows : (B,) bool, whose probability has derivatives
        """
        for name in self.value:
            unlimited = np.isinf(problems.upper if name == "upper" else problems.lower)
            if name not in ("lower", "upper"):
                unlimited &= np.isinf(problems.upper)
            if unlimited.any():
                unlimited &= rows[:, None]
                for of in (self.value, self.error):
                    of[name][unlimited] = 0.0
                    if name == "cov":
                        np.swapaxes(of[name], 1, 2)[unlimited] = 0.0

    def add_relative_error(self, relative: np.ndarray) -> None:
        """Add a relative error, (B,)."""
        for name, value in self.value.items():
            size = np.abs(value, dtype=np.float64)
            of_rows = relative.reshape(-1, *(1,) * (value.ndim - 1))
            self.error[name] += np.multiply(
                of_rows, size, where=size > 0.0, out=np.zeros(size.shape)
            )

    def store(self, dtype: np.dtype) -> None:
        """Round values to a precision; numbers too large for it are 0 with an infinite error."""
        for name, error in self.error.items():
            value = self.value[name] = self.value[name].astype(dtype, copy=False)
            lost = ~np.isfinite(value)
            error[lost | np.isnan(error)], value[lost] = np.inf, 0.0
            if dtype != np.float64:
                error += np.where(error > 0.0, np.finfo(dtype).tiny, 0.0)
                error += np.finfo(dtype).eps * np.abs(value, dtype=np.float64)

    @classmethod
    def of_columns(
        cls, names: Sequence[str], value: np.ndarray, error: np.ndarray
    ) -> "Derivatives":
        """Split arrays (B, k, d), k the number of names."""
        by_name = ({name: a[:, k] for k, name in enumerate(names)} for a in (value, error))
        return cls(*by_name)

    @classmethod
    def concatenate(cls, parts: Sequence["Derivatives"]) -> "Derivatives":
        """Put rows of several batches together."""
        value, error = (
            {k: np.concatenate([of[k] for of in all_of]) for k in all_of[0]}
            for all_of in ([p.value for p in parts], [p.error for p in parts])
        )
        return cls(value, error)

    @classmethod
    def unknown(cls, problems: Problems, names: Sequence[str]) -> "Derivatives":
        """Return zeros with infinite errors."""
        shapes = {name: problems.covariance.derivative_shape(name) for name in names}
        size = problems.size
        return cls(
            {name: np.zeros((size, *shape)) for name, shape in shapes.items()},
            {name: np.full((size, *shape), np.inf) for name, shape in shapes.items()},
        )


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Estimate:
    """The result of a method, each ``(B,)``.

    Attributes
    ----------
    log_prob : logarithm of the probability
    rel_error : bound on its relative error at about 99 % confidence
    n : points used
    log_bound : certain upper bound on the logarithm of the probability; 0 where there is none
    derivatives : of log_prob, where they were requested
    """

    log_prob: np.ndarray
    rel_error: np.ndarray
    n: np.ndarray
    log_bound: np.ndarray
    derivatives: Derivatives | None = None

    @classmethod
    def exact(
        cls,
        log_prob: np.ndarray,
        rel_error: np.ndarray,
        n: np.ndarray | None = None,
        derivatives: Derivatives | None = None,
    ) -> "Estimate":
        """Return an estimate without an upper bound, and with no points unless ``n`` has them."""
        count = np.zeros(log_prob.size, dtype=np.int64) if n is None else n
        return cls(log_prob, rel_error, count, np.zeros(log_prob.size), derivatives)

    def take(self, rows: Any) -> "Estimate":
        """Return some rows."""
        derivatives = None if self.derivatives is None else self.derivatives.take(rows)
        log_prob, rel_error, n = self.log_prob[rows], self.rel_error[rows], self.n[rows]
        return Estimate(log_prob, rel_error, n, self.log_bound[rows], derivatives)

    def replace(self, rows: np.ndarray, other: "Estimate", other_rows: Any = slice(None)) -> None:
        """Overwrite ``rows`` with ``other_rows`` of ``other``."""
        self.log_prob[rows] = other.log_prob[other_rows]
        self.rel_error[rows] = other.rel_error[other_rows]
        self.n[rows] = other.n[other_rows]
        self.log_bound[rows] = other.log_bound[other_rows]
        if self.derivatives is not None:
            assert other.derivatives is not None
            self.derivatives.replace(rows, other.derivatives, other_rows)

    @classmethod
    def unknown(cls, problems: Problems, wrt: Sequence[str] = ()) -> "Estimate":
        """Return probabilities of zero with infinite errors, and such derivatives."""
        size = problems.size
        derivatives = Derivatives.unknown(problems, wrt) if wrt else None
        return cls.exact(np.full(size, -np.inf), np.full(size, np.inf), derivatives=derivatives)

    @classmethod
    def concatenate(cls, parts: Sequence["Estimate"]) -> "Estimate":
        """Put rows of several batches together."""
        derivatives = [p.derivatives for p in parts if p.derivatives is not None]
        return cls(
            np.concatenate([p.log_prob for p in parts]),
            np.concatenate([p.rel_error for p in parts]),
            np.concatenate([p.n for p in parts]),
            np.concatenate([p.log_bound for p in parts]),
            Derivatives.concatenate(derivatives) if derivatives else None,
        )
