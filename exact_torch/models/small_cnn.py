"""A small convolutional network for CPUs and small images.  Ours; no paper's results stand on it.

Three 3 x 3 convolutions of 24, 48 and 96 maps, each with batch normalisation and ReLU, the first
two followed by max pooling, the last by average pooling to 2 x 2, so that any size of at least
4 x 4 will do.
"""

from collections.abc import Callable

from torch import nn

from mvnorth._interface import whole_number

__all__ = ["small_cnn"]


def small_cnn(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    width: int = 24,
) -> nn.Module:
    """The network described above; ``width`` is the number of maps of its first layer."""
    width = whole_number("width", width, at_least=1)
    maps = (width, 2 * width, 4 * width)
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(zip((input_shape[0], *maps), maps, strict=False)):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2) if number < 2 else nn.AdaptiveAvgPool2d(2),
        ]
    return nn.Sequential(*layers, nn.Flatten(), head(4 * maps[-1], num_classes))
