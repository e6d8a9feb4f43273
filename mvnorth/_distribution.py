"""The distribution that a public function computes: normal or Student t, or the complement."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arguments import as_rows, numbers, real_array
from mvnorth._problem import Problems
from mvnorth._solve import Solver, solve


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
        if self.df is None and self.delta is None:
            return problems, shape, normal
        from mvnorth._student import StudentProblems, solve_with

        df, delta = self._degrees(), self._noncentrality(problems.d)
        whole = _broadcast(shape, df, delta)
        if whole != shape:
            number = np.arange(problems.size).reshape(shape)
            problems = problems.take(np.broadcast_to(number, whole).ravel())
        freedom = np.broadcast_to(df, whole).reshape(-1)
        sign = 1.0 if self.reflected else -1.0
        shift = None
        if delta is not None:
            shift = sign * as_rows(delta, whole, 1) / problems.covariance.unit
        student = StudentProblems(problems, freedom, shift, sign)
        return problems, whole, partial(solve_with, normal, student)

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
        if df.size and not df.min() > 0.0:  # NaN included
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
