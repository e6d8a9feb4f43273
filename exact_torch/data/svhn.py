"""SVHN, cropped digits: MATLAB files with X (32, 32, 3, N) uint8 and y (N, 1), where 10 is "0"."""

import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exact_torch.data.dataset import Dataset, MemorySplit, assemble
from exact_torch.data.download import DataError, Remote
from exact_torch.data.files import obtain, read

_MIRRORS = ("http://ufldl.stanford.edu/housenumbers/",)
_REMOTES = (
    Remote("train_32x32.mat", _MIRRORS, "e26dedcc434d2e4c54c9b2d4a06d8373"),
    Remote("test_32x32.mat", _MIRRORS, "eb5a983be6a315427106f1b164d9cef3"),
)


def read_svhn(path: Path) -> MemorySplit:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    stream: Any = BytesIO(read(path))
    try:
        content = loadmat(stream, variable_names=["X", "y"])
    except (
        MatReadError, EOFError, OSError, TypeError, ValueError, NotImplementedError, zlib.error
    ) as error:  # fmt: skip
        raise DataError(f"{path} is not a MATLAB file that can be read: {error}") from error
    if missing := [name for name in ("X", "y") if name not in content]:
        raise DataError(f"{path} has no variable {' and '.join(missing)}")
    images, labels = content["X"], content["y"].reshape(-1)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataError(f"{path} has X of {images.dtype} {images.shape}, not uint8 (32, 32, 3, N)")
    if len(labels) != images.shape[3] or not np.isin(labels, np.arange(1, 11)).all():
        raise DataError(f"{path} must have a label from 1 to 10 in y for each image of X")
    pixels = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
    return MemorySplit(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64) % 10))


def load_svhn(folder: Path, validation: float, fetch: bool) -> Dataset:
    """SVHN's train and test parts (the extra part is not used)."""
    wanted = [remote.name for remote in _REMOTES]
    train_path, test_path = obtain(folder, "svhn", wanted, _REMOTES, fetch=fetch)
    train = read_svhn(train_path)
    return assemble(
        "svhn",
        "images",
        tuple("0123456789"),
        train.data,
        train.labels,
        validation,
        lambda: read_svhn(test_path),
    )
