"""A metric that is updated batch by batch, with the interface of torchmetrics."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from exact_torch.exact import expected_topk_accuracy
from exact_torch.heads import CorrelatedScores, GaussianScores

__all__ = ["ExpectedAccuracy"]


class ExpectedAccuracy(nn.Module):
    """The expected accuracy of all batches since the last ``reset``, over all processes.

    It has torchmetrics' methods and does not need that package: ``update`` with each batch,
    ``compute`` at the end of an epoch, ``reset`` before the next.  Called, it updates and returns
    the value of the batch.

    Parameters
    ----------
    sigma : "auto", float or Tensor
        As in ``exact_loss``; not used where scores are those of a ``GaussianHead``.
    k : int
        Of the expected top-k accuracy.
    ignore_index : int
        Label of examples that do not count.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.metrics import ExpectedAccuracy
    >>> metric = ExpectedAccuracy(sigma=1.0)
    >>> for scores in (torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0], [0.0, 1.0]])):
    ...     metric.update(scores, torch.zeros(len(scores), dtype=torch.int64))
    >>> print(metric.compute())
    tensor(0.5000, dtype=torch.float64)
    """

    total: Tensor
    count: Tensor

    def __init__(
        self, sigma: float | Tensor | str = "auto", k: int = 1, ignore_index: int = -100
    ) -> None:
        super().__init__()
        self.sigma, self.k, self.ignore_index = sigma, k, ignore_index
        self.register_buffer("total", torch.zeros((), dtype=torch.float64), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64), persistent=False)

    @torch.no_grad()
    def update(self, scores: Tensor | GaussianScores | CorrelatedScores, labels: Tensor) -> None:
        """Add a batch: scores (B, C), labels (B,)."""
        values = self._values(scores, labels)
        self.total += values.double().sum()
        self.count += len(values)

    @torch.no_grad()
    def forward(self, scores: Tensor | GaussianScores | CorrelatedScores, labels: Tensor) -> Tensor:
        """Add a batch and return its own expected accuracy."""
        values = self._values(scores, labels).double()
        self.total += values.sum()
        self.count += len(values)
        return values.mean()

    def compute(self) -> Tensor:
        """Return the expected accuracy of all examples so far, (); NaN if there were none."""
        sums = torch.stack([self.total, self.count])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(sums)
        return sums[0] / sums[1]

    def reset(self) -> None:
        """Forget all batches."""
        self.total.zero_()
        self.count.zero_()

    def _values(self, scores: Any, labels: Tensor) -> Tensor:
        counts = labels != self.ignore_index
        sigma: Any = self.sigma
        if isinstance(scores, CorrelatedScores):
            values = expected_topk_accuracy(scores, labels * counts, self.k, reduction="none")
            return values[counts]
        if isinstance(scores, GaussianScores):
            scores, sigma = scores
            if isinstance(sigma, Tensor) and sigma.ndim and len(sigma) == len(scores):
                sigma = sigma[counts]
        return expected_topk_accuracy(
            scores[counts], labels[counts], self.k, sigma, reduction="none"
        )
