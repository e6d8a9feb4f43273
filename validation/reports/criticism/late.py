"""What is said of the argument that cross-entropy is close to 1 - p late in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from validation.page import Finding, Picture, Section, Table, Text
from validation.page.content import Verdict
from validation.page.figures import axes
from validation.reports.criticism.paired import Interval, by_set, interval

ALIKE = 0.9  # cosine of two gradients that are called equal here
SEPARATED = 0.99  # accuracy on the training part


class Moment(NamedTuple):
    """A step of training with cross-entropy, means over learning rates and splits.

    Attributes
    ----------
    accuracy : float
        On the training part, as all others.
    minus_log, error : float
        Means of -log p and of 1 - p.
    cosine, ratio : float
        Of the gradients of the two: cosine of their angle, length of the latter over the former.
    exact_ratio : float
        Length of the gradient of 1 - P under normal noise over that of -log p.
    """

    data: str
    model: str
    step: int
    accuracy: float
    minus_log: float
    error: float
    cosine: float
    ratio: float
    exact_ratio: float


def moments_of(data: str, model: str, result: Any) -> list[Moment]:
    """Return the result of a task with its arguments."""
    names = Moment._fields[3:]
    return [
        Moment(data, model, own["step"], *(float(np.mean(own[name])) for name in names))
        for own in result
    ]


def at_start(moments: Sequence[Moment]) -> Interval | None:
    """Return the length of EXACT's gradient over cross-entropy's at the first step."""
    values = by_set([(each.data, each.exact_ratio) for each in moments if each.step == 0])
    return interval(list(values.values())) if values else None


def section(moments: Sequence[Moment]) -> Section:
    """On all watched steps of all runs."""
    if not moments:
        return Section("Is cross-entropy close to 1 - p late in training?")
    last = max(each.step for each in moments)
    ends = [each for each in moments if each.step == last]
    rows = [
        [
            step,
            _mean(moments, step, "accuracy", 100.0),
            _mean(moments, step, "minus_log"),
            _mean(moments, step, "error"),
            _shown(moments, step, "cosine"),
            _shown(moments, step, "ratio"),
        ]
        for step in sorted({each.step for each in moments})
    ]
    return Section(
        "Is cross-entropy close to 1 - p late in training?",
        [
            Text(
                "The critic explains why cross-entropy gives good accuracy: in the middle and late "
                "stages most p are near 1, where -log p is close to 1 - p, so that it trains a "
                "smooth accuracy as well. Here networks are trained with cross-entropy, with the "
                "plain recipe above, and at some steps the two losses and their gradients are "
                "computed on the whole training part. Two gradients are called alike if the cosine "
                f"of their angle is at least {ALIKE:g}, which was chosen before the runs."
            ),
            finding(ends),
            Table(
                "Cross-entropy and 1 - p along a training with cross-entropy",
                [
                    "step",
                    "training accuracy, %",
                    "mean of -log p",
                    "mean of 1 - p",
                    "cosine of gradients (95 %)",
                    "ratio of lengths (95 %)",
                ],
                rows,
                "Means over data sets; splits, learning rates and models are averaged first. The "
                "ratio is the length of the gradient of 1 - p over that of -log p.",
            ),
            _step_picture(moments),
            _accuracy_picture(ends),
            Table(
                f"The same after {last} steps, by data set",
                [
                    "data set, model",
                    "training accuracy, %",
                    "mean of -log p",
                    "mean of 1 - p",
                    "cosine of gradients",
                    "ratio of lengths",
                ],
                [
                    [
                        f"{each.data.removeprefix('uci/')}, {each.model}",
                        100 * each.accuracy,
                        each.minus_log,
                        each.error,
                        each.cosine,
                        each.ratio,
                    ]
                    for each in ends
                ],
            ),
        ],
        answer=_answer(ends, last),
    )


def _values(moments: Sequence[Moment], step: int, name: str) -> list[float]:
    own = [(each.data, float(getattr(each, name))) for each in moments if each.step == step]
    return list(by_set(own).values())


def _mean(moments: Sequence[Moment], step: int, name: str, scale: float = 1.0) -> float:
    return scale * float(np.mean(_values(moments, step, name)))


def _shown(moments: Sequence[Moment], step: int, name: str) -> str:
    return _spelled(interval(_values(moments, step, name)))


def _spelled(each: Interval) -> str:
    if np.isnan(each.low):
        return f"{each.mean:.2f}"
    return f"{each.mean:.2f} ({each.low:.2f} to {each.high:.2f})"


def _cosine(ends: Sequence[Moment]) -> Interval:
    return interval(list(by_set([(each.data, each.cosine) for each in ends]).values()))


def finding(ends: Sequence[Moment]) -> Finding:
    """Return whether the gradients are alike at the end of training."""
    cosine = _cosine(ends)
    verdict: Verdict = "not decided"
    if cosine.low >= ALIKE:
        verdict = "holds"
    elif cosine.high < ALIKE:
        verdict = "does not hold"
    gap = interval(
        list(by_set([(each.data, each.minus_log / each.error) for each in ends]).values())
    )
    return Finding(
        "Late in training cross-entropy is basically equivalent to 1 - p.",
        "log p is close to p - 1 as most p approach 1 (kexue.fm 9098, an argument without figures)",
        f"cosine of the gradients {_spelled(cosine)}, mean of -log p over mean of 1 - p "
        f"{_spelled(gap)}, over {len({each.data for each in ends})} data sets",
        verdict,
    )


def _answer(ends: Sequence[Moment], last: int) -> str:
    groups = {
        "that are separated (training accuracy of 99 % or more)": [
            each for each in ends if each.accuracy >= SEPARATED
        ],
        "that are not": [each for each in ends if each.accuracy < SEPARATED],
    }
    parts = [
        f"{_spelled(interval([each.cosine for each in group]))} on the {len(group)} {name}"
        for name, group in groups.items()
        if group
    ]
    cosine = _cosine(ends)
    alike = "are" if cosine.low >= ALIKE else "are not" if cosine.high < ALIKE else "may be"
    return (
        f"After {last} steps the gradients of cross-entropy and 1 - p {alike} alike: the cosine of "
        f"their angle is {_spelled(cosine)} over data sets, {' and '.join(parts)}."
    )


def _step_picture(moments: Sequence[Moment]) -> Picture:
    title = "Cosine of the gradients of -log p and 1 - p against the step"
    figure, ax = axes(xlabel="step + 1", ylabel="cosine", log="x")
    rows = []
    for name in dict.fromkeys((each.data, each.model) for each in moments):
        line = [each for each in moments if (each.data, each.model) == name]
        ax.plot(
            [each.step + 1 for each in line],
            [each.cosine for each in line],
            color="C7",
            linewidth=0.6,
            alpha=0.6,
        )
        rows += [[*name, each.step, each.cosine, each.accuracy] for each in line]
    steps = sorted({each.step for each in moments})
    means = [interval(_values(moments, step, "cosine")) for step in steps]
    bars = [[each.mean - each.low for each in means], [each.high - each.mean for each in means]]
    ax.errorbar(
        [step + 1 for step in steps],
        [each.mean for each in means],
        yerr=np.nan_to_num(bars),
        fmt="o-",
        color="C0",
        capsize=3,
    )
    ax.axhline(ALIKE, color="black", linewidth=0.8, linestyle="--")
    return Picture(
        title,
        figure,
        Table(title, ["data set", "model", "step", "cosine", "training accuracy"], rows),
        "Blue: mean over data sets with 95 % intervals; grey: single data sets. Above the dashed "
        "line gradients are called alike.",
    )


def _accuracy_picture(ends: Sequence[Moment]) -> Picture:
    title = "Cosine of the gradients at the end against the training accuracy"
    figure, ax = axes(xlabel="training accuracy, %", ylabel="cosine")
    ax.plot([100 * each.accuracy for each in ends], [each.cosine for each in ends], "o", color="C0")
    ax.axhline(ALIKE, color="black", linewidth=0.8, linestyle="--")
    return Picture(
        title,
        figure,
        Table(
            title,
            ["data set", "model", "training accuracy", "cosine"],
            [[each.data, each.model, each.accuracy, each.cosine] for each in ends],
        ),
        "A point is a data set and model.",
    )
