"""What the report on EXACT says of the published estimate: its noise and its bias."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.reports.exact.measurements import ENOUGH, SHOWN

Cells: TypeAlias = dict[tuple[int, float], list[Any]]  # results of examples by (C, P)


def values(cells: Cells) -> Section:
    rows: list[list[Any]] = []
    for (classes, prob), found in cells.items():
        for n in found[0]["noise"]:
            each = [example["noise"][n] for example in found]
            bias = float(np.mean([one["bias"] for one in each]))
            error = _norm(one["bias_error"] for one in each) / len(each)
            spread = _norm(one["relative_std"] for one in each) / math.sqrt(len(each))
            std = _norm(one["std"] for one in each) / math.sqrt(len(each))
            low, high = (float(np.mean([one[key] for one in each])) for key in ("low", "high"))
            rows.append([classes, prob, int(n), spread, bias, error, std, low, high])
    shown = [
        [*row[:7], "yes" if abs(row[4]) > 3 * row[5] else "no"] for row in rows if row[2] in SHOWN
    ]
    most = max(classes for classes, _ in cells)
    middle = sorted({classes for classes, _ in cells})[len({c for c, _ in cells}) // 2]
    default = [row for row in rows if row[2] == 16]
    worst = max(default, key=lambda row: row[3])
    significant = sum(row[4] > 3 * row[5] for row in default)
    one = [row for row in rows if row[2] == 1]
    largest = max(one, key=lambda row: row[4])
    rates = [
        math.log(b[3] / a[3]) / math.log(b[2] / a[2])
        for a in rows
        for b in rows
        if a[:2] == b[:2] and a[2] == 1 and b[2] == 16
    ]
    return Section(
        "Noise of the published estimate: the loss",
        [
            Text(
                "What users of the published code train on: N draws, plain pseudo-random, hardest "
                "competitor first, averaged to an estimate of P. That is unbiased, and so is "
                "1 - P, the objective of the later version; minus its logarithm, the objective of "
                "the first version, is too large in the mean, by about half the squared relative "
                "standard deviation. N = 1 and 512 are in the paper, 16 is the default of the code."
            ),
            Table(
                "Estimates of the loss by N draws",
                [
                    "C",
                    "P",
                    "N",
                    "relative std of P",
                    "bias of -log P",
                    "its standard error",
                    "std of -log P",
                    "biased",
                ],
                shown,
                "The bias is called so where it is more than three standard errors from 0.",
            ),
            *[_spread(rows, classes) for classes in sorted({c for c, _ in cells})],
            _bars(rows, middle),
            Text(
                f"With the default N = 16 the relative standard deviation of P is between "
                f"{min(row[3] for row in default):.2g} and {worst[3]:.2g} (C = {worst[0]}, "
                f"P = {worst[1]:g}), and the loss is significantly too large in {significant} of "
                f"{len(default)} cells. With N = 1 it is too large by up to {largest[4]:.2g} "
                f"(C = {largest[0]}, P = {largest[1]:g}). The exact loss has neither: its error is "
                "that of rounding. Hard examples and many classes are the noisy ones: at C = "
                f"{most}, N = 16, from {_range(default, most)}."
            ),
            Check(
                "Relative standard deviations fall like the square root of N from N = 1 to 16: "
                "exponents within 0.1 of -1/2, as of independent draws.",
                all(abs(rate + 0.5) < 0.1 for rate in rates),
                f"Exponents from {min(rates):.3f} to {max(rates):.3f}.",
            ),
        ],
    )


def _norm(values: Any) -> float:
    return math.sqrt(sum(value**2 for value in values))


def _range(rows: list[list[Any]], classes: int) -> str:
    own = [row for row in rows if row[0] == classes]
    first, last = min(own, key=lambda row: row[3]), max(own, key=lambda row: row[3])
    return f"{first[3]:.2g} for P = {first[1]:g} to {last[3]:.2g} for P = {last[1]:g}"


def _spread(rows: list[list[Any]], classes: int) -> Picture:
    own = [row for row in rows if row[0] == classes]
    title = f"Noise of P, C = {classes}"
    figure, ax = axes(log="xy", xlabel="N", ylabel="relative std of P")
    for prob in dict.fromkeys(row[1] for row in own):
        line = [(row[2], row[3]) for row in own if row[1] == prob]
        ax.plot(*zip(*line, strict=True), "o-", label=f"P = {prob:g}", markersize=4)
    numbers = sorted({row[2] for row in own})
    top = max(row[3] for row in own)
    ax.plot(numbers, [top / math.sqrt(n) for n in numbers], "k:", label=r"$N^{-1/2}$")
    ax.set_ylim(bottom=min(row[3] for row in own) / 50)  # room for the legend
    ax.legend(fontsize="small", loc="lower left", ncols=2)
    data = Table(title, ["P", "N", "relative std"], [[row[1], row[2], row[3]] for row in own])
    return Picture(title, figure, data)


def _bars(rows: list[list[Any]], classes: int) -> Picture:
    title = f"Error of the estimated -log P, C = {classes}"
    figure, ax = axes(xlabel="N", ylabel="estimate less exact")
    ax.set_xscale("log", base=2)
    own = [row for row in rows if row[0] == classes]
    probs = list(dict.fromkeys(row[1] for row in own))
    probs = [probs[len(probs) // 2 - 1], probs[-1]]  # a usual example and the hardest
    for k, prob in enumerate(probs):
        line = [row for row in own if row[1] == prob]
        x = [row[2] * (1.1 if k else 1 / 1.1) for row in line]
        mean = [row[4] for row in line]
        # The mean may lie outside of the inner 90 %, where a few draws make most of it.
        low = [max(0.0, row[4] - row[7]) for row in line]
        high = [max(0.0, row[8] - row[4]) for row in line]
        ax.errorbar(x, mean, [low, high], fmt="o", label=f"P = {prob:g}", markersize=4, capsize=2)
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.legend(fontsize="small")
    header = ["P", "N", "mean", "5 %", "95 %"]
    data = [[row[1], row[2], row[4], row[7], row[8]] for row in own]
    caption = "Mean, and the range from the 5 % to the 95 % point; the exact loss is the line at 0."
    return Picture(title, figure, Table(title, header, data), caption)


def gradients(cells: Cells) -> Section:
    rows: list[list[Any]] = []
    for (classes, prob), found in cells.items():
        for n in found[0]["noise"]:
            each = [example["noise"][n] for example in found]
            mean = {key: float(np.mean([one[key] for one in each])) for key in each[0]}
            error = _norm(one["log_bias_error"] for one in each) / len(each)
            biased: str | None = "yes" if abs(mean["log_bias"]) > 3 * error else "no"
            if found[0]["count"] < ENOUGH:
                biased = None
            values = [mean[key] for key in ("cosine", "cosine_others", "prob_error", "log_error")]
            rows.append([classes, prob, int(n), *values, mean["log_bias"], error, biased])
    default = [row for row in rows if row[2] == 16]
    single = [row for row in rows if row[2] == 1]
    worst = max(default, key=lambda row: row[6])
    pictures = []

    def told(rows: list[list[Any]]) -> int:
        return sum(row[9] is not None for row in rows)

    for column, label, title in (
        (4, "cosine without the label's score", "Direction of gradients by N = 16 draws"),
        (6, "relative error", "Error of the gradient of -log P by N = 16 draws"),
    ):
        figure, ax = axes(log="x" if column == 4 else "xy", xlabel="P", ylabel=label)
        for classes in dict.fromkeys(row[0] for row in default):
            line = [(row[1], row[column]) for row in default if row[0] == classes]
            ax.plot(*zip(*line, strict=True), "o-", label=f"C = {classes}")
        ax.legend()
        data = [[row[0], row[1], row[column]] for row in default]
        pictures.append(Picture(title, figure, Table(title, ["C", "P", label], data)))
    return Section(
        "Noise of the published estimate: its gradient",
        [
            Text(
                "The gradient in the scores, by the same draws: the estimate of P's gradient is "
                "unbiased (checked above); that of log P is a ratio of two estimates, and biased. "
                "The cosine with the exact gradient says how much of the direction is kept; a "
                "large part of it is the label's own score, which all estimates push the right "
                "way, so that the cosine is also given for the competitors alone. Errors are "
                "root-mean-square, relative to the length of the exact gradient."
            ),
            Table(
                "Gradients by N draws",
                [
                    "C",
                    "P",
                    "N",
                    "cosine",
                    "cosine, competitors",
                    "error, P",
                    "error, -log P",
                    "bias, -log P",
                    "its standard error",
                    "biased",
                ],
                rows,
                "The bias is that of the length along the exact gradient. Where fewer than "
                f"{ENOUGH} draws were made, nothing is said of it: they are skewed.",
            ),
            *pictures,
            Text(
                f"With N = 16 the cosine is {min(row[3] for row in default):.3f} or more, "
                f"and {min(row[4] for row in default):.3f} or more for the competitors alone; the "
                f"gradient of -log P is off by up to {100 * worst[6]:.0f} % (C = {worst[0]}, "
                f"P = {worst[1]:g}), and significantly biased in "
                f"{sum(row[9] == 'yes' for row in default)} of {told(default)} cells. With N = 1 "
                f"the cosines are {min(row[3] for row in single):.3f} and "
                f"{min(row[4] for row in single):.3f} or more, and "
                f"{sum(row[9] == 'yes' for row in single)} of {told(single)} are significantly "
                "biased. Directions survive small N far better than lengths do, which fits the "
                "paper's finding that N = 1 trains well where there are few classes: batches "
                "average the noise, not the bias."
            ),
            Check(
                "With N = 16 the estimated gradient points the exact one's way: cosines above 0.5.",
                all(row[3] > 0.5 for row in default),
                f"Smallest: {min(row[3] for row in default):.3f}.",
            ),
        ],
    )
