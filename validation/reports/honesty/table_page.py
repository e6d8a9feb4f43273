"""What the report on honesty says of runs on the table of problems."""

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
from validation.reports.honesty import known
from validation.reports.honesty.counts import MEDIAN, Counted, Group, count, groups_table
from validation.reports.honesty.table_runs import METHODS, TOLERANCE, tasks
from validation.reports.parts import NOT_YET
from validation.reports.runs import PROMISE, Judgement, Known, Run

_DIMENSIONS: dict[str, Callable[[Known], bool]] = {
    "d from 1 to 3": lambda p: p.d <= 3,
    "d from 4 to 10": lambda p: 4 <= p.d <= 10,
    "d from 11 to 50": lambda p: 11 <= p.d <= 50,
    "d from 51 to 100": lambda p: 51 <= p.d <= 100,
    "d from 101 to 500": lambda p: p.d > 100,
}
_CONDITIONS = {
    "condition below 10": (0.0, 1e1),
    "condition 10 to 100": (1e1, 1e2),
    "condition 100 to 1e4": (1e2, 1e4),
    "condition above 1e4": (1e4, math.inf),
}
_TAGS = ("easy", "hard", "tail", "deep-tail", "near 1", "high-dim", "near-singular", "singular")
_NEAR_1 = -0.01  # log P from which on a problem is near 1


class Case(NamedTuple):
    """A run of a problem, and its verdict."""

    problem: Known
    run: Run
    judged: Judgement

    @property
    def kind(self) -> str:
        return self.run.method if self.run.n else f"{self.run.method}, tolerance"

    @property
    def is_known(self) -> bool:
        return Group(self.run.method, self.problem.name) in known.PROBLEMS


Groups = Callable[[list[Case]], dict[str, list[Case]]]


def cases_of(results: Results) -> list[Case]:
    """Return all runs; those that repeat another's result, as without random points, count once."""
    values = (value for name, value in results.items() if name.startswith("runs, "))
    return distinct(runs.known(values))


def distinct(problems: Sequence[Known]) -> list[Case]:
    """Return the runs of problems, without those that repeat a result to the last bit."""
    seen, cases = set(), []
    for problem in problems:
        for run in problem.runs:
            case = Case(problem, run, runs.judge(run, problem))
            same = (problem.name, case.kind, run.log_prob, run.claimed)
            if same not in seen:
                seen.add(same)
                cases.append(case)
    return cases


def by_kind(cases: list[Case]) -> dict[str, list[Case]]:
    """Return the runs of each method, with given points and with a tolerance."""
    kinds = [kind for method in METHODS for kind in (method, f"{method}, tolerance")]
    found = {kind: [case for case in cases if case.kind == kind] for kind in kinds}
    return {kind: members for kind, members in found.items() if members}


def section(results: Results, scale: str) -> Section:
    title = "The table of problems, many seeds each"
    cases = cases_of(results)
    if not cases:
        return Section(title, [], NOT_YET)
    complete = scale == "full" and all(task.name in results for task in tasks(scale))
    kinds = by_kind(cases)
    totals = {kind: count(case.judged for case in members) for kind, members in kinds.items()}
    strata = {
        Group(kind, stratum): count(case.judged for case in members)
        for groups in (_by_tag, _by_dimension, _by_condition)
        for kind, own in kinds.items()
        for stratum, members in groups(own).items()
        if members
    }
    problems = _by_problem(cases)
    tests = sum(counted.claims > 0 for counted in strata.values())
    names = {case.problem.name for case in cases}
    parts: list[Part] = [
        Text(
            f"{len(cases)} runs over {len(names)} problems with known answers: "
            "`validation/problems` and problems with one common factor given as c and v. Runs "
            "that repeat another's result to the last bit, as those without random points do, "
            "count once. Intervals take runs for independent, but seeds on the same problem share "
            "its difficulty: failures come in clusters, and true intervals are wider. A failure "
            "in this part is therefore looked for more strictly than it should be; the part "
            "before has independent problems."
        ),
        Table(
            "Outside the claimed error, by method",
            ["method", "runs", "no claim", "open", "outside, %", "95 % interval, %", MEDIAN],
            [
                [kind, c.runs, c.none, c.open, c.percent, c.percent_interval, c.median]
                for kind, c in totals.items()
            ],
            f"With a tolerance, rtol = {TOLERANCE['rtol']:g} or atol = {TOLERANCE['atol']:g}, "
            "points are added until the claimed error is small enough, which favours runs that "
            "underestimate it.",
            cite="honesty-methods",
        ),
        *_method_checks(totals),
        *known.compare("strata", strata, known.TABLE_STRATA, complete),
        *known.compare("problems", problems, known.PROBLEMS, complete),
        groups_table("Outside the claimed error, by stratum", strata, tests),
        _distribution(kinds),
        _groups_picture("by dimension", kinds, _by_dimension),
        _groups_picture("by difficulty", kinds, _by_tag),
        _failures(cases),
    ]
    return Section(title, parts, _answer(totals, strata))


