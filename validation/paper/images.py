"""Image tables of EXACT's two versions, at the scale of a CPU: digits, MNIST, a file of CIFAR-10.

Karpukhin, Dereka, Kolesnikov, EXACT: How to train your accuracy, first version (arXiv:2205.09615v1,
tables 1 and 2) and the later one (table of images); Battash, Hazan, Wolf, Mixing between the cross
entropy and the expectation loss terms (2021), whose image tables are named and not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from validation import data_sets
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper import judged_again
from validation.paper.over_seeds import ahead, over
from validation.reports import Results
from validation.running import Task

# Test accuracy in percent. First version, table 1 (SGD): (EXACT, CE) of ResNet-18, WRN-16-8,
# EfficientNetV2-M and PyramidNet-272.
V1_TABLE1 = {
    "mnist": ((99.63, 99.70), (99.65, 99.67), (99.63, 99.70), (99.66, 99.67)),
    "svhn": ((97.09, 96.80), (97.30, 96.91), (97.23, 97.14), (97.88, 97.82)),
    "cifar10": ((95.28, 95.09), (95.76, 95.45), (94.68, 94.61), (97.14, 96.96)),
    "cifar100": ((77.92, 76.31), (79.50, 78.09), (75.39, 76.59), (85.60, 85.97)),
}
# First version, table 2 (WRN-16-8): (EXACT, hinge, CE) with SGD, Adam and ASAM.
V1_TABLE2 = {
    "mnist": ((99.66, 99.69, 99.67), (99.54, 99.36, 99.51), (99.73, 99.75, 99.73)),
    "svhn": ((97.30, 96.85, 96.91), (95.80, 95.32, 95.52), (97.76, 97.67, 97.80)),
    "cifar10": ((95.76, 95.50, 95.45), (88.86, 84.53, 88.65), (96.40, 95.62, 96.10)),
    "cifar100": ((79.50, 77.51, 78.09), (64.53, 46.06, 61.98), (80.96, 78.51, 80.81)),
}
# Later version: CE, hinge, sigmoid, Beta-Bernoulli, polynomial, PolyLoss, EXACT.
V2 = {
    ("mnist", "SGD"): (99.64, 99.68, 99.70, 99.70, 99.72, 99.68, 99.67),
    ("mnist", "Adam"): (99.58, 99.61, 99.66, 99.61, 99.66, 99.65, 99.58),
    ("mnist", "ASAM"): (99.65, 99.71, 99.71, 99.66, 99.67, 99.70, 99.67),
    ("svhn", "SGD"): (97.56, 97.06, 97.54, 96.98, 96.83, 97.54, 97.47),
    ("svhn", "Adam"): (96.14, 95.85, 95.82, 96.26, 95.69, 96.13, 96.76),
    ("svhn", "ASAM"): (97.46, 96.34, 97.21, 97.02, 19.59, 97.62, 97.79),
    ("cifar10", "SGD"): (95.54, 94.36, 96.06, 96.30, 96.11, 95.68, 96.33),
    ("cifar10", "Adam"): (94.26, 93.17, 83.72, 92.32, 91.57, 94.71, 93.35),
    ("cifar10", "ASAM"): (96.23, 95.45, 93.27, 96.19, 95.48, 96.31, 96.73),
    ("cifar100", "SGD"): (80.23, 79.25, 78.96, 78.50, 78.55, 80.05, 80.71),
    ("cifar100", "Adam"): (71.31, 58.03, 59.34, 63.94, 64.86, 71.31, 72.00),
    ("cifar100", "ASAM"): (82.40, 77.66, 79.48, 78.40, 78.50, 81.21, 82.68),
    ("imagenet", "SGD"): (69.01, 46.59, 46.08, 46.44, 51.97, 69.55, 70.47),
}

NAMES = {
    "exact": "EXACT, later version",
    "exact_v1": "EXACT, first version",
    "exact_v1_plain": "EXACT, first version, without clipping",
    "ce": "cross-entropy",
    "hinge": "hinge",
    "mixed": "CE + EL, F = 0-0.5",
}
SETS = {"digits": "digits", "mnist": "MNIST", "cifar10": "CIFAR-10, first file"}


class Plan(NamedTuple):
    """Runs on a set: losses, seeds, passes, and steps of a pass if it is not a whole one.

    ``floor`` is what test accuracy must exceed, well below what was found.
    """

    losses: tuple[str, ...]
    seeds: int
    epochs: int
    steps: int | None
    floor: float


_ALL = tuple(NAMES)
_PLAIN = "exact_v1_plain"
PLANS: dict[str, dict[str, Plan]] = {
    "small": {"digits": Plan(_ALL, 1, 2, None, 0.50)},
    "quick": {
        "digits": Plan(_ALL, 3, 4, None, 0.75),
        "mnist": Plan(("exact", "ce", "hinge"), 1, 1, 40, 0.40),
    },
    "full": {
        "digits": Plan(_ALL, 3, 20, None, 0.95),
        "mnist": Plan(("exact", "ce", "hinge"), 3, 2, None, 0.95),
        "cifar10": Plan(("exact", "ce", "hinge"), 3, 4, None, 0.35),
    },
}


def configs(data: str) -> dict[str, Any]:
    """The recipe's configs by loss, and those we add: equal to cross-entropy's but for the loss."""
    from exact_torch import recipes

    if data == "digits":
        names = {"exact": "digits", "ce": "digits-ce", "hinge": "digits-hinge"}
        found = {loss: recipes.get(name).runs[""] for loss, name in names.items()}
    else:
        found = dict(recipes.get({"mnist": "mnist", "cifar10": "cifar10-batch"}[data]).runs)
    ce = found["ce"]
    found.setdefault("hinge", replace(ce, loss="hinge"))
    found["exact_v1_plain"] = replace(
        ce, loss="exact", loss_options={"objective": "nll"}, head="predicted"
    )
    found["exact_v1"] = replace(found["exact_v1_plain"], gradient="clip")
    found["mixed"] = replace(ce, loss="ce_el", loss_options={"schedule": "0-0.5"})
    return found


def run(config: Mapping[str, Any], again: bool) -> dict[str, Any]:
    """A run's test results; with ``again`` also those computed anew from its stored network."""
    from validation.paper.training import train_once

    came = train_once(config, look=judged_again.judge if again else None)
    kept = ("accuracy", "expected_accuracy", "calibration_error", "confusion")
    return {name: came["summary"][f"test_{name}"] for name in kept} | {
        "examples": came["summary"]["examples"],
        "sigma": came["metrics"][-1]["train"]["sigma"],
        "again": came["looked"],
    }


