"""Residual networks for 32 x 32: He et al., "Deep residual learning" (2016), section 4.2.

A 3 x 3 convolution, three stages of (depth - 2) / 6 blocks with 16, 32 and 64 maps, average
pooling.  Shortcuts have no weights (their option A): every second pixel and maps of zeros where
the shape changes.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from mvnorth._interface import whole_number

__all__ = ["ResNetCifar", "resnet_cifar"]


def resnet_cifar(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    depth: int,
) -> nn.Module:
    """ResNet-depth for small images."""
    blocks, rest = divmod(whole_number("depth", depth, at_least=8) - 2, 6)
    if rest:
        raise ValueError(f"depth must be 6 n + 2, got {depth}")
    return ResNetCifar(num_classes, input_shape[0], head, blocks)


class ResNetCifar(nn.Module):
    """See the file's head; ``blocks`` of them in each of the three stages."""

    def __init__(
        self,
        num_classes: int,
        channels: int,
        head: Callable[[int, int], nn.Module],
        blocks: int,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        before, body = 16, []
        for maps in (16, 32, 64):
            for _ in range(blocks):
                body.append(_Block(before, maps))
                before = maps
        self.body = nn.Sequential(*body)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = head(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)), inplace=True)
        return self.head(self.body(x).mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride = 1 if before == after else 2
        self.appended = after - before
        self.conv1 = nn.Conv2d(before, after, 3, self.stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)), inplace=True)
        out = self.norm2(self.conv2(out))
        if self.appended:
            half = self.appended // 2
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, self.appended - half))
        return F.relu(out + x, inplace=True)
