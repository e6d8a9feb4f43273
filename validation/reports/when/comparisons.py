"""Losses compared over data sets: differences, intervals, and tests with Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from validation.reports.criticism.paired import paired
from validation.statistics import holm

LEVEL = 0.05

# Percent, the mean over splits: by model, condition, data set and loss.
Accuracies = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]


class Comparison(NamedTuple):
    """A loss minus another one over data sets, in points of accuracy.

    Attributes
    ----------
    model, condition, loss, other : str
    sets : int
        Number of data sets.
    mean, low, high : float
        Mean difference and its 95 % interval, by Student's t over data sets.
    wins, losses : int
        Data sets with a difference above and below 0.
    p, adjusted : float
        Wilcoxon's signed-rank test, two-sided, and after Holm's correction over all models and
        conditions in which these two losses are compared.
    direction : int
        1 or -1: the direction that Wilcoxon's test shows, of which the mean may have the other
        sign; 0 if there is none.
    """

    model: str
    condition: str
    loss: str
    other: str
    sets: int
    mean: float
    low: float
    high: float
    wins: int
    losses: int
    p: float
    adjusted: float
    direction: int

    @property
    def verdict(self) -> str:
        """ "better", "worse", or "" if no difference is shown after correction."""
        if not (self.adjusted < LEVEL and self.direction):
            return ""
        return "better" if self.direction > 0 else "worse"


def compare(found: Accuracies, pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    """Compare pairs of losses; the comparisons of a pair, all models and conditions, are a family.

    Conditions with fewer than two data sets are left out: nothing can be said over sets there.
    """
    compared = []
    for loss, other in pairs:
        family = [
            _compared(model, condition, loss, other, sets)
            for model, conditions in found.items()
            for condition, sets in conditions.items()
            if len(sets) > 1
        ]
        adjusted = holm([each.p for each in family])
        compared += [
            each._replace(adjusted=float(p)) for each, p in zip(family, adjusted, strict=True)
        ]
    return compared


def _compared(
    model: str, condition: str, loss: str, other: str, sets: Mapping[str, Mapping[str, float]]
) -> Comparison:
    differences = [each[loss] - each[other] for each in sets.values()]
    found = paired(differences)
    half = float(stats.t.ppf(0.975, len(differences) - 1)) * found.error
    return Comparison(
        model,
        condition,
        loss,
        other,
        len(differences),
        found.mean,
        found.mean - half,
        found.mean + half,
        found.wins,
        found.losses,
        found.wilcoxon,
        np.nan,
        found.direction,
    )
