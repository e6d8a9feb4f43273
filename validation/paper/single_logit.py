"""Single-logit classification, tables 1 and 2: seven losses, one logit against all.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020),
sections 6.1 and 6.2. The runs are those of ``single_logit_runs``.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from validation import data_sets
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper import single_logit_runs
from validation.paper.over_seeds import Interval, interval, over
from validation.paper.reduced import decide_if_full
from validation.paper.single_logit_published import (
    ALIGNED,
    CE_ALL_LOGITS,
    HEADS,
    IMPROVEMENT,
    MEAN_ALIGNED,
    NOT_ALIGNED,
    TABLE1,
    Measures,
)
from validation.paper.single_logit_runs import LOSSES, SETTINGS
from validation.reports import Results

TITLE = "Single logits, tables 1 and 2"
_TINY = 1e-9  # in place of a measure that is perfect
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "digits": "digits"}

tasks = single_logit_runs.tasks


class Trained(NamedTuple):
    """The runs of a loss on a set, by seed."""

    loss: str
    rate: float
    accuracies: list[float]
    single: list[Measures]
    every: list[Measures]
    outcome: Mapping[str, Any]


def section(results: Results, scale: str) -> Section:
    """Return both tables, published and ours, what they say, and what was not run."""
    parts: list[Part] = []
    told = []
    done: dict[str, dict[str, Trained]] = {}
    for data in SETTINGS[scale]:
        if not single_logit_runs.there(data):
            parts.append(data_sets.missing(f"Single logits on {SETS[data]}", SETS[data]))
            continue
        trained = _trained(results, data)
        if trained:
            done[data] = trained
    whole = {data: runs for data, runs in done.items() if len(runs) == len(LOSSES)}
    parts += decide_if_full(_findings(whole), scale)
    parts.append(Text(_protocol(scale)))
    for data, runs in done.items():
        parts += [_table1(data, runs), _picture(data, runs)]
        if data in whole:
            parts.append(_table2(data, runs))
            told.append(_said(data, runs))
    parts += [*_checks(done), *_not_run()]
    return Section(TITLE, parts, " ".join(told))


def _trained(results: Results, data: str) -> dict[str, Trained]:
    found = {}
    for loss in LOSSES:
        outcome = results.get(single_logit_runs.name(data, loss))
        if outcome is not None:
            runs = outcome["runs"]
            single, every = (
                [Measures(*(1.0 - value for value in run[which])) for run in runs]
                for which in ("single", "all")
            )
            accuracies = [100 * run["accuracy"] for run in runs]
            found[loss] = Trained(loss, outcome["rate"], accuracies, single, every, outcome)
    return found


def improvement(single: Mapping[str, Sequence[Measures]], which: int) -> list[float]:
    """Return for each seed by how much losses with logit separation are better, as a share."""
    seeds = range(len(next(iter(single.values()))))
    return [
        1.0
        - statistics.fmean(single[loss][seed][which] for loss in ALIGNED)
        / statistics.fmean(single[loss][seed][which] for loss in NOT_ALIGNED)
        for seed in seeds
    ]


def one_against_all(runs: Mapping[str, Trained]) -> Interval:
    """Return the change of 1 - AUPRC, in %, from CE with all logits to batch CE with one."""
    return interval(
        [
            100 * (one.auprc / max(every.auprc, _TINY) - 1.0)
            for one, every in zip(runs["batch_ce"].single, runs["ce"].every, strict=True)
        ]
    )


def _findings(done: Mapping[str, Mapping[str, Trained]]) -> list[Finding]:
    found = []
    for data, runs in done.items():
        if data not in IMPROVEMENT:
            continue
        single = {loss: trained.single for loss, trained in runs.items()}
        gain = interval([100 * value for value in improvement(single, 0)])
        change = one_against_all(runs)
        worse = change.verdict()  # of "one logit is worse"
        found += [
            Finding(
                f"On {SETS[data]}, losses that separate logits are better at single-logit "
                "classification than cross-entropy and max-margin.",
                f"1 - AUPRC lower by {100 * IMPROVEMENT[data].auprc:.0f} % on average (single "
                "logits, table 1)",
                f"lower by {_percent(gain)}",
                gain.verdict(),
            ),
            Finding(
                f"On {SETS[data]}, one logit (batch CE) is as good as all logits of cross-entropy.",
                f"1 - AUPRC {TABLE1[data]['batch_ce'].auprc:g} and {CE_ALL_LOGITS[data].auprc:g} "
                "(single logits, table 2)",
                f"1 - AUPRC {change} % higher with one logit",
                "does not hold" if worse == "holds" else "holds" if change.decided else worse,
            ),
        ]
    return found


def _percent(value: Interval) -> str:
    half = "" if value.half is None else f" ± {value.half:.0f}"
    return f"{value.mean:.0f}{half} %"


def _protocol(scale: str) -> str:
    each = []
    for data, chosen in SETTINGS[scale].items():
        width = chosen.changes.get("model_options", {"width": 500})["width"]
        layers = "six convolutions" if data == "cifar10" else "two layers"
        searched = (
            f"the best of {len(chosen.rates)} rates on the validation set after "
            f"{chosen.search_steps} steps with another seed"
            if len(chosen.rates) > 1
            else f"a learning rate of {chosen.rates[0]:g} for all"
        )
        each.append(
            f"{SETS[data]}: {layers} (width {width}), {chosen.steps} steps, {searched}, "
            f"{chosen.seeds} seeds"
        )
    return (
        "Is an example of class j? Single-logit classification asks whether z_j > T, and needs no "
        "other logit. Losses that separate logits over all examples should do better at that than "
        "those that compare the logits of one example, cross-entropy among them. Published: "
        "100,000 steps, the best of four learning rates on a validation set. Here: "
        f"{'; '.join(each)}. SGD with momentum 0.9 and a constant rate. Training is so much "
        "shorter that the order of the losses compares, not the size of the figures. Intervals "
        "are over seeds (95 %, Student's t)."
    )


def _table1(data: str, runs: Mapping[str, Trained]) -> Table:
    published = TABLE1.get(data, {})
    rows: list[list[Any]] = []
    for loss, trained in runs.items():
        row: list[Any] = [LOSSES[loss] + " *" * (loss in ALIGNED)]
        for which in range(len(HEADS)):
            mean = over([run[which] for run in trained.single]).mean
            row += [published[loss][which] if loss in published else None, mean]
        rows.append(row)
    if len(runs) == len(LOSSES):
        single = {loss: trained.single for loss, trained in runs.items()}
        row = ["mean relative improvement"]
        for which in range(len(HEADS)):
            theirs = IMPROVEMENT[data][which] if data in IMPROVEMENT else None
            row += [theirs, statistics.fmean(improvement(single, which))]
        rows.append(row)
    header = ["loss"]
    for head in HEADS:
        header += [f"{head}, published", "ours"]
    rates = ", ".join(f"{LOSSES[loss]} {trained.rate:g}" for loss, trained in runs.items())
    accuracy = ", ".join(
        f"{LOSSES[loss]} {statistics.fmean(trained.accuracies):.1f}"
        for loss, trained in runs.items()
    )
    return Table(
        f"Table 1: single logits, {SETS[data]}",
        header,
        rows,
        "Smaller is better, but for the last row: by how much the mean of the losses with logit "
        f"separation (*) is below that of the two others. Rates: {rates}. Test accuracy with all "
        f"logits, %: {accuracy}.",
        cite=f"single-logit-{data}",
    )


def _table2(data: str, runs: Mapping[str, Trained]) -> Table:
    single = [
        [statistics.fmean(run[which] for run in runs[loss].single) for which in range(len(HEADS))]
        for loss in ALIGNED
    ]
    ours = {
        "mean of losses with logit separation, one": np.mean(single, axis=0).tolist(),
        "batch CE, one": np.mean(runs["batch_ce"].single, axis=0).tolist(),
        "CE, all": np.mean(runs["ce"].every, axis=0).tolist(),
        "CE, one": np.mean(runs["ce"].single, axis=0).tolist(),
    }
    nothing = (None, None, None)
    theirs: list[Sequence[float | None]] = [nothing] * 4
    if data in TABLE1:
        theirs = [
            MEAN_ALIGNED[data],
            TABLE1[data]["batch_ce"],
            CE_ALL_LOGITS[data],
            TABLE1[data]["ce"],
        ]
    rows = [
        [name, *(value for pair in zip(published, values, strict=True) for value in pair)]
        for (name, values), published in zip(ours.items(), theirs, strict=True)
    ]
    header = ["loss, logits used"]
    for head in HEADS:
        header += [f"{head}, published", "ours"]
    note = "From the same runs. All logits: p_j > T is tested, where p is the softmax."
    return Table(f"Table 2: a single logit against all, {SETS[data]}", header, rows, note)


def _picture(data: str, runs: Mapping[str, Trained]) -> Picture:
    figure, ax = axes(log="x", xlabel="1 - AUPRC of single logits")
    places = list(range(len(runs)))[::-1]
    ours = [interval([run.auprc for run in trained.single]) for trained in runs.values()]
    published = TABLE1.get(data, {})
    if published:
        theirs = [published[loss].auprc for loss in runs]
        ax.plot(theirs, places, "s", color="C7", label="published")
    low = [min(each.half or 0.0, 0.9 * each.mean) for each in ours]
    ax.errorbar(
        [each.mean for each in ours],
        places,
        xerr=[low, [each.half or 0.0 for each in ours]],
        fmt="o",
        capsize=2,
        color="C0",
        label="ours",
    )
    ax.set_yticks(places, [LOSSES[loss] + " *" * (loss in ALIGNED) for loss in runs])
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    rows = [
        [LOSSES[loss], loss in ALIGNED, getattr(published.get(loss), "auprc", None), *each]
        for loss, each in zip(runs, ours, strict=True)
    ]
    header = ["loss", "logit separation", "published", "ours", "± (95 %)"]
    title = f"Single logits on {SETS[data]}"
    caption = "* with logit separation. Bars are 95 % intervals over seeds."
    return Picture(title, figure, Table(title, header, rows), caption)


def _said(data: str, runs: Mapping[str, Trained]) -> str:
    single = {loss: trained.single for loss, trained in runs.items()}
    gain = interval([100 * value for value in improvement(single, 0)])
    ce = statistics.fmean(run.auprc for run in single["ce"])
    better = [loss for loss in ALIGNED if statistics.fmean(run.auprc for run in single[loss]) < ce]
    theirs = f" (published {100 * IMPROVEMENT[data].auprc:.0f} %)" if data in IMPROVEMENT else ""
    return (
        f"{SETS[data]}: losses with logit separation have {_percent(gain)} lower 1 - AUPRC of a "
        f"single logit than the two without{theirs}; {len(better)} of {len(ALIGNED)} are below "
        f"cross-entropy."
    )


def _checks(done: Mapping[str, Mapping[str, Trained]]) -> list[Check]:
    runs = [
        run
        for trained in done.values()
        for each in trained.values()
        for run in each.outcome["runs"]
        if run["sklearn"] is not None
    ]
    if not runs:
        return []
    ours, theirs = (
        np.array([each[which] for each in both for which in ("single", "all")])
        for both in (runs, [run["sklearn"] for run in runs])
    )
    apart = float(np.max(np.abs(ours - theirs)))  # NaN if one is
    checks = [
        Check(
            "AUPRC and precision at recall, of single logits and of all, are those that "
            "scikit-learn computes from the same scores, to 1e-6.",
            apart < 1e-6,
            f"largest difference {apart:.1e} in {len(runs)} runs",
        )
    ]
    pairs = [
        (one.auprc / max(every.auprc, _TINY), SETS[data])
        for data, trained in done.items()
        if "ce" in trained
        for one, every in zip(trained["ce"].single, trained["ce"].every, strict=True)
    ]
    if pairs:
        closest, data = min(pairs)
        checks.append(
            Check(
                "A single logit of a network trained with cross-entropy says less than all: its "
                "1 - AUPRC is higher than that of the softmax, on each set with each seed.",
                closest > 1.0,
                f"closest: {closest:.2f} times ({data})",
            )
        )
    return checks


def _not_run() -> list[NotRun]:
    return [
        NotRun(
            "Table 1, MNIST as published: 100,000 steps, four rates, for each of seven losses",
            "35 runs of 100,000 steps take one core four to six hours.",
            "exact-torch search pols-table1/mnist-ce --trials 4\n"
            "exact-torch search pols-table1/mnist-batch_ce --trials 4   # and so on",
        ),
        NotRun(
            "Table 1, SVHN, all of CIFAR-10, CIFAR-100 and ImageNet with the published networks",
            "A step of the six convolutions takes a core seconds, and there are 100,000: a GPU is "
            "needed; for ImageNet (6,000,000 steps) the paper speaks of three weeks of one.",
            "exact-torch search pols-table1/svhn-ce --trials 4\n"
            "exact-torch train pols-table1/imagenet-batch_ce   # and so on",
        ),
    ]
