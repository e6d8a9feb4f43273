"""Error against the number of points, for the methods that sample; a part of accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from validation import problems
from validation.page import Check, Finding, Picture, Section, Table, Text
from validation.page.content import Verdict
from validation.page.figures import axes
from validation.reports import Results, families, runs
from validation.reports.accuracy import automatic
from validation.reports.accuracy.automatic import SINGULAR
from validation.reports.intervals import Mean, mean_of
from validation.reports.parts import NOT_YET
from validation.reports.runs import Known, dimension
from validation.running import Task

_POINTS = {
    "small": (512, 2048, 8192),
    "quick": (256, 1024, 4096, 16384),
    "full": (256, 1024, 4096, 16384, 65536),
}
_SEEDS = {"small": 2, "quick": 3, "full": 6}
_LARGEST = {"small": 50, "quick": 100, "full": 500}  # dimension
_EVERY = {"small": 3, "quick": 1, "full": 1}  # problem of the table
_FACTORED = {"small": (20,), "quick": (5, 20, 100), "full": (5, 20, 100, 500)}
_PARTS = {"small": 2, "quick": 8, "full": 24}
_WORK = {"small": 4.1e5, "quick": 1.7e6, "full": 1e7}  # points times dimension that a run may take
_STRUCTURE = ("genz", "tilting", "structured genz", "structured tilting")
_COLOURS = dict(zip(_STRUCTURE, ("C1", "C0", "C3", "C2"), strict=True))
_TAILS = {"tail", "deep-tail"}

CLASSES: dict[str, Callable[[Known], bool]] = {
    "ordinary, d from 4 to 50": lambda p: "easy" in p.tags and p.d >= 4,
    "ordinary, d ≥ 100": lambda p: "high-dim" in p.tags and not p.tags & (_TAILS | SINGULAR),
    "tails, log P from -10 to -745": lambda p: "tail" in p.tags,
    "deep tails, log P < -745": lambda p: "deep-tail" in p.tags,
    "singular or nearly": lambda p: bool(p.tags & SINGULAR),
}
STRUCTURED = "one factor, given as c and v"


def tasks(scale: str) -> list[Task]:
    # Independent coordinates are left out: every point has the same weight there.
    names = [n for n in problems.names() if "independent" not in n and dimension(n) > 3]
    names = [n for n in names if dimension(n) <= _LARGEST[scale]][:: _EVERY[scale]]
    names += families.factored_names(_FACTORED[scale])
    names.sort(key=dimension)  # so that parts get some of each
    parts = _PARTS[scale]
    return [
        Task(f"points, part {k + 1}", sweep, {"names": names[k::parts], "scale": scale})
        for k in range(parts)
        if names[k::parts]
    ]


def sweep(names: list[str], scale: str) -> list[list[object]]:
    """All methods with all numbers of points that a problem's dimension allows."""
    done = []
    for name in names:
        plans = [
            (method, n, _SEEDS[scale])
            for method in _STRUCTURE
            for n in _POINTS[scale]
            if n * dimension(name) <= _WORK[scale]
        ]
        plans.append(("auto", 4096, 1))
        done += runs.over([name], plans)
    return done


class Curve:
    """The median over problems of the root-mean-square errors of a method, by points."""

    def __init__(self, of: Sequence[Known], method: str) -> None:
        self.points: list[int] = []
        self.median: list[float] = []
        self.worst: list[float] = []
        counts = sorted({r.n for p in of for r in p.runs if r.method == method and r.n})
        for n in counts:
            errors = [_error(p, method, n) for p in of]
            own = [error for error in errors if error is not None]
            if len(own) == len(of):  # with fewer it would be another class of problems
                self.points.append(n)
                self.median.append(float(np.median(own)))
                self.worst.append(max(own))
        self.rate = runs.rate(self.points, self.median)

    def at(self, n: int) -> float | None:
        return dict(zip(self.points, self.median, strict=True)).get(n)


def _error(problem: Known, method: str, n: int) -> float | None:
    own = [r for r in problem.runs if (r.method, r.n) == (method, n)]
    if not own:
        return None
    return max(runs.rms(runs.relative_error(r, problem) for r in own), problem.log_error)


