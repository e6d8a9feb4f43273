"""Published test accuracies, in percent, of the image tables of EXACT's two versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# First version, table 1 (SGD): (EXACT, CE) of ResNet-18, WRN-16-8, EfficientNetV2-M and
# PyramidNet-272.
V1_TABLE1 = {
    "mnist": ((99.63, 99.70), (99.65, 99.67), (99.63, 99.70), (99.66, 99.67)),
    "svhn": ((97.09, 96.80), (97.30, 96.91), (97.23, 97.14), (97.88, 97.82)),
    "cifar10": ((95.28, 95.09), (95.76, 95.45), (94.68, 94.61), (97.14, 96.96)),
    "cifar100": ((77.92, 76.31), (79.50, 78.09), (75.39, 76.59), (85.60, 85.97)),
}


class V1(NamedTuple):
    """A cell of the first version's table 2 (WRN-16-8)."""

    exact_v1: float
    hinge: float
    ce: float


V1_TABLE2 = {
    ("mnist", "sgd"): V1(99.66, 99.69, 99.67),
    ("mnist", "adam"): V1(99.54, 99.36, 99.51),
    ("mnist", "asam"): V1(99.73, 99.75, 99.73),
    ("svhn", "sgd"): V1(97.30, 96.85, 96.91),
    ("svhn", "adam"): V1(95.80, 95.32, 95.52),
    ("svhn", "asam"): V1(97.76, 97.67, 97.80),
    ("cifar10", "sgd"): V1(95.76, 95.50, 95.45),
    ("cifar10", "adam"): V1(88.86, 84.53, 88.65),
    ("cifar10", "asam"): V1(96.40, 95.62, 96.10),
    ("cifar100", "sgd"): V1(79.50, 77.51, 78.09),
    ("cifar100", "adam"): V1(64.53, 46.06, 61.98),
    ("cifar100", "asam"): V1(80.96, 78.51, 80.81),
}


class V2(NamedTuple):
    """A row of the later version's table of images."""

    ce: float
    hinge: float
    sigmoid: float
    betabern: float
    polynomial: float
    polyloss: float
    exact: float


V2_TABLE = {
    ("mnist", "sgd"): V2(99.64, 99.68, 99.70, 99.70, 99.72, 99.68, 99.67),
    ("mnist", "adam"): V2(99.58, 99.61, 99.66, 99.61, 99.66, 99.65, 99.58),
    ("mnist", "asam"): V2(99.65, 99.71, 99.71, 99.66, 99.67, 99.70, 99.67),
    ("svhn", "sgd"): V2(97.56, 97.06, 97.54, 96.98, 96.83, 97.54, 97.47),
    ("svhn", "adam"): V2(96.14, 95.85, 95.82, 96.26, 95.69, 96.13, 96.76),
    ("svhn", "asam"): V2(97.46, 96.34, 97.21, 97.02, 19.59, 97.62, 97.79),
    ("cifar10", "sgd"): V2(95.54, 94.36, 96.06, 96.30, 96.11, 95.68, 96.33),
    ("cifar10", "adam"): V2(94.26, 93.17, 83.72, 92.32, 91.57, 94.71, 93.35),
    ("cifar10", "asam"): V2(96.23, 95.45, 93.27, 96.19, 95.48, 96.31, 96.73),
    ("cifar100", "sgd"): V2(80.23, 79.25, 78.96, 78.50, 78.55, 80.05, 80.71),
    ("cifar100", "adam"): V2(71.31, 58.03, 59.34, 63.94, 64.86, 71.31, 72.00),
    ("cifar100", "asam"): V2(82.40, 77.66, 79.48, 78.40, 78.50, 81.21, 82.68),
    ("imagenet", "sgd"): V2(69.01, 46.59, 46.08, 46.44, 51.97, 69.55, 70.47),
}


def published(data: str, optimizer: str, loss: str) -> tuple[float | None, float | None]:
    """Return the accuracy in the first version's table 2 and in the later version's table.

    >>> published("cifar10", "adam", "hinge"), published("mnist", "sgd", "sigmoid")
    ((84.53, 93.17), (None, 99.7))
    """
    first, later = V1_TABLE2.get((data, optimizer)), V2_TABLE.get((data, optimizer))
    return getattr(first, loss, None), getattr(later, loss, None)


def exact_above_ce(pairs: Iterable[tuple[float, float]]) -> tuple[int, int]:
    """Return in how many pairs (EXACT, CE) EXACT is above, and how many there are.

    >>> exact_above_ce(pair for row in V1_TABLE1.values() for pair in row)
    (10, 16)
    >>> exact_above_ce((row.exact_v1, row.ce) for row in V1_TABLE2.values())
    (9, 12)
    >>> exact_above_ce((row.exact, row.ce) for row in V2_TABLE.values())
    (10, 13)
    """
    listed = list(pairs)
    return sum(exact > ce for exact, ce in listed), len(listed)
