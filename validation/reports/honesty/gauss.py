"""Errors of Gauss rules for random correlations with two common factors; a part of honesty.

Every other problem of up to eight coordinates is a box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from validation.oracles import common_factors
from validation.page import Section, Table, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.honesty import claims
from validation.reports.runs import Judgement
from validation.running import Task

_COUNTS = {"small": 8, "quick": 400, "full": 1000}
_PARTS = {"small": 1, "quick": 4, "full": 5}
_DIMENSIONS = (4, 5, 6, 7, 8, 9, 10, 15, 20)
_BOXES = 8  # coordinates up to which there are boxes
_LEAST_WIDTH, _MOST_WIDTH = 0.3, 10.0  # of intervals
_ONE_SIDED = 0.25  # share of the coordinates of a box that have no lower limit
_TOLERANCES = (1e-3, 1e-4, 1e-6, 1e-8)
_LEAST_OWN, _MOST_OWN = 0.02, 0.8  # of a coordinate's variance
_STEP = 0.1  # of the rule that gives the truth
_TRUTH = 1e-12  # its relative error


class Case(NamedTuple):
    """One call, and the truth."""

    d: int
    condition: float
    truth: float
    rtol: float
    log_prob: float
    claimed: float
    is_box: bool = False

    @property
    def judged(self) -> Judgement:
        return claims.compare(self.log_prob, self.claimed, self.truth, _TRUTH)


_GROUPS: dict[str, Callable[[Case], bool]] = {
    "orthants": lambda c: not c.is_box,
    "boxes": lambda c: c.is_box,
    **{f"rtol = {rtol:.0e}": lambda c, rtol=rtol: c.rtol == rtol for rtol in _TOLERANCES},  # type: ignore[misc]
    **{f"d = {d}": lambda c, d=d: c.d == d for d in _DIMENSIONS},  # type: ignore[misc]
    "condition below 10": lambda c: c.condition < 10,
    "10 to 100": lambda c: 10 <= c.condition < 100,
    "above 100": lambda c: c.condition >= 100,
    "log P above -5": lambda c: c.truth > -5,
    "-5 to -20": lambda c: -20 < c.truth <= -5,
    "below -20": lambda c: c.truth <= -20,
}


def tasks(scale: str) -> list[Task]:
    count = _COUNTS[scale] // _PARTS[scale]
    return [
        Task(f"gauss, part {k + 1}", random_problems, {"count": count, "seed": k})
        for k in range(_PARTS[scale])
    ]


def random_problems(count: int, seed: int) -> list[list[Any]]:
    """Return random orthants and boxes at several tolerances: rows of ``Case``."""
    rng = np.random.default_rng(seed)
    rows: list[list[Any]] = []
    for k in range(count):
        d = _DIMENSIONS[k % len(_DIMENSIONS)]
        c = np.exp(rng.uniform(math.log(_LEAST_OWN), math.log(_MOST_OWN), d))
        V, cov = common_factors.random_factors(rng, c, 2)
        b = rng.normal(rng.choice([1.0, -0.5, -3.0]), 0.7, d)
        is_box = d <= _BOXES and k // len(_DIMENSIONS) % 2 == 1
        lower = np.full(d, -np.inf)
        if is_box:
            width = np.exp(rng.uniform(math.log(_LEAST_WIDTH), math.log(_MOST_WIDTH), d))
            lower = np.where(rng.uniform(size=d) < _ONE_SIDED, -np.inf, b - width)
        truth = common_factors.log_prob(b, c, V, _STEP, lower)
        for rtol in _TOLERANCES:
            result = mvnorth.box(lower, b, 0.0, cov, rtol=rtol, method="gauss")
            run = (rtol, result.log_prob, result.rel_error)
            rows.append([d, float(np.linalg.cond(cov)), truth, *run, is_box])
    return rows


def section(results: Results) -> Section:
    cases = [Case(*row) for row in claims.rows_of(results, "gauss, ")]
    failures = [
        [c.d, c.is_box, c.condition, c.truth, c.rtol, c.claimed, c.judged.true]
        for c in cases
        if c.judged.verdict == "outside"
    ]
    parts: list[Part] = [
        Text(
            "Random orthants and boxes with two common factors, a coordinate's own share of its "
            f"variance from {_LEAST_OWN:g} to {_MOST_OWN:g}, by Gauss rules with a tolerance. "
            "The truth is an integral over the factors by the trapezoidal rule. Runs "
            "that do not reach their tolerance, where `auto` goes on to sampling, are counted "
            "with the error that they claim."
        ),
        *claims.count_by_group(
            "Gauss rules", "random problems", cases, _GROUPS, cite="gauss-honesty"
        ),
        Table(
            "All that were outside",
            ["d", "box", "condition", "log P", "rtol", "claimed", "true"],
            failures,
        ),
    ]
    return Section("Gauss rules", parts, claims.answer("Gauss rules", cases))
