"""Checks of the table of linear models on UCI sets: the training itself, and its accuracies."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from validation.page import Check, Text
from validation.paper.uci_linear_runs import LOSSES
from validation.paper.uci_linear_table import METHODS, NAMES, Accuracies, published

CONVERGED = 0.5  # points: training twice as long must change less
LEARNED = "betabern"  # a loss that may learn to be 0, and then trains nothing
AS_NUMBERS = "sklearn, as numbers"
_NUMBERS = ("balance-scale", "breast-cancer-wisc-diag", "wine")  # sets without categories


def standard_error(ours: Accuracies, name: str, method: str) -> float:
    """Standard error of the difference between our accuracy and the published one."""
    sides = (ours.mean(name, method), published(name, method))
    return math.hypot(*(ours.deviation(name, method, each) for each in sides))


def agreement_check(distances: Mapping[str, float]) -> Check:
    """Check that both ways to train give the same networks."""
    worst = max(distances, key=distances.__getitem__)
    return Check(
        "Linear networks trained side by side are those that `exact_torch.train` trains: their "
        "weights differ by less than 1e-4 of the largest, for all seven losses.",
        all(each < 1e-4 for each in distances.values()),
        f"At most {distances[worst]:.1e}, for {NAMES[worst]}.",
    )


def optimum_check(optima: Mapping[str, Mapping[str, float]]) -> Check:
    """Check that training with CE reaches the optimum; ``optima`` has the excess by set, decay."""
    flat = {
        (name, decay): each for name, decays in optima.items() for decay, each in decays.items()
    }
    name, decay = max(flat, key=flat.__getitem__)
    return Check(
        "Training with CE ends at scikit-learn's optimum: the penalised loss exceeds its least "
        f"value by less than 1 %, on {' and '.join(optima)}, with three decays.",
        all(-1e-6 < each < 0.01 for each in flat.values()),
        f"At most {100 * flat[name, decay]:.2g} %, on {name} with decay {decay}.",
    )


def one_hot_check(ours: Accuracies) -> Check:
    """Check that indicators in place of categories help on car."""
    gains = ours.by_fold("car", "sklearn") - ours.by_fold("car", AS_NUMBERS)
    return Check(
        "One column a category gains at least 5 points on car over the files' whole numbers, in "
        "every split (logistic regression of scikit-learn).",
        bool((gains >= 5).all()),
        f"{gains.min():.1f} to {gains.max():.1f} points.",
    )


def published_checks(ours: Accuracies) -> list[Check]:
    """Check the numbers of sets without categories against the published ones."""
    far = {
        (name, method): abs(ours.mean(name, method) - published(name, method))
        / standard_error(ours, name, method)
        for name in ours.sets
        if name in _NUMBERS
        for method in METHODS
        if method != LEARNED
    }
    if not far:
        return []
    worst = name, method = max(far, key=far.__getitem__)
    return [
        Check(
            "On the sets without categories every number but Beta-Bernoulli's is within three "
            "standard errors of the published one, as far as two test parts differ.",
            all(each <= 3 for each in far.values()),
            f"At most {far[worst]:.1f}, {name} with {NAMES[method]}.",
        )
    ]


def equivalence_check(ours: Accuracies) -> Check:
    """Check that CE trained by SGD is as good as scikit-learn's."""
    apart = ours.lead("ce", "sklearn", level=0.9)
    return Check(
        "CE trained by SGD is as good as scikit-learn's logistic regression: the 90 % interval "
        "over sets of the difference lies within one point of 0 (two one-sided tests at 5 %).",
        apart.low > -1 and apart.high < 1,
        f"{apart} points.",
    )


def convergence(ours: Accuracies, longer: Accuracies) -> Text:
    """Return what training twice as long (``longer``: the first splits) changes for each loss."""
    count = len(longer.folds[ours.sets[0]])
    changes = {
        loss: float(
            np.mean(
                [
                    longer.by_fold(name, loss) - ours.by_fold(name, loss)[:count]
                    for name in ours.sets
                ]
            )
        )
        for loss in LOSSES
        if loss != LEARNED
    }
    leads = {
        name: float(
            np.mean(
                longer.by_fold(name, "exact")
                - longer.by_fold(name, "ce")
                - (ours.by_fold(name, "exact") - ours.by_fold(name, "ce"))[:count]
            )
        )
        for name in ours.sets
    }
    most = max(leads, key=lambda name: abs(leads[name]))
    splits = "one split each" if count == 1 else f"{count} splits each"
    over = f"over {len(ours.sets)} sets, {splits}"
    moved = [loss for loss, change in changes.items() if abs(change) >= CONVERGED]
    listed = ", ".join(f"{NAMES[loss]} {changes[loss]:+.2f}" for loss in changes)
    if moved:
        named = ", ".join(f"{NAMES[loss]} {changes[loss]:+.2f}" for loss in moved)
        said = (
            f"Not converged: training twice as long changes the mean accuracy {over}, by half a "
            f"point or more for {named} points, so that differences from other losses may depend "
            "on the length of training."
        )
    else:
        said = (
            "Training twice as long changes the mean accuracy of no loss (Beta-Bernoulli "
            f"excluded) by half a point or more, {over}."
        )
    return Text(
        f"{said} All changes: {listed}. On a single set EXACT minus CE changes most on {most}, by "
        f"{leads[most]:+.1f} points."
    )
