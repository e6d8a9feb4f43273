"""Counts of claims inside and outside, and whether a group of them is honest; a part of honesty.

A group of claims is dishonest if its share outside is above the promise of 1 % beyond chance: the
one-sided lower bound of Clopper and Pearson is above 1 %, at a level of 5 % divided by the number
of groups looked at together (Bonferroni), so that all of them together raise a false alarm in one
run of twenty at most. It is honest if the upper end of its 95 % interval is at 1 % or below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import beta

from validation.page import Check, Table
from validation.reports.runs import PROMISE, Judgement, interval

Honesty: TypeAlias = Literal["dishonest", "honest", "not decided"]
FAMILY_LEVEL = 0.05  # chance of a false alarm among all groups that are looked at together
MEDIAN = "median of true over claimed"


class Counted(NamedTuple):
    """Runs of a group, by verdict, with an interval for the share outside."""

    runs: int
    outside: int
    open: int
    none: int
    median: float

    @property
    def claims(self) -> int:
        return self.runs - self.none

    @property
    def share(self) -> float:
        return self.outside / self.claims if self.claims else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        return interval(self.outside, self.claims)

    def lower_bound(self, tests: int) -> float:
        """Return the one-sided lower bound of the share, corrected for ``tests`` groups."""
        if not self.outside:
            return 0.0
        level = FAMILY_LEVEL / tests
        return float(beta.ppf(level, self.outside, self.claims - self.outside + 1))

    def honesty(self, tests: int) -> Honesty:
        if self.lower_bound(tests) > PROMISE:
            return "dishonest"
        return "honest" if self.interval[1] <= PROMISE else "not decided"

    @property
    def percent(self) -> float | None:
        return 100 * self.share if self.claims else None

    @property
    def percent_interval(self) -> str:
        low, high = self.interval
        return f"{100 * low:.2f} to {100 * high:.2f}"

    def __str__(self) -> str:
        if not self.claims:
            return "no claims"
        return (
            f"{self.outside} of {self.claims}, {100 * self.share:.2f} % ({self.percent_interval})"
        )


def count(judged: Iterable[Judgement]) -> Counted:
    """Return the counts of judgements."""
    judged = list(judged)
    verdicts = [j.verdict for j in judged]
    ratios = [j.ratio for j in judged if j.verdict != "none"]
    outside, undecided, none = (verdicts.count(v) for v in ("outside", "open", "none"))
    median = float(np.median(ratios)) if ratios else math.nan
    return Counted(len(judged), outside, undecided, none, median)


class Group(NamedTuple):
    """A method and a stratum; also the key of the table of known dishonesty."""

    method: str
    stratum: str

    def __str__(self) -> str:
        return f"`{self.method}`, {self.stratum}"


Groups: TypeAlias = Mapping[Group, Counted]


def groups_table(title: str, groups: Groups, tests: int, note: str = "", cite: str = "") -> Table:
    """Return a table of groups with intervals and verdicts; groups without claims are left out."""
    rows: list[list[Any]] = [
        [group.method, group.stratum, counted.claims, counted.outside, counted.percent,
         counted.percent_interval, counted.honesty(tests)]
        for group, counted in groups.items()
        if counted.claims
    ]  # fmt: skip
    header = ["method", "stratum", "claims", "outside", "outside, %", "95 % interval, %", "verdict"]
    return Table(title, header, rows, note, cite)


def dishonest(groups: Groups, tests: int) -> list[Group]:
    """Return the groups whose share outside is above the promise beyond chance."""
    return [group for group, counted in groups.items() if counted.honesty(tests) == "dishonest"]


def every_group_check(subject: str, groups: Groups) -> Check:
    """Return the check that no group of claims is dishonest, for subjects without exceptions."""
    with_claims = {group: counted for group, counted in groups.items() if counted.claims}
    tests = max(1, len(with_claims))
    failing = dishonest(with_claims, tests)
    worst = max(with_claims, key=lambda group: with_claims[group].lower_bound(tests), default=None)
    text = "No claims." if worst is None else f"The worst, {worst}: {with_claims[worst]}."
    return Check(
        f"{subject}: at most 1 % of the claims are outside, in each of {len(with_claims)} groups; "
        f"that is, no one-sided lower bound at {FAMILY_LEVEL:g}/{tests} is above 1 %.",
        bool(with_claims) and not failing,
        text + "".join(f" Not: {group}." for group in failing),
    )


def names(groups: Sequence[Group]) -> str:
    return "; ".join(map(str, groups)) or "none"
