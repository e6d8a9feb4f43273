"""Honesty: how often true errors are inside the reported ones, which promise 99 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from validation.oracles.one_dimension import FloatArray
from validation.page import Check, Picture, Section, Table, Text
from validation.page.content import Part
from validation.page.figures import axes
from validation.reports import Results, runs
from validation.reports.honesty import (
    factors,
    gauss,
    gradients,
    narrow,
    strata,
    student,
    table_runs,
)
from validation.reports.runs import PROMISE, Judgement, Known, Run, interval
from validation.running import Task

# Plain Genz is known to break the promise here: 50 dependent coordinates at log P = -2034, where
# all points miss the mass and still look alike to each other. "auto" does not use it there.
KNOWN = {("genz", "equal+0.3-50")}

_DIMENSIONS: dict[str, Callable[[Known], bool]] = {
    "d from 1 to 3": lambda p: p.d <= 3,
    "4 to 10": lambda p: 4 <= p.d <= 10,
    "11 to 50": lambda p: 11 <= p.d <= 50,
    "51 to 100": lambda p: 51 <= p.d <= 100,
    "101 to 500": lambda p: p.d > 100,
}
_CONDITIONS = {
    "condition below 10": (0.0, 1e1),
    "10 to 100": (1e1, 1e2),
    "100 to 1e4": (1e2, 1e4),
    "above 1e4": (1e4, math.inf),
}
_TAGS = ("easy", "hard", "tail", "deep-tail", "high-dim", "near-singular", "singular")


def tasks(scale: str) -> list[Task]:
    parts_of = (table_runs, strata, narrow, gauss, factors, student, gradients)
    return [task for part in parts_of for task in part.tasks(scale)]


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

    @property
    def row(self) -> list[Any]:
        low, high = self.interval
        share = None if math.isnan(self.share) else 100 * self.share
        return [self.runs, self.none, self.open, self.outside, share, 100 * low, 100 * high,
                self.median]  # fmt: skip


_HEADER = ["runs", "no claim", "open", "outside", "outside, %", "from, %", "to, %", "median share"]


def count(judged: Sequence[Judgement]) -> Counted:
    verdicts = [j.verdict for j in judged]
    ratios = [j.ratio for j in judged if j.verdict != "none"]
    outside, undecided, none = (verdicts.count(v) for v in ("outside", "open", "none"))
    return Counted(
        len(judged), outside, undecided, none, float(np.median(ratios)) if ratios else math.nan
    )


class Case(NamedTuple):
    problem: Known
    run: Run
    judged: Judgement

    @property
    def kind(self) -> str:
        return self.run.method if self.run.n else f"{self.run.method}, tolerance"

    @property
    def is_known(self) -> bool:
        return (self.run.method, self.problem.name) in KNOWN


def _cases(found: Sequence[Known]) -> list[Case]:
    """All runs; those that repeat another's result, as without random points, count once."""
    seen, cases = set(), []
    for p in found:
        for run in p.runs:
            case = Case(p, run, runs.judge(run, p))
            same = (p.name, case.kind, run.log_prob, run.claimed)
            if same not in seen:
                seen.add(same)
                cases.append(case)
    return cases


def section(results: Results, scale: str) -> Section:
    found = runs.known(value for name, value in results.items() if name.startswith("runs, "))
    cases = _cases(found)
    kinds = [
        k
        for m in table_runs.METHODS
        for k in (m, f"{m}, tolerance")
        if any(c.kind == k for c in cases)
    ]
    by_kind = {kind: [c for c in cases if c.kind == kind] for kind in kinds}
    totals = {kind: count([c.judged for c in own]) for kind, own in by_kind.items()}
    parts: list[Part] = [
        Text(
            "mvnorth reports a bound on its error that promises to hold at about 99 % confidence. "
            f"Here it is held against the truth, in {len(cases)} runs over {len(found)} problems "
            "with known answers: `validation/problems` and problems with one common factor "
            "given as c and v. A run is outside if the true relative error is larger than the "
            "claimed one even when the known answer is moved towards the estimate by its "
            "own error; open if that error decides; and makes no claim if the reported "
            "error is infinite. Runs that repeat another's result to the last bit, as those "
            "without random points do, count once. Shares are of the runs with a claim, intervals "
            "are Clopper and Pearson's at 95 %. They take runs for independent, but seeds on the "
            "same problem share its difficulty: failures come in clusters, and true intervals "
            "are wider. The median share is that of true over claimed error: far below 1 means "
            "caution, and 0 that half of the runs are as near the known answers as these are known."
        ),
        Table(
            "Outside the claimed error, by method",
            ["method", *_HEADER],
            [[kind, *total.row] for kind, total in totals.items()],
            f"With a tolerance, rtol = {table_runs.TOLERANCE['rtol']:g} or atol = {table_runs.TOLERANCE['atol']:g}, "
            "points are added until the claimed error is small enough, which favours runs that "
            "underestimate it.",
        ),
        *_method_checks(by_kind),
        _distribution(by_kind),
        _groups_picture("by dimension", by_kind, _by_dimension),
        _groups_picture("by difficulty", by_kind, _by_tag),
        _groups_table("by dimension", by_kind, _by_dimension),
        _groups_table("by difficulty", by_kind, _by_tag),
        _groups_table("by condition of the correlations", by_kind, _by_condition),
        _failures(cases),
        narrow.section(results),
        gauss.section(results),
        factors.section(results),
        student.section(results),
        gradients.section(results, scale),
    ]
    return Section("Honesty of errors", parts)


