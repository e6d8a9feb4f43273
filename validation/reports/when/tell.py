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

# Columns of cited tables that findings read.
CONDITION, MODEL, SETS, OTHER = "data", "model", "sets", "`robust` minus"
MEAN, LOW, HIGH, ADJUSTED = "points", "from (95 %)", "to", "p (Holm)"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _points(each: Comparison) -> str:
    return f"{_signed(each.mean)} ({_signed(each.low)} to {_signed(each.high)})"


def _interval(each: Comparison) -> list[float]:
    return [round(value, 2) for value in (each.mean, each.low, each.high)]


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


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
        "Difference from cross-entropy, points of test accuracy",
        header,
        rows,
        "Means over the UCI sets. Bold: significant after correction for the number of tests.",
        cite=f"{cite}losses" if cite else "",
    )


def robust(compared: Sequence[Comparison], cite: str) -> Table:
    """Return the difference of `robust` from cross-entropy under each condition."""
    return Table(
        "Difference of `robust` from cross-entropy, with intervals",
        [CONDITION, MODEL, SETS, MEAN, LOW, HIGH, "won:lost", "p", ADJUSTED],
        [
            [
                each.condition,
                each.model,
                each.sets,
                *_interval(each),
                f"{each.wins}:{each.losses}",
                _two_digits(each.p),
                _two_digits(each.adjusted),
            ]
            for each in compared
            if each.loss == "robust" and each.other == "CE"
        ],
        "`robust` minus CE: mean over data sets and its 95 % interval, sets on which `robust` is "
        "better and worse; p by Wilcoxon's test, and after Holm's correction.",
        cite=f"{cite}robust" if cite else "",
    )


def rivals(compared: Sequence[Comparison], cite: str) -> Table:
    """Return `robust` minus the losses most like it, where bounded losses may help."""
    return Table(
        "Difference of `robust` from the losses most like it",
        [CONDITION, MODEL, OTHER, SETS, MEAN, LOW, HIGH, ADJUSTED],
        [
            [
                each.condition,
                each.model,
                each.other,
                each.sets,
                *_interval(each),
                _two_digits(each.adjusted),
            ]
            for each in compared
            if each.other in _RIVALS and each.condition in _HARD
        ],
        "Mean over data sets and its 95 % interval.",
        cite=f"{cite}rivals" if cite else "",
    )


def all_comparisons(compared: Sequence[Comparison]) -> Table:
    """Return every comparison that was tested."""
    return Table(
        "All comparisons, points of test accuracy",
        ["data", "model", "difference", "points (95 %)", "sets won:lost", ADJUSTED, "verdict"],
        [
            [
                each.condition,
                each.model,
                f"{each.loss} minus {each.other}",
                _points(each),
                f"{each.wins}:{each.losses}",
                each.adjusted,
                each.verdict or "no difference shown",
            ]
            for each in compared
        ],
        "Mean over data sets and its 95 % interval.",
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
            "`robust` minus CE ± s.e.",
        ],
        rows,
        "Standard errors are over splits. Three data sets are too few for a test over sets.",
        cite=f"{cite}images" if cite else "",
    )
