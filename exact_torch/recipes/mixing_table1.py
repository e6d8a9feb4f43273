"""Mixing CE and EL, table 1: eight networks on CIFAR-100 and CINIC-10, four losses.

Battash, Wolf, Hazan, Mixing between the cross entropy and the expectation loss terms (2021).
Published: the networks; SGD with momentum 0.9, weight decay 1e-4, a learning rate of 0.1 divided
by 10 after 120, 160 and 200 of 240 epochs (CINIC-10: 30 and 60 of 90); crops and flips, and for
CINIC-10 rotations where a network has more than a million parameters; four seeds (CINIC-10:
three).  Ours: batches of 128; torchvision's ShuffleNetV2, on images scaled to 128 so that its maps
have the size they have in networks made for 32 x 32.  CINIC-10 is a folder of images, ``cinic10``
where you are unless ``data_options.path`` says otherwise; its training part is to hold the
published training and validation images, 180,000.

The small twin: one file of CIFAR-10, ``small_cnn`` and ``resnet20``, 12 epochs, the rate divided
after 6, 8 and 10.
"""

from dataclasses import replace
from typing import Any

from exact_torch.train.config import Config

SEEDS = 4
LOSSES: dict[str, dict[str, Any]] = {"ce": {"loss": "ce"}} | {
    f"f{schedule}": {"loss": "ce_el", "loss_options": {"schedule": schedule}}
    for schedule in ("0", "0,0.5", "0-0.5")
}
_STEM: dict[str, Any] = {"model_options": {"stem": "small"}}
MODELS: dict[str, dict[str, Any]] = {
    "shufflenet_v2_x1_0": {"image_size": 128},
    "resnet20": {},
    "resnet32": {},
    "resnet44": {},
    "resnet18": _STEM,
    "resnet34": _STEM,
    "preact_resnet18": {},
    "resnext29_8x64": {},
}
_BELOW_A_MILLION = ("resnet20", "resnet32", "resnet44")


def falling(epochs: int, *milestones: int) -> dict[str, Any]:
    """The rate divided by 10 after some of the epochs."""
    options = {"milestones": list(milestones), "gamma": 0.1}
    return {"epochs": epochs, "schedule": "multistep", "schedule_options": options}


BASE = Config(
    validation=0.0,
    augment=("flip", "crop"),
    lr=0.1,
    weight_decay=1e-4,
    batch_size=128,
)
CIFAR100 = replace(BASE, data="cifar100", **falling(240, 120, 160, 200))
CINIC10 = replace(
    BASE, data="folder", data_options={"path": "cinic10", "size": 32}, **falling(90, 30, 60)
)
ROTATED = replace(CINIC10, augment=("flip", "crop", "rotate"))
SMALL_BASE = replace(BASE, data="cifar10", data_options={"batches": [1]}, **falling(12, 6, 8, 10))

RUNS: dict[str, Config] = {}
for _model, _options in MODELS.items():
    _cinic10 = CINIC10 if _model in _BELOW_A_MILLION else ROTATED
    for _data, _config in (("cifar100", CIFAR100), ("cinic10", _cinic10)):
        RUNS |= {
            f"{_data}-{_model}-{name}": replace(_config, model=_model, **_options, **loss)
            for name, loss in LOSSES.items()
        }

SMALL = {
    f"{model}-{name}": replace(SMALL_BASE, model=model, **loss)
    for model in ("small_cnn", "resnet20")
    for name, loss in LOSSES.items()
}
