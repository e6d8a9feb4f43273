"""Mixing CE and EL, table 6: ResNet-34 on CINIC-10 with more regularisation.

Battash, Wolf, Hazan, Mixing between the cross entropy and the expectation loss terms (2021).
Published: training as in table 1 with random erasing (with and without rotations), colour jitter,
or dropout with probability 0.2.  Ours: how far colours are changed, how large a part is erased
(``data.augment``), and that dropout is before the last layer.

The small twin: one file of CIFAR-10, ``small_cnn``, 12 epochs; no dropout.
"""

from dataclasses import replace
from typing import Any

from exact_torch.recipes.mixing_table1 import LOSSES, ROTATED, SMALL_BASE

_LOSSES = {name: LOSSES[name] for name in ("ce", "f0-0.5")}
_STEM = {"stem": "small"}
_BASE = replace(ROTATED, model="resnet34", model_options=_STEM)
_AUGMENTED: dict[str, dict[str, Any]] = {
    "baseline": {"augment": ("flip", "crop", "rotate")},
    "erasing": {"augment": ("flip", "crop", "rotate", "erase")},
    "erasing-no-rotation": {"augment": ("flip", "crop", "erase")},
    "jitter": {"augment": ("flip", "crop", "rotate", "jitter")},
}
_CHANGES = _AUGMENTED | {"dropout": {"model_options": {**_STEM, "dropout": 0.2}}}

RUNS = {
    f"{change}-{name}": replace(_BASE, **settings, **loss)
    for change, settings in _CHANGES.items()
    for name, loss in _LOSSES.items()
}
SMALL = {
    f"{change}-{name}": replace(SMALL_BASE, model="small_cnn", **settings, **loss)
    for change, settings in _AUGMENTED.items()
    for name, loss in _LOSSES.items()
}
