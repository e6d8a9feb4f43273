"""The real files, where EXACT_TORCH_DATA has them, against what is published about them."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from exact_torch import data
from exact_torch.data.uci_categories import DOCUMENTED

FOLDER = Path(os.environ.get("EXACT_TORCH_DATA", "nowhere"))


def needs(name):
    reason = f"EXACT_TORCH_DATA names no folder with {name}"
    return pytest.mark.skipif(not (FOLDER / name).is_dir(), reason=reason)


@needs("mnist")
def test_mnist():
    mnist = data.load("mnist", validation=0, download=False)
    assert torch.bincount(mnist.train.labels).tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949
    ]  # fmt: skip
    assert torch.bincount(mnist.test.labels).tolist() == [
        980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009
    ]  # fmt: skip
    # The mean and deviation that everyone uses.
    assert float(mnist.mean) / 255 == pytest.approx(0.1307, abs=5e-5)
    assert float(mnist.std) / 255 == pytest.approx(0.3081, abs=5e-5)


@needs("cifar10")
def test_cifar10():
    cifar = data.load("cifar10", validation=0, download=False, batches=(1,))
    assert torch.bincount(cifar.train.labels).tolist() == [
        1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981
    ]  # fmt: skip
    assert torch.bincount(cifar.test.labels).tolist() == [1000] * 10
    assert cifar.train.labels[:5].tolist() == [6, 9, 9, 4, 1]


@needs("uci121")
def test_uci(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = data.uci_names()
    assert len(names) == 116
    sizes = {}
    for name in ("iris", "hayes-roth", "letter", "plant-margin"):
        table = data.load(f"uci/{name}", validation=0)
        sizes[name] = (len(table.train), len(table.test), len(table.classes), *table.shape)
    assert sizes == {
        "iris": (120, 30, 3, 4),
        "hayes-roth": (132, 28, 3, 3),
        "letter": (16000, 4000, 26, 16),
        "plant-margin": (1280, 320, 100, 64),
    }


@needs("uci121")
def test_documented_categories(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    features = {}
    for name in set(DOCUMENTED) & set(data.uci_names()):
        options = {"partition": "holdout", "validation": 0}
        plain = data.load(f"uci/{name}", **options).train
        table = data.load(f"uci/{name}", categorical="documented", **options)
        values = [column.unique() for column in plain.inputs(torch.arange(len(plain))).T]
        columns = DOCUMENTED[name]
        if columns:
            assert max(columns) <= len(values), name
            assert max(len(values[column - 1]) for column in columns) <= 12, name
            counts = [len(each) if n in columns else 1 for n, each in enumerate(values, 1)]
            varying = [len(each) > 1 for each in values]
            assert table.shape == (sum(np.multiply(counts, varying)),), name
        features[name] = table.shape[0]
    assert features["car"] == 21  # 4 + 4 + 4 + 3 + 3 + 3
    assert features["nursery"] == 27
    assert features["tic-tac-toe"] == 27
    assert features["wine"] == 13
    assert features["cylinder-bands"] == 76  # 19 of them numbers
