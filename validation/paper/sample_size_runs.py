"""Training with so many random points of the integral, and errors of the integral and gradient.

EXACT, first version, section 5.3 and figure 4 (arXiv:2205.09615v1). Published: Wide ResNet with
ASAM. Here: the small network of the image tables with a predicted sigma, -log P, with Adam, and
with ASAM as published.

The learning rates were chosen on validation sets with one seed. With ASAM at 0.1 training failed at
every N and also with the exact integral; at 0.03 it failed with N = 1 and 4 (weights that were no
longer finite, or an accuracy near chance). So 0.01 was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from exact_torch import exact_loss
from exact_torch.train import Config
from validation.benchmarks import one_factor
from validation.benchmarks.exact import Batch
from validation.paper import image_runs
from validation.running import Task

CLASSES = 10
ESTIMATORS = ("published", "genz", "exact")
RATES = {"adam": 3e-3, "asam": 0.01}  # the same for all sample sizes


@dataclass(frozen=True)
class Plan:
    """Which runs there are: sets, optimisers, sample sizes, seeds, steps; and sizes of errors."""

    data: tuple[str, ...]
    optimizers: tuple[str, ...]
    samples: tuple[int, ...]
    seeds: int
    steps: int
    errors: tuple[int, ...]
    trials: int


PLANS = {
    "small": Plan(("digits",), ("adam",), (1, 4), 2, 10, (4, 16), 24),
    "quick": Plan(("digits",), ("adam",), (1, 16), 3, 100, (1, 4, 16, 64), 32),
    "full": Plan(
        ("mnist", "cifar10"),
        ("adam", "asam"),
        (1, 4, 16, 64),
        3,
        300,
        (1, 4, 16, 64, 256, 1024),
        64,
    ),
}


def train_with(config: Mapping[str, Any], samples: int | None, seeds: int) -> list[float]:
    """Return test accuracies by seed; ``samples`` is None for the exact integral.

    A run whose weights are no longer finite has accuracy 0.
    """
    from validation.paper.in_memory import train
    from validation.paper.plain_draws import PlainDraws

    base = Config.from_json(config)
    loss = None if samples is None else PlainDraws(samples)
    return [train(replace(base, seed=seed), loss).test().accuracy for seed in range(seeds)]


def errors(samples: int, trials: int, rows: int = 8) -> dict[str, list[float]]:
    """Return errors of three estimators of P and of the gradient of log P.

    Relative ones, of the gradient by its length, root mean square over trials; the median over rows
    of N(0, 1) scores, the label's raised by 2. "published" is the algorithm of the paper with plain
    random numbers.
    """
    batch = Batch(rows, CLASSES, trained=True)
    labels = batch.labels
    scores = batch.scores.double().requires_grad_()
    others = torch.arange(CLASSES) != labels[:, None]
    m = (scores.gather(1, labels[:, None]) - scores).detach()[others].view(rows, -1)
    answers = [one_factor.truth(row) for row in m.numpy()]
    true_log = np.array([log_prob for log_prob, _ in answers])
    truth = _in_scores(np.array([grad for _, grad in answers]), labels.numpy())
    length = np.linalg.norm(truth, axis=1)
    published = one_factor.Published(CLASSES, samples, torch.float64)
    generator = torch.Generator().manual_seed(samples)
    torch.manual_seed(samples)
    estimates: dict[str, list[Any]] = {name: [] for name in ESTIMATORS}
    for _ in range(trials):
        published.u = torch.rand(published.u.shape, generator=generator, dtype=torch.float64)
        log_prob, grad = published(m)
        estimates["published"].append((log_prob.numpy(), _in_scores(grad.numpy(), labels.numpy())))
        estimates["genz"].append(_loss(scores, labels, method="genz", n=samples))
    estimates["exact"].append(_loss(scores, labels))
    measured = {}
    for name, pairs in estimates.items():
        relative = [np.expm1(log_prob - true_log) for log_prob, _ in pairs]
        change = [np.linalg.norm(grad - truth, axis=1) / length for _, grad in pairs]
        measured[name] = [
            float(np.median(np.sqrt(np.mean(np.square(what), axis=0))))
            for what in (relative, change)
        ]
    return measured


def _loss(scores: Any, labels: Any, **options: Any) -> tuple[Any, Any]:
    scores.grad = None
    loss = exact_loss(scores, labels, sigma=1.0, reduction="none", **options)
    loss.sum().backward()
    return -loss.detach().numpy(), -scores.grad.numpy()


def _in_scores(grad: Any, labels: Any) -> Any:
    """Return the gradient in all scores from that in the differences m_j = s_y - s_j."""
    whole = np.empty((len(grad), grad.shape[1] + 1))
    others = np.arange(whole.shape[1]) != labels[:, None]
    whole[others] = -grad.ravel()
    whole[~others] = grad.sum(axis=1)
    return whole


def name(data: str, optimizer: str, samples: int | None) -> str:
    """Return the name of a task of training."""
    size = "exact integral" if samples is None else f"N = {samples}"
    return f"{data}, {optimizer}, {size}"


def tasks(scale: str) -> list[Task]:
    """Return a task for each set, optimiser and sample size, and tasks of errors."""
    plan = PLANS[scale]
    listed = []
    for data in plan.data:
        for optimizer in plan.optimizers if image_runs.there(data) else ():
            config = image_runs.config(data, "exact_v1", optimizer, plan.steps)
            config = replace(config, lr=RATES[optimizer])
            for samples in (None, *plan.samples):
                arguments = {
                    "config": config.to_json(),
                    "samples": samples,
                    "seeds": plan.seeds,
                }
                listed.append(Task(name(data, optimizer, samples), train_with, arguments))
    return listed + [
        Task(f"errors, N = {n}", errors, {"samples": n, "trials": plan.trials}) for n in plan.errors
    ]
