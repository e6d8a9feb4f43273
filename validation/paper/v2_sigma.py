"""EXACT, later version, figure 3: what sigma does, in the toy example and in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from exact_torch.train import Config
from validation import toy
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Verdict
from validation.paper import variants
from validation.paper.over_seeds import Interval
from validation.paper.reduced import decide_if_full
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v2, figure 3: sigma"
# The figure is of the toy example, curves without numbers. For images the published schedule is
# log-linear in the variance, from 100 to a floor that is 1 for all sets but ImageNet.
PUBLISHED = (10.0, 1.0)  # standard deviations, first and last

_LOSS = "EXACT, 1 - P"
_SIGMAS = (0.01, 0.05, 0.2, 0.5, 1.0, 10.0)
_START = 0.6  # where a descent begins
_GRID = (-50, 151)  # hundredths
_SCHEDULES: dict[str, Any] = {
    "10 to 1, published": list(PUBLISHED),
    "10 to 0.1": [10.0, 0.1],
    "10": 10.0,
    "1": 1.0,
    "0.1": 0.1,
}
_SMALL = "0.1"  # in units of the deviation of all scores
_REFERENCE = "10 to 1, published"


def runs(scale: str) -> dict[str, dict[str, Config]]:
    """By data set and schedule."""
    return {
        data: {
            f"{data}, sigma {name}": replace(
                base, loss_options={**base.loss_options, "sigma": sigma}
            )
            for name, sigma in _SCHEDULES.items()
            if scale != "small" or name in (_REFERENCE, _SMALL)
        }
        for data, base in variants.bases(scale).items()
    }


def tasks(scale: str) -> list[Task]:
    landscape_of = Task("landscape", landscape, {"sigmas": _SIGMAS})
    return [landscape_of] + [
        task
        for data, of in runs(scale).items()
        for task in variants.tasks(of, variants.seeds(scale, data))
    ]


def landscape(sigmas: tuple[float, ...]) -> list[dict[str, Any]]:
    """The expected accuracy on a grid of thresholds, its best one, and its slope at the start."""
    b = np.arange(*_GRID) / 100
    wide = np.arange(-100, 1001) / 200
    found = []
    for sigma in sigmas:
        values = 1 - toy.curve(_LOSS, b, sigma=sigma)
        margins = np.array([b + 0.25, b, 0.25 - b])
        truth = ndtr(margins / (2**0.5 * sigma)).mean(axis=0)
        step = 1e-4
        low, high = 1 - toy.curve(_LOSS, [_START - step, _START + step], sigma=sigma)
        found.append(
            {
                "sigma": sigma,
                "b": b.tolist(),
                "values": values.tolist(),
                "apart": float(np.max(np.abs(values - truth))),
                "best": toy.minimisers(_LOSS, sigma=sigma, grid=wide),
                "slope": float(high - low) / (2 * step),
                "gap": float(np.max(np.abs(values - _accuracy(b)))),
            }
        )
    return found


def _accuracy(b: Any) -> Any:
    return np.array([1 - toy.wrong(float(each)) / len(toy.X) for each in b])


def section(results: Results, scale: str) -> Section:
    parts: list[Any] = []
    compared: dict[str, Interval] = {}
    if "landscape" in results:
        parts += _landscape(results["landscape"])
    for data, configs in runs(scale).items():
        found = variants.accuracies(results, list(configs), variants.seeds(scale, data))
        reference = f"{data}, sigma {_REFERENCE}"
        if found[reference]:
            parts += [
                variants.table(f"{data}: accuracy with sigma held or falling", found, reference),
                Text(variants.verdict(found, reference)),
            ]
            compared[data] = _small_against_published(found, data)
    parts += variants.absent("Accuracy with sigma held or falling on MNIST", scale)
    parts.append(
        NotRun(
            "The published schedule with the published networks.",
            "It takes a GPU days.",
            "exact-torch train exact-v2-images/cifar100-sgd-exact --seeds 5",
        )
    )
    answer = "; ".join(
        f"{data}: with sigma {_SMALL} from the start test accuracy is {apart} points from that of "
        "the published schedule"
        for data, apart in compared.items()
    )
    findings = decide_if_full(_findings(compared), scale)
    return Section(TITLE, [*findings, *parts], f"{answer}." if answer else "")


def _small_against_published(found: variants.Accuracies, data: str) -> Interval:
    """Return the difference, in points, of a small sigma from the published schedule."""
    apart = variants.difference(found, f"{data}, sigma {_SMALL}", f"{data}, sigma {_REFERENCE}")
    return Interval(100 * apart.mean, None if apart.half is None else 100 * apart.half)


def _findings(compared: Mapping[str, Interval]) -> list[Finding]:
    """Return what the first version's section 4.4 says: a small sigma "prevents training"."""
    if not compared:
        return []
    order: tuple[Verdict, ...] = ("holds", "not decided", "does not hold")
    each = [apart.verdict() for apart in compared.values()]  # of "a small sigma is better"
    worst = next(verdict for verdict in order if verdict in each)
    verdict: Verdict = "not decided"
    if worst != "not decided":
        verdict = "holds" if worst == "does not hold" else "does not hold"
    return [
        Finding(
            "A small sigma from the start hinders training more than a falling one.",
            "a small sigma prevents training (first version, section 4.4, in words)",
            "; ".join(f"{data}: {apart} points" for data, apart in compared.items())
            + f" with sigma {_SMALL} against 10 to 1",
            verdict,
        )
    ]


