"""Training without files: a network is trained in memory, and its scores are returned.

For tables with hundreds of short runs, where writing and judging a run takes as long as training.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from exact_torch import data
from exact_torch.data import Dataset
from exact_torch.heads import GaussianHead
from exact_torch.train.config import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.evaluate import scores_of
from exact_torch.train.training import Training


class Outputs(NamedTuple):
    """What a network says of a split.

    Attributes
    ----------
    scores : (N, C) array of double precision
    labels : (N,) array
    sigma : (N, 1) array, or None where it is not predicted
    """

    scores: np.ndarray
    labels: np.ndarray
    sigma: np.ndarray | None

    @property
    def accuracy(self) -> float:
        """The share of examples that are classified correctly; scores that are NaN are wrong."""
        finite = np.isfinite(self.scores).all(axis=1)
        return float(np.mean((self.scores.argmax(axis=1) == self.labels) & finite))


@dataclass(frozen=True)
class Trained:
    """A trained network with the data that it was trained on."""

    network: nn.Module
    dataset: Dataset

    def validation(self) -> Outputs:
        """Return the outputs for the validation set."""
        return self._outputs(self.dataset.validation)

    def test(self) -> Outputs:
        """Return the outputs for the test set."""
        return self._outputs(self.dataset.test)

    def _outputs(self, split: Any) -> Outputs:
        scores, sigma = scores_of(self.network, split, torch.device("cpu"))
        labels = split.labels.numpy()
        return Outputs(scores.double().numpy(), labels, None if sigma is None else sigma.numpy())


class _Unmeasured(Training):
    """Training that does not measure itself at each step."""

    def _measure(self, *measured: Any) -> None:
        pass


@functools.lru_cache(maxsize=2)
def _load(name: str, validation: float, options: tuple[tuple[str, Any], ...]) -> Dataset:
    return data.load(name, validation=validation, download=False, **dict(options))


def train(config: Config, loss: nn.Module | None = None, sigma_max: float | None = None) -> Trained:
    """Train a network on the CPU in one thread.

    Parameters
    ----------
    config : Config
        All that is random comes from its seed.
    loss : nn.Module, optional
        Used in place of the config's loss.
    sigma_max : float, optional
        Upper limit of a predicted sigma, in place of four times the initial one.
    """
    options = tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in config.data_options.items()
    )
    dataset = _load(config.data, config.validation, options)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        device = torch.device("cpu")
        training = _Unmeasured(config, dataset, device, Processes.start(device))
        if loss is not None:
            training.loss = loss
        if sigma_max is not None:
            _limit_sigma(training.network, sigma_max)
        while training.epoch < config.epochs:
            for inputs, labels in training.batches():
                training.advance(inputs, labels)
            training.finish_epoch(None)
    finally:
        torch.set_num_threads(threads)
    return Trained(training.evaluated, dataset)


def _limit_sigma(network: nn.Module, sigma_max: float) -> None:
    """Change the upper limit of a predicted sigma; sigma at the start stays the same."""
    for head in network.modules():
        if isinstance(head, GaussianHead):
            head.sigma_max = sigma_max
            share = (head.initial - head.sigma_min) / (sigma_max - head.initial)
            nn.init.constant_(head.sigma_bias, math.log(share))
