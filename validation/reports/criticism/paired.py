"""Two ways compared on the same problems: differences, and whether they may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Paired(NamedTuple):
    """Differences of pairs.

    Attributes
    ----------
    pairs : int
    mean, error : float
        The mean difference and its standard error; NaN of a single pair.
    median : float
    wins, losses : int
        Pairs with a difference above, and below, zero; the others are ties.
    sign, wilcoxon : float
        Two-sided p-values of the sign test without ties, and of Wilcoxon's signed-rank test; 1
        where all are ties.
    direction : int
        The sign of the sum of signed ranks, which is the direction that Wilcoxon's test shows.
        The mean may have the other sign: a few large differences outweigh many small ones.
    """

    pairs: int
    mean: float
    error: float
    median: float
    wins: int
    losses: int
    sign: float
    wilcoxon: float
    direction: int

    @property
    def verdict(self) -> str:
        """What Wilcoxon's test says at 5 %: "better", "worse" or "no difference shown"."""
        if self.wilcoxon < 0.05 and self.direction:
            return "better" if self.direction > 0 else "worse"
        return "no difference shown"


def paired(differences: Sequence[float]) -> Paired:
    """Compare pairs by their differences.

    Examples
    --------
    >>> found = paired([0.02, 0.01, 0.03, 0.005, 0.04, 0.015])
    >>> found.wins, found.losses, found.sign, found.wilcoxon, found.verdict
    (6, 0, 0.03125, 0.03125, 'better')
    """
    # Accuracies are ratios of counts: what is left of a tie is rounding.
    values = np.where(np.abs(differences) < 1e-12, 0.0, differences)
    wins, losses = int(np.sum(values > 0)), int(np.sum(values < 0))
    sign = wilcoxon = 1.0
    direction = 0
    if wins + losses:
        sign = float(stats.binomtest(wins, wins + losses).pvalue)
        unequal = values[values != 0]
        wilcoxon = float(stats.wilcoxon(unequal).pvalue)
        direction = int(np.sign(np.sum(stats.rankdata(np.abs(unequal)) * np.sign(unequal))))
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    mean, median = float(values.mean()), float(np.median(values))
    return Paired(len(values), mean, error, median, wins, losses, sign, wilcoxon, direction)


class Interval(NamedTuple):
    """A mean with the ends of its interval by Student's t; they are NaN of a single value."""

    mean: float
    low: float
    high: float

    @property
    def bound(self) -> float:
        """The end that is farther from 0.

        Of a 90 % interval it is the smallest bound within which two one-sided tests at 5 % show
        the mean to be (equivalence). NaN of a single value.
        """
        return float(np.max([abs(self.low), abs(self.high)]))

    def __str__(self) -> str:
        """Return the mean and the interval, as "+0.62 (-0.10 to +1.34)" with true minus signs."""
        if math.isnan(self.low):
            return signed(self.mean)
        return f"{signed(self.mean)} ({signed(self.low)} to {signed(self.high)})"


def signed(value: float) -> str:
    """Return a number with its sign and two decimals.

    Examples
    --------
    >>> signed(1.0)
    '+1.00'
    """
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}")


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean of independent values and its interval.

    Examples
    --------
    >>> interval([0.0, 1.0, 2.0], 0.90).bound.__round__(3)
    2.686
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, math.nan, math.nan)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = float(stats.t.ppf(0.5 + level / 2, len(values) - 1)) * error
    return Interval(mean, mean - half, mean + half)


def by_set(values: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return the mean of the values of each data set.

    Models, learning rates and splits of one data set are not independent of each other; means of
    different data sets are.
    """
    grouped: dict[str, list[float]] = {}
    for name, value in values:
        grouped.setdefault(name, []).append(value)
    return {name: float(np.mean(each)) for name, each in grouped.items()}
