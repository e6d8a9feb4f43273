"""Parts on the length of runs: whether twice as many steps change the results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from validation.page import Check, Table, Text
from validation.page.content import Part
from validation.reports.criticism.paired import Interval, by_set, interval, signed
from validation.reports.criticism.searches import CE, EXACT, Tuned, over_sets
from validation.reports.criticism.trainings import TUNED

CONVERGED = 0.5  # points: what twice as many steps may change
MUCH = 2.0  # points, on a single data set
ENOUGH = 5  # data sets, for a mean over them

# Sets that were given 4000 steps in place of 1000, by the points of test accuracy that
# cross-entropy had gained there from 500 to 1000 steps.
LENGTHENED = {"uci/hill-valley": 8, "uci/oocytes_trisopterus_nucleus_2f": 3}


class Doubling(NamedTuple):
    """What twice as many steps change, in points: over data sets with a 95 % interval."""

    loss: str
    half: float
    full: float
    change: Interval


def doublings(runs: Sequence[Tuned]) -> list[Doubling]:
    """Return what the two longest lengths, of which one is twice the other, come to.

    For each loss the test accuracy, and for EXACT its difference to cross-entropy.
    """
    return [_doubling(runs, loss) for loss in TUNED] + [_doubling(runs, EXACT, CE)]


def _doubling(runs: Sequence[Tuned], loss: str, other: str | None = None) -> Doubling:
    means = []
    for place in (-2, -1):
        values = []
        for run in runs:
            test = run.searches[sorted(run.searches)[place]].test
            value = test[loss] if other is None else test[loss] - test[other]
            values.append((run.data, float(value.mean())))
        means.append(by_set(values))
    half, full = means
    change = interval([full[name] - half[name] for name in full])
    title = loss if other is None else f"{loss} minus {other}"
    return Doubling(
        title, float(np.mean(list(half.values()))), float(np.mean(list(full.values()))), change
    )


def exact_converged(runs: Sequence[Tuned]) -> bool:
    """Return whether twice as many steps change EXACT by less than ``CONVERGED`` points.

    Both its mean accuracy and its mean difference from cross-entropy must change by less.
    """
    both = (_doubling(runs, EXACT), _doubling(runs, EXACT, CE))
    return all(abs(row.change.mean) < CONVERGED for row in both)


def parts(runs: Sequence[Tuned]) -> list[Part]:
    """Return a table, and a check if there are enough data sets."""
    rows = doublings(runs)
    usual = statistics.mode(max(run.searches) for run in runs)
    others = ", ".join(
        f"{run.name}: {max(run.searches)}" for run in runs if max(run.searches) != usual
    )
    listed: list[Part] = [
        Table(
            "Are the runs long enough? Test accuracy with half and with all steps, %",
            ["loss", "half the steps", "all steps", "change, points (95 % interval)"],
            [[row.loss, row.half, row.full, str(row.change)] for row in rows],
            f"Tuned again at each length; means over data sets. All steps are {usual}"
            + (f" ({others})." if others else ".")
            + _slow(runs),
            cite="criticism-lengths",
        )
    ]
    if len({run.data for run in runs}) >= ENOUGH:
        worst = max(rows, key=lambda row: abs(row.change.mean))
        listed.append(
            Check(
                f"Twice as many steps change no mean test accuracy by {CONVERGED:g} points or "
                "more, nor the difference between EXACT and cross-entropy.",
                all(abs(row.change.mean) < CONVERGED for row in rows),
                f"Largest change: {worst.change} points ({worst.loss}).",
            )
        )
    return listed


def lengthened(runs: Sequence[Tuned]) -> list[Part]:
    """Return which sets were given longer runs and why, with the result without them."""
    longer = {run.data: LENGTHENED[run.data] for run in runs if run.data in LENGTHENED}
    others = list(over_sets([run for run in runs if run.data not in longer], EXACT).values())
    if not longer or not others:
        return []
    names = " and ".join(name.removeprefix("uci/") for name in longer)
    gains = " and ".join(f"{gain:g}" for gain in longer.values())
    return [
        Text(
            f"The runs on {names} were lengthened after cross-entropy had gained {gains} points of "
            "test accuracy there from 500 to 1000 steps. Without these sets EXACT (1 - P) minus "
            f"cross-entropy is {interval(others)} points over {len(others)} data sets."
        )
    ]


def _slow(runs: Sequence[Tuned]) -> str:
    """Name the data sets on which cross-entropy still changes much with twice as many steps."""
    changes = {}
    for run in runs:
        half, full = (run.searches[steps] for steps in sorted(run.searches)[-2:])
        changes[run.name] = float(full.test[CE].mean() - half.test[CE].mean())
    slow = [f"{name} ({signed(each)})" for name, each in changes.items() if abs(each) > MUCH]
    if not slow:
        return ""
    return f" Cross-entropy changes by more than {MUCH:g} points on {', '.join(slow)}."
