"""Mixing CE and EL, table 4: the training runs on UCI sets."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from exact_torch import data, recipes
from exact_torch.recipes.mixing_table4 import SETS
from validation.paper.side_by_side import distance, train_all
from validation.running import Task

RECIPE = "mixing-table4"
SEEDS = 2
LOSSES = {
    "ce": "CE",
    "f0": "CE+EL, F = 0",
    "f0,0.5": "CE+EL, F = 0, 0.5",
    "f0-0.5": "CE+EL, F = 0-0.5",
    "el": "EL",
    "focal": "focal",
}
MODELS = {"linear": "linear", "hidden": "one hidden layer"}
BATCH = 8
AGREEMENT = "side by side and alone"


@dataclass(frozen=True)
class Effort:
    """What a scale trains.

    Attributes
    ----------
    epochs : int
    steps : int
        Steps that an epoch has at most: larger sets are not passed through in one epoch.
    least : int
        Training examples that a set has at least.
    total : int, optional
        Training examples that all sets together have at most; all sets if it is None.
    sets : tuple of str
        The sets to choose from.
    """

    epochs: int
    steps: int
    least: int = 0
    total: int | None = None
    sets: tuple[str, ...] = SETS


# A step takes about as long for every set but the widest: the number of steps is the time.
EFFORTS = {
    "small": Effort(10, 500, sets=("iris", "seeds")),
    "quick": Effort(50, 500, least=100, total=1_300),
    "full": Effort(50, 500),
}


class Size(NamedTuple):
    """The numbers of training examples and features of a set."""

    examples: int
    features: int


def chosen(scale: str) -> tuple[str, ...]:
    """Return the sets that are there, from the smallest, as many as the effort allows.

    The size of a set is its training examples times its features.
    """
    effort = EFFORTS[scale]
    sizes = {name: size for name in effort.sets if (size := size_of(name)) is not None}
    sets: list[str] = []
    total = 0
    for name in sorted(sizes, key=lambda each: (sizes[each].examples * sizes[each].features, each)):
        if sizes[name].examples < effort.least:
            continue
        total += sizes[name].examples
        if effort.total is not None and total > effort.total:
            break
        sets.append(name)
    return tuple(sets)


def capped(name: str, scale: str) -> bool:
    """Return whether an epoch is less than a pass through the training examples of a set."""
    size = size_of(name)
    return size is not None and size.examples // BATCH > EFFORTS[scale].steps


def task_name(name: str, model: str) -> str:
    """Return the name of the task of a set and a network."""
    return f"{name}, {model}"


def tasks(scale: str) -> list[Task]:
    """Return a task for each set and network, short ones first, and one that checks the method."""
    sets, effort = chosen(scale), EFFORTS[scale]
    listed = [Task(AGREEMENT, agreement, {"data": sets[0]})] if sets else []
    for name in sets:  # many sets are done soon, should the run be stopped
        steps = effort.steps if capped(name, scale) else None
        for model in MODELS:
            given = {"data": name, "model": model, "epochs": effort.epochs, "steps": steps}
            listed.append(Task(task_name(name, model), cells, given))
    return listed


def cells(data: str, model: str, epochs: int, steps: int | None) -> dict[str, Any]:
    """Return for each loss and seed the test accuracy at the best learning rate and epoch.

    Best by the accuracy on the validation set, the first one of several.
    """
    recipe = recipes.get(RECIPE)
    runs = {loss: f"{data}-{model}-{loss}" for loss in LOSSES}
    configs = [
        replace(recipe.runs[variant], lr=lr, seed=seed, epochs=epochs, epoch_steps=steps)
        for variant in runs.values()
        for seed in range(SEEDS)
        for lr in recipe.search[variant]["lr"]
    ]
    dataset = _dataset(data)
    trained = iter(train_all(configs, dataset))
    test: dict[str, list[float]] = {loss: [] for loss in LOSSES}
    rates: dict[str, list[float]] = {loss: [] for loss in LOSSES}
    for loss, variant in runs.items():
        grid = recipe.search[variant]["lr"]
        for _ in range(SEEDS):
            tried = [next(trained) for _ in grid]
            judged = [-1.0 if one.validation is None else one.validation for one in tried]
            best = judged.index(max(judged))
            test[loss].append(tried[best].test or 0.0)  # 0 if all diverged
            rates[loss].append(grid[best])
    labels = dataset.test.labels
    return {
        "test": test,
        "rates": rates,
        "examples": [len(dataset.train), len(dataset.validation), len(labels)],
        "majority": (torch.bincount(labels).max() / len(labels)).item(),
    }


def agreement(data: str) -> dict[str, float]:
    """Return for each network how far weights trained side by side are from ``Training``'s."""
    furthest = {}
    for model in MODELS:
        runs = recipes.get(RECIPE).runs
        configs = [
            replace(runs[f"{data}-{model}-{loss}"], epochs=6, epoch_steps=3, select="last")
            for loss in LOSSES
        ]
        dataset = _dataset(data)
        apart = [
            distance(config, dataset, result.weights)
            for config, result in zip(configs, train_all(configs, dataset), strict=True)
        ]
        furthest[model] = float(np.max(apart))  # NaN if one is
    return furthest


@functools.cache
def size_of(name: str) -> Size | None:
    """Return the size of a set; None if its files are not there."""
    try:
        dataset = _dataset(name)
    except data.DataError:
        return None
    return Size(len(dataset.train), dataset.shape[0])


def _dataset(name: str) -> data.Dataset:
    return data.load(f"uci/{name}", validation=0.15, download=False)
