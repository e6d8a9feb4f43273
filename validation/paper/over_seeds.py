"""Means over seeds with their standard errors, and who is ahead by more than them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Mean(NamedTuple):
    """A mean and its standard error, which is None for a single value.

    >>> over([1.0, 2.0, 3.0])
    Mean(mean=2.0, error=0.5773502691896258)
    """

    mean: float
    error: float | None

    def __str__(self) -> str:
        return f"{self.mean:.4g}" + ("" if self.error is None else f" ± {self.error:.1g}")


def over(values: Sequence[float]) -> Mean:
    """The mean of values, and the standard error of it."""
    if len(values) < 2:
        return Mean(values[0], None)
    return Mean(statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)))


def ahead(found: Mapping[str, Mean], *, least: bool = False) -> str:
    """Who has the largest mean (``least``: the smallest), and who is within two standard errors.

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
