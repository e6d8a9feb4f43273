"""Cross-entropy and its variants: functions of -log p_y, with p the softmax.

All are computed from the odds against the true class, see ``log_odds_against``.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from exact_torch._arguments import number
from exact_torch.losses._logits import checked, log_odds_against, true


def _minus_log_p(odds: Tensor) -> Tensor:
    return -logsigmoid(-odds)


def _one_minus_p(odds: Tensor) -> Tensor:
    return torch.exp(logsigmoid(odds))  # its gradient, unlike that of sigmoid, never rounds to 0


def ce(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, -log p_y.

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
    >>> ce(torch.tensor([[0.0, 0.0], [1e4, -1e4]]), torch.tensor([0, 1]))
    tensor([6.9315e-01, 2.0000e+04])
    """
    return _minus_log_p(log_odds_against(checked(logits, labels), labels))


def self_norm(logits: Tensor, labels: Tensor, alpha: float = 0.1) -> Tensor:
    """Cross-entropy that also normalises, -log p_y + alpha log(sum_j exp z_j)^2.

    Devlin et al. (2014).  At its infimum the true logit is 0 and the others are minus infinity.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    alpha : float
        Positive.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> self_norm(torch.tensor([[0.0, -50.0]]), torch.tensor([0])).item() < 1e-20
    True
    """
    number("alpha", alpha, above=0)
    logits = checked(logits, labels)
    return ce(logits, labels) + alpha * torch.logsumexp(logits, 1) ** 2


def focal(logits: Tensor, labels: Tensor, gamma: float = 2.0, alpha: float = 1.0) -> Tensor:
    """Focal loss, -alpha (1 - p_y)^gamma log p_y.

    Lin et al. (2017), who weigh foreground against background with alpha = 0.25; among classes it
    is but a scale, so it is 1 here.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    gamma : float
        At least 0, where the loss is cross-entropy.
    alpha : float
        Positive.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> focal(torch.zeros(1, 2), torch.tensor([0]))  # log(2) / 4
    tensor([0.1733])
    """
    number("gamma", gamma, least=0)
    number("alpha", alpha, above=0)
    odds = log_odds_against(checked(logits, labels), labels)
    return alpha * torch.exp(gamma * logsigmoid(odds)) * _minus_log_p(odds)


def tamed_ce(logits: Tensor, labels: Tensor, alpha: float = 0.5) -> Tensor:
    """Tamed cross-entropy, ((1 - log p_y)^(1 - alpha) - 1) / (1 - alpha).

    Martinez and Stiefelhagen (2018), who tune alpha; the default is ours.  The loss is 0 at
    p_y = 1, where its slope is that of cross-entropy, and grows the slower the larger alpha is.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    alpha : float
        From 0, which is cross-entropy, to 1, where the loss is log(1 - log p_y).

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> tamed_ce(torch.zeros(1, 2), torch.tensor([0]))  # 2 (sqrt(1 + log 2) - 1)
    tensor([0.6024])
    """
    number("alpha", alpha, least=0, most=1)
    log = torch.log1p(ce(logits, labels))
    return log if alpha == 1 else torch.expm1((1 - alpha) * log) / (1 - alpha)


def mpce(logits: Tensor, labels: Tensor) -> Tensor:
    """Maximum probability cross-entropy, -(max_j p_j - p_y) log p_y.

    Zhou et al. (2019).  Zero, and flat, where the true class is the most probable; where others are
    as probable, the gradient is an average of those on its sides.

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
    >>> mpce(torch.tensor([[0.6, 0.3, 0.1]]).log(), torch.tensor([1]))  # -0.3 log 0.3
    tensor([0.3612])
    """
    logits = checked(logits, labels)
    largest = logits.amax(1)
    # p_max - p_y = p_max (1 - exp(z_y - z_max)): differences of probabilities would cancel.  Not by
    # logsumexp: the two parts of its derivative, times the cross-entropy, would cancel too.
    p_max = torch.softmax(logits, 1).amax(1)
    return -p_max * torch.expm1(true(logits, labels) - largest) * ce(logits, labels)


def poly1(logits: Tensor, labels: Tensor, epsilon: float = 1.0) -> Tensor:
    """PolyLoss of the first order, -log p_y + epsilon (1 - p_y).

    Leng et al. (2022).

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    epsilon : float
        At least -1, below which the loss would reward errors.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> poly1(torch.zeros(1, 2), torch.tensor([0]))  # log(2) + 1/2
    tensor([1.1931])
    """
    number("epsilon", epsilon, least=-1)
    odds = log_odds_against(checked(logits, labels), labels)
    return _minus_log_p(odds) + epsilon * _one_minus_p(odds)
