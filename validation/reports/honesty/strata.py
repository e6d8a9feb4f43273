"""Claims about independent random problems, by regime and dimension; a part of honesty."""

from __future__ import annotations

from typing import Any, NamedTuple

import mvnorth
from validation.problems import strata
from validation.reports.runs import Judgement, Known, Run, judge
from validation.running import Task

COUNTS = {"small": 2, "quick": 12, "full": 320}  # problems of a stratum
MORE = {"deep tail": 3}  # times as many at full scale, where plain Genz is known to fail
_AT_ONCE = {"small": 2, "quick": 12, "full": 40}  # of a task
_POINTS = 1024
METHODS: dict[str, dict[str, Any]] = {
    "auto": {"rtol": 1e-3},
    "auto, 1024 points": {"n": _POINTS},
    "tilting": {"method": "tilting", "n": _POINTS},
    "genz": {"method": "genz", "n": _POINTS},
}


class Claim(NamedTuple):
    """One call on one problem of a stratum, and the truth."""

    regime: str
    size: str
    seed: int
    family: str
    d: int
    truth: float
    truth_error: float
    method: str
    log_prob: float
    claimed: float
    used: str

    @property
    def judged(self) -> Judgement:
        run = Run(self.method, None, self.seed, self.log_prob, self.claimed, self.used, 0)
        return judge(run, Known("", self.d, frozenset(), self.truth, self.truth_error, []))


def tasks(scale: str) -> list[Task]:
    at_once = _AT_ONCE[scale]
    return [
        Task(
            f"strata, {regime}, {size}, from {first}",
            random_claims,
            {"regime": regime, "size": size, "first": first, "count": at_once},
        )
        for regime in strata.REGIMES
        for size in strata.SIZES
        for first in range(0, problems_of(scale, regime), at_once)
    ]


def problems_of(scale: str, regime: str) -> int:
    """Return the number of problems of each stratum of a regime."""
    return COUNTS[scale] * (MORE.get(regime, 1) if scale == "full" else 1)


def random_claims(regime: str, size: str, first: int, count: int) -> list[Claim]:
    """Return what every method claims on random problems of a stratum."""
    claims: list[Claim] = []
    for seed in range(first, first + count):
        problem = strata.draw(regime, size, seed)
        known = (problem.source, problem.upper.size, problem.log_prob, problem.log_error)
        limits = (problem.lower, problem.upper, 0.0, problem.cov)
        for method, options in METHODS.items():
            result = mvnorth.box(*limits, seed=seed, **options)
            run = (method, result.log_prob, result.rel_error, result.method)
            claims.append(Claim(regime, size, seed, *known, *run))
    return claims
