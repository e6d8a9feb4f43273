"""Counts of claimed errors by group, for families of random problems; a part of honesty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from validation.page import Check, Table
from validation.page.content import Part
from validation.reports import Results
from validation.reports.runs import PROMISE, Judgement, Known, Run, interval, judge


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
    subject: str, kind: str, cases: Sequence[C], groups: Mapping[str, Callable[[C], bool]]
) -> list[Part]:
    """Return a table of claims and how many are outside, by group, and the check of all of them.

    Parameters
    ----------
    subject : str
        The method, which titles start with.
    kind : str
        The problems, for the check.
    cases : sequence of claims
    groups : mapping
        Whether a claim belongs to the group, by the group's name.
    """
    rows: list[list[Any]] = []
    for name, holds in {"all": lambda _: True, **groups}.items():
        members = [case for case in cases if holds(case)]
        claims = [j for j in (case.judged for case in members) if j.verdict != "none"]
        outside = sum(j.verdict == "outside" for j in claims)
        low, high = interval(outside, len(claims))
        share = float(np.median([j.ratio for j in claims])) if claims else None
        percent = 100 * outside / len(claims) if claims else None
        short = sum(case.claimed > case.rtol for case in members)
        rows.append([name, len(members), len(members) - len(claims), short, outside, percent,
                     100 * low, 100 * high, share])  # fmt: skip
    _, total, none, _, outside, _, low, high, _ = rows[0]
    return [
        Table(
            f"{subject} outside their claimed errors",
            ["group", "runs", "no claim", "tolerance not met", "outside", "outside, %", "from, %",
             "to, %", "median share"],
            rows,
        ),
        Check(
            f"{subject}, {kind}: at most 1 % of the runs are outside their claimed "
            "error; that is, the interval of their share does not lie above 1 %.",
            low <= 100 * PROMISE and none < total,
            f"{outside} of {total - none}, from {low:.2f} to {high:.2f} %.",
        ),
    ]  # fmt: skip
