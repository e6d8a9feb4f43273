"""The two networks of Keren, Sabato & Schuller, "Analysis of loss functions for fast single-class
classification" (2020), section 6.1.

"mlp500", for MNIST: two layers of 500 units.  "cnn6", for SVHN and CIFAR: convolutions of 5 x 5,
1 x 1, 5 x 5, 1 x 1, 5 x 5, 1 x 1 with 128, 128, 256, 256, 512 and 512 maps, max pooling of 3 x 3
with stride 2 after the second, fourth and sixth, a layer of 1024 units.  Batch normalisation and
ReLU follow every layer but the last.

The paper does not say how borders are padded: here so that convolutions keep the size and pooling
halves it.  Layers before batch normalisation have no bias, which it would take away again.
"""

import math
from collections.abc import Callable

from torch import nn

__all__ = ["cnn6", "mlp500"]

_CONVOLUTIONS = ((128, 5), (128, 1), (256, 5), (256, 1), (512, 5), (512, 1))


def mlp500(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    width: int = 500,
) -> nn.Module:
    """Two hidden layers of ``width`` units; takes images and tables."""
    return nn.Sequential(
        nn.Flatten(),
        *_dense(math.prod(input_shape), width),
        *_dense(width, width),
        head(width, num_classes),
    )


def cnn6(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    width: int = 128,
) -> nn.Module:
    """Six convolutions and a dense layer; ``width`` maps in the first, 8 times as many units."""
    channels, rows, columns = input_shape
    layers: list[nn.Module] = []
    for number, (maps, kernel) in enumerate(_CONVOLUTIONS):
        after = maps * width // 128
        layers += [
            nn.Conv2d(channels, after, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]
        if number % 2:
            layers.append(nn.MaxPool2d(3, stride=2, padding=1))
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        channels = after
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        *_dense(channels * rows * columns, 8 * width),
        head(8 * width, num_classes),
    )


def _dense(before: int, after: int) -> list[nn.Module]:
    return [nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.ReLU(inplace=True)]
