"""What the losses read from logits: the true one, the others, and the odds between them."""

import torch
from torch import Tensor

from exact_torch import _checks


def checked(logits: Tensor, labels: Tensor) -> Tensor:
    """The logits, in single precision where they come in half; raises if they do not fit labels.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers

    Returns
    -------
    (B, C) Tensor
    """
    _checks.scores_and_labels(logits, labels)
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def true(values: Tensor, labels: Tensor) -> Tensor:
    """The entry of each row's label, (B,)."""
    return values.gather(1, labels.long()[:, None])[:, 0]


def false(values: Tensor, labels: Tensor) -> Tensor:
    """Values with minus infinity in place of the true entries, (B, C): for maxima and sums of exp.

    Not for products, in which 0 * inf would be NaN.
    """
    return values.scatter(1, labels.long()[:, None], -torch.inf)


def lead(values: Tensor, labels: Tensor) -> Tensor:
    """The true entry minus each of the others, (B, C - 1)."""
    rows, classes = values.shape
    others = torch.arange(classes - 1, device=values.device).expand(rows, -1)
    others = others + (others >= labels[:, None])
    return true(values, labels)[:, None] - values.gather(1, others)


def log_odds_against(logits: Tensor, labels: Tensor) -> Tensor:
    """log((1 - p_y) / p_y) with p the softmax, (B,).

    Losses of p_y are written in it, because -log p_y = softplus(odds) and 1 - p_y = sigmoid(odds)
    keep their digits, and their gradients, where p_y rounds to 0 and where it rounds to 1.
    """
    return torch.logsumexp(false(logits, labels), 1) - true(logits, labels)
