"""EXACT's loss: what it costs, whether it is right, and the noise of the published estimate.

Three questions. What loss and gradient cost in time and memory, beside the published algorithm and
cross-entropy, on the axes of the paper's figure 5. Whether value and gradient are right, against 40
digits and against sampled scores. And what the published estimate of the same loss, by N draws, is
like: noise and bias of the loss and of its gradient.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.reports import Results
from validation.reports.exact import noise
from validation.reports.exact.measurements import (
    ENOUGH,
    ROWS,
    cost_of,
    digits_of,
    gradients_of,
    values_of,
)
from validation.running import Task

FIXED_SAMPLES, FIXED_CLASSES = 512, 128  # as in the paper
SIGMAS = 4.0  # standard errors within which a mean must be


class Scale(NamedTuple):
    """What is run: see ``tasks``."""

    by_classes: tuple[int, ...]
    by_samples: tuple[int, ...]
    fixed_classes: int
    rounds: int
    probs: tuple[float, ...]
    # (classes, draws for the values, draws for the gradients)
    noise: tuple[tuple[int, int, int], ...]
    digits: tuple[tuple[int, float], ...]  # (classes, P) for which there are 40 digits
    examples: int


_PROBS = (0.99, 0.5, 0.01, 1e-4)
SCALES = {
    "small": Scale(
        (8, 32), (16, 64), 16, 1, (0.9, 0.01), ((10, 8192, 8192), (50, 4096, 1024)), ((3, 0.5),), 1
    ),
    "quick": Scale(
        (8, 16, 32, 64, 128, 256),
        (16, 64, 256, 1024, 2048),
        FIXED_CLASSES,
        1,
        _PROBS,
        ((10, 65536, 32768), (100, 32768, 4096), (1000, 8192, 64)),
        ((10, 0.99), (10, 1e-4)),
        1,
    ),
    "full": Scale(
        (8, 16, 32, 64, 128, 256, 512),
        (16, 32, 64, 128, 256, 512, 1024, 2048),
        FIXED_CLASSES,
        2,
        (0.99, 0.9, 0.5, 0.1, 0.01, 1e-3, 1e-4),
        ((10, 131072, 65536), (100, 65536, 8192), (1000, 16384, 64)),
        ((10, 0.99), (10, 0.01), (10, 1e-4), (100, 0.5)),
        2,
    ),
}


def tasks(scale: str) -> list[Task]:
    size = SCALES[scale]
    found = []
    for classes, values, slopes in size.noise:
        for prob, example in itertools.product(size.probs, range(size.examples)):
            own = {"classes": classes, "prob": prob, "example": example}
            end = f"C = {classes}, P = {prob:g}, example {example}"
            found.append(Task(f"values: {end}", values_of, {**own, "count": values}))
            found.append(Task(f"gradients: {end}", gradients_of, {**own, "count": slopes}))
    for classes, prob in size.digits:
        own = {"classes": classes, "prob": prob}
        found.append(Task(f"digits: C = {classes}, P = {prob:g}", digits_of, own))
    sizes = [(classes, FIXED_SAMPLES) for classes in size.by_classes]
    sizes += [(size.fixed_classes, samples) for samples in size.by_samples]
    for classes, samples in dict.fromkeys(sizes):
        own = {"classes": classes, "samples": samples, "rounds": size.rounds}
        found.append(Task(f"cost: C = {classes}, N = {samples}", cost_of, own, alone=True))
    return found


def section(results: Results, scale: str) -> Section:
    return Section(
        "EXACT",
        [
            Text(
                "EXACT trains the expected accuracy P: the probability that the label's score is "
                "the largest when all scores have normal noise. `exact_torch.exact_loss` computes "
                "-log P (or 1 - P) and its gradient by a one-dimensional integral, to rounding; "
                "the published algorithm estimates both by N draws of Genz's method in C - 1 "
                "dimensions, [arXiv:2205.09615](https://arxiv.org/abs/2205.09615)."
            ),
            _right(results, SCALES[scale]),
            _cost(results, SCALES[scale]),
            noise.values(_cells(results, "values", SCALES[scale])),
            noise.gradients(_cells(results, "gradients", SCALES[scale])),
        ],
    )


def _cells(results: Results, kind: str, size: Scale) -> noise.Cells:
    """Results of the examples of each (C, P)."""
    cells = {
        (classes, prob): [
            results[name]
            for example in range(size.examples)
            if (name := f"{kind}: C = {classes}, P = {prob:g}, example {example}") in results
        ]
        for classes, _, _ in size.noise
        for prob in size.probs
    }
    return {key: found for key, found in cells.items() if found}


def _right(results: Results, size: Scale) -> Section:
    digits = [
        [classes, prob, *(results[name][key] for key in _DIGITS)]
        for classes, prob in size.digits
        if (name := f"digits: C = {classes}, P = {prob:g}") in results
    ]
    rows: list[list[Any]] = []
    cells = _cells(results, "values", size)
    gradients = _cells(results, "gradients", size)
    for (classes, prob), found in cells.items():
        for example, (each, slope) in enumerate(zip(found, gradients[classes, prob], strict=True)):
            sampled, drawn = (_distance(each[key], each["prob"]) for key in ("sampled", "drawn"))
            along = slope["noise"]["1"]
            rows.append(
                [
                    classes,
                    prob,
                    example,
                    each["reference_error"],
                    slope["reference_error"],
                    sampled,
                    drawn,
                    along["prob_bias"] / along["prob_bias_error"]
                    if slope["count"] >= ENOUGH
                    else None,
                ]
            )
    # numpy's maximum keeps a NaN, so that a check of it fails.
    worst = [float(np.max([abs(row[k] or 0.0) for row in rows])) for k in range(3, 8)]
    compared = sum(row[7] is not None for row in rows)
    finest = [float(np.max([row[k] for row in digits])) for k in range(2, 6)]
    return Section(
        "Is it right?",
        [
            Text(
                "An example has C - 1 competitors with scores N(0, 1), and the label's score is "
                "raised or lowered until P is what the table says, from easy to hopeless. The "
                "value is compared with a trapezoid of 4001 nodes, with the share of wins in "
                "sampled scores, and with the mean of the published draws; the gradient with the "
                "trapezoid and with the mean of the published draws for it, along the gradient. A "
                "few are compared with 40 digits."
            ),
            Table(
                "Errors against 40 digits",
                [
                    "C",
                    "P",
                    "-log P, double",
                    "gradient, double",
                    "-log P, single",
                    "gradient, single",
                ],
                digits,
                "Of the value absolute, of the gradient in the Euclidean norm and relative.",
            ),
            Table(
                "Errors against a trapezoid and distances from means of samples",
                [
                    "C",
                    "P",
                    "example",
                    "error of -log P",
                    "error of gradient",
                    "sampled scores, se",
                    "published draws, se",
                    "published gradients, se",
                ],
                rows,
                "Distances are in standard errors of the mean (se): within 4 nothing is wrong. "
                f"Draws of the gradient are skewed: of fewer than {ENOUGH} the standard error says "
                "little, and there is no distance.",
            ),
            Check(
                "Value and gradient in double precision agree with 40 digits to 1e-12 (measured: "
                "1e-14 or better).",
                all(each < 1e-12 for each in finest[:2]),
                f"Largest errors: {finest[0]:.1e} and {finest[1]:.1e}.",
            ),
            Check(
                "In single precision they agree to 1e-5 (measured: 1e-6 or better).",
                all(each < 1e-5 for each in finest[2:]),
                f"Largest errors: {finest[2]:.1e} and {finest[3]:.1e}.",
            ),
            Check(
                "Value and gradient agree with the trapezoid to 1e-10 (measured: 1e-12 or better) "
                "for all C and P.",
                all(each < 1e-10 for each in worst[:2]),
                f"Largest errors: {worst[0]:.1e} and {worst[1]:.1e}.",
            ),
            Check(
                f"The value is within {SIGMAS:g} standard errors of the share of sampled scores "
                "in which the label wins.",
                worst[2] < SIGMAS,
                f"Largest distance: {worst[2]:.2f} of {len(rows)}.",
            ),
            Check(
                f"The mean of the published draws of P is within {SIGMAS:g} standard errors of "
                "the value.",
                worst[3] < SIGMAS,
                f"Largest distance: {worst[3]:.2f} of {len(rows)}.",
            ),
            Check(
                f"The mean of the published draws of P's gradient is within {SIGMAS:g} standard "
                f"errors of the gradient, along it, where there are {ENOUGH} or more.",
                compared > 0 and worst[4] < SIGMAS,
                f"Largest distance: {worst[4]:.2f} of {compared}.",
            ),
        ],
    )


_DIGITS = ("double_value", "double_gradient", "single_value", "single_gradient")


def _distance(found: dict[str, float], prob: float) -> float:
    return (found["mean"] - prob) / max(found["error"], 1e-300)


def _cost(results: Results, size: Scale) -> Section:
    by_classes = {c: results[f"cost: C = {c}, N = {FIXED_SAMPLES}"] for c in size.by_classes}
    by_samples = {n: results[f"cost: C = {size.fixed_classes}, N = {n}"] for n in size.by_samples}
    pictures: list[Picture] = []
    for axis, found in ((f"C (N = {FIXED_SAMPLES})", by_classes), (_by_n(size), by_samples)):
        for key, unit, label in (
            ("seconds", 1e3, "ms an example"),
            ("bytes", 1e-6, "MB an example"),
        ):
            what = "Time" if key == "seconds" else "Memory"
            title = f"{what} against {axis}"
            rows = [
                [x, *(unit * each[name][key] for name in PROGRAMS)] for x, each in found.items()
            ]
            figure, ax = axes(log="xy", xlabel=axis, ylabel=label)
            for k, (name, style) in enumerate(PROGRAMS.items()):
                ax.plot([row[0] for row in rows], [row[k + 1] for row in rows], style, label=name)
            ax.legend()
            pictures.append(Picture(title, figure, Table(title, [axis, *PROGRAMS], rows)))
    most = max(by_classes)
    last = by_classes[most]
    time, memory = (
        last["published"][key] / last["exact_loss"][key] for key in ("seconds", "bytes")
    )
    slower = last["exact_loss"]["seconds"] / last["cross-entropy"]["seconds"]
    rates = {
        (name, key, axis): _rate({x: each[name][key] for x, each in found.items()})
        for name in PROGRAMS
        for key in ("seconds", "bytes")
        for axis, found in (("C", by_classes), ("N", by_samples))
    }
    return Section(
        "Cost",
        [
            Text(
                "The axes are those of figure 5 of the paper's first version: batches of "
                f"{ROWS}, N = {FIXED_SAMPLES} for the numbers of classes, and C = "
                f"{size.fixed_classes} for the numbers of samples; here on a CPU, one thread, "
                "single precision, processor time, the best of several runs. Loss and gradient "
                "together; memory is the most that is held beyond the inputs. The published "
                "algorithm is written in torch from the paper's description (Theorem 4.3), its "
                "points made beforehand; it is timed on one row, and its memory is that of one row "
                "of a batch that is computed at once, as the paper does it. `exact_loss` has no N."
            ),
            *pictures,
            Table(
                "Growth: exponents between the last two sizes",
                ["program", "time in C", "memory in C", "time in N", "memory in N"],
                [
                    [
                        name,
                        *(rates[name, key, axis] for axis in "CN" for key in ("seconds", "bytes")),
                    ]
                    for name in PROGRAMS
                ],
                "The paper says 2 in C and 1 in N for both. As written here, the published "
                "algorithm holds one of its C steps at a time, in less memory than published.",
            ),
            Text(
                f"With {most} classes the published algorithm at N = {FIXED_SAMPLES} takes "
                f"{time:,.0f} times the time of `exact_loss` and {memory:,.0f} times its memory; "
                f"`exact_loss` takes {slower:.0f} times the time of cross-entropy."
            ),
            Check(
                f"At C = {most} and N = {FIXED_SAMPLES} the published algorithm takes more than 20 "
                "times the time (measured: hundreds and more, so that no noise can turn it).",
                time > 20.0,
                f"{time:,.0f} times.",
            ),
            Check(
                "It takes more than 20 times the memory as well.",
                memory > 20.0,
                f"{memory:,.0f} times.",
            ),
        ],
    )


PROGRAMS = {"exact_loss": "C0o-", "cross-entropy": "C2s-", "published": "C1^-"}


def _by_n(size: Scale) -> str:
    return f"N (C = {size.fixed_classes})"


def _rate(found: dict[int, float]) -> float:
    """The exponent of a power that goes through the last two points."""
    (x, fx), (y, fy) = sorted(found.items())[-2:]
    return math.log(fy / fx) / math.log(y / x)
