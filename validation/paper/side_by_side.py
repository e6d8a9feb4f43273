"""Many small networks trained at once, as ``exact_torch.train`` trains each of them.

A step of a linear network is all overhead: some hundred small operations, milliseconds for
microseconds of arithmetic.  Here the weights of T networks that differ in learning rate, decay,
clipping, loss or seed stand in one tensor, and a step of all of them costs little more than a step
of one.  Initial weights, batches, learning rates and losses are those of ``Training``; what is
written again is the update (SGD, clipping, normalisation of gradients), and EXACT's normalisation
and margin and Beta-Bernoulli's prior, which are of each network.  Reports check that both ways
give the same networks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exact_torch import data, exact_loss, losses
from exact_torch.data import Dataset, Split
from exact_torch.train import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.training import Training

_OWN = {"seed", "lr", "weight_decay", "clip", "loss", "loss_options"}  # what may differ
_SHARED = {
    "exact": ("exact",),
    "beta_bernoulli": ("beta_bernoulli",),
    "mixing": ("ce", "ce_el", "expectation"),
}
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Result:
    """What is known of a trained network; None if its scores or weights became infinite."""

    validation: float | None
    test: float | None
    weights: dict[str, Tensor]


def train_all(configs: Sequence[Config], dataset: Dataset | None = None) -> list[Result]:
    """Train networks of equal shape on the same data, in one thread.

    Parameters
    ----------
    configs : sequence of Config
        Alike but for seed, lr, weight_decay, clip, loss and loss_options; losses are functions of
        single examples, or EXACT.
    dataset : Dataset, optional
        Loaded if it is not given.

    Returns
    -------
    list of Result
        In the order of the configs.
    """
    if any(replace(each, **_own(configs[0])) != configs[0] for each in configs):
        raise ValueError(f"configs must be alike but for {', '.join(sorted(_OWN))}")
    if dataset is None:
        first = configs[0]
        dataset = data.load(first.data, validation=first.validation, **first.data_options)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # Networks with the same loss stand side by side.
        order = sorted(range(len(configs)), key=lambda n: _loss_key(configs[n]))
        results = _Stack([configs[n] for n in order], dataset).run()
    finally:
        torch.set_num_threads(threads)
    return [results[order.index(n)] for n in range(len(configs))]


def distance(config: Config, dataset: Dataset, weights: Mapping[str, Any]) -> float:
    """Return how far weights are from those that ``Training`` ends with, relative to the largest.

    Parameters
    ----------
    config : Config
        What ``Training`` trains.
    dataset : Dataset
        Its data set.
    weights : mapping
        By name, as ``Result.weights`` has them.
    """
    alone = Training(config, dataset, _CPU, Processes())
    for _ in range(config.epochs):
        for inputs, labels in alone.batches():
            alone.advance(inputs, labels)
        alone.finish_epoch(0.0)
    expected = dict(alone.network.named_parameters())
    differences = [(each - weights[name]).abs().max().item() for name, each in expected.items()]
    largest = [each.abs().max().item() for each in expected.values()]
    return float(np.max(differences) / np.max(largest))


def _own(config: Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _OWN}


def _loss_key(config: Config) -> str:
    """Networks with the same one share a loss."""
    for kind, names in _SHARED.items():
        if config.loss in names:
            return kind
    return f"{config.loss} {sorted(config.loss_options.items(), key=str)}"


class _Stack:
    """T networks in one."""

    def __init__(self, configs: Sequence[Config], dataset: Dataset) -> None:
        self.config, self.dataset = configs[0], dataset
        self.trainings = [Training(each, dataset, _CPU, Processes()) for each in configs]
        networks = [each.network for each in self.trainings]
        self.weights = {name: _stacked(name, networks) for name in _names(networks[0])}
        self._layers = list(zip(*[iter(self.weights)] * 2, strict=True))  # weight and bias
        self._prepare = networks[0][0]
        self._reference = self.config.model_options.get("reference", False)
        seeds = list(dict.fromkeys(each.seed for each in configs))
        self._leaders = [next(t for t in self.trainings if t.config.seed == seed) for seed in seeds]
        self._leader_of = torch.tensor([seeds.index(each.seed) for each in configs])
        self._losses = _losses_of(self.trainings)
        for each in self._losses:
            self.weights |= each.parameters
        self._momenta = {name: torch.zeros_like(each) for name, each in self.weights.items()}
        self._decays = torch.tensor([each.weight_decay for each in configs])
        self._clips = torch.tensor([each.clip for each in configs])
        self._norms: Tensor | None = None  # moving averages
        self.alive = torch.ones(len(configs), dtype=torch.bool)

    def run(self) -> list[Result]:
        """Train, and judge what was selected."""
        config = self.config
        best = torch.full((len(self.trainings),), -1.0, dtype=torch.float64)
        kept = {name: each.detach().clone() for name, each in self.weights.items()}
        for epoch in range(config.epochs):
            rates = torch.tensor([t.optimizer.param_groups[0]["lr"] for t in self.trainings])
            for batches in zip(*(each.batches() for each in self._leaders), strict=True):
                inputs = torch.stack([each for each, _ in batches])
                inputs = inputs if len(inputs) == 1 else inputs[self._leader_of]
                labels = torch.stack([each for _, each in batches])[self._leader_of]
                self._step(inputs, labels, rates)
            if config.select == "best":
                accuracy = self._accuracy(self.dataset.validation)
                better = accuracy > best
                best = torch.where(better, accuracy, best)
                for name, each in self.weights.items():
                    where = better.view(-1, *[1] * (each.ndim - 1))
                    kept[name] = torch.where(where, each.detach(), kept[name])
            for training in self.trainings:
                training.step = (epoch + 1) * training.epoch_steps
                training.optimizer.step()  # without gradients: torch's schedulers ask for it
                training.schedule.step(0.0)
        if config.select == "best":
            self.weights = kept
        for each in self.weights.values():
            self.alive &= each.isfinite().reshape(len(each), -1).all(1)
        found = [self._accuracy(s) for s in (self.dataset.validation, self.dataset.test)]
        return [self._result(number, *found) for number in range(len(self.trainings))]

    def _result(self, number: int, validation: Tensor, test: Tensor) -> Result:
        weights = {name: each[number].detach() for name, each in self.weights.items()}
        if not self.alive[number]:
            return Result(None, None, weights)
        return Result(validation[number].item(), test[number].item(), weights)

    def _scores(self, inputs: Tensor) -> Tensor:
        """(T, B, C) of raw inputs (1 or T, B, F)."""
        hidden = self._prepare(inputs)
        for number, (weight, bias) in enumerate(self._layers):
            hidden = hidden.relu() if number else hidden
            hidden = _linear(hidden, self.weights[weight], self.weights[bias])
        return torch.nn.functional.pad(hidden, (1, 0)) if self._reference else hidden

    def _step(self, inputs: Tensor, labels: Tensor, rates: Tensor) -> None:
        scores = self._scores(inputs)
        self.alive &= scores.detach().isfinite().flatten(1).all(1)
        scores = torch.where(self.alive[:, None, None], scores, 0.0)
        first = self._leaders[0]
        value = scores.new_zeros(())
        for each in self._losses:
            value = value + each.total(scores, labels, first.step / first.steps)
        for training in self._leaders:
            training.step += 1
        names = list(self.weights)
        gradients = torch.autograd.grad(value, [self.weights[name] for name in names])
        with torch.no_grad():
            self._update(dict(zip(names, gradients, strict=True)), rates)

    def _update(self, gradients: dict[str, Tensor], rates: Tensor) -> None:
        factor = self._factor(gradients)
        for name, gradient in gradients.items():
            weight, momentum = self.weights[name], self._momenta[name]
            shape = (-1, *[1] * (gradient.ndim - 1))
            gradient = gradient if factor is None else gradient * factor.view(shape)
            if self.config.decay == "all" or gradient.ndim > 2:
                gradient = gradient + self._decays.view(shape) * weight
            momentum.mul_(self.config.momentum).add_(gradient)
            weight.sub_(rates.view(shape) * momentum)

    def _factor(self, gradients: dict[str, Tensor]) -> Tensor | None:
        """What clipping or normalisation multiplies the gradients with, (T,)."""
        if self.config.gradient == "none":
            return None
        norms = sum(each.reshape(len(each), -1).square().sum(1) for each in gradients.values())
        assert isinstance(norms, Tensor)
        norms = norms.sqrt()
        if self.config.gradient == "clip":
            return (self._clips / (norms + 1e-6)).clamp(max=1.0)
        self._norms = norms if self._norms is None else 0.9 * self._norms + 0.1 * norms
        return 1.0 / self._norms.clamp(min=0.01)

    @torch.no_grad()
    def _accuracy(self, split: Split) -> Tensor:
        """Of each network, (T,), in double precision."""
        if not len(split):
            return torch.full((len(self.trainings),), torch.nan, dtype=torch.float64)
        right = torch.zeros(len(self.trainings), dtype=torch.float64)
        for part in torch.arange(len(split)).split(1024):
            scores = self._scores(split.inputs(part)[None])
            right += (scores.argmax(2) == split.labels[part]).sum(1)
        return right / len(split)


def _linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(T, B, K) of inputs (1 or T, B, F), weights (T, K, F) and biases (T, K)."""
    if len(inputs) == len(weight):
        return torch.baddbmm(bias[:, None], inputs, weight.mT)
    # One product with all networks' weights side by side: no copies of the inputs.
    wide = torch.addmm(bias.flatten(), inputs[0], weight.flatten(0, 1).mT)
    return wide.view(-1, *bias.shape).transpose(0, 1)


