"""Errors of Student t probabilities of random one-factor problems; a part of honesty."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from validation.oracles import student
from validation.page import Section, Table, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.honesty import claims
from validation.reports.runs import Judgement
from validation.running import Task

_COUNTS = {"small": 6, "quick": 96, "full": 800}
_PARTS = {"small": 1, "quick": 4, "full": 10}
_DIMENSIONS = range(1, 7)
_LEAST_DF, _MOST_DF = 0.5, 200.0
_TOLERANCES = (1e-3, 1e-4, 1e-6, 1e-8)


class Case(NamedTuple):
    """One call, and the truth."""

    d: int
    df: float
    is_box: bool
    truth: float
    truth_error: float
    rtol: float
    log_prob: float
    claimed: float

    @property
    def judged(self) -> Judgement:
        return claims.compare(self.log_prob, self.claimed, self.truth, self.truth_error)


_GROUPS: dict[str, Callable[[Case], bool]] = {
    **{f"rtol = {rtol:.0e}": lambda c, rtol=rtol: c.rtol == rtol for rtol in _TOLERANCES},  # type: ignore[misc]
    **{f"d = {d}": lambda c, d=d: c.d == d for d in _DIMENSIONS},  # type: ignore[misc]
    "df below 2": lambda c: c.df < 2,
    "2 to 20": lambda c: 2 <= c.df < 20,
    "above 20": lambda c: c.df >= 20,
    "one-sided": lambda c: not c.is_box,
    "two-sided": lambda c: c.is_box,
    "log P above -5": lambda c: c.truth > -5,
    "-5 to -20": lambda c: -20 < c.truth <= -5,
    "below -20": lambda c: c.truth <= -20,
}


def tasks(scale: str) -> list[Task]:
    count = _COUNTS[scale] // _PARTS[scale]
    return [
        Task(f"student, part {part + 1}", random_boxes, {"first": part * count, "count": count})
        for part in range(_PARTS[scale])
    ]


def random_boxes(first: int, count: int) -> list[list[Any]]:
    """Random one- and two-sided limits at several tolerances: rows of ``Case``."""
    rows: list[list[Any]] = []
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        d = _DIMENSIONS[seed % len(_DIMENSIONS)]
        df = math.exp(rng.uniform(math.log(_LEAST_DF), math.log(_MOST_DF)))
        c, v = rng.uniform(0.2, 1.0, d), rng.normal(size=d)
        upper = rng.normal(rng.choice([-2.0, 0.0, 2.0]), 1.0, d) * math.exp(rng.uniform(-1.0, 2.0))
        is_box = bool(rng.random() < 0.5)
        lower = upper - rng.uniform(0.5, 4.0, d) if is_box else np.full(d, -np.inf)
        known = student.log_prob(lower, upper, c, v, df)
        for rtol in _TOLERANCES:
            result = mvnorth.box(lower, upper, 0.0, mvnorth.OneFactor(c, v), df=df, rtol=rtol)
            rows.append([d, df, is_box, *known, rtol, result.log_prob, result.rel_error])
    return rows


def section(results: Results) -> Section:
    cases = [Case(*row) for row in claims.rows_of(results, "student, ")]
    failures = [
        [c.d, c.df, c.truth, c.rtol, c.claimed, c.judged.true]
        for c in cases
        if c.judged.verdict == "outside"
    ]
    parts: list[Part] = [
        Text(
            f"Random one-factor problems with up to {_DIMENSIONS[-1]} coordinates, one- and "
            f"two-sided limits, and df from {_LEAST_DF:g} to {_MOST_DF:g}, with a tolerance. "
            "The truth is an integral over the chi variable and the factor by the "
            "trapezoidal rule, which is not computed by mvnorth."
        ),
        *claims.count_by_group(
            "Student t probabilities", "random boxes", cases, _GROUPS, cite="honesty-student"
        ),
        Table(
            "All Student t probabilities outside",
            ["d", "df", "log P", "rtol", "claimed", "true"],
            failures,
        ),
    ]
    return Section("Student t", parts, claims.answer("Student t probabilities", cases))
