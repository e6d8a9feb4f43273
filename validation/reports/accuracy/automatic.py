"""What "auto" takes for each problem, and its errors; a part of accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from validation.page import Check, Table
from validation.reports import runs
from validation.reports.runs import Judgement, Known

SINGULAR = {"near-singular", "singular"}


class Automatic(NamedTuple):
    """A problem, and the errors of "auto": of P, and of log P relative to its size.

    ``judged`` compares the error with the one that was claimed.
    """

    problem: Known
    error: float
    log_error: float
    judged: Judgement


def _by_method(found: Sequence[Known]) -> dict[str, list[Automatic]]:
    """Return what "auto" did with each problem, by the method that it took."""
    by: dict[str, list[Automatic]] = {}
    for p in found:
        for run in p.runs:
            if run.method == "auto":
                off = abs(run.log_prob - p.log_prob) / max(1.0, abs(p.log_prob))
                errors = (runs.relative_error(run, p), off, runs.judge(run, p))
                by.setdefault(run.used, []).append(Automatic(p, *errors))
    return by


def table(found: Sequence[Known]) -> Table:
    """Return the methods that "auto" took, and their errors."""
    rows = []
    for used, own in sorted(_by_method(found).items()):
        worst = max(own, key=lambda each: each.error)
        median = float(np.median([each.error for each in own]))
        off = max(each.log_error for each in own)
        rows.append([used, len(own), median, worst.error, worst.problem.name, off])
    return Table(
        "What `auto` takes, and its errors at n = 4096",
        ["method", "problems", "median relative error", "largest", "where", "log P, largest"],
        rows,
        "The last column is the error of log P relative to max(1, |log P|).",
    )


def checks(found: Sequence[Known]) -> list[Check]:
    """Return the checks of what "auto" does without sampling.

    Gauss rules are apart: they have no random points, but an error that falls with n, and claim it.
    """
    by = _by_method(found)
    exact = [
        each
        for used, own in by.items()
        if "tilting" not in used and "gauss" not in used
        for each in own
        if not each.problem.tags & SINGULAR
    ]
    # What the known answer is off by is not mvnorth's fault.
    beyond = [each for each in exact if not each.log_error <= 1e-12 + each.problem.log_error]
    gauss = [each for used, own in by.items() if "gauss" in used for each in own]
    outside = [each for each in gauss if each.judged.verdict != "inside"]
    checks = [
        Check(
            "Where `auto` neither samples nor takes Gauss rules, and the covariance is not nearly "
            "singular, log P is right to 1e-12 of max(1, |log P|) and the error of the known "
            "answer.",
            not beyond and bool(exact),
            f"{len(exact)} problems, {_largest(exact)}."
            + "".join(f" Not: {each.problem.name}." for each in beyond),
        )
    ]
    if gauss:
        checks.append(
            Check(
                "Where `auto` takes Gauss rules, whose error falls with n and is not that of "
                "rounding, the true error is inside the claimed one.",
                not outside,
                f"{len(gauss)} problems, {_largest(gauss)}."
                + "".join(f" Not: {each.problem.name}." for each in outside),
            )
        )
    return checks


def _largest(of: Sequence[Automatic]) -> str:
    worst = max(of, key=lambda each: each.log_error, default=None)
    return "none" if worst is None else f"largest {worst.log_error:.1e}, of {worst.problem.name}"
