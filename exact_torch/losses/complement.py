"""Complement objective training: cross-entropy, and even probabilities for the wrong classes.

Chen et al. (2019).
"""

from typing import Any

import torch
from torch import Tensor, nn

from exact_torch.losses._logits import checked, false
from exact_torch.losses._module import Loss
from exact_torch.losses.cross_entropy import ce


def complement(logits: Tensor, labels: Tensor, normalised: bool = False) -> Tensor:
    """Minus the entropy of the wrong classes, sum_{j != y} q_j log q_j, q_j = p_j / (1 - p_y).

    Minimised, so that the entropy is maximised; it does not depend on z_y.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    normalised : bool
        Divide by C - 1, to balance it with cross-entropy where classes are many.

    Returns
    -------
    (B,) Tensor
        From -log(C - 1), where the wrong classes are even, to 0.

    Examples
    --------
    >>> import torch
    >>> complement(torch.zeros(1, 5), torch.tensor([0]))  # -log 4
    tensor([-1.3863])
    """
    log_q = torch.log_softmax(false(checked(logits, labels), labels), 1)
    # The true class has log q = -inf: 0 in its place, before the product with q = 0.
    finite = log_q.masked_fill(log_q == -torch.inf, 0.0)
    values = (torch.exp(log_q) * finite).sum(1)
    return values / (logits.shape[1] - 1) if normalised else values


class Complement(Loss):
    """Cross-entropy and ``complement``, one step on each a batch.

    ``phases`` has the two losses.  Called itself it is their sum, for those who take one step.

    Parameters
    ----------
    normalised : bool
        See ``complement``.
    reduction, weight, ignore_index
        See ``Loss``.

    Examples
    --------
    >>> from exact_torch import losses
    >>> losses.get("cot").phases
    (Loss(ce, reduction='mean'), Loss(complement, normalised=False, reduction='mean'))
    """

    def __init__(
        self,
        normalised: bool = False,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        common: tuple[Any, ...] = (reduction, weight, ignore_index)
        super().__init__(complement, {"normalised": normalised}, *common)
        phases = (Loss(ce, None, *common), Loss(complement, self.options, *common))
        self._phases = nn.ModuleList(phases)

    @property
    def phases(self) -> tuple[nn.Module, ...]:
        return tuple(self._phases)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The sum of the two losses."""
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()  # before gradients are added
        first, second = self._phases
        return first(logits, labels) + second(logits, labels)
