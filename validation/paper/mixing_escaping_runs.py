"""Escaping efficiency of losses that mix CE and EL, eq. 15 to 18 of the mixing paper: the runs.

The published approximation is EE = t/2 Tr(H Sigma), with H the Hessian of the loss and Sigma the
covariance of the gradient of a batch (eq. 16).  Constants that are the same for all losses, t/2 and
1/m, are left out.  All of it follows from the gradients of log p_y of single examples and from two
Hessians: the gradient of alpha CE + beta EL for an example is -(alpha + beta p) grad log p, and the
Hessian is alpha H_ce + beta H_el, where H_el = -E[grad^2 p] is H_p of the paper.
"""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap

from exact_torch import data
from exact_torch.losses.mixing import weights
from exact_torch.train import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.training import Training
from validation.running import Task

FOCI = (0.0, 0.1, 0.2, 0.3, 0.4)
LOSSES: dict[str, dict[str, Any]] = {
    "ce": {"loss": "ce"},
    "f0-0.5": {"loss": "ce_el", "loss_options": {"schedule": "0-0.5"}},
}
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Setting:
    """How many seeds; the width of the network; after which epochs it is measured."""

    seeds: int
    width: int
    measured_after: tuple[int, ...]


SETTINGS = {
    "small": Setting(2, 3, (2, 6)),
    "quick": Setting(3, 4, (2, 20)),
    "full": Setting(10, 12, (2, 10, 60)),
}


def narrow(num_classes: int, inputs: int, width: int) -> nn.Module:
    """Return a network with one hidden layer, small enough for its whole Hessian."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, num_classes)
    )


def tasks(scale: str) -> list[Task]:
    """Return a task for each seed."""
    setting = SETTINGS[scale]
    given = asdict(setting) | {"measured_after": list(setting.measured_after)}
    del given["seeds"]
    return [Task(f"seed {s}", run, given | {"seed": s}) for s in range(setting.seeds)]


def run(seed: int, width: int, measured_after: list[int]) -> dict[str, Any]:
    """Train a network on digits with CE and with the mixture, and measure both on the way.

    Returns
    -------
    dict
        "stages": what ``efficiencies`` returns after some of the epochs of training with CE; and
        for each loss at the end "trace" and "largest", of the Hessian of CE and its eigenvalues,
        and "accuracy" on the test set.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        dataset = data.load("digits", validation=0.0)
        results: dict[str, Any] = {"stages": []}
        for name, options in LOSSES.items():
            config = _config(seed, width, max(measured_after), options)
            training = Training(config, dataset, CPU, Processes())
            for epoch in range(config.epochs):
                for inputs, labels in training.batches():
                    training.advance(inputs, labels)
                training.finish_epoch(0.0)
                if (name == "ce" and epoch + 1 in measured_after) or epoch + 1 == config.epochs:
                    at = derivatives(training.network, dataset.train)
                    if name == "ce":
                        results["stages"].append(efficiencies(at))
            results[name] = _ending(at, training.network, dataset.test)
    finally:
        torch.set_num_threads(threads)
    return results


