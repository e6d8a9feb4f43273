"""What is said of the length of runs: whether twice as many steps change anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from validation.page import Check, Table
from validation.page.content import Part
from validation.reports.criticism.paired import Interval, by_set, interval
from validation.reports.criticism.searches import CE, EXACT, Tuned
from validation.reports.criticism.trainings import TUNED

CONVERGED = 0.5  # points: what twice as many steps may change
ENOUGH = 5  # data sets, for a mean over them


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
    title = loss if other is None else f"{loss} less {other}"
    return Doubling(
        title, float(np.mean(list(half.values()))), float(np.mean(list(full.values()))), change
    )


def parts(runs: Sequence[Tuned]) -> list[Part]:
    """Return a table, and a check if there are enough data sets."""
    rows = doublings(runs)
    fewer = ", ".join(
        f"{run.name}: {max(run.searches)}" for run in runs if max(run.searches) < _longest(runs)
    )
    listed: list[Part] = [
        Table(
            "Are the runs long enough? Test accuracy with half and with all steps, %",
            ["loss", "half the steps", "all steps", "change, points (95 % interval)"],
            [[row.loss, row.half, row.full, str(row.change)] for row in rows],
            f"Tuned again at each length; means over data sets. All steps are {_longest(runs)}"
            + (f" ({fewer})." if fewer else "."),
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


def _longest(runs: Sequence[Tuned]) -> int:
    return max(max(run.searches) for run in runs)
