"""The losses that are compared, of many networks at once.

A loss takes scores (M, B, C) and labels (M, B) of M networks and the progress of training, a number
from 0 to 1, and returns the sum over networks of the mean over their batches. What is normalised is
normalised over the batch of each network. With two classes the expected accuracy is a normal
distribution function of the lead, which is faster here than the integral.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from exact_torch import ExactLoss, exact_loss, losses

StackedLoss = Callable[[Tensor, Tensor, float], Tensor]

_FIRST_SIGMA_AFTER_CE = 1.0  # cross-entropy has found the scores' direction: no need to begin at 10


def _normalized(scores: Tensor) -> Tensor:
    centred = scores - scores.mean((1, 2), keepdim=True)
    variance = centred.square().sum((1, 2), keepdim=True) / (centred[0].numel() - 1)
    return centred * torch.where(variance > 0.0, variance, 1.0).rsqrt()


def _mean_of(function: Callable[..., Tensor], scores: Tensor, labels: Tensor) -> Tensor:
    return function(scores.flatten(0, 1), labels.flatten()).sum() / labels.shape[1]


def _as_gumbel(scores: Tensor, sigma: float) -> Tensor:
    """Return logits whose softmax is the argmax under Gumbel noise of standard deviation sigma."""
    return scores * (math.pi / (sigma * math.sqrt(6.0)))


def _ce(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    return _mean_of(losses.ce, scores, labels)


def _ce_normalized(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    return _mean_of(losses.ce, _as_gumbel(_normalized(scores), _robust_sigma(progress)), labels)


def _hinge(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    return _mean_of(losses.hinge, scores, labels)


def _gce(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    return _mean_of(losses.gce, scores, labels)


def _one_minus_softmax(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    """``ExactLoss.robust`` with Gumbel noise in place of normal noise."""
    margin = ExactLoss.robust().margin
    scores = _normalized(scores)
    lead = scores.gather(2, labels[..., None]) - scores
    limited = -lead.clamp(max=margin)
    return _mean_of(losses.expectation, _as_gumbel(limited, _robust_sigma(progress)), labels)


def _nll(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    if scores.shape[2] == 2:
        return -_log_accuracy_of_two(scores, labels, ExactLoss()).sum() / labels.shape[1]
    return exact_loss(scores.flatten(0, 1), labels.flatten(), reduction="sum") / labels.shape[1]


def _robust(
    scores: Tensor, labels: Tensor, progress: float, loss: ExactLoss | None = None
) -> Tensor:
    loss = ExactLoss.robust(normalize=False, reduction="sum") if loss is None else loss
    loss.set_progress(progress)
    scores = _normalized(scores)
    if scores.shape[2] == 2:
        return -torch.expm1(_log_accuracy_of_two(scores, labels, loss)).sum() / labels.shape[1]
    value: Tensor = loss(scores.flatten(0, 1), labels.flatten())
    return value / labels.shape[1]


def _log_accuracy_of_two(scores: Tensor, labels: Tensor, loss: ExactLoss) -> Tensor:
    """Return log P (M, B) of two classes with the sigma and margin of a loss."""
    lead = scores.diff(dim=2)[..., 0] * (2 * labels - 1)
    if loss.margin is not None:
        lead = lead.clamp(max=loss.margin)
    return torch.special.log_ndtr(lead / (math.sqrt(2.0) * loss.deviation(2)))


def _ce_then_robust(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    if progress < 0.5:
        return _ce(scores, labels, progress)
    sigma = (_FIRST_SIGMA_AFTER_CE, _robust_sigma(1.0))
    loss = ExactLoss.robust(sigma=sigma, normalize=False, reduction="sum")
    return _robust(scores, labels, 2.0 * progress - 1.0, loss)


def _robust_sigma(progress: float) -> float:
    loss = ExactLoss.robust()
    loss.set_progress(progress)
    return float(loss.deviation(2))


LOSSES: dict[str, StackedLoss] = {
    "CE": _ce,
    "CE normalised": _ce_normalized,
    "hinge": _hinge,
    "GCE": _gce,
    "1 - softmax": _one_minus_softmax,
    "nll": _nll,
    "robust": _robust,
    "CE then robust": _ce_then_robust,
}
