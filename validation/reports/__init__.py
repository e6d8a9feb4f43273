"""The reports by name, each a module of this package with

tasks(scale)
    What is computed, a list of ``Task``. ``scale`` is "small" (seconds, to test the report),
    "quick" (a share of the ten minutes of ``python -m validation``) or "full".
section(results, scale)
    What is said of it, a ``Section``. ``results`` has the values of the tasks by their names;
    those that failed are not in it, and the page lists them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

from validation.page import Section
from validation.running import Task

Results = Mapping[str, Any]


class Entry(NamedTuple):
    """A report's title, and modules that it cannot run without."""

    title: str
    needs: tuple[str, ...] = ("matplotlib", "mpmath")


_TRAINING = ("matplotlib", "sklearn", "torch", "torchvision", "tqdm")

REPORTS = {
    "accuracy": Entry("Accuracy"),
    "honesty": Entry("Honesty of errors"),
    "gradients": Entry("Gradients"),
    "speed": Entry("Speed"),
    "exact": Entry("EXACT", ("matplotlib", "mpmath", "torch")),
    "paper": Entry("The papers' tables and figures", _TRAINING),
    "criticism": Entry("Criticism of EXACT", _TRAINING),
    "when": Entry("When should I use EXACT?", _TRAINING),
}


class Report(Protocol):
    """What a module of a report has."""

    def tasks(self, scale: str) -> list[Task]: ...

    def section(self, results: Results, scale: str) -> Section: ...


def get(name: str) -> Report:
    """The report of a name."""
    return cast(Report, importlib.import_module(f"validation.reports.{name}"))