def _method_checks(by_kind: dict[str, list[Case]]) -> list[Check]:
    """The promise; and one that a handful of runs cannot break by chance."""
    found = []
    for kind, own in by_kind.items():
        total = count([c.judged for c in own])
        low, high = total.interval
        found.append(
            Check(
                f"`{kind}`: at most 1 % of the runs are outside their claimed error; that is, "
                "the interval of their share does not lie above 1 %.",
                low <= PROMISE and total.claims > 0,
                f"{total.outside} of {total.claims}, {100 * total.share:.2f} % "
                f"({100 * low:.2f} to {100 * high:.2f} %).",
            )
        )
    automatic = count([c.judged for c in by_kind["auto"]])
    found.append(
        Check(
            "`auto` claims something: at most 2 % of its runs end with an infinite error.",
            automatic.none <= 0.02 * automatic.runs,
            f"{automatic.none} of {automatic.runs}.",
        )
    )
    return found


def _distribution(by_kind: dict[str, list[Case]]) -> Picture:
    figure, ax = axes(log="xy", xlabel="true error / claimed error", ylabel="share of runs above")
    grid = np.logspace(-3, 1.5, 46)
    rows = []
    for k, (kind, own) in enumerate((k, o) for k, o in by_kind.items() if "tolerance" not in k):
        ratios = np.array([c.judged.ratio for c in own if c.judged.verdict != "none"])
        above = [float(np.mean(ratios > x)) for x in grid]
        ax.plot(grid, [y or math.nan for y in above], color=f"C{k}", label=kind)
        rows += [[kind, float(x), y] for x, y in zip(grid, above, strict=True)]
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.axhline(PROMISE, color="C7", linestyle="--", linewidth=0.8, label="promise")
    ax.legend(fontsize=8)
    return Picture(
        "True over claimed errors",
        figure,
        Table("", ["method", "ratio", "share of runs above"], rows),
        "The promise: to the right of 1 all curves are below 1 %, where the dashed line is.",
    )


_Groups = Callable[[list[Case]], dict[str, list[Case]]]


def _by_dimension(cases: list[Case]) -> dict[str, list[Case]]:
    return {name: [c for c in cases if holds(c.problem)] for name, holds in _DIMENSIONS.items()}


def _by_tag(cases: list[Case]) -> dict[str, list[Case]]:
    return {tag: [c for c in cases if tag in c.problem.tags] for tag in _TAGS}


def _by_condition(cases: list[Case]) -> dict[str, list[Case]]:
    names = {c.problem.name for c in cases}
    condition = {name: _condition(runs.find(name)[0].cov) for name in names}
    return {
        group: [c for c in cases if low <= condition[c.problem.name] < high]
        for group, (low, high) in _CONDITIONS.items()
    }


def _condition(cov: FloatArray) -> float:
    """Return the condition number of the correlations; 1e300 where they have none."""
    deviations = np.sqrt(np.diag(cov))
    if not deviations.all():
        return 1e300
    return min(float(np.linalg.cond(cov / np.outer(deviations, deviations))), 1e300)


def _groups_picture(title: str, by_kind: dict[str, list[Case]], groups: _Groups) -> Picture:
    figure, ax = axes(ylabel="outside, %", yscale="symlog")
    rows: list[list[Any]] = []
    shown = [kind for kind in by_kind if "tolerance" not in kind]
    names = list(groups([]))
    for k, kind in enumerate(shown):
        for place, (name, own) in enumerate(groups(by_kind[kind]).items()):
            total = count([c.judged for c in own])
            if not total.claims:
                continue
            low, high = total.interval
            x = place + (k - len(shown) / 2) * 0.14
            label = kind if not any(row[0] == kind for row in rows) else None
            ax.plot([x, x], [100 * low, 100 * high], color=f"C{k}", linewidth=1.2)
            ax.plot([x], [100 * total.share], "o", color=f"C{k}", markersize=4, label=label)
            rows.append([kind, name, total.claims, 100 * total.share, 100 * low, 100 * high])
    ax.axhline(100 * PROMISE, color="C7", linestyle="--", linewidth=0.8)
    ax.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    ax.set_ylim(-0.1, 150)
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    ax.legend(fontsize=7)
    header = ["method", "group", "runs with a claim", "outside, %", "from, %", "to, %"]
    caption = "Points: share of runs outside; bars: 95 % intervals; dashed: the promise of 1 %."
    return Picture(f"Outside, {title}", figure, Table("", header, rows), caption)


def _groups_table(title: str, by_kind: dict[str, list[Case]], groups: _Groups) -> Table:
    rows = [
        [kind, name, *count([c.judged for c in own]).row]
        for kind, cases in by_kind.items()
        for name, own in groups(cases).items()
        if own
    ]
    return Table(f"Outside the claimed error, {title}", ["method", "group", *_HEADER], rows)


def _failures(cases: list[Case]) -> Table:
    failed = [c for c in cases if c.judged.verdict == "outside"]
    failed.sort(key=lambda c: -c.judged.ratio)
    rows = [
        [c.problem.name, c.problem.d, c.problem.log_prob, c.kind, c.run.n, c.run.points, c.run.seed,
         c.judged.claimed, c.judged.true, c.judged.ratio, "known" if c.is_known else ""]
        for c in failed
    ]  # fmt: skip
    header = ["problem", "d", "log P", "method", "n", "points used", "seed", "claimed", "true",
              "ratio", ""]  # fmt: skip
    return Table(
        "All runs outside their claimed error",
        header,
        rows,
        f"{len(rows)} of {len(cases)} runs. Known: plain Genz at log P = -2034 in 50 dependent "
        "coordinates, where all points miss the mass and look alike; `auto` does not use it.",
    )
