"""Mixing CE and EL: escaping efficiency, eq. 15 to 18."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part, Verdict
from validation.paper.mixing_escaping_runs import FOCI, SETTINGS, tasks
from validation.paper.over_folds import over_sets
from validation.reports import Results

__all__ = ["section", "tasks"]

_MARGIN = 1.1
_TITLE = "Mixing CE and EL: escaping efficiency"


class Ratio(NamedTuple):
    """A geometric mean over seeds with its 95 % interval.

    >>> print(Ratio(2.0, 1.5, 2.667))
    2.00 (1.50 to 2.67)
    """

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"
            if self.mean >= 10
            else (f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})")
        )


def ratio(values: Sequence[float], others: Sequence[float]) -> Ratio:
    """Return the geometric mean of ratios of positive numbers, with Student's interval of logs."""
    pairs = zip(values, others, strict=True)
    logs = over_sets([math.log(one / other) for one, other in pairs])
    return Ratio(*(math.exp(each) for each in (logs.mean, logs.low, logs.high)))


class Efficiencies(NamedTuple):
    """Efficiencies at one stage of training, a number a seed; of mixtures for each F."""

    ce: list[float]
    el: list[float]
    mixtures: dict[float, list[float]]
    scaled: dict[float, list[float]]
    bounds: dict[float, list[float]]

    def above_bound(self, focus: float) -> int:
        """Return for how many seeds eq. 18 is so."""
        triples = zip(self.mixtures[focus], self.ce, self.bounds[focus], strict=True)
        return sum(mixture - ce > bound for mixture, ce, bound in triples)


def stage(runs: Sequence[Any], number: int) -> Efficiencies:
    """Return the efficiencies at a stage from the results of all seeds."""
    stages = [run["stages"][number] for run in runs]

    def of(name: str) -> dict[float, list[float]]:
        return {
            focus: [each["mixtures"][place][name] for each in stages]
            for place, focus in enumerate(FOCI)
        }

    ce, el = ([each[name] for each in stages] for name in ("ce", "el"))
    return Efficiencies(ce, el, of("efficiency"), of("scaled"), of("bound"))


def section(results: Results, scale: str) -> Section:
    """Return efficiencies of mixtures against CE along a run, and the flatness at its end."""
    runs = [results[task.name] for task in tasks(scale) if task.name in results]
    if len(runs) < 2:
        command = f"python -m validation paper{' --full' if scale == 'full' else ''}"
        return Section(_TITLE, [NotRun(_TITLE, "Its tasks are not done.", command)])
    after = SETTINGS[scale].measured_after
    stages = {epochs: stage(runs, number) for number, epochs in enumerate(after)}
    last = stages[after[-1]]
    parts: list[Part] = [
        *_findings(last),
        Text(_protocol(scale, len(runs))),
        _table(stages),
        _picture(stages),
        _bound_table(stages),
        _flatness(runs),
        *_checks(stages),
    ]
    return Section(_TITLE, parts, _answer(last))


def _findings(last: Efficiencies) -> list[Finding]:
    """Return the published claim, and ours on gradients of the same size."""
    raw = ratio(last.mixtures[0.0], last.ce)
    matched = ratio(last.mixtures[0.0], last.scaled[0.0])
    seeds = f"(F = 0, 95 % interval over {len(last.ce)} seeds)"
    return [
        Finding(
            "The escaping efficiency Tr(H Σ) of CE mixed with EL is higher than that of CE.",
            "higher for the mixture (mixing paper, eq. 18, derived, not measured)",
            f"{raw} times that of CE {seeds}",
            _verdict(raw, 1.0),
        ),
        Finding(
            "Mixing CE and EL raises the escaping efficiency Tr(H Σ) by more than a tenth beyond "
            "what larger gradients do.",
            "",
            f"{matched} times that of CE scaled to gradients of the same size {seeds}",
            _verdict(matched, _MARGIN),
        ),
    ]


def _verdict(times: Ratio, least: float) -> Verdict:
    """Return what an interval says of the claim that a ratio is larger than ``least``."""
    if times.low > least:
        return "holds"
    return "does not hold" if times.high < least else "not decided"


def _answer(last: Efficiencies) -> str:
    raw = ratio(last.mixtures[0.0], last.ce)
    matched = ratio(last.mixtures[0.0], last.scaled[0.0])
    el = ratio(last.el, last.ce)
    if matched.low > 1:
        came = "more than scaled CE has"
    elif matched.high < 1:
        came = "less than scaled CE has"
    else:
        came = "not significantly different from 1"
    return (
        f"Tr(H Σ) of the mixture (F = 0) is {raw} times that of CE at the end of training, and "
        f"that of EL {el} times{', as published' if raw.low > 1 > el.high else ''}. But it grows "
        "with the cube of a loss's scale: against CE multiplied by a number, so that gradients "
        f"have the same mean square, the ratio is {matched}, {came}."
    )


