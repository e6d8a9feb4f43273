"""Data sets by name, augmentation and batches.

>>> from exact_torch import data
>>> digits = data.load("digits")
>>> digits.shape, len(digits.train), len(digits.validation), len(digits.test)
((1, 8, 8), 1294, 144, 359)
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exact_torch._arguments import choice, number, whole_number
from exact_torch._imports import is_path
from exact_torch.data.augment import augmentations, compose
from exact_torch.data.cifar import load_cifar10, load_cifar100
from exact_torch.data.dataset import Dataset, MemorySplit, Split, fewer
from exact_torch.data.digits import load_digits
from exact_torch.data.download import DataError
from exact_torch.data.files import data_folder
from exact_torch.data.image_folder import load_folder
from exact_torch.data.loader import batches
from exact_torch.data.mnist import load_fashion_mnist, load_mnist
from exact_torch.data.svhn import load_svhn
from exact_torch.data.table import Encoder, Table, encoder_from_json, load_csv, read_csv
from exact_torch.data.torch_dataset import load_by_path
from exact_torch.data.uci import load_uci, uci_names

__all__ = [
    "DataError",
    "Dataset",
    "Encoder",
    "MemorySplit",
    "Split",
    "Table",
    "augmentations",
    "batches",
    "compose",
    "encoder_from_json",
    "load",
    "names",
    "read_csv",
    "uci_names",
]

_LOADERS: dict[str, Callable[..., Dataset]] = {
    "digits": load_digits,
    "mnist": load_mnist,
    "fashion_mnist": load_fashion_mnist,
    "svhn": load_svhn,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "uci": load_uci,
    "folder": load_folder,
    "csv": load_csv,
}


def names() -> tuple[str, ...]:
    """What `load` takes for a name; ``uci/NAME`` stands for every set of `uci_names`.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from exact_torch.data import names
    >>> "digits" in names()
    True
    """
    return tuple(name if name != "uci" else "uci/NAME" for name in _LOADERS)


def load(
    name: str,
    folder: str | Path | None = None,
    *,
    validation: float = 0.1,
    download: bool = True,
    examples: int | None = None,
    **options: Any,
) -> Dataset:
    """A data set by its name, from files that are there or are downloaded.

    Parameters
    ----------
    name : str
        One of `names`, such as "digits", "cifar10", "uci/iris", or the import path of a function
        that makes torch data sets of your own, "package.module:function", see docs/data.md.
    folder : path, optional
        Where the data sets are; default ``EXACT_TORCH_DATA``, else the user's cache.
    validation : float
        In [0, 1), the share of the training examples that becomes the validation split, always
        the same ones; 0 leaves it empty.
    download : bool
        Whether missing files may be downloaded.
    examples : int, optional
        Number of training examples to use, always the same ones; all of them unless given.
    **options
        Of single sets: ``batches`` (cifar10), ``partition`` and ``categorical`` (uci), ``path``,
        ``size`` and others (folder), ``path``, ``target``, ``test_path`` (csv); see docs/data.md.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If files are missing or damaged; the message names them.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.data import load
    >>> digits = load("digits", validation=0.2)
    >>> digits.train.inputs(torch.tensor([0, 1])).shape
    torch.Size([2, 1, 8, 8])
    """
    number("validation", validation, least=0, below=1)
    if examples is not None:
        whole_number("examples", examples, at_least=1)
        return fewer(
            load(name, folder, validation=validation, download=download, **options), examples
        )
    if is_path(name):
        return load_by_path(name, validation, options)
    family, _, member = name.partition("/") if isinstance(name, str) else (name, "", "")
    if family != "uci" or not member:
        choice("name of a data set", name, names())
    loader = _LOADERS[family]
    first = [member] if member else []
    known = list(inspect.signature(loader).parameters)[len(first) + 3 :]
    if unknown := sorted(set(options) - set(known)):
        listed = ", ".join(known) or "none"
        raise TypeError(f"{name} has no option {', '.join(unknown)}; it has {listed}")
    return loader(*first, data_folder(folder), validation, download, **options)
