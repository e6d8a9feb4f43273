"""A folder of images, decoded when they are asked for: it may be larger than the memory.

Layouts, each class a folder of its own:

* ``DIR/train/CLASS/*``, ``DIR/val/CLASS/*`` (or ``valid``, ``validation``), ``DIR/test/CLASS/*``
* only one of ``val`` and ``test`` (as ImageNet is given out): it is the test split, and the
  validation split is taken from the training images
* ``DIR/CLASS/*`` or ``DIR/train/CLASS/*`` alone: a fixed stratified fifth is the test split
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from exact_torch.data.dataset import Dataset, stratified
from exact_torch.data.download import DataError
from mvnorth._interface import whole_number

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
_VALIDATION = ("val", "valid", "validation")
_HOLDOUT = 0.2
# The usual constants of ImageNet, times 255: what pretrained networks take.
_MEAN = (123.675, 116.28, 103.53)
_STD = (58.395, 57.12, 57.375)


class ImageSplit:
    """Image files, made (3, size, size) when they are asked for.

    The shorter side is brought to ``resize`` and the central square of ``size`` is cut out (both
    in one bilinear step with antialiasing).
    """

    def __init__(self, paths: np.ndarray, labels: Tensor, size: int, resize: int) -> None:
        self.paths = paths  # an array of bytes: worker processes share it without copying
        self.labels = labels
        self.size = size
        self.resize = resize

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        batch = torch.empty(len(indices), 3, self.size, self.size, dtype=torch.uint8)
        for place, index in enumerate(indices.tolist()):
            batch[place] = decoded(os.fsdecode(self.paths[index]), batch.shape[1:], self.resize)
        return batch


def decoded(path: str | Path, shape: Sequence[int], resize: int | None = None) -> Tensor:
    """An image file as (C, H, W) uint8, grey for C = 1 and RGB for C = 3.

    The shorter side is brought to ``resize``, or as near to the shape as its proportions allow,
    and the centre of the shape's size is cut out.
    """
    from PIL import Image, UnidentifiedImageError

    channels, height, width = shape
    try:
        with Image.open(path) as image:
            scale = min(image.width / width, image.height / height)
            if resize is not None:
                scale = min(image.width, image.height) / resize
            left, top = (image.width - width * scale) / 2, (image.height - height * scale) / 2
            box = (left, top, left + width * scale, top + height * scale)
            colours = image.convert("L" if channels == 1 else "RGB")
            array = np.asarray(colours.resize((width, height), Image.Resampling.BILINEAR, box))
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError) as error:
        raise DataError(f"{path} is not an image that can be read: {error}") from error
    return torch.from_numpy(array.copy()).view(height, width, channels).permute(2, 0, 1)


def images_below(root: Path) -> list[str]:
    """All image files in a folder and the folders in it, sorted."""
    return sorted(
        os.path.join(place, file)
        for place, _, names in os.walk(root)
        for file in names
        if file.lower().endswith(_SUFFIXES)
    )


def load_folder(
    folder: Path,
    validation: float,
    fetch: bool,
    path: str | Path | None = None,
    size: int | None = None,
    resize: int | None = None,
    train_size: int | None = None,
    mean: Sequence[float] = _MEAN,
    std: Sequence[float] = _STD,
) -> Dataset:
    """A folder of images of the user's, as RGB.

    Parameters
    ----------
    path : the folder
    size : images are (3, size, size)
    resize : the shorter side before the central square of ``size`` is cut out; default ``size``
        (ImageNet: 256 with size=224)
    train_size : another size for the training split alone, from which the augmentation
        "resized_crop" or "crop" makes ``size``; the whole shorter side is in it
    mean, std : of red, green and blue in 0..255; default ImageNet's
    """
    if path is None or size is None:
        raise ValueError("folder needs path=FOLDER and size=PIXELS")
    size = whole_number("size", size, at_least=1)
    resize = size if resize is None else whole_number("resize", resize, at_least=size)
    larger = None if train_size is None else whole_number("train_size", train_size, at_least=size)
    root = Path(path).expanduser()
    if not root.is_dir():
        raise DataError(f"there is no folder {root}")
    train_root = root / "train" if (root / "train").is_dir() else root
    parts = [root / name for name in (*_VALIDATION, "test") if (root / name).is_dir()]
    if train_root == root:
        parts = []
    if len([part for part in parts if part.name != "test"]) > 1:
        raise DataError(f"{root} has more than one of {', '.join(_VALIDATION)}")

    classes = tuple(sorted(entry.name for entry in train_root.iterdir() if entry.is_dir()))
    files, labels = _listed(train_root, classes)
    kept = torch.arange(len(labels))
    if parts:
        test_files, test_labels = _listed(parts[-1], classes)
    else:
        kept, test = stratified(labels, _HOLDOUT)
        test_files, test_labels = files[test.numpy()], labels[test]
    if len(parts) == 2:
        held_files, held_labels = _listed(parts[0], classes)
    else:
        inner, held = stratified(labels[kept], validation)
        kept, held = kept[inner], kept[held]
        held_files, held_labels = files[held.numpy()], labels[held]
    plain = (size, resize)
    return Dataset(
        "folder",
        "images",
        classes,
        (3, size, size),
        torch.tensor(mean, dtype=torch.float32).reshape(3, 1, 1),
        torch.tensor(std, dtype=torch.float32).reshape(3, 1, 1),
        ImageSplit(files[kept.numpy()], labels[kept], *((larger, larger) if larger else plain)),
        ImageSplit(held_files, held_labels, *plain),
        lambda: ImageSplit(test_files, test_labels, *plain),
    )


def _listed(root: Path, classes: Sequence[str]) -> tuple[np.ndarray, Tensor]:
    """All image files under ``root`` by class, sorted, and their labels."""
    found = {entry.name for entry in root.iterdir() if entry.is_dir()}
    if unknown := sorted(found - set(classes)):
        raise DataError(f"{root} has folders {', '.join(unknown)} that are no training classes")
    files: list[bytes] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        images = images_below(root / name)
        files += map(os.fsencode, images)
        labels += [label] * len(images)
    if not files:
        raise DataError(f"{root} has no folders of images, one a class ({', '.join(_SUFFIXES)})")
    return np.array(files), torch.tensor(labels)
