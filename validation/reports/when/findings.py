"""Findings and the answer on when EXACT is worth using, of this run or of the stored one.

A run that has not trained on enough data sets (the default one) states the figures of the full run
that ``validation/results/cited.json`` keeps, with its commit and date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from validation import cited
from validation.page import Finding, Section, Text
from validation.page.content import Verdict
from validation.reports.when import tell
from validation.reports.when.comparisons import LEVEL, Comparison

PUBLISHED = "+0.64 points (later version of EXACT, mean of ten UCI sets: 93.38 and 92.74 %)"
_PUBLISHED_GAIN = 93.38 - 92.74
_RIVALS = {
    "GCE": "generalised cross-entropy (GCE)",
    "1 - softmax": "one minus the softmax probability",
}
_MODELS = {"linear": "linear models", "MLP": "small neural networks"}
_FAULTS = {
    "outliers": "the inputs have outliers",
    "one-sided 40 %": "40 % of one class is mislabelled",
}


class Known(NamedTuple):
    """`robust` minus another loss under a condition, in points over data sets.

    Attributes
    ----------
    condition, model, other : str
    sets : int
        Number of data sets.
    mean, low, high : float
        Mean difference and its 95 % interval.
    adjusted : float
        p after Holm's correction.
    """

    condition: str
    model: str
    other: str
    sets: int
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
        return f"{_signed(self.mean)} ({_signed(self.low)} to {_signed(self.high)})"


class Source(NamedTuple):
    """Comparisons with the run and commit that computed them, both empty for this run."""

    known: Sequence[Known]
    run: str = ""
    commit: str = ""

    def get(self, condition: str, model: str, other: str) -> Known:
        """Return a comparison; raises ``KeyError`` if there is none."""
        for each in self.known:
            if (each.condition, each.model, each.other) == (condition, model, other):
                return each
        raise KeyError(f"{condition}, {model}, {other}")


def of_this_run(compared: Sequence[Comparison]) -> Source:
    """Return the comparisons of `robust` with other losses of this run."""
    return Source(
        [
            Known(
                each.condition,
                each.model,
                each.other,
                each.sets,
                each.mean,
                each.low,
                each.high,
                each.adjusted,
            )
            for each in compared
            if each.loss == "robust"
        ]
    )


def stored(entries: Mapping[str, cited.Entry] | None = None) -> Source:
    """Return the comparisons of the run whose figures the documentation cites.

    Parameters
    ----------
    entries : mapping, optional
        Entries by name; by default those of ``validation/results/cited.json``.
    """
    entries = {each.name: each for each in cited.entries()} if entries is None else entries
    against_ce, rivals = entries["when-robust"], entries["when-rivals"]
    known = [_known(row, "CE") for row in _named_rows(against_ce)]
    known += [_known(row, row[tell.OTHER]) for row in _named_rows(rivals)]
    run = f"`{against_ce.command}`, commit {against_ce.commit}, {against_ce.date}"
    # The commit of most results: "fc8a53c, 1857d47" or "1857d47 (networks: e0c3ee6)".
    return Source(known, run, against_ce.commit.partition(",")[0].partition(" ")[0])


def _named_rows(entry: cited.Entry) -> list[dict[str, Any]]:
    return [dict(zip(entry.header, row, strict=True)) for row in entry.rows]


def _known(row: Mapping[str, Any], other: str) -> Known:
    numbers = [float(row[name]) for name in (tell.MEAN, tell.LOW, tell.HIGH, tell.ADJUSTED)]
    return Known(row[tell.CONDITION], row[tell.MODEL], other, int(row[tell.SETS]), *numbers)


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def findings(source: Source) -> list[Finding]:
    """Return the findings on EXACT's bounded form, `ExactLoss.robust`."""
    outliers = source.get("outliers", "linear", "CE")
    one_sided = source.get("one-sided 40 %", "linear", "CE")
    clean = source.get("clean", "linear", "CE")
    rivals = [source.get("outliers", "linear", other) for other in _RIVALS]
    stored_run = f"; stored run, commit {source.commit}" if source.commit else ""

    def measured(each: Known) -> str:
        over = f"over {each.sets} UCI sets"
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
            "; ".join(f"against {each.other}: {each} points" for each in rivals)
            + f", over {outliers.sets} UCI sets{stored_run}",
            _of_all([each.verdict for each in rivals]),
        ),
    ]


