"""Closed forms, quadrature and chains against 40 digits; a part of accuracy."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mpf

import mvnorth
from validation.oracles import exact
from validation.page import Check, Finding, Section, Table, Text
from validation.problems import REFERENCE
from validation.reports import Results
from validation.running import Task

_COUNT = {"small": 1, "quick": 5, "full": 40}
_PARTS = {"small": 1, "quick": 1, "full": 4}


class _Class(NamedTuple):
    """What is drawn, what solves it and the error of log P over max(1, |log P|) it may have."""

    method: str
    oracle: str
    allowed: float
    share: float = 1.0  # of the problems of a run: 40 digits of some take longer


# Allowed is more than what docs/ give for each method, and ten times or more what eight draws of
# each class showed when this was written.
_CLASSES = {
    "one coordinate, box": _Class("closed_form", "erfc, 40 digits", 2e-15),
    "two, limits N(0, 1)": _Class("closed_form", "integral, 40 digits", 3e-15),
    "two, 1 - |rho| from 1e-2 to 1e-6": _Class("closed_form", "integral, 40 digits", 3e-15),
    "two, limits -5 to -30": _Class("closed_form", "integral, 40 digits", 3e-15),
    "three, limits N(0, 1)": _Class("closed_form", "Plackett, 40 digits", 2e-14),
    "three, limits -2 to -6": _Class("closed_form", "Plackett, 40 digits", 2e-14),
    "one factor, box, d = 4": _Class("quadrature", "integral, 40 digits", 1e-13, 0.3),
    "chain of three": _Class("markov", "Plackett, 40 digits", 3e-14),
    "walk below zero, d to 1000": _Class("markov", "C(2d, d)/4^d", 1e-13, 0.5),
}
_STORED = _Class("quadrature", "stored, 40 digits", 1e-13)


def tasks(scale: str) -> list[Task]:
    found = []
    for name, own in _CLASSES.items():
        count = math.ceil(_COUNT[scale] * own.share / _PARTS[scale])
        found += [
            Task(f"exact, {name}, part {k + 1}", compare, {"name": name, "count": count, "seed": k})
            for k in range(_PARTS[scale])
        ]
    return [*found, Task("exact, stored", compare_stored, {})]


def compare(name: str, count: int, seed: int) -> list[list[float]]:
    """(log P, error of log P, claimed relative error) of each problem of a class."""
    rng = np.random.default_rng([seed, len(name)])
    found = []
    for number in range(count):
        result, truth = _draw(name, rng, number)
        found.append(_row(result, truth))
    return found


def _row(result: Any, truth: mpf) -> list[float]:
    with mpmath.workdps(40):
        off = float(mpf(result.log_prob) - truth)
    return [float(truth), off, result.rel_error]


def _draw(name: str, rng: np.random.Generator, number: int) -> tuple[Any, mpf]:
    """What mvnorth says of a problem, and the truth."""
    if name.startswith("one coordinate"):
        low, high = np.sort(rng.choice([1.0, 5.0, 12.0]) * rng.normal(size=2))
        result = mvnorth.box(low, high, 0.0, [[1.0]], method="closed_form")
        side = (low, high) if low + high < 0 else (-high, -low)  # the tail that does not cancel
        with mpmath.workdps(60):
            root = mpmath.sqrt(2)
            ends = [mpmath.erfc(-mpf(float(x)) / root) for x in side]
            return result, mpmath.log((ends[1] - ends[0]) / 2)
    if name.startswith("two"):
        rho = rng.uniform(-0.99, 0.99)
        limits = rng.normal(size=2)
        if "rho" in name:
            rho = math.copysign(1 - 10 ** rng.uniform(-6, -2), rho)
            limits = np.abs(limits) if rho < 0 else limits  # or P may be too small to be of use
        elif "-30" in name:
            limits, rho = -rng.uniform(5, 30, size=2), rng.uniform(-0.8, 0.95)
        pair = [[1.0, rho], [rho, 1.0]]
        result = mvnorth.box(-np.inf, limits, 0.0, pair, method="closed_form")
        h, k = limits.tolist()
        return result, _log(exact.bivariate_prob(h, k, rho))
    if name.startswith("three") or name.startswith("chain"):
        limits = -rng.uniform(2, 6, size=3) if "-6" in name else rng.normal(size=3)
        if name.startswith("chain"):
            a, b = rng.uniform(-0.8, 0.8, size=2)
            cov = np.array([[1.0, a, a * b], [a, 1.0, b], [a * b, b, 1.0]])
        else:
            x = rng.normal(size=(3, 5))
            x /= np.linalg.norm(x, axis=1)[:, None]
            cov = np.abs(x) @ np.abs(x).T if "-6" in name else x @ x.T
            np.fill_diagonal(cov, 1.0)
        method = "markov" if name.startswith("chain") else "closed_form"
        result = mvnorth.box(-np.inf, limits, 0.0, cov, method=method)
        return result, _log(exact.trivariate_prob(limits, cov))
    if name.startswith("walk"):
        d = (8, 50, 200, 1000, 20, 100, 400)[number % 7]
        factor = np.tril(np.ones((d, d)))
        result = mvnorth.orthant(np.zeros(d), factor, method="markov")
        with mpmath.workdps(40):
            return result, mpmath.log(mpmath.binomial(2 * d, d)) - d * mpmath.log(4)
    d = 4
    c, v = rng.lognormal(0.0, 0.5, d), rng.normal(size=d)
    low = -rng.exponential(2.0, d)
    high = low + rng.exponential(2.0, d) + 0.1
    result = mvnorth.box(low, high, 0.0, mvnorth.OneFactor(c, v), method="quadrature")
    return result, exact.one_factor_logprob(*(a.tolist() for a in (low, high, c, v)))


def _log(prob: mpf) -> mpf:
    with mpmath.workdps(40):
        return mpmath.log(prob)


def compare_stored() -> dict[str, list[list[float]]]:
    """The same for the stored orthants with one common factor, by regime."""
    found: dict[str, list[list[float]]] = {}
    for case in json.loads((REFERENCE / "one_factor.json").read_text()):
        m, c, v = (np.repeat(case[key], case["counts"]) for key in "mcv")
        result = mvnorth.orthant(m, mvnorth.OneFactor(c, v), method="quadrature")
        with mpmath.workdps(50):
            row = _row(result, mpf(case["log_prob"]))
        found.setdefault(case["regime"], []).append(row)
    return found


def _groups(results: Results) -> Iterator[tuple[str, _Class, np.ndarray]]:
    for name, own in _CLASSES.items():
        rows = [
            row
            for task, value in results.items()
            if task.startswith(f"exact, {name}, part")
            for row in value
        ]
        if rows:
            yield name, own, np.array(rows)
    for regime, rows in results.get("exact, stored", {}).items():
        yield f"one factor, stored: {regime}", _STORED, np.array(rows)


class Line(NamedTuple):
    """The largest errors of a class of problems: a row of the table."""

    name: str
    method: str
    problems: int
    least_log_prob: float
    log_error: float
    allowed: float
    prob_error: float
    claimed_share: float


def section(results: Results, scale: str) -> Section:
    lines = []
    for name, own, found in _groups(results):
        log_p, off, claimed = found.T
        scaled = np.abs(off) / np.maximum(1.0, np.abs(log_p))
        # Without a claim nothing is inside.
        share = np.max(np.where(claimed < np.inf, np.abs(np.expm1(off)) / claimed, np.inf))
        lines.append(
            Line(
                f"{name} ({own.oracle})",
                own.method,
                len(found),
                float(log_p.min()),
                float(scaled.max()),
                own.allowed,
                float(np.abs(np.expm1(off)).max()),
                float(share),
            )
        )
    # numpy's maximum is NaN if one is, so that a check of it fails.
    largest = float(np.max([line.log_error for line in lines]))
    share = float(np.max([line.claimed_share for line in lines]))
    beyond = [line.name for line in lines if not line.log_error <= line.allowed]
    total = sum(line.problems for line in lines)
    answer = (
        f"Closed forms, quadrature and chains give log P to {largest:.0e} of max(1, |log P|) at "
        f"worst, in {total} problems against 40 digits."
    )
    return Section(
        "Methods without random points",
        [
            Finding(
                "Without sampling, log P is right to 1e-13 of its size.",
                "",
                f"largest error {largest:.0e} in {total} problems: at 95 % confidence fewer than "
                f"{300 / total:.1g} % of such problems are worse than 1e-13",
                "holds" if largest <= 1e-13 else "does not hold",
            ),
            Text(
                "Closed forms, quadrature over a common factor and the passes along a chain, each "
                "forced by `method=`, against 40-digit arithmetic that owes nothing to "
                "mvnorth, on random problems and on stored ones."
            ),
            Table(
                "Largest errors of deterministic methods",
                ["problems (oracle)", "method", "how many", "least log P", "error of log P",
                 "allowed", "relative error of P", "share of the claimed error"],
                lines,
                "The error of log P is relative to max(1, |log P|); that of P cannot be smaller "
                "than rounding of log P, 1e-16 |log P|.",
                cite="accuracy-exact",
            ),
            Check(
                "Deterministic methods are as accurate as the table allows: log P to 2e-15 to "
                "1e-13 of max(1, |log P|).",
                not beyond,
                f"{total} problems, largest {largest:.1e}."
                + (f" Not: {', '.join(beyond)}." if beyond else ""),
            ),
            Check(
                "Their true errors are all inside the claimed ones.",
                share <= 1.0,
                f"The largest share of a claimed error is {share:.2g}.",
            ),
        ],
        answer,
    )  # fmt: skip
