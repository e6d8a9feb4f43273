"""Sections on EXACT and cross-entropy at equal settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from validation.page import Finding, Picture, Section, Table, Text
from validation.page.content import Verdict
from validation.page.figures import axes
from validation.reports.criticism.late import Stuck
from validation.reports.criticism.paired import Interval, by_set, interval, paired
from validation.reports.criticism.trainings import ARMS, RATES, RECIPES

CE, EXACT = "Gumbel, -log P", "normal, 1 - P"


class Contrast(NamedTuple):
    """One loss minus another, both by noise and objective."""

    title: str
    first: str
    second: str

    @property
    def objective(self) -> str:
        """The objective of the first."""
        return self.first.partition(", ")[2]


EXACT_LESS_CE = Contrast("EXACT (normal, 1 - P) minus cross-entropy (Gumbel, -log P)", EXACT, CE)


class Equal(NamedTuple):
    """Runs of all arms with the same settings.

    Attributes
    ----------
    data, model, recipe : str
    steps : int
    accuracies : mapping
        By arm: "validation" and "test", percent, each (rates, splits).
    """

    data: str
    model: str
    recipe: str
    steps: int
    accuracies: Mapping[str, Mapping[str, np.ndarray]]

    def mean(self, arm: str) -> float:
        """Return the mean test accuracy over rates and splits."""
        return float(self.accuracies[arm]["test"].mean())

    def at_best_rate(self, arm: str) -> float:
        """Return the test accuracy at the rate that is best on validation, mean over splits."""
        own = self.accuracies[arm]
        best = own["validation"].argmax(0)
        return float(np.take_along_axis(own["test"], best[None], 0).mean())


def equal_of(data: str, model: str, recipe: str, steps: int, result: Any) -> Equal:
    """Return the result of a task with its arguments."""
    accuracies = {
        arm: {part: 100 * np.array(values) for part, values in own.items()}
        for arm, own in result.items()
    }
    return Equal(data, model, recipe, steps, accuracies)


def differences(
    runs: Sequence[Equal], contrast: Contrast, recipe: str, steps: int, rate: int | None = None
) -> dict[str, float]:
    """Return points of accuracy by data set: means over rates, or at one, splits and models."""
    values = []
    for run in runs:
        if (run.recipe, run.steps) == (recipe, steps):
            one, other = (run.accuracies[arm]["test"] for arm in contrast[1:])
            change = one - other if rate is None else (one - other)[rate]
            values.append((run.data, float(change.mean())))
    return by_set(values)


def kinds(runs: Sequence[Equal]) -> list[tuple[str, int]]:
    """Return the recipes and numbers of steps there are."""
    return [
        (recipe, steps)
        for recipe in RECIPES
        for steps in sorted({run.steps for run in runs if run.recipe == recipe})
    ]


def against_ce(runs: Sequence[Equal]) -> Section:
    """Return the section on EXACT's loss and cross-entropy with the same settings."""
    rows = []
    for recipe, steps in kinds(runs):
        rows.append(
            [
                f"{recipe}, {steps} steps",
                *(_interval(runs, recipe, steps, place) for place in range(len(RATES))),
                _interval(runs, recipe, steps),
                str(interval(list(_at_best_rate(runs, recipe, steps).values()))),
            ]
        )
    last = max(run.steps for run in runs)
    return Section(
        "EXACT against cross-entropy at equal settings",
        [
            Text(
                "Everything but the loss is equal: data, splits, model, initial weights, order of "
                "batches, learning rate, weight decay and number of steps. Two recipes: `plain`, "
                "sigma = 1 throughout, and `scheduled`, as in the later version of EXACT, with "
                "normalised scores and gradients and sigma falling from 10 to 0.1. No margin. SGD "
                "with momentum, batches of 64, learning rates that fall log-linearly to 1e-4."
            ),
            Table(
                "EXACT minus cross-entropy at equal settings, points of test accuracy",
                [
                    "recipe",
                    *(f"lr = {rate:g}" for rate in RATES),
                    "all learning rates",
                    "best learning rates",
                ],
                rows,
                "Means over data sets with 95 % intervals; splits and models of a data set are "
                "averaged first. Best learning rates: each loss at the one that is best on its "
                "validation part.",
                cite="criticism-equal",
            ),
            contrast_table(
                "EXACT minus cross-entropy at equal settings: tests", (EXACT_LESS_CE,), runs
            ),
            _rate_picture(runs, last),
            _accuracy_table(runs),
        ],
        answer=_equal_answer(runs),
    )


