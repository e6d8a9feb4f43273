"""Single-logit classification, table 1: seven losses on MNIST, SVHN and CIFAR, two on ImageNet.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020),
section 6.1.  Published: the networks, 10^5 steps (ImageNet: Inception-v3, 6 10^6), the learning
rate of 1, 0.1, 0.01 and 0.001 that is best on validation.  Ours: a tenth is held out; SGD with
momentum 0.9, a constant rate and batches of 128 (ImageNet: 32, a rate from 0.045 to 1e-4, where
the paper takes what the public Inception code does); the losses' own parameters, which are the
defaults here.  ImageNet is a folder of images, ``imagenet`` where you are unless
``data_options.path`` says otherwise.

The small twin: MNIST and one file of CIFAR-10, 2,000 and 1,000 steps, the networks at a fifth and
an eighth of their width.  It searches the same rates.
"""

from dataclasses import replace
from typing import Any

from exact_torch.train.config import Config

LOSSES = ("ce", "max_margin", "self_norm", "nce", "bce", "batch_ce", "batch_max_margin")
_MODELS = {"mnist": "mlp500", "svhn": "cnn6", "cifar10": "cnn6", "cifar100": "cnn6"}

_BASE = Config(epochs=100, epoch_steps=1000, batch_size=128)
_INCEPTION = Config(
    data="folder",
    data_options={"path": "imagenet", "size": 299, "resize": 342, "train_size": 342},
    augment=("resized_crop", "flip"),
    model="inception_v3",
    lr=0.045,
    schedule="exponential",
    schedule_options={"final": 1e-4},
    epochs=600,
    epoch_steps=10_000,
    batch_size=32,
)

RUNS = {
    f"{data}-{loss}": replace(_BASE, data=data, model=model, loss=loss)
    for data, model in _MODELS.items()
    for loss in LOSSES
} | {f"imagenet-{loss}": replace(_INCEPTION, loss=loss) for loss in ("ce", "batch_ce")}

_RATES = {"lr": (1.0, 0.1, 0.01, 0.001)}
SEARCH = {f"{data}-{loss}": _RATES for data in _MODELS for loss in LOSSES}

_SMALL_SETS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "mlp500", "model_options": {"width": 100}, "epochs": 10},
    "cifar10": {
        "data_options": {"batches": [1]},
        "model": "cnn6",
        "model_options": {"width": 16},
        "epochs": 5,
    },
}
SMALL = {
    f"{data}-{loss}": replace(_BASE, data=data, epoch_steps=200, loss=loss, **settings)
    for data, settings in _SMALL_SETS.items()
    for loss in LOSSES
}
