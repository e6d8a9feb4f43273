"""What the report on EXACT says of the direction of a batch's gradient, by settings of the loss."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from validation.page import Check, Finding, Picture, Section, Table, Text
from validation.page.content import Part, Verdict
from validation.page.figures import axes
from validation.reports import Results
from validation.reports.exact.noise_grid import (
    DEFAULT,
    EXAMPLES,
    FEATURES,
    GRIDS,
    LIFT,
    MARGIN,
    OBJECTIVES,
    Cosine,
    task_name,
)
from validation.reports.intervals import Mean, mean_of
from validation.reports.parts import NOT_YET

KEPT = 0.95  # a cosine from which on a direction is called kept: 18 degrees
NOISE_FACTOR = 1.5
NAMES = {"error": "1 - P", "nll": "-log P"}


class Cell(NamedTuple):
    """Settings of the loss, and the cosines by number of draws."""

    classes: int
    normalize: bool
    margin: float | None
    sigma: float
    objective: str
    scores: dict[int, Mean]
    weights: dict[int, Mean]
    averaged: Mean
    groups: int

    @property
    def setting(self) -> str:
        margin = "no margin" if self.margin is None else f"margin {self.margin:g}"
        return f"{'normalised' if self.normalize else 'plain'}, {margin}, sigma = {self.sigma:g}"

    def __str__(self) -> str:
        return f"C = {self.classes}, {self.setting}, {NAMES[self.objective]}"


def cells(results: Results, scale: str) -> list[Cell]:
    """Return what was computed, a cell for each setting and objective."""
    grid = GRIDS[scale]
    found = []
    for classes in grid.classes:
        for normalize in (False, True):
            for margin in (None, MARGIN):
                for sigma in grid.sigmas:
                    name = task_name(classes, normalize, margin, sigma)
                    rows = [Cosine(*row) for row in results.get(name, [])]
                    setting = (classes, normalize, margin, sigma)
                    found += [_cell(*setting, o, rows) for o in OBJECTIVES if rows]
    return found


def _cell(
    classes: int,
    normalize: bool,
    margin: float | None,
    sigma: float,
    objective: str,
    rows: list[Cosine],
) -> Cell:
    rows = [row for row in rows if row.objective == objective]
    default = [row for row in rows if row.n == DEFAULT]
    numbers = sorted({row.n for row in rows})
    scores, weights = (
        {n: mean_of([getattr(row, key) for row in rows if row.n == n]) for n in numbers}
        for key in ("scores", "weights")
    )
    averaged = mean_of([row.mean for row in default])
    setting = (classes, normalize, margin, sigma, objective)
    return Cell(*setting, scores, weights, averaged, default[0].groups)


def summary(results: Results, scale: str) -> str:
    """Return one sentence, or nothing where nothing is computed."""
    found = cells(results, scale)
    if not found:
        return ""
    worst = min(found, key=lambda cell: cell.scores[DEFAULT].mean)
    best = max(found, key=lambda cell: cell.scores[DEFAULT].mean)
    return (
        f"With its default N = {DEFAULT} the published estimate of a batch's gradient has a cosine "
        f"with the exact one of {worst.scores[DEFAULT].text(3)} where it is worst ({worst}), and "
        f"of {best.scores[DEFAULT].mean:.3f} where it is best."
    )


def section(results: Results, scale: str) -> Section:
    title = "Noise of the published estimate: the gradient of a batch"
    found = cells(results, scale)
    if not found:
        return Section(title, [], NOT_YET)
    worst = min(found, key=lambda cell: cell.scores[DEFAULT].mean)
    best = max(found, key=lambda cell: cell.scores[DEFAULT].mean)
    most = max(worst.scores)
    cosine = worst.scores[DEFAULT]
    averaging = (
        f" In the weights of a last layer it is {worst.weights[DEFAULT].text(3)}; the mean of "
        f"{worst.groups} estimates has {worst.averaged.mean:.3f}."
        if worst.groups > 1
        else f" In the weights of a last layer it is {worst.weights[DEFAULT].text(3)}."
    )
    answer = (
        f"With the default N = {DEFAULT} the cosine between the published estimate of a batch's "
        f"gradient and the exact one is {cosine.text(3)} where it is worst ({worst}), and "
        f"{best.scores[DEFAULT].mean:.3f} where it is best ({best}).{averaging}"
    )
    numbers = sorted(worst.scores)
    ratios = [
        _turned(cell, 1) / (_turned(cell, most) * most)
        for cell in found
        if cell.objective == "error"
    ]
    rows = [
        [
            cell.classes,
            cell.setting,
            NAMES[cell.objective],
            *(cell.scores[n].mean if n != DEFAULT else cell.scores[n].text(3) for n in numbers),
            cell.weights[DEFAULT].mean,
        ]
        for cell in sorted(found, key=lambda cell: cell.scores[DEFAULT].mean)
    ]
    parts: list[Part] = [
        Finding(
            f"The published estimate with its default N = {DEFAULT} keeps the direction of the "
            f"gradient: cosines of {KEPT:g} or more in all settings.",
            "",
            f"{cosine.text(3)} at worst ({worst}), {best.scores[DEFAULT].mean:.3f} at best, over "
            f"{GRIDS[scale].batches} batches",
            _kept(cosine),
        ),
        Text(
            f"Batches of {EXAMPLES} examples with scores N(0, 1) and the label's raised by "
            f"{LIFT:g}, as in the middle of training. The gradient of a batch is one vector, of "
            "all scores of all its examples, through the margin (differences of scores above it "
            "have no gradient) and through the normalisation of scores by their deviation in the "
            "batch. Estimates that are right in direction for each example but not in length turn "
            "it: that is why these cosines are lower than those of one example. The last layer has "
            f"{FEATURES} features, a random mean for each class and noise, and its weights' "
            "gradient sums over the batch. Intervals are over batches, by Student's t. The paper "
            "says nothing of the gradient's direction: only that N = 1 trains as well as larger "
            "numbers on all sets but CIFAR-100 (v1, section 5.3)."
        ),
        Table(
            "Cosine of a batch's gradient by N draws with the exact one",
            ["classes C", "scores and noise", "objective", *(_header(n) for n in numbers),
             f"N = {DEFAULT}, last layer's weights"],
            rows,
            "Sorted, the worst first.",
            cite="exact-gradient-noise",
        ),
        _picture(found),
        Check(
            "In every setting the cosine rises with the number of draws.",
            all(
                cell.scores[a].mean < cell.scores[b].mean
                for cell in found
                for a, b in pairwise(numbers)
            ),
            f"Over N = {', '.join(map(str, numbers))}, in {len(found)} settings.",
        ),
        Check(
            "What is missing is noise: for 1 - P, whose estimate is unbiased, 1/cos^2 - 1 falls "
            f"like 1/N from N = 1 to {most} in every setting, to a factor of {NOISE_FACTOR:g}.",
            all(1 / NOISE_FACTOR < ratio < NOISE_FACTOR for ratio in ratios),
            f"N (1/cos^2 - 1) at N = 1 over that at N = {most}: from {min(ratios):.2f} to "
            f"{max(ratios):.2f}.",
        ),
    ]  # fmt: skip
    return Section(title, parts, answer)


def _kept(cosine: Mean) -> Verdict:
    if cosine.low < KEPT <= cosine.high:
        return "not decided"
    return "holds" if cosine.low >= KEPT else "does not hold"


def _header(n: int) -> str:
    return f"N = {n}" + (" (95 % interval)" if n == DEFAULT else "")


def _turned(cell: Cell, n: int) -> float:
    """Return 1/cos^2 - 1: for unbiased estimates the variance over the squared length."""
    return 1 / cell.scores[n].mean ** 2 - 1


def _picture(found: list[Cell]) -> Picture:
    title = "Cosine of a batch's gradient with the exact one, by draws"
    figure, ax = axes(log="x", xlabel="draws N", ylabel="cosine")
    rows = []
    chosen = [cell for cell in found if cell.normalize and cell.objective == "error"]
    for k, cell in enumerate(chosen):
        numbers = sorted(cell.scores)
        means = [cell.scores[n].mean for n in numbers]
        halves = [cell.scores[n].high - cell.scores[n].mean for n in numbers]
        margin = "" if cell.margin is None else f", margin {cell.margin:g}"
        label = f"C = {cell.classes}, sigma = {cell.sigma:g}{margin}"
        ax.errorbar(numbers, means, halves, fmt="o-", color=f"C{k}", capsize=2, label=label)
        rows += [[label, n, mean] for n, mean in zip(numbers, means, strict=True)]
    ax.legend(fontsize="small")
    caption = "Normalised scores, objective 1 - P; bars are 95 % intervals over batches."
    return Picture(title, figure, Table(title, ["setting", "draws N", "cosine"], rows), caption)
