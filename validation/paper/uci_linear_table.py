"""The results of the searches as arrays: accuracies by set, method and fold, and differences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from validation.paper.over_folds import Interval, over_folds, over_sets
from validation.paper.uci_linear_runs import LOSSES

# Test accuracy in percent: sets are called as the 121 sets are, losses as in the recipe.
METHODS = ("sklearn", *LOSSES)
NAMES = {
    "sklearn": "scikit-learn",
    "ce": "CE",
    "hinge": "Hinge",
    "sigmoid": "Sigmoid",
    "betabern": "Beta-Bernoulli",
    "polynomial": "Polynomial",
    "polyloss": "PolyLoss",
    "exact": "EXACT",
}
PUBLISHED = {
    "adult": (85.28, 85.27, 85.23, 85.11, 85.09, 84.99, 85.31, 85.20),
    "annealing": (100.0, 100.0, 100.0, 99.00, 100.0, 100.0, 100.0, 100.0),
    "balance-scale": (92.00, 92.00, 92.00, 92.00, 91.84, 92.00, 92.00, 92.00),
    "breast-cancer-wisc-diag": (95.61, 95.61, 97.37, 97.37, 97.37, 97.37, 97.37, 96.49),
    "car": (92.20, 92.20, 90.17, 93.47, 94.80, 94.68, 92.20, 94.80),
    "cylinder-bands": (72.22, 72.78, 73.15, 72.41, 73.70, 69.44, 72.78, 77.22),
    "wine": (100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0),
}
NOT_AMONG_THE_121 = ("audit-risk", "dry-bean", "mice-protein")


@dataclass(frozen=True)
class Accuracies:
    """What `search_fold` returned for each set and fold; accuracies are in percent."""

    folds: Mapping[str, Sequence[Mapping[str, Any]]]

    @cached_property
    def sets(self) -> tuple[str, ...]:
        return tuple(self.folds)

    def by_fold(self, name: str, method: str) -> np.ndarray:
        """Test accuracies of a method, one a fold."""
        return np.array([100 * chosen(each, method)["test"] for each in self.folds[name]])

    def mean(self, name: str, method: str) -> float:
        return float(self.by_fold(name, method).mean())

    def overall(self, method: str) -> float:
        """The mean over sets of the mean over folds."""
        return float(np.mean([self.mean(name, method) for name in self.sets]))

    def difference(self, name: str, first: str, second: str) -> Interval:
        """Return first minus second on one set, over its folds."""
        differences = self.by_fold(name, first) - self.by_fold(name, second)
        sizes = self.folds[name][0]
        return over_folds(differences.tolist(), sizes["examples"], sizes["training"])

    def differences(self, first: str, second: str) -> list[float]:
        """Return first minus second on each set, the mean over its folds."""
        return [self.mean(name, first) - self.mean(name, second) for name in self.sets]

    def lead(self, first: str, second: str, level: float = 0.95) -> Interval:
        """Return first minus second, over sets."""
        return over_sets(self.differences(first, second), level)

    def deviation(self, name: str, method: str, accuracy: float) -> float:
        """Standard error in percent of an accuracy on a test part of this size."""
        examples = self.folds[name][0]["examples"]
        share = min(max(accuracy / 100, 1 / examples), 1 - 1 / examples)
        return 100 * math.sqrt(share * (1 - share) / examples)


def chosen(fold: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    """Return what is stored of a method in one fold."""
    found: Mapping[str, Any] = fold[method] if method in fold else fold["losses"][method]
    return found


def published(name: str, method: str) -> float:
    """Return the published accuracy."""
    return PUBLISHED[name][METHODS.index(method)]


def published_lead(sets: Sequence[str]) -> float:
    """Return the published lead of EXACT over CE, the mean over these sets."""
    leads = [published(name, "exact") - published(name, "ce") for name in sets]
    return float(np.mean(leads))
