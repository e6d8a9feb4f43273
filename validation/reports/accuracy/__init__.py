"""Accuracy: true errors of everything that mvnorth computes, by points, dimension and tail."""

from __future__ import annotations

from validation.page import Section, Text
from validation.reports import Report, Results
from validation.reports.accuracy import (
    convergence,
    deterministic,
    scaling,
    side_by_side,
    special_functions,
)
from validation.running import Task

PARTS: tuple[Report, ...] = (
    convergence,
    scaling,
    deterministic,
    side_by_side,
    special_functions,
)


def tasks(scale: str) -> list[Task]:
    return [task for part in PARTS for task in part.tasks(scale)]


def section(results: Results, scale: str) -> Section:
    return Section(
        "Accuracy",
        [
            Text(
                "Errors here are true ones: against closed forms, quadrature, transfer operators "
                "and 40-digit arithmetic, none of which uses mvnorth. Whether the errors that "
                "mvnorth itself reports can be trusted is another question, for the next report."
            ),
            *(part.section(results, scale) for part in PARTS),
        ],
    )
