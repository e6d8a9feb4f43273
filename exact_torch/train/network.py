"""From a config to what is trained: the network with its first layer, and the loss."""

import functools
from typing import Any

from torch import Tensor, nn

from exact_torch import losses, models
from exact_torch.heads import GaussianHead
from exact_torch.schedules import MarginSchedule, SigmaSchedule
from exact_torch.train.config import Config

__all__ = ["Prepare", "loss_of", "network_of"]


class Prepare(nn.Module):
    """Raw pixels or features to what a network takes: standardised, and images of one size.

    It is the first layer of every trained network, so that an exported one takes raw input.

    Parameters
    ----------
    mean, std : Tensor
        (C, 1, 1) of channels, or (F,) of features.
    size : int, optional
        Images are scaled to this width and height.

    Examples
    --------
    >>> import torch
    >>> prepare = Prepare(torch.full((1, 1, 1), 128.0), torch.full((1, 1, 1), 64.0))
    >>> prepare(torch.full((1, 1, 1, 2), 192, dtype=torch.uint8))
    tensor([[[[1., 1.]]]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, size: int | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("std", std.float())
        self.size = size

    def forward(self, inputs: Tensor) -> Tensor:
        scaled = (inputs.to(self.mean.dtype) - self.mean) / self.std
        if self.size is None or scaled.shape[-2:] == (self.size, self.size):
            return scaled
        return nn.functional.interpolate(
            scaled, size=(self.size, self.size), mode="bilinear", antialias=True
        )


def network_of(
    config: Config, classes: int, shape: tuple[int, ...], mean: Tensor, std: Tensor
) -> nn.Sequential:
    """The network for inputs of a shape, with weights from torch's generator."""
    if config.image_size is not None:
        if len(shape) != 3:
            raise ValueError(f"image_size is for images, got {config.data!r} with shape {shape}")
        shape = (shape[0], config.image_size, config.image_size)
    head = None
    if config.head == "predicted":
        initial = config.loss_options.get("sigma", 1.0)
        head = functools.partial(GaussianHead, sigma="predicted", initial=initial)
    model = models.get(config.model, classes, shape, head, **config.model_options)
    return nn.Sequential(Prepare(mean, std, config.image_size), model)


def loss_of(config: Config) -> nn.Module:
    """The loss, its schedules made of what a config can hold."""
    options = dict(config.loss_options)
    if config.loss == "exact":
        if "sigma" in options:
            options["sigma"] = _schedule(SigmaSchedule, options["sigma"])
        if "margin" in options:
            options["margin"] = _schedule(MarginSchedule, options["margin"])
    return losses.get(config.loss, **options)


def _schedule(kind: Any, value: Any) -> Any:
    if isinstance(value, str):
        return kind.named(value)
    return kind(*value) if isinstance(value, (list, tuple)) else value
