"""Train one network with one setting changed, over several seeds: code shared by figures.

The networks are small and their training short, so that a CPU does many of them: they show what a
setting does, not what accuracy can be had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from exact_torch import recipes
from exact_torch.train import Config
from validation import data_sets
from validation.page import Table
from validation.paper.over_seeds import Interval, paired
from validation.paper.training import train_once
from validation.reports import Results
from validation.running import Task

_DIGITS: dict[str, dict[str, Any]] = {
    "small": {"epochs": 2, "epoch_steps": 8},
    "quick": {"epochs": 4},
    "full": {"epochs": 8},
}
Accuracies = dict[str, list[float]]  # by variant, a seed each


def bases(scale: str) -> dict[str, Config]:
    """Return the runs that variants change, by data set: small and short runs of the recipes."""
    digits = replace(recipes.get("digits").runs[""], model_options={"width": 8}, **_DIGITS[scale])
    found = {"digits": digits}
    if scale == "full" and data_sets.there("mnist"):
        mnist = recipes.get("mnist/exact").runs["exact"]
        found["mnist"] = replace(mnist, model_options={"width": 8}, epochs=4, epoch_steps=25)
    return found


def seeds(scale: str, data: str) -> int:
    """Return the number of seeds that every variant is trained with."""
    return {"small": 1, "quick": 3, "full": 4 if data == "digits" else 3}[scale]


def absent(what: str, scale: str) -> list[Any]:
    """Return a note on the sets of a full run that this machine does not have."""
    if scale != "full" or data_sets.there("mnist"):
        return []
    return [data_sets.missing(what, "MNIST")]


def tasks(runs: Mapping[str, Config], count: int) -> list[Task]:
    """Return a task for each run and each of ``count`` seeds."""
    return [
        Task(_name(run, seed), train_once, {"config": replace(config, seed=seed).to_json()})
        for run, config in runs.items()
        for seed in range(count)
    ]


def of(results: Results, run: str, count: int) -> list[Any]:
    """Return the results of a run by seed, without seeds that failed."""
    names = (_name(run, seed) for seed in range(count))
    return [results[name] for name in names if name in results]


def accuracies(results: Results, runs: Sequence[str], count: int) -> Accuracies:
    """Return test accuracies; a seed that failed for one run is left out for all, to keep pairs."""
    common = [s for s in range(count) if all(_name(run, s) in results for run in runs)]
    return {
        run: [results[_name(run, seed)]["summary"]["test_accuracy"] for seed in common]
        for run in runs
    }


def difference(found: Accuracies, run: str, reference: str) -> Interval:
    """Return the mean difference from the reference and half its 95 % interval, on pairs.

    The interval is None for one seed, where there is none.

    Examples
    --------
    >>> mean, half = difference({"a": [0.5, 0.7, 0.9], "b": [0.4, 0.5, 0.6]}, "a", "b")
    >>> round(mean, 6), round(half, 6)
    (0.2, 0.248414)
    """
    return paired(found[run], found[reference])


def table(title: str, found: Accuracies, reference: str, note: str = "") -> Table:
    """Return means and deviations in per cent, and differences from the reference."""
    rows = []
    for run, values in found.items():
        mean, half = difference(found, run, reference)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        rows.append(
            [
                run,
                len(values),
                100 * float(np.mean(values)),
                None if deviation is None else 100 * deviation,
                100 * min(values),
                None if run == reference else round(100 * mean, 6),  # -1e-15 is 0
                None if run == reference or half is None else 100 * half,
            ]
        )
    header = [
        "run",
        "seeds",
        "test accuracy, %",
        "standard deviation",
        "worst seed, %",
        "difference, points",
        "± (95 %)",
    ]
    told = (
        f"Difference: from `{reference}`, paired by seed; ±: half its 95 % interval over seeds by "
        "Student's t."
    )
    return Table(title, header, rows, f"{told} {note}".strip())


def verdict(found: Accuracies, reference: str) -> str:
    """Return a sentence naming runs whose 95 % interval of the difference excludes 0."""
    others = [run for run in found if run != reference]
    if len(found[reference]) < 2:
        return "One seed says nothing of differences."
    apart = []
    for run in others:
        mean, half = difference(found, run, reference)
        if half is not None and abs(mean) > half:
            apart.append(f"{run} ({100 * mean:+.1f} points)")
    if not apart:
        return f"No run differs from {reference} by more than its 95 % interval."
    return (
        f"Of {len(others)} runs, those whose difference from {reference} is larger than its 95 % "
        f"interval: {', '.join(apart)}. Intervals are not corrected for their number."
    )


def _name(run: str, seed: int) -> str:
    return f"{run}, seed {seed}"
