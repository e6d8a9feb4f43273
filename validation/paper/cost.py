"""EXACT, first version, figure 5: how the cost of the loss grows with classes and samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from exact_torch import exact_loss
from validation.benchmarks.exact import Batch, fastest, gradients
from validation.benchmarks.one_factor import Published
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v1, figure 5: cost"
# The figure has curves and no numbers; section 5.4 has these, for a V100 and batches of 256.
PUBLISHED = {
    "operations and memory of an example": "O(N C^2)",
    "classes, with N = 512 samples": "a curve",
    "samples, with C = 128 classes": "a curve",
    "C = 16, N = 512: examples a second of ResNet-34 in training": "8 % fewer",
    "in all": "an overhead of about 10 %, by classes and network",
}
_CLASSES = {"small": (8, 32), "quick": (8, 16, 32, 64, 128), "full": (8, 16, 32, 64, 128, 256)}
_SAMPLES = {"small": (16, 64), "quick": (16, 64, 256), "full": (16, 64, 256, 1024)}
_OF_CLASSES = {"small": 64, "quick": 64, "full": 512}  # samples where classes vary
_OF_SAMPLES = {"small": 16, "quick": 64, "full": 128}  # classes where samples vary
_ROUNDS = {"small": 1, "quick": 3, "full": 5}
_WORK = 8e6  # most numbers of the published algorithm in a call: fewer rows for more of them
_ROWS = 256


def tasks(scale: str) -> list[Task]:
    sizes = {(classes, _OF_CLASSES[scale]) for classes in _CLASSES[scale]}
    sizes |= {(_OF_SAMPLES[scale], samples) for samples in _SAMPLES[scale]}
    return [
        Task(
            _name(classes, samples),
            seconds,
            {"classes": classes, "samples": samples, "rounds": _ROUNDS[scale]},
            alone=True,
        )
        for classes, samples in sorted(sizes)
    ]


def seconds(classes: int, samples: int, rounds: int) -> dict[str, float]:
    """Seconds an example, of a loss and its gradient, in one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        batch = Batch(_ROWS, classes, trained=True)
        few = min(_ROWS, max(1, int(_WORK / (classes**2 * samples))))
        published = Published(classes, samples, batch.m.dtype)
        calls = (
            partial(published, batch.m[:few]),
            partial(gradients, batch.scores, batch.labels, partial(exact_loss, sigma=1.0)),
        )
        for call in calls:
            call()
        theirs, ours = fastest(calls, rounds)
    finally:
        torch.set_num_threads(threads)
    return {"published": theirs / few, "exact_loss": ours / _ROWS}


def section(results: Results, scale: str) -> Section:
    published = Table(
        "Published cost of the loss",
        ["what", "published"],
        [list(row) for row in PUBLISHED.items()],
    )
    parts: list[Any] = [
        published,
        Text(
            "The published numbers are a GPU's. Here both ways run on this machine's CPU in one "
            "thread, in single precision: the published algorithm, written for these comparisons "
            "from its description, and `exact_loss`, which has no samples. What can be compared "
            "with the paper is how cost grows. Time and memory beside other losses, and the share "
            "of a training step, are in the report on EXACT."
        ),
    ]
    for what, sizes in (
        ("classes", [(c, _OF_CLASSES[scale]) for c in _CLASSES[scale]]),
        ("samples", [(_OF_SAMPLES[scale], n) for n in _SAMPLES[scale]]),
    ):
        if all(_name(*size) in results for size in sizes):
            parts += _growth(what, sizes, [results[_name(*size)] for size in sizes])
    parts.append(
        NotRun(
            "The same on a GPU.",
            "It needs one.",
            "python -m validation.benchmarks.gpu",
        )
    )
    return Section(TITLE, parts)


def _growth(what: str, sizes: Sequence[tuple[int, int]], found: Sequence[Any]) -> list[Any]:
    which = 0 if what == "classes" else 1
    varied = [size[which] for size in sizes]
    fixed = f"N = {sizes[0][1]}" if what == "classes" else f"C = {sizes[0][0]}"
    figure, ax = axes(log="xy", xlabel=what, ylabel="milliseconds an example")
    powers = {}
    for number, name in enumerate(("published", "exact_loss")):
        times = [1e3 * each[name] for each in found]
        ax.plot(varied, times, color=f"C{number}", marker="o", label=name)
        powers[name] = math.log(times[-1] / times[-2]) / math.log(varied[-1] / varied[-2])
    ax.legend()
    rows = [
        [size, 1e3 * each["published"], 1e3 * each["exact_loss"], _ratio(each)]
        for size, each in zip(varied, found, strict=True)
    ]
    header = [what, "published, ms an example", "exact_loss, ms an example", "ratio"]
    table = Table(f"Cost against {what}, {fixed}", header, rows)
    theory = 2 if what == "classes" else 1
    told = (
        f"From {varied[-2]} to {varied[-1]} {what} the published algorithm's time grew with the "
        f"power {powers['published']:.2f} of their number, where {theory} is published; "
    )
    if what == "samples":
        return [
            table,
            Picture(f"Time against {what}", figure, table),
            Text(told + "exact_loss has none."),
        ]
    last = rows[-1][3]
    return [
        table,
        Picture(f"Time against {what}", figure, table),
        Text(told + f"that of exact_loss with the power {powers['exact_loss']:.2f}."),
        Check(
            f"At C = {varied[-1]}, {fixed}, exact_loss takes less than a third of the time of the "
            "published algorithm.",
            last > 3,
            f"1/{last:.0f} of it.",
        ),
    ]


def _ratio(each: Any) -> float:
    ratio: float = each["published"] / each["exact_loss"]
    return ratio


def _name(classes: int, samples: int) -> str:
    return f"C = {classes}, N = {samples}"
