"""ResNet-18 with pre-activation for 32 x 32: He et al., "Identity mappings in deep residual
networks" (2016), in the form for CIFAR that the mixing paper's tables have.

A 3 x 3 convolution, four stages of two blocks with 64, 128, 256 and 512 maps, average pooling.
Where the shape changes, the shortcut is a 1 x 1 convolution of the pre-activated input.  As in the
code most tables were made with (kuangliu/pytorch-cifar) nothing normalises the last sum.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["PreActResNet", "preact_resnet"]


def preact_resnet(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    width: int = 64,
) -> nn.Module:
    """PreAct-ResNet-18; ``width`` is the number of maps of its first stage."""
    return PreActResNet(num_classes, input_shape[0], head, width)


class PreActResNet(nn.Module):
    """See the file's head."""

    def __init__(
        self,
        num_classes: int,
        channels: int,
        head: Callable[[int, int], nn.Module],
        width: int,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        before, body = width, []
        for stage in range(4):
            maps = width * 2**stage
            body += [_Block(before, maps, 1 if stage == 0 else 2), _Block(maps, maps, 1)]
            before = maps
        self.body = nn.Sequential(*body)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = head(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.first(x)).mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        changes = before != after or stride != 1
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x), inplace=True)
        out = self.conv2(F.relu(self.norm2(self.conv1(active)), inplace=True))
        return out + (x if self.shortcut is None else self.shortcut(active))
