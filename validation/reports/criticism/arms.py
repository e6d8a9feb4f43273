"""What is said of noise and objective: runs that are equal in everything else."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.reports.criticism.paired import Paired, paired
from validation.reports.criticism.runs import ARMS, RECIPES

LOST = 0.5  # of the best accuracy: runs with less did not learn
SIGMAS = 4.0  # standard errors within which a mean must be

# (title, better?, than?, what the objection says)
_CONTRASTS = (
    ("-log P less 1 - P, normal noise", "normal, -log P", "normal, 1 - P"),
    ("-log P less 1 - P, Gumbel noise", "Gumbel, -log P", "Gumbel, 1 - P"),
    ("-log of the mean P less 1 - P, normal", "normal, -log of the mean P", "normal, 1 - P"),
    ("normal less Gumbel, -log P", "normal, -log P", "Gumbel, -log P"),
    ("normal less Gumbel, 1 - P", "normal, 1 - P", "Gumbel, 1 - P"),
)
_OBJECTIVE, _NOISE = _CONTRASTS[:3], _CONTRASTS[3:]


class Told(NamedTuple):
    """How many seeds and steps the runs had."""

    seeds: int
    steps: int


def sections(
    cells: dict[str, dict[str, Any]],
    found: dict[str, Any],
    gumbel: list[list[float]],
    told: Told,
) -> list[Section]:
    """On the objective, and on the noise.

    Parameters
    ----------
    cells : dict
        The arguments of each task by its name.
    found : dict
        What came of it.
    gumbel : rows
        Of the comparison of softmax with samples.
    told : Told
    """
    means = {
        name: {arm: np.mean(np.array(each), axis=0).tolist() for arm, each in runs.items()}
        for name, runs in found.items()
    }
    arms = [f"{noise}, {objective}" for noise, objective in ARMS]
    table = Table(
        "Test accuracy by noise and objective, %",
        ["recipe", "data set", "model", "lr", *arms],
        [
            [own["recipe"], own["data"], own["model"], own["lr"]]
            + [round(100 * means[name][arm][1], 2) for arm in arms]
            for name, own in cells.items()
        ],
        f"Means of {told.seeds} seed{'s' if told.seeds > 1 else ''}. Gumbel noise and -log P is "
        "cross-entropy, Gumbel noise and 1 - P the expectation loss.",
    )

    def contrast(recipe: str, first: str, second: str) -> Paired:
        return paired(
            [
                100 * (means[name][first][1] - means[name][second][1])
                for name, own in cells.items()
                if own["recipe"] == recipe
            ]
        )

    contrasts = {
        (recipe, title): contrast(recipe, first, second)
        for recipe in RECIPES
        for title, first, second in _CONTRASTS
    }
    best = _at_best_rate(cells, means, arms)
    distance = float(np.max([abs(row[3] - row[2]) / row[4] for row in gumbel]))
    floor = max(each[1] for mean in means.values() for each in mean.values())
    objective = Section(
        "-log P or 1 - P?",
        [
            Text(
                "The paper's first version trains -log P; its critic found that even worse than "
                "1 - P, reading it as the logarithm of the mean over the batch, and both worse "
                "than cross-entropy. The later version trains 1 - P. Here everything else is "
                "equal: data, model, initial weights, order of batches, learning rate, number of "
                f"steps ({told.steps}). Two recipes: `plain`, sigma = 1 throughout "
                "and SGD with momentum; and `scheduled`, as in the later version, scores and "
                "gradients normalised and sigma falling from 10 to 0.1. No margin."
            ),
            table,
            _contrast_table(
                "The objective: differences of test accuracy, points", _OBJECTIVE, contrasts
            ),
            _arm_picture("plain", cells, means, arms),
            _arm_picture("scheduled", cells, means, arms),
            Text(_told(contrasts, "plain", _OBJECTIVE) + _lost(cells, means)),
            Text(_told(contrasts, "scheduled", _OBJECTIVE)),
            best,
            Check(
                "The trainings are worth comparing: the best of them has more than 80 % right.",
                floor > 0.8,
                f"{100 * floor:.1f} %.",
            ),
        ],
    )
    noise = Section(
        "Normal or Gumbel noise?",
        [
            Text(
                "With Gumbel noise in place of normal noise the expected accuracy is the softmax: "
                "-log P is cross-entropy with a temperature, 1 - P the expectation loss. The "
                "critic asks what normal noise is better for. The runs are those above; Gumbel "
                "noise has the standard deviation sigma, and so a temperature schedule where sigma "
                "has one."
            ),
            Table(
                "Softmax as expected accuracy under Gumbel noise",
                [
                    "C",
                    "sigma",
                    "1 - expectation loss",
                    "share of wins in samples",
                    "standard error",
                ],
                gumbel,
            ),
            _contrast_table("The noise: differences of test accuracy, points", _NOISE, contrasts),
            Text(_told(contrasts, "plain", _NOISE)),
            Text(_told(contrasts, "scheduled", _NOISE)),
            Check(
                f"P under Gumbel noise is within {SIGMAS:g} standard errors of the share of "
                "samples in which the label wins.",
                distance < SIGMAS,
                f"Largest distance: {distance:.2f} of {len(gumbel)}.",
            ),
        ],
    )
    return [objective, noise]


def _contrast_table(title: str, contrasts: Any, found: dict[tuple[str, str], Paired]) -> Table:
    rows = []
    for recipe, (name, _, _) in itertools.product(RECIPES, contrasts):
        each = found[recipe, name]
        rows.append([recipe, name, *each, each.verdict])
    return Table(
        title,
        [
            "recipe",
            "difference",
            "pairs",
            "mean",
            "standard error",
            "median",
            "wins",
            "losses",
            "p, sign test",
            "p, Wilcoxon",
            "the first is",
        ],
        rows,
        "A pair is a data set, model and learning rate. Pairs of one data set are not independent, "
        "so that p-values are optimistic. Verdicts are Wilcoxon's at 5 %; with fewer than 6 pairs "
        "there can be none.",
    )


def _told(found: dict[tuple[str, str], Paired], recipe: str, contrasts: Any) -> str:
    parts = []
    for name, _, _ in contrasts:
        each = found[recipe, name]
        parts.append(
            f"{name}: {each.mean:+.2f} ± {each.error:.2f} points (median {each.median:+.2f}), "
            f"{each.wins} wins and {each.losses} losses ({each.verdict})"
        )
    return f"With the {recipe} recipe, {'; '.join(parts)}."


def _lost(cells: dict[str, dict[str, Any]], means: dict[str, Any]) -> str:
    """Which losses did not learn at all somewhere, in words."""
    lost = [
        f"{arm} with lr = {own['lr']:g} ({own['data']}, {own['model']}, {own['recipe']})"
        for name, own in cells.items()
        for arm, (_, accuracy) in means[name].items()
        if accuracy < LOST * max(other for _, other in means[name].values())
    ]
    if not lost:
        return ""
    told = f" With less than half of what the best loss there has right: {'; '.join(lost)}."
    if any(each.startswith("normal, -log P") for each in lost):
        told += (
            " Far on the wrong side -log P grows like the square of the distance under normal "
            "noise, like the distance under Gumbel noise: large steps are more dangerous to it."
        )
    return told


def _arm_picture(
    recipe: str, cells: dict[str, dict[str, Any]], means: dict[str, Any], arms: list[str]
) -> Picture:
    title = f"Test error at equal everything, {recipe}"
    figure, ax = axes(log="xy", xlabel="learning rate", ylabel="mean test error")
    rates = sorted({own["lr"] for own in cells.values()})
    data = []
    for number, arm in enumerate(arms):
        line = []
        for lr in rates:
            own = [
                1.0 - means[name][arm][1]
                for name, cell in cells.items()
                if cell["recipe"] == recipe and cell["lr"] == lr
            ]
            line.append(float(np.mean(own)))
        ax.plot(rates, line, "o-", color=f"C{number}", label=arm)
        data += [[arm, lr, error] for lr, error in zip(rates, line, strict=True)]
    figure.legend(loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    caption = "Mean over data sets and models."
    return Picture(title, figure, Table(title, ["loss", "lr", "mean test error"], data), caption)


def _at_best_rate(
    cells: dict[str, dict[str, Any]], means: dict[str, Any], arms: list[str]
) -> Table:
    """Each loss at the learning rate that was best on the validation set."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, own in cells.items():
        groups.setdefault((own["recipe"], own["data"], own["model"]), []).append(name)
    rows = []
    for key, names in groups.items():
        values = []
        for arm in arms:
            best = max(names, key=lambda name, arm=arm: means[name][arm][0])  # type: ignore[misc]
            values.append(round(100 * means[best][arm][1], 2))
        rows.append([*key, *values])
    return Table(
        "Test accuracy of each loss at its best learning rate, %",
        ["recipe", "data set", "model", *arms],
        rows,
        "The rate is chosen on the validation set, for each loss by itself.",
    )
