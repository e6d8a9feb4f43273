"""Expected accuracy under normal or Gumbel noise as a loss of many networks at once.

The expected accuracy P is the chance that the label has the largest score after noise of standard
deviation sigma is added to all of them. Normal noise makes it EXACT's; Gumbel noise of scale
beta = sigma sqrt(6) / pi makes it the softmax of scores / beta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from exact_torch import exact_loss

NOISES = ("normal", "Gumbel")
OBJECTIVES = ("1 - P", "-log P", "-log of the mean P")


@dataclass(frozen=True)
class NoisyLoss:
    """A loss that is called with scores (M, B, C) and labels (M, B) of M networks and the progress.

    Attributes
    ----------
    noise : one of NOISES
    objective : one of OBJECTIVES
        The mean over the batch of 1 - P or of -log P, or minus the logarithm of the mean P.
    sigma : (float, float)
        The noise's standard deviation at the begin and at the end of training, log-linear between.
    normalize : bool
        Subtract the mean of all scores of a batch first, and divide by their standard deviation.
    margin : float, optional
        A lead over another score counts up to this, as for ``exact_loss``.

    Examples
    --------
    >>> one = math.pi / math.sqrt(6.0)  # beta = 1
    >>> loss = NoisyLoss("Gumbel", "1 - P", (one, one), False)
    >>> round(loss(torch.zeros(1, 2, 4), torch.tensor([[0, 1]]), 0.0).item(), 6)
    0.75
    """

    noise: str
    objective: str
    sigma: tuple[float, float]
    normalize: bool
    margin: float | None = None

    def __call__(self, scores: Tensor, labels: Tensor, progress: float) -> Tensor:
        """Return the sum over networks of the loss of their batches."""
        first, last = self.sigma
        sigma = first * (last / first) ** progress
        if self.normalize:
            scores = normalized(scores)
        if self.margin is not None:
            lead = scores.gather(2, labels[..., None]) - scores
            scores = -lead.clamp(max=self.margin)  # the label's own is 0
        if self.objective == "-log P":
            return minus_log(scores, labels, self.noise, sigma).mean(1).sum()
        errors = expected_error(scores, labels, self.noise, sigma).mean(1)
        return (-torch.log1p(-errors) if self.objective == "-log of the mean P" else errors).sum()


def normalized(scores: Tensor) -> Tensor:
    """Return scores (M, B, C) with mean 0 and standard deviation 1 over each network's batch."""
    centred = scores - scores.mean((1, 2), keepdim=True)
    variance = centred.square().sum((1, 2), keepdim=True) / (centred[0].numel() - 1)
    return centred * torch.where(variance > 0.0, variance, 1.0).rsqrt()


def expected_error(scores: Tensor, labels: Tensor, noise: str, sigma: float) -> Tensor:
    """Return 1 - P, (M, B), of scores (M, B, C)."""
    if noise == "Gumbel":
        return -torch.expm1(-minus_log(scores, labels, noise, sigma))
    if scores.shape[2] == 2:  # a normal distribution function is faster than the general integral
        return torch.special.ndtr(-_lead_of_two(scores, labels) / (math.sqrt(2.0) * sigma))
    return _exact(scores, labels, sigma, "error")


def minus_log(scores: Tensor, labels: Tensor, noise: str, sigma: float) -> Tensor:
    """Return -log P, (M, B), of scores (M, B, C)."""
    if noise == "Gumbel":
        logs = torch.log_softmax(scores * (math.pi / (sigma * math.sqrt(6.0))), 2)
        return -logs.gather(2, labels[..., None])[..., 0]
    if noise != "normal":
        raise ValueError(f"noise must be one of {', '.join(NOISES)}, got {noise!r}")
    if scores.shape[2] == 2:
        return -torch.special.log_ndtr(_lead_of_two(scores, labels) / (math.sqrt(2.0) * sigma))
    return _exact(scores, labels, sigma, "nll")


def _lead_of_two(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.diff(dim=2)[..., 0] * (2 * labels - 1)


def _exact(scores: Tensor, labels: Tensor, sigma: float, objective: str) -> Tensor:
    values = exact_loss(
        scores.flatten(0, 1), labels.flatten(), sigma=sigma, objective=objective, reduction="none"
    )
    return values.view(labels.shape)
