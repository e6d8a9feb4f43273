"""When should I use EXACT? Eight losses on data with faults, tuned equally.

Every loss has the same settings to choose from, judged on a validation part that has the faults of
the training part. The chosen setting is tested on clean data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from validation.page import Section
from validation.reports import Results
from validation.reports.when import agreement, page, training
from validation.reports.when.losses import LOSSES
from validation.reports.when.problems import CONDITIONS, IMAGES, SPLITS, TABLES, is_there, problem
from validation.running import Task


class Cell(NamedTuple):
    """Data sets that are run with a model under some conditions, and how much is done."""

    model: str
    sets: tuple[str, ...]
    conditions: tuple[str, ...]
    trials: int
    steps: int
    splits: int = SPLITS


_SHORT = ("clean", "symmetric 30 %")
_MLP = ("clean", "symmetric 40 %", "one-sided 40 %", "outliers", "imbalance")
_THREE = ("uci/breast-cancer-wisc-diag", "uci/pima", "uci/vertebral-column-3clases")
SCALES: dict[str, tuple[Cell, ...]] = {
    "small": (
        Cell("linear", ("digits",), _SHORT, 2, 20, splits=2),
        Cell("CNN", ("digits",), ("symmetric 30 %",), 1, 10, splits=2),
    ),
    "quick": (Cell("linear", _THREE, ("clean", "one-sided 40 %"), 16, 100),),
    "full": (
        Cell("linear", TABLES, CONDITIONS, 16, 200),
        Cell("MLP", TABLES, _MLP, 16, 200),
        Cell("linear", tuple(IMAGES), _SHORT, 16, 200),
        Cell("CNN", ("digits",), _SHORT, 16, 100),
        Cell("CNN", ("mnist", "cifar10"), _SHORT, 4, 100, splits=2),
    ),
}


def tasks(scale: str) -> list[Task]:
    """Return the check of stacked training and a task for each data set and model."""
    found = [Task("stacked and alone", agreement.distances, {"steps": 20})]
    for cell in SCALES[scale]:
        for name in cell.sets:
            if is_there(name):
                arguments = {
                    "data": name,
                    "model": cell.model,
                    "conditions": list(cell.conditions),
                    "trials": cell.trials,
                    "steps": cell.steps,
                    "splits": cell.splits,
                }
                found.append(Task(f"{cell.model}, {name}", search_all, arguments))
    return found


def search_all(
    data: str, model: str, conditions: list[str], trials: int, steps: int, splits: int
) -> dict[str, Any]:
    """Tune all losses on a data set; return test accuracies of the splits and what was chosen."""
    torch.set_num_threads(1)
    settings = training.trials(trials)
    found: dict[str, Any] = {}
    for condition in conditions:
        posed = problem(data, condition, splits)
        found[condition] = {
            loss: training.search(posed, model, loss, settings, steps)._asdict() for loss in LOSSES
        }
    return found


def section(results: Results, scale: str) -> Section:
    """Return the section of the report."""
    return page.section(results, SCALES[scale])
