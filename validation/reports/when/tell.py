"""The tables of the report, in the form in which the documentation cites them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validation.page import Table
from validation.reports import Results
from validation.reports.when.comparisons import LEVEL, Accuracies, Comparison

_TITLES = {
    "1 - softmax": "1 \N{MINUS SIGN} softmax",
    "nll": "`nll`",
    "robust": "`robust`",
    "CE then robust": "CE, then `robust`",
}
_HARD = ("symmetric 40 %", "one-sided 40 %", "outliers")  # where bounded losses may help
_RIVALS = ("GCE", "1 - softmax")


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _points(each: Comparison) -> str:
    return f"{_signed(each.mean)} ({_signed(each.low)} to {_signed(each.high)})"


def _marked(each: Comparison) -> str:
    text = _signed(each.mean)
    return f"**{text}**" if each.adjusted < LEVEL else text


def losses(
    found: Accuracies, compared: Sequence[Comparison], names: Sequence[str], cite: str
) -> Table:
    """Return how much each loss differs from cross-entropy, whose accuracy stands beside it."""
    others = [name for name in names if name != "CE"]
    differences = {(each.model, each.condition, each.loss): each for each in compared}
    rows = []
    for model, conditions in found.items():
        for condition, sets in conditions.items():
            if (model, condition, "robust") in differences:
                entropy = float(np.mean([own["CE"] for own in sets.values()]))
                row = [_marked(differences[model, condition, name]) for name in others]
                rows.append([condition, model, f"{entropy:.1f}", *row])
    header = ["data", "model", "CE, %"]
    header += [
        f"**{_TITLES[name]}**" if name == "robust" else _TITLES.get(name, name) for name in others
    ]
    return Table(
        "Losses less cross-entropy, points of test accuracy",
        header,
        rows,
        "Means over the UCI sets. Between asterisks: a difference after correction for the number "
        "of tests.",
        cite=f"{cite}losses" if cite else "",
    )


def robust(compared: Sequence[Comparison], cite: str) -> Table:
    """Return `robust` less cross-entropy under each condition."""
    return Table(
        "`robust` less cross-entropy, with intervals",
        [
            "data",
            "model",
            "`robust` less CE, points (95 %)",
            "sets won:lost",
            "p",
            "p, Holm",
        ],
        [
            [
                each.condition,
                each.model,
                _points(each),
                f"{each.wins}:{each.losses}",
                f"{each.p:.2g}",
                f"{each.adjusted:.2g}",
            ]
            for each in compared
            if each.loss == "robust" and each.other == "CE"
        ],
        "95 % interval of the mean over data sets; p by Wilcoxon's test, and after Holm's "
        "correction.",
        cite=f"{cite}robust" if cite else "",
    )


def rivals(compared: Sequence[Comparison], cite: str) -> Table:
    """Return `robust` less the losses that are most like it, where bounded losses may help."""
    return Table(
        "`robust` less the losses most like it",
        ["data", "model", "`robust` less", "points (95 %)", "p, Holm"],
        [
            [each.condition, each.model, each.other, _points(each), f"{each.adjusted:.2g}"]
            for each in compared
            if each.other in _RIVALS and each.condition in _HARD
        ],
        "95 % interval of the mean over data sets.",
        cite=f"{cite}rivals" if cite else "",
    )


def all_comparisons(compared: Sequence[Comparison]) -> Table:
    """Return every comparison that was tested."""
    return Table(
        "All comparisons, points of test accuracy",
        ["data", "model", "difference", "points (95 %)", "sets won:lost", "p, Holm", "verdict"],
        [
            [
                each.condition,
                each.model,
                f"{each.loss} less {each.other}",
                _points(each),
                f"{each.wins}:{each.losses}",
                each.adjusted,
                each.verdict or "no difference shown",
            ]
            for each in compared
        ],
        "95 % interval of the mean over data sets.",
    )


def images(results: Results, found: Accuracies, names: Sequence[str], cite: str) -> Table:
    """Return accuracies on images."""
    shown = [name for name in names if name != "CE normalised"]
    rows = []
    for model, conditions in found.items():
        for condition, sets in conditions.items():
            for data, own in sets.items():
                splits = results[f"{model}, {data}"][condition]
                robust, ce = (100 * np.array(splits[name]["test"]) for name in ("robust", "CE"))
                error = float((robust - ce).std(ddof=1) / np.sqrt(len(ce)))
                change = f"{_signed(float((robust - ce).mean()))} ± {error:.1f}"
                rows.append([data, condition, model, *(f"{own[name]:.1f}" for name in shown)])
                rows[-1].append(change)
    return Table(
        "Test accuracy on images, %",
        [
            "set",
            "data",
            "model",
            *(_TITLES.get(name, name) for name in shown),
            "`robust` less CE ± s.e.",
        ],
        rows,
        "Standard errors are over splits. Three data sets are too few for a test over sets.",
        cite=f"{cite}images" if cite else "",
    )
