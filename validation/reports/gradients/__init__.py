"""All ways to a derivative, beside oracles, differences and each other; honesty of their errors."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from validation.page import Finding, Section, Text
from validation.page.content import Part, Verdict
from validation.reports import Results
from validation.reports.gradients import pictures, samples, tables, ways
from validation.reports.gradients.samples import REGIMES
from validation.reports.gradients.tables import N
from validation.reports.gradients.ways import Record
from validation.reports.parts import NOT_YET, without
from validation.reports.runs import PROMISE
from validation.running import Task

# structure: numbers of coordinates
WAYS: dict[str, dict[str, tuple[int, ...]]] = {
    "small": {"two or three": (2,), "one factor": (4,), "one factor, box": (3,), "chain": (3,)},
    "quick": {
        "two or three": (2, 3),
        "one factor": (2, 4, 10, 30),
        "one factor, box": (4, 8),
        "one factor, tail": (5, 20),
        "one factor, P near 1": (5,),
        "one factor, nearly singular": (5,),
        "equal scores": (9, 99),
        "chain": (4, 10),
        "chain, box": (4,),
        "two factors": (4, 8),
        "two factors, box": (5,),
    },
    "full": {
        "two or three": (2, 3),
        "one factor": (2, 4, 10, 30, 100),
        "one factor, box": (4, 8, 16),
        "one factor, tail": (5, 20, 50),
        "one factor, P near 1": (5, 20),
        "one factor, nearly singular": (5, 20),
        "equal scores": (9, 99),
        "chain": (4, 10, 20),
        "chain, box": (4, 10),
        "two factors": (4, 8, 12),
        "two factors, box": (5, 10),
    },
}
SEEDS = {"small": 1, "quick": 1, "full": 3}
DIGITS = {"small": (2,), "quick": (2, 3, 5), "full": (2, 3, 5, 8)}
DIFFERENCED = {"small": (4,), "quick": (3, 6, 12, 25), "full": (3, 4, 6, 9, 12, 16, 25)}
POINTS = {"small": (5,), "quick": (5, 20), "full": (5, 20, 50)}  # d
COUNTS = {
    "small": [2**k for k in (9, 12, 14)],
    "quick": [2**k for k in range(8, 17)],
    "full": [2**k for k in range(8, 19)],
}
POINT_SEEDS = {"small": 4, "quick": 8, "full": 16}
HONESTY = {"small": (1024,), "quick": (1024, 8192), "full": (1024, 8192, 65536)}
HONESTY_PROBLEMS = {"small": 8, "quick": 40, "full": 120}


def tasks(scale: str) -> list[Task]:
    found = [
        Task(
            f"ways: {structure}, d = {d}, {seed}",
            ways.ways,
            {"structure": structure, "d": d, "seed": seed, "n": N},
        )
        for structure, dimensions in WAYS[scale].items()
        for d in dimensions
        for seed in range(SEEDS[scale])
    ]
    found.append(Task("stored factors", ways.stored_factors, {"largest": 10_000}))
    found.append(Task("stored limits", ways.stored_limits, {"n": 2**14, "largest": 99}))
    found += [Task(f"digits: d = {d}", ways.digits, {"d": d, "seed": 1}) for d in DIGITS[scale]]
    found += [
        Task(
            f"differences: d = {d}, box = {box}",
            samples.differenced,
            {"d": d, "seed": 1, "n": N, "box": box},
        )
        for d in DIFFERENCED[scale]
        for box in (False, True)
    ]
    found += [
        Task(
            f"points: d = {d}",
            samples.against_points,
            {"d": d, "counts": COUNTS[scale], "seeds": POINT_SEEDS[scale]},
        )
        for d in POINTS[scale]
    ]
    found += [
        Task(
            f"honesty: {regime}, {n}",
            samples.honesty,
            {"regime": regime, "n": n, "count": HONESTY_PROBLEMS[scale], "seed": 1},
        )
        for regime in REGIMES
        for n in HONESTY[scale]
    ]
    if importlib.util.find_spec("torch") is not None:
        found += [
            Task(f"torch: d = {d}", samples.autograd, {"d": d, "n": N, "seed": 0}) for d in (3, 8)
        ]
    found.append(Task("R", samples.scores, {"d": 5, "seed": 1, "n": 2**14}))
    return found


def section(results: Results, scale: str) -> Section:
    done = [results[name] for name in results if name.startswith("ways: ")]
    records = [record for each in done for record in each["records"]]
    pairs = [pair for each in done for pair in each["pairs"]]
    digits = any(name.startswith("digits: ") for name in results)
    differences, points, honesty = (
        _of(results, start) for start in ("differences: ", "points: ", "honesty: ")
    )
    torch = any(name.startswith("torch: ") for name in results)
    sections = [
        _part("Without sampling", scale, records and digits, tables.exact, records, results),
        _part("Sampled", scale, records, tables.sampled, records),
        _part("Ways against each other", scale, pairs, tables.between, pairs),
        _part("Differences with the same points", scale, differences, pictures.differences,
              differences),
        _part("Error against points", scale, points, pictures.against_points, points),
        _part("Honesty", scale, honesty, pictures.honesty, honesty),
        _part("Automatic differentiation, and R", scale, torch, pictures.others, results),
    ]  # fmt: skip
    answer = {part.title: part.answer for part in sections}
    parts: list[Part] = [
        Text(
            "Derivatives of log P by every method and function of mvnorth, in double precision. "
            "`off` is the largest error of a derivative's entries over its largest entry. Truths "
            "come from 40-digit closed forms and integrals, from a fine trapezoid over the common "
            "factor in numpy, and from differences of the fourth order of other programs' values; "
            "none comes from mvnorth. Errors that mvnorth claims are meant to hold for 99 % of "
            "the entries."
        ),
        *(_finding(records, honesty) if records and honesty else []),
        *sections,
    ]
    said = [answer[title] for title in ("Without sampling", "Honesty") if answer[title] != NOT_YET]
    return Section("Gradients", parts, " ".join(said) or NOT_YET)


def _part(
    title: str, scale: str, there: Any, write: Callable[..., tuple[str, list[Part]]], *given: Any
) -> Section:
    """Return a part with its answer, or one that says that results are missing."""
    if not there:
        return without(title, "It has no results yet.", "gradients", scale)
    answer, parts = write(*given)
    return Section(title, parts, answer)


def _finding(records: list[Record], honesty: list[Record]) -> list[Finding]:
    worst = tables.beyond(records)
    counted = tables.count_claims(honesty)
    low, high = counted.interval
    right = worst["off"] - worst["rounding"] <= tables.EXACT
    verdict: Verdict = "holds" if right and high <= PROMISE else "not decided"
    if not right or low > PROMISE:
        verdict = "does not hold"
    return [
        Finding(
            f"Gradients without sampling are right to {tables.EXACT:.0e}, and sampled ones within "
            "their claimed errors in 99 % of entries.",
            "",
            f"largest error {worst['off']:.0e} (its oracle: {worst['rounding']:.0e}); outside: "
            f"{counted} of sampled entries",
            verdict,
        )
    ]


def _of(results: Results, start: str) -> list[Record]:
    return [record for name in results if name.startswith(start) for record in results[name]]