def _landscape(found: list[Any]) -> list[Any]:
    figure, ax = axes(xlabel="threshold b", ylabel="expected accuracy", ylim=(0.25, 1.02))
    for number, each in enumerate(found):
        ax.plot(each["b"], each["values"], color=f"C{number}", label=f"sigma {each['sigma']:g}")
    ax.legend(fontsize=7)
    header = ["b", *(f"sigma {each['sigma']:g}" for each in found)]
    curves = [each["values"] for each in found]
    data = [[b, *values] for b, *values in zip(found[0]["b"], *curves, strict=True)]
    rows = []
    for each in found:
        low, high = each["best"]
        best = (low + high) / 2
        rows.append([each["sigma"], best, 1 - toy.wrong(best) / len(toy.X), each["slope"]])
    far = float(np.max([each["apart"] for each in found]))
    right = [row[0] for row in rows if row[2] == 1.0]
    title = "Expected accuracy against threshold"
    return [
        Text(
            "The published figure shows the expected accuracy of the toy example (version 1, "
            "figure 1) for several sigmas, without numbers. A small sigma has its best threshold "
            "in the right place, and no slope far from it to lead there; a large one has the slope "
            "and another best threshold. A falling sigma goes from one to the other."
        ),
        Picture(title, figure, Table(title, header, data)),
        Table(
            "Sigma in the toy example",
            ["sigma", "best b", "accuracy there", f"slope at b = {_START:g}"],
            rows,
            "Best: on a grid from -0.5 to 5 in steps of 0.005; at its end, it is further out. "
            f"Right thresholds are in (0, 0.25); here those of sigma {', '.join(map(str, right))}.",
        ),
        Check(
            "The expected accuracy equals its closed form, by scipy, to 1e-14.",
            far < 1e-14,
            f"Largest difference: {far:.1g}.",
        ),
        Check(
            "Small sigmas, 0.01 and 0.05, have the best threshold at 0.125, and the slope at "
            f"b = {_START:g} is less than 1e-3 of that with sigma = 0.5.",
            all(
                abs(row[1] - 0.125) < 0.006 and abs(row[3]) < 1e-3 * abs(rows[3][3])
                for row in rows[:2]
            ),
            ", ".join(f"{row[0]:g}: b = {row[1]:.3f}, slope {row[3]:.1g}" for row in rows),
        ),
    ]