def _interval(runs: Sequence[Equal], recipe: str, steps: int, rate: int | None = None) -> str:
    return str(interval(list(differences(runs, EXACT_LESS_CE, recipe, steps, rate).values())))


def _at_best_rate(runs: Sequence[Equal], recipe: str, steps: int) -> dict[str, float]:
    return by_set(
        [
            (run.data, run.at_best_rate(EXACT) - run.at_best_rate(CE))
            for run in runs
            if (run.recipe, run.steps) == (recipe, steps)
        ]
    )


def _equal_answer(runs: Sequence[Equal]) -> str:
    parts = []
    for recipe, steps in kinds(runs):
        values = list(differences(runs, EXACT_LESS_CE, recipe, steps).values())
        parts.append(f"{interval(values)} ({recipe}, {steps} steps; {paired(values).verdict})")
    return (
        "With the same settings for both losses, EXACT's 1 - P under normal noise minus "
        f"cross-entropy is, in points, {'; '.join(parts)}."
    )


def equal_finding(runs: Sequence[Equal]) -> Finding:
    """Return whether EXACT is behind cross-entropy with nothing else changed (the plain recipe).

    The verdict is Wilcoxon's: a few data sets have differences far larger than the others.
    """
    shown, plain = [], []
    for recipe, steps in reversed(kinds(runs)):
        if recipe == "plain":
            values = list(differences(runs, EXACT_LESS_CE, recipe, steps).values())
            tests = paired(values)
            shown.append(
                f"{interval(values)} points after {steps} steps (p = {tests.wilcoxon:.2g})"
            )
            plain.append(tests.verdict)
    verdict: Verdict = "not decided"
    if set(plain) == {"worse"}:
        verdict = "holds"
    elif set(plain) == {"better"}:
        verdict = "does not hold"
    return Finding(
        "Replacing cross-entropy by EXACT's loss 1 - P, with nothing else changed, lowers "
        "accuracy.",
        "EXACT did not reach cross-entropy (kexue.fm 9098, its own trials)",
        ", ".join(shown),
        verdict,
    )


def contrast_table(title: str, contrasts: Sequence[Contrast], runs: Sequence[Equal]) -> Table:
    rows = []
    for contrast in contrasts:
        for recipe, steps in kinds(runs):
            values = list(differences(runs, contrast, recipe, steps).values())
            found = paired(values)
            rows.append(
                [
                    contrast.title,
                    f"{recipe}, {steps} steps",
                    len(values),
                    str(interval(values)),
                    f"{found.wins}:{found.losses}",
                    found.wilcoxon,
                    found.verdict,
                ]
            )
    return Table(
        title,
        [
            "difference",
            "recipe",
            "data sets",
            "points (95 % interval)",
            "sets won:lost",
            "p, Wilcoxon",
            "the first is",
        ],
        rows,
        "Learning rates, splits and models of a data set are averaged first; intervals and tests "
        "are over data sets. Verdicts are Wilcoxon's at 5 %; with fewer than 6 sets there can be "
        "none.",
    )


def _accuracy_table(runs: Sequence[Equal]) -> Table:
    arms = [f"{noise}, {objective}" for noise, objective in ARMS]
    return Table(
        "Test accuracy by noise and objective, %",
        ["data set, model", "recipe", *arms],
        [
            [f"{run.data}, {run.model}", f"{run.recipe}, {run.steps} steps"]
            + [run.mean(arm) for arm in arms]
            for run in runs
        ],
        f"Means over learning rates {', '.join(f'{rate:g}' for rate in RATES)} and splits. Gumbel "
        "noise and -log P is cross-entropy, Gumbel noise and 1 - P the expectation loss.",
    )


