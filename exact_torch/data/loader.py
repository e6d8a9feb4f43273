"""Batches in a given order, augmented image by image.

What happens to an image depends on the seed and the image's index alone, so a batch is the same
whatever came before it, in whatever process it is made, and whatever the number of workers.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from exact_torch.data.dataset import Split
from mvnorth._interface import whole_number

Transform = Callable[[Tensor], Tensor]
_MASK = (1 << 64) - 1


def batches(
    split: Split,
    order: Sequence[Tensor],
    transform: Transform | None = None,
    seed: int = 0,
    workers: int = 0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and labels of the batches whose indices ``order`` holds, in that order.

    Parameters
    ----------
    split : Split
        Where the examples come from.
    order : sequence of Tensor (B,) of int64
        For every batch, the indices of its examples.
    transform : callable, optional
        Of one image (C, H, W) uint8; drawn with torch's generator, which is seeded from ``seed``
        and the index for each image and left as it was.
    seed : int
        Another one in each epoch.
    workers : int
        Processes that make batches ahead; 0 makes them here.

    Returns
    -------
    iterator of (Tensor, Tensor)
        Inputs and labels.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.data import batches, load
    >>> order = torch.arange(6).split(3)
    >>> for images, labels in batches(load("digits").train, order):
    ...     print(images.shape, labels.shape)
    torch.Size([3, 1, 8, 8]) torch.Size([3])
    torch.Size([3, 1, 8, 8]) torch.Size([3])
    """
    made = _Batches(split, order, transform, whole_number("seed", seed, at_least=0))
    if whole_number("workers", workers, at_least=0) == 0 or not len(order):
        return (made[number] for number in range(len(made)))
    loader = torch.utils.data.DataLoader(
        made,
        batch_size=None,
        num_workers=workers,
        generator=torch.Generator(),  # its own: the global one is not to be moved
    )
    return iter(loader)


class _Batches(torch.utils.data.Dataset):
    """The batches as a sequence, which worker processes index."""

    def __init__(
        self, split: Split, order: Sequence[Tensor], transform: Transform | None, seed: int
    ) -> None:
        self.split = split
        self.order = order
        self.transform = transform
        self.seed = seed

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        indices = self.order[number]
        inputs = self.split.inputs(indices)
        if self.transform is not None:
            inputs = augmented(inputs, indices, self.transform, self.seed)
        return inputs, self.split.labels[indices]


def augmented(inputs: Tensor, indices: Tensor, transform: Transform, seed: int) -> Tensor:
    """``transform`` of every image, each with the random numbers of its seed and index.

    Examples
    --------
    >>> images = torch.zeros(2, 1, 1, 1)
    >>> noisy = augmented(images, torch.tensor([7, 8]), lambda x: x + torch.rand(()), seed=1)
    >>> again = augmented(images[:1], torch.tensor([8]), lambda x: x + torch.rand(()), seed=1)
    >>> bool(noisy[1] == again[0])
    True
    """
    generator = torch.default_generator
    state = generator.get_state()
    try:
        results = []
        for image, index in zip(inputs, indices.tolist(), strict=True):
            # of the generator itself: torch.manual_seed would also seed every other device's
            generator.manual_seed(_mixed(seed, index))
            results.append(transform(image))
    finally:
        generator.set_state(state)
    return torch.stack(results) if results else inputs


def _mixed(seed: int, index: int) -> int:
    """32 bits that look independent for every pair (torch's CPU generator takes no more).

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014), once for the seed, once for the index.
    """
    state = 0
    for word in (seed, index):
        state = (state + word + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 32
