"""Losses of the lead of the true logit over the others, with a margin."""

import torch
from torch import Tensor

from exact_torch._arguments import number
from exact_torch.losses._logits import checked, false, lead, true


def max_margin(logits: Tensor, labels: Tensor, gamma: float = 1.0) -> Tensor:
    """Max-margin loss, max(0, gamma - z_y + max_{j != y} z_j).

    Crammer and Singer (2001).  Equal largest competitors share the gradient.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    gamma : float
        The margin, positive.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> max_margin(torch.tensor([[1.0, 0.5, -2.0]]), torch.tensor([0]))
    tensor([0.5000])
    """
    number("gamma", gamma, above=0)
    logits = checked(logits, labels)
    return torch.relu(gamma + (false(logits, labels).amax(1) - true(logits, labels)))


def hinge(logits: Tensor, labels: Tensor, gamma: float = 1.0) -> Tensor:
    """Hinge loss, the mean over the C - 1 competitors of max(0, gamma - z_y + z_j).

    Weston and Watkins (1999) sum; ``torch.nn.functional.multi_margin_loss`` divides by C.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    gamma : float
        The margin, positive.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> hinge(torch.tensor([[1.0, 0.5, -2.0]]), torch.tensor([0]))
    tensor([0.2500])
    """
    number("gamma", gamma, above=0)
    return torch.relu(gamma - lead(checked(logits, labels), labels)).mean(1)
