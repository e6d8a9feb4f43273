"""Fit a power to how a cost grows; the same rule wherever a report or a paper's figure does so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import linregress, t

FIT_FROM = 16  # sizes below the largest divided by this are left out of a fit


class Power(NamedTuple):
    """Cost proportional to a power of the size: the exponent, a 95 % interval, and the sizes used.

    The interval is that of the slope of a straight line, from the residuals; it is infinite for
    two sizes.
    """

    exponent: float
    low: float
    high: float
    first: float
    last: float

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{self.exponent:.2f}"
        return f"{self.exponent:.2f} ({self.low:.2f} to {self.high:.2f})"


def fit_power(costs: Mapping[int, float]) -> Power:
    """Return the exponent of cost in size by least squares in logarithms.

    Only sizes of at least a sixteenth of the largest count: below that, fixed costs of a call
    (Python, the start of an operation) are a large share, and the exponent comes out too small.

    Examples
    --------
    >>> fit_power({16: 9.0, 256: 2.0, 1024: 8.0, 4096: 32.0}).exponent
    1.0
    """
    used = {size: cost for size, cost in costs.items() if FIT_FROM * size >= max(costs)}
    sizes, values = np.log(sorted(used)), np.log([used[size] for size in sorted(used)])
    line = linregress(sizes, values)
    freedom = len(used) - 2
    half = float(t.ppf(0.975, freedom) * line.stderr) if freedom > 0 else math.inf
    slope = round(float(line.slope), 12)
    return Power(slope, slope - half, slope + half, min(used), max(used))
