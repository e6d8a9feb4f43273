"""Mixing CE and EL: tables 1, 2, 5 and 6 at the scale of a CPU."""

from __future__ import annotations

import math
import statistics
from typing import Any, NamedTuple

from validation import data_sets
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper import mixing_published
from validation.paper.mixing_image_runs import (
    AGREEMENT,
    SCALED,
    SETTINGS,
    TABLES,
    Setting,
    changes,
    task_name,
    tasks,
    there,
)
from validation.paper.mixing_motivation import control, motivating_example
from validation.paper.over_folds import Interval, check_near, compare_sizes, over_sets, verdict
from validation.paper.reduced import decide_if_full
from validation.reports import Results

__all__ = ["section", "tasks"]

MIXED = "f0-0.5"
NAMES = {
    "ce": "CE",
    "f0": "CE+EL, F = 0",
    "f0,0.5": "CE+EL, F = 0, 0.5",
    "f0-0.5": "CE+EL, F = 0-0.5",
    "cot": "COT",
    SCALED: "CE, scaled rate",
}
ROWS = {
    "": "",
    "baseline": "flips, crops and rotations",
    "erasing": "random erasing",
    "erasing-no-rotation": "random erasing, no rotations",
    "jitter": "colour jitter",
    "dropout": "dropout of 0.2",
}
_WHAT = {
    "1": "eight networks on CIFAR-100 and CINIC-10",
    "2": "seven networks on ImageNet",
    "5": "complement objective training (COT) on CIFAR-100, Tiny-ImageNet and ImageNet",
    "6": "ResNet34 on CINIC-10 with more regularisation",
}
_DATA = {"cifar10": "CIFAR-10's first file", "mnist": "MNIST", "digits": "digits"}
_NEAR = 3.0  # points; the largest published change is 1.72, of COT
_FAR = 10.0
_TITLE = "Mixing CE and EL on images: tables 1, 2, 5 and 6"


class Row(NamedTuple):
    """Runs of a table that differ in loss and seed; ``change`` is a row of table 6.

    ``runs`` has by loss the results of each seed, the same seeds for all losses; ``data`` is the
    data set, ``done`` lists the seeds.
    """

    table: str
    change: str
    runs: dict[str, list[dict[str, Any]]]
    data: str = ""
    done: tuple[int, ...] = ()

    def accuracy(self, loss: str) -> Interval:
        """Return the mean test accuracy in percent with its interval over seeds."""
        return over_sets([100 * each["accuracy"] for each in self.runs[loss]])

    def difference(self, loss: str, other: str = "ce") -> Interval:
        """Return the paired difference of two losses in points, with its interval over seeds."""
        pairs = zip(self.runs[loss], self.runs[other], strict=True)
        return over_sets([100 * (one["accuracy"] - two["accuracy"]) for one, two in pairs])

    def difference_of_seed(self, seed: int) -> float:
        """Return the difference of F = 0-0.5 from CE in points, with one seed."""
        place = self.done.index(seed)
        mixed, ce = (self.runs[loss][place]["accuracy"] for loss in (MIXED, "ce"))
        return float(100 * (mixed - ce))

    @property
    def seeds(self) -> int:
        return len(self.runs["ce"])


def rows_of(results: Results, scale: str) -> list[Row]:
    """Return the rows of all tables with at least two seeds done."""
    rows = []
    for table, setting in SETTINGS[scale].items():
        for change in changes(table):
            found = {
                seed: results[name]
                for seed in range(setting.seeds)
                if (name := task_name(table, f"{change}, " if change else "", seed)) in results
            }
            if len(found) > 1:
                runs = {loss: [each[loss] for each in found.values()] for loss in TABLES[table]}
                rows.append(Row(table, change, runs, setting.data, tuple(found)))
    return rows


def section(results: Results, scale: str) -> Section:
    """Return the tables beside the published changes, the motivating example and the control."""
    rows = rows_of(results, scale)
    missing = _missing(results, scale)
    if not rows:
        return Section(_TITLE, missing)
    parts: list[Part] = [*decide_if_full(_findings(rows), scale), Text(_protocol())]
    for table in TABLES:
        of_table = [row for row in rows if row.table == table]
        if of_table:
            parts.append(_table(table, of_table, SETTINGS[scale][table]))
    parts.append(_picture(rows))
    first = next((row for row in rows if row.table == "1"), None)
    if first is not None:
        parts += [motivating_example(first.runs), control(first.difference, scale)]
    parts += [*_checks(results, rows), *missing, *_not_run()]
    return Section(_TITLE, parts, _answer(rows))


