"""Multiple comparisons as users get them: ``MaxTResult``, its table and its plot."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._columns import align_columns
from mvnorth._status import Status


@dataclass(frozen=True, repr=False, eq=False)
class MaxTResult:
    """Adjusted p-values and simultaneous intervals of m parameters; prints as a table.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters.
    estimates, null, standard_errors, statistics : ndarray (m,)
        What was tested: statistics are (estimates - null) / standard_errors.
    p_values : ndarray (m,)
        Single-step p-values, which belong to the intervals.
    p_errors : ndarray (m,)
        Bounds on their absolute errors, at about 99 % confidence.
    step_down_p_values : ndarray (m,), or None
        Step-down p-values: never larger, for the same protection against false rejections.
    step_down_p_errors : ndarray (m,), or None
        Bounds on their absolute errors.
    critical_value : float
        What the size of a statistic must exceed for its p-value to be below 1 - level.
    critical_error : float
        Bound on its absolute error.
    lower, upper : ndarray (m,)
        Limits of the intervals, which cover all parameters with probability ``level``.
    level : float
    alternative : str
        "two-sided", "greater" or "less".
    df : float, or None
        Degrees of freedom; None for the normal distribution.
    status : Status
        Whether all p-values and the critical value met their tolerance.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.max_t([2.5, 0.4], [[1.0, 0.5], [0.5, 1.0]], names=["slope", "offset"], rtol=1e-8)
    two-sided tests and 95 % intervals, normal distribution, critical value 2.21213
    parameter  estimate  std. error  statistic  p-value  step-down    lower   upper
    slope           2.5           1        2.5  0.02350    0.02350  0.28787  4.7121
    offset          0.4           1        0.4  0.89028    0.68916  -1.8121  2.6121
    """

    names: tuple[str, ...]
    estimates: np.ndarray
    null: np.ndarray
    standard_errors: np.ndarray
    statistics: np.ndarray
    p_values: np.ndarray
    p_errors: np.ndarray
    step_down_p_values: np.ndarray | None
    step_down_p_errors: np.ndarray | None
    critical_value: float
    critical_error: float
    lower: np.ndarray
    upper: np.ndarray
    level: float
    alternative: str
    df: float | None
    status: Status

    def to_dict(self) -> dict[str, Any]:
        """Return the same as numbers and lists of Python, for JSON or a data frame."""
        found = dict(vars(self))
        for name, value in found.items():
            if isinstance(value, np.ndarray):
                found[name] = value.tolist()
        return found | {"names": list(self.names), "status": self.status.name.lower()}

    def plot(self, ax: Any = None) -> Any:
        """Draw the intervals, the estimates and the null values; return matplotlib's axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot needs matplotlib: pip install matplotlib") from None
        if ax is None:
            _, ax = plt.subplots(figsize=(6.0, 1.0 + 0.35 * len(self.names)), layout="constrained")
        places = np.arange(len(self.names))[::-1]
        ends = np.where(np.isfinite([self.lower, self.upper]), [self.lower, self.upper], np.nan)
        inner = np.concatenate([ends.ravel(), self.estimates, self.null])
        low, high = np.nanmin(inner), np.nanmax(inner)
        margin = 0.05 * (high - low or 1.0)
        left = np.where(np.isfinite(self.lower), self.lower, low - margin)
        right = np.where(np.isfinite(self.upper), self.upper, high + margin)
        ax.hlines(places, left, right, color="tab:blue")
        for limits, drawn in ((self.lower, left), (self.upper, right)):
            closed = np.isfinite(limits)
            ax.plot(drawn[closed], places[closed], "|", color="tab:blue", markersize=9)
        ax.plot(self.estimates, places, "o", color="tab:blue", label="estimate")
        ax.plot(self.null, places, "x", color="0.3", label="null")
        ax.set_xlim(low - margin, high + margin)
        ax.set_yticks(places, self.names)
        ax.set_ylim(-0.6, len(self.names) - 0.4)
        ax.set_xlabel(f"simultaneous {100.0 * self.level:g} % intervals")
        return ax

    def __repr__(self) -> str:
        kind = "normal distribution" if self.df is None else f"{self.df:g} degrees of freedom"
        side = "two-sided" if self.alternative == "two-sided" else f"one-sided ({self.alternative})"
        head = (
            f"{side} tests and {100.0 * self.level:g} % intervals, {kind}, "
            f"critical value {self.critical_value:.6g}"
        )
        down = self.step_down_p_values
        lines = [
            ["parameter", "estimate", "std. error", "statistic", "p-value"]
            + ["step-down"] * (down is not None)
            + ["lower", "upper"]
        ]
        for k, name in enumerate(self.names):
            figures = [self.estimates[k], self.standard_errors[k], self.statistics[k]]
            p = [self.p_values[k]] + ([] if down is None else [down[k]])
            limits = [self.lower[k], self.upper[k]]
            lines.append(
                [name]
                + [f"{value:.5g}" for value in figures]
                + [_p_value(value) for value in p]
                + [f"{value:.5g}" for value in limits]
            )
        table = [head, *align_columns(lines)]
        if self.status == Status.LIMIT:
            table.append("some p-values or the critical value are less accurate than rtol asks for")
        return "\n".join(table)


def _p_value(p: float) -> str:
    return f"{p:.5f}" if p >= 1e-3 else f"{p:.3e}"
