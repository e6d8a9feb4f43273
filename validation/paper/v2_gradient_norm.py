"""EXACT, later version, figure 5: norms of gradients, and what normalising does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exact_torch.train import Config
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.paper import variants
from validation.paper.over_seeds import Interval, interval
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v2, figure 5: norms of gradients"
# The figure has curves for CIFAR-100 and no numbers in the text. Published: gradients of EXACT are
# divided by a moving average of their norm (decay 0.9), but at least by 0.01.
PUBLISHED = {"decay": 0.9, "smallest divisor": 0.01}

_EXACT = "EXACT, normalised"
_LOSSES: dict[str, dict[str, Any]] = {
    _EXACT: {},
    "EXACT, as it is": {"gradient": "none"},
    "cross-entropy": {"loss": "ce", "loss_options": {}, "gradient": "none"},
    "hinge": {"loss": "hinge", "loss_options": {}, "gradient": "none"},
}


def runs(scale: str) -> dict[str, dict[str, Config]]:
    """By data set and loss, all with the same rate."""
    return {
        data: {
            f"{data}, {name}": replace(
                base,
                **({"loss_options": {**base.loss_options, "margin": None}} | changes),
            )
            for name, changes in _LOSSES.items()
            if scale != "small" or name != "hinge"
        }
        for data, base in variants.bases(scale).items()
    }


def tasks(scale: str) -> list[Task]:
    return [
        task
        for data, of in runs(scale).items()
        for task in variants.tasks(of, variants.seeds(scale, data))
    ]


def section(results: Results, scale: str) -> Section:
    parts: list[Any] = [
        Text(
            "Norms are of the whole gradient, before it is divided, the mean of an epoch. EXACT is "
            "1 - P with normalised scores and sigma falling from 10 to 1, without a margin, "
            "beyond which gradients would be 0. Published: gradients of EXACT are divided by a "
            f"moving average of their norm (decay {PUBLISHED['decay']:g}), but at least by "
            f"{PUBLISHED['smallest divisor']:g}."
        )
    ]
    ratios: dict[str, Interval] = {}
    for data, configs in runs(scale).items():
        found = variants.accuracies(results, list(configs), variants.seeds(scale, data))
        reference = f"{data}, {_EXACT}"
        if found[reference]:
            ratios[data] = interval(_first_ratios(results, scale, data))
            parts += _of_set(results, scale, data, list(configs))
            parts += [
                variants.table(
                    f"{data}: accuracy with gradients normalised and not",
                    found,
                    reference,
                    "One learning rate for all, chosen for none: not a comparison of losses.",
                ),
                Text(variants.verdict(found, reference)),
            ]
    parts += variants.absent("Norms of gradients on MNIST", scale)
    parts.append(
        NotRun(
            "The figure as published: WRN-28-10 on CIFAR-100, all losses.",
            "It takes a GPU days; `metrics.jsonl` of the runs has the norms.",
            "for loss in exact ce hinge sigmoid betabern polynomial polyloss; do "
            "exact-torch train exact-v2-images/cifar100-sgd-$loss; done",
        )
    )
    answer = ""
    if ratios:
        each = "; ".join(f"{data} {value.mean:.3f} times" for data, value in ratios.items())
        answer = (
            f"In the first epoch, with a large sigma, EXACT's gradient is much shorter than that "
            f"of cross-entropy ({each}), so that the same learning rate is another one without "
            "normalising."
        )
    return Section(TITLE, parts, answer)


def _of_set(results: Results, scale: str, data: str, names: list[str]) -> list[Any]:
    norms: dict[str, list[Interval]] = {}
    for name in names:
        every = variants.of(results, name, variants.seeds(scale, data))
        curves = [[each["train"]["gradient_norm"] for each in run["metrics"]] for run in every]
        norms[name] = [interval(values) for values in zip(*curves, strict=True)]
    epochs = range(1, len(norms[names[0]]) + 1)
    figure, ax = axes(log="y", xlabel="epoch", ylabel="norm of the gradient")
    for number, name in enumerate(names):
        means = [each.mean for each in norms[name]]
        ax.errorbar(
            epochs,
            means,
            yerr=[
                [min(each.half or 0.0, 0.9 * each.mean) for each in norms[name]],
                [each.half or 0.0 for each in norms[name]],
            ],
            color=f"C{number}",
            fmt=".-",
            capsize=2,
            label=name.removeprefix(f"{data}, "),
        )
    ax.legend(fontsize=7)
    title = f"{data}: norm of the gradient in training"
    rows = [
        [name.removeprefix(f"{data}, "), epoch, *each]
        for name in names
        for epoch, each in zip(epochs, norms[name], strict=True)
    ]
    header = ["loss", "epoch", "norm of the gradient", "± (95 %)"]
    table = Table(title, header, rows, "Means and 95 % intervals over seeds.")
    ratios = _first_ratios(results, scale, data)
    return [
        Picture(title, figure, table, "Bars: 95 % intervals over seeds."),
        Check(
            f"{data}: in the first epoch, where sigma is large, the gradient of EXACT is less than "
            "a third of that of cross-entropy, with every seed.",
            max(ratios) < 1 / 3,
            f"ratios from {min(ratios):.3f} to {max(ratios):.3f}",
        ),
    ]


def _first_ratios(results: Results, scale: str, data: str) -> list[float]:
    """Return for each seed the norm of EXACT's gradient over cross-entropy's in epoch 1."""
    exact, ce = (
        [
            run["metrics"][0]["train"]["gradient_norm"]
            for run in variants.of(results, f"{data}, {name}", variants.seeds(scale, data))
        ]
        for name in (_EXACT, "cross-entropy")
    )
    return [a / b for a, b in zip(exact, ce, strict=True)]
