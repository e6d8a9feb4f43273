"""ResNet-18 for images of 32 x 32 (He, Zhang, Ren and Sun 2016), as it is trained on CIFAR.

The stem is one 3 x 3 convolution without pooling; four stages of two basic blocks with 64, 128, 256
and 512 channels follow, the last three of which halve the image. 11.2 million weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Block(nn.Module):
    """Two 3 x 3 convolutions, and the input added to what they make of it."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(inputs, channels, 3, stride),
            nn.ReLU(inplace=True),
            *_convolution(channels, channels, 3, 1),
        )
        same = inputs == channels and stride == 1
        self.skip = nn.Sequential(*([] if same else _convolution(inputs, channels, 1, stride)))

    def forward(self, x: Any) -> Any:
        return torch.relu_(self.body(x) + self.skip(x))


def resnet18(classes: int, width: int = 64) -> nn.Module:
    """Scores (B, classes) of images (B, 3, H, W); ``width`` is the channels of the first stage."""
    layers = [*_convolution(3, width, 3, 1), nn.ReLU(inplace=True)]
    inputs = width
    for stage in range(4):
        for stride in (2 if stage else 1, 1):
            layers.append(Block(inputs, width << stage, stride))
            inputs = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def _convolution(inputs: int, channels: int, size: int, stride: int) -> list[nn.Module]:
    kernel = nn.Conv2d(inputs, channels, size, stride, padding=size // 2, bias=False)
    return [kernel, nn.BatchNorm2d(channels)]
