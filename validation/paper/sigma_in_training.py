"""EXACT, first version, figure 3: the standard deviation that the network predicts, in training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exact_torch import recipes
from exact_torch.train import Config
from validation import data_sets
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.paper import sigma_rates, variants
from validation.paper.training import train_once
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v1, figure 3: sigma in training"
# The figure has curves and no numbers; its caption and section 4.4 say this of them.
PUBLISHED = (
    "average sigma falls during training, and with it the gap between accuracy and expected "
    "accuracy"
)
_RATES = {"small": (0.5,), "quick": (0.01, 0.1, 0.5), "full": (0.01, 0.1, 0.5)}
_RATE_SEEDS = {"small": 1, "quick": 1, "full": 4}
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


def sgd(scale: str) -> dict[str, Config]:
    """Digits with SGD at several rates; 0.5 is the published one."""
    base = variants.bases(scale)["digits"]
    found = {
        f"SGD, lr {rate:g}": replace(base, **_PREDICTED, lr=rate, **_CONSTANT)
        for rate in _RATES[scale]
    }
    if scale != "small":
        found["SGD, lr 0.1, clipped"] = replace(found["SGD, lr 0.1"], gradient="clip", clip=1.0)
    return found


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
    parts: list[Any] = [
        Text(
            f"Published, in words: {PUBLISHED}. The loss is -log P and sigma is predicted for "
            "each example, as there; the network is a small one, trained by Adam with a rate of "
            "0.001. How the published network keeps sigma positive and where it starts is not "
            "said; here it starts where training is that of cross-entropy, at 1.71, and is limited "
            "to four times that."
        )
    ]
    for data in runs(scale):
        found = variants.of(results, data, variants.seeds(scale, data))
        if found:
            parts += _of_set(data, [each["metrics"] for each in found])
    parts += _rates(results, scale)
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
    return Section(TITLE, parts)


def _of_set(data: str, metrics: list[list[Any]]) -> list[Any]:
    gaps = [
        [each["train"]["accuracy"] - each["train"]["expected_accuracy"] for each in run]
        for run in metrics
    ]
    sigmas = [[each["train"]["sigma"] for each in run] for run in metrics]
    epochs = range(1, len(metrics[0]) + 1)
    pictures = []
    for what, curves, colour in (("mean sigma", sigmas, "C0"), ("gap", gaps, "C1")):
        figure, ax = axes(xlabel="epoch", ylabel=what, ylim=(0, 1.05 * max(map(max, curves))))
        for curve in curves:
            ax.plot(epochs, curve, color=colour, alpha=0.7, marker=".")
        data_of = Table(
            f"{data}: {what} in training",
            ["epoch", *(f"seed {seed}" for seed in range(len(curves)))],
            [[epoch, *values] for epoch, *values in zip(epochs, *curves, strict=True)],
        )
        caption = {
            "mean sigma": "Over the examples of an epoch; a line a seed.",
            "gap": "Accuracy minus expected accuracy on the training set; a line a seed.",
        }[what]
        pictures.append(Picture(data_of.title, figure, data_of, caption))
    checks = []
    for what, curves in (("mean sigma", sigmas), ("gap between accuracies", gaps)):
        told = ", ".join(f"{curve[0]:.3f} to {curve[-1]:.3f}" for curve in curves)
        checks.append(
            Check(
                f"{data}: as published, the {what} is smaller in the last epoch than in the "
                "first, with every seed.",
                all(curve[-1] < curve[0] for curve in curves),
                f"{told}.",
            )
        )
    return [*pictures, *checks]


def _rates(results: Results, scale: str) -> list[Any]:
    rows, lost, count = [], 0, 0
    for name in sgd(scale):
        for seed, run in enumerate(variants.of(results, name, _RATE_SEEDS[scale])):
            sigmas = [each["train"]["sigma"] for each in run["metrics"]]
            accuracy = run["summary"]["test_accuracy"]
            rows.append([name, seed, sigmas[0], sigmas[-1], 100 * accuracy])
            if not name.endswith("clipped"):
                lost += accuracy < 0.5
                count += 1
    header = ["run", "seed", "sigma, first epoch", "sigma, last epoch", "test accuracy, %"]
    return [
        Table("Digits with SGD, sigma predicted", header, rows),
        Text(
            f"By SGD with momentum {recipes.get('digits').runs[''].momentum:g}: in {lost} of the "
            f"{count} runs without clipping less than half of the test set was classified rightly "
            "in the end. Gradients of scores are in proportion to 1/sigma: where a few large steps "
            "make sigma large, there is little to lead back, which its upper limit prevents. "
            "The published rate is 0.5; the network, and perhaps the way sigma is kept positive, "
            "are others there."
        ),
    ]