def _answer(totals: dict[str, Counted], strata: dict[Group, Counted]) -> str:
    shares = ", ".join(
        f"`{kind}` in {100 - 100 * totals[kind].share:.2f} %"
        for kind in ("auto", "tilting", "genz")
        if kind in totals
    )
    worst = max(strata, key=lambda group: strata[group].lower_bound(len(strata)))
    return (
        f"Claimed errors held in this share of the runs with a claim: {shares}. The worst "
        f"stratum is {worst}: {strata[worst]} outside."
    )


def _by_problem(cases: list[Case]) -> dict[Group, Counted]:
    """Return the counts of each method, with given points, on each problem."""
    members: dict[Group, list[Judgement]] = {}
    for case in cases:
        if case.run.n:
            group = Group(case.run.method, case.problem.name)
            members.setdefault(group, []).append(case.judged)
    return {group: count(judged) for group, judged in members.items()}


def _method_checks(totals: dict[str, Counted]) -> list[Check]:
    checks = [
        Check(
            f"`{kind}`: at most 1 % of the runs are outside their claimed error; that is, the "
            "interval of their share does not lie above 1 %.",
            counted.interval[0] <= PROMISE and counted.claims > 0,
            f"{counted}.",
        )
        for kind, counted in totals.items()
    ]
    automatic = totals.get("auto", Counted(0, 0, 0, 0, math.nan))
    checks.append(
        Check(
            "`auto` claims something: at most 2 % of its runs end with an infinite error.",
            automatic.runs > 0 and automatic.none <= 0.02 * automatic.runs,
            f"{automatic.none} of {automatic.runs}.",
        )
    )
    return checks


def _distribution(kinds: dict[str, list[Case]]) -> Picture:
    figure, ax = axes(log="xy", xlabel="true error / claimed error", ylabel="share of runs above")
    grid = np.logspace(-3, 1.5, 46)
    rows = []
    shown = {kind: cases for kind, cases in kinds.items() if "tolerance" not in kind}
    for k, (kind, cases) in enumerate(shown.items()):
        ratios = np.array([c.judged.ratio for c in cases if c.judged.verdict != "none"])
        above = [float(np.mean(ratios > x)) for x in grid]
        ax.plot(grid, [y or math.nan for y in above], color=f"C{k}", label=kind)
        rows += [[kind, float(x), y] for x, y in zip(grid, above, strict=True)]
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.axhline(PROMISE, color="C7", linestyle="--", linewidth=0.8, label="promise")
    ax.legend(fontsize=8)
    return Picture(
        "True over claimed errors",
        figure,
        Table("", ["method", "true over claimed", "share of runs above"], rows),
        "The promise: to the right of 1 all curves are below 1 %, where the dashed line is.",
    )


def _by_dimension(cases: list[Case]) -> dict[str, list[Case]]:
    return {name: [c for c in cases if holds(c.problem)] for name, holds in _DIMENSIONS.items()}


def _by_tag(cases: list[Case]) -> dict[str, list[Case]]:
    return {
        tag: [
            c
            for c in cases
            if (c.problem.log_prob > _NEAR_1 if tag == "near 1" else tag in c.problem.tags)
        ]
        for tag in _TAGS
    }


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


def _groups_picture(title: str, kinds: dict[str, list[Case]], groups: Groups) -> Picture:
    figure, ax = axes(ylabel="outside, %", yscale="symlog")
    rows: list[list[Any]] = []
    shown = [kind for kind in kinds if "tolerance" not in kind]
    names = list(groups([]))
    for k, kind in enumerate(shown):
        label: str | None = kind
        for place, (name, members) in enumerate(groups(kinds[kind]).items()):
            total = count(case.judged for case in members)
            if not total.claims:
                continue
            low, high = total.interval
            x = place + (k - len(shown) / 2) * 0.14
            ax.plot([x, x], [100 * low, 100 * high], color=f"C{k}", linewidth=1.2)
            ax.plot([x], [100 * total.share], "o", color=f"C{k}", markersize=4, label=label)
            label = None
            rows.append([kind, name, total.claims, 100 * total.share, 100 * low, 100 * high])
    ax.axhline(100 * PROMISE, color="C7", linestyle="--", linewidth=0.8)
    ax.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    ax.set_ylim(-0.1, 150)
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    ax.legend(fontsize=7)
    header = ["method", "stratum", "claims", "outside, %", "from, %", "to, %"]
    caption = "Points: share of runs outside; bars: 95 % intervals; dashed: the promise of 1 %."
    return Picture(f"Outside, {title}", figure, Table("", header, rows), caption)


def _failures(cases: list[Case]) -> Table:
    failed = [c for c in cases if c.judged.verdict == "outside"]
    failed.sort(key=lambda c: -c.judged.ratio)
    rows = [
        [c.problem.name, c.problem.log_prob, c.kind, c.run.points, c.run.seed, c.judged.claimed,
         c.judged.true, "known" if c.is_known else ""]
        for c in failed
    ]  # fmt: skip
    header = ["problem", "log P", "method", "points used", "seed", "claimed error", "true error",
              "known"]  # fmt: skip
    note = f"{len(rows)} of {len(cases)} runs."
    return Table("All runs outside their claimed error", header, rows, note)
