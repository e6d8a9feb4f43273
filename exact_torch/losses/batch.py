"""Losses of a whole batch: true logits are compared with the false ones of all its examples.

Keren, Sabato and Schuller (2019), who show that they separate logits across examples.
"""

import math

import torch
from torch import Tensor

from exact_torch._arguments import number
from exact_torch.losses._logits import checked, false, true
from exact_torch.losses.margin import max_margin


def _not_empty(logits: Tensor) -> None:
    if logits.shape[0] == 0:
        raise ValueError("a loss of the batch needs at least one example, got none")


def batch_ce(logits: Tensor, labels: Tensor) -> Tensor:
    """Batch cross-entropy, KL(P || Q): one value for the batch.

    P is 1/B at the true entries, Q the softmax over the B C logits of the batch together.  With
    one example it is its cross-entropy.  The authors' code adds 1e-6 to Q in the logarithm, which
    takes the gradient away where it is needed most; here nothing is added.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers

    Returns
    -------
    0-d Tensor
        At least 0, to rounding.

    Examples
    --------
    >>> import torch
    >>> batch_ce(torch.zeros(2, 4), torch.tensor([0, 1]))  # log(2 * 4) - log(2)
    tensor(1.3863)
    """
    logits = checked(logits, labels)
    _not_empty(logits)
    log_q = torch.log_softmax(logits.flatten(), 0).view_as(logits)
    return -math.log(len(logits)) - true(log_q, labels).mean()


def batch_max_margin(logits: Tensor, labels: Tensor, gamma: float = 1.0) -> Tensor:
    """Batch max-margin, one value: that of the batch's extremes / B, and the mean of max-margin.

    ``max(0, gamma - z_true + z_false) / B`` + mean of ``max_margin``, with z_true the smallest true
    logit of the batch and z_false the largest false one.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    gamma : float
        The margin, positive.

    Returns
    -------
    0-d Tensor

    Examples
    --------
    >>> import torch
    >>> batch_max_margin(torch.tensor([[4.0, 2.0], [-4.0, -2.0]]), torch.tensor([0, 1]))
    tensor(2.5000)
    """
    number("gamma", gamma, above=0)
    logits = checked(logits, labels)
    _not_empty(logits)
    overlap = false(logits, labels).amax() - true(logits, labels).amin()
    return torch.relu(gamma + overlap) / len(logits) + max_margin(logits, labels, gamma).mean()
