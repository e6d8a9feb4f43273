"""Tables and the picture of linear models on UCI sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from validation.page import Picture, Table, axes
from validation.paper.uci_linear_checks import AS_NUMBERS
from validation.paper.uci_linear_table import (
    METHODS,
    NAMES,
    Accuracies,
    chosen,
    published,
    published_lead,
)

_CITE = "uci-linear"


def comparison(ours: Accuracies) -> Table:
    """Return accuracies of all methods on all sets, published ones in brackets."""
    rows: list[list[Any]] = []
    for method in METHODS:
        before = [published(name, method) for name in ours.sets]
        means = [ours.mean(name, method) for name in ours.sets]
        pairs = [*zip(means, before, strict=True), (ours.overall(method), float(np.mean(before)))]
        rows.append([NAMES[method], *(f"{mean:.1f} ({theirs:.1f})" for mean, theirs in pairs)])
    note = "Ours is the mean over the splits; published in brackets."
    header = ["loss", *ours.sets, "mean"]
    return Table("Test accuracy (%), ours (published)", header, rows, note, _CITE)


def picture(ours: Accuracies) -> Picture:
    """Draw EXACT minus CE on each set and over sets."""
    figure, ax = axes(xlabel="EXACT minus cross-entropy (points)")
    names = [*ours.sets, "mean over sets"]
    leads = [ours.difference(name, "exact", "ce") for name in ours.sets]
    leads.append(ours.lead("exact", "ce"))
    theirs = [published(name, "exact") - published(name, "ce") for name in ours.sets]
    theirs.append(published_lead(ours.sets))
    places = np.arange(len(names))[::-1]
    halves = [each.half if math.isfinite(each.half) else 0.0 for each in leads]
    means = [each.mean for each in leads]
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.errorbar(means, places, xerr=halves, fmt="o", capsize=3, color="C0", label="ours, 95 %")
    ax.plot(theirs, places, "x", color="C1", label="published")
    ax.set_yticks(places, [name.replace("-wisc-", "-\nwisc-") for name in names], fontsize=9)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.legend(fontsize=9, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    rows = [
        [name, each.mean, each.low, each.high, before]
        for name, each, before in zip(names, leads, theirs, strict=True)
    ]
    data = Table("", ["set", "ours", "low", "high", "published"], rows)
    caption = (
        "Bars: corrected resampled t over the splits of a set, Student's t over sets for their "
        "mean. Right of the line EXACT is better."
    )
    return Picture("EXACT minus cross-entropy, linear models on UCI sets", figure, data, caption)


def differences(ours: Accuracies) -> Table:
    """Return differences on each set: EXACT - CE, CE - scikit-learn, one-hot - numbers."""
    rows: list[list[Any]] = []
    for name in ours.sets:
        pairs = (("exact", "ce"), ("ce", "sklearn"), ("sklearn", AS_NUMBERS))
        leads = [str(ours.difference(name, *each)) for each in pairs]
        before = published(name, "exact") - published(name, "ce")
        fold = ours.folds[name][0]
        rows.append(
            [name, leads[0], before, leads[1], leads[2], fold["features"], fold["examples"]]
        )
    header = ["set", "EXACT - CE", "published", "CE - sklearn", "one-hot - whole numbers, sklearn"]
    header += ["features", "test examples"]
    note = "In points, with 95 % intervals over the splits (corrected resampled t)."
    return Table("Differences on each set", header, rows, note)


def details(ours: Accuracies) -> Table:
    """Return a row for each number of the comparison."""
    rows = []
    for name in ours.sets:
        for method in METHODS:
            values = ours.by_fold(name, method)
            cells = [chosen(fold, method) for fold in ours.folds[name]]
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            tied = float(np.mean([each["tied"] for each in cells]))
            failed = int(np.sum([each["failed"] for each in cells]))
            mean = float(values.mean())
            rows.append([name, NAMES[method], mean, spread, published(name, method), tied, failed])
    header = ["set", "loss", "ours (%)", "standard deviation over splits", "published (%)"]
    header += ["equally good trials", "diverged trials"]
    note = (
        "Equally good trials: how many shared the best validation accuracy, the mean over "
        "splits. Diverged trials have infinite weights and cannot be chosen."
    )
    return Table("Linear models on UCI sets, each number", header, rows, note)
