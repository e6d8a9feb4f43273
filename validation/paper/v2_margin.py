"""EXACT, later version, figure 4: what the margin does, in the toy example and in training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr

from exact_torch import exact_loss
from exact_torch.schedules import MarginSchedule
from exact_torch.train import Config
from validation import toy
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Verdict
from validation.paper import variants
from validation.paper.over_seeds import Interval
from validation.paper.reduced import decide_if_full
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v2, figure 4: the margin"
# The figure is of the toy example, curves without numbers; its caption says that the margin
# matters where sigma is large, and makes the landscape of early epochs a better one. Published
# margins of the image sets:
PUBLISHED = {
    data: MarginSchedule.named(data).start
    for data in ("mnist", "svhn", "cifar10", "cifar100", "imagenet")
}
_SIGMAS = (0.05, 0.5, 10.0)
_MARGINS = (None, 0.5, 0.1)
_JUDGED = "0.5"  # on all sets: the best margin of each would be chosen on test accuracy
_TRAINED: dict[str, float | None] = {"none": None, "0.5": 0.5, "2": 2.0}
_GRID = np.arange(-500, 1501) / 1000


def runs(scale: str) -> dict[str, dict[str, Config]]:
    """By data set and margin."""
    return {
        data: {
            f"{data}, margin {name}": replace(
                base, loss_options={**base.loss_options, "margin": margin}
            )
            for name, margin in _TRAINED.items()
            if scale != "small" or margin in (None, 2.0)
        }
        for data, base in variants.bases(scale).items()
    }


def tasks(scale: str) -> list[Task]:
    toys = [
        Task(_name(sigma, margin), landscape, {"sigma": sigma, "margin": margin})
        for sigma in _SIGMAS
        for margin in _MARGINS
    ]
    return toys + [
        task
        for data, of in runs(scale).items()
        for task in variants.tasks(of, variants.seeds(scale, data))
    ]


def landscape(sigma: float, margin: float | None) -> dict[str, Any]:
    """1 - P on a grid of thresholds, and from where to where it is smallest."""
    f = (np.array(toy.X) - _GRID[:, None]).ravel()
    scores = torch.from_numpy(np.stack([np.zeros_like(f), f], axis=1))
    labels = torch.tensor(toy.LABELS).repeat(len(_GRID))
    options: dict[str, Any] = {"objective": "error", "margin": margin, "reduction": "none"}
    values = exact_loss(scores, labels, sigma=sigma, **options).numpy().reshape(-1, 3).mean(axis=1)
    apart = np.minimum([_GRID + 0.25, _GRID, 0.25 - _GRID], math.inf if margin is None else margin)
    truth = ndtr(-apart / (2**0.5 * sigma)).mean(axis=0)
    best = _GRID[values <= values.min() + 1e-13]
    return {
        "values": values[::10].tolist(),
        "apart": float(np.max(np.abs(values - truth))),
        "best": [float(best[0]), float(best[-1])],
    }


def section(results: Results, scale: str) -> Section:
    parts: list[Any] = []
    compared: dict[str, Interval] = {}
    toy_result = ""
    if all(_name(sigma, margin) in results for sigma in _SIGMAS for margin in _MARGINS):
        parts += _landscapes(results)
        toy_result = _toy_result(results)
    told = ", ".join(f"{data} {margin:g}" for data, margin in PUBLISHED.items())
    parts.append(Text(f"Published margins, tuned for each set: {told}."))
    for data, configs in runs(scale).items():
        found = variants.accuracies(results, list(configs), variants.seeds(scale, data))
        reference = f"{data}, margin none"
        if found[reference]:
            parts += [
                variants.table(f"{data}: accuracy with several margins", found, reference),
                Text(variants.verdict(found, reference)),
            ]
            if f"{data}, margin {_JUDGED}" in found:
                compared[data] = _judged_against_none(found, data)
    parts += variants.absent("Accuracy with several margins on MNIST", scale)
    parts.append(
        NotRun(
            "Margins with the published networks.",
            "It takes a GPU days.",
            "exact-torch train exact-v2-images/cifar100-sgd-exact --seeds 5 "
            "--set loss_options.margin=none",
        )
    )
    told = "; ".join(f"{data}: {apart} points" for data, apart in compared.items())
    trained = f"In training, a margin of {_JUDGED} against none: {told}." if told else ""
    findings = decide_if_full(_findings(compared), scale)
    return Section(TITLE, [*findings, *parts], f"{toy_result} {trained}".strip())


def _judged_against_none(found: variants.Accuracies, data: str) -> Interval:
    """Return the difference in points of the margin that is judged from no margin."""
    apart = variants.difference(found, f"{data}, margin {_JUDGED}", f"{data}, margin none")
    return Interval(100 * apart.mean, None if apart.half is None else 100 * apart.half)


def _findings(compared: Mapping[str, Interval]) -> list[Finding]:
    if not compared:
        return []
    each = [apart.verdict() for apart in compared.values()]
    verdict: Verdict = "holds" if all(v == "holds" for v in each) else "not decided"
    if all(v == "does not hold" for v in each):
        verdict = "does not hold"
    return [
        Finding(
            "A margin makes training with EXACT more accurate.",
            "margin affects training with large sigma (later version, figure 4, in words)",
            "; ".join(f"{data}: {apart} points" for data, apart in compared.items())
            + f" with a margin of {_JUDGED} on every set, against none; others are in the tables",
            verdict,
        )
    ]


def _landscapes(results: Results) -> list[Any]:
    pictures, rows = [], []
    for sigma in _SIGMAS:
        figure, ax = axes(xlabel="threshold b", ylabel="1 - P, smallest 0 and largest 1")
        ax.axvspan(0.0, 0.25, color="C2", alpha=0.15, label="all points right")
        curves = []
        for number, margin in enumerate(_MARGINS):
            each = results[_name(sigma, margin)]
            values = np.array(each["values"])
            scaled = (values - values.min()) / (values.max() - values.min())
            ax.plot(_GRID[::10], scaled, color=f"C{(0, 1, 3)[number]}", label=_words(margin))
            curves.append(each["values"])
            low, high = each["best"]
            right = 1 - toy.wrong((low + high) / 2) / len(toy.X)
            rows.append([sigma, _words(margin), low, high, right])
        ax.legend(fontsize=7)
        title = f"Loss against threshold, sigma {sigma:g}"
        header = ["b", *map(_words, _MARGINS)]
        data = [[b, *v] for b, *v in zip(_GRID[::10].tolist(), *curves, strict=True)]
        pictures.append(Picture(title, figure, Table(title, header, data)))
    cells = [results[_name(sigma, margin)] for sigma in _SIGMAS for margin in _MARGINS]
    far = float(np.max([each["apart"] for each in cells]))
    large = {row[1]: row[2:] for row in rows if row[0] == max(_SIGMAS)}
    plain, small = large[_words(None)], large[_words(min(m for m in _MARGINS if m))]
    return [
        Text(
            "The published figure shows the loss of the toy example with and without a margin. "
            f"With sigma {max(_SIGMAS):g} and no margin the smallest loss on the grid is at "
            f"b = {plain[0]:g}, where {plain[2]:.0%} of the points are right; with a margin of 0.1 "
            f"it is from b = {small[0]:g} to {small[1]:g}, where {small[2]:.0%} are. Which margin "
            "and sigma the figure has is not in its caption; these are ours."
        ),
        *pictures,
        Table(
            "Margin and sigma in the toy example",
            ["sigma", "margin", "smallest from b", "to b", "accuracy in the middle"],
            rows,
            "On a grid from -0.5 to 1.5; a smallest value at its end is further out.",
        ),
        Check(
            "The loss with a margin equals its closed form, by scipy, to 1e-14.",
            far < 1e-14,
            f"Largest difference: {far:.1g}.",
        ),
        Check(
            f"As published, with the large sigma, {max(_SIGMAS):g}, a margin (here 0.1) moves the "
            "smallest loss to where all points are right, and without one it is elsewhere.",
            small[2] == 1.0 and plain[2] < 1.0,
            f"Right: {small[2]:.0%} with, {plain[2]:.0%} without.",
        ),
    ]


def _right_share(results: Results, margin: float | None) -> float:
    """Return the share of points that are right at the smallest loss with the largest sigma."""
    low, high = results[_name(max(_SIGMAS), margin)]["best"]
    return 1 - toy.wrong((low + high) / 2) / len(toy.X)


def _toy_result(results: Results) -> str:
    """Return a sentence on where the smallest loss of the toy example is, with and without."""
    small = min(margin for margin in _MARGINS if margin)
    with_margin, without = _right_share(results, small), _right_share(results, None)
    moved = "moves" if with_margin == 1.0 and without < 1.0 else "does not move"
    return (
        f"In the toy example with sigma {max(_SIGMAS):g}, a margin of {small:g} {moved} the "
        f"smallest loss to where all points are right ({with_margin:.0%} right, {without:.0%} "
        "without a margin)."
    )


def _words(margin: float | None) -> str:
    return "no margin" if margin is None else f"margin {margin:g}"


def _name(sigma: float, margin: float | None) -> str:
    return f"landscape, sigma {sigma:g}, {_words(margin)}"