def there(data: str) -> bool:
    """Whether a set can be trained on here."""
    if data == "cifar10":
        return data_sets.there("cifar10", batches=(1,))
    return data_sets.there(data)


def tasks(scale: str) -> list[Task]:
    """A task a run."""
    return [
        Task(name, run, {"config": config.to_json(), "again": again})
        for name, config, again in _runs(scale)
    ]


def _runs(scale: str) -> Iterator[tuple[str, Any, bool]]:
    for data, plan in PLANS[scale].items():
        if not there(data):
            continue
        found = configs(data)
        for loss in plan.losses:
            for seed in range(plan.seeds):
                config = replace(found[loss], epochs=plan.epochs, epoch_steps=plan.steps, seed=seed)
                if plan.steps is not None:  # the validation set would take longer than the steps
                    config = replace(config, validation=0.01)
                yield _name(data, loss, seed), config, data == "digits" and seed == 0


def section(results: Results, scale: str) -> Section:
    """Each set's accuracies beside the published ones, and the tables that a GPU is needed for."""
    parts: list[Part] = [
        Text(
            "Accuracies of EXACT, cross-entropy and hinge on images. The papers train networks of "
            "up to some 50 million weights for up to 500 epochs on GPUs; here `small_cnn`, three "
            "convolutions of 16 or 24 maps and more, is trained for minutes. So our accuracies are "
            "below theirs, and say that the losses train and rank as they do here, not how they "
            "would rank there. Settings are those of the recipes `digits`, `mnist` and "
            "`cifar10-batch`, shortened; rates were chosen with unequal effort (see the recipes) "
            "for EXACT's later version, cross-entropy and, on MNIST, hinge. All others have the "
            "settings of cross-entropy; EXACT's first version, whose network predicts sigma, has "
            "its gradients clipped to norm 1 as well, which the paper does not speak of."
        )
    ]
    for data, plan in PLANS[scale].items():
        if not there(data):
            parts.append(data_sets.missing(f"Runs on {SETS[data]}", SETS[data]))
            continue
        runs = {
            loss: [
                results[_name(data, loss, seed)]
                for seed in range(plan.seeds)
                if _name(data, loss, seed) in results
            ]
            for loss in plan.losses
        }
        runs = {loss: came for loss, came in runs.items() if came}
        if runs:
            parts.append(Section(f"Images: {SETS[data]}", _of_set(data, plan, runs)))
    again = {name: results[name] for name, _, judged in _runs(scale) if judged and name in results}
    return Section(
        "Images: EXACT's tables", [*parts, *judged_again.checks(again), *_not_run(scale)]
    )


