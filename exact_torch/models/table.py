"""Networks for tables: a linear one, and one with a hidden layer.

"linear" is the linear classifier of both papers with experiments on tables.  The later version of
EXACT fits C - 1 outputs and gives class 0 the score 0, option ``reference``.  "hidden" is the
other network of the mixing paper: I x I, ReLU, I x C for I inputs.
"""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from exact_torch.heads import GaussianScores

__all__ = ["ReferenceClass", "hidden", "linear"]


def linear(
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module],
    *,
    reference: bool = False,
) -> nn.Module:
    """Scores linear in the inputs; with ``reference`` that of class 0 is 0 and has no weights."""
    inputs = math.prod(input_shape)
    if reference:
        return nn.Sequential(nn.Flatten(), ReferenceClass(head(inputs, num_classes - 1)))
    return nn.Sequential(nn.Flatten(), head(inputs, num_classes))


def hidden(
    num_classes: int, input_shape: tuple[int, ...], head: Callable[[int, int], nn.Module]
) -> nn.Module:
    """One hidden layer as wide as the input, with ReLU."""
    inputs = math.prod(input_shape)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, inputs), nn.ReLU(inplace=True), head(inputs, num_classes)
    )


class ReferenceClass(nn.Module):
    """A head's C - 1 scores with a 0 before them, the score of class 0.

    A head's sigma is that of all C scores: also the score of class 0 is random, around 0.
    """

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, x: Tensor) -> Any:
        scores = self.head(x)
        if isinstance(scores, GaussianScores):
            return GaussianScores(F.pad(scores.mean, (1, 0)), scores.sigma)
        return F.pad(scores, (1, 0))
