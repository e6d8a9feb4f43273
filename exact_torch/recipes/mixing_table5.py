"""Mixing CE and EL, table 5: CE, the mixture and complement objective training.

Battash, Wolf, Hazan, Mixing between the cross entropy and the expectation loss terms (2021).
Published: the networks and sets; 200 epochs, the learning rate divided by 10 after 100 and 150;
ImageNet as in table 2.  Ours: the other settings are those of table 1, ResNets have the stem for
small images on Tiny-ImageNet, and the complement's entropy is divided by C - 1.  Tiny-ImageNet is
a folder of images, ``tiny_imagenet``, as ``imagenet`` is.

The small twin: one file of CIFAR-10, ``small_cnn``, 12 epochs, the rate divided after 6 and 9.
"""

from dataclasses import replace
from typing import Any

from exact_torch.recipes.mixing_table1 import BASE, LOSSES, SMALL_BASE, falling
from exact_torch.recipes.mixing_table2 import IMAGENET

_LOSSES: dict[str, dict[str, Any]] = {
    "ce": LOSSES["ce"],
    "f0-0.5": LOSSES["f0-0.5"],
    "cot": {"loss": "cot", "loss_options": {"normalised": True}},
}
_CIFAR100 = replace(BASE, data="cifar100", **falling(200, 100, 150))
_TINY = replace(
    _CIFAR100,
    data="folder",
    data_options={"path": "tiny_imagenet", "size": 64},
    model_options={"stem": "small"},
)
_PAIRS = (
    ("cifar100", _CIFAR100, ("resnet110", "preact_resnet18", "resnext29_8x64")),
    ("tiny_imagenet", _TINY, ("resnet50", "resnet101")),
    ("imagenet", IMAGENET, ("resnet50",)),
)

RUNS = {
    f"{data}-{model}-{name}": replace(config, model=model, **loss)
    for data, config, models in _PAIRS
    for model in models
    for name, loss in _LOSSES.items()
}
_SMALL = replace(SMALL_BASE, model="small_cnn", **falling(12, 6, 9))
SMALL = {f"small_cnn-{name}": replace(_SMALL, **loss) for name, loss in _LOSSES.items()}
