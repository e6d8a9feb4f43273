"""Runs of mvnorth on problems with known answers, and what they say: shared by reports."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

import mvnorth
from validation import problems
from validation.problems import Problem
from validation.reports import families

PROMISE = 0.01  # share of runs that may be further off than they claim
SAMPLED = ("genz", "tilting")
STRUCTURED = {"structured genz": "genz", "structured tilting": "tilting"}


class Run(NamedTuple):
    """One call of mvnorth.

    ``n`` is what was asked for, None for a tolerance; ``claimed`` the bound on the relative error
    that was reported, infinite where nothing was known; ``used`` the method it took.
    """

    method: str
    n: int | None
    seed: int
    log_prob: float
    claimed: float
    used: str
    points: int


class Plan(NamedTuple):
    """Calls to make: a method, points (None: a tolerance), how many seeds, further arguments."""

    method: str
    n: int | None
    seeds: int
    options: Mapping[str, Any] = {}


class Known(NamedTuple):
    """A problem's answer and all runs of it."""

    name: str
    d: int
    tags: frozenset[str]
    log_prob: float
    log_error: float
    runs: list[Run]


def over(names: Sequence[str], plans: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Do all plans for all problems; a task. Names are the table's, or those of ``families``."""
    done = []
    for name in names:
        problem, cov = find(name)
        runs: list[Run] = []
        for plan in (Plan(*each) for each in plans):
            applies = plan.method not in STRUCTURED or isinstance(cov, mvnorth.OneFactor)
            if applies:
                runs += [call(problem, cov, plan, seed) for seed in range(plan.seeds)]
        tags = sorted(problem.tags)
        done.append(
            [name, problem.upper.size, tags, problem.log_prob, problem.log_error, runs],
        )
    return done


def find(name: str) -> tuple[Problem, Any]:
    """A problem by its name, and its covariance in the form in which mvnorth gets it."""
    if name.startswith(families.FACTORED):
        return families.factored(name)
    problem = problems.named(name)
    return problem, problem.cov


def call(problem: Problem, cov: Any, plan: Plan, seed: int) -> Run:
    """One run of a plan."""
    method = STRUCTURED.get(plan.method, plan.method)
    if plan.method not in STRUCTURED:
        cov = problem.cov
    result = mvnorth.box(
        problem.lower, problem.upper, 0.0, cov, plan.n, method=method, seed=seed, **plan.options
    )
    return Run(
        plan.method, plan.n, seed, result.log_prob, result.rel_error, result.method, result.n
    )


def known(values: Iterable[Any]) -> list[Known]:
    """The problems of what ``over`` returned, by way of JSON."""
    return [
        Known(name, d, frozenset(tags), log_prob, log_error, [Run(*run) for run in runs])
        for value in values
        for name, d, tags, log_prob, log_error, runs in value
    ]


def relative_error(run: Run, problem: Known) -> float:
    """|estimate / truth - 1|, or 1e300 where that is beyond all numbers."""
    difference = run.log_prob - problem.log_prob
    return abs(math.expm1(difference)) if difference < 690.0 else 1e300


def rms(errors: Iterable[float]) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(list(errors)))))


def rate(n: Sequence[float], error: Sequence[float]) -> float | None:
    """The slope of log error against log n by least squares; None without two errors > 0."""
    good = [(a, b) for a, b in zip(n, error, strict=True) if b > 0 and math.isfinite(b)]
    if len(good) < 2:
        return None
    x, y = np.log(np.array(good)).T
    return float(np.polyfit(x, y, 1)[0])


class Judgement(NamedTuple):
    """A run's true error beside the claimed one.

    ``verdict`` is "inside", "outside", "none" (nothing was claimed) or "open": the answer itself
    is not known well enough. ``true`` is |truth / estimate - 1|, which the claim is about, moved
    towards the estimate by the error of the truth.
    """

    verdict: str
    true: float
    claimed: float

    @property
    def ratio(self) -> float:
        return self.true / self.claimed


def judge(run: Run, problem: Known) -> Judgement:
    """Whether the true error is inside the claimed one, whatever the truth's own error is."""
    if math.isinf(run.claimed):
        return Judgement("none", math.nan, run.claimed)
    apart = abs(problem.log_prob - run.log_prob)
    sign = 1.0 if problem.log_prob > run.log_prob else -1.0
    least, most = (
        abs(math.expm1(min(sign * max(apart + error, 0.0), 690.0)))
        for error in (-problem.log_error, problem.log_error)
    )
    if not least <= run.claimed:  # NaN is outside
        return Judgement("outside", least, run.claimed)
    return Judgement("inside" if most <= run.claimed else "open", least, run.claimed)


def interval(outside: int, claims: int) -> tuple[float, float]:
    """Clopper and Pearson's interval at 95 % for a share; all of [0, 1] if there are no claims."""
    if not claims:
        return 0.0, 1.0
    found = binomtest(outside, claims).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)


def dimension(name: str) -> int:
    """That of a problem, which its name ends in."""
    found = re.search(r"\d+$", name)
    assert found is not None
    return int(found[0])
