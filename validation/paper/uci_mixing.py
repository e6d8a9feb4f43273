"""Mixing CE and EL: table 4, two small networks on many UCI sets, and the statistics on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from exact_torch.recipes.mixing_table4 import SETS
from validation import data_sets, statistics
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper.uci_mixing_runs import (
    EFFORTS,
    LOSSES,
    MODELS,
    RECIPE,
    SEEDS,
    chosen,
    size_of,
    tasks,
)
from validation.reports import Results

__all__ = ["section", "tasks"]

# Wins on 121 sets, change in accuracy against CE (%), mean rank; means of two seeds.
PUBLISHED = {
    "linear": {
        "ce": (33, 0.0, 2.59),
        "f0": (32, 0.09, 2.39),
        "f0,0.5": (31, 0.20, 2.30),
        "f0-0.5": (48, 0.30, 2.12),
        "el": (33, -2.71, 3.25),
        "focal": (26, -0.56, 3.13),
    },
    "hidden": {
        "ce": (26, 0.0, 2.70),
        "f0": (30, 0.12, 2.62),
        "f0,0.5": (37, 0.27, 2.40),
        "f0-0.5": (42, 0.30, 2.37),
        "el": (33, -4.73, 3.52),
        "focal": (25, -0.89, 3.03),
    },
}
_LEVEL = 0.05


def section(results: Results, scale: str) -> Section:
    title = "Mixing CE and EL: table 4"
    sets = [
        name for name in chosen(scale) if all(f"{name}, {model}" in results for model in MODELS)
    ]
    left = _left_out(sets, scale)
    if len(sets) < 2:
        return Section(title, left)
    # (sets, losses, seeds), in percent
    values = {
        model: 100
        * np.array(
            [[results[f"{name}, {model}"]["test"][each] for each in LOSSES] for name in sets]
        )
        for model in MODELS
    }
    parts: list[Part] = [Text(_protocol(sets, results, scale))]
    parts += [_summary(model, values[model]) for model in MODELS]
    parts.append(_tests(values))
    parts += [picture for model in MODELS for picture in _rank_pictures(model, values[model])]
    parts += [_profile_picture(model, values[model]) for model in MODELS]
    parts.append(Text(_conclusion(values)))
    parts += _checks(results, sets, values, scale)
    parts += [_every_set(sets, results, values), *left]
    return Section(title, parts)


def _protocol(sets: Sequence[str], results: Results, scale: str) -> str:
    effort = EFFORTS[scale]
    examples = sum(results[f"{name}, linear"]["examples"][0] for name in sets)
    text = (
        "Published: a linear classifier and one with a hidden layer as wide as the input, batches "
        "of 8, 50 epochs, learning rates of 0.01, 0.005 and 0.001, rate and epoch chosen on the "
        "validation set, two seeds, 121 sets. Ours: the same with SGD and momentum 0.9 and the "
        f"division of the recipe `{RECIPE}` into training (68 %), validation and test set. All "
        "networks of a set are trained side by side; see the first check. "
    )
    if effort.epochs != 50:
        text += f"Here reduced to {effort.epochs} epochs. "
    if effort.sets != SETS:
        return text + f"Sets: {', '.join(sets)}."
    least = f" those with at least {effort.least} training examples," if effort.least else ""
    return text + (
        f"Sets:{least} from the smallest by training examples times features, while together they "
        f"have at most {effort.total} training examples; that is {len(sets)} sets with {examples}."
    )


def _summary(model: str, values: np.ndarray) -> Table:
    """Table 4: wins, change against CE, mean rank; means over seeds."""
    rounded = [values[..., seed].round(6) for seed in range(values.shape[2])]
    wins = np.mean([statistics.wins(each) for each in rounded], axis=0)
    change = (values - values[:, :1]).mean(axis=(0, 2))
    best = np.mean([statistics.ranks(each, "min").mean(axis=0) for each in rounded], axis=0)
    mean = _mean_ranks(values)
    rows = []
    for number, (each, name) in enumerate(LOSSES.items()):
        published = PUBLISHED[model][each]
        share = 100 * wins[number] / len(values)
        row = [name, float(wins[number]), float(share), 100 * published[0] / 121]
        row += [float(change[number]), published[1], float(best[number]), published[2]]
        rows.append([*row, float(mean[number])])
    header = ["loss", "wins", "wins (% of sets)", "published (% of 121)"]
    header += ["Δ accuracy (points)", "published", "mean rank, best of ties", "published"]
    header += ["mean rank, mean of ties"]
    note = (
        "Published mean ranks of the six losses add up to less than 21, as ranks do if equal "
        "accuracies all have the best of their places; tests use the mean of the places."
    )
    return Table(f"Table 4 of the mixing paper, {MODELS[model]}", header, rows, note)


def _mean_ranks(values: np.ndarray) -> np.ndarray:
    """Over sets and seeds; equal accuracies have the mean of their places."""
    seeds = range(values.shape[2])
    return np.mean([statistics.ranks(values[..., s].round(6)).mean(axis=0) for s in seeds], axis=0)


def _tests(values: Mapping[str, np.ndarray]) -> Table:
    rows = []
    for model, each in values.items():
        for seed in range(each.shape[2]):
            found = statistics.friedman(each[..., seed].round(6))
            p = _adjusted(each[..., seed])
            pairs = int((p[np.triu_indices(len(p), 1)] < _LEVEL).sum())
            rows.append([MODELS[model], seed, found.statistic, found.p, pairs])
    header = ["network", "seed", "Friedman statistic", "p", f"pairs of 15 that differ at {_LEVEL}"]
    note = "Pairs: Conover's test after Friedman's, adjusted by Benjamini and Hochberg."
    return Table("Mixing CE and EL, tests over sets", header, rows, note)


def _adjusted(values: np.ndarray) -> np.ndarray:
    return statistics.benjamini_hochberg(statistics.conover(values.round(6)))


def _rank_pictures(model: str, values: np.ndarray) -> list[Picture]:
    found = []
    names = list(LOSSES.values())
    for seed in range(values.shape[2]):
        ranks = statistics.ranks(values[..., seed].round(6)).mean(axis=0)
        p = _adjusted(values[..., seed])
        groups = statistics.alike(list(ranks), p, _LEVEL)
        figure, ax = axes()
        ax.grid(visible=False)
        statistics.draw_ranks(ax, names, list(ranks), groups)
        rows = [
            [name, float(rank), *map(float, row)]
            for name, rank, row in zip(names, ranks, p, strict=True)
        ]
        table = Table("", ["loss", "mean rank", *(f"p against {name}" for name in names)], rows)
        title = f"Mean ranks, {MODELS[model]}, seed {seed}"
        caption = f"Bars join losses of which no two differ at {_LEVEL} (Conover, adjusted)."
        found.append(Picture(title, figure, table, caption))
    return found


def _profile_picture(model: str, values: np.ndarray) -> Picture:
    shares = np.linspace(0.8, 1.0, 81)
    experiments = values.transpose(0, 2, 1).reshape(-1, len(LOSSES))
    found = statistics.profile(experiments.round(6), shares)
    figure, ax = axes(xlabel="share of the best accuracy", ylabel="part of sets and seeds")
    for number, name in enumerate(LOSSES.values()):
        ax.plot(shares, found[:, number], color=f"C{number}", label=name)
    ax.legend(fontsize=7)
    rows = [
        [float(share), *map(float, row)] for share, row in zip(shares[::8], found[::8], strict=True)
    ]
    table = Table("", ["share of the best", *LOSSES.values()], rows)
    caption = "Dolan-Moré profile: how often a loss reaches this share of the best loss's accuracy."
    return Picture(f"Profile of accuracies, {MODELS[model]}", figure, table, caption)


def _conclusion(values: Mapping[str, np.ndarray]) -> str:
    told = []
    names = list(LOSSES)
    for model, each in values.items():
        change = dict(zip(names, (each - each[:, :1]).mean(axis=(0, 2)), strict=True))
        ranks = _mean_ranks(each)
        ps = [_adjusted(each[..., seed])[0, names.index("f0-0.5")] for seed in range(SEEDS)]
        told.append(
            f"{MODELS[model].capitalize()}: the best mean rank has "
            f"{LOSSES[names[int(ranks.argmin())]]}; F = 0-0.5 changes CE's accuracy by "
            f"{change['f0-0.5']:+.2f} points (published {PUBLISHED[model]['f0-0.5'][1]:+.2f}; "
            f"adjusted p of the two seeds {ps[0]:.2g} and {ps[1]:.2g}), EL alone by "
            f"{change['el']:+.2f} (published {PUBLISHED[model]['el'][1]:+.2f})."
        )
    return " ".join(told)


def _checks(
    results: Results, sets: Sequence[str], values: Mapping[str, np.ndarray], scale: str
) -> list[Check]:
    found = []
    if "side by side and alone" in results:
        apart = results["side by side and alone"]
        found.append(
            Check(
                "Networks trained side by side with six losses are those that `exact_torch.train` "
                "trains: their weights differ by less than 1e-4 of the largest.",
                all(each < 1e-4 for each in apart.values()),
                ", ".join(f"{MODELS[each]}: {value:.1e}" for each, value in apart.items()) + ".",
            )
        )
    majority = 100 * float(np.mean([results[f"{name}, linear"]["majority"] for name in sets]))
    for model, each in values.items():
        means = each.mean(axis=(0, 2))
        worst = list(LOSSES.values())[int(means.argmin())]
        found.append(
            Check(
                f"{MODELS[model].capitalize()}: with every loss the mean accuracy over sets is at "
                f"least {_ABOVE} points above that of always saying the largest class.",
                bool((means >= majority + _ABOVE).all()),
                f"The least is {means.min():.2f} %, with {worst}; largest class: {majority:.2f} %.",
            )
        )
        change = (each - each[:, :1]).mean(axis=(0, 2))
        near = _NEAR[scale]
        found.append(
            Check(
                f"{MODELS[model].capitalize()}: CE with EL is within {near} points of CE in the "
                f"mean over {len(sets)} sets, for all three schedules (published: +0.1 to +0.3).",
                bool((np.abs(change[1:4]) <= near).all()),
                f"{', '.join(f'{value:+.2f}' for value in change[1:4])}.",
            )
        )
    change = (values["hidden"] - values["hidden"][:, :1]).mean(axis=(0, 2))
    found.append(
        Check(
            "One hidden layer: EL alone is at least a point worse than CE in the mean over sets "
            "(published: 4.73 points): what is certainly wrong has no gradient.",
            bool(change[list(LOSSES).index("el")] <= -1.0),
            f"{change[list(LOSSES).index('el')]:+.2f}.",
        )
    )
    return found


_ABOVE = 5.0  # a quick run has 18 and more; a loss of the wrong sign is far below 0
_NEAR = {"small": 5.0, "quick": 5.0, "full": 2.0}  # test sets of some 30 examples: a quick run, 1.7


def _every_set(sets: Sequence[str], results: Results, values: Mapping[str, np.ndarray]) -> Table:
    rows = []
    for number, name in enumerate(sets):
        for model in MODELS:
            each = results[f"{name}, {model}"]
            row = [name, MODELS[model], *each["examples"], 100 * each["majority"]]
            rows.append(row + [float(value) for value in values[model][number].mean(axis=1)])
    header = ["set", "network", "training", "validation", "test examples", "largest class"]
    note = "Test accuracy (%), mean of two seeds, each with the rate that was best on validation."
    return Table("Mixing CE and EL, every set", [*header, *LOSSES.values()], rows, note)


def _left_out(sets: Sequence[str], scale: str) -> list[Part]:
    parts: list[Part] = []
    absent = [name for name in SETS if size_of(name) is None]
    rest = [name for name in SETS if name not in sets and name not in absent]
    if rest:
        command = f"exact-torch search {RECIPE}/{rest[0]}-linear-ce --trials 3 --seeds 2"
        why = f"The {scale} report does not have these {len(rest)} sets. One run of them:"
        parts.append(NotRun(f"Mixing CE and EL on {', '.join(rest)}", why, command))
    if absent:
        parts.append(
            data_sets.missing("Mixing CE and EL on the others of 121", f"uci/{', '.join(absent)}")
        )
    return parts
