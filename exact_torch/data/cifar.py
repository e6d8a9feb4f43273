"""CIFAR-10 and CIFAR-100, binary versions: no pickle is loaded.

A record is one label byte (CIFAR-100: the coarse label, then the fine one) and 3,072 bytes of
the image: 1,024 red, 1,024 green, 1,024 blue, row by row.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from exact_torch.data.dataset import Dataset, MemorySplit, assemble
from exact_torch.data.download import DataError, Remote
from exact_torch.data.files import find, obtain, read

_PIXELS = 3 * 32 * 32
_MIRRORS = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
_CIFAR10 = Remote("cifar-10-binary.tar.gz", _MIRRORS, "c32a1d4ab5d03f1284b67883e8d87530")
_CIFAR100 = Remote("cifar-100-binary.tar.gz", _MIRRORS, "03b5dce01913d631647c71ecec9e9cb8")
_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_cifar(paths: Sequence[Path], classes: int, label_bytes: int, records: int) -> MemorySplit:
    """The images and the last label byte of each record, of files of so many records each."""
    width = label_bytes + _PIXELS
    parts = []
    for path in paths:
        content = read(path)
        if len(content) != records * width:
            raise DataError(
                f"{path} has {len(content)} bytes, a file of this kind {records * width} "
                f"({records} records of {width})"
            )
        part = np.frombuffer(content, np.uint8).reshape(records, width)
        if part[:, label_bytes - 1].max() >= classes:
            raise DataError(f"{path} has labels beyond {classes - 1}: it is not what its name says")
        parts.append(part)
    table = np.concatenate(parts)
    images = torch.from_numpy(table[:, label_bytes:].reshape(-1, 3, 32, 32).copy())
    return MemorySplit(images, torch.from_numpy(table[:, label_bytes - 1].astype(np.int64)))


def load_cifar10(
    folder: Path, validation: float, fetch: bool, batches: Sequence[int] = (1, 2, 3, 4, 5)
) -> Dataset:
    """CIFAR-10; ``batches`` are the numbers of the training files to take, default all five."""
    chosen = tuple(batches)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= {1, 2, 3, 4, 5}:
        raise ValueError(f"batches must be different numbers from 1 to 5, got {batches!r}")
    wanted = [*(f"data_batch_{batch}.bin" for batch in chosen), "test_batch.bin"]
    paths = obtain(
        folder,
        "cifar10",
        wanted,
        [_CIFAR10],
        inner=("cifar-10-batches-bin",),
        fetch=fetch,
        advice="To train on some of the five training files, name them: batches=(1,).",
    )
    train = read_cifar(paths[:-1], 10, 1, 10_000)
    return assemble(
        "cifar10",
        "images",
        _NAMES,
        train.data,
        train.labels,
        validation,
        lambda: read_cifar(paths[-1:], 10, 1, 10_000),
    )


def load_cifar100(folder: Path, validation: float, fetch: bool) -> Dataset:
    """CIFAR-100 with its 100 fine labels."""
    paths = obtain(
        folder,
        "cifar100",
        ["train.bin", "test.bin"],
        [_CIFAR100],
        inner=("cifar-100-binary",),
        fetch=fetch,
    )
    names = find([paths[0].parent], "fine_label_names.txt")
    classes = read(names).decode().split() if names else [str(label) for label in range(100)]
    if len(classes) != 100:
        raise DataError(f"{names} has {len(classes)} names of classes, not 100")
    train = read_cifar(paths[:1], 100, 2, 50_000)
    return assemble(
        "cifar100",
        "images",
        classes,
        train.data,
        train.labels,
        validation,
        lambda: read_cifar(paths[1:], 100, 2, 10_000),
    )
