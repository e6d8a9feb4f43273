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
    """

    pairs: int
    mean: float
    error: float
    median: float
    wins: int
    losses: int
    sign: float
    wilcoxon: float

    @property
    def verdict(self) -> str:
        """What the tests say at 5 %: "better", "worse" or "no difference shown"."""
        if self.wilcoxon < 0.05 and abs(self.mean) > 0:
            return "better" if self.mean > 0 else "worse"
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
    if wins + losses:
        sign = float(stats.binomtest(wins, wins + losses).pvalue)
        wilcoxon = float(stats.wilcoxon(values[values != 0]).pvalue)
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    mean, median = float(values.mean()), float(np.median(values))
    return Paired(len(values), mean, error, median, wins, losses, sign, wilcoxon)


def error_of_examples(first: np.ndarray, second: np.ndarray) -> float:
    """Standard error of a difference of accuracies that comes from the choice of test examples.

    ``first`` and ``second``, (T,), say which examples are right: only where they differ is there
    anything to it.
    """
    change = first.astype(float) - second.astype(float)
    return float(change.std() / math.sqrt(len(change)))