def _names(network: Any) -> list[str]:
    return [name for name, _ in network.named_parameters()]


def _stacked(name: str, networks: Sequence[Any]) -> Tensor:
    return torch.stack([each.get_parameter(name).detach() for each in networks]).requires_grad_()


class _Loss:
    """A loss of the networks from ``begin`` to ``end``."""

    def __init__(self, begin: int, end: int, module: Any) -> None:
        self.begin, self.end, self.module = begin, end, module
        self.parameters: dict[str, Tensor] = {}

    def total(self, scores: Tensor, labels: Tensor, progress: float) -> Tensor:
        """The sum over networks of the mean over examples."""
        count = self.end - self.begin
        scores, labels = scores[self.begin : self.end], labels[self.begin : self.end]
        self.module.set_progress(progress)
        return count * self.values(scores, labels)

    def values(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The mean over networks and examples."""
        value: Tensor = self.module(scores.flatten(0, 1), labels.flatten())
        return value


class _Exact(_Loss):
    """EXACT with normalisation, which is over a network's batch, and margins of their own."""

    def __init__(self, begin: int, end: int, modules: Sequence[Any]) -> None:
        super().__init__(begin, end, modules[0])
        margins = [torch.inf if each.margin is None else each.margin for each in modules]
        self._margins = torch.tensor(margins)[:, None, None]

    def values(self, scores: Tensor, labels: Tensor) -> Tensor:
        if self.module.options["normalize"]:
            centred = scores - scores.mean((1, 2), keepdim=True)
            variance = centred.square().flatten(1).sum(1) / (centred[0].numel() - 1)
            scale = torch.where(variance > 0.0, variance, 1.0).rsqrt()
            scores = centred * scale[:, None, None]
        leads = scores.gather(2, labels[..., None]) - scores
        scores = -torch.minimum(leads, self._margins)  # the label's own is 0
        return exact_loss(
            scores.flatten(0, 1),
            labels.flatten(),
            sigma=self.module.deviation(scores.shape[2]),
            objective=self.module.options["objective"],
        )


class _BetaBernoulli(_Loss):
    """The prior of each network is trained with it."""

    def __init__(self, begin: int, end: int, modules: Sequence[Any]) -> None:
        super().__init__(begin, end, modules[0])
        for name in modules[0].prior:
            start = torch.stack([each.prior[name].detach() for each in modules])
            self.parameters[f"loss.{name}"] = start.requires_grad_()

    def values(self, scores: Tensor, labels: Tensor) -> Tensor:
        prior = {
            name.removeprefix("loss."): each.sigmoid().repeat_interleave(labels.shape[1])[:, None]
            for name, each in self.parameters.items()
        }
        options = {**self.module.options, **prior}
        return losses.beta_bernoulli(scores.flatten(0, 1), labels.flatten(), **options).mean()


_WEIGHTS = {"ce": (1.0, 0.0), "expectation": (0.0, 1.0)}


class _Mixing(_Loss):
    """alpha CE + beta EL, with weights that each network's loss has at the time."""

    def __init__(self, begin: int, end: int, modules: Sequence[Any]) -> None:
        super().__init__(begin, end, modules[0])
        self._modules = modules

    def total(self, scores: Tensor, labels: Tensor, progress: float) -> Tensor:
        scores, labels = scores[self.begin : self.end], labels[self.begin : self.end]
        pairs = []
        for each in self._modules:
            each.set_progress(progress)
            options = each.options
            name = each.function.__name__
            pairs.append(_WEIGHTS.get(name) or (options["alpha"], options["beta"]))
        alpha, beta = torch.tensor(pairs).T
        flat = scores.flatten(0, 1), labels.flatten()
        value = alpha @ losses.ce(*flat).view(labels.shape).mean(1)
        if beta.any():
            value = value + beta @ losses.expectation(*flat).view(labels.shape).mean(1)
        return value


_KINDS: dict[str, Callable[..., _Loss]] = {
    "exact": _Exact,
    "beta_bernoulli": _BetaBernoulli,
    "mixing": _Mixing,
}


def _losses_of(trainings: Sequence[Training]) -> list[_Loss]:
    """A loss for all neighbours that can share one."""
    found: list[_Loss] = []
    for key, group in itertools.groupby(trainings, lambda each: _loss_key(each.config)):
        modules: list[Any] = [each.loss for each in group]
        begin = found[-1].end if found else 0
        end = begin + len(modules)
        kind = _KINDS.get(key)
        found.append(kind(begin, end, modules) if kind else _Loss(begin, end, modules[0]))
    return found
