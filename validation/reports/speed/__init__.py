"""Seconds beside those of scipy, mvtnorm, BoTorch and torch, in one run and at equal true errors.

What is computed: settings of ``measurements`` by scale. What is said: ``tables`` and
``growth``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from validation.page import Section, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.parts import NOT_YET, without
from validation.reports.speed import growth, measurements, tables
from validation.running import Task

CHAINS = {"small": (10,), "quick": (5, 10, 20, 50, 100), "full": (5, 10, 20, 50, 100, 200)}
RANDOM = {"small": (), "quick": (20, 100), "full": (20, 100)}
TARGETS = {"small": (1e-3,), "quick": (1e-3, 1e-4), "full": (1e-3, 1e-4)}
LIMIT = {"small": 0.2, "quick": 0.5, "full": 1.0}  # seconds of a call
TRIALS = {"small": (2, 2), "quick": (4, 2), "full": (6, 2)}
TAILS = {
    "small": ("random d=20",),
    "quick": ("random d=20", "random d=100", "equal 0.5 d=20 b=-5"),
    "full": (
        "random d=20", "random d=100", "equal 0.5 d=20 b=-5",
        "AR(1) 0.9 d=50 b=-20",
    ),
}  # fmt: skip
BATCHES = {"small": (5,), "quick": (5, 9), "full": (5, 9, 20)}
BATCH_POINTS = {"small": 2**16, "quick": 2**18, "full": 2**20}  # of the answers
GRADIENTS: dict[str, tuple[tuple[int, int], ...]] = {
    "small": ((10, 2**10),),
    "quick": ((5, 2**13), (20, 2**13), (100, 2**13)),
    "full": ((5, 2**13), (20, 2**13), (50, 2**13), (100, 2**13), (20, 2**16), (100, 2**15)),
}
CLASSES: dict[str, tuple[tuple[int, int], ...]] = {
    "small": ((256, 10),),
    "quick": ((256, 10), (32, 100)),
    "full": ((256, 10), (256, 100), (64, 1000)),
}
MANY = {
    "small": (10, 100),
    "quick": (10, 100, 1000, 10_000),
    "full": (10, 30, 100, 300, 1000, 3000, 10_000, 100_000),
}
FLOOR = {"small": (5,), "quick": (5, 20, 100), "full": (5, 10, 20, 50, 100, 200, 500)}
POINTS = {
    "small": ("AR(1) d=10",),
    "quick": ("random d=20", "random d=100"),
    "full": ("random d=20", "random d=100", "AR(1) d=20"),
}
COUNTS = {
    "small": [2**k for k in (9, 11)],
    "quick": [2**k for k in range(9, 16)],
    "full": [2**k for k in range(9, 17)],
}
BITS = {"small": (5, 2**10), "quick": (20, 2**13), "full": (50, 2**15)}
SECONDS = {"small": 0.3, "quick": 1.5, "full": 3.0}  # of turns taken


def tasks(scale: str) -> list[Task]:
    found: list[tuple[str, Any, dict[str, Any]]] = []
    names = [f"AR(1) d={d}" for d in CHAINS[scale]] + [f"random d={d}" for d in RANDOM[scale]]
    limit, trials = LIMIT[scale], TRIALS[scale]
    for name in names:
        settings = {"targets": TARGETS[scale], "limit": limit, "trials": trials}
        found.append((f"peers: {name}", measurements.side_by_side, {"name": name} | settings))
    for name in TAILS[scale]:
        settings = {"name": name, "limit": limit, "trials": trials}
        found.append((f"tails: {name}", measurements.far_out, settings))
    for d in BATCHES[scale]:
        settings = {"d": d, "points": BATCH_POINTS[scale], "limit": min(20 * limit, 10.0)}
        found.append((f"batches: d = {d}", measurements.batches, settings))
    for d, n in GRADIENTS[scale]:
        settings = {"d": d, "n": n, "seconds": SECONDS[scale]}
        found.append((f"gradients: d = {d}, n = {n}", measurements.gradient, settings))
    for rows, count in CLASSES[scale]:
        settings = {"rows": rows, "count": count}
        found.append((f"classes: {rows} x {count}", measurements.classes, settings))
    found.append(("many classes", measurements.many_classes, {"sizes": MANY[scale]}))
    settings = {"dimensions": FLOOR[scale], "rounds": 1 if scale == "small" else 3}
    found.append(("floor", measurements.floor, settings))
    for name in POINTS[scale]:
        settings = {"name": name, "counts": COUNTS[scale], "seeds": 4}
        found.append((f"points: {name}", measurements.points, settings))
    d, n = BITS[scale]
    found.append(("bits", measurements.same_bits, {"d": d, "n": n}))
    return [Task(name, call, settings, alone=True) for name, call, settings in found]


def section(results: Results, scale: str) -> Section:
    loads = [results[name]["load"] for name in results if name.startswith(("peers: ", "tails: "))]
    loads = [load for load in loads if load is not None]
    said = f"from {min(loads):.1f} to {max(loads):.1f}" if loads else "unknown"
    peers, far, batches, gradients, classes, points = (
        _named(results, start)
        for start in ("peers: ", "tails: ", "batches: ", "gradients: ", "classes: ", "points: ")
    )
    many, floor, bits = (results.get(name, []) for name in ("many classes", "floor", "bits"))
    sections = [
        _part("One problem", scale, peers, tables.side_by_side, peers),
        _part("Small probabilities", scale, far, tables.far_out, far),
        _part("Batches", scale, batches, tables.batches, batches),
        _part("Gradients in time", scale, gradients, growth.gradients, gradients),
        _part("Many classes", scale, classes, growth.classes, classes, many),
        _part("Seconds against points", scale, points, growth.points, points),
        _part("The kernel and its floor; threads", scale, floor, growth.floor, floor, bits),
    ]
    parts: list[Part] = [
        Text(
            "Every measurement ran alone, in one thread unless two are named, and each ratio comes "
            "from calls taken one after the other in one process. A ratio is a peer's seconds over "
            "mvnorth's, both at the smallest number of points whose true root-mean-square error "
            "over several seeds meets the target; above 1 mvnorth is faster. True errors are "
            "against known answers. The machine and its versions stand at the foot of the page; "
            f"the load average was {said}. Seconds of the first two parts "
            "and of gradients are the processor's, the others those of the clock: a load above the "
            "number of cores means that other work is in these, and only ratios say something."
        ),
        *sections,
    ]
    answers = {part.title: part.answer for part in sections}
    wanted = [answers[title] for title in ("One problem", "Small probabilities")]
    return Section("Speed", parts, " ".join(each for each in wanted if each != NOT_YET) or NOT_YET)


def _part(
    title: str, scale: str, there: Any, write: Callable[..., tuple[str, list[Part]]], *given: Any
) -> Section:
    """Return a part with its answer, or one that says that it is not measured yet."""
    if not there:
        return without(title, "No stored results yet.", "speed", scale)
    answer, parts = write(*given)
    return Section(title, parts, answer)


def _named(results: Results, start: str) -> dict[str, Any]:
    return {name.removeprefix(start): results[name] for name in results if name.startswith(start)}
