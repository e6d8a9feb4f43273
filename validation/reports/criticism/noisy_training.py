"""Short training runs with losses that differ in nothing but the noise and the objective.

The expected accuracy P is that of scores with noise: normal noise makes it EXACT's, Gumbel noise of
scale beta makes it the softmax of scores / beta. Both have a standard deviation here, sigma, and
beta = sigma sqrt(6) / pi.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from exact_torch import data, exact_loss, losses
from exact_torch.train.config import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.evaluate import scores_of
from exact_torch.train.training import Training

NOISES = ("normal", "Gumbel")
# By their names in the report: the mean over the batch of one of two, or the log of the mean.
OBJECTIVES = ("1 - P", "-log P", "-log of the mean P")


class NoisyLoss(nn.Module):
    """Expected accuracy under noise as a loss.

    Parameters
    ----------
    noise : one of NOISES
    objective : one of OBJECTIVES
    sigma : float, or function of the progress of training
        The noise's standard deviation.
    normalize : bool
        Scores are first centred and divided by their standard deviation over the batch.

    Examples
    --------
    >>> loss = NoisyLoss("Gumbel", "1 - P", math.pi / math.sqrt(6.0), False)  # beta = 1
    >>> round(loss(torch.zeros(2, 4), torch.tensor([0, 1])).item(), 6)
    0.75
    """

    def __init__(
        self,
        noise: str,
        objective: str,
        sigma: float | Callable[[float], float],
        normalize: bool,
    ) -> None:
        super().__init__()
        if noise not in NOISES or objective not in OBJECTIVES:
            raise ValueError(f"no loss has noise {noise!r} and objective {objective!r}")
        self.noise, self.objective = noise, objective
        self.sigma, self.normalize = sigma, normalize
        self.progress = 0.0

    def set_progress(self, progress: float) -> None:
        self.progress = progress

    @property
    def phases(self) -> tuple[nn.Module, ...]:
        return (self,)

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        sigma = self.sigma(self.progress) if callable(self.sigma) else self.sigma
        if self.normalize:
            scores = (scores - scores.mean()) / scores.std()
        logs = self.objective == "-log P"
        if self.noise == "normal":
            kind = "nll" if logs else "error"
            values = exact_loss(scores, labels, sigma=sigma, objective=kind, reduction="none")
        else:
            function = losses.ce if logs else losses.expectation
            values = function(scores / (sigma * math.sqrt(6.0) / math.pi), labels)
        mean: Tensor = values.mean()
        return -torch.log1p(-mean) if self.objective == "-log of the mean P" else mean


class _Quiet(Training):
    """Training that does not measure itself at each step."""

    def _measure(self, *measured: Any) -> None:
        pass


class Trained(NamedTuple):
    """Accuracy on the validation set, and which of the test examples are right, (T,)."""

    validation: float
    right: np.ndarray


def train(config: Config, loss: nn.Module | None = None, examples: int | None = None) -> Trained:
    """Train in memory; ``loss`` in place of the config's, on the first ``examples`` only.

    A network whose weights are no longer finite is right nowhere.
    """
    torch.set_num_threads(1)
    dataset = data.load(
        config.data, validation=config.validation, download=False, **config.data_options
    )
    if examples is not None:
        chosen = torch.arange(min(examples, len(dataset.train)))
        first = data.MemorySplit(dataset.train.inputs(chosen), dataset.train.labels[chosen])
        dataset = replace(dataset, train=first)
    device = torch.device("cpu")
    processes = Processes.start(device)
    training = _Quiet(config, dataset, device, processes)
    if loss is not None:
        training.loss = loss
    while training.epoch < config.epochs:
        for inputs, labels in training.batches():
            training.advance(inputs, labels)
        training.finish_epoch(None)
    found = []
    for split in (dataset.validation, dataset.test):
        scores, _ = scores_of(training.evaluated, split, device, processes)
        finite = torch.isfinite(scores).all(dim=1)
        found.append(((scores.argmax(1) == split.labels) & finite).numpy())
    return Trained(float(found[0].mean()), found[1])
