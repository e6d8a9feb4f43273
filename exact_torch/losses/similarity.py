"""Similarity of the model's vector g and onehot(y): Cauchy-Schwarz divergence and Tanimoto loss.

Janocha and Czarnecki (2017); g is the softmax of the logits, or their sigmoids.  The norm of g is
the exponential of half a logsumexp of 2 log g: it has a gradient also where all of g underflows.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from exact_torch.losses._logits import checked, true
from exact_torch.losses.cross_entropy import ce


def _tanimoto(log_g: Tensor, labels: Tensor) -> Tensor:
    own = torch.exp(true(log_g, labels))
    return -own / (1 + torch.exp(0.5 * torch.logsumexp(2 * log_g, 1)) - own)


def softmax_cauchy_schwarz(logits: Tensor, labels: Tensor) -> Tensor:
    """Cauchy-Schwarz divergence, ``-log(p_y / |p|)`` with p the softmax and ``|p|`` its 2-norm.

    That is half the cross-entropy of doubled logits.

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
    >>> softmax_cauchy_schwarz(torch.tensor([[0.6, 0.3, 0.1]]).log(), torch.tensor([0]))
    tensor([0.1226])
    """
    return 0.5 * ce(2 * checked(logits, labels), labels)


def sigmoid_cauchy_schwarz(logits: Tensor, labels: Tensor) -> Tensor:
    """Cauchy-Schwarz divergence, ``-log(s_y / |s|)`` with s the sigmoids and ``|s|`` their 2-norm.

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
    >>> sigmoid_cauchy_schwarz(torch.zeros(1, 2), torch.tensor([0]))  # log(2) / 2
    tensor([0.3466])
    """
    return 0.5 * ce(2 * logsigmoid(checked(logits, labels)), labels)


def softmax_tanimoto(logits: Tensor, labels: Tensor) -> Tensor:
    """Tanimoto loss, ``-p_y / (1 + |p| - p_y)`` with p the softmax and ``|p|`` its 2-norm.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers

    Returns
    -------
    (B,) Tensor
        From -1, its infimum, to 0.

    Examples
    --------
    >>> import torch
    >>> softmax_tanimoto(torch.tensor([[50.0, 0.0]]), torch.tensor([0]))
    tensor([-1.])
    """
    return _tanimoto(torch.log_softmax(checked(logits, labels), 1), labels)


def sigmoid_tanimoto(logits: Tensor, labels: Tensor) -> Tensor:
    """Tanimoto loss, ``-s_y / (1 + |s| - s_y)`` with s the sigmoids and ``|s|`` their 2-norm.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers

    Returns
    -------
    (B,) Tensor
        From -1, its infimum, to 0.

    Examples
    --------
    >>> import torch
    >>> sigmoid_tanimoto(torch.tensor([[50.0, -50.0]]), torch.tensor([0]))
    tensor([-1.])
    """
    return _tanimoto(logsigmoid(checked(logits, labels)), labels)
