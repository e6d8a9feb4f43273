"""Means with 95 % intervals, as reports state them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t


class Mean(NamedTuple):
    """A mean of independent values with its 95 % interval, by Student's t."""

    mean: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        """Return "0.93 (0.91 to 0.95)"."""
        return f"{self.mean:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of independent values; one value has an infinite interval.

    Examples
    --------
    >>> mean_of([1.0, 2.0, 3.0]).text()
    '2.00 (-0.48 to 4.48)'
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Mean(mean, -math.inf, math.inf)
    half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Mean(mean, mean - half, mean + half)


def geometric_mean_of(values: Sequence[float]) -> Mean:
    """Return the geometric mean of positive values, with the interval of the mean logarithm."""
    logs = mean_of(np.log(values).tolist())
    with np.errstate(over="ignore"):
        return Mean(*(float(np.exp(each)) for each in logs))
