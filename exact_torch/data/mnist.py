"""MNIST and Fashion-MNIST, and IDX, the format of their files.

An IDX file starts with two zero bytes, a type code (8 for bytes), the number of dimensions, and
each dimension as a big-endian 32-bit integer; the values follow, last dimension fastest.
"""

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from exact_torch.data.dataset import Dataset, MemorySplit, assemble
from exact_torch.data.download import DataError, Remote
from exact_torch.data.files import obtain, read

_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MIRRORS = {
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion_mnist": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
}
_CHECKSUMS = {
    "mnist": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion_mnist": (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
}
_CLASSES = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
}


def read_idx(path: Path, dimensions: int) -> Tensor:
    """The bytes of an IDX file as a uint8 tensor with so many dimensions."""
    content = read(path)
    header = 4 + 4 * dimensions
    magic = bytes([0, 0, 8, dimensions])
    if len(content) < header or content[:4] != magic:
        raise DataError(
            f"{path} is not an IDX file of bytes in {dimensions} dimensions: "
            f"it starts with {content[:4].hex(' ')}, not {magic.hex(' ')}"
        )
    shape = np.frombuffer(content, ">u4", dimensions, 4).astype(np.int64)
    expected = header + math.prod(shape.tolist())
    if len(content) != expected:
        raise DataError(
            f"{path} has {len(content)} bytes where its header {shape.tolist()} asks for {expected}"
        )
    values = np.frombuffer(content, np.uint8, offset=header).reshape(shape)
    return torch.from_numpy(values.copy())


def _read_pair(images: Path, labels: Path, classes: int) -> MemorySplit:
    pixels = read_idx(images, 3)[:, None]
    targets = read_idx(labels, 1).long()
    if len(pixels) != len(targets):
        raise DataError(f"{images} has {len(pixels)} images, {labels} {len(targets)} labels")
    if len(targets) == 0 or int(targets.max()) >= classes:
        raise DataError(f"{labels} must hold labels 0 to {classes - 1}, and at least one")
    return MemorySplit(pixels, targets)


def _load(name: str, folder: Path, validation: float, fetch: bool) -> Dataset:
    remotes = [
        Remote(file + ".gz", _MIRRORS[name], checksum)
        for file, checksum in zip(_FILES, _CHECKSUMS[name], strict=True)
    ]
    paths = obtain(folder, name, _FILES, remotes, fetch=fetch)
    classes = _CLASSES[name]
    train = _read_pair(paths[0], paths[1], len(classes))
    return assemble(
        name,
        "images",
        classes,
        train.data,
        train.labels,
        validation,
        lambda: _read_pair(paths[2], paths[3], len(classes)),
    )


def load_mnist(folder: Path, validation: float, fetch: bool) -> Dataset:
    return _load("mnist", folder, validation, fetch)


def load_fashion_mnist(folder: Path, validation: float, fetch: bool) -> Dataset:
    return _load("fashion_mnist", folder, validation, fetch)
