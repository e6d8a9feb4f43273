"""Mixing CE and EL: the figures of table 4, ours as arrays over sets and the published ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from validation import statistics
from validation.page.content import Verdict
from validation.paper.over_folds import Interval, over_sets
from validation.paper.uci_mixing_runs import (
    LOSSES,
    MODELS,
    SEEDS,
    capped,
    chosen,
    task_name,
)
from validation.reports import Results

NAMES = list(LOSSES)


class Published(NamedTuple):
    """Wins on 121 sets, change in accuracy against CE (points), mean rank; means of two seeds."""

    wins: int
    change: float
    rank: float


PUBLISHED = {
    "linear": {
        "ce": Published(33, 0.0, 2.59),
        "f0": Published(32, 0.09, 2.39),
        "f0,0.5": Published(31, 0.20, 2.30),
        "f0-0.5": Published(48, 0.30, 2.12),
        "el": Published(33, -2.71, 3.25),
        "focal": Published(26, -0.56, 3.13),
    },
    "hidden": {
        "ce": Published(26, 0.0, 2.70),
        "f0": Published(30, 0.12, 2.62),
        "f0,0.5": Published(37, 0.27, 2.40),
        "f0-0.5": Published(42, 0.30, 2.37),
        "el": Published(33, -4.73, 3.52),
        "focal": Published(25, -0.89, 3.03),
    },
}


@dataclass(frozen=True)
class Accuracies:
    """Test accuracies in percent.

    Attributes
    ----------
    sets : tuple of str
    values : (networks, sets, losses, seeds) array
    majority : (sets,) array
        The share of the largest class in the test part, in percent.
    capped : (sets,) array of bool
        Sets with fewer steps than published.
    """

    sets: tuple[str, ...]
    values: np.ndarray
    majority: np.ndarray
    capped: np.ndarray

    def without_capped(self) -> Accuracies:
        """Return those of the sets that are trained as published."""
        kept = ~self.capped
        sets = tuple(name for name, each in zip(self.sets, kept, strict=True) if each)
        return Accuracies(sets, self.values[:, kept], self.majority[kept], self.capped[kept])

    def of(self, model: str) -> np.ndarray:
        """Return the accuracies of a network, (sets, losses, seeds)."""
        values: np.ndarray = self.values[list(MODELS).index(model)]
        return values

    def change(self, loss: str, model: str | None = None) -> Interval:
        """Return the change against CE with its interval over sets; of both networks' mean."""
        values = self.values.mean(axis=0) if model is None else self.of(model)
        return over_sets((values[:, NAMES.index(loss)] - values[:, 0]).mean(axis=1))

    def ranks(self, model: str, ties: Literal["average", "min"] = "average") -> np.ndarray:
        """Return the ranks of the losses, (sets, losses), means over seeds."""
        values = self.of(model).round(6)
        seeds = range(values.shape[2])
        return np.mean([statistics.ranks(values[..., seed], ties) for seed in seeds], axis=0)

    def wins(self, model: str) -> np.ndarray:
        """Return on how many sets each loss is best, or as good as the best, mean over seeds."""
        values = self.of(model).round(6)
        seeds = range(values.shape[2])
        return np.mean([statistics.wins(values[..., seed]) for seed in seeds], axis=0)

    def rank_lead(self, loss: str) -> tuple[str, Interval]:
        """Return the best of the other losses, and by how much its mean rank exceeds this one's.

        Ranks are means over the two networks, with ties as published. The interval over sets has
        a level of 99 %, as the best of five is chosen on the same data (Bonferroni).
        """
        ranks = np.mean([self.ranks(model, "min") for model in MODELS], axis=0)
        others = [name for name in NAMES if name != loss]
        rival = min(others, key=lambda name: ranks[:, NAMES.index(name)].mean())
        difference = ranks[:, NAMES.index(rival)] - ranks[:, NAMES.index(loss)]
        return rival, over_sets(difference, level=1 - 0.05 / len(others))


def accuracies(results: Results, scale: str) -> Accuracies:
    """Return the accuracies of all sets whose tasks are done."""
    sets = tuple(
        name for name in chosen(scale) if all(task_name(name, model) in results for model in MODELS)
    )
    values = [
        [[results[task_name(name, model)]["test"][loss] for loss in NAMES] for name in sets]
        for model in MODELS
    ]
    majority = [results[task_name(name, "linear")]["majority"] for name in sets]
    return Accuracies(
        sets,
        100 * np.array(values, float).reshape(len(MODELS), len(sets), len(NAMES), SEEDS),
        100 * np.array(majority, float),
        np.array([capped(name, scale) for name in sets], bool),
    )


def rank_verdict(lead: Interval) -> Verdict:
    """Return what an interval of a lead in mean rank says of "best".

    >>> rank_verdict(Interval(0.2, 0.1)), rank_verdict(Interval(0.1, 0.2))
    ('holds', 'not decided')
    >>> rank_verdict(Interval(-0.2, 0.1))
    'does not hold'
    """
    if lead.low > 0:
        return "holds"
    return "does not hold" if lead.high < 0 else "not decided"


def adjusted_p(values: np.ndarray) -> np.ndarray:
    """Return p-values of all pairs of losses (Conover), adjusted by Benjamini and Hochberg."""
    return statistics.benjamini_hochberg(statistics.conover(values.round(6)))
