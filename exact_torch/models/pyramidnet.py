"""Pyramidal residual networks for 32 x 32: Han, Kim & Kim, "Deep pyramidal residual networks"
(2017), additive, with bottlenecks.

The number of maps grows by alpha / N with each of the N = (depth - 2) / 3 blocks, from 16; a
bottleneck puts out four times as many.  A block is BN, 1 x 1, BN, ReLU, 3 x 3, BN, ReLU, 1 x 1,
BN: no ReLU before the first convolution or after the sum.  Shortcuts have no weights: maps of
zeros are appended, and 2 x 2 averages taken where the size halves.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exact_torch import _arguments
from mvnorth._interface import whole_number

__all__ = ["PyramidNet", "pyramidnet"]


def pyramidnet(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    depth: int,
    alpha: float,
) -> nn.Module:
    """PyramidNet-depth with bottlenecks, ``alpha`` maps more at the end than at the start."""
    blocks, rest = divmod(whole_number("depth", depth, at_least=11) - 2, 9)
    if rest:
        raise ValueError(f"depth must be 9 n + 2, got {depth}")
    growth = _arguments.number("alpha", alpha, least=0) / (3 * blocks)
    return PyramidNet(num_classes, input_shape[0], head, blocks, growth)


class PyramidNet(nn.Module):
    """See the file's head; ``growth`` maps more with each of the 3 x ``blocks`` blocks."""

    def __init__(
        self,
        num_classes: int,
        channels: int,
        head: Callable[[int, int], nn.Module],
        blocks: int,
        growth: float,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        before, body = 16, []
        for number in range(3 * blocks):
            maps = round(16 + growth * (number + 1))
            body.append(
                _Bottleneck(before, maps, stride=2 if number in (blocks, 2 * blocks) else 1)
            )
            before = 4 * maps
        self.body = nn.Sequential(*body)
        self.norm2 = nn.BatchNorm2d(before)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = head(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(self.norm1(self.first(x)))
        return self.head(F.relu(self.norm2(x), inplace=True).mean((2, 3)))


class _Bottleneck(nn.Module):
    def __init__(self, before: int, maps: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, maps, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(maps)
        self.conv2 = nn.Conv2d(maps, maps, 3, stride, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(maps)
        self.conv3 = nn.Conv2d(maps, 4 * maps, 1, bias=False)
        self.norm4 = nn.BatchNorm2d(4 * maps)
        self.shortcut = nn.AvgPool2d(2, ceil_mode=True) if stride == 2 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(self.norm1(x))
        out = self.conv2(F.relu(self.norm2(out), inplace=True))
        out = self.norm4(self.conv3(F.relu(self.norm3(out), inplace=True)))
        shortcut = self.shortcut(x)
        same = shortcut.shape[1]
        return torch.cat((out[:, :same] + shortcut, out[:, same:]), 1)
