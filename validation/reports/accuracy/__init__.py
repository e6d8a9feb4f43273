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
from validation.reports.parts import NOT_YET, section_of
from validation.running import Task

PARTS: dict[str, Report] = {
    "Error against the number of points": convergence,
    "Dimension and tails": scaling,
    "Methods without random points": deterministic,
    "Side by side": side_by_side,
    "Special functions": special_functions,
}
_ANSWERING = (
    "Error against the number of points",
    "Dimension and tails",
    "Methods without random points",
)


def tasks(scale: str) -> list[Task]:
    return [task for part in PARTS.values() for task in part.tasks(scale)]


def section(results: Results, scale: str) -> Section:
    sections = {
        title: section_of(part, title, "accuracy", results, scale) for title, part in PARTS.items()
    }
    answers = [sections[title].answer for title in _ANSWERING]
    return Section(
        "Accuracy",
        [
            Text(
                "Errors here are true ones: against closed forms, quadrature, transfer operators "
                "and 40-digit arithmetic, none of which uses mvnorth. Whether the errors that "
                '`mvnorth` reports can be trusted is measured under "Honesty of errors".'
            ),
            *sections.values(),
        ],
        " ".join(answer for answer in answers if answer != NOT_YET) or NOT_YET,
    )
