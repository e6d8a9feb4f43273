"""Results of searches: what each loss came to on a data set, by number of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from validation.reports.criticism.paired import by_set
from validation.reports.criticism.trainings import TUNED

CE, EXACT, ROBUST = "cross-entropy", "EXACT, 1 - P", "EXACT, robust"


class Search(NamedTuple):
    """What searches on a data set came to, of all losses, with a number of steps.

    Attributes
    ----------
    test : mapping
        By loss the test accuracy, percent, of what each search chose.
    settings : mapping
        By loss the settings that each search chose, [rate, decay, gradient].
    median, best : mapping
        By loss the validation accuracy of the median and of the best trial, percent, mean over
        searches.
    examples_error : mapping
        By loss the standard error of the difference to cross-entropy, in points, that comes from
        the choice of test examples.
    """

    test: Mapping[str, np.ndarray]
    settings: Mapping[str, Sequence[Any]]
    median: Mapping[str, float]
    best: Mapping[str, float]
    examples_error: Mapping[str, float]

    def less_ce(self, loss: str) -> np.ndarray:
        """Return the differences to cross-entropy, one of each search."""
        return self.test[loss] - self.test[CE]


class Tuned(NamedTuple):
    """All searches on a data set with a model, by number of steps, the longest last."""

    data: str
    model: str
    test_examples: int
    searches: Mapping[int, Search]

    @property
    def name(self) -> str:
        return f"{self.data.removeprefix('uci/')}, {self.model}"

    @property
    def longest(self) -> Search:
        return self.searches[max(self.searches)]


def tuned_of(data: str, model: str, result: Any) -> Tuned:
    """Return the result of a task with its arguments."""
    searches = {}
    for steps, own in result["lengths"].items():
        losses = own["losses"]
        searches[int(steps)] = Search(
            {name: 100 * np.array(losses[name]["test"]) for name in TUNED},
            {name: losses[name]["settings"] for name in TUNED},
            {name: 100 * float(np.mean(losses[name]["median"])) for name in TUNED},
            {name: 100 * float(np.mean(losses[name]["validation"])) for name in TUNED},
            {name: 100 * losses[name]["over_ce"] for name in TUNED},
        )
    return Tuned(data, model, result["test_examples"], searches)


def over_sets(runs: Sequence[Tuned], loss: str) -> dict[str, float]:
    """Return a loss minus cross-entropy by data set, in points; models of a set are averaged."""
    return by_set([(run.data, float(run.longest.less_ce(loss).mean())) for run in runs])
