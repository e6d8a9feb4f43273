"""EXACT, later version, images: seven losses with three optimisers on five sets.

Karpukhin, Dereka, Kolesnikov, EXACT: How to train your accuracy, later version and its code.
Published: the networks; 150, 150, 500, 500 and 25 epochs; batches of 256; weight decay 1e-4; SGD
with momentum 0.9 and a learning rate that falls exponentially to 1e-4, Adam with 1e-3, ASAM with
radius 2; margin, last variance and learning rate of each set; translations and rotations of MNIST;
SGD only for ImageNet; five seeds.  Ours: augmentation of the other sets, which is that of the
first version (ImageNet: crops and flips), the same learning rate for all losses, and nothing held
out.  ImageNet is a folder of images, ``imagenet`` where you are unless ``data_options.path`` says
otherwise.

The small twin: one file of CIFAR-10 and MNIST, ``small_cnn``, few epochs, lr 0.1, two seeds.
"""

from dataclasses import replace
from typing import Any

from exact_torch.recipes import exact_v1_table1 as v1
from exact_torch.recipes.exact_v1_table2 import OPTIMIZERS
from exact_torch.train.config import Config

SEEDS = 5
LOSSES = {
    "ce": "ce",
    "hinge": "hinge",
    "sigmoid": "sigmoid",
    "betabern": "beta_bernoulli",
    "polynomial": "polynomial",
    "polyloss": "poly1",
    "exact": "exact",
}
OPTIONS: dict[str, dict[str, Any]] = {"beta_bernoulli": {"learned": True}}
IMAGENET = {"path": "imagenet", "size": 224, "resize": 256, "train_size": 320}

_BASE = Config(
    validation=0.0,
    weight_decay=1e-4,
    schedule="exponential",
    schedule_options={"final": 1e-4},
    batch_size=256,
)
_SETS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "vgg_mnist", "lr": 0.5, "epochs": 150, "augment": ("affine",)},
    "svhn": {"model": "wrn16_8", "lr": 1.0, "epochs": 150, "augment": ("autoaugment",)},
    "cifar10": {"model": "wrn28_10", "lr": 1.0, "epochs": 500, "augment": ("flip", "autoaugment")},
    "cifar100": {"model": "wrn28_10", "lr": 1.0, "epochs": 500, "augment": ("flip", "autoaugment")},
    "imagenet": {
        "data": "folder",
        "data_options": IMAGENET,
        "model": "resnet50",
        "lr": 0.5,
        "epochs": 25,
        "augment": ("resized_crop", "flip"),
    },
}


def _loss(name: str, published: str) -> dict[str, Any]:
    if name != "exact":
        return {"loss": name, "loss_options": OPTIONS.get(name, {})}
    options = {"objective": "error", "normalize": True, "sigma": published, "margin": published}
    return {"loss": "exact", "loss_options": options, "gradient": "normalize"}


RUNS = {
    f"{data}-{optimizer}-{short}": replace(
        _BASE, **({"data": data} | settings | options | _loss(name, data))
    )
    for data, settings in _SETS.items()
    for optimizer, options in OPTIMIZERS.items()
    for short, name in LOSSES.items()
    if data != "imagenet" or optimizer == "sgd"
}

SMALL = {
    f"{data}-{optimizer}-{short}": replace(
        _BASE, **(settings | {"lr": 0.1, "validation": 0.1} | options | _loss(name, data))
    )
    for data, settings in v1.SMALL_DATA.items()
    for optimizer, options in OPTIMIZERS.items()
    for short, name in LOSSES.items()
}
