"""EXACT's loss: what it costs, whether it is right, and the noise of the published estimate.

Three questions. Whether value and gradient are right, against 40 digits and against sampled scores.
What loss and gradient cost in time and memory, beside the published algorithm and cross-entropy, on
the axes of the paper's figure 5, and in a training step. And what the published estimate of the
same loss, by N draws, is like: noise and bias of the loss and of its gradient.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from validation.page import Finding, Section, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.exact import (
    cost,
    cost_page,
    grid_page,
    noise,
    noise_grid,
    overhead,
    overhead_page,
    right,
)
from validation.reports.exact.measurements import digits_of, gradients_of, values_of
from validation.reports.exact.right import Digits, Distances
from validation.reports.parts import NOT_YET
from validation.running import Task


class Scale(NamedTuple):
    """What is run for single examples: see ``tasks``."""

    probs: tuple[float, ...]
    # (classes, draws for the values, draws for the gradients)
    noise: tuple[tuple[int, int, int], ...]
    digits: tuple[tuple[int, float], ...]  # (classes, P) for which there are 40 digits
    examples: int


SCALES = {
    "small": Scale((0.9, 0.01), ((10, 8192, 8192), (50, 4096, 1024)), ((3, 0.5),), 1),
    "quick": Scale(
        (0.99, 0.5, 0.01, 1e-4),
        ((10, 65536, 32768), (100, 32768, 4096), (1000, 8192, 64)),
        ((10, 0.99), (10, 1e-4)),
        1,
    ),
    "full": Scale(
        (0.99, 0.9, 0.5, 0.1, 0.01, 1e-3, 1e-4),
        ((10, 131072, 65536), (100, 65536, 8192), (1000, 16384, 64)),
        ((10, 0.99), (10, 0.01), (10, 1e-4), (100, 0.5)),
        2,
    ),
}


def tasks(scale: str) -> list[Task]:
    size = SCALES[scale]
    found = []
    for classes, values, gradients in size.noise:
        for prob, example in itertools.product(size.probs, range(size.examples)):
            which = {"classes": classes, "prob": prob, "example": example}
            end = f"C = {classes}, P = {prob:g}, example {example}"
            found.append(Task(f"values: {end}", values_of, {**which, "count": values}))
            found.append(Task(f"gradients: {end}", gradients_of, {**which, "count": gradients}))
    for classes, prob in size.digits:
        which = {"classes": classes, "prob": prob}
        found.append(Task(f"digits: C = {classes}, P = {prob:g}", digits_of, which))
    parts = (noise_grid, cost, overhead)
    return found + [task for part in parts for task in part.tasks(scale)]


def section(results: Results, scale: str) -> Section:
    size = SCALES[scale]
    values, gradients = (_cells(results, kind, size) for kind in ("values", "gradients"))
    digits = [
        Digits(classes, prob, *(results[name][key] for key in Digits._fields[2:]))
        for classes, prob in size.digits
        if (name := f"digits: C = {classes}, P = {prob:g}") in results
    ]
    rows = right.distances(values, gradients)
    parts: list[Part] = [
        Text(
            "EXACT trains the expected accuracy P: the probability that the label's score is the "
            "largest when all scores have normal noise. `exact_torch.exact_loss` computes -log P "
            "(or 1 - P) and its gradient by a one-dimensional integral, to rounding; the published "
            "algorithm estimates both by N draws of Genz's method in C - 1 dimensions, "
            "[arXiv:2205.09615](https://arxiv.org/abs/2205.09615)."
        ),
        *_finding(digits, rows),
        right.section(digits, rows),
        cost_page.section(results, scale),
        overhead_page.section(results, scale),
        noise.values(values),
        noise.gradients(gradients),
        grid_page.section(results, scale),
    ]
    return Section("EXACT", parts, _answer(digits, results, scale))


def _answer(digits: list[Digits], results: Results, scale: str) -> str:
    """Return a sentence each on errors, on cost and on the noise of the published estimate."""
    sentences = []
    if digits:
        error = max(right.largest(digits, key) for key in ("double_value", "double_gradient"))
        sentences.append(
            "`exact_loss` computes EXACT's loss and its gradient without sampling, to "
            f"{error:.0e} of 40 digits."
        )
    sentences += [cost_page.summary(results, scale), grid_page.summary(results, scale)]
    return " ".join(sentence for sentence in sentences if sentence) or NOT_YET


def _finding(digits: list[Digits], rows: list[Distances]) -> list[Finding]:
    if not digits or not rows:
        return []
    error = max(right.largest(digits, key) for key in ("double_value", "double_gradient"))
    far = max(right.largest(rows, key) for key in ("sampled", "drawn"))
    return [
        Finding(
            "EXACT's loss and gradient need no sampling: they are computed to rounding.",
            "an estimate by N draws (v1, section 4.3)",
            f"largest error {error:.0e} against 40 digits; {far:.1f} standard errors from samples "
            f"at most, in {len(rows)} examples",
            "holds" if error < 1e-13 and far < right.SIGMAS else "does not hold",
        )
    ]


def _cells(results: Results, kind: str, size: Scale) -> right.Cells:
    """Return the results of the examples of each (C, P)."""
    cells = {
        (classes, prob): [
            results[name]
            for example in range(size.examples)
            if (name := f"{kind}: C = {classes}, P = {prob:g}, example {example}") in results
        ]
        for classes, _, _ in size.noise
        for prob in size.probs
    }
    return {key: examples for key, examples in cells.items() if examples}
