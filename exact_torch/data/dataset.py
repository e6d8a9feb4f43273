"""What a data set is: three splits, the classes, and the training inputs' mean and spread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from exact_torch._arguments import number

_SPLIT_SEED = 20_211  # of every fixed split; another number is another validation set


class Split(Protocol):
    """Examples with labels: training, validation or test.

    Attributes
    ----------
    labels : Tensor (N,) of int64
        The classes, from 0 on.

    Examples
    --------
    >>> from exact_torch.data import Split, load
    >>> split: Split = load("digits").train
    >>> len(split), split.inputs(split.labels[:2]).dtype
    (1294, torch.uint8)
    """

    labels: Tensor

    def __len__(self) -> int: ...

    def inputs(self, indices: Tensor) -> Tensor:
        """(B, C, H, W) uint8 images or (B, F) float32 rows, in raw units."""
        ...


class MemorySplit:
    """A split whose inputs are all in memory.

    Parameters
    ----------
    data : Tensor (N, C, H, W) of uint8 or (N, F) of float32
        The inputs, in raw units.
    labels : Tensor (N,) of int64
        Their classes.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.data import MemorySplit
    >>> split = MemorySplit(torch.tensor([[0.5], [1.5]]), torch.tensor([0, 1]))
    >>> len(split), split.inputs(torch.tensor([1]))
    (2, tensor([[1.5000]]))
    """

    def __init__(self, data: Tensor, labels: Tensor) -> None:
        self.data = data
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        """The inputs of these examples, in raw units."""
        return self.data[indices]


class Subset:
    """Some examples of a split.

    Parameters
    ----------
    split : Split
        Where they come from.
    indices : Tensor (N,) of int64
        Which.
    """

    def __init__(self, split: Split, indices: Tensor) -> None:
        self.split, self.indices = split, indices
        self.labels = split.labels[indices]

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        """The inputs of these examples, in raw units."""
        return self.split.inputs(self.indices[indices])


@dataclass(frozen=True)
class Dataset:
    """A classification problem.

    Attributes
    ----------
    name : str
        As `load` takes it.
    kind : {"images", "table"}
        What an input is.
    classes : tuple of str
        Names of the classes, in the order of the labels.
    shape : (C, H, W) or (F,)
        Of one input.
    mean, std : Tensor (C, 1, 1) or (F,)
        Of the training split in raw units; std is 1 where constant.
    train, validation : Split
        The splits to look at.
    read_test : callable
        Reads ``test``.
    encoder : Encoder, optional
        What made numbers of a CSV table, or None.

    Examples
    --------
    >>> from exact_torch.data import load
    >>> digits = load("digits")
    >>> digits.kind, digits.shape, len(digits.classes), len(digits.test)
    ('images', (1, 8, 8), 10, 359)
    """

    name: str
    kind: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    mean: Tensor
    std: Tensor
    train: Split
    validation: Split
    read_test: Callable[[], Split]
    encoder: Any = None

    @cached_property
    def test(self) -> Split:
        """The test split, read from its files when it is first used."""
        return self.read_test()


def stratified(labels: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
    """Indices kept and indices held out: the same ones always, every class by its share.

    ``round(fraction * N)`` examples are held out (classes take turns by the largest remainder),
    but never the last example of a class. Both index tensors are sorted.

    Examples
    --------
    >>> kept, held = stratified(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), 0.25)
    >>> len(kept), len(held)
    (6, 2)
    """
    fraction = number("validation", fraction, least=0, below=1)
    size = len(labels)
    counts = torch.bincount(labels)
    shares = counts * fraction
    quota = shares.floor().long()
    rest = round(fraction * size) - int(quota.sum())
    if rest > 0:
        quota[torch.argsort(shares - quota, descending=True, stable=True)[:rest]] += 1
    quota = torch.minimum(quota, (counts - 1).clamp(min=0))
    generator = torch.Generator().manual_seed(_SPLIT_SEED + size)
    shuffled = torch.randperm(size, generator=generator)
    by_class = shuffled[torch.argsort(labels[shuffled], stable=True)]
    rank = torch.arange(size) - (counts.cumsum(0) - counts)[labels[by_class]]
    held = torch.zeros(size, dtype=torch.bool)
    held[by_class[rank < quota[labels[by_class]]]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def fewer(dataset: Dataset, examples: int) -> Dataset:
    """The data set with so many of its training examples: the same ones always, by class."""
    whole = len(dataset.train)
    if examples >= whole:
        return dataset
    _, kept = stratified(dataset.train.labels, examples / whole)
    return replace(dataset, train=Subset(dataset.train, kept))


def moments(data: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of training inputs, in the shapes that `Dataset` has.

    Examples
    --------
    >>> moments(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    (tensor([2., 5.]), tensor([1., 1.]))
    """
    if data.dtype == torch.uint8:
        # Exact, and without a float copy of the images: the counts of the 256 values.
        levels = torch.arange(256, dtype=torch.float64)
        counts = torch.stack([torch.bincount(c.flatten(), minlength=256) for c in data.unbind(1)])
        weights = counts.double() / counts.sum(1, keepdim=True)
        mean = weights @ levels
        std = (weights * (levels - mean[:, None]) ** 2).sum(1).sqrt()
        mean, std = mean[:, None, None], std[:, None, None]
    elif data.ndim == 4:  # images that are numbers already
        deviation, mean = torch.std_mean(data.double(), (0, 2, 3), correction=0)
        mean, std = mean[:, None, None], deviation[:, None, None]
    else:
        mean, std = data.double().mean(0), data.double().std(0, correction=0)
    std = torch.where(std > 1e-6 * mean.abs(), std, 1.0)
    return mean.float(), std.float()


def assemble(
    name: str,
    kind: str,
    classes: Sequence[str],
    data: Tensor,
    labels: Tensor,
    validation: float,
    read_test: Callable[[], Split],
    encoder: Any = None,
) -> Dataset:
    """A data set in memory: the training part split into training and validation."""
    kept, held = stratified(labels, validation)
    train = MemorySplit(data[kept], labels[kept])
    mean, std = moments(train.data)
    return Dataset(
        name,
        kind,
        tuple(classes),
        tuple(data.shape[1:]),
        mean,
        std,
        train,
        MemorySplit(data[held], labels[held]),
        read_test,
        encoder,
    )
