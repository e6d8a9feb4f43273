"""Section on the argument that cross-entropy is close to 1 - p late in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from validation.page import Finding, Picture, Section, Table, Text
from validation.page.content import Verdict
from validation.page.figures import axes
from validation.reports.criticism.paired import Interval, by_set, interval

ALIKE = 0.9  # cosine of two gradients that are called equal here
NEAR_ONE = 0.9  # share of examples with p >= 0.9 from which on most p are called near 1


class Moment(NamedTuple):
    """A step of training with cross-entropy, means over learning rates and splits.

    Attributes
    ----------
    accuracy : float
        On the training part, as all others.
    near_one : float
        Share of examples with p >= 0.9.
    minus_log, error : float
        Means of -log p and of 1 - p.
    score_cosine, cosine : float
        Cosine of the angle of the gradients of the two, in all scores and in the weights.
    ratio : float
        Length of the latter gradient in the weights over that of the former.
    """

    data: str
    model: str
    step: int
    accuracy: float
    near_one: float
    minus_log: float
    error: float
    score_cosine: float
    cosine: float
    ratio: float


def moments_of(data: str, model: str, result: Any) -> list[Moment]:
    """Return the result of a task with its arguments."""
    names = Moment._fields[3:]
    return [
        Moment(data, model, own["step"], *(float(np.mean(own[name])) for name in names))
        for own in result
    ]


class Stuck(NamedTuple):
    """Shares of training examples whose P is below 0.05 after equal runs with both losses."""

    exact: Interval
    entropy: Interval


def stuck_of(results: Sequence[tuple[str, Any]]) -> Stuck | None:
    """Return means over data sets, in percent, of results by data set; None if there are none."""
    if not results:
        return None
    return Stuck(
        *(
            interval(
                list(
                    by_set([(data, 100 * float(np.mean(own[n]))) for data, own in results]).values()
                )
            )
            for n in ("EXACT", "cross-entropy")
        )
    )


def section(moments: Sequence[Moment]) -> Section:
    """Return the section on all watched steps of all runs."""
    last = max(each.step for each in moments)
    ends = [each for each in moments if each.step == last]
    rows = [
        [
            step,
            _mean(moments, step, "accuracy", 100.0),
            _mean(moments, step, "near_one", 100.0),
            _mean(moments, step, "minus_log") / _mean(moments, step, "error"),
            _shown(moments, step, "score_cosine"),
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
                f"of their angle in the weights is at least {ALIKE:g}, which was chosen before the "
                "runs. The verdict is on data sets where most p are near 1 at the end: at least "
                f"{100 * NEAR_ONE:g} % of the examples have p of at least 0.9, a bound that was "
                "set after the runs."
            ),
            finding(ends),
            Table(
                "Cross-entropy and 1 - p along a training with cross-entropy",
                [
                    "step",
                    "training accuracy, %",
                    "p at least 0.9, %",
                    "-log p over 1 - p",
                    "cosine in scores (95 %)",
                    "cosine in weights (95 %)",
                    "ratio of lengths (95 %)",
                ],
                rows,
                "Means over data sets; splits, learning rates and models are averaged first. "
                "-log p over 1 - p: their means over examples. Cosines are of the gradients of the "
                "two in the scores of all examples, and in the weights; the ratio is the length of "
                "the gradient of 1 - p in the weights over that of -log p. Where it is large, "
                "cross-entropy is near a minimum and 1 - p is not.",
                cite="criticism-late",
            ),
            _step_picture(moments),
            _accuracy_picture(ends),
            Table(
                f"The same after {last} steps, by data set",
                [
                    "data set, model",
                    "training accuracy, %",
                    "p at least 0.9, %",
                    "mean of -log p",
                    "mean of 1 - p",
                    "cosine in scores",
                    "cosine in weights",
                ],
                [
                    [
                        f"{each.data.removeprefix('uci/')}, {each.model}",
                        100 * each.accuracy,
                        100 * each.near_one,
                        each.minus_log,
                        each.error,
                        each.score_cosine,
                        each.cosine,
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


def _cosine(ends: Sequence[Moment], name: str = "cosine") -> Interval:
    return interval(list(by_set([(each.data, getattr(each, name)) for each in ends]).values()))


def _by_stage(ends: Sequence[Moment]) -> tuple[list[Moment], list[Moment]]:
    """Return the runs that end with most p near 1, which the critic speaks of, and the others."""
    near = [each for each in ends if each.near_one >= NEAR_ONE]
    return near, [each for each in ends if each.near_one < NEAR_ONE]


def _measured(ends: Sequence[Moment]) -> str:
    """Return the cosines and the ratio of the losses, in words, and the number of data sets."""
    if not ends:
        return "no data sets"
    gap = interval(
        list(by_set([(each.data, each.minus_log / each.error) for each in ends]).values())
    )
    return (
        f"cosine of the gradients {_spelled(_cosine(ends))} in the weights, "
        f"{_spelled(_cosine(ends, 'score_cosine'))} in the scores; mean of -log p over mean of "
        f"1 - p {_spelled(gap)}; {len({each.data for each in ends})} data sets"
    )


def _verdict(ends: Sequence[Moment]) -> Verdict:
    """Return whether the gradients are alike where most p are near 1."""
    near, _ = _by_stage(ends)
    if not near:
        return "not decided"
    cosine = _cosine(near)
    if cosine.low >= ALIKE:
        return "holds"
    return "does not hold" if cosine.high < ALIKE else "not decided"


def finding(ends: Sequence[Moment]) -> Finding:
    """Return whether the gradients are alike at the end of training, where most p are near 1."""
    near, others = _by_stage(ends)
    return Finding(
        "Late in training, where most p are near 1, cross-entropy is basically equivalent to "
        "1 - p.",
        "log p is close to p - 1 as most p approach 1 (kexue.fm 9098, an argument without figures)",
        f"p of at least 0.9 for at least {100 * NEAR_ONE:g} % of the training examples, which the "
        f"verdict is on: {_measured(near)}. Others: {_measured(others)}",
        _verdict(ends),
    )


def _answer(ends: Sequence[Moment], last: int) -> str:
    near, others = _by_stage(ends)
    share = _mean(ends, last, "near_one", 100.0)
    said = (
        f"After {last} steps with cross-entropy {share:.0f} % of the training examples have p of "
        "at least 0.9."
    )
    if near:
        alike = {"holds": "are", "does not hold": "are not"}.get(_verdict(ends), "may be")
        said += (
            f" Where at least {100 * NEAR_ONE:g} % have, the gradients of cross-entropy and 1 - p "
            f"{alike} alike: the cosine of their angle in the weights is {_angle(near)}."
        )
    else:
        said += f" On no data set at least {100 * NEAR_ONE:g} % have: the argument is not tested."
    if others:
        said += f" On the other data sets the cosine is {_angle(others)}."
    return said + (
        f" In the scores, example by example, it is {_spelled(_cosine(ends, 'score_cosine'))} over "
        "all data sets."
    )


def _angle(ends: Sequence[Moment]) -> str:
    return f"{_spelled(_cosine(ends))} ({len({each.data for each in ends})} data sets)"


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
