"""The distribution that a public function computes: normal or Student t, or the complement."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arguments import as_rows, numbers, real_array
from mvnorth._problem import Problems
from mvnorth._solve import Solver, solve

if TYPE_CHECKING:
    from mvnorth._student import StudentProblems


_LEAST = 1e-3  # degrees of freedom


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Distribution:
    """Arguments that choose the distribution, as users give them.

    Attributes
    ----------
    df, delta, complement : see ``mvnorth.box``
    reflected : whether the problem's coordinates are minus those of the user, as in ``orthant``
    """

    df: ArrayLike | None = None
    delta: ArrayLike | None = None
    complement: Any = False
    reflected: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the derivatives in its own parameters."""
        given = (("df", self.df), ("delta", self.delta))
        return tuple(name for name, value in given if value is not None)

    def solver(
        self, problems: Problems, shape: tuple[int, ...]
    ) -> tuple[Problems, tuple[int, ...], Solver]:
        """Check the arguments; return problems and shape of the whole batch, and their solver."""
        normal: Solver = solve
        if self.complement is not False:
            normal = self._complement()
        student = self.student(problems, shape)
        if student is None:
            return problems, shape, normal
        from mvnorth._student import solve_with

        whole, shape, _ = student
        return whole.normal, shape, partial(solve_with, normal, whole)

    def student(
        self, problems: Problems, shape: tuple[int, ...]
    ) -> "tuple[StudentProblems, tuple[int, ...], np.ndarray] | None":
        """Check the arguments; return problems of Student's t, or None for the normal.

        Also return the shape of the whole batch, and which row of ``problems`` each row is.
        """
        if self.df is None and self.delta is None:
            return None
        from mvnorth._student import StudentProblems

        df, delta = self._degrees(), self._noncentrality(problems.d)
        whole = _broadcast(shape, df, delta)
        number = np.broadcast_to(np.arange(problems.size).reshape(shape), whole).ravel()
        if whole != shape:
            problems = problems.take(number)
        freedom = np.broadcast_to(df, whole).reshape(-1)
        shift = None
        if delta is not None:
            shift = self.sign * as_rows(delta, whole, 1) / problems.covariance.unit
        return StudentProblems(problems, freedom, shift, self.sign), whole, number

    @property
    def sign(self) -> float:
        """Factor of delta in the shift of the limits."""
        return 1.0 if self.reflected else -1.0

    def _complement(self) -> Solver:
        if not isinstance(self.complement, (bool, np.bool_)):
            raise TypeError(f"complement must be True or False, got {self.complement!r}")
        if not self.complement:
            return solve
        from mvnorth._complement import solve as solve_complement

        return solve_complement

    def _degrees(self) -> np.ndarray:
        if self.df is None:
            return np.array(np.inf)
        df = numbers("df", self.df)
        if df.size and not df.min() >= _LEAST:  # NaN included
            if df.min() > 0.0:
                raise ValueError(f"df must be at least {_LEAST:g}, got {df.min():g}")
            raise ValueError(f"df must be > 0 (infinity or None for the normal), got {df.min():g}")
        return df

    def _noncentrality(self, d: int) -> np.ndarray | None:
        if self.delta is None:
            return None
        delta = real_array("delta", self.delta, infinite=False)
        if delta.ndim == 0:
            return np.full(d, delta)
        if delta.shape[-1] != d:
            raise ValueError(f"delta must have shape (..., {d}), got {delta.shape}")
        return delta


def _broadcast(shape: tuple[int, ...], df: np.ndarray, delta: np.ndarray | None) -> tuple[int, ...]:
    of_delta = () if delta is None else delta.shape[:-1]
    try:
        return np.broadcast_shapes(shape, df.shape, of_delta)
    except ValueError:
        raise ValueError(
            f"batch shapes do not broadcast: problems {shape}, df {df.shape}, delta {of_delta}"
        ) from None
