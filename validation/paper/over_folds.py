"""Differences between two methods over the folds of a set, and over sets, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from validation.page import Check, Text
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


def verdict(ours: Interval) -> Verdict:
    """Return what our interval says of the claim that there is a lead, of whatever size.

    >>> verdict(Interval(1.0, 0.5)), verdict(Interval(0.1, 0.5)), verdict(Interval(-1.0, 0.5))
    ('holds', 'not decided', 'does not hold')
    """
    if ours.low > 0:
        return "holds"
    return "does not hold" if ours.high <= 0 else "not decided"


def compare_sizes(ours: Interval, published: float) -> str:
    """Return a remark if the published lead is outside our interval, otherwise an empty string.

    >>> compare_sizes(Interval(0.1, 0.5), 1.2), compare_sizes(Interval(1.0, 0.5), 1.2)
    ('; less than the published +1.20', '')
    """
    if ours.high < published:
        return f"; less than the published {published:+.2f}"
    return f"; more than the published {published:+.2f}" if ours.low > published else ""


def check_near(claim: str, differences: Mapping[str, Interval], near: float) -> Check | Text:
    """Return the check that all differences are between ``-near`` and ``near``.

    It passes if all intervals are inside and fails if one is outside. If neither is so, intervals
    are too wide for a check, and a sentence says that in its place.

    >>> check_near("Near.", {"a": Interval(0.1, 0.2)}, 1.0).holds
    True
    >>> check_near("Near.", {"a": Interval(0.1, 0.2), "b": Interval(2.0, 0.2)}, 1.0).holds
    False
    >>> check_near("Near.", {"a": Interval(0.1, 2.0)}, 1.0).text
    'Not decided: "Near." The intervals of these are too wide: a: +0.10 ± 2.00.'
    """
    outside = [name for name, each in differences.items() if each.low > near or each.high < -near]
    wide = [name for name, each in differences.items() if each.low <= -near or each.high >= near]
    if wide and not outside:
        listed = "; ".join(f"{name}: {differences[name]}" for name in wide)
        return Text(f'Not decided: "{claim}" The intervals of these are too wide: {listed}.')
    largest = max(differences, key=lambda name: abs(differences[name].mean))
    told = "; ".join(f"{name}: {differences[name]}" for name in outside)
    return Check(
        claim, not outside, told or f"The largest difference is {differences[largest]}, {largest}."
    )
