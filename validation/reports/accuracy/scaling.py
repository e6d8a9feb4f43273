"""Error by dimension and by the size of the probability; a part of accuracy."""

from __future__ import annotations

from typing import Any

from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.problems import Problem
from validation.reports import Results, families, runs
from validation.running import Task

_COLOURS = {"genz": "C1", "tilting": "C0", "auto": "C2"}
_POINTS = 8192
_DIMENSIONS = {
    "small": (2, 10, 100),
    "quick": (2, 5, 10, 20, 50, 100, 200, 1000),
    "full": (2, 3, 5, 10, 20, 50, 100, 200, 350, 500, 700, 1000),
}
_SEEDS = {"small": 2, "quick": 4, "full": 12}
_LARGE_SEEDS = {"small": 2, "quick": 2, "full": 6}  # from 500 coordinates on
_LEVELS = {"small": (0, 3, 6), "quick": tuple(range(7)), "full": tuple(range(7))}


def tasks(scale: str) -> list[Task]:
    found = []
    for family in families.BY_DIMENSION:
        small = [d for d in _DIMENSIONS[scale] if d < 500]
        large = [d for d in _DIMENSIONS[scale] if d >= 500]
        seeds = [(d, _SEEDS[scale]) for d in small], [(d, _LARGE_SEEDS[scale]) for d in large]
        for kind, each in zip(("to 200", "beyond"), seeds, strict=True):
            if each:
                found.append(
                    Task(
                        f"dimension, {family}, {kind}",
                        by_dimension,
                        {"family": family, "dimensions": each},
                    )
                )
    for family, levels in families.LEVELS.items():
        chosen = [levels[k] for k in _LEVELS[scale]]
        found.append(
            Task(
                f"tail, {family}",
                by_tail,
                {"family": family, "levels": chosen, "seeds": 2 * _SEEDS[scale]},
            )
        )
    return found


def by_dimension(family: str, dimensions: list[list[int]]) -> list[dict[str, Any]]:
    """Errors of all methods on a family at (dimension, seeds)."""
    make = families.BY_DIMENSION[family]
    return [{"d": d, **_errors(make(d), seeds)} for d, seeds in dimensions]


def by_tail(family: str, levels: list[float], seeds: int) -> list[dict[str, Any]]:
    """Errors of all methods on a family with limits at levels."""
    return [{"level": x, **_errors(families.by_tail(family, x), seeds)} for x in levels]


def _errors(problem: Problem, seeds: int) -> dict[str, Any]:
    d, truth = problem.upper.size, problem.log_prob
    known = runs.Known("", d, problem.tags, truth, problem.log_error, [])
    told: dict[str, Any] = {"log_prob": truth, "log_error": problem.log_error}
    for method in ("genz", "tilting", "auto"):
        plan = runs.Plan(method, _POINTS, 1 if method == "auto" else seeds)
        own = [runs.call(problem, problem.cov, plan, seed) for seed in range(plan.seeds)]
        told[method] = runs.rms(runs.relative_error(run, known) for run in own)
        told["used"] = own[0].used
    return told


def section(results: Results, scale: str) -> Section:
    dimensions: dict[str, list[dict[str, Any]]] = {}
    for name, value in results.items():
        if name.startswith("dimension, "):
            family = name.removeprefix("dimension, ").rpartition(", ")[0]
            dimensions.setdefault(family, []).extend(value)
    tails = {
        name.removeprefix("tail, "): value
        for name, value in results.items()
        if name.startswith("tail, ")
    }
    return Section(
        "Dimension and tails",
        [
            Text(
                f"Each method with {_POINTS} points on families whose answer is known at any "
                "dimension and as far out as one likes, given as a dense covariance: "
                "`genz` and `tilting` are forced to sample what `auto` would solve exactly. "
                "Limits are those at which independent coordinates would have P = 1/2; those of "
                "correlations 0.5 are zero, where P = 1/(d + 1). Errors are relative errors of P, "
                f"root mean square over {_SEEDS[scale]} seeds ({_LARGE_SEEDS[scale]} from 500 on; "
                f"twice {_SEEDS[scale]} in the tails)."
            ),
            *(_picture(f, rows, "d", "coordinates d") for f, rows in dimensions.items()),
            _table("Relative error by dimension", "d", dimensions),
            *_dimension_checks(dimensions),
            Text(
                "All limits of a family are moved down together, from log P = -1 to -1000, far "
                "below what a double can hold. A relative error of 1 means that no digit of P is "
                "right; plain Genz ends there, which is why `auto` does not use it."
            ),
            *(_picture(f, rows, "log_prob", "-log P") for f, rows in tails.items()),
            _table("Relative error in the tails", "level", tails),
            *_tail_checks(tails),
        ],
        _answer(dimensions, tails),
    )


