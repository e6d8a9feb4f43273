"""The published estimate of EXACT's loss with plain random draws, as a loss to train with.

Genz's integration with N pseudo-random points, drawn anew for each example and step, and the
gradient of Theorem 4.3 on the same points (Karpukhin, Dereka, Kolesnikov, arXiv:2205.09615v1,
section 4.3). The arithmetic is that of ``validation.benchmarks.one_factor.Published``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from exact_torch.heads import GaussianScores
from validation.benchmarks.one_factor import Published


class _MinusLogP(torch.autograd.Function):
    """Minus the estimated log-probability of rows m, (B, d), with the estimated gradient."""

    @staticmethod
    def forward(ctx: Any, m: Tensor, samples: int) -> Tensor:
        rows, d = m.shape
        estimate = Published(d + 1, samples, m.dtype)
        estimate.chunk = rows  # all rows at once, because each has points of its own
        estimate.u = torch.rand(max(d - 1, 1), rows, 1, samples, dtype=m.dtype)
        log_prob, grad = estimate(m)
        ctx.save_for_backward(grad)
        return -log_prob

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (grad,) = ctx.saved_tensors
        return -upstream[0][:, None] * grad, None


class PlainDraws(nn.Module):
    """-log of the expected accuracy, estimated with ``samples`` random points an example.

    Takes what a network with a predicted sigma returns; the mean over the batch.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> scores = GaussianScores(torch.zeros(50, 3), torch.ones(50, 1))
    >>> round(PlainDraws(256)(scores, torch.zeros(50, dtype=torch.int64)).item(), 2)  # log 3
    1.1
    """

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    @property
    def phases(self) -> tuple[nn.Module, ...]:
        """Return the losses to step on with each batch: this one."""
        return (self,)

    def set_progress(self, progress: float) -> None:
        """Do nothing: the loss has no schedule."""

    def forward(self, outputs: GaussianScores, labels: Tensor) -> Tensor:
        scores = outputs.mean
        others = torch.arange(scores.shape[1]) != labels[:, None]
        m = (scores.gather(1, labels[:, None]) - scores)[others].view(len(labels), -1)
        values: Tensor = _MinusLogP.apply((m / outputs.sigma).double(), self.samples)
        return values.mean().to(scores.dtype)
