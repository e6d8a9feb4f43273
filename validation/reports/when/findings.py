"""When EXACT is worth using: the findings, of this run or of the stored one.

A run that has not trained on enough data sets (the default one) states the figures of the full run
that ``validation/results/cited.json`` keeps, with its commit and date.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from validation import cited
from validation.page import Finding, Section, Text
from validation.page.content import Verdict
from validation.reports.when.comparisons import LEVEL, Comparison

PUBLISHED = "+0.64 points (later version of EXACT, mean of ten UCI sets: 93.38 and 92.74 %)"
_PUBLISHED_GAIN = 93.38 - 92.74
_RIVALS = ("GCE", "1 - softmax")
_NUMBER = re.compile(r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?")


class Known(NamedTuple):
    """`robust` less another loss under a condition: points over data sets, 95 %, p after Holm."""

    condition: str
    model: str
    other: str
    mean: float
    low: float
    high: float
    adjusted: float

    @property
    def verdict(self) -> Verdict:
        """Whether `robust` is more accurate, after correction for the number of tests."""
        if not self.adjusted < LEVEL:
            return "not decided"
        return "holds" if self.mean > 0 else "does not hold"

    def __str__(self) -> str:
        text = f"{self.mean:+.1f} ({self.low:+.1f} to {self.high:+.1f})"
        return text.replace("-", "\N{MINUS SIGN}")


class Source(NamedTuple):
    """Comparisons, over how many data sets, and of which run and commit; empty for this run."""

    known: Sequence[Known]
    sets: int
    run: str = ""
    commit: str = ""

    def get(self, condition: str, model: str, other: str) -> Known:
        """Return a comparison; raises ``KeyError`` if there is none."""
        for each in self.known:
            if (each.condition, each.model, each.other) == (condition, model, other):
                return each
        raise KeyError(f"{condition}, {model}, {other}")


def of_this_run(compared: Sequence[Comparison], sets: int) -> Source:
    """Return the comparisons of `robust` with other losses of this run."""
    known = [
        Known(each.condition, each.model, each.other, each.mean, each.low, each.high, each.adjusted)
        for each in compared
        if each.loss == "robust"
    ]
    return Source(known, sets)


def stored() -> Source:
    """Return those of the run whose figures the documentation cites."""
    against_ce, rivals = cited.table("when-robust"), cited.table("when-rivals")
    known = [
        Known(condition, model, "CE", *_numbers(points), *_numbers(adjusted))
        for condition, model, points, _, _, adjusted in against_ce.rows
    ]
    known += [
        Known(condition, model, other, *_numbers(points), *_numbers(adjusted))
        for condition, model, other, points, adjusted in rivals.rows
    ]
    sets = int(_numbers(against_ce.title)[0])  # "... over 24 UCI sets, ..."
    run = f"`{against_ce.command}`, commit {against_ce.commit}, {against_ce.date}"
    return Source(known, sets, run, against_ce.commit.split()[0])


def _numbers(cell: object) -> list[float]:
    """Return the numbers of a cell, as "+4.5 (+2.5 to +6.4)" with true minus signs has three."""
    return [float(each) for each in _NUMBER.findall(str(cell).replace("\N{MINUS SIGN}", "-"))]


def findings(source: Source) -> list[Finding]:
    """Return what a reader wants to know of EXACT's bounded form, `ExactLoss.robust`."""
    outliers = source.get("outliers", "linear", "CE")
    one_sided = source.get("one-sided 40 %", "linear", "CE")
    clean = source.get("clean", "linear", "CE")
    rivals = [source.get("outliers", "linear", other) for other in _RIVALS]
    over = f"over {source.sets} UCI sets"
    stored_run = f"; stored run, commit {source.commit}" if source.commit else ""

    def measured(each: Known) -> str:
        return f"{each} points {over}, p = {each.adjusted:.2g} after Holm{stored_run}"

    return [
        Finding(
            "With outliers in the inputs, EXACT's bounded form (`ExactLoss.robust`) trains linear "
            "models better than cross-entropy.",
            "",
            measured(outliers),
            outliers.verdict,
        ),
        Finding(
            "With 40 % of one class mislabelled, `ExactLoss.robust` trains linear models better "
            "than cross-entropy.",
            "",
            measured(one_sided),
            one_sided.verdict,
        ),
        Finding(
            "On clean data `ExactLoss.robust` trains linear models better than cross-entropy.",
            PUBLISHED,
            measured(clean),
            "does not hold"
            if clean.verdict == "not decided" and clean.high < _PUBLISHED_GAIN
            else clean.verdict,
        ),
        Finding(
            "With outliers `ExactLoss.robust` is better than simpler bounded losses (GCE, 1 - "
            "softmax).",
            "",
            "; ".join(f"less {each.other}: {each} points" for each in rivals)
            + f", {over}{stored_run}",
            _of_all([each.verdict for each in rivals]),
        ),
    ]


def _of_all(verdicts: Sequence[Verdict]) -> Verdict:
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if set(verdicts) == {"holds"} else "not decided"


def answer(source: Source) -> str:
    """Return three sentences on when to use EXACT."""
    clean = source.get("clean", "linear", "CE")
    outliers = source.get("outliers", "linear", "CE")
    one_sided = source.get("one-sided 40 %", "linear", "CE")
    rivals = [source.get("outliers", "linear", other) for other in _RIVALS]
    on_clean = {
        "holds": "On clean data EXACT's bounded form is better than cross-entropy",
        "does not hold": "On clean data use cross-entropy: it is better than EXACT's bounded form",
        "not decided": "On clean data use cross-entropy: EXACT's bounded form is not shown to be "
        "better",
    }[clean.verdict]
    first = f"{on_clean}, {_bare(clean)} points for linear models."
    faults = {"outliers in the inputs": outliers, "40 % of one class mislabelled": one_sided}
    helps = [f"{name}, {_bare(each)}" for name, each in faults.items() if each.verdict == "holds"]
    unclear = [f"{name}, {_bare(each)}" for name, each in faults.items() if each.verdict != "holds"]
    second = (
        f" It is worth using for linear models with {' and '.join(helps)} points"
        if helps
        else " No fault of the data was found with which it is shown to help"
    )
    second += f" (not shown after correction: {' and '.join(unclear)})." if unclear else "."
    third = ""
    if outliers.verdict == "holds" and _of_all([each.verdict for each in rivals]) != "holds":
        listed = " and ".join(f"{_bare(each)} against {each.other}" for each in rivals)
        third = f" With outliers simpler bounded losses do as well or better: {listed}."
    return first + second + third


def _bare(each: Known) -> str:
    """Return a difference and its interval without parentheses."""
    return str(each).replace(" (", " [").replace(")", "]")


def opening(source: Source) -> tuple[Section, str]:
    """Return the first part of the report, with findings, and the report's answer."""
    said = answer(source)
    run = (
        f"Of the stored run ({source.run}); this run has trained on too few data sets to say it."
        if source.run
        else "Of this run."
    )
    return Section("Is EXACT worth using?", [Text(run), *findings(source)]), said
