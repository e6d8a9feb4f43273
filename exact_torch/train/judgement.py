"""What scores say: how probable each class is, and how accurate a network expects to be.

A network trained with EXACT has normal noise on its scores.  For all other losses the noise is
Gumbel's, which makes the probabilities the softmax.
"""

from typing import TypeAlias

import torch
from torch import Tensor, nn

from exact_torch import _normalize, metrics
from exact_torch.exact import argmax_probs, expected_accuracy
from exact_torch.exact_module import ExactLoss

__all__ = ["expected", "judge", "noise", "probabilities"]

Sigma: TypeAlias = "float | Tensor | None"  # None is Gumbel noise


def noise(loss: nn.Module, scores: Tensor, sigma: Tensor | None = None) -> Sigma:
    """Standard deviation of the scores' noise in their own units; None if it is Gumbel's.

    ``sigma`` is what the network predicted, if it did.  Where EXACT divides scores by their
    scale over the batch, the noise of what is divided is as much larger.
    """
    if not isinstance(loss, ExactLoss):
        return None
    deviation = loss.deviation(scores.shape[1]) if sigma is None else sigma
    if scale := loss.scale:
        deviation = deviation * _normalize.scale_of(scores, scale)
    return deviation


def expected(scores: Tensor, labels: Tensor, sigma: Sigma) -> Tensor:
    """The mean probability of the right class, ()."""
    if sigma is None:
        return torch.softmax(scores, 1).gather(1, labels[:, None]).mean()
    return expected_accuracy(scores, labels, sigma)


def probabilities(scores: Tensor, sigma: Sigma) -> Tensor:
    """Probabilities of the classes, (B, C)."""
    return torch.softmax(scores, 1) if sigma is None else argmax_probs(scores, sigma)


def judge(scores: Tensor, labels: Tensor, sigma: Sigma) -> dict:
    """All that is reported of a test set."""
    classes = scores.shape[1]
    confusion = torch.zeros(classes * classes, dtype=torch.int64, device=scores.device)
    pairs = labels * classes + scores.argmax(1)
    confusion.scatter_add_(0, pairs, torch.ones_like(pairs))
    # In double precision, because single can add up to more than 1.
    probs = probabilities(scores.double(), sigma.double() if isinstance(sigma, Tensor) else sigma)
    single = metrics.single_logit(scores, labels)
    normalised = metrics.all_logits(scores, labels)
    return {
        "accuracy": metrics.accuracy(scores, labels).item(),
        "expected_accuracy": expected(scores, labels, sigma).item(),
        "calibration_error": metrics.calibration_error(probs, labels).item(),
        **{f"single_logit_{name}": value for name, value in single.items()},
        **{f"all_logits_{name}": value for name, value in normalised.items()},
        "confusion": confusion.view(classes, classes).tolist(),
    }
