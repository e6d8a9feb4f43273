"""Mixing CE and EL: table 4, two small networks on many UCI sets, and the statistics on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from exact_torch.recipes.mixing_table4 import SETS
from validation import data_sets, statistics
from validation.page import Check, Finding, NotRun, Section, Table, Text
from validation.page.content import Part
from validation.paper.over_folds import Interval, check_near, compare_sizes, verdict
from validation.paper.reduced import decide_if_full
from validation.paper.uci_mixing_pictures import changes_picture, profile_picture, rank_picture
from validation.paper.uci_mixing_runs import (
    AGREEMENT,
    BATCH,
    EFFORTS,
    LOSSES,
    MODELS,
    RECIPE,
    chosen,
    size_of,
    tasks,
)
from validation.paper.uci_mixing_table import (
    NAMES,
    PUBLISHED,
    Accuracies,
    accuracies,
    adjusted_p,
    rank_verdict,
)
from validation.reports import Results

__all__ = ["section", "tasks"]

MIXED = "f0-0.5"
_SCHEDULES = ("f0", "f0,0.5", "f0-0.5")
_LEVEL = 0.05
_NEAR = 1.0
_TITLE = "Mixing CE and EL on UCI sets: table 4"


def section(results: Results, scale: str) -> Section:
    """Return the table beside the published one, tests over sets, and pictures."""
    ours = accuracies(results, scale)
    missing = _missing(ours.sets, scale)
    if len(ours.sets) < 2:
        return Section(_TITLE, missing)
    parts: list[Part] = [*decide_if_full(_findings(ours), scale), Text(_protocol(ours, scale))]
    parts += [_summary(model, ours) for model in MODELS]
    parts.append(changes_picture(ours))
    if ours.capped.any() and not ours.capped.all():
        parts.append(_with_and_without(ours))
    parts.append(_tests(ours))
    parts += [rank_picture(model, ours) for model in MODELS]
    parts += [profile_picture(model, ours) for model in MODELS]
    parts += _checks(results, ours)
    parts += [*(_every_set(model, ours) for model in MODELS), *missing]
    return Section(_TITLE, parts, _answer(ours))


def _answer(ours: Accuracies) -> str:
    mixed = {model: ours.change(MIXED, model) for model in MODELS}
    both = ours.change(MIXED)
    if both.low > 0:
        came = "is more accurate than CE"
    elif both.high < 0:
        came = "is less accurate than CE"
    else:
        came = "does not differ significantly from CE"
    alone = ", ".join(f"{ours.change('el', m)} ({MODELS[m]})" for m in MODELS)
    focal = ", ".join(f"{ours.change('focal', m)} ({MODELS[m]})" for m in MODELS)
    return (
        f"Over {len(ours.sets)} sets, CE with EL (F = 0-0.5) {came}: "
        + ", ".join(f"{mixed[m]} points ({MODELS[m]})" for m in MODELS)
        + f"; published is +0.30 for both. EL alone changes the accuracy of CE by {alone}, focal "
        f"loss by {focal}. Intervals are 95 %, over sets."
    )


def _findings(ours: Accuracies) -> list[Finding]:
    sets = f"95 % interval over {len(ours.sets)} sets"
    both = ours.change(MIXED)
    alone = ours.change("el")
    rival, lead = ours.rank_lead(MIXED)
    return [
        Finding(
            "On UCI sets, CE mixed with EL (F = 0-0.5) is more accurate than CE.",
            "+0.30 points, linear and with a hidden layer (mixing paper, table 4)",
            f"{both} points, mean of both networks ({sets}){compare_sizes(both, 0.30)}",
            verdict(both),
        ),
        Finding(
            "On UCI sets, EL alone is less accurate than CE.",
            "-2.71 points (linear), -4.73 (hidden layer) (mixing paper, table 4)",
            f"{alone} points, mean of both networks ({sets})",
            verdict(Interval(-alone.mean, alone.half)),
        ),
        Finding(
            "On UCI sets, F = 0-0.5 has the best mean rank of six losses.",
            "2.12 (linear), 2.37 (hidden layer), the next 2.30 and 2.40 (mixing paper, table 4)",
            f"the best of the others, {LOSSES[rival]}, has a mean rank {_higher(lead)} (99 % "
            f"interval over {len(ours.sets)} sets, as there are five others)",
            rank_verdict(lead),
        ),
    ]


def _higher(lead: Interval) -> str:
    if lead.mean >= 0:
        return f"higher by {lead.mean:.2f} ± {lead.half:.2f}"
    return f"lower by {-lead.mean:.2f} ± {lead.half:.2f}"


def _protocol(ours: Accuracies, scale: str) -> str:
    effort = EFFORTS[scale]
    text = (
        "Published: a linear classifier and one with a hidden layer as wide as the input, batches "
        "of 8, 50 epochs, learning rates of 0.01, 0.005 and 0.001, rate and epoch chosen on the "
        "validation set, two seeds, 121 sets, focal loss with gamma = 2 and alpha = 0.25. Ours: "
        f"the same with SGD, momentum 0.9 and the split of the recipe `{RECIPE}` into training "
        "(68 %), validation and test set. All networks of a set are trained side by side; see the "
        "first check. "
    )
    if effort.epochs != 50:
        text += f"Here reduced to {effort.epochs} epochs. "
    if ours.capped.any():
        text += (
            f"An epoch has at most {effort.steps} steps ({effort.steps * BATCH} examples): "
            f"{ours.capped.sum()} large sets, marked with a star in the last tables, have fewer "
            "steps than published. "
        )
    if effort.sets != SETS:
        return text + f"Sets: {', '.join(ours.sets)}."
    if effort.total is None:
        return text + f"Sets: the {len(ours.sets)} of 121 that are on this machine."
    return text + (
        f"Sets: those with at least {effort.least} training examples, from the smallest by "
        f"training examples times features, while together they have at most {effort.total} "
        f"training examples; that is {len(ours.sets)} sets."
    )


def _summary(model: str, ours: Accuracies) -> Table:
    """Return table 4 of one network."""
    wins = 100 * ours.wins(model) / len(ours.sets)
    ranks = ours.ranks(model, "min").mean(axis=0)
    rows: list[list[Any]] = []
    for number, (loss, name) in enumerate(LOSSES.items()):
        published = PUBLISHED[model][loss]
        change = None if loss == "ce" else str(ours.change(loss, model))
        row = [name, change, published.change if change else None, float(ranks[number])]
        rows.append([*row, published.rank, float(wins[number]), 100 * published.wins / 121])
    header = ["loss", "change against CE (points)", "published", "mean rank", "published"]
    header += ["best or as good (% of sets)", "published"]
    note = (
        "Means over two seeds, 95 % intervals over sets. Equal accuracies all have the best of "
        "their ranks here, as the published mean ranks must (they add up to less than 21). "
        "Intervals are not adjusted for comparing several losses; the tests below are."
    )
    return Table(
        f"Table 4 of the mixing paper, {MODELS[model]}",
        header,
        rows,
        note,
        f"mixing-table4-{model}",
    )


def _with_and_without(ours: Accuracies) -> Table:
    fewer = ours.without_capped()
    rows = [
        [
            name,
            *(str(each.change(loss, model)) for model in MODELS for each in (ours, fewer)),
        ]
        for loss, name in LOSSES.items()
        if loss != "ce"
    ]
    header = ["loss"]
    for model in MODELS.values():
        header += [f"{model}, all {len(ours.sets)} sets", f"{model}, {len(fewer.sets)} sets"]
    note = (
        f"Change against CE in points, 95 % intervals over sets. The {len(fewer.sets)} sets are "
        "those trained with all the published steps."
    )
    return Table("Mixing CE and EL, with and without shortened sets", header, rows, note)


def _tests(ours: Accuracies) -> Table:
    rows = []
    for model, name in MODELS.items():
        values = ours.of(model)
        for seed in range(values.shape[2]):
            friedman = statistics.friedman(values[..., seed].round(6))
            p = adjusted_p(values[..., seed])
            pairs = int((p[np.triu_indices(len(p), 1)] < _LEVEL).sum())
            against = float(p[0, NAMES.index(MIXED)])
            rows.append([name, seed, friedman.statistic, friedman.p, against, pairs])
    header = ["network", "seed", "Friedman's statistic", "p", "p, CE against F = 0-0.5"]
    header += [f"pairs of 15 that differ at {_LEVEL}"]
    note = "Pairs: Conover's test after Friedman's, adjusted by Benjamini and Hochberg."
    return Table("Mixing CE and EL, tests over sets", header, rows, note)


def _checks(results: Results, ours: Accuracies) -> list[Part]:
    checks: list[Part] = []
    if AGREEMENT in results:
        apart = results[AGREEMENT]
        checks.append(
            Check(
                "Networks trained side by side with six losses are those that `exact_torch.train` "
                "trains: their weights differ by less than 1e-4 of the largest.",
                all(each < 1e-4 for each in apart.values()),
                ", ".join(f"{MODELS[each]}: {value:.1e}" for each, value in apart.items()) + ".",
            )
        )
    for model, name in MODELS.items():
        changes = {loss: ours.change(loss, model) for loss in _SCHEDULES}
        checks.append(
            check_near(
                f"{name.capitalize()}: each of the three mixtures is within {_NEAR:g} point of CE "
                f"(95 % intervals over {len(ours.sets)} sets).",
                {LOSSES[loss]: each for loss, each in changes.items()},
                _NEAR,
            )
        )
        kept = _kept(model, ours)
        worst = min(kept, key=kept.__getitem__)
        checks.append(
            Check(
                f"{name.capitalize()}: EL and focal loss keep at least two thirds of what CE gains "
                "over always saying the largest class, in the mean over sets.",
                kept[worst] >= 2 / 3,
                f"At least {100 * kept[worst]:.0f} %, {LOSSES[worst]}.",
            )
        )
    return checks


def _kept(model: str, ours: Accuracies) -> dict[str, float]:
    """Return by loss the share of CE's gain over the largest class that EL and focal loss keep."""
    means = ours.of(model).mean(axis=(0, 2))
    base = ours.majority.mean()
    gain = means[0] - base
    return {loss: float((means[NAMES.index(loss)] - base) / gain) for loss in ("el", "focal")}


