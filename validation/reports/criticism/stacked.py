"""Networks of all settings and splits of a data set, trained at once.

T settings on S splits are S T networks of the same shape, whose weights stand in one tensor: a step
of all of them costs little more than a step of one. The networks of a split begin with the same
weights and see the same batches, whatever the loss. SGD with momentum 0.9, a learning rate that
falls log-linearly to 1e-4, weight decay for weights and not for biases, as the later version of
EXACT has it for tables. ``train_alone`` trains one of them with torch's own parts, for a check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from exact_torch import models
from exact_torch.grad_norm import GradientNormalizer
from validation.reports.when.problems import Part, Problem

Loss = Callable[[Tensor, Tensor, float], Tensor]

BATCH = 64
MOMENTUM = 0.9
LAST_RATE = 1e-4
_CNN_WIDTH = 8
_KEPT, _FLOOR = 0.9, 0.01  # of the average that normalises gradients, as GradientNormalizer has it


class Setting(NamedTuple):
    """Settings of a training.

    Attributes
    ----------
    rate, decay : float
        The first learning rate, and the weight decay.
    gradient : {"none", "clip", "normalise"}
        What is done to gradients: nothing, clipped to norm 1, or divided by a moving average of
        their norm.
    """

    rate: float
    decay: float
    gradient: str


class Stack:
    """S T networks in training.

    Parameters
    ----------
    problem : Problem
        Its S splits.
    model : {"linear", "hidden", "small_cnn"}
    settings : sequence of sequences of Setting
        T for each split.
    loss : callable
        Takes scores (M, B, C), labels (M, B) and the progress, from 0 to 1, and returns the sum
        over M networks.
    steps : int
    """

    def __init__(
        self,
        problem: Problem,
        model: str,
        settings: Sequence[Sequence[Setting]],
        loss: Loss,
        steps: int,
    ) -> None:
        self.splits, self.loss, self.steps, self.step = problem.splits, loss, steps, 0
        self.shape = len(problem.splits), len(settings[0])
        networks = [network_of(problem, model, number) for number in range(self.shape[0])]
        weights, buffers = stack_module_state(networks)
        self.weights = {
            name: self._repeated(each.detach()).requires_grad_() for name, each in weights.items()
        }
        self.buffers = {name: self._repeated(each) for name, each in buffers.items()}
        self._network = networks[0].to("meta")
        self._momenta = {name: torch.zeros_like(each) for name, each in self.weights.items()}
        dtype = problem.splits[0].train.inputs.dtype
        self._rates, self._decays = (
            torch.tensor([[getattr(each, name) for each in row] for row in settings], dtype=dtype)
            for name in ("rate", "decay")
        )
        self._clips, self._normalises = (
            torch.tensor([[each.gradient == name for each in row] for row in settings])
            for name in ("clip", "normalise")
        )
        self._norms: Tensor | None = None
        self._batches = [
            batches(len(split.train.labels), number, steps)
            for number, split in enumerate(problem.splits)
        ]
        self.alive = torch.ones(self.shape, dtype=torch.bool)

    def _repeated(self, values: Tensor) -> Tensor:
        """Return values (S, ...) as (S, T, ...)."""
        splits, count = self.shape
        return values[:, None].expand(splits, count, *values.shape[1:]).clone()

    def scores(self, inputs: Tensor) -> Tensor:
        """Return scores (S, T, B, C) of inputs (S, B, ...)."""
        scores: Tensor = vmap(self._of_split)(self.weights, self.buffers, inputs)
        return scores

    def of_split(self, number: int, inputs: Tensor) -> Tensor:
        """Return scores (T, B, C) of inputs (B, ...) by the networks of a split."""
        weights = {name: each[number] for name, each in self.weights.items()}
        buffers = {name: each[number] for name, each in self.buffers.items()}
        return self._of_split(weights, buffers, inputs)

    def _of_split(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor
    ) -> Tensor:
        scores: Tensor = vmap(self._of_one, in_dims=(0, 0, None))(weights, buffers, inputs)
        return scores

    def _of_one(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor
    ) -> Tensor:
        scores: Tensor = functional_call(self._network, (weights, buffers), (inputs,))
        return scores

    def run(self) -> Stack:
        """Train to the end."""
        while self.step < self.steps:
            self.advance()
        return self

    def advance(self) -> None:
        """Make one step."""
        rows = [order[self.step] for order in self._batches]
        parts = [split.train for split in self.splits]
        inputs = torch.stack([part.inputs[row] for part, row in zip(parts, rows, strict=True)])
        labels = torch.stack([part.labels[row] for part, row in zip(parts, rows, strict=True)])
        scores = self.scores(inputs)
        self.alive &= scores.detach().isfinite().flatten(2).all(2)
        # A network that has diverged must not stop the others.
        scores = torch.where(self.alive[..., None, None], scores, 0.0)
        labels = labels.repeat_interleave(self.shape[1], 0)
        value = self.loss(scores.flatten(0, 1), labels, self.step / self.steps)
        gradients = torch.autograd.grad(value, list(self.weights.values()))
        with torch.no_grad():
            self._update(dict(zip(self.weights, gradients, strict=True)))
        self.step += 1

    def _update(self, gradients: dict[str, Tensor]) -> None:
        factors = self._factors(gradients)
        rates = rate_at(self._rates, self.step, self.steps)
        for name, gradient in gradients.items():
            weight, momentum = self.weights[name], self._momenta[name]
            shape = (*self.shape, *[1] * (gradient.ndim - 2))
            gradient = gradient * factors.view(shape)
            if gradient.ndim > 3:  # not of biases
                gradient = gradient + self._decays.view(shape) * weight
            momentum.mul_(MOMENTUM).add_(gradient)
            weight.sub_(rates.view(shape) * momentum)

    def _factors(self, gradients: dict[str, Tensor]) -> Tensor:
        """Return what clipping or normalisation multiplies the gradients with, (S, T)."""
        squares = [each.flatten(2).square().sum(2) for each in gradients.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        self._norms = norms if self._norms is None else _KEPT * self._norms + (1 - _KEPT) * norms
        clipped = torch.where(self._clips, (1.0 / (norms + 1e-6)).clamp(max=1.0), 1.0)
        return torch.where(self._normalises, 1.0 / self._norms.clamp(min=_FLOOR), clipped)

    @torch.no_grad()
    def right(self, part: str) -> list[Tensor]:
        """Return for each split which rows of "train", "validation" or "test" are right, (T, n).

        A network that has diverged is right nowhere.
        """
        self._network.eval()
        rows = []
        for number, split in enumerate(self.splits):
            own: Part = getattr(split, part)
            scores = self.of_split(number, own.inputs)
            finite = scores.isfinite().flatten(1).all(1) & self.alive[number]
            rows.append((scores.argmax(2) == own.labels) & finite[:, None])
        self._network.train()
        return rows


def network_of(problem: Problem, model: str, seed: int) -> nn.Module:
    """Return a new network; its weights depend on the seed alone."""
    inputs = problem.splits[0].train.inputs
    options: dict[str, Any] = {"width": _CNN_WIDTH} if model == "small_cnn" else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = models.get(model, problem.classes, tuple(inputs.shape[1:]), **options)
    return network.to(inputs.dtype)


def batches(size: int, seed: int, steps: int) -> list[Tensor]:
    """Return the rows of each step: passes over all rows in random order, whole batches only."""
    random = torch.Generator().manual_seed(seed)
    batch = min(BATCH, size)
    listed: list[Tensor] = []
    while len(listed) < steps:
        order = torch.randperm(size, generator=random)
        listed += list(order[: size // batch * batch].split(batch))
    return listed[:steps]


def rate_at(first: Tensor, step: int, steps: int) -> Tensor:
    """Return the learning rates at a step."""
    return first * (LAST_RATE / first) ** (step / steps)


def train_alone(
    problem: Problem, model: str, setting: Setting, loss: Loss, steps: int
) -> nn.Module:
    """Train on the first split with torch's own layers and optimiser; return the network."""
    network = network_of(problem, model, 0)
    weights = [each for each in network.parameters() if each.ndim > 1]
    biases = [each for each in network.parameters() if each.ndim == 1]
    groups = [{"params": weights, "weight_decay": setting.decay}, {"params": biases}]
    optimizer = torch.optim.SGD(groups, lr=setting.rate, momentum=MOMENTUM)
    normalizer = GradientNormalizer(network)
    part = problem.splits[0].train
    for step, rows in enumerate(batches(len(part.labels), 0, steps)):
        for group in optimizer.param_groups:
            rate = torch.tensor(setting.rate, dtype=torch.float64)
            group["lr"] = rate_at(rate, step, steps).item()
        optimizer.zero_grad()
        value = loss(network(part.inputs[rows])[None], part.labels[rows][None], step / steps)
        value.backward()
        if setting.gradient == "clip":
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        elif setting.gradient == "normalise":
            normalizer()
        optimizer.step()
    return network
