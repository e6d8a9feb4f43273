"""Networks of all trials and splits of a problem, trained at once.

T trials on S splits are S T networks of the same shape: one tensor and one product a layer. All
begin with the same weights in a split and see the same batches; they differ in learning rate and
weight decay. AdamW, whose rate falls as a cosine to 0. ``alone`` trains one of them with torch's
own layers, optimiser and modules, for the report's check.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from exact_torch import models
from validation.reports.when.losses import LOSSES, StackedLoss
from validation.reports.when.problems import Part, Problem, Split

MODELS = ("linear", "MLP", "CNN")
RATES = (1e-3, 0.3)  # of learning, log-uniform
DECAYS = (1e-5, 0.1)  # of weights, log-uniform
_HIDDEN, _CNN_WIDTH, _BATCH = 32, 8, 32
_BETAS, _EPS = (0.9, 0.999), 1e-8


class Trial(NamedTuple):
    """Settings of a training."""

    rate: float
    decay: float


class Chosen(NamedTuple):
    """What came of a search on each split.

    Attributes
    ----------
    test, validation : list of float
        Accuracies of the trial that is best on validation; the mean of equally good ones.
    rate : list of float
        Its learning rate, the first of equally good ones.
    """

    test: list[float]
    validation: list[float]
    rate: list[float]


def trials(count: int) -> list[Trial]:
    """Return the settings of all searches, ``count`` draws from the same two axes."""
    random = np.random.default_rng(21)
    drawn = [
        np.exp(random.uniform(np.log(axis[0]), np.log(axis[1]), size=64))[:count].tolist()
        for axis in (RATES, DECAYS)
    ]
    return [Trial(*each) for each in zip(*drawn, strict=True)]


def search(
    problem: Problem, model: str, loss: str, settings: Sequence[Trial], steps: int
) -> Chosen:
    """Train with all settings on all splits, and choose on validation."""
    train = _convolutional if model == "CNN" else _stacked
    validation, test = train(problem, model, LOSSES[loss], settings, steps)
    best = validation.max(1, keepdims=True)
    equal = validation == best
    return Chosen(
        [float(row[where].mean()) for row, where in zip(test, equal, strict=True)],
        best[:, 0].tolist(),
        [settings[int(where.argmax())].rate for where in equal],
    )


class Layers(NamedTuple):
    """Weights of stacked networks: first layer (S, F, T, H), then (S, T, H, C) if there is one."""

    weights: list[Tensor]
    biases: list[Tensor]

    def scores(self, inputs: Tensor) -> Tensor:
        """Return scores (S, T, B, C) of inputs (S, B, F)."""
        first, bias = self.weights[0], self.biases[0]
        values = torch.baddbmm(bias.flatten(2), inputs, first.flatten(2))
        values = values.view(*inputs.shape[:2], *first.shape[2:]).transpose(1, 2)
        if len(self.weights) == 1:
            return values
        return values.relu() @ self.weights[1] + self.biases[1]


def initial(
    widths: Sequence[int], splits: int, count: int, dtype: torch.dtype = torch.float32
) -> Layers:
    """Return layers as ``nn.Linear`` begins them, equal for all trials of a split."""
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    random = torch.Generator().manual_seed(1)
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        bound = 1.0 / math.sqrt(before)
        for rows, kept in ((before, weights), (1, biases)):
            values = (2.0 * torch.rand(splits, rows, after, generator=random) - 1.0) * bound
            axis = 2 if number == 0 else 1
            values = values.unsqueeze(axis).to(dtype)
            shape = list(values.shape)
            shape[axis] = count
            kept.append(values.expand(shape).clone().requires_grad_())
    return Layers(weights, biases)


def _stacked(
    problem: Problem, model: str, loss: StackedLoss, settings: Sequence[Trial], steps: int
) -> tuple[Any, Any]:
    """Return accuracies on validation and test, (S, T) each."""
    layers = train_stack(problem, model, loss, settings, steps)
    accuracies = []
    for part in ("validation", "test"):
        rows = []
        for number, split in enumerate(problem.splits):
            own: Part = getattr(split, part)
            one = Layers(*[[each[number : number + 1] for each in group] for group in layers])
            with torch.no_grad():
                scores = one.scores(own.inputs.flatten(1)[None])[0]
            rows.append([accuracy(each, own.labels, problem.balanced) for each in scores])
        accuracies.append(np.array(rows))
    return accuracies[0], accuracies[1]


def train_stack(
    problem: Problem, model: str, loss: StackedLoss, settings: Sequence[Trial], steps: int
) -> Layers:
    """Train all settings on all splits; return the weights."""
    splits = problem.splits
    features = splits[0].train.inputs[0].numel()
    widths = [features, *([_HIDDEN] if model == "MLP" else []), problem.classes]
    dtype = splits[0].train.inputs.dtype
    layers = initial(widths, len(splits), len(settings), dtype)
    rates, decays = torch.tensor(settings, dtype=dtype).T[..., None]
    parameters = [*layers.weights, *layers.biases]
    # Trials are the last axis but one of the first layer, and the last but two of the second.
    axes = [number for group in layers for number in range(len(group))]
    moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]
    inputs = [split.train.inputs.flatten(1) for split in splits]
    orders = [batches(len(each), number, steps) for number, each in enumerate(inputs)]
    for step, rows in enumerate(zip(*orders, strict=True)):
        x = torch.stack([each[own] for each, own in zip(inputs, rows, strict=True)])
        y = torch.stack(
            [split.train.labels[own] for split, own in zip(splits, rows, strict=True)]
        ).repeat_interleave(len(settings), 0)
        value = loss(layers.scores(x).flatten(0, 1), y, step / steps)
        gradients = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            for parameter, gradient, axis, (mean, square) in zip(
                parameters, gradients, axes, moments, strict=True
            ):
                rate, decay = (each[:, None] if axis else each for each in (rates, decays))
                rate = rate * cosine(step, steps)
                parameter.mul_(1.0 - rate * decay)
                mean.lerp_(gradient, 1.0 - _BETAS[0])
                square.lerp_(gradient.square(), 1.0 - _BETAS[1])
                scale = math.sqrt(1.0 - _BETAS[1] ** (step + 1))
                divisor = square.sqrt().div_(scale).add_(_EPS)
                parameter.sub_(rate / (1.0 - _BETAS[0] ** (step + 1)) * mean / divisor)
    return layers


def alone(split: Split, classes: int, model: str, loss: Any, trial: Trial, steps: int) -> nn.Module:
    """Train the network of a trial on the first split with torch's own parts; return it.

    ``loss(scores, labels)`` is a module that may have ``set_progress``.
    """
    widths = [split.train.inputs[0].numel(), *([_HIDDEN] if model == "MLP" else []), classes]
    layers = initial(widths, 1, 1)
    linear: list[nn.Module] = []
    for number, (weight, bias) in enumerate(zip(*layers, strict=True)):
        layer = nn.Linear(widths[number], widths[number + 1])
        with torch.no_grad():
            layer.weight.copy_(weight.flatten(1).view(widths[number], -1).T)
            layer.bias.copy_(bias.flatten())
        linear += [layer, nn.ReLU()]
    network = nn.Sequential(nn.Flatten(), *linear[:-1]).to(split.train.inputs.dtype)
    _train_alone(network, split.train, 0, loss, trial, steps)
    return network


def _train_alone(
    network: nn.Module, part: Part, seed: int, loss: Any, trial: Trial, steps: int
) -> None:
    optimizer = torch.optim.AdamW(
        network.parameters(), trial.rate, betas=_BETAS, eps=_EPS, weight_decay=trial.decay
    )
    for step, rows in enumerate(batches(len(part.labels), seed, steps)):
        optimizer.param_groups[0]["lr"] = trial.rate * cosine(step, steps)
        optimizer.zero_grad()
        if hasattr(loss, "set_progress"):
            loss.set_progress(step / steps)
        loss(network(part.inputs[rows]), part.labels[rows]).backward()
        optimizer.step()


class _OfOne:
    """A loss of many networks, for one."""

    def __init__(self, loss: StackedLoss) -> None:
        self.loss, self.progress = loss, 0.0

    def set_progress(self, progress: float) -> None:
        self.progress = progress

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.loss(scores[None], labels[None], self.progress)


def _convolutional(
    problem: Problem, model: str, loss: StackedLoss, settings: Sequence[Trial], steps: int
) -> tuple[Any, Any]:
    """Return accuracies of small_cnn on validation and test, (S, T) each."""
    accuracies = np.zeros((2, len(problem.splits), len(settings)))
    for number, split in enumerate(problem.splits):
        for place, trial in enumerate(settings):
            torch.manual_seed(number)
            shape = tuple(split.train.inputs.shape[1:])
            network = models.get("small_cnn", problem.classes, shape, width=_CNN_WIDTH)
            _train_alone(network, split.train, number, _OfOne(loss), trial, steps)
            network.eval()
            for kind, part in enumerate((split.validation, split.test)):
                with torch.no_grad():
                    scores = network(part.inputs)
                accuracies[kind, number, place] = accuracy(scores, part.labels, problem.balanced)
    return accuracies[0], accuracies[1]


def batches(size: int, seed: int, steps: int) -> list[Tensor]:
    """Return the rows of each step: passes over all rows in random order, whole batches only."""
    random = torch.Generator().manual_seed(seed)
    batch = min(_BATCH, size)
    found: list[Tensor] = []
    while len(found) < steps:
        order = torch.randperm(size, generator=random)
        found += list(order[: size // batch * batch].split(batch))
    return found[:steps]


def cosine(step: int, steps: int) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * step / steps))


def accuracy(scores: Tensor, labels: Tensor, balanced: bool) -> float:
    """Return the share of rows that are right, or its mean over classes; NaN scores are wrong."""
    right = (scores.argmax(1) == labels) & scores.isfinite().all(1)
    if not balanced:
        return float(right.double().mean())
    shares = [right[labels == label].double().mean() for label in labels.unique()]
    return float(torch.stack(shares).mean())
