"""Means over seeds: standard errors, 95 % intervals of paired differences, and verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from validation.page.content import Verdict


class Mean(NamedTuple):
    """A mean and its standard error, which is None for a single value.

    >>> over([1.0, 2.0, 3.0])
    Mean(mean=2.0, error=0.5773502691896258)
    """

    mean: float
    error: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + ("" if self.error is None else f" ± {self.error:.1g}")


class Interval(NamedTuple):
    """A mean with half the width of its 95 % interval, None where there is a single value.

    >>> str(Interval(-0.512, 0.2))
    '-0.51 ± 0.20'
    >>> Interval(-0.5, 0.2).verdict(), Interval(0.1, 0.2).verdict()
    ('does not hold', 'not decided')
    """

    mean: float
    half: float | None

    def __str__(self) -> str:
        mean = f"{self.mean:+.2f}"
        return mean if self.half is None else f"{mean} ± {self.half:.2f}"

    @property
    def decided(self) -> bool:
        """Whether zero is outside the interval."""
        return self.half is not None and abs(self.mean) > self.half

    def verdict(self) -> Verdict:
        """Return what the interval says of the claim that the quantity is larger than zero."""
        if not self.decided:
            return "not decided"
        return "holds" if self.mean > 0 else "does not hold"


def over(values: Sequence[float]) -> Mean:
    """Return the mean of values and its standard error."""
    if len(values) < 2:
        return Mean(values[0], None)
    return Mean(statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)))


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return the mean of values and half its interval by Student's t, of 95 % unless given.

    >>> mean, half = interval([1.0, 2.0, 3.0])
    >>> mean, round(half, 4)
    (2.0, 2.4841)
    """
    from scipy import stats

    mean, error = over(values)
    if error is None:
        return Interval(mean, None)
    return Interval(mean, float(stats.t.ppf(0.5 + level / 2, len(values) - 1)) * error)


def paired(values: Sequence[float], reference: Sequence[float]) -> Interval:
    """Return the mean difference of pairs and half its 95 % interval.

    >>> paired([3.0, 5.0], [1.0, 3.0])
    Interval(mean=2.0, half=0.0)
    """
    return interval([a - b for a, b in zip(values, reference, strict=True)])


def proportion(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Clopper and Pearson.

    >>> [round(end, 3) for end in proportion(0, 10)]
    [0.0, 0.308]
    """
    from scipy import stats

    low, high = stats.binomtest(count, total).proportion_ci(0.95, method="exact")
    return float(low), float(high)


def ahead(found: Mapping[str, Mean], *, least: bool = False) -> str:
    """Say who has the largest mean (``least``: the smallest), and who is within two errors of it.

    >>> ahead({"a": Mean(0.9, 0.01), "b": Mean(0.8, 0.01), "c": Mean(0.89, 0.01)})
    'a has the best mean, 0.9 ± 0.01; within two standard errors of the difference: c'
    """
    order = sorted(found, key=lambda name: found[name].mean, reverse=not least)
    first = found[order[0]]
    said = f"{order[0]} has the best mean, {first}"
    if first.error is None:
        return f"{said} (one seed: no standard error)"
    close = [
        name
        for name in order[1:]
        if abs(found[name].mean - first.mean)
        <= 2 * math.hypot(first.error, found[name].error or 0.0)
    ]
    return f"{said}; within two standard errors of the difference: {', '.join(close) or 'none'}"
