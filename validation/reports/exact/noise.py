"""What the report on EXACT says of the published estimate for one example: its noise and bias."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.reports.exact.measurements import ENOUGH, SHOWN
from validation.reports.exact.right import Cells
from validation.reports.parts import NOT_YET

DEFAULT = 16  # N in the authors' code


class ValueNoise(NamedTuple):
    """What estimates of the loss by n draws are like, over the examples of one C and P."""

    classes: int
    prob: float
    n: int
    relative_std: float
    bias: float
    bias_error: float
    std: float
    low: float
    high: float

    @property
    def is_biased(self) -> bool:
        return abs(self.bias) > 3 * self.bias_error


class GradientNoise(NamedTuple):
    """What gradients by n draws are like; ``bias`` is along the exact gradient, and relative."""

    classes: int
    prob: float
    n: int
    cosine: float
    cosine_others: float
    prob_error: float
    log_error: float
    bias: float
    bias_error: float
    enough: bool

    @property
    def is_biased(self) -> bool | None:
        """Whether the bias is significant; None where there are too few draws to say."""
        return abs(self.bias) > 3 * self.bias_error if self.enough else None


def value_rows(cells: Cells) -> list[ValueNoise]:
    rows = []
    for (classes, prob), examples in cells.items():
        for n in examples[0]["noise"]:
            noise = [example["noise"][n] for example in examples]
            count = len(noise)
            rows.append(
                ValueNoise(
                    classes,
                    prob,
                    int(n),
                    _norm(one["relative_std"] for one in noise) / math.sqrt(count),
                    float(np.mean([one["bias"] for one in noise])),
                    _norm(one["bias_error"] for one in noise) / count,
                    _norm(one["std"] for one in noise) / math.sqrt(count),
                    float(np.mean([one["low"] for one in noise])),
                    float(np.mean([one["high"] for one in noise])),
                )
            )
    return rows


def gradient_rows(cells: Cells) -> list[GradientNoise]:
    rows = []
    for (classes, prob), examples in cells.items():
        for n in examples[0]["noise"]:
            noise = [example["noise"][n] for example in examples]
            mean = {key: float(np.mean([one[key] for one in noise])) for key in noise[0]}
            rows.append(
                GradientNoise(
                    classes,
                    prob,
                    int(n),
                    mean["cosine"],
                    mean["cosine_others"],
                    mean["prob_error"],
                    mean["log_error"],
                    mean["log_bias"],
                    _norm(one["log_bias_error"] for one in noise) / len(noise),
                    examples[0]["count"] >= ENOUGH,
                )
            )
    return rows


def _norm(values: Iterable[float]) -> float:
    return math.sqrt(sum(value**2 for value in values))


def values(cells: Cells) -> Section:
    title = "Noise of the published estimate: the loss"
    rows = value_rows(cells)
    if not rows:
        return Section(title, [], NOT_YET)
    default = [row for row in rows if row.n == DEFAULT]
    worst = max(default, key=lambda row: row.relative_std)
    significant = sum(row.is_biased and row.bias > 0 for row in default)
    single = max((row for row in rows if row.n == 1), key=lambda row: row.bias)
    classes = sorted({row.classes for row in rows})
    by_cell = {(row.classes, row.prob, row.n): row.relative_std for row in rows}
    rates = [
        math.log(by_cell[c, p, DEFAULT] / by_cell[c, p, 1]) / math.log(DEFAULT)
        for c, p in dict.fromkeys((row.classes, row.prob) for row in rows)
    ]
    answer = (
        f"With the default N = {DEFAULT} the relative standard deviation of P is between "
        f"{min(row.relative_std for row in default):.2g} and {worst.relative_std:.2g} "
        f"(C = {worst.classes}, P = {worst.prob:g}), and -log P is significantly too large in "
        f"{significant} of {len(default)} cells. With N = 1 it is too large by up to "
        f"{single.bias:.2g} (C = {single.classes}, P = {single.prob:g})."
    )
    return Section(
        title,
        [
            Text(
                "What users of the published code train on: N draws, plain pseudo-random, hardest "
                "competitor first, averaged to an estimate of P. That is unbiased, and so is "
                "1 - P, the objective of the later version; minus its logarithm, the objective of "
                "the first version, is too large in the mean, by about half the squared relative "
                "standard deviation. N = 1 and 512 are in the paper, 16 is the default of the "
                "code. The exact loss has neither noise nor bias: its error is that of rounding."
            ),
            Table(
                "Estimates of the loss by N draws",
                ["classes C", "P", "draws N", "relative std of P",
                 "bias of -log P ± standard error", "std of -log P"],
                [
                    [row.classes, row.prob, row.n, row.relative_std,
                     _bias(row.bias, row.bias_error, row.is_biased), row.std]
                    for row in rows
                    if row.n in SHOWN
                ],
                "A star: the bias is more than three standard errors from 0.",
            ),
            *[_spread([row for row in rows if row.classes == c], c) for c in classes],
            _bars(rows, classes[len(classes) // 2]),
            Check(
                "Relative standard deviations fall like the square root of N from N = 1 to 16: "
                "exponents within 0.1 of -1/2, as of independent draws.",
                all(abs(rate + 0.5) < 0.1 for rate in rates),
                f"Exponents from {min(rates):.3f} to {max(rates):.3f}.",
            ),
            Check(
                "No estimate of -log P is significantly too small in the mean (more than four "
                "standard errors), as Jensen's inequality says.",
                all(row.bias > -4 * row.bias_error for row in rows),
                f"The smallest bias is {min(row.bias / row.bias_error for row in rows):.1f} "
                "standard errors.",
            ),
        ],
        answer,
    )  # fmt: skip


def _spread(rows: list[ValueNoise], classes: int) -> Picture:
    title = f"Noise of P, C = {classes}"
    figure, ax = axes(log="xy", xlabel="draws N", ylabel="relative std of P")
    for prob in dict.fromkeys(row.prob for row in rows):
        line = [(row.n, row.relative_std) for row in rows if row.prob == prob]
        ax.plot(*zip(*line, strict=True), "o-", label=f"P = {prob:g}", markersize=4)
    numbers = sorted({row.n for row in rows})
    top = max(row.relative_std for row in rows)
    ax.plot(numbers, [top / math.sqrt(n) for n in numbers], "k:", label=r"$N^{-1/2}$")
    ax.set_ylim(bottom=min(row.relative_std for row in rows) / 50)  # room for the legend
    ax.legend(fontsize="small", loc="lower left", ncols=2)
    data = [[row.prob, row.n, row.relative_std] for row in rows]
    return Picture(title, figure, Table(title, ["P", "draws N", "relative std of P"], data))


def _bars(rows: list[ValueNoise], classes: int) -> Picture:
    title = f"Error of the estimated -log P, C = {classes}"
    figure, ax = axes(xlabel="draws N", ylabel="estimate minus exact")
    ax.set_xscale("log", base=2)
    shown = [row for row in rows if row.classes == classes]
    probs = list(dict.fromkeys(row.prob for row in shown))
    probs = [probs[len(probs) // 2 - 1], probs[-1]]  # a usual example and the hardest
    for k, prob in enumerate(probs):
        line = [row for row in shown if row.prob == prob]
        x = [row.n * (1.1 if k else 1 / 1.1) for row in line]
        # The mean may lie outside of the inner 90 %, where a few draws make most of it.
        low = [max(0.0, row.bias - row.low) for row in line]
        high = [max(0.0, row.high - row.bias) for row in line]
        mean = [row.bias for row in line]
        ax.errorbar(x, mean, [low, high], fmt="o", label=f"P = {prob:g}", markersize=4, capsize=2)
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.legend(fontsize="small")
    header = ["P", "draws N", "mean", "5 % point", "95 % point"]
    data = [[row.prob, row.n, row.bias, row.low, row.high] for row in shown]
    caption = "Mean, and the range from the 5 % to the 95 % point; the exact loss is the line at 0."
    return Picture(title, figure, Table(title, header, data), caption)


def gradients(cells: Cells) -> Section:
    title = "Noise of the published estimate: the gradient of one example"
    rows = gradient_rows(cells)
    if not rows:
        return Section(title, [], NOT_YET)
    default = [row for row in rows if row.n == DEFAULT]
    single = [row for row in rows if row.n == 1]
    worst = max(default, key=lambda row: row.log_error)
    answer = (
        f"With N = {DEFAULT} the cosine with the exact gradient of one example is "
        f"{min(row.cosine for row in default):.3f} or more, and "
        f"{min(row.cosine_others for row in default):.3f} or more for the competitors alone; but "
        f"the length of the gradient of -log P is off by up to {100 * worst.log_error:.0f} % "
        f"(C = {worst.classes}, P = {worst.prob:g}), and it is significantly biased in "
        f"{_biased(default)} cells. With N = 1 the cosines are "
        f"{min(row.cosine for row in single):.3f} and "
        f"{min(row.cosine_others for row in single):.3f} or more, and {_biased(single)} are biased."
    )
    return Section(
        title,
        [
            Text(
                "The gradient in the scores of one example, by the same draws: the estimate of P's "
                "gradient is unbiased (checked above); that of log P is a ratio of two estimates, "
                "and biased. The cosine says how much of the direction is kept; a large part of it "
                "is the label's score, which all estimates push the right way, so that the cosine "
                "is also given for the competitors alone. Errors are root-mean-square, relative to "
                "the length of the exact gradient. The gradient of a batch, where lengths count as "
                "well, is in the next part."
            ),
            Table(
                "Gradients by N draws",
                ["classes C", "P", "draws N", "cosine", "cosine, competitors", "error, P",
                 "error, -log P", "bias, -log P ± standard error"],
                [
                    [row.classes, row.prob, row.n, row.cosine, row.cosine_others, row.prob_error,
                     row.log_error,
                     _bias(row.bias, row.bias_error, row.is_biased) if row.enough else None]
                    for row in rows
                ],
                "The bias is that of the length along the exact gradient; a star: it is more than "
                "three standard errors from 0. Where fewer than "
                f"{ENOUGH} draws were made, nothing is said of it: they are skewed.",
            ),
            *_pictures(default),
            Check(
                "The error of P's gradient falls like the square root of N: from N = 1 to 16 by a "
                "factor between 3 and 5, in the median over cells.",
                3.0 < (ratio := _error_ratio(rows)) < 5.0,
                f"A factor of {ratio:.2f}.",
            ),
        ],
        answer,
    )  # fmt: skip


def _bias(bias: float, error: float, is_biased: bool | None) -> str:
    return f"{bias:.2g} ± {error:.1g}{' *' if is_biased else ''}"


def _biased(rows: list[GradientNoise]) -> str:
    known = [row for row in rows if row.is_biased is not None]
    return f"{sum(bool(row.is_biased) for row in known)} of {len(known)}"


def _error_ratio(rows: list[GradientNoise]) -> float:
    errors = {(row.classes, row.prob, row.n): row.prob_error for row in rows if row.enough}
    ratios = [
        error / errors[classes, prob, DEFAULT]
        for (classes, prob, n), error in errors.items()
        if n == 1 and (classes, prob, DEFAULT) in errors
    ]
    return float(np.median(ratios)) if ratios else math.nan


def _pictures(rows: list[GradientNoise]) -> list[Picture]:
    pictures = []
    for column, label, title in (
        ("cosine_others", "cosine without the label's score",
         f"Direction of gradients by N = {DEFAULT} draws"),
        ("log_error", "relative error",
         f"Error of the gradient of -log P by N = {DEFAULT} draws"),
    ):  # fmt: skip
        figure, ax = axes(log="x" if column == "cosine_others" else "xy", xlabel="P", ylabel=label)
        for classes in dict.fromkeys(row.classes for row in rows):
            line = [(row.prob, getattr(row, column)) for row in rows if row.classes == classes]
            ax.plot(*zip(*line, strict=True), "o-", label=f"C = {classes}")
        ax.legend()
        data = [[row.classes, row.prob, getattr(row, column)] for row in rows]
        pictures.append(Picture(title, figure, Table(title, ["classes C", "P", label], data)))
    return pictures
