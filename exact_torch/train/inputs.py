"""Raw inputs for a trained network, from files of the user's."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from exact_torch.data import DataError
from exact_torch.data.image_folder import decoded, images_below
from exact_torch.data.table import encoder_from_json, read_csv
from exact_torch.train.trained import Trained

__all__ = ["examples"]

_BATCH = 256


def examples(trained: Trained, paths: Sequence[str | Path]) -> Iterator[tuple[list[str], Tensor]]:
    """Names and raw inputs (B, *shape), in batches.

    Parameters
    ----------
    trained : Trained
    paths : sequence of paths
        Images or folders of images, for a network for images; CSV files with the columns it was
        trained on, for one that was trained on such a table; and .npy arrays (N, *shape).
    """
    for path in map(Path, paths):
        if not path.exists():
            raise DataError(f"there is no file {path}")
        if path.suffix == ".npy":
            inputs = _array(path, trained.shape)
            yield from _cut([f"{path}[{number}]" for number in range(len(inputs))], inputs)
        elif trained.kind == "images":
            files = images_below(path) if path.is_dir() else [str(path)]
            if not files:
                raise DataError(f"there are no images in the folder {path}")
            yield from _images(trained, files)
        elif trained.encoder is None:
            raise DataError(f"{path}: a network trained on {trained.config.data} takes .npy arrays")
        else:
            options = trained.config.data_options
            told = {name: options[name] for name in ("header", "delimiter") if name in options}
            inputs = encoder_from_json(trained.encoder).encode(read_csv(path, **told))
            yield from _cut([f"{path}:{row}" for row in range(1, len(inputs) + 1)], inputs)


def _cut(names: list[str], inputs: Tensor) -> Iterator[tuple[list[str], Tensor]]:
    for begin in range(0, len(names), _BATCH):
        yield names[begin : begin + _BATCH], inputs[begin : begin + _BATCH]


def _images(trained: Trained, files: Sequence[str]) -> Iterator[tuple[list[str], Tensor]]:
    resize = trained.config.data_options.get("resize")
    for begin in range(0, len(files), _BATCH):
        part = files[begin : begin + _BATCH]
        yield list(part), torch.stack([decoded(each, trained.shape, resize) for each in part])


def _array(path: Path, shape: tuple[int, ...]) -> Tensor:
    try:
        with open(path, "rb") as file:
            array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not an array that can be read: {error}") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} holds several arrays (.npz); save one with numpy.save")
    if array.shape[1:] == shape[1:] and shape[0] == 1:  # grey images without an axis for it
        array = array[:, None]
    if array.shape[1:] != shape or array.dtype.kind not in "biuf":
        wanted = ", ".join(map(str, shape))
        raise DataError(f"{path} must be (N, {wanted}) numbers, got {array.dtype} {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"{path} must hold finite numbers, it has NaN or infinity")
    return torch.from_numpy(array.astype(np.float32))
