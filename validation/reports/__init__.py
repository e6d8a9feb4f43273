"""The reports by name, each a module of this package with

tasks(scale)
    Return what is computed, a list of ``Task``. ``scale`` is "small" (seconds, to test the report),
    "quick" (a share of the ten minutes of ``python -m validation``) or "full".
section(results, scale)
    Return what the page says about it, a ``Section``. ``results`` has the values of the tasks by
    their names; those that failed are not in it, and the page lists them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from validation.page import Section
from validation.running import Task

Results = Mapping[str, Any]


def _minutes(small: float, quick: float, full: float) -> dict[str, float]:
    return {"small": small, "quick": quick, "full": full}


class Entry(NamedTuple):
    """A report in the list of all.

    Attributes
    ----------
    title : str
    minutes : mapping
        Typical core-minutes by scale, for the estimate of the time left; the page's foot of each
        report has the measured ones.
    needs : sequence of str
        Modules that the report cannot run without.
    leading : bool
        Its answer stands on the first screen of the page.
    """

    title: str
    minutes: Mapping[str, float]
    needs: Sequence[str] = ("matplotlib", "mpmath")
    leading: bool = False


_TRAINING = ("matplotlib", "sklearn", "torch", "torchvision", "tqdm")

# In the order of the page: first what a reader asks of EXACT, then what it is built on.
REPORTS = {
    "when": Entry("When should I use EXACT?", _minutes(0.5, 2, 60), _TRAINING, leading=True),
    "criticism": Entry("Criticism of EXACT", _minutes(0.5, 2, 90), _TRAINING),
    "paper": Entry("The papers' tables and figures", _minutes(2, 5, 150), _TRAINING),
    "exact": Entry(
        "EXACT: exactness and cost", _minutes(0.6, 1, 8), ("matplotlib", "mpmath", "torch")
    ),
    "honesty": Entry("Honesty of errors", _minutes(1, 3, 40)),
    "accuracy": Entry("Accuracy", _minutes(1, 1.5, 10)),
    "gradients": Entry("Gradients", _minutes(1, 1.5, 10)),
    "speed": Entry("Speed", _minutes(0.5, 1.5, 15)),
}


class Report(Protocol):
    """The functions of a report's module."""

    def tasks(self, scale: str) -> list[Task]: ...

    def section(self, results: Results, scale: str) -> Section: ...


def get(name: str) -> Report:
    """Return the module of a report."""
    return cast(Report, importlib.import_module(f"validation.reports.{name}"))