def _config(seed: int, width: int, epochs: int, options: dict[str, Any]) -> Config:
    return Config(
        data="digits",
        validation=0.0,
        model=f"{narrow.__module__}:{narrow.__qualname__}",
        model_options={"inputs": 64, "width": width},
        lr=0.1,
        batch_size=32,
        epochs=epochs,
        schedule="multistep",
        schedule_options={"milestones": [epochs // 3, 2 * epochs // 3], "gamma": 0.1},
        seed=seed,
        **options,
    )


class Derivatives(NamedTuple):
    """At the weights of a network, for N examples and P weights, in double precision.

    Attributes
    ----------
    probability : (N,) Tensor
        p_y of each example.
    gradients : (N, P) Tensor
        Of log p_y; that of p_y is p_y times it.
    hessian_ce, hessian_el : (P, P) Tensor
        Of the mean of -log p_y, and of the mean of 1 - p_y.
    """

    probability: Tensor
    gradients: Tensor
    hessian_ce: Tensor
    hessian_el: Tensor


def derivatives(network: nn.Module, split: data.Split) -> Derivatives:
    """Return the derivatives of p_y and of the two losses in all weights."""
    inputs = split.inputs(torch.arange(len(split)))
    labels = split.labels
    with torch.no_grad():
        inputs = network[0](inputs).double()
    body = copy.deepcopy(nn.Sequential(*list(network.children())[1:])).double()
    names = [name for name, _ in body.named_parameters()]
    shapes = [each.shape for each in body.parameters()]
    flat = torch.cat([each.detach().flatten() for each in body.parameters()])
    sizes = [shape.numel() for shape in shapes]

    def log_probabilities(values: Tensor, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(names, values.split(sizes), shapes, strict=True)
        named = {name: part.view(shape) for name, part, shape in parts}
        scores = functional_call(body, named, (x,))
        return scores.log_softmax(1).gather(1, y[:, None])[:, 0]

    def one(values: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return log_probabilities(values, x[None], y[None])[0]

    def mean_ce(values: Tensor) -> Tensor:
        return -log_probabilities(values, inputs, labels).mean()

    def mean_el(values: Tensor) -> Tensor:
        return 1.0 - log_probabilities(values, inputs, labels).exp().mean()

    with torch.no_grad():
        p = log_probabilities(flat, inputs, labels).exp()
    gradients = vmap(grad(one), in_dims=(None, 0, 0), chunk_size=256)(flat, inputs, labels)
    hessians = [jacrev(grad(loss), chunk_size=32)(flat) for loss in (mean_ce, mean_el)]
    return Derivatives(p, gradients, *hessians)


def efficiency(at: Derivatives, alpha: float, beta: float) -> float:
    """Return Tr(H Sigma), m Sigma the covariance of the gradients of single examples (eq. 16)."""
    gradients = (alpha + beta * at.probability)[:, None] * at.gradients
    centred = gradients - gradients.mean(0)
    hessian = alpha * at.hessian_ce + beta * at.hessian_el
    return ((centred @ hessian) * centred).sum(1).mean().item()


def square_norm(at: Derivatives, alpha: float, beta: float) -> float:
    """Return the mean squared norm of the gradients of single examples."""
    gradients = (alpha + beta * at.probability)[:, None] * at.gradients
    return gradients.square().sum(1).mean().item()


def bound(at: Derivatives, beta: float) -> float:
    """Return the right side of eq. 18."""
    largest = at.probability.max().item()
    gradients = at.probability[:, None] * at.gradients  # of p_y
    fisher = gradients.mT @ gradients / len(gradients)
    trace = ((fisher * fisher).sum() + 2 * (at.hessian_el * fisher).sum()).item()
    factor = beta**3 + 3 * beta**2 / largest + beta * (2 / largest**2 + 1 / largest)
    return factor * trace


def efficiencies(at: Derivatives) -> dict[str, Any]:
    """Return the efficiencies of CE, EL and the mixtures at the same weights.

    "scaled" is that of CE times a number, so that the mean squared norm of the gradients of
    single examples is that of the mixture.
    """
    ce, norm = efficiency(at, 1.0, 0.0), square_norm(at, 1.0, 0.0)
    mixtures = []
    for each in FOCI:
        alpha, beta = weights(each)
        scale = (square_norm(at, alpha, beta) / norm) ** 0.5
        mixtures.append(
            {
                "focus": each,
                "efficiency": efficiency(at, alpha, beta),
                "scaled": scale**3 * ce,
                "bound": bound(at, beta),
            }
        )
    el = efficiency(at, 0.0, 1.0)
    scaled_el = (square_norm(at, 1.0, 0.0) / square_norm(at, 0.0, 1.0)) ** 1.5 * el
    return {"ce": ce, "el": el, "el_scaled_to_ce": scaled_el, "mixtures": mixtures}


def _ending(at: Derivatives, network: nn.Module, test: data.Split) -> dict[str, float]:
    eigenvalues = torch.linalg.eigvalsh(at.hessian_ce)
    with torch.no_grad():
        scores = network(test.inputs(torch.arange(len(test))))
    return {
        "trace": eigenvalues.sum().item(),
        "largest": eigenvalues[-1].item(),
        "accuracy": (scores.argmax(1) == test.labels).double().mean().item(),
    }
