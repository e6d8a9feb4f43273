"""EXACT, first version, table 1: four architectures on four sets, EXACT and cross-entropy.

Karpukhin, Dereka, Kolesnikov, arXiv:2205.09615v1, section 5.1.  Published: the architectures and
image sizes, SGD with momentum 0.9, a learning rate of 0.5 that falls by a factor of 0.3 on
plateaus, 90 or 500 epochs, AutoAugment for all and flips for CIFAR, -log of the expected accuracy
with a predicted sigma.  Ours: the plateau is of the accuracy on a tenth that is held out; batch
size and weight decay are those of the later version; the integral is exact, where they sample.

The small twin: one file of CIFAR-10 and MNIST, ``small_cnn``, few epochs, lr 0.1.
"""

from dataclasses import replace
from typing import Any

from exact_torch.train.config import Config

LOSSES: dict[str, dict[str, Any]] = {
    "exact": {"loss": "exact", "loss_options": {"objective": "nll"}, "head": "predicted"},
    "ce": {"loss": "ce"},
}
EPOCHS = {"mnist": 90, "svhn": 90, "cifar10": 500, "cifar100": 500}
_SIZES = {"resnet18": 256, "wrn16_8": 32, "efficientnet_v2_m": 256, "pyramidnet272": 32}

BASE = Config(
    lr=0.5,
    schedule="plateau",
    schedule_options={"factor": 0.3},
    weight_decay=1e-4,
    batch_size=256,
)


def on(config: Config, data: str) -> Config:
    """The config with what depends on the set."""
    flips = ("flip",) if data.startswith("cifar") else ()
    return replace(config, data=data, epochs=EPOCHS[data], augment=(*flips, "autoaugment"))


RUNS = {
    f"{data}-{model}-{name}": replace(on(BASE, data), model=model, image_size=size, **loss)
    for data in EPOCHS
    for model, size in _SIZES.items()
    for name, loss in LOSSES.items()
}

SMALL_DATA: dict[str, dict[str, Any]] = {
    "mnist": {"data": "mnist", "epochs": 2, "augment": ()},
    "cifar10": {
        "data": "cifar10",
        "data_options": {"batches": [1]},
        "epochs": 10,
        "augment": ("flip", "crop"),
    },
}
SMALL = {
    f"{data}-{name}": replace(BASE, model="small_cnn", lr=0.1, **options, **loss)
    for data, options in SMALL_DATA.items()
    for name, loss in LOSSES.items()
}