def pooled(rows: list[Row]) -> Interval:
    """Return the change of F = 0-0.5 against CE over the rows of all tables.

    Rows with the same data set are no independent samples: for each seed that all rows have, their
    mean is taken by data set, then that over data sets. The interval is over these seeds; with
    fewer than two of them there is none.
    """
    common = sorted(set.intersection(*(set(row.done) for row in rows)))
    if not common:
        return Interval(statistics.fmean(row.difference(MIXED).mean for row in rows), math.inf)
    sets = [[row for row in rows if row.data == data] for data in {row.data: None for row in rows}]
    return over_sets(
        [
            statistics.fmean(
                statistics.fmean(row.difference_of_seed(seed) for row in of_set) for of_set in sets
            )
            for seed in common
        ]
    )


def _answer(rows: list[Row]) -> str:
    ours = pooled(rows)
    ahead = sum(row.difference(MIXED).low > 0 for row in rows)
    behind = sum(row.difference(MIXED).high < 0 for row in rows)
    return (
        f"At the scale of a CPU, CE with EL (F = 0-0.5) changes the accuracy of CE by {ours} "
        f"points in the mean over {_how_many(rows)} (95 % interval over seeds); published is "
        f"{mixing_published.all_changes()}, mean and range, with large networks. In single "
        f"settings, over seeds, the mixture is shown to be better in {ahead} and worse in {behind} "
        f"of {len(rows)}."
    )


def _how_many(rows: list[Row]) -> str:
    sets = len({row.data for row in rows})
    return f"{len(rows)} settings with {sets} data set{'s' if sets > 1 else ''}"


def _findings(rows: list[Row]) -> list[Finding]:
    published, ours = mixing_published.all_changes(), pooled(rows)
    findings = [
        Finding(
            "On images, CE mixed with EL (F = 0-0.5) is more accurate than CE.",
            f"{published} points, large networks (mixing paper, tables 1, 2, 5 and 6)",
            f"{ours} points, small networks, {_how_many(rows)} (95 % interval over seeds, which "
            f"says nothing of other data){compare_sizes(ours, published.mean)}",
            verdict(ours),
        )
    ]
    fifth = next((row for row in rows if row.table == "5"), None)
    complement = mixing_published.change("5", "cot")
    if fifth is not None and complement is not None:
        cot = fifth.difference("cot")
        findings.append(
            Finding(
                "On small images, complement objective training (COT) is more accurate than CE.",
                "+1.20 to +1.72 points on CIFAR-100, -0.14 on ImageNet (mixing paper, table 5)",
                f"{cot} points, a small network (95 % interval over {fifth.seeds} seeds)"
                f"{compare_sizes(cot, 1.20)}",
                verdict(cot),
            )
        )
    return findings


def _protocol() -> str:
    return (
        "The scale differs: the paper trains networks of 0.3 to 90 million weights on whole image "
        "sets with GPUs; here `small_cnn`, three convolutions, is trained on images scaled to "
        "16 x 16 (MNIST: 14 x 14) for minutes, with the losses, optimiser, augmentation and steps "
        "of the learning rate of the recipes `mixing-table1-small` and so on. So accuracies cannot "
        "be compared with the published ones; changes against CE can. Losses start from the same "
        "weights and see the same batches for each seed, and differences are paired over seeds."
    )


def _table(table: str, rows: list[Row], setting: Setting) -> Table:
    examples = "all examples" if setting.examples is None else f"{setting.examples} examples"
    title = f"Table {table} of the mixing paper ({_WHAT[table]}) on {_DATA[setting.data]}"
    lines: list[list[Any]] = []
    for row in rows:
        for loss in row.runs:
            if loss == SCALED:
                continue
            published = mixing_published.change(table, loss, row.change)
            line: list[Any] = [ROWS[row.change]] if table == "6" else []
            line += [NAMES[loss], f"{row.accuracy(loss).mean:.2f}"]
            line += [
                None if loss == "ce" else str(row.difference(loss)),
                _written(published, table),
            ]
            lines.append(line)
    header = ["regularisation"] if table == "6" else []
    header += ["loss", "test accuracy (%)", "change against CE (points)", "published change"]
    note = (
        f"{examples[0].upper()}{examples[1:]}, {setting.epochs} epochs, {rows[0].seeds} seeds; "
        "95 % intervals over seeds, paired. "
    )
    if table != "6":
        note += "Published: mean and range over networks and sets. "
    return Table(title, header, lines, note.strip(), f"mixing-table{table}")


