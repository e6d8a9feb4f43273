"""Mixup and cutmix: batches whose inputs are mixed in pairs, and the labels of both.

Mixup (Zhang et al. 2018) averages two inputs, cutmix (Yun et al. 2019) puts a rectangle of one
into the other.  The loss is the same average of the losses of both labels, for any loss.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Mixed", "mix"]


class Mixed(NamedTuple):
    """A mixed batch.

    Attributes
    ----------
    inputs : Tensor (B, ...)
    partners : Tensor (B,), which example is mixed into each
    share : of the example itself, at least a half; the rest is its partner's
    """

    inputs: Tensor
    partners: Tensor
    share: float


def mix(inputs: Tensor, kind: str, alpha: float, generator: torch.Generator) -> Mixed:
    """Return a batch mixed with a permutation of itself, with a share drawn from Beta(a, a).

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> mixed = mix(torch.arange(4.0)[:, None], "mixup", 1.0, generator)
    >>> mixed.inputs.shape, 0.5 <= mixed.share <= 1.0
    (torch.Size([4, 1]), True)
    """
    # A Beta variable is a ratio of Gamma variables.
    first, second = torch._standard_gamma(torch.full((2,), alpha), generator=generator).tolist()
    share = first / (first + second) if first + second > 0.0 else 1.0
    share = max(share, 1.0 - share)
    partners = torch.randperm(len(inputs), generator=generator)
    if kind == "mixup" or inputs.ndim != 4:
        wide = inputs.float()
        return Mixed(share * wide + (1.0 - share) * wide[partners], partners, share)
    height, width = inputs.shape[-2:]
    side = (1.0 - share) ** 0.5
    top, left = (
        int(torch.randint(size, (), generator=generator)) - round(side * size / 2)
        for size in (height, width)
    )
    rows = slice(max(top, 0), min(top + round(side * height), height))
    columns = slice(max(left, 0), min(left + round(side * width), width))
    mixed = inputs.clone()
    mixed[..., rows, columns] = inputs[partners][..., rows, columns]
    area = (rows.stop - rows.start) * (columns.stop - columns.start)
    return Mixed(mixed, partners, 1.0 - area / (height * width))
