"""Counts of claimed errors by group, for families of random problems; a part of honesty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from validation.page import NotRun, Table
from validation.page.content import Part
from validation.reports import Results
from validation.reports.honesty.counts import MEDIAN, Counted, Group, count, every_group_check
from validation.reports.parts import NOT_YET
from validation.reports.runs import Judgement, Known, Run, judge


class Claim(Protocol):
    """One call with a tolerance, and how its error compares with the truth."""

    @property
    def rtol(self) -> float: ...
    @property
    def claimed(self) -> float: ...
    @property
    def judged(self) -> Judgement: ...


C = TypeVar("C", bound=Claim)


def compare(log_prob: float, claimed: float, truth: float, truth_error: float) -> Judgement:
    """Return whether ``log_prob`` is within the claimed relative error of the truth."""
    run = Run("", None, 0, log_prob, claimed, "", 0)
    return judge(run, Known("", 0, frozenset(), truth, truth_error, []))


def rows_of(results: Results, prefix: str) -> list[Any]:
    """Return the rows of all tasks whose names start with ``prefix``."""
    return [row for name, value in results.items() if name.startswith(prefix) for row in value]


def count_by_group(
    subject: str,
    kind: str,
    cases: Sequence[C],
    groups: Mapping[str, Callable[[C], bool]],
    cite: str = "",
) -> list[Part]:
    """Return a table of claims and how many are outside, by group, and the checks of them.

    Parameters
    ----------
    subject : str
        The method, which titles start with.
    kind : str
        The problems, for the check.
    cases : sequence of claims
    groups : mapping
        Whether a claim belongs to the group, by the group's name.
    cite : str
        The name under which docs cite the table.
    """
    if not cases:
        return [NotRun(subject, "They have no results yet.", "python -m validation honesty --full")]
    rows: list[list[Any]] = []
    counts: dict[Group, Counted] = {}
    for name, holds in {"all": lambda _: True, **groups}.items():
        members = [case for case in cases if holds(case)]
        counted = counts[Group(subject, name)] = count(case.judged for case in members)
        short = sum(case.claimed > case.rtol for case in members)
        rows.append([name, counted.claims, short, counted.outside, counted.percent,
                     counted.percent_interval, counted.median])  # fmt: skip
    return [
        Table(
            f"{subject} outside their claimed errors",
            ["group", "claims", "tolerance not met", "outside", "outside, %", "95 % interval, %",
             MEDIAN],
            rows,
            cite=cite,
        ),
        every_group_check(f"{subject}, {kind}", counts),
    ]  # fmt: skip


def answer(subject: str, cases: Sequence[Claim]) -> str:
    """Return the sentence that opens a section."""
    counted = count(case.judged for case in cases)
    if not counted.claims:
        return NOT_YET
    return f"{subject}: {counted} outside, where 1 % is promised."
