"""Parameters counted against published numbers, and built from them by hand where there are none.

Exact counts are those that pytorchcv (imgclsmob) asserts for WRN-28-10 and PyramidNet-272, and
those of models of kuangliu/pytorch-cifar; the others are as the papers round them.
"""

from itertools import pairwise

import pytest
import torch

from exact_torch import models


def parameters(*arguments, **options):
    with torch.device("meta"):
        model = models.get(*arguments, **options)
    return sum(each.numel() for each in model.parameters())


@pytest.mark.parametrize(
    ("name", "classes", "options", "count", "rounded"),
    [
        ("wrn16_8", 10, {}, None, "10.96"),
        ("wrn28_10", 10, {}, 36_479_194, "36.5"),
        ("wrn28_10", 100, {}, 36_536_884, "36.5"),
        ("pyramidnet272", 10, {}, 26_210_842, "26.2"),
        ("resnet20", 10, {}, None, "0.27"),
        ("resnet32", 10, {}, None, "0.46"),
        ("resnet44", 10, {}, None, "0.66"),
        ("resnet110", 10, {}, None, "1.7"),
        ("resnext29_8x64", 10, {}, None, "34.4"),
        ("preact_resnet18", 10, {}, 11_171_146, "11.17"),
        ("resnet18", 10, {"stem": "small"}, 11_173_962, "11.17"),
        ("resnet34", 10, {"stem": "small"}, 21_282_122, "21.28"),
        ("resnet50", 10, {"stem": "small"}, 23_520_842, "23.52"),
    ],
)
def test_published_counts(name, classes, options, count, rounded):
    found = parameters(name, classes, **options)
    assert count is None or found == count
    assert f"{found / 1e6:.{len(rounded.partition('.')[2])}f}" == rounded


@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "efficientnet_v2_m", "shufflenet_v2_x1_0", "resnext50_32x4d"]
)
def test_torchvision_counts_are_its_own(name):
    """At 1000 classes: what torchvision publishes with its weights."""
    from exact_torch._torchvision import torchvision

    weights = torchvision.models.get_model_weights(name).DEFAULT
    assert parameters(name, 1000, (3, 224, 224)) == weights.meta["num_params"]


def test_counts_of_the_pols_networks_by_hand():
    assert parameters("mlp500", 10, (1, 28, 28)) == (
        784 * 500 + 500 * 500 + 500 * 10 + 10 + 2 * (500 + 500)
    )
    kernels = 3 * 25 * 128 + 128 * 128 + 128 * 25 * 256 + 256 * 256 + 256 * 25 * 512 + 512 * 512
    norms = 2 * (128 + 128 + 256 + 256 + 512 + 512 + 1024)
    assert parameters("cnn6", 10) == kernels + norms + 512 * 4 * 4 * 1024 + 1024 * 10 + 10


def test_count_of_the_mnist_network_by_hand():
    """M3 of An et al.: 32, 48, ..., 176 maps of 3 x 3."""
    maps = [1, *range(32, 177, 16)]
    kernels = sum(9 * before * after for before, after in pairwise(maps))
    assert len(maps) == 11
    assert parameters("vgg_mnist", 10, (1, 28, 28)) == (
        kernels + 2 * sum(maps[1:]) + 2 * 176 + 176 * 10 + 10
    )