def _rate_picture(runs: Sequence[Equal], steps: int) -> Picture:
    title = "EXACT minus cross-entropy against the learning rate"
    figure, ax = axes(log="x", xlabel="learning rate", ylabel="points of test accuracy")
    rows = []
    for number, (recipe, length) in enumerate(kinds(runs)):
        line = [
            interval(list(differences(runs, EXACT_LESS_CE, recipe, length, place).values()))
            for place in range(len(RATES))
        ]
        bars = [[each.mean - each.low for each in line], [each.high - each.mean for each in line]]
        ax.errorbar(
            [rate * 1.05**number for rate in RATES],  # beside each other
            [each.mean for each in line],
            yerr=np.nan_to_num(bars),
            fmt="o-" if length == steps else "s--",
            color=f"C{list(RECIPES).index(recipe)}",
            capsize=3,
            label=f"{recipe}, {length} steps",
        )
        rows += [[recipe, length, rate, *each] for rate, each in zip(RATES, line, strict=True)]
    ax.axhline(0.0, color="black", linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    return Picture(
        title,
        figure,
        Table(title, ["recipe", "steps", "lr", "points", "low", "high"], rows),
        "Below the line cross-entropy is better. Bars: 95 % intervals over data sets.",
    )


def why(runs: Sequence[Equal], stuck: Stuck | None, tuned: Interval | None) -> str:
    """Return sentences that reconcile equal settings with equal tuning, from the results.

    ``stuck`` has the shares of training examples with P near 0 after plain runs, ``tuned`` EXACT
    minus cross-entropy with equal tuning.
    """
    last = dict(kinds(runs))  # the longest runs
    if set(last) != set(RECIPES):
        return ""
    plain, scheduled = (
        interval(list(differences(runs, EXACT_LESS_CE, recipe, last[recipe]).values()))
        for recipe in ("plain", "scheduled")
    )
    first = _replaced(plain)
    if stuck is not None and plain.high < 0 and stuck.exact.low > stuck.entropy.high:
        first += (
            " The likely reason is that the gradient of 1 - P vanishes where P is near 0: "
            f"{stuck.exact.mean:.1f} % of the training examples stay below P = 0.05, against "
            f"{stuck.entropy.mean:.1f} % with cross-entropy."
        )
    second = (
        " With normalised scores and gradients and a decreasing sigma the difference is "
        f"{scheduled}"
    )
    if tuned is None:
        return f"{first}{second}: {_shown(scheduled)}."
    if _shown(scheduled) == _shown(tuned):
        both = _shown(tuned)
        both = both[0].upper() + both[1:]
        return f"{first}{second}; with equal tuning it is {tuned}. {both} in either case."
    return (
        f"{first}{second} ({_shown(scheduled)}); with equal tuning it is {tuned} ({_shown(tuned)})."
    )


def _replaced(plain: Interval) -> str:
    """Return the sentence on 1 - P in place of cross-entropy, with nothing else changed."""
    start = "Replacing cross-entropy by 1 - P and changing nothing else"
    if plain.high < 0:
        return (
            f"{start} costs {-plain.mean:.2f} points of accuracy (95 % interval "
            f"{-plain.high:.2f} to {-plain.low:.2f})."
        )
    if plain.low > 0:
        return (
            f"{start} gains {plain.mean:.2f} points of accuracy (95 % interval "
            f"{plain.low:.2f} to {plain.high:.2f})."
        )
    return f"{start} changes accuracy by {plain} points: no difference is shown."


def _shown(difference: Interval) -> str:
    """Return which loss a difference, EXACT minus cross-entropy, shows to be more accurate."""
    if difference.low > 0:
        return "EXACT is more accurate"
    return "cross-entropy is more accurate" if difference.high < 0 else "no difference is shown"