def _protocol(scale: str, seeds: int) -> str:
    setting = SETTINGS[scale]
    return (
        "The paper takes EE = t/2 Tr(H Σ) as the ability to leave a minimum, H the Hessian of the "
        "loss and Σ the covariance of a batch's gradient, and derives a bound on EE of the mixture "
        "minus that of CE (eq. 18); it measures neither. Here both are computed exactly, without "
        f"the constants t/2 and 1/m: a network with one hidden layer of {setting.width} units is "
        f"trained on digits with CE for {setting.measured_after[-1]} epochs, with {seeds} seeds, "
        "and at its weights the whole Hessians of CE and EL and the gradients of all training "
        "examples are taken in double precision."
    )


def _table(stages: dict[int, Efficiencies]) -> Table:
    rows: list[list[Any]] = []
    for epochs, each in stages.items():
        for focus in FOCI:
            raw = ratio(each.mixtures[focus], each.ce)
            matched = ratio(each.mixtures[focus], each.scaled[focus])
            rows.append([epochs, f"F = {focus:g}", str(raw), str(matched)])
        rows.append([epochs, "EL", str(ratio(each.el, each.ce)), None])
    header = ["epochs with CE", "loss", "Tr(H Σ) over that of CE", "over that of CE, scaled"]
    note = (
        "Geometric means and 95 % intervals over seeds, at the same weights. Scaled: CE times a "
        "number, so that the mean squared norm of single gradients is that of the mixture."
    )
    return Table("Escaping efficiency of mixtures", header, rows, note, "mixing-escaping")


def _picture(stages: dict[int, Efficiencies]) -> Picture:
    figure, ax = axes(log="y", xlabel="F", ylabel="Tr(H Σ), ratio")
    epochs = max(stages)
    last = stages[epochs]
    rows: list[list[Any]] = []
    for number, (name, others) in enumerate(
        {"over CE": dict.fromkeys(FOCI, last.ce), "over CE, scaled": last.scaled}.items()
    ):
        ratios = [ratio(last.mixtures[focus], others[focus]) for focus in FOCI]
        below = [each.mean - each.low for each in ratios]
        above = [each.high - each.mean for each in ratios]
        means = [each.mean for each in ratios]
        ax.errorbar(FOCI, means, yerr=[below, above], fmt="o-", color=f"C{number}", label=name)
        rows += [[name, focus, *each] for focus, each in zip(FOCI, ratios, strict=True)]
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.legend(fontsize=8)
    header = ["against", "F", "ratio", "lower end", "upper end"]
    return Picture(
        "Escaping efficiency of mixtures against CE",
        figure,
        Table("", header, rows),
        f"After {epochs} epochs of training with CE; 95 % intervals over seeds.",
    )


def _bound_table(stages: dict[int, Efficiencies]) -> Table:
    rows = [
        [epochs, len(each.ce), *(each.above_bound(focus) for focus in FOCI)]
        for epochs, each in stages.items()
    ]
    failing = sum(len(each.ce) - each.above_bound(f) for each in stages.values() for f in FOCI)
    total = sum(len(each.ce) for each in stages.values()) * len(FOCI)
    note = (
        "For how many seeds the difference of efficiencies exceeds the right side of eq. 18, by F. "
        f"It does not in {failing} of {total} cases"
        + (": the inequality is not one for all weights." if failing else ".")
    )
    header = ["epochs with CE", "seeds", *(f"F = {focus:g}" for focus in FOCI)]
    return Table("The bound of eq. 18", header, rows, note)


def _flatness(runs: Sequence[Any]) -> Table:
    rows: list[list[Any]] = []
    for key, name in (("trace", "trace"), ("largest", "largest eigenvalue")):
        ce, mixed = ([run[loss][key] for run in runs] for loss in ("ce", "f0-0.5"))
        came = str(ratio(mixed, ce)) if min(*ce, *mixed) > 0 else "not positive"
        rows.append([f"Hessian of CE, {name}", float(np.mean(ce)), float(np.mean(mixed)), came])
    ce, mixed = ([100 * run[loss]["accuracy"] for run in runs] for loss in ("ce", "f0-0.5"))
    change = over_sets([one - two for one, two in zip(mixed, ce, strict=True)])
    rows.append(["test accuracy (%)", float(np.mean(ce)), float(np.mean(mixed)), str(change)])
    header = ["at the end of training", "with CE", "with F = 0-0.5", "ratio, or change in points"]
    note = (
        "The paper expects wider minima of the mixture. Means over seeds; 95 % intervals over "
        "seeds, paired."
    )
    return Table("Flatness where training ends", header, rows, note, "mixing-flatness")


def _checks(stages: dict[int, Efficiencies]) -> list[Check]:
    everywhere = [
        (mixture, ce)
        for each in stages.values()
        for focus in FOCI
        for mixture, ce in zip(each.mixtures[focus], each.ce, strict=True)
    ]
    el = [(one, ce) for each in stages.values() for one, ce in zip(each.el, each.ce, strict=True)]
    return [
        Check(
            "Tr(H Σ) of every mixture exceeds that of CE, for all seeds and stages (as eq. 18 has "
            "it in sign).",
            all(mixture > ce for mixture, ce in everywhere),
            f"The least ratio is {min(mixture / ce for mixture, ce in everywhere):.2f}.",
        ),
        Check(
            "Tr(H Σ) of CE exceeds that of EL, for all seeds and stages (as published).",
            all(one < ce for one, ce in el),
            f"The largest ratio of EL to CE is {max(one / ce for one, ce in el):.3f}.",
        ),
    ]
