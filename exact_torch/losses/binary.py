"""A binary problem a class: binary cross-entropy and noise-contrastive estimation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from exact_torch import _arguments, _checks
from exact_torch.losses._logits import checked, true


def bce(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy, -log s_y - sum_{j != y} log(1 - s_j) with s the sigmoids.

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
    >>> bce(torch.zeros(1, 3), torch.tensor([0]))  # 3 log 2
    tensor([2.0794])
    """
    logits = checked(logits, labels)
    towards = -torch.ones_like(logits).scatter(1, labels.long()[:, None], -1.0)
    return -logsigmoid(towards * logits).sum(1)


def nce(
    logits: Tensor,
    labels: Tensor,
    prior: Tensor | Sequence[float] | None = None,
    t: float = 25.0,
    draws: int | Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Noise-contrastive estimation, -log g_y - t E_{j ~ q} log(1 - g_j).

    g_j = 1 / (1 + t q_j exp(-z_j)) is the probability that class j is data and not one of t
    draws of noise from q; Gutmann and Hyvarinen (2010), Mnih and Teh (2012), whose 25 draws are
    the default.  The true class is among those the noise may draw, so the loss has a minimum in
    z_y, at 0, and its infimum, reached as the other logits fall, is positive.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    prior : (C,) Tensor or sequence of float, optional
        q, or what is proportional to it such as the counts of the classes; positive.  Uniform if
        not given.
    t : float
        Noise to data, positive.
    draws : int or (n,) or (B, n) Tensor of integers, optional
        Estimate the expectation by the mean over classes drawn from q: how many for each example,
        or drawn already.  Mnih and Teh draw t.  Without it the expectation is taken in full.
    generator : torch.Generator, optional
        Where an integer number of ``draws`` comes from.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> nce(torch.zeros(1, 2), torch.tensor([0]), t=2.0)  # t q = 1: 3 log 2
    tensor([2.0794])
    >>> nce(torch.zeros(1, 2), torch.tensor([0]), t=2.0, draws=torch.tensor([0, 0, 1]))
    tensor([2.0794])
    """
    logits = checked(logits, labels)
    _arguments.number("t", t, above=0)
    classes = logits.shape[1]
    if prior is None:
        q = logits.new_full((classes,), 1 / classes)
    else:
        q = torch.as_tensor(prior, dtype=logits.dtype, device=logits.device)
        _checks.prior(q, classes)
        q = q / q.sum()
    relative = logits - torch.log(t * q)
    data = -logsigmoid(true(relative, labels))
    noise = -logsigmoid(-relative)  # -log(1 - g_j)
    if draws is None:
        return data + t * (q * noise).sum(1)
    if isinstance(draws, int):
        _arguments.number("draws", draws, least=1)
        chances = q.expand(len(logits), -1)
        drawn = torch.multinomial(chances, draws, replacement=True, generator=generator)
    else:
        drawn = draws
        _checks.draws(drawn, len(logits), classes)
    return data + t * noise.gather(1, drawn.long().expand(len(logits), -1)).mean(1)
