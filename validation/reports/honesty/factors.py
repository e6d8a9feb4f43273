"""Errors for random covariances with two or three common factors; a part of honesty."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from validation.oracles import common_factors
from validation.oracles.one_dimension import FloatArray, one_factor_logprob, two_factor_logprob
from validation.page import Section, Table, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.honesty import claims
from validation.reports.runs import Judgement
from validation.running import Task

_COUNTS = {"small": 8, "quick": 96, "full": 800}
_PARTS = {"small": 1, "quick": 4, "full": 10}
_TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-8)
_LEAST_OWN, _MOST_OWN = 0.05, 0.8  # of a coordinate's variance
# Three factors without structure take a rule in three variables: few coordinates, and this step.
_LEAST_OWN_OF_THREE, _STEP_OF_THREE = 0.3, 0.22
_ROUNDING = 1e-12  # relative error of the truth beside what its rule reports

_TURNED, _BLOCKS, _TWO, _GENERAL = "one factor, turned", "blocks, turned", "rank two", "any"
# The shape of V and its columns; those with a cheap truth are there more than once.
_SHAPES = (
    (_TURNED, 2), (_TURNED, 3), (_BLOCKS, 2), (_BLOCKS, 3),
    (_GENERAL, 2), (_TURNED, 3), (_BLOCKS, 3), (_TWO, 3),
    (_TURNED, 2), (_BLOCKS, 3), (_BLOCKS, 2), (_TURNED, 3),
    (_GENERAL, 2), (_BLOCKS, 3), (_TURNED, 3), (_GENERAL, 3),
)  # fmt: skip


class Problem(NamedTuple):
    """A box, with c and V, and log P."""

    lower: FloatArray
    upper: FloatArray
    c: FloatArray
    V: FloatArray
    truth: float
    truth_error: float


class Case(NamedTuple):
    """One call, and the truth."""

    shape: str
    k: int
    d: int
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
    "two columns": lambda c: c.k == 2,
    "three columns": lambda c: c.k == 3,
    **{
        f"V: {shape}": lambda c, shape=shape: c.shape == shape  # type: ignore[misc]
        for shape in (_TURNED, _BLOCKS, _TWO, _GENERAL)
    },
    "orthants": lambda c: not c.is_box,
    "boxes": lambda c: c.is_box,
    "log P above -5": lambda c: c.truth > -5,
    "-5 to -20": lambda c: -20 < c.truth <= -5,
    "below -20": lambda c: c.truth <= -20,
}


def tasks(scale: str) -> list[Task]:
    count = _COUNTS[scale] // _PARTS[scale]
    return [
        Task(f"factors, part {part + 1}", random_boxes, {"first": part * count, "count": count})
        for part in range(_PARTS[scale])
    ]


def random_boxes(first: int, count: int) -> list[list[Any]]:
    """Random orthants and boxes at several tolerances: rows of ``Case``."""
    rows: list[list[Any]] = []
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        shape, k = _SHAPES[seed % len(_SHAPES)]
        is_box = bool(rng.random() < 0.5)
        problem = random_problem(rng, shape, k, is_box)
        known = (problem.truth, problem.truth_error)
        cov = mvnorth.Factors(problem.c, problem.V)
        for rtol in _TOLERANCES:
            result = mvnorth.box(
                problem.lower, problem.upper, 0.0, cov, rtol=rtol, method="factors"
            )
            run = (rtol, result.log_prob, result.rel_error)
            rows.append([shape, k, problem.c.size, is_box, *known, *run])
    return rows


def random_problem(rng: np.random.Generator, shape: str, k: int, is_box: bool) -> Problem:
    """Return a box of unit variances, ordinary or in a tail, and its probability.

    V is turned by a random rotation, which does not change the covariance: a single factor, or
    blocks with a factor each, become k dense columns, and the truth is known from integrals
    over one variable.
    """
    is_three = shape == _GENERAL and k == 3
    d = int(rng.choice((4, 5) if is_three else (4, 6, 10, 20)))
    least = _LEAST_OWN_OF_THREE if is_three else _LEAST_OWN
    c = np.exp(rng.uniform(math.log(least), math.log(_MOST_OWN), d))
    upper = rng.normal(rng.choice([2.0, 0.5, -2.5]), 0.7, d)
    lower = upper - rng.uniform(0.5, 4.0, d) if is_box else np.full(d, -np.inf)
    rotation = np.linalg.qr(rng.normal(size=(k, k)))[0]
    if shape in (_TURNED, _BLOCKS):
        v = rng.choice([-1.0, 1.0], d) * np.sqrt(1.0 - c)
        block = np.arange(d) % (1 if shape == _TURNED else k)
        V = v[:, None] * rotation[block]
        parts = [
            one_factor_logprob(lower[own], upper[own], c[own], v[own])
            for own in (block == j for j in range(block.max() + 1))
        ]
    elif is_three:
        V, _ = common_factors.random_factors(rng, c, 3)
        parts = [(common_factors.log_prob(upper, c, V, _STEP_OF_THREE, lower), 0.0)]
    else:
        loadings, _ = common_factors.random_factors(rng, c, 2)
        parts = [two_factor_logprob(lower, upper, c, loadings)]
        V = loadings @ rotation[:2]
    log_prob, error = (float(sum(values)) for values in zip(*parts, strict=True))
    return Problem(lower, upper, c, V, log_prob, error + _ROUNDING)


def section(results: Results) -> Section:
    cases = [Case(*row) for row in claims.rows_of(results, "factors, ")]
    failures = [
        [c.shape, c.k, c.d, c.truth, c.rtol, c.claimed, c.judged.true]
        for c in cases
        if c.judged.verdict == "outside"
    ]
    parts: list[Part] = [
        Text(
            "Random orthants and boxes of `Factors(c, V)` with two and three columns, by "
            '`method="factors"` with a tolerance. A coordinate\'s own share of its variance is '
            f"from {_LEAST_OWN:g} to {_MOST_OWN:g}. V is turned by a random rotation, which does "
            "not change the probability: one factor, and blocks with a factor each, are "
            "integrals over one variable, rank two is one over two. Three factors of any kind "
            f"(at most five coordinates, own shares from {_LEAST_OWN_OF_THREE:g}) are integrated "
            "by the trapezoidal rule. None of these truths is computed by mvnorth."
        ),
        *claims.count_by_group(
            "Several factors", "random boxes", cases, _GROUPS, cite="honesty-factors"
        ),
        Table(
            "All boxes with several factors outside",
            ["V", "columns", "d", "log P", "rtol", "claimed", "true"],
            failures,
        ),
    ]
    return Section("Several common factors", parts, claims.answer("Several factors", cases))
