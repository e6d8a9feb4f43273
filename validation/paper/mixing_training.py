"""Train a network and follow its test examples, for the image tables of the mixing paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from exact_torch.data import Dataset
from exact_torch.losses.mixing import focus, weights
from exact_torch.models.small_cnn import small_cnn
from exact_torch.train import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.evaluate import scores_of
from exact_torch.train.training import Training

CPU = torch.device("cpu")
WATCHED = 70 / 90
"""The published example looks at a network after 70 of 90 epochs."""
HARD = 0.2
"""The published bound on p_y below which a wrong example is called hard."""


class Groups(NamedTuple):
    """Test examples in groups of the moment of watching; each has a number and how many are right
    at the end of training.
    """

    right: tuple[int, int]
    near: tuple[int, int]
    hard: tuple[int, int]


class Followed(NamedTuple):
    """The test accuracy at the end, and what became of the groups."""

    accuracy: float
    groups: Groups


def follow(
    config: Config,
    dataset: Dataset,
    rate_factor: Callable[[float], float] | None = None,
    test_step: int = 1,
) -> Followed:
    """Train a network in one thread.

    Parameters
    ----------
    config : Config
    dataset : Dataset
    rate_factor : callable, optional
        Called with the progress, from 0 to 1, at the start of an epoch; the learning rate of the
        epoch is multiplied with what it returns.
    test_step : int
        Every how many test examples are used.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        training = Training(config, dataset, CPU, Processes())
        watched_after = max(1, round(WATCHED * config.epochs))
        before = None
        for epoch in range(config.epochs):
            _train_epoch(
                training, 1.0 if rate_factor is None else rate_factor(epoch / config.epochs)
            )
            if epoch + 1 == watched_after:
                before = _judge(training, test_step)
        after = _judge(training, test_step)
    finally:
        torch.set_num_threads(threads)
    assert before is not None
    return Followed(after.right.double().mean().item(), groups_of(before, after))


class Judged(NamedTuple):
    """Whether test examples are classified correctly, and the probabilities of their labels."""

    right: Tensor
    probability: Tensor


def groups_of(before: Judged, after: Judged) -> Groups:
    """Return the sizes of the groups before, and how many of each are right after."""
    near = ~before.right & (before.probability >= HARD)
    hard = ~before.right & (before.probability < HARD)
    counts = [
        (int(group.sum()), int((group & after.right).sum())) for group in (before.right, near, hard)
    ]
    return Groups(*counts)


def scaled_rate(progress: float) -> float:
    """Return M of eq. 20 to 22, for the schedule F = 0-0.5.

    The area under the gradient in q_y, alpha / 2 + beta / 6, over that of cross-entropy, 1/2.
    """
    alpha, beta = weights(focus("0-0.5", progress))
    return alpha + beta / 3


def dropout_cnn(num_classes: int, channels: int, width: int, dropout: float) -> nn.Module:
    """Return ``small_cnn`` with dropout before its last layer."""
    layers = list(small_cnn(num_classes, (channels, 32, 32), nn.Linear, width=width).children())
    return nn.Sequential(*layers[:-1], nn.Dropout(dropout), layers[-1])


def _train_epoch(training: Training, factor: float) -> None:
    groups: list[dict[str, Any]] = training.optimizer.param_groups
    rates = [group["lr"] for group in groups]
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = factor * rate
    for inputs, labels in training.batches():
        training.advance(inputs, labels)
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate  # the schedule continues from it
    training.finish_epoch(0.0)


def _judge(training: Training, step: int) -> Judged:
    test = training.dataset.test
    scores, _ = scores_of(training.evaluated, test, CPU, step=step)
    labels = test.labels[::step]
    probability = scores.double().softmax(1).gather(1, labels[:, None])[:, 0]
    return Judged(scores.argmax(1) == labels, probability)
