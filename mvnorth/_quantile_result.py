"""Quantiles as users get them: ``QuantileResult``."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mvnorth._status import Status


@dataclass(frozen=True, repr=False, eq=False)
class QuantileResult:
    """Quantiles with their errors; numbers for one problem, arrays for a batch.

    ``float`` of the result of one problem, and ``numpy.asarray`` of any, are the quantiles.

    Attributes
    ----------
    quantile : float or ndarray (...)
        The quantile.
    error : float or ndarray (...)
        Bound on its absolute error at about 99 % confidence.
    n : int or ndarray (...)
        Integration points used in all; 0 for a closed form.
    method : str or ndarray (...)
        What computed the probabilities, such as "quadrature".
    status : Status, or ndarray (...) of their numbers
        Whether the tolerance was met.
    tolerance : (float, float)
        The ``(rtol, atol)`` asked for.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> result = mvnorth.quantile([0.9, 0.95], np.eye(4), tail="both", rtol=1e-6)
    >>> result.quantile.round(4), bool(result.error.max() < 1e-5)
    (array([2.2263, 2.4909]), True)
    """

    quantile: Any
    error: Any
    n: Any
    method: Any
    status: Any
    tolerance: tuple[float, float]

    def reshaped(self, shape: tuple[int, ...]) -> "QuantileResult":
        """Return rows in the shape of a batch, or numbers where that is ``()``."""
        if shape:
            return QuantileResult(
                self.quantile.reshape(shape),
                self.error.reshape(shape),
                self.n.reshape(shape),
                self.method.astype(str).reshape(shape),
                self.status.reshape(shape),
                self.tolerance,
            )
        return replace(
            self,
            quantile=float(self.quantile[0]),
            error=float(self.error[0]),
            n=int(self.n[0]),
            method=str(self.method[0]),
            status=Status(int(self.status[0])),
        )

    def __float__(self) -> float:
        if np.ndim(self.quantile):
            raise TypeError(
                f"only the result of one problem is a number, this is a batch of shape "
                f"{np.shape(self.quantile)}; use .quantile"
            )
        return float(self.quantile)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        make = np.array if copy else np.asarray
        return make(self.quantile, dtype=dtype)

    def __repr__(self) -> str:
        rtol, atol = self.tolerance
        terms = [f"rtol={rtol:g}"] * (rtol > 0 or atol == 0) + [f"atol={atol:g}"] * (atol > 0)
        asked = " or ".join(terms)
        advice = f"tolerance not met ({asked}): accept a larger rtol= or atol="
        if np.ndim(self.quantile) == 0:
            points = f", {self.n} points" if self.n else ""
            short = self.status == Status.LIMIT
            return (
                f"quantile  {self.quantile:.10g} +- {self.error:.1e}\n"
                f"method    {self.method}{points}\n"
                f"status    {advice if short else f'converged ({asked})'}"
            )
        shape = "x".join(map(str, np.shape(self.quantile)))
        if np.size(self.quantile) == 0:
            return f"{shape} quantiles (an empty batch)"
        methods = ", ".join(np.unique(self.method))
        limits = int(np.sum(self.status == Status.LIMIT))
        lines = [
            f"{shape} quantiles from {np.min(self.quantile):.6g} to {np.max(self.quantile):.6g}",
            f"largest error  {np.max(self.error):.1e}",
            f"methods        {methods}; {int(np.sum(self.n))} points in all",
            f"status         {np.size(self.quantile) - limits} as asked, {limits} short",
        ]
        return "\n".join(lines + [f"               {advice}"] * bool(limits))
