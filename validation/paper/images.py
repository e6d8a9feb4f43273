"""Image tables of EXACT's two versions at the scale of a CPU: MNIST and a file of CIFAR-10.

Karpukhin, Dereka, Kolesnikov, EXACT: How to train your accuracy, first version (arXiv:2205.09615v1,
tables 1 and 2) and the later one (table of images). The runs are those of ``image_runs``; networks
trained on scikit-learn's digits are judged again by independent code (``judged_again``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from validation import data_sets
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper import image_runs, judged_again
from validation.paper.image_runs import LOSSES, OPTIMIZERS, PLANS, SETS
from validation.paper.images_published import (
    V1_TABLE1,
    V1_TABLE2,
    V2_TABLE,
    exact_above_ce,
    published,
)
from validation.paper.over_seeds import Interval, interval, over, paired
from validation.reports import Results
from validation.running import Task

TITLE = "Images: EXACT's tables"
_JUDGED = ("exact", "exact_v1", "ce", "hinge")


class Cell(NamedTuple):
    """A loss with an optimiser on a set: the chosen rate, and test accuracies in % by seed."""

    data: str
    optimizer: str
    loss: str
    rate: float
    pilot: Mapping[str, float]
    accuracies: list[float]


tasks = image_runs.tasks


def section(results: Results, scale: str) -> Section:
    return Section(TITLE, [])
