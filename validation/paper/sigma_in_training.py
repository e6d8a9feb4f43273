"""EXACT, first version, figure 3: the standard deviation that the network predicts, in training."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from exact_torch.train import Config
from validation import data_sets
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part, Verdict
from validation.paper import sigma_rates, variants
from validation.paper.over_seeds import Interval, interval, proportion
from validation.paper.sigma_rates import Outcome
from validation.paper.training import train_once
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v1, figure 3: sigma in training"
PUBLISHED_RATE = 0.5  # section 5.1
_CONSTANT: dict[str, Any] = {"schedule": "constant", "schedule_options": {}}
_PREDICTED: dict[str, Any] = {
    "head": "predicted",
    "loss_options": {"objective": "nll"},
    "gradient": "none",
}


def runs(scale: str) -> dict[str, Config]:
    """By data set: Adam, the one optimiser of the first version that needs no rate from us."""
    adam = {**_PREDICTED, "optimizer": "adam", "lr": 1e-3, **_CONSTANT}
    found = {data: replace(base, **adam) for data, base in variants.bases(scale).items()}
    epochs = {"small": 4, "quick": 7, "full": 12}[scale]
    return found | {"digits": replace(found["digits"], epochs=epochs, epoch_steps=None)}


def repeated(config: dict[str, Any]) -> bool:
    """Whether a run that is done twice measures the same, to the last bit."""
    return train_once(config) == train_once(config)


def tasks(scale: str) -> list[Task]:
    short = replace(runs(scale)["digits"], epochs=2, epoch_steps=5)
    return [
        *(
            task
            for data, run in runs(scale).items()
            for task in variants.tasks({data: run}, variants.seeds(scale, data))
        ),
        *sigma_rates.tasks(scale),
        Task("repeated", repeated, {"config": short.to_json()}),
    ]


def section(results: Results, scale: str) -> Section:
    """Return curves of sigma in training, and which runs train at the published rate."""
    done = {
        data: [each["metrics"] for each in variants.of(results, data, variants.seeds(scale, data))]
        for data in runs(scale)
    }
    curves = [_curves(data, metrics) for data, metrics in done.items() if metrics]
    outcomes = sigma_rates.outcomes(results, scale)
    parts: list[Part] = [
        *_findings(curves),
        *_rate_findings(outcomes),
        Text(
            "The loss is -log P and sigma is predicted for each example, as in the first version; "
            "the network is a small one, trained by Adam with a learning rate of 0.001. How the "
            "published network keeps sigma positive and where it starts is not said; here it "
            "starts where training is that of cross-entropy, at 1.71, and is limited to four "
            "times that."
        ),
    ]
    for each in curves:
        parts += _pictures(each)
    parts += _rates(outcomes)
    if "repeated" in results:
        parts.append(
            Check(
                "A run that is done twice measures the same, to the last bit.",
                bool(results["repeated"]),
                "All measurements of all epochs and of the test set were compared.",
            )
        )
    if scale == "full" and not data_sets.there("mnist"):
        parts.append(data_sets.missing("Sigma in training on MNIST", "MNIST"))
    parts.append(
        NotRun(
            "The figure as published: Wide ResNet on MNIST, SVHN, CIFAR-10 and CIFAR-100.",
            "It takes a GPU days; `metrics.jsonl` of the runs has the curves.",
            "exact-torch train exact-v1-table2/cifar100-sgd-exact",
        )
    )
    return Section(TITLE, parts, _answer(curves, outcomes))


class Curves(NamedTuple):
    """Mean sigma, and accuracy minus expected accuracy, by seed and epoch."""

    data: str
    sigma: list[list[float]]
    gap: list[list[float]]

    def change(self, what: str) -> Interval:
        """Return the change of "sigma" or "gap" from the first to the last epoch."""
        curves: list[list[float]] = getattr(self, what)
        return interval([curve[-1] - curve[0] for curve in curves])


def _curves(data: str, metrics: Sequence[Sequence[Any]]) -> Curves:
    train = [[epoch["train"] for epoch in run] for run in metrics]
    return Curves(
        data,
        [[each["sigma"] for each in run] for run in train],
        [[each["accuracy"] - each["expected_accuracy"] for each in run] for run in train],
    )


def _answer(curves: Sequence[Curves], outcomes: Sequence[Outcome]) -> str:
    told = [
        f"On {each.data} the mean sigma changes by {each.change('sigma')} in training, and the gap "
        f"between accuracy and expected accuracy by {each.change('gap')}."
        for each in curves
    ]
    at = [each for each in outcomes if each.rate == PUBLISHED_RATE]
    if at:
        counts = ", ".join(
            f"{arm} {sum(each.untrained for each in at if each.arm == arm)} of "
            f"{sum(len(each.accuracies) for each in at if each.arm == arm)}"
            for arm in dict.fromkeys(each.arm for each in at)
        )
        told.append(
            f"Runs that stay at chance with SGD at the published rate of {PUBLISHED_RATE:g}: "
            f"{counts}."
        )
    return " ".join(told)


def _findings(curves: Sequence[Curves]) -> list[Finding]:
    if not curves:
        return []
    changes = [each.change(what) for each in curves for what in ("sigma", "gap")]
    verdict: Verdict = "not decided"
    if all(change.verdict() == "does not hold" for change in changes):  # all fall
        verdict = "holds"
    elif any(change.verdict() == "holds" for change in changes):  # one grows
        verdict = "does not hold"
    ours = "; ".join(
        f"{each.data}: sigma {each.change('sigma')}, gap {each.change('gap')}" for each in curves
    )
    return [
        Finding(
            "The predicted sigma falls in training, and with it the gap between accuracy and "
            "expected accuracy.",
            "both fall (first version, figure 3, without figures)",
            f"{ours}, from the first to the last epoch",
            verdict,
        )
    ]


def _rate_findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    at = [o for o in outcomes if o.rate == PUBLISHED_RATE and o.arm == sigma_rates.PLAIN]
    if not at:
        return []
    count, total = sum(o.untrained for o in at), sum(len(o.accuracies) for o in at)
    low, high = proportion(count, total)
    verdict: Verdict = "not decided"
    if count and low > 0.05:
        verdict = "does not hold"
    elif not count and high < 0.2:
        verdict = "holds"
    return [
        Finding(
            f"A network that predicts sigma, without an upper limit, trains by SGD at a rate of "
            f"{PUBLISHED_RATE:g}.",
            f"all runs at {PUBLISHED_RATE:g} (first version, section 5.1)",
            f"{count} of {total} runs stay at chance (95 % interval of the share {100 * low:.0f} "
            f"to {100 * high:.0f} %)",
            verdict,
        )
    ]


def _pictures(curves: Curves) -> list[Picture]:
    pictures = []
    data = curves.data
    for what, values, colour in (
        ("mean sigma", curves.sigma, "C0"),
        ("accuracy minus expected accuracy", curves.gap, "C1"),
    ):
        epochs = range(1, len(values[0]) + 1)
        each = [interval([run[epoch - 1] for run in values]) for epoch in epochs]
        top = max(mean.mean + (mean.half or 0.0) for mean in each)
        figure, ax = axes(xlabel="epoch", ylabel=what, ylim=(0, 1.05 * top))
        ax.errorbar(
            epochs,
            [mean.mean for mean in each],
            yerr=[mean.half or 0.0 for mean in each],
            color=colour,
            fmt="o-",
            markersize=4,
            capsize=2,
        )
        table = Table(
            f"{data}: {what} in training",
            ["epoch", "mean over seeds", "± (95 %)"],
            [[epoch, *mean] for epoch, mean in zip(epochs, each, strict=True)],
        )
        caption = f"On the training set; mean and 95 % interval over {len(values)} seeds."
        pictures.append(Picture(table.title, figure, table, caption))
    return pictures


def _rates(outcomes: Sequence[Outcome]) -> list[Part]:
    if not outcomes:
        return []
    rows: list[list[Any]] = []
    for each in outcomes:
        sigmas = [value for value in each.sigmas if value is not None]
        rows.append(
            [
                each.data,
                each.rate,
                each.arm,
                f"{each.untrained} of {len(each.accuracies)}",
                100 * statistics.median(each.accuracies),
                100 * min(each.accuracies),
                max(sigmas) if sigmas else None,
            ]
        )
    rows.sort(key=lambda row: (row[0], -row[1]))
    header = [
        "set",
        "rate",
        "loss",
        "runs at chance",
        "median accuracy, %",
        "worst, %",
        "largest mean sigma",
    ]
    note = (
        "SGD with momentum 0.9 and a constant rate. At chance: test accuracy below "
        f"{100 * sigma_rates.CHANCE:.0f} %, or weights that are no longer finite. Without an "
        "upper limit sigma is the exponential of a linear layer; limited: at most four times the "
        "initial sigma of 1.71, as in this package; clipped: gradients to norm 1."
    )
    return [
        Text(
            "Gradients in the scores are in proportion to 1/sigma. Where large steps make sigma "
            "large, all classes become equally probable and little leads back."
        ),
        Table("A predicted sigma at several rates", header, rows, note, cite="sigma-rates"),
    ]