def _of_all(verdicts: Sequence[Verdict]) -> Verdict:
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if set(verdicts) == {"holds"} else "not decided"


def answer(source: Source) -> str:
    """Return a few sentences on when to use EXACT, chosen by the results."""
    sentences = [_on_clean_data(source), *_with_faults(source), *_for_networks(source)]
    return " ".join(sentences)


def _on_clean_data(source: Source) -> str:
    compared = [each for each in source.known if (each.condition, each.other) == ("clean", "CE")]
    listed = ", ".join(f"{_MODELS[each.model]} {each}" for each in compared)
    listed = f"({listed} points of test accuracy)"
    verdicts = {each.verdict for each in compared}
    if verdicts == {"holds"}:
        return f"On clean data EXACT is better than cross-entropy {listed}."
    better = [_MODELS[each.model] for each in compared if each.verdict == "holds"]
    if better:
        return f"On clean data EXACT is better than cross-entropy only for {better[0]} {listed}."
    if "does not hold" in verdicts:
        return f"Use cross-entropy by default: on clean data EXACT is worse {listed}."
    return (
        f"Use cross-entropy by default: on clean data EXACT is not significantly better {listed}."
    )


def _with_faults(source: Source) -> list[str]:
    """Return sentences on linear models and data with faults."""
    compared = {words: source.get(name, "linear", "CE") for name, words in _FAULTS.items()}
    listed = {
        verdict: " and when ".join(
            f"{words}: {each}" for words, each in compared.items() if each.verdict == verdict
        )
        for verdict in ("holds", "does not hold")
    }
    name = "EXACT's bounded loss, `ExactLoss.robust`,"
    sentences = []
    if listed["holds"]:
        sentences.append(f"{name} helps linear models when {listed['holds']}.")
    if listed["does not hold"]:
        sentences.append(
            f"{name} is worse than cross-entropy for linear models when {listed['does not hold']}."
        )
    if not sentences:
        faults = " or ".join(_FAULTS.values())
        sentences.append(f"{name} is not shown to help linear models when {faults}.")
    if source.get("outliers", "linear", "CE").verdict == "holds":
        sentences += _against_rivals(source)
    return sentences


def _against_rivals(source: Source) -> list[str]:
    """Return a sentence on simpler losses, with outliers, unless `robust` is better than all."""
    gain = source.get("outliers", "linear", "CE").mean
    rivals = [source.get("outliers", "linear", other) for other in _RIVALS]
    if all(each.verdict == "holds" for each in rivals):
        return []
    # The same data sets: a rival minus CE is `robust` minus CE, minus `robust` minus the rival.
    listed = ", ".join(f"{_RIVALS[each.other]} {_signed(gain - each.mean)}" for each in rivals)
    if any(each.verdict == "holds" for each in rivals):
        return [f"It is not shown to be better than every simpler bounded loss there: {listed}."]
    if any(each.verdict == "does not hold" for each in rivals):
        return [f"But two simpler bounded losses gain as much or more there: {listed}."]
    return [f"It is not shown to be better than two simpler bounded losses there: {listed}."]


def _for_networks(source: Source) -> list[str]:
    """Return a sentence on neural networks, if some were trained."""
    compared = [each for each in source.known if (each.model, each.other) == ("MLP", "CE")]
    if not compared:
        return []
    better = [f"{each.condition} {each}" for each in compared if each.verdict == "holds"]
    if better:
        return [f"Small neural networks gain with: {', '.join(better)}."]
    return ["For neural networks no significant gain was found."]


def opening(source: Source) -> tuple[Section, str]:
    """Return the first part of the report, with findings, and the report's answer."""
    run = (
        f"From the stored run ({source.run}): this run has too few data sets for a conclusion."
        if source.run
        else "From this run."
    )
    return Section("Is EXACT worth using?", [Text(run), *findings(source)]), answer(source)
