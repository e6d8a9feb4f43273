"""The expected error 1 - p_y and losses like it: bounded, so that no example can dominate.

p is the softmax: the probability that class y wins if Gumbel noise is added to the logits.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from exact_torch._arguments import number
from exact_torch.losses._logits import checked, log_odds_against


def expectation(logits: Tensor, labels: Tensor, hard: bool = False) -> Tensor:
    """Expectation loss, 1 - p_y.

    Battash, Wolf and Hazan (2021).

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    hard : bool
        As in the authors' code: the value is the error, 0 or 1, with the gradient of 1 - p_y.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[0.6, 0.3, 0.1]]).log()
    >>> expectation(logits, torch.tensor([1]))
    tensor([0.7000])
    >>> expectation(logits, torch.tensor([1]), hard=True)
    tensor([1.])
    """
    logits = checked(logits, labels)
    soft = torch.exp(logsigmoid(log_odds_against(logits, labels)))
    if not hard:
        return soft
    wrong = (logits.argmax(1) != labels).to(soft.dtype)
    return wrong + (soft - soft.detach())


def mae(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean absolute error, the 1-norm of onehot(y) - p, which is 2 (1 - p_y).

    Ghosh, Kumar and Sastry (2017).

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> mae(torch.tensor([[0.6, 0.3, 0.1]]).log(), torch.tensor([1]))
    tensor([1.4000])
    """
    return 2 * expectation(logits, labels)


def gce(logits: Tensor, labels: Tensor, q: float = 0.7) -> Tensor:
    """Generalised cross-entropy, (1 - p_y^q) / q.

    Zhang and Sabuncu (2018).

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    q : float
        From 0, the limit that is cross-entropy and not allowed here, to 1, the expectation loss.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> gce(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([0]), q=0.5)
    tensor([1.])
    """
    number("q", q, above=0, most=1)
    odds = log_odds_against(checked(logits, labels), labels)
    return -torch.expm1(q * logsigmoid(-odds)) / q


def gce_truncated(logits: Tensor, labels: Tensor, q: float = 0.7, k: float = 0.5) -> Tensor:
    """Truncated generalised cross-entropy, (1 - max(p_y, k)^q) / q.

    Zhang and Sabuncu (2018).  Flat where p_y < k: such examples are left out.  The authors learn
    which to leave out together with the model and begin without truncation; this is the loss alone.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    q : float
        In (0, 1].
    k : float
        In (0, 1).

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> gce_truncated(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([0]), q=0.5, k=0.36)
    tensor([0.8000])
    """
    number("q", q, above=0, most=1)
    number("k", k, above=0, below=1)
    odds = log_odds_against(checked(logits, labels), labels)
    log_p = torch.clamp(logsigmoid(-odds), min=math.log(k))
    return -torch.expm1(q * log_p) / q