def _answer(
    dimensions: dict[str, list[dict[str, Any]]], tails: dict[str, list[dict[str, Any]]]
) -> str:
    by_size, by_tail = ([row for own in by.values() for row in own] for by in (dimensions, tails))
    largest = max(row["d"] for row in by_size)
    lowest = min(row["log_prob"] for row in by_tail)
    far = [row for row in by_tail if row["log_prob"] < -900]
    return (
        f"With {_POINTS} points `tilting` is right to "
        f"{100 * max(row['tilting'] for row in by_size):.1g} % up to d = {largest}, and to "
        f"{100 * max(row['tilting'] for row in by_tail):.1g} % down to log P = {lowest:.0f}, where "
        f"plain Genz is off by {min(row['genz'] for row in far):.1g} to "
        f"{max(row['genz'] for row in far):.1g} times P."
    )


def _picture(family: str, rows: list[dict[str, Any]], key: str, label: str) -> Picture:
    x = [abs(row[key]) for row in rows]
    figure, ax = axes(log="xy", xlabel=label, ylabel="relative error of P")
    methods = ("genz", "tilting", "auto")
    for method in methods:
        error = [max(row[method], 1e-17) for row in rows]
        ax.plot(x, error, "o-", color=_COLOURS[method], label=method)
    ax.legend(fontsize=8)
    shown = [[abs(row[key]), *(row[method] for method in methods)] for row in rows]
    data = Table("", [label, *methods], shown)
    what = "Dimension" if key == "d" else "Tail"
    used = sorted({row["used"] for row in rows})
    return Picture(f"{what}: {family}", figure, data, f"`auto` takes {', '.join(used)}.")


def _table(title: str, key: str, by: dict[str, list[dict[str, Any]]]) -> Table:
    header = ["family", key, "log P", "genz", "tilting", "auto", "auto takes", "truth known to"]
    rows = [
        [family, row[key], row["log_prob"], row["genz"], row["tilting"], row["auto"], row["used"],
         row["log_error"]]
        for family, own in by.items()
        for row in own
    ]  # fmt: skip
    return Table(title, header, rows)


def _dimension_checks(by: dict[str, list[dict[str, Any]]]) -> list[Check]:
    rows = [row for own in by.values() for row in own]
    found = [
        Check(
            f"In all families and dimensions tilting with {_POINTS} points is right to 2 %.",
            all(row["tilting"] < 0.02 for row in rows),
            f"Largest {max(row['tilting'] for row in rows):.1e}, "
            f"at d = {max(rows, key=lambda row: row['tilting'])['d']}.",
        )
    ]
    exact = [row for row in rows if "tilting" not in row["used"]]
    bound = [1e-12 * max(1.0, row["d"] / 10) + row["log_error"] for row in exact]
    found.append(
        Check(
            "What `auto` solves without sampling is right to 1e-13 d, or 1e-12.",
            bool(exact) and all(row["auto"] < b for row, b in zip(exact, bound, strict=True)),
            f"Largest of {len(exact)}: {max((row['auto'] for row in exact), default=0.0):.1e}.",
        )
    )
    return found


def _tail_checks(by: dict[str, list[dict[str, Any]]]) -> list[Check]:
    rows = [row for own in by.values() for row in own]
    worst = max(rows, key=lambda row: row["tilting"])
    far = [row for row in rows if row["log_prob"] < -900]
    return [
        Check(
            f"From log P = -1 to -1000 tilting with {_POINTS} points is right to 1 %.",
            all(row["tilting"] < 0.01 for row in rows),
            f"Largest {worst['tilting']:.1e}, at log P = {worst['log_prob']:.0f}; at -1000 "
            f"{max(row['tilting'] for row in far):.1e}.",
        ),
        Check(
            "Plain Genz has lost all digits at log P = -1000, as the documentation says.",
            any(row["genz"] > 0.5 for row in far),
            f"{max(row['genz'] for row in far):.1e}.",
        ),
    ]
