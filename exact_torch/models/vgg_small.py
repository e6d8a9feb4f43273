"""The network for MNIST of the later version of EXACT.

Its paper says that it is like VGG; its code (ivan-chai/exact, "vgg_m3") takes model M3 of An et
al., "An ensemble of simple convolutional neural network models for MNIST digit recognition"
(2020): ten 3 x 3 convolutions without padding and without bias, 32, 48, ..., 176 maps, each with
batch normalisation and ReLU.  It goes on with average pooling and batch normalisation of the
features, its defaults; An et al. flatten.  Which of its options the published runs had is not
published: taking the defaults is ours.
"""

from collections.abc import Callable

from torch import nn

__all__ = ["vgg_mnist"]

_LAYERS = 10


def vgg_mnist(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    width: int = 32,
) -> nn.Module:
    """The network described above; ``width`` maps in its first layer, half as many more in each."""
    if min(input_shape[1:]) <= 2 * _LAYERS:
        raise ValueError(
            f"input_shape must have more than {2 * _LAYERS} rows and columns for 'vgg_mnist', "
            f"got {input_shape}"
        )
    before, layers = input_shape[0], []
    for number in range(_LAYERS):
        after = width + number * width // 2
        layers += [
            nn.Conv2d(before, after, 3, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]
        before = after
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.BatchNorm1d(before),
        head(before, num_classes),
    )