def _of_set(data: str, plan: Plan, runs: Mapping[str, list[dict[str, Any]]]) -> list[Part]:
    means = {loss: over([100 * each["accuracy"] for each in came]) for loss, came in runs.items()}
    passes = f"{plan.epochs} epochs" if plan.steps is None else f"{plan.epochs * plan.steps} steps"
    examples = next(iter(runs.values()))[0]["examples"]
    low = min(
        (each["accuracy"], loss) for loss, came in runs.items() if loss != _PLAIN for each in came
    )
    best = ahead({NAMES[loss]: mean for loss, mean in means.items()})
    return [
        Text(
            f"{examples} training images, {passes}, {plan.seeds} "
            f"seed{'s' if plan.seeds > 1 else ''}. In test accuracy {best}.{_plain(runs)}"
        ),
        _table(data, runs),
        _picture(data, runs),
        Check(
            f"All runs on {SETS[data]} train{_but(runs)}: test accuracy above "
            f"{100 * plan.floor:.0f} %, well below what was found and far above chance, 10 %.",
            low[0] > plan.floor,
            f"lowest {100 * low[0]:.2f} %, {NAMES[low[1]]}",
        ),
    ]


def _plain(runs: Mapping[str, list[dict[str, Any]]]) -> str:
    """What comes of a predicted sigma when gradients are not clipped, and when they are."""
    if not {_PLAIN, "exact_v1"} <= set(runs):
        return ""
    without, clipped = (
        f"{over([100 * each['accuracy'] for each in runs[loss]])} % (mean sigma of the last epoch "
        f"{over([each['sigma'] for each in runs[loss]]).mean:.3g})"
        for loss in (_PLAIN, "exact_v1")
    )
    return (
        f" EXACT's first version has {without} without clipping and {clipped} with it. Chance is "
        "10 %: where sigma grows to many times the scores, gradients vanish."
    )


def _but(runs: Mapping[str, Any]) -> str:
    return " (but for a predicted sigma without clipping)" if _PLAIN in runs else ""


def published(data: str, loss: str) -> tuple[str | None, float | None]:
    """What the first version has (SGD, its networks' range), and the later one (SGD)."""
    if data not in V1_TABLE1:
        return None, None
    column = {"exact": 0, "exact_v1": 0, "ce": 1}.get(loss)
    values = [V1_TABLE2[data][0][{"exact": 0, "exact_v1": 0, "hinge": 1, "ce": 2}[loss]]]
    if column is not None:
        values += [pair[column] for pair in V1_TABLE1[data]]
    first = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"
    later = V2[data, "SGD"][{"ce": 0, "hinge": 1, "exact": 6, "exact_v1": 6}[loss]]
    return (
        None if loss == "exact" else first,
        None if loss == "exact_v1" else later,
    )


