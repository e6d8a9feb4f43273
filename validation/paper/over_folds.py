"""Differences between two methods over the folds of a set, and over sets, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from validation.page.content import Verdict


class Interval(NamedTuple):
    """A mean and half the width of its 95 % interval, infinite for a single value.

    >>> print(Interval(0.5, 1.25))
    +0.50 ± 1.25
    """

    mean: float
    half: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        if not math.isfinite(self.half):
            return f"{self.mean:+.2f} (no interval)"
        return f"{self.mean:+.2f} ± {self.half:.2f}"


def over_folds(differences: Sequence[float], test: int, training: int) -> Interval:
    """Return the mean difference over splits of a set, with the corrected resampled t interval.

    Training parts of the splits overlap, so that differences are not independent: the variance
    of their mean is s² (1/J + test/training). Nadeau and Bengio, Inference for the generalization
    error (Machine Learning 52, 2003), equation 9.

    Parameters
    ----------
    differences : sequence of J numbers
    test, training : int
        Examples of the two parts.
    """
    values = np.asarray(differences, float)
    if len(values) < 2:
        return Interval(float(values.mean()), math.inf)
    spread = values.std(ddof=1) * math.sqrt(1 / len(values) + test / training)
    return Interval(float(values.mean()), float(stats.t.ppf(0.975, len(values) - 1) * spread))


def over_sets(differences: Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean difference over sets with Student's interval: sets as a draw from many.

    >>> print(over_sets([1.0, 2.0, 3.0]))
    +2.00 ± 2.48
    """
    values = np.asarray(differences, float)
    if len(values) < 2:
        return Interval(float(values.mean()), math.inf)
    error = values.std(ddof=1) / math.sqrt(len(values))
    quantile = stats.t.ppf(0.5 + level / 2, len(values) - 1)
    return Interval(float(values.mean()), float(quantile * error))


def wilcoxon(differences: Sequence[float]) -> float:
    """Return the p-value of Wilcoxon's signed-rank test over sets; 1 if all differences are 0."""
    values = np.asarray(differences, float)
    if not values.any():
        return 1.0
    return float(stats.wilcoxon(values, method="exact" if (values != 0).all() else "auto").pvalue)


def verdict(ours: Interval, published: float) -> Verdict:
    """Return what our interval says of a published lead, a positive number.

    >>> verdict(Interval(1.0, 0.5), 1.2), verdict(Interval(0.1, 0.5), 1.2)
    ('holds', 'does not hold')
    >>> verdict(Interval(0.5, 1.0), 1.2)
    'not decided'
    """
    if ours.low > 0:
        return "holds"
    return "does not hold" if ours.high < published else "not decided"
