"""Accuracies that the mixing paper has for images, in percent: tables 1, 2, 5 and 6."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Four(NamedTuple):
    """Accuracy with CE and with CE + EL, for the three schedules of F."""

    ce: float
    f0: float
    f0_last: float
    f0_steps: float


TABLE1 = {
    "CIFAR-100": {
        "ShuffleNetV2": Four(68.10, 68.46, 68.46, 68.51),
        "ResNet20": Four(68.25, 68.58, 68.58, 68.48),
        "ResNet32": Four(69.66, 70.02, 70.02, 69.83),
        "ResNet44": Four(70.71, 71.06, 71.06, 70.93),
        "ResNet18": Four(74.54, 74.58, 74.58, 74.60),
        "ResNet34": Four(74.35, 74.77, 74.77, 74.69),
        "PreAct ResNet18": Four(74.39, 74.82, 74.82, 74.81),
        "ResNeXt29": Four(76.04, 76.47, 76.47, 76.52),
    },
    "CINIC-10": {
        "ShuffleNetV2": Four(81.35, 81.55, 81.59, 81.79),
        "ResNet20": Four(83.35, 83.53, 83.53, 83.72),
        "ResNet32": Four(84.74, 84.91, 84.96, 85.10),
        "ResNet44": Four(84.81, 84.99, 85.00, 85.18),
        "ResNet18": Four(88.02, 88.22, 88.26, 88.25),
        "ResNet34": Four(88.10, 88.74, 88.77, 88.85),
        "PreAct ResNet18": Four(85.97, 86.55, 86.60, 86.71),
        "ResNeXt29": Four(88.35, 88.58, 88.59, 88.72),
    },
}
TABLE2 = {
    "ResNet18": Four(69.82, 70.19, 70.25, 70.50),
    "ResNet34": Four(73.26, 73.65, 73.91, 74.07),
    "ResNet50": Four(75.74, 75.86, 76.06, 76.35),
    "ResNet101": Four(77.59, 77.90, 78.37, 78.51),
    "ShuffleNet": Four(65.28, 65.92, 65.51, 65.99),
    "ResNeXt50": Four(77.30, 77.63, 78.01, 78.25),
    "ResNeXt101": Four(79.20, 79.45, 79.73, 79.99),
}


class WithComplement(NamedTuple):
    """Accuracy with CE, with CE + EL (F = 0-0.5) and with complement objective training."""

    ce: float
    f0_steps: float
    cot: float


TABLE5 = {
    "CIFAR-100, ResNet110": WithComplement(70.16, 70.24, 71.36),
    "CIFAR-100, PreAct ResNet18": WithComplement(74.18, 74.57, 75.43),
    "CIFAR-100, ResNeXt29": WithComplement(75.88, 76.59, 77.60),
    "Tiny-ImageNet, ResNet50": WithComplement(60.61, 61.67, 60.80),
    "Tiny-ImageNet, ResNet101": WithComplement(61.77, 63.12, 62.65),
    "ImageNet, ResNet50": WithComplement(75.74, 76.35, 75.60),
}


class Pair(NamedTuple):
    """Accuracy with CE and with CE + EL (F = 0-0.5)."""

    ce: float
    f0_steps: float


TABLE6 = {
    "baseline": Pair(88.10, 88.85),
    "erasing": Pair(89.11, 89.66),
    "erasing-no-rotation": Pair(89.34, 89.82),
    "jitter": Pair(87.68, 88.81),
    "dropout": Pair(88.35, 88.61),
}
_FIELDS = {"f0": "f0", "f0,0.5": "f0_last", "f0-0.5": "f0_steps", "cot": "cot"}


class Change(NamedTuple):
    """Published changes against CE in points: mean, least and largest of some comparisons.

    >>> str(Change(0.5, 0.1, 0.9))
    '+0.50 (+0.10 to +0.90)'
    """

    mean: float
    least: float
    largest: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ({self.least:+.2f} to {self.largest:+.2f})"


def change(table: str, loss: str, row: str = "") -> Change | None:
    """Return the published changes of a loss against CE in a table; None for losses not in it.

    >>> change("6", "f0-0.5", "dropout")
    Change(mean=0.26, least=0.26, largest=0.26)
    """
    tables: dict[str, list[Any]] = {
        "1": [*TABLE1["CIFAR-100"].values(), *TABLE1["CINIC-10"].values()],
        "2": list(TABLE2.values()),
        "5": list(TABLE5.values()),
        "6": [each for name, each in TABLE6.items() if row in ("", name)],
    }
    field = _FIELDS.get(loss)
    if field is None or not all(hasattr(each, field) for each in tables[table]):
        return None
    values = [round(getattr(each, field) - each.ce, 2) for each in tables[table]]
    return Change(float(np.mean(values)), min(values), max(values))


def all_changes() -> Change:
    """Return the published changes of F = 0-0.5 against CE in all four tables.

    Two comparisons stand in two tables and count once: ResNet34 on CINIC-10 (tables 1 and 6) and
    ResNet50 on ImageNet (tables 2 and 5).
    """
    rows: list[Any] = [*TABLE1["CIFAR-100"].values(), *TABLE1["CINIC-10"].values()]
    rows += TABLE2.values()
    rows += [each for name, each in TABLE5.items() if name != "ImageNet, ResNet50"]
    rows += [each for name, each in TABLE6.items() if name != "baseline"]
    values = [round(each.f0_steps - each.ce, 2) for each in rows]
    return Change(float(np.mean(values)), min(values), max(values))
