"""Augmentation by name: classes of torchvision.transforms.v2 on one uint8 image.

| name | what | where it comes from |
|---|---|---|
| flip | left-right, probability 1/2 | both EXACT papers' CIFAR, the mixing paper |
| crop | 4 black pixels around, then a random window of the image's size | the mixing paper |
| autoaugment | AutoAugment's CIFAR-10 policy | EXACT, first version: every set |
| affine | rotation within 20°, translation within 0.2 of the size | EXACT, later version: MNIST |
| rotate | rotation within 15° | the mixing paper's CINIC-10 (no angle is given there) |
| erase | a random rectangle made black, probability 1/2 | the mixing paper's extra regularisation |
| jitter | brightness, contrast, saturation by up to 0.4, hue by up to 0.1 | the same |
| resized_crop | 8 % to 100 % of the area, resized to ``size`` | ImageNet |
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from exact_torch._arguments import choice

Size = tuple[int, ...]

_NAMED: dict[str, Callable[[Any, Any], Any]] = {
    "flip": lambda v2, size: v2.RandomHorizontalFlip(),
    "crop": lambda v2, size: v2.RandomCrop(size, padding=4),
    "autoaugment": lambda v2, size: v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
    "affine": lambda v2, size: v2.RandomAffine(20, translate=(0.2, 0.2)),
    "rotate": lambda v2, size: v2.RandomRotation(15),
    "erase": lambda v2, size: v2.RandomErasing(p=0.5),
    "jitter": lambda v2, size: v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
    "resized_crop": lambda v2, size: v2.RandomResizedCrop(size, antialias=True),
}


class Composed:
    """Transforms one after another; a class, so that worker processes can be given it."""

    def __init__(self, transforms: Sequence[Callable[[Tensor], Tensor]]) -> None:
        self.transforms = tuple(transforms)

    def __call__(self, image: Tensor) -> Tensor:
        for transform in self.transforms:
            image = transform(image)
        return image


def augmentations() -> tuple[str, ...]:
    """The names that `compose` takes.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from exact_torch.data import augmentations
    >>> "flip" in augmentations()
    True
    """
    return tuple(_NAMED)


def compose(names: Sequence[str], size: Size | None = None) -> Callable[[Tensor], Tensor] | None:
    """Named augmentations one after another: (C, H, W) uint8 to uint8; None if there are none.

    Parameters
    ----------
    names : sequence of str
        Of `augmentations`, in the order in which they are applied.
    size : (H, W), optional
        Of the result, which "crop" and "resized_crop" need; ``dataset.shape[1:]``.

    Returns
    -------
    callable, or None

    Examples
    --------
    >>> import torch
    >>> from exact_torch.data import compose
    >>> augment = compose(["flip", "crop"], size=(8, 8))
    >>> augment(torch.zeros(1, 8, 8, dtype=torch.uint8)).shape
    torch.Size([1, 8, 8])
    """
    if isinstance(names, str):
        raise TypeError(f"names must be a sequence of names, got the string {names!r}")
    chosen = [choice("augmentation", name, _NAMED) for name in names]
    for name in chosen:
        if name in ("crop", "resized_crop") and (size is None or len(size) != 2):
            raise ValueError(f"{name} needs size=(height, width), got {size!r}")
    if not chosen:
        return None
    from exact_torch._torchvision import v2  # seconds to import, and tables do not need it

    return Composed([_NAMED[name](v2, size) for name in chosen])
