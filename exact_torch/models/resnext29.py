"""ResNeXt-29 for 32 x 32: Xie et al., "Aggregated residual transformations" (2017), section 5.3.

A 3 x 3 convolution of 64 maps, three stages of three bottlenecks with 256, 512 and 1024 outputs,
average pooling.  A bottleneck is a 1 x 1, a grouped 3 x 3 and a 1 x 1 convolution; the groups are
``base`` wide in the first stage, twice that in the next.  Shortcuts that change the shape are
1 x 1 convolutions.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["ResNext29", "resnext29"]


def resnext29(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    groups: int = 8,
    base: int = 64,
) -> nn.Module:
    """ResNeXt-29, groups x base."""
    return ResNext29(num_classes, input_shape[0], head, groups, base)


class ResNext29(nn.Module):
    """See the file's head."""

    def __init__(
        self,
        num_classes: int,
        channels: int,
        head: Callable[[int, int], nn.Module],
        groups: int,
        base: int,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        before, body = 64, []
        for stage in range(3):
            inner, after = groups * base * 2**stage, 256 * 2**stage
            for number in range(3):
                stride = 2 if stage > 0 and number == 0 else 1
                body.append(_Bottleneck(before, inner, after, groups, stride))
                before = after
        self.body = nn.Sequential(*body)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = head(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)), inplace=True)
        return self.head(self.body(x).mean((2, 3)))


class _Bottleneck(nn.Module):
    def __init__(self, before: int, inner: int, after: int, groups: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, inner, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, after, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if before != after or stride != 1:
            self.shortcut.append(nn.Conv2d(before, after, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norm1(self.conv1(x)), inplace=True)
        out = F.relu(self.norm2(self.conv2(out)), inplace=True)
        return F.relu(self.norm3(self.conv3(out)) + self.shortcut(x), inplace=True)
