"""EXACT, first version, figure 5: how the cost of the loss grows with classes and samples.

The measurements are those of the report on EXACT (``validation.reports.exact.cost``): the same
tasks, computed once, and exponents by the same rule.
"""

from __future__ import annotations

from typing import Any

from validation.page import Check, NotRun, Section, Table, Text
from validation.reports import Results
from validation.reports.exact import cost, cost_page
from validation.reports.parts import NOT_YET
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
IN_CLASSES, IN_SAMPLES = 2.0, 1.0  # published exponents
_NEAR = 0.25  # of a published exponent: C^2 has terms in C, and caches end at some size


def tasks(scale: str) -> list[Task]:
    return cost.tasks(scale)


def section(results: Results, scale: str) -> Section:
    by_classes, by_samples = cost_page.costs(results, scale)
    parts: list[Any] = [
        Table(
            "Published cost of the loss",
            ["what", "published"],
            [list(row) for row in PUBLISHED.items()],
        )
    ]
    gpu = NotRun("The same on a GPU.", "It needs one.", "python -m validation.benchmarks.gpu")
    if min(len(by_classes), len(by_samples)) < 2:
        again = "python -m validation paper --full"
        parts += [NotRun("Time", "No stored results yet.", again), gpu]
        return Section(TITLE, parts, NOT_YET)
    in_classes = cost_page.exponent(by_classes, "published", "seconds")
    in_samples = cost_page.exponent(by_samples, "published", "seconds")
    exact = cost_page.exponent(by_classes, "exact_loss", "seconds")
    fixed = cost.SIZES[scale].fixed_classes
    most = max(by_classes)
    ratio = by_classes[most]["published"].seconds / by_classes[most]["exact_loss"].seconds
    parts += [
        Text(
            "The published numbers are a GPU's. Here both ways run on this machine's CPU in one "
            "thread, in single precision: the published algorithm, written for these comparisons "
            "from its description, and `exact_loss`, which has no samples. What can be compared "
            "with the paper is how cost grows. Memory, other losses and the share of a training "
            "step are in the report on EXACT, which has the same measurements. "
            + cost_page.explain_exponents()
        ),
        _table("classes", f"N = {cost.FIXED_SAMPLES}", by_classes, cite="exact-cost"),
        _table("samples", f"C = {fixed}", by_samples),
        *cost_page.pictures(by_classes, by_samples, cost.SIZES[scale], ("seconds",)),
        Check(
            f"At C = {most}, N = {cost.FIXED_SAMPLES}, `exact_loss` takes less than a twentieth of "
            "the time of the published algorithm.",
            ratio > 20.0,
            f"1/{ratio:,.0f} of it.",
        ),
        *(
            Check(
                f"The published algorithm's time grows as published, like {axis}^{theory:g}: the "
                f"exponent is within {_NEAR:g} of it.",
                abs(fit.exponent - theory) < _NEAR,
                f"{axis}^{fit}, from {axis} = {fit.first:g} to {fit.last:g}.",
            )
            for axis, fit, theory in (
                ("C", in_classes, IN_CLASSES),
                ("N", in_samples, IN_SAMPLES),
            )
            if scale != "small"
        ),
        gpu,
    ]
    answer = (
        f"The published algorithm's time grows like C^{in_classes} and N^{in_samples}, where 2 and "
        f"1 are published; that of `exact_loss` like C^{exact}."
    )
    return Section(TITLE, parts, answer)


def _table(what: str, fixed: str, by: cost_page.By, cite: str = "") -> Table:
    rows = []
    for size, programs in by.items():
        published, exact = programs["published"].seconds, programs["exact_loss"].seconds
        rows.append([size, 1e3 * published, 1e3 * exact, published / exact])
    header = [what, "published, ms an example", "exact_loss, ms an example", "ratio"]
    return Table(f"Cost against {what}, {fixed}", header, rows, cite=cite)
