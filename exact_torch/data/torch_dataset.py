"""Any ``torch.utils.data.Dataset`` of the user's, by the import path of what makes it.

``data="package.module:make"`` calls ``make(**data_options)``, which returns a pair of data sets for
training and testing, a single one, of which a fixed stratified fifth is then held out for testing,
or a ``exact_torch.data.Dataset``.  An example is a pair of a tensor, (C, H, W) or (F,), and a class
number from 0 on.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from exact_torch import _imports
from exact_torch.data.dataset import Dataset, Subset, moments, stratified
from exact_torch.data.download import DataError

_HOLDOUT = 0.2
_SAMPLE = 4096  # examples whose mean and deviation inputs are standardised by


class TorchSplit:
    """A torch data set as a split; its examples are read when they are used.

    Parameters
    ----------
    source : torch.utils.data.Dataset
        With ``__len__`` and ``__getitem__``.  The labels are its ``targets``, as torchvision's
        data sets have them, or those of its examples, which are then all read once.
    name : str
        What messages call it.
    """

    def __init__(self, source: Any, name: str) -> None:
        self.source, self.name = source, name
        targets = getattr(source, "targets", None)
        if targets is None:
            targets = [int(self._example(number)[1]) for number in range(len(source))]
        self.labels = torch.as_tensor(targets).long()
        if len(self.labels) != len(source) or not len(source) or int(self.labels.min()) < 0:
            raise DataError(f"{name} must have examples with class numbers from 0 on")

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        """The inputs of these examples."""
        return torch.stack([self._example(number)[0] for number in indices.tolist()])

    def _example(self, number: int) -> Sequence[Any]:
        example = self.source[number]
        if not isinstance(example, Sequence) or len(example) != 2:
            raise DataError(f"{self.name}[{number}] must be (input, label), got {type(example)}")
        if not isinstance(example[0], Tensor) or example[0].ndim not in (1, 3):
            raise DataError(f"{self.name}[{number}] must have a (C, H, W) or (F,) tensor as input")
        return example


def load_by_path(path: str, validation: float, options: dict[str, Any]) -> Dataset:
    """The data set that the thing at an import path makes."""
    try:
        made = _imports.load_callable("data", path)(**options)
    except TypeError as error:
        raise TypeError(f"data {path!r} with the options {options}: {error}") from error
    if isinstance(made, Dataset):
        return made
    parts = made if isinstance(made, tuple) else (made,)
    if len(parts) not in (1, 2) or not all(hasattr(part, "__getitem__") for part in parts):
        raise DataError(f"{path} must return a data set, or one for training and one for testing")
    whole = TorchSplit(parts[0], path)
    kept = torch.arange(len(whole))
    if len(parts) == 2:
        test: Any = TorchSplit(parts[1], path)
    else:
        kept, held = stratified(whole.labels, _HOLDOUT)
        test = Subset(whole, held)
    inner, held = stratified(whole.labels[kept], validation)
    train = Subset(whole, kept[inner])
    sample = train.inputs(torch.arange(0, len(train), -(-len(train) // _SAMPLE)))
    mean, std = moments(sample)
    count = int(max(whole.labels.max(), test.labels.max())) + 1
    names = getattr(parts[0], "classes", None)
    classes = tuple(map(str, names if names is not None else range(count)))
    if len(classes) < count:
        raise DataError(f"{path} has {len(classes)} classes, but the label {count - 1}")
    kind = "images" if sample.ndim == 4 else "table"
    shape = tuple(sample.shape[1:])
    validated = Subset(whole, kept[held])
    return Dataset(path, kind, classes, shape, mean, std, train, validated, lambda: test)