def _every_set(model: str, ours: Accuracies) -> Table:
    rows = []
    for number, name in enumerate(ours.sets):
        size = size_of(name)
        row: list[Any] = [f"{name}{'*' if ours.capped[number] else ''}"]
        row.append(None if size is None else size.examples)
        rows.append(row + [float(each) for each in ours.of(model)[number].mean(axis=1)])
    note = (
        "Test accuracy (%), mean of two seeds, each with the rate that was best on validation. A "
        "star: fewer steps than published."
    )
    header = ["set", "training examples", *LOSSES.values()]
    return Table(f"Mixing CE and EL, every set, {MODELS[model]}", header, rows, note)


def _missing(sets: Sequence[str], scale: str) -> list[Part]:
    parts: list[Part] = []
    absent = [name for name in SETS if size_of(name) is None]
    undone = [name for name in chosen(scale) if name not in sets]
    rest = [name for name in SETS if name not in {*sets, *absent, *undone}]
    if undone:
        command = f"python -m validation paper{' --full' if scale == 'full' else ''}"
        why = f"The tasks of {len(undone)} sets are not done."
        parts.append(NotRun(f"Mixing CE and EL on {', '.join(undone)}", why, command))
    if rest:
        command = f"exact-torch search {RECIPE}/{rest[0]}-linear-ce --trials 3 --seeds 2"
        why = f"The {scale} report does not have these {len(rest)} sets. One run of them:"
        parts.append(NotRun(f"Mixing CE and EL on {', '.join(rest)}", why, command))
    if absent:
        parts.append(
            data_sets.missing("Mixing CE and EL on the others of 121", f"uci/{', '.join(absent)}")
        )
    return parts