def _written(published: mixing_published.Change | None, table: str) -> str | None:
    if published is None:
        return None
    return f"{published.mean:+.2f}" if table == "6" else str(published)


def _label(row: Row) -> str:
    return f"table {row.table}" + (f", {row.change}" if row.change else "")


def _picture(rows: list[Row]) -> Picture:
    figure, ax = axes(xlabel="change of test accuracy against CE (points)")
    lines = []
    for place, row in enumerate(rows):
        ours = row.difference(MIXED)
        published = mixing_published.change(row.table, MIXED, row.change)
        assert published is not None
        ax.errorbar([ours.mean], [place], xerr=[ours.half], fmt="o", color="C0", capsize=2)
        ax.plot([published.mean], [place], "x", color="C3")
        lines.append([_label(row), ours.mean, ours.half, published.mean])
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    return Picture(
        "CE + EL (F = 0-0.5) against CE on images",
        figure,
        Table("", ["setting", "change (points)", "half of the interval", "published"], lines),
        "Points: ours with 95 % intervals over seeds. Crosses: published means.",
    )


def _checks(results: Results, rows: list[Row]) -> list[Part]:
    checks: list[Part] = []
    if AGREEMENT in results:
        came = results[AGREEMENT]
        checks.append(
            Check(
                "The loop that follows test examples trains as `exact_torch.train` does: the same "
                "test accuracy for the same config.",
                came["follow"] == came["train"],
                f"{came['follow']:.4f} and {came['train']:.4f}.",
            )
        )
    changes_of = {
        f"{_label(row)}, {NAMES[loss]}": row.difference(loss)
        for row in rows
        for loss in row.runs
        if loss != "ce"
    }
    checks.append(
        check_near(
            f"Every loss is within {_NEAR:g} points of CE in every setting (95 % intervals over "
            "seeds; the largest published change is 1.72).",
            changes_of,
            _NEAR,
        )
    )
    furthest = max(
        (100 * abs(run["accuracy"] - ce["accuracy"]), f"{_label(row)}, {NAMES[loss]}, seed {seed}")
        for row in rows
        for loss, runs in row.runs.items()
        for seed, (run, ce) in enumerate(zip(runs, row.runs["ce"], strict=True))
    )
    checks.append(
        Check(
            f"Every run is within {_FAR:g} points of that with CE and the same seed.",
            furthest[0] <= _FAR,
            f"At most {furthest[0]:.2f} points, {furthest[1]}.",
        )
    )
    return checks


def _missing(results: Results, scale: str) -> list[Part]:
    parts: list[Part] = []
    for table, setting in SETTINGS[scale].items():
        if not there(setting.data):
            parts.append(data_sets.missing(f"Table {table} of the mixing paper", setting.data))
    undone = [task.name for task in tasks(scale) if task.name not in results]
    if undone:
        command = f"python -m validation paper{' --full' if scale == 'full' else ''}"
        parts.append(NotRun("Mixing CE and EL on images", f"{len(undone)} tasks.", command))
    return parts


def _not_run() -> list[NotRun]:
    return [
        NotRun(
            "Tables 1, 2, 5 and 6 of the mixing paper as published",
            "120 runs a seed of 90 to 240 epochs on CIFAR-100, CINIC-10, Tiny-ImageNet and "
            "ImageNet. GPUs and the folders of images are needed.",
            "exact-torch train mixing-table1 --seeds 4\nexact-torch train mixing-table2 --seeds 2\n"
            "exact-torch train mixing-table5\nexact-torch train mixing-table6",
        ),
        NotRun(
            "Table 3 and figure 2 of the mixing paper",
            "LSTMs on reviews and BERT on GLUE: this package is about images and tables.",
            "python -c 'import exact_torch.recipes; help(exact_torch.recipes)'",
        ),
    ]
