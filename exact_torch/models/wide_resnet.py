"""Wide residual networks for 32 x 32: Zagoruyko & Komodakis, "Wide residual networks" (2016).

A 3 x 3 convolution of 16 maps, three stages of pre-activated blocks B(3, 3) with 16 k, 32 k and
64 k maps, batch normalisation, ReLU, average pooling.  WRN-depth-k has (depth - 4) / 6 blocks in
a stage.  Where the number of maps changes, the shortcut is a 1 x 1 convolution of the
pre-activated input.  Convolutions start as He et al. 2015 have it, from the number of outputs.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from mvnorth._interface import whole_number

__all__ = ["WideResNet", "wide_resnet"]


def wide_resnet(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    depth: int,
    width: int,
    dropout: float = 0.0,
) -> nn.Module:
    """WRN-depth-width; ``dropout`` is between the two convolutions of a block."""
    blocks, rest = divmod(whole_number("depth", depth, at_least=10) - 4, 6)
    if rest:
        raise ValueError(f"depth must be 6 n + 4, got {depth}")
    return WideResNet(num_classes, input_shape[0], head, blocks, width, dropout)


class WideResNet(nn.Module):
    """See the file's head; ``blocks`` of them in each of the three stages."""

    def __init__(
        self,
        num_classes: int,
        channels: int,
        head: Callable[[int, int], nn.Module],
        blocks: int,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        before, body = 16, []
        for stage, maps in enumerate((16 * width, 32 * width, 64 * width)):
            for number in range(blocks):
                stride = 2 if stage > 0 and number == 0 else 1
                body.append(_Block(before, maps, stride, dropout))
                before = maps
        self.body = nn.Sequential(*body)
        self.norm = nn.BatchNorm2d(before)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = head(before, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.body(self.first(x))), inplace=True)
        return self.head(x.mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        changes = before != after or stride != 1
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x), inplace=True)
        out = self.dropout(F.relu(self.norm2(self.conv1(active)), inplace=True))
        return self.conv2(out) + (x if self.shortcut is None else self.shortcut(active))
