"""From a config to what is trained: the network with its first layer, and the loss."""

import functools
from typing import Any

import torch
from torch import Tensor, nn

from exact_torch import _arguments, losses, models
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
        # Larger images are the same without it, and ONNX files do not have it.
        antialias = self.size < max(scaled.shape[-2:])
        return nn.functional.interpolate(
            scaled, size=(self.size, self.size), mode="bilinear", antialias=antialias
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
        initial = config.loss_options.get("sigma", "auto")
        if isinstance(initial, list) or (isinstance(initial, str) and initial != "auto"):
            raise ValueError(
                "a predicted sigma has no schedule: loss_options.sigma must be the number it "
                f"starts at, got {initial!r}"
            )
        initial = None if initial == "auto" else initial
        head = functools.partial(GaussianHead, sigma="predicted", initial=initial)
    model = models.get(config.model, classes, shape, head, **config.model_options)
    return nn.Sequential(Prepare(mean, std, config.image_size), model)


def loss_of(config: Config) -> nn.Module:
    """The loss, its schedules made of what a config can hold."""
    options = dict(config.loss_options)
    reduction = options.get("reduction", "mean")
    if reduction == "none" or (reduction == "sum" and config.accumulate > 1):
        raise ValueError(f'loss_options.reduction must be "mean" in training, got {reduction!r}')
    if options.get("synchronize"):
        raise ValueError("loss_options.synchronize is not needed: scores of processes are gathered")
    if config.loss == "exact":
        for name, kind in (("sigma", SigmaSchedule), ("margin", MarginSchedule)):
            if name in options and options[name] != "auto":
                options[name] = _schedule(f"loss_options.{name}", kind, options[name])
    if options.get("weight") is not None:
        options["weight"] = _weights("loss_options.weight", options["weight"])
    return losses.get(config.loss, **options)


def _schedule(name: str, kind: Any, value: Any) -> Any:
    if not isinstance(value, (str, list, tuple)):
        return value
    wanted = f"{name} must be a number, [start, stop] or the name of a published schedule"
    if not isinstance(value, str) and len(value) not in (2, 3):
        raise ValueError(f"{wanted}, got {value!r}")
    try:
        return kind.named(value) if isinstance(value, str) else kind(*value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, got {value!r}: {error}") from error


def _weights(name: str, value: Any) -> Tensor:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a list of numbers, one a class, got {value!r}")
    numbers = [_arguments.number(f"each of {name}", weight, least=0) for weight in value]
    return torch.tensor(numbers, dtype=torch.float32)
