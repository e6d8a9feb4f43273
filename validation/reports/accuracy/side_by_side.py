"""A few problems by everything there is to compute them; a part of accuracy."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from validation.oracles import botorch_mvnxpb, monte_carlo, r_mvtnorm, scipy_mvn
from validation.page import Check, NotRun, Section, Table, Text
from validation.page.content import Part
from validation.problems import named
from validation.reports import Results
from validation.running import Task

_PROBLEMS = {
    "small": ("bivariate+0.6-2", "two-factor-10", "d_tail_d20"),
    "quick": (
        "bivariate+0.6-2",
        "bm_rand_d5",
        "two-factor-10",
        "equicorrelation+0.6-10",
        "bm_rand_d20",
        "ar1+0.6-50",
        "bn_rand_d20",
        "d_tail_d20",
        "bm_rand_d100",
    ),
}
_PROBLEMS["full"] = (*_PROBLEMS["quick"], "two-factor-box-50", "ordering-20", "cn_ar1_d50")
_DRAWS = {"small": 10**5, "quick": 4 * 10**5, "full": 4 * 10**6}
_POINTS = 25_000  # mvtnorm's default, given to scipy too


def tasks(scale: str) -> list[Task]:
    names = list(_PROBLEMS[scale])
    found = [
        Task("beside, mvnorth", ours, {"names": names}),
        Task("beside, scipy", by_scipy, {"names": names}),
        Task("beside, Monte Carlo", by_monte_carlo, {"names": names, "draws": _DRAWS[scale]}),
    ]
    if r_mvtnorm.available():
        found.append(Task("beside, mvtnorm", by_mvtnorm, {"names": names}))
    if botorch_mvnxpb.available() and scale != "small":  # it takes long to import
        found.append(Task("beside, MVNXPB", by_botorch, {"names": names}))
    return found


def ours(names: list[str]) -> dict[str, Any]:
    """Truth, `auto` and forced tilting, each to the default tolerance."""
    found = {}
    for name in names:
        p = named(name)
        limits = (p.lower, p.upper, 0.0, p.cov)
        auto = mvnorth.box(*limits)
        tilting = auto if auto.method == "tilting" else mvnorth.box(*limits, method="tilting")
        found[name] = {
            "d": p.upper.size,
            "truth": p.log_prob,
            "truth error": p.log_error,
            "auto": [auto.log_prob, auto.rel_error],
            "tilting": [tilting.log_prob, tilting.rel_error],
            "used": auto.method,
            "met": auto.status == mvnorth.Status.CONVERGED,
        }
    return found


def by_scipy(names: list[str]) -> dict[str, float]:
    found = {}
    for p in map(named, names):
        value = scipy_mvn.cdf(p.lower, p.upper, p.cov, maxpts=_POINTS, abseps=0.0).value
        found[p.name] = _log(value)
    return found


def by_monte_carlo(names: list[str], draws: int) -> dict[str, list[float]]:
    return {p.name: [*monte_carlo.prob(p.lower, p.upper, p.cov, draws)] for p in map(named, names)}


def by_mvtnorm(names: list[str]) -> dict[str, list[float]]:
    found = {}
    for p in map(named, names):
        value, error, _ = r_mvtnorm.pmvnorm(p.lower, p.upper, p.cov, _POINTS, abseps=0.0)
        found[p.name] = [_log(value), error]
    return found


def by_botorch(names: list[str]) -> dict[str, float]:
    return {p.name: botorch_mvnxpb.logprob(p.lower, p.upper, p.cov) for p in map(named, names)}


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def _off(log_prob: float | None, truth: float) -> float | None:
    """Relative error of P."""
    return None if log_prob is None else abs(math.expm1(min(log_prob - truth, 690.0)))


class Line(NamedTuple):
    """What a program says of a problem: a row of the table."""

    problem: str
    d: int
    program: str
    log_prob: float | None
    error: float | None
    claimed: float | None


def lines_of(results: Results) -> list[Line]:
    """Return the truth and every program's answer for each problem."""
    scipy, mvtnorm, mvnxpb, brute = (
        results.get(f"beside, {name}", {}) for name in ("scipy", "mvtnorm", "MVNXPB", "Monte Carlo")
    )
    lines = []
    for name, told in results["beside, mvnorth"].items():
        truth, d = told["truth"], told["d"]
        prob = math.exp(truth)
        answers: list[tuple[str, float, float | None]] = [
            (f"mvnorth ({told['used']})", *told["auto"]),
            ("mvnorth, tilting", *told["tilting"]),
        ]
        if name in scipy:
            answers.append(("scipy", scipy[name], None))
        if name in mvtnorm:
            value, absolute = mvtnorm[name]
            answers.append(("mvtnorm", value, absolute / prob))
        if name in mvnxpb:
            answers.append(("MVNXPB", mvnxpb[name], None))
        if name in brute:
            share, standard = brute[name]
            answers.append(("Monte Carlo", _log(share), standard / prob))
        lines.append(Line(name, d, "truth", truth, told["truth error"], None))
        lines += [
            Line(name, d, program, value, _off(value, truth), claimed)
            for program, value, claimed in answers
        ]
    return lines