def _table(data: str, runs: Mapping[str, list[dict[str, Any]]]) -> Table:
    rows = []
    for loss, came in runs.items():
        ours = over([100 * each["accuracy"] for each in came])
        expected = over([100 * each["expected_accuracy"] for each in came])
        calibration = over([100 * each["calibration_error"] for each in came])
        rows.append(
            [
                NAMES[loss],
                *published(data, loss),
                ours.mean,
                ours.error,
                len(came),
                expected.mean,
                calibration.mean,
            ]
        )
    return Table(
        f"Test accuracy on {SETS[data]}, percent",
        [
            "loss",
            "published, first version",
            "published, later version",
            "ours",
            "standard error",
            "seeds",
            "expected accuracy",
            "calibration error",
        ],
        rows,
        "Published: SGD, whole sets, large networks; of the first version the range over its "
        "networks. Expected accuracy is under the noise that the loss assumes: normal for EXACT, "
        "Gumbel (softmax) for the others.",
    )


def _picture(data: str, runs: Mapping[str, list[dict[str, Any]]]) -> Picture:
    figure, ax = axes(xlabel="test accuracy, %")
    shown, runs = runs, {loss: came for loss, came in runs.items() if loss != _PLAIN}
    places = list(range(len(runs)))[::-1]
    rows: list[list[Any]] = []
    for place, (loss, came) in zip(places, runs.items(), strict=True):
        values = [100 * each["accuracy"] for each in came]
        ax.plot(values, [place] * len(values), "o", color="C0", alpha=0.5)
        ax.plot([over(values).mean], [place], "|", color="C3", markersize=16)
        rows += [[NAMES[loss], seed, value] for seed, value in enumerate(values)]
    ax.set_yticks(places, [NAMES[loss] for loss in runs])
    ax.set_ylim(-0.6, len(runs) - 0.4)
    return Picture(
        f"Test accuracy on {SETS[data]}",
        figure,
        Table("", ["loss", "seed", "test accuracy, %"], rows),
        f"A point a seed, and their mean{_but(shown)}.",
    )


def _not_run(scale: str) -> list[NotRun]:
    whole = [
        NotRun(
            "EXACT, first version, table 1: four networks, four sets, two losses",
            "32 runs. ResNet-18 on MNIST at 256 x 256, one of the smallest, is 90 epochs of some "
            "210 steps that take a core a minute each: two weeks. A GPU is needed.",
            "exact-torch train exact-v1-table1\nexact-torch train exact-v1-table1-small   # a CPU",
        ),
        NotRun(
            "EXACT, first version, table 2: WRN-16-8, three optimisers, three losses, four sets",
            "36 runs of 90 or 500 epochs, those with ASAM at twice the steps' cost. A GPU.",
            "exact-torch train exact-v1-table2\nexact-torch train exact-v1-table2-small   # a CPU",
        ),
        NotRun(
            "EXACT, later version, images: seven losses, three optimisers, five sets, five seeds",
            "91 runs a seed, of 150 or 500 epochs (ImageNet: 25). Several GPUs.",
            "exact-torch train exact-v2-images --seeds 5\n"
            "exact-torch train exact-v2-images-small --seeds 2   # a CPU",
        ),
        NotRun(
            "Mixing CE and EL, tables 1 and 6: eight networks on CIFAR-100 and CINIC-10, and more "
            "regularisation (published: CE + EL above CE everywhere, by up to 1.1 points)",
            "64 runs a seed of 240 or 90 epochs, four and three seeds; 10 for table 6; CINIC-10 as "
            "a folder of images. GPUs.",
            "exact-torch train mixing-table1 --seeds 4\nexact-torch train mixing-table6\n"
            "exact-torch train mixing-table1-small   # a CPU",
        ),
        NotRun(
            "Mixing CE and EL, tables 2 and 5: seven networks on ImageNet, and complement training",
            "28 runs of 90 epochs of ImageNet a seed; 18 runs on CIFAR-100, Tiny-ImageNet and "
            "ImageNet. Several GPUs and the folders of images.",
            "exact-torch train mixing-table2 --seeds 2\nexact-torch train mixing-table5\n"
            "exact-torch train mixing-table5-small   # a CPU",
        ),
    ]
    if scale == "full":
        return whole
    why = "MNIST for two epochs and a file of CIFAR-10 for four, three seeds: 20 minutes of a core."
    return [NotRun("Longer runs", why, "python -m validation paper --full"), *whole]


def _name(data: str, loss: str, seed: int) -> str:
    return f"{data}, {loss}, seed {seed}"
