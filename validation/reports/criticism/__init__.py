"""The published objections to EXACT, each put to the test.

The first version of the paper met a criticism (https://kexue.fm/archives/9098): its toy example
denies the other losses a temperature; nothing says why normal noise should be better than the
Gumbel noise of softmax, whose expected accuracy is known to train worse than cross-entropy; the
results could not be reproduced; and late in training cross-entropy is close to 1 - p anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from validation import data_sets
from validation.page import Check, Section, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.criticism import contrasts, equal, late, lengths, searches, toy, tuned
from validation.reports.criticism.late_runs import late_of, stuck_of
from validation.reports.criticism.paired import interval
from validation.reports.criticism.runs import START, gumbel_of, toy_of
from validation.reports.criticism.trainings import (
    RECIPES,
    TUNED,
    arms_of,
    distances_of,
    tuned_of,
)
from validation.reports.when.problems import is_there
from validation.running import Task


class Cell(NamedTuple):
    """A data set and model, and for searches their lengths in steps and their number.

    Each search has a split of its own: training, validation and test part.
    """

    data: str
    model: str
    steps: tuple[int, ...] = ()
    searches: int = 4

    @property
    def name(self) -> str:
        return f"{self.data}, {self.model}"


class Scale(NamedTuple):
    """What is run: see ``tasks``."""

    starts: tuple[float, ...]  # of descent in the toy example
    equal: tuple[Cell, ...]  # all losses have the same settings
    tuned: tuple[Cell, ...]  # all losses are tuned
    late: tuple[Cell, ...]  # runs with EXACT and, longer, with cross-entropy
    trials: int
    splits: int


_PUBLISHED = (  # those of the later version's ten UCI sets that are among the 121
    "uci/annealing",
    "uci/balance-scale",
    "uci/breast-cancer-wisc-diag",
    "uci/car",
    "uci/cylinder-bands",
    "uci/wine",
)
_OTHERS = (  # the further sets of the report `when` with two to four classes
    "uci/blood",
    "uci/breast-cancer-wisc",
    "uci/cardiotocography-3clases",
    "uci/congressional-voting",
    "uci/contrac",
    "uci/energy-y1",
    "uci/hill-valley",
    "uci/horse-colic",
    "uci/ilpd-indian-liver",
    "uci/mammographic",
    "uci/musk-1",
    "uci/oocytes_trisopterus_nucleus_2f",
    "uci/pima",
    "uci/statlog-vehicle",
    "uci/tic-tac-toe",
    "uci/titanic",
    "uci/vertebral-column-3clases",
)
_QUICK = ("uci/breast-cancer-wisc-diag", "uci/cylinder-bands", "uci/pima", "uci/tic-tac-toe")
_LENGTHS = (250, 500, 1000)
_SLOW = tuple(lengths.LENGTHENED)  # 1000 steps were too few here


def _linear(names: tuple[str, ...], *steps: int) -> tuple[Cell, ...]:
    return tuple(Cell(name, "linear", steps) for name in names)


SCALES = {
    "small": Scale(
        (START,),
        _linear(("digits",), 20),
        (Cell("digits", "linear", (10, 20), 2),),
        _linear(("digits",), 20, 30),
        trials=4,
        splits=2,
    ),
    "quick": Scale(
        (-1.0, START, 2.0),
        _linear(("digits", *_QUICK), 200),
        (Cell("digits", "linear", (75, 150), 3), *_linear(_QUICK, 250, 500)),
        _linear(("digits", *_QUICK), 200, 1000),
        trials=32,
        splits=4,
    ),
    "full": Scale(
        (-2.0, -1.0, 0.0, START, 1.0, 2.0, 3.0),
        (
            *_linear(("digits", *_PUBLISHED, *_OTHERS), 200, 1000),
            Cell("digits", "hidden", (200, 1000)),
        ),
        (
            *_linear(("digits", *_PUBLISHED), *_LENGTHS),
            *_linear(tuple(name for name in _OTHERS if name not in _SLOW), *_LENGTHS),
            *_linear(_SLOW, 2000, 4000),
            Cell("digits", "hidden", (250, 500)),
            Cell("digits", "small_cnn", (75, 150), 3),
            Cell("mnist", "linear", (150, 300), 3),
        ),
        (
            *_linear(("digits", *_PUBLISHED, *_OTHERS), 1000, 3000),
            Cell("digits", "hidden", (1000, 3000)),
        ),
        trials=32,
        splits=4,
    ),
}


def tasks(scale: str) -> list[Task]:
    """Return the toy example, checks of the training code, and the trainings of each data set."""
    size = SCALES[scale]
    listed = [
        Task("toy", toy_of, {"starts": list(size.starts)}),
        Task("Gumbel", gumbel_of, {"count": 100_000, "seed": 1}),
        Task("stacked and alone", distances_of, {"steps": 20}),
    ]
    for cell in _at_hand(size.equal):
        own = {"data": cell.data, "model": cell.model, "splits": size.splits}
        for recipe, steps in _equal_runs(cell):
            name = _equal_name(cell, recipe, steps)
            listed.append(Task(name, arms_of, {**own, "recipe": recipe, "steps": steps}))
    for cell in _at_hand(size.late):
        own = {"data": cell.data, "model": cell.model, "splits": size.splits}
        short, long = cell.steps
        listed.append(Task(f"stuck: {cell.name}", stuck_of, {**own, "steps": short}))
        listed.append(Task(f"late: {cell.name}", late_of, {**own, "steps": long}))
    for cell in _at_hand(size.tuned):
        own = {"data": cell.data, "model": cell.model, "splits": cell.searches}
        own |= {"trials": size.trials, "steps": list(cell.steps)}
        listed.append(Task(f"tuned: {cell.name}", tuned_of, own))
    return listed


def _at_hand(cells: tuple[Cell, ...]) -> list[Cell]:
    return [cell for cell in cells if is_there(cell.data)]


def _equal_runs(cell: Cell) -> list[tuple[str, int]]:
    return [(recipe, steps) for recipe in RECIPES for steps in cell.steps]


def _equal_name(cell: Cell, recipe: str, steps: int) -> str:
    return f"equal: {cell.name}, {recipe}, {steps} steps"


def section(results: Results, scale: str) -> Section:
    """Return what came of each objection; results may be missing."""
    size = SCALES[scale]
    runs = [
        equal.equal_of(cell.data, cell.model, recipe, steps, results[name])
        for cell in size.equal
        for recipe, steps in _equal_runs(cell)
        if (name := _equal_name(cell, recipe, steps)) in results
    ]
    searched = [
        searches.tuned_of(cell.data, cell.model, results[name])
        for cell in size.tuned
        if (name := f"tuned: {cell.name}") in results
    ]
    moments = [
        moment
        for cell in size.late
        if (name := f"late: {cell.name}") in results
        for moment in late.moments_of(cell.data, cell.model, results[name])
    ]
    stuck = late.stuck_of(
        [
            (cell.data, results[name])
            for cell in size.late
            if (name := f"stuck: {cell.name}") in results
        ]
    )
    parts: list[Part] = [
        Text(
            "The first version of the EXACT paper met a published criticism "
            "([kexue.fm 9098](https://kexue.fm/archives/9098)). Its objections are tested here one "
            "by one, with small models on one core: what holds for large networks on images is not "
            "decided by them."
        )
    ]
    if runs:
        parts += [equal.equal_finding(runs), equal.against_ce(runs)]
    if searched:
        parts.append(tuned.section(searched, size.trials))
    if runs:
        parts.append(contrasts.objective(runs))
        if "Gumbel" in results:
            parts.append(contrasts.noise(runs, results["Gumbel"]))
    if moments:
        parts.append(late.section(moments))
    if "toy" in results:
        parts.append(toy.section(results["toy"]))
    if "stacked and alone" in results:
        parts.append(_agreement(results["stacked and alone"]))
    return Section(
        "Criticism of EXACT", [*parts, *_missing(size)], answer=_answer(runs, searched, stuck)
    )


def _answer(
    runs: Sequence[equal.Equal],
    searched: Sequence[searches.Tuned],
    stuck: late.Stuck | None,
) -> str:
    if not runs:
        return ""
    values = list(searches.over_sets(searched, searches.EXACT).values())
    change = interval(values) if values else None
    return equal.why(runs, stuck, change)


def _agreement(distances: Mapping[str, float]) -> Check:
    worst = max(distances, key=distances.__getitem__)
    return Check(
        "Training many networks in one stacked tensor gives the same networks as torch's own "
        "layers, SGD, clipping and `GradientNormalizer`: scores differ by less than 1e-10 of the "
        "largest, for all tuned losses.",
        set(distances) == set(TUNED) and all(each < 1e-10 for each in distances.values()),
        f"At most {distances[worst]:.1e}, for {worst}.",
    )


def _missing(size: Scale) -> list[Part]:
    cells = (*size.equal, *size.tuned, *size.late)
    absent = dict.fromkeys(cell.data for cell in cells if not is_there(cell.data))
    return [data_sets.missing(f"Trainings on {name}", name) for name in absent]
