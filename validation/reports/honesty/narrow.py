"""Errors and bounds for narrow boxes of nearly singular covariances; a part of honesty."""

from __future__ import annotations

from typing import Any, NamedTuple

import mvnorth
from validation.oracles import factor_boxes
from validation.page import Check, Section, Table, Text
from validation.page.content import Part
from validation.problems.narrow_boxes import narrow_boxes
from validation.reports import Results
from validation.reports.honesty.counts import Group, count, every_group_check
from validation.reports.parts import NOT_YET
from validation.reports.runs import Judgement, Known, Run, judge
from validation.running import Task

_COUNTS = {"small": 6, "quick": 100, "full": 1000}
_PARTS = {"small": 1, "quick": 4, "full": 20}
_FAMILIES = {
    "one factor": (1, False),
    "two factors": (2, False),
    "one factor as c and v": (1, True),
}
_METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "tilting": {"method": "tilting", "n": 1024},
    "genz": {"method": "genz", "n": 1024},
}
_TRUTH = 1e-12  # relative error of the rule in 60 digits
_ROUNDED = 2.3e-16  # of the logarithm, which is stored in double precision


class Narrow(NamedTuple):
    """One call of mvnorth and the truth."""

    family: str
    d: int
    truth: float
    method: str
    log_prob: float
    claimed: float
    log_bound: float

    @property
    def truth_error(self) -> float:
        return _TRUTH + _ROUNDED * abs(self.truth)

    @property
    def judged(self) -> Judgement:
        run = Run(self.method, None, 0, self.log_prob, self.claimed, "", 0)
        known = Known("", self.d, frozenset(), self.truth, self.truth_error, [])
        return judge(run, known)

    @property
    def is_below(self) -> bool:
        """Whether the truth is above its upper bound."""
        return not self.truth <= self.log_bound + self.truth_error


def tasks(scale: str) -> list[Task]:
    count = _COUNTS[scale] // _PARTS[scale]
    return [
        Task(f"narrow boxes, {family}, part {k + 1}", narrow, {"family": family, "count": count,
                                                               "seed": k})
        for family in _FAMILIES
        for k in range(_PARTS[scale])
    ]  # fmt: skip


def narrow(family: str, count: int, seed: int) -> list[list[Any]]:
    """Every method on random boxes of a family: rows of ``Narrow``."""
    factors, given = _FAMILIES[family]
    found: list[list[Any]] = []
    for box in narrow_boxes(factors, count, seed):
        truth = float(factor_boxes.log_prob(*box))
        cov = mvnorth.OneFactor(box.c, box.V[:, 0]) if given else box.cov
        for method, options in _METHODS.items():
            result = mvnorth.box(box.lower, box.upper, 0.0, cov, **options)
            run = (result.log_prob, result.rel_error, result.log_bound)
            found.append([family, box.c.size, truth, method, *run])
    return found


def section(results: Results) -> Section:
    runs = [
        Narrow(*row)
        for name, value in results.items()
        if name.startswith("narrow boxes, ")
        for row in value
    ]
    if not runs:
        return Section("Narrow boxes", [], NOT_YET)
    groups = {
        Group(method, family): [run for run in runs if (run.family, run.method) == (family, method)]
        for family in _FAMILIES
        for method in _METHODS
    }
    counts = {group: count(run.judged for run in own) for group, own in groups.items()}
    below = {group: sum(run.is_below for run in own) for group, own in groups.items()}
    rows = [
        [group.stratum, group.method, c.claims, c.outside, c.percent, c.percent_interval,
         below[group]]
        for group, c in counts.items()
    ]  # fmt: skip
    total = sum(below.values())
    failures = [
        [run.family, run.method, run.d, run.truth, run.log_prob, run.claimed, run.log_bound]
        for run in runs
        if run.judged.verdict == "outside" or run.is_below
    ]
    parts: list[Part] = [
        Text(
            "Random boxes of 2 to 6 coordinates whose covariance diag(c) + V V^T is nearly "
            "singular: own variances from 1e-10 to 1e-5, half widths from 1e-13 to 1e-6 "
            "deviations, log P from -10 to -1e6. Here rounding is what errors consist of, that of "
            "limits, of the covariance and of its factor. The truth is an integral over the "
            "factors in 60-digit arithmetic. With `auto` the tolerance is the default, with the "
            "others there are 1024 points."
        ),
        Table(
            "Narrow boxes outside their claimed errors",
            ["family", "method", "claims", "outside", "outside, %", "95 % interval, %",
             "bounds below the truth"],
            rows,
        ),
        every_group_check("Narrow boxes", counts),
        Check(
            "`log_bound` is never below the truth.",
            total == 0,
            f"It is in {total} of {len(runs)} runs.",
        ),
        Table(
            "All narrow boxes outside, or above their bound",
            ["family", "method", "d", "log P", "estimate", "claimed", "bound"],
            failures,
        ),
    ]  # fmt: skip
    everything = count(run.judged for run in runs)
    answer = (
        f"Where rounding is all of the error, {everything} of the claims are outside, and "
        f"{total} of {len(runs)} upper bounds are below the truth."
    )
    return Section("Narrow boxes", parts, answer)