def section(results: Results, scale: str) -> Section:
    found = runs.known(value for name, value in results.items() if name.startswith("points, "))
    table = [p for p in found if not p.name.startswith(families.FACTORED)]
    groups = {name: [p for p in table if holds(p)] for name, holds in CLASSES.items()}
    groups[STRUCTURED] = [p for p in found if p.name.startswith(families.FACTORED)]
    groups = {name: own for name, own in groups.items() if own}
    curves = {
        name: {
            method: Curve(own, method)
            for method in _STRUCTURE
            if name == STRUCTURED or method in runs.SAMPLED
        }
        for name, own in groups.items()
    }
    rates = {
        method: mean_of(values)
        for method in runs.SAMPLED
        if len(values := problem_rates(groups.get(ORDINARY, []), method)) > 1
    }
    counts = _POINTS[scale]
    shown = list(dict.fromkeys((counts[0], counts[len(counts) // 2], counts[-1])))
    rows = [
        [
            f"{name} ({len(groups[name])})",
            method,
            *(curve.at(n) for n in shown),
            curve.rate,
            curve.worst[-1] if curve.worst else None,
        ]
        for name, own in curves.items()
        for method, curve in own.items()
    ]
    header = ["problems (how many)", "method", *(f"n = {n}" for n in shown)]
    header += ["rate", "worst problem, largest n"]
    pictures = [_picture(name, own, groups[name]) for name, own in curves.items()]
    return Section(
        "Error against the number of points",
        [
            Text(
                "True relative error of P: root mean square over "
                f"{_SEEDS[scale]} seeds for each problem of `validation/problems` with more "
                "than three dependent coordinates and for problems whose covariance "
                "diag(c) + v vᵀ is given as c and v, then the median over the problems of a "
                "class. The rate is the slope of a straight line through the logarithms; a dashed "
                "line is what brute-force Monte Carlo would have, √((1 - P)/(nP)) at the median P, "
                "with its rate of -1/2. An error is not shown below that of the known answer."
            ),
            *pictures,
            Table(
                "Median relative error by points",
                header,
                rows,
                "An empty cell: with so many points not all problems of the class were run.",
                cite="accuracy-rates",
            ),
            *_checks(curves),
            automatic.table(found),
            *automatic.checks(found),
            *_findings(rates),
        ],
        _answer(curves, rates),
    )


ORDINARY = "ordinary, d from 4 to 50"
MONTE_CARLO = -0.5


def problem_rates(of: Sequence[Known], method: str) -> list[float]:
    """Return the rate of each problem: the slope of its error in the number of points."""
    rates = []
    for problem in of:
        counts = sorted({r.n for r in problem.runs if r.method == method and r.n})
        errors = [_error(problem, method, n) or 0.0 for n in counts]
        rate = runs.rate(counts, errors)
        # Errors at the level of the known answer's say nothing of a rate.
        if rate is not None and min(errors) > 10 * problem.log_error:
            rates.append(rate)
    return rates


def _answer(curves: dict[str, dict[str, Curve]], rates: Mapping[str, Mean]) -> str:
    if "tilting" not in rates:
        return NOT_YET
    curve = curves[ORDINARY]["tilting"]
    return (
        f"On ordinary problems the error of `tilting` falls like n^{rates['tilting'].text()} (mean "
        f"over problems), where Monte Carlo has n^-0.5; in the median it is "
        f"{curve.median[-1]:.0e} at n = {curve.points[-1]}."
    )


def _findings(rates: Mapping[str, Mean]) -> list[Finding]:
    if "tilting" not in rates:
        return []
    tilting, genz = rates["tilting"], rates["genz"]
    slowest = max(tilting.high, genz.high)
    verdict: Verdict = "holds" if slowest < MONTE_CARLO else "not decided"
    if max(tilting.low, genz.low) > MONTE_CARLO:
        verdict = "does not hold"
    return [
        Finding(
            "Sampled probabilities converge faster than Monte Carlo.",
            "n^-0.5 is Monte Carlo's rate",
            f"error like n^{tilting.text()} with `tilting`, n^{genz.text()} with `genz`, mean over "
            "problems with 4 to 50 coordinates",
            verdict,
        )
    ]


def _picture(name: str, curves: dict[str, Curve], of: Sequence[Known]) -> Picture:
    figure, ax = axes(log="xy", xlabel="points n", ylabel="relative error, median")
    rows = []
    for method, curve in curves.items():
        rate = "" if curve.rate is None else f", n^{curve.rate:.2f}"
        ax.plot(curve.points, curve.median, "o-", color=_COLOURS[method], label=method + rate)
        rows += [[method, n, e] for n, e in zip(curve.points, curve.median, strict=True)]
    points = max((c.points for c in curves.values()), key=len)
    median = float(np.median([p.log_prob for p in of]))
    log_brute = (math.log1p(-math.exp(median)) - median) / 2
    brute = [math.exp(min(log_brute, 100.0)) / n**0.5 for n in points]
    if brute and brute[0] < 10:
        ax.plot(points, brute, "--", color="C7", label="Monte Carlo, n^-0.50")
        rows += [["Monte Carlo", n, e] for n, e in zip(points, brute, strict=True)]
    ax.legend(fontsize=8)
    data = Table("", ["method", "n", "median relative error"], rows)
    return Picture(f"Error against points: {name}", figure, data, f"{len(of)} problems.")


# What the checks ask for; measured at the small and quick scales were n^-0.76 or better, and errors
# of 2e-3 or less.
_RATE = -0.65
_ORDINARY = 5e-3


def _checks(curves: dict[str, dict[str, Curve]]) -> list[Check]:
    found = []
    ordinary = curves.get("ordinary, d from 4 to 50", {})
    for method, curve in ordinary.items():
        largest = curve.points[-1]
        found.append(
            Check(
                f"On ordinary problems the error of `{method}` falls faster than "
                f"n^{_RATE}, where Monte Carlo has n^-0.5.",
                curve.rate is not None and curve.rate < _RATE,
                f"n^{curve.rate:.2f}, to {curve.median[-1]:.1e} at n = {largest}.",
            )
        )
    tails = curves.get("tails, log P from -10 to -745", {})
    if tails:
        plain, tilted = (tails[m].median[-1] for m in runs.SAMPLED)
        found.append(
            Check(
                "In the tails tilting is at least 3 times as accurate as plain Genz for the same "
                "points.",
                tilted < plain / 3,
                f"{tilted:.1e} against {plain:.1e}.",
            )
        )
    for name, own in curves.items():
        curve = own["tilting"]
        if "deep" in name or "singular" in name:
            continue
        n = curve.points[min(2, len(curve.points) - 1)]
        error = curve.at(n) or 0.0
        found.append(
            Check(
                f"Tilting, {name}: half of the problems are right to {_ORDINARY:g}, at n = {n}.",
                error < _ORDINARY,
                f"{error:.1e}.",
            )
        )
    return found