def section(results: Results, scale: str) -> Section:
    own = results["beside, mvnorth"]
    lines = lines_of(results)
    programs = {line.program for line in lines}
    claims, z_scores = [], []
    for name, told in own.items():
        truth = told["truth"]
        for log_prob, claimed in (told["auto"], told["tilting"]):
            claims.append(abs(math.expm1(truth - log_prob)) <= claimed + told["truth error"])
        if name in results["beside, Monte Carlo"]:
            share, standard = results["beside, Monte Carlo"][name]
            z_scores.append(abs(share - math.exp(truth)) / standard)
    missing = []
    if "mvtnorm" not in programs:
        get = "put Rscript on the PATH and install mvtnorm"
        missing.append(_missing("R's mvtnorm, pmvnorm", get))
    if "MVNXPB" not in programs:
        small = scale == "small"
        get = "python -m validation accuracy" if small else "python -m pip install botorch"
        missing.append(_missing("BoTorch's MVNXPB", get))
    short = [name for name, told in own.items() if not told["met"]]
    limit = f" (it was not met, and the result says so, on {', '.join(short)})" if short else ""
    parts: list[Part] = [
        Text(
            "The same problems by everything there is. mvnorth and forced tilting run to their "
            f"default tolerance, a bound of 1e-4, with up to 2**20 points{limit}; "
            f"scipy and mvtnorm get {_POINTS} points, mvtnorm's default; Monte Carlo counts "
            f"{_DRAWS[scale]:,} draws; BoTorch's "
            "MVNXPB is a deterministic approximation that cannot be asked for more."
        ),
        *missing,
        Table(
            "Side by side",
            ["problem", "d", "program", "log P", "relative error of P", "claimed error"],
            lines,
            "The truth's error is that to which it is known; Monte Carlo's claim is its standard "
            "error, and where no draw was inside, its error is 1.",
        ),
        Check(
            "mvnorth is inside its claimed error on all of these.",
            all(claims),
            f"{sum(claims)} of {len(claims)}.",
        ),
        Check(
            "Brute force agrees with the known answers to 4.5 standard errors.",
            bool(z_scores) and all(each < 4.5 for each in z_scores),
            f"Largest distance {max(z_scores, default=math.inf):.2f} standard errors.",
        ),
    ]
    return Section("Side by side", parts, _answer(lines, len(own)))


def _answer(lines: list[Line], problems: int) -> str:
    """Return the median relative errors of all programs on the same problems."""
    errors: dict[str, list[float]] = {}
    for line in lines:
        if line.error is not None and line.program != "truth":
            program = "mvnorth" if line.program.startswith("mvnorth (") else line.program
            errors.setdefault(program, []).append(line.error)
    medians = [f"{program} {float(np.median(own)):.0e}" for program, own in errors.items()]
    return f"Median relative errors of P on {problems} problems: {', '.join(medians)}."


def _missing(what: str, command: str) -> NotRun:
    return NotRun(
        what, "It is not on this machine, or not at this scale; its column is empty.", command
    )
