"""Tables, pictures and checks of the report on speed: gradients, classes, points and threads.

As in ``tables``, no check is of seconds, and those of ratios have a wide margin.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from validation.page import Check, NotRun, Picture, Table
from validation.page.content import Part
from validation.page.figures import axes
from validation.reports.speed.measurements import Record
from validation.reports.speed.tables import COLOURS

# Ratios of seconds that must be exceeded, and what was measured on a busy machine.
DIFFERENCES = 4.0  # at d >= 10: 13 with few points, to 4000
SCIPY_CLASSES = 100.0  # value alone: 5000 to 500,000
PUBLISHED = 3.0  # N = 16: 16 to 50 at 10 classes, 200 to 600 at 100


def gradients(found: Mapping[str, list[Record]]) -> tuple[str, list[Part]]:
    lines = [line for each in found.values() for line in each]
    rows = [
        [line["d"], line["n"], line["method"], line["value"], line["gradient"] / line["value"],
         line["differences"] / line["gradient"],
         line["torch"] / line["gradient"] if line["torch"] else None,
         line["chunks"] / line["gradient"] if line["chunks"] else None]
        for line in lines
    ]  # fmt: skip
    figure, ax = axes(log="xy", xlabel="d", ylabel="seconds")
    path = [line for line in lines if line["method"] == "pathwise" and line["n"] == lines[0]["n"]]
    shown = {"value": "C0", "gradient": "C1", "differences": "C2", "torch": "C3"}
    data = []
    for name, colour in shown.items():
        points = [(line["d"], line[name]) for line in path if line[name]]
        data += [[name, *point] for point in points]
        if points:
            ax.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
    ax.legend(fontsize=8)
    title = f"Value and gradient against dimensions, {lines[0]['n']} points"
    slower = sum(
        min(line["torch"], line["chunks"]) < line["gradient"] for line in lines if line["torch"]
    )
    least = min(line["differences"] / line["gradient"] for line in lines if line["d"] >= 10)
    apart = [line["differences_off"] for line in lines if line["method"] == "pathwise"]
    off = float(np.max(apart))
    outside = [line["outside"] for line in lines if line["outside"] is not None]
    parts: list[Part] = [
        Picture(title, figure, Table(title, ("", "d", "seconds"), data), "Method `pathwise`."),
        Table(
            "Value and gradient in m and L",
            ("d", "points", "method", "value, s", "gradient / value", "differences / gradient",
             "torch / gradient", "in chunks"),
            rows,
            "Processor time. Differences are of our own value, eight timed and scaled up; torch is "
            "Genz's recursion by autograd, in one tensor and in chunks of 8192 points; it was "
            f"faster than mvnorth in {slower} of {len(lines)} rows.",
            cite="speed-gradients",
        ),
        Check(
            f"From d = 10 on, differences take more than {DIFFERENCES:g} times as long.",
            least > DIFFERENCES,
            f"{least:.3g} times at least.",
        ),
        Check(
            "What was timed is right: pathwise derivatives are the differences to 1e-6, and at "
            "most 5 % of torch's are further away than both errors.",
            off <= 1e-6 and all(share <= 0.05 for share in outside),
            f"{off:.1e}; {max(outside, default=0.0):.1%}.",
        ),
    ]  # fmt: skip
    if not outside:
        parts.append(_no_torch())
    times = [line["gradient"] / line["value"] for line in lines]
    answer = (
        f"A gradient takes {min(times):.2g} to {max(times):.2g} times the time of the value; "
        f"differences take {least:.2g} times that of the gradient or more, from d = 10 on."
    )
    return answer, parts


def classes(found: Mapping[str, list[Record]], many: list[Record]) -> tuple[str, list[Part]]:
    rows, scipys, published, errors_of_own = [], [], [], []
    by_program: dict[str, list[tuple[int, float]]] = {}
    for each in found.values():
        own = next(line for line in each if line["program"] == "mvnorth, float64")
        errors_of_own += [own["log_errors"][1], own["grad_errors"][1]]
        for line in each:
            times = line["seconds"] / own["seconds"]
            errors = [line[key][0] if line[key] else None for key in ("log_errors", "grad_errors")]
            rows.append([line["rows"], line["classes"], line["program"], line["seconds"], times,
                         *errors])  # fmt: skip
            name = line["program"]
            by_program.setdefault(name, []).append(
                (line["classes"], line["seconds"] / line["rows"])
            )
            scipys += [times] if name.startswith("scipy") else []
            published += [times] if name == "published, N=16, float64" else []
    worst = float(np.max(errors_of_own))
    figure, ax = axes(log="xy", xlabel="classes", ylabel="seconds a row")
    own_points = [(line["classes"], line["seconds"] / line["rows"]) for line in many]
    data = [["mvnorth, float64", *point] for point in own_points]
    if own_points:
        ax.plot(*zip(*own_points, strict=True), "o-", color="C0", label="mvnorth, float64")
    colours = {
        "published, N=16, float64": "C3", "torch sketch, 32 nodes, float64": "C2",
        "torch cross-entropy": "C4", "scipy, value only": "C1",
    }  # fmt: skip
    for name, points in by_program.items():
        if name in colours:
            ax.plot(*zip(*points, strict=True), "o--", color=colours[name], label=name)
            data += [[name, *point] for point in points]
    ax.legend(fontsize=7)
    title = "Seconds a row against classes"
    parts: list[Part] = [
        Picture(title, figure, Table(title, ("program", "classes", "seconds a row"), data)),
        Table(
            "-log P and its gradient for a batch of scores",
            ("rows", "classes", "program", "seconds", "/ mvnorth", "error of log P",
             "of the gradient"),
            rows,
            "Medians of errors over 16 rows. `published` is the algorithm of the EXACT paper in "
            "torch, N its samples; scipy computes the value alone, of a few rows, scaled up; "
            "cross-entropy is another loss, for scale.",
            cite="speed-classes",
        ),
        Check(
            "log P and its gradient that were timed are right to 1e-11.",
            worst <= 1e-11,
            f"{worst:.1e} at most.",
        ),
        Check(
            f"scipy, value alone, takes more than {SCIPY_CLASSES:g} times as long.",
            min(scipys) > SCIPY_CLASSES,
            f"{min(scipys):.3g} to {max(scipys):.3g} times.",
        ),
    ]  # fmt: skip
    if published:
        parts.append(
            Check(
                f"The published algorithm with 16 samples takes more than {PUBLISHED:g} times as "
                "long.",
                min(published) > PUBLISHED,
                f"{min(published):.3g} to {max(published):.3g} times.",
            )
        )
    else:
        parts.append(_no_torch())
    answer = (
        f"-log P and its gradient are right to {worst:.0e}; scipy takes {min(scipys):,.0f} to "
        f"{max(scipys):,.0f} times as long for the value alone"
        + (f", the published algorithm with 16 samples {min(published):.2g} to "
           f"{max(published):.2g} times." if published else ".")
    )  # fmt: skip
    return answer, parts


def points(found: Mapping[str, list[Record]]) -> tuple[str, list[Part]]:
    parts: list[Part] = []
    for problem, records in found.items():
        figure, ax = axes(log="xy", xlabel="seconds", ylabel="relative error, root mean square")
        for name in ("mvnorth", "scipy"):
            own = [record for record in records if record["program"] == name]
            x, y = [r["seconds"] for r in own], [r["error"] for r in own]
            ax.plot(x, y, "o-", color=COLOURS[name], label=name)
        ax.legend(fontsize=8)
        keys = ("program", "n", "seconds", "error")
        title = f"Error against seconds, {problem}"
        data = Table(title, keys, [[record[key] for key in keys] for record in records])
        counts = [record["n"] for record in records]
        caption = f"From {min(counts)} to {max(counts)} points; scipy rounds them to its lattices."
        parts.append(Picture(title, figure, data, caption))
    header = ("problem", "program", "n", "seconds", "error")
    rows = [
        [problem, *(record[key] for key in header[1:])]
        for problem, records in found.items()
        for record in records
    ]
    parts.append(Table("Seconds and error against points", header, rows))
    best = {
        name: min(r["error"] for each in found.values() for r in each if r["program"] == name)
        for name in ("mvnorth", "scipy")
    }
    answer = (
        f"The smallest error reached is {best['mvnorth']:.0e} by mvnorth and {best['scipy']:.0e} "
        "by scipy."
    )
    return answer, parts


def floor(measured: list[Record], bits: list[Record]) -> tuple[str, list[Part]]:
    figure, ax = axes(log="x", xlabel="d", ylabel="ns a sample and dimension")
    d = [record["d"] for record in measured]
    ax.plot(d, [record["cost"] for record in measured], "o-", color="C0", label="the kernel")
    ax.plot(d, [record["bound"] for record in measured], "o:", color="C1", label="its floor")
    ax.set_ylim(bottom=0.0)
    ax.legend(fontsize=8)
    title = "The kernel and its floor"
    rows = [
        [r["d"], r["cost"], r["bound"], r["cost"] / r["bound"], r["speedup"], r["load"]]
        for r in measured
    ]
    header = ("d", "ns", "floor, ns", "ratio", "two threads / one, times faster", "load")
    table = Table(
        "Nanoseconds a sample and dimension of Genz's kernel",
        header,
        rows,
        "The floor is a vector Φ, a vector Φ⁻¹ and the multiply-adds, each measured alone. Two "
        "threads cannot be faster than one where other work has the second core: see the load.",
        cite="speed-kernel",
    )
    threads = [[r["what"], r["d"], r["n"], r["one"], r["two"], r["one"] / r["two"], str(r["same"])]
               for r in bits]  # fmt: skip
    same = [r["same"] for r in bits] + [r["same_bits"] for r in measured]
    over = [r["cost"] / r["bound"] for r in measured]
    answer = (
        f"Genz's kernel takes {min(over):.2g} to {max(over):.2g} times its floor; {sum(same)} of "
        f"{len(same)} results have the same bits with one thread and with two."
    )
    return answer, [
        Picture(title, figure, Table(title, header[:3], [row[:3] for row in rows])),
        table,
        Table(
            "Four problems by one thread and by two",
            ("", "d", "points", "one, s", "two, s", "times faster", "same bits"),
            threads,
        ),
        Check(
            "One thread and two give the same bits, of values and of gradients.",
            bool(bits and measured) and all(same),
            f"{sum(same)} of {len(same)} are the same.",
        ),
    ]


def _no_torch() -> NotRun:
    return NotRun("Programs in torch", "torch is missing.", "python -m pip install torch")
