"""Mixing CE and EL, table 4: pictures of changes against CE, mean ranks and profiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation import statistics
from validation.page import Picture, Table, axes
from validation.paper.uci_mixing_runs import LOSSES, MODELS
from validation.paper.uci_mixing_table import NAMES, PUBLISHED, Accuracies, adjusted_p

_LEVEL = 0.05


def changes_picture(ours: Accuracies) -> Picture:
    """Draw the changes against CE with their intervals, and the published ones."""
    figure, ax = axes(xlabel="change of test accuracy against CE (points)")
    losses = [loss for loss in NAMES if loss != "ce"]
    rows: list[list[Any]] = []
    for number, (model, name) in enumerate(MODELS.items()):
        changes = [ours.change(loss, model) for loss in losses]
        places = [place + 0.2 * number - 0.1 for place in range(len(losses))]
        means = [each.mean for each in changes]
        halves = [each.half for each in changes]
        ax.errorbar(means, places, xerr=halves, fmt="o", color=f"C{number}", label=name, capsize=2)
        published = [PUBLISHED[model][loss].change for loss in losses]
        ax.plot(published, places, "x", color=f"C{number}", label=f"{name}, published")
        rows += [
            [LOSSES[loss], name, each.mean, each.half, value]
            for loss, each, value in zip(losses, changes, published, strict=True)
        ]
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(losses)), [LOSSES[loss] for loss in losses])
    ax.set_ylim(len(losses) - 0.5, -0.5)
    ax.legend(fontsize=7)
    header = ["loss", "network", "change (points)", "half of the interval", "published"]
    return Picture(
        "Table 4: change of accuracy against CE",
        figure,
        Table("", header, rows),
        "Points: ours with 95 % intervals over sets. Crosses: published.",
    )


def rank_picture(model: str, ours: Accuracies) -> Picture:
    """Draw a critical-difference diagram of a network."""
    values = ours.of(model).mean(axis=2)
    ranks = statistics.ranks(values.round(6)).mean(axis=0)
    p = adjusted_p(values)
    figure, ax = axes()
    names = list(LOSSES.values())
    statistics.draw_ranks(ax, names, list(ranks), statistics.alike(list(ranks), p, _LEVEL))
    rows = [
        [name, float(rank), *map(float, row)]
        for name, rank, row in zip(names, ranks, p, strict=True)
    ]
    header = ["loss", "mean rank", *(f"p against {name}" for name in names)]
    return Picture(
        f"Mean ranks of the losses, {MODELS[model]}",
        figure,
        Table("", header, rows),
        f"Accuracies are means of two seeds. Bars join losses of which no two differ at {_LEVEL} "
        "(Conover, adjusted).",
    )


def profile_picture(model: str, ours: Accuracies) -> Picture:
    """Draw the profile of Dolan and Moré of a network."""
    shares = np.linspace(0.8, 1.0, 81)
    experiments = ours.of(model).transpose(0, 2, 1).reshape(-1, len(LOSSES))
    reached = statistics.profile(experiments.round(6), shares)
    figure, ax = axes(xlabel="share of the best accuracy", ylabel="part of sets and seeds")
    for number, name in enumerate(LOSSES.values()):
        ax.plot(shares, reached[:, number], color=f"C{number}", label=name)
    ax.legend(fontsize=7)
    rows = [
        [float(share), *map(float, row)]
        for share, row in zip(shares[::8], reached[::8], strict=True)
    ]
    table = Table("", ["share of the best", *LOSSES.values()], rows)
    caption = "Dolan-Moré profile: how often a loss reaches this share of the best loss's accuracy."
    return Picture(f"Profile of accuracies, {MODELS[model]}", figure, table, caption)
