"""EXACT, first version, figure 4: what the number of samples of the integral does to accuracy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from exact_torch import exact_loss, recipes
from exact_torch.train import Config
from validation.benchmarks import one_factor
from validation.benchmarks.exact import Batch
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.paper import variants
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v1, figure 4: sample size"
# The figure has curves and no numbers; section 5.3 says this of them.
PUBLISHED = {
    "MNIST": "minor effects; one sample is on par with more",
    "SVHN": "minor effects; one sample is on par with more",
    "CIFAR-10": "minor effects; one sample is on par with more",
    "CIFAR-100": "more samples give a higher accuracy",
}
_EXACT = "exact integral"
_CLASSES = 10
_SIZES = {"small": (1,), "quick": (1, 16), "full": (1, 4, 16)}
_POINTS = {"small": (4, 16), "quick": (1, 4, 16, 64), "full": (1, 4, 16, 64, 256, 1024)}
_TRIALS = {"small": 24, "quick": 32, "full": 64}
_ESTIMATORS = ("published", "genz", "exact")


def runs(scale: str) -> dict[str, dict[str, Config]]:
    """By data set and sample size: Adam and a predicted sigma, as for figure 3."""
    found: dict[str, dict[str, Config]] = {}
    shorter: dict[str, Any] = {"small": {"epoch_steps": 5}, "quick": {"epochs": 3}, "full": {}}
    for data, base in variants.bases(scale).items():
        exact = replace(
            base,
            **{
                "head": "predicted",
                "loss_options": {"objective": "nll"},
                "gradient": "none",
                "optimizer": "adam",
                "lr": 3e-3,
                "schedule": "cosine",
                "schedule_options": {},
                **(shorter[scale] if data == "digits" else {}),
            },
        )
        found[data] = {f"{data}, {_EXACT}": exact} | {
            f"{data}, N = {n}": replace(
                exact, loss_options={"objective": "nll", "method": "genz", "n": n}
            )
            for n in _SIZES[scale]
            if data == "digits" or n != 4  # to save time
        }
    return found


def tasks(scale: str) -> list[Task]:
    training = [
        task
        for data, of in runs(scale).items()
        for task in variants.tasks(of, variants.seeds(scale, data))
    ]
    return [
        *training,
        *(
            Task(f"errors, N = {n}", errors, {"samples": n, "trials": _TRIALS[scale]})
            for n in _POINTS[scale]
        ),
    ]


def errors(samples: int, trials: int, rows: int = 8) -> dict[str, list[float]]:
    """Errors of three estimators of P and of the gradient of log P, root mean square over trials.

    Relative ones, of the gradient by its length; the median over rows of N(0, 1) scores,
    the label's raised by 2. "published" is the algorithm of the paper with plain random numbers.
    """
    batch = Batch(rows, _CLASSES, trained=True)
    labels = batch.labels
    scores = batch.scores.double().requires_grad_()
    others = torch.arange(_CLASSES) != labels[:, None]
    m = (scores.gather(1, labels[:, None]) - scores).detach()[others].view(rows, -1)
    answers = [one_factor.truth(row) for row in m.numpy()]
    true_log = np.array([log_prob for log_prob, _ in answers])
    truth = _in_scores(np.array([grad for _, grad in answers]), labels.numpy())
    length = np.linalg.norm(truth, axis=1)
    published = one_factor.Published(_CLASSES, samples, torch.float64)
    generator = torch.Generator().manual_seed(samples)
    torch.manual_seed(samples)
    found: dict[str, list[Any]] = {name: [] for name in _ESTIMATORS}
    for _ in range(trials):
        published.u = torch.rand(published.u.shape, generator=generator, dtype=torch.float64)
        log_prob, grad = published(m)
        found["published"].append((log_prob.numpy(), _in_scores(grad.numpy(), labels.numpy())))
        found["genz"].append(_loss(scores, labels, method="genz", n=samples))
    found["exact"].append(_loss(scores, labels))
    told = {}
    for name, each in found.items():
        relative = [np.expm1(log_prob - true_log) for log_prob, _ in each]
        change = [np.linalg.norm(grad - truth, axis=1) / length for _, grad in each]
        told[name] = [
            float(np.median(np.sqrt(np.mean(np.square(what), axis=0))))
            for what in (relative, change)
        ]
    return told


def _loss(scores: Any, labels: Any, **options: Any) -> tuple[Any, Any]:
    scores.grad = None
    loss = exact_loss(scores, labels, sigma=1.0, reduction="none", **options)
    loss.sum().backward()
    return -loss.detach().numpy(), -scores.grad.numpy()


def _in_scores(grad: Any, labels: Any) -> Any:
    """The gradient in all scores from that in the differences m_j = s_y - s_j."""
    whole = np.empty((len(grad), grad.shape[1] + 1))
    others = np.arange(whole.shape[1]) != labels[:, None]
    whole[others] = -grad.ravel()
    whole[~others] = grad.sum(axis=1)
    return whole


def section(results: Results, scale: str) -> Section:
    rows = [[data, words] for data, words in PUBLISHED.items()]
    parts: list[Any] = [
        Table("Published, in words: accuracy against sample size", ["set", "accuracy"], rows),
        Text(
            "Two questions: how far off the integral is with so many samples, and what that does "
            'to training. In training the samples are those of `method="genz"`, randomised points '
            "with the order of variables chosen for each example; the published ones are plain "
            "random numbers in a fixed order. The table of errors has both."
        ),
        *_errors(results, scale),
    ]
    for data, configs in runs(scale).items():
        found = variants.accuracies(results, list(configs), variants.seeds(scale, data))
        reference = f"{data}, {_EXACT}"
        if not found[reference]:
            continue
        parts += [
            variants.table(f"{data}: accuracy against sample size", found, reference),
            Text(variants.verdict(found, reference)),
            variants.learns(found, list(found), data),
        ]
    parts += variants.absent("Accuracy against sample size on MNIST", scale)
    parts.append(
        NotRun(
            "The figure as published: WRN-16-8 with ASAM on four sets, "
            f"{len(recipes.get('exact-v1-figure4').runs)} runs.",
            "It takes a GPU weeks. `exact-v1-figure4-small` is the same with a small network.",
            "exact-torch train exact-v1-figure4",
        )
    )
    return Section(TITLE, parts)


def _errors(results: Results, scale: str) -> list[Any]:
    names = [(n, f"errors, N = {n}") for n in _POINTS[scale]]
    found = {n: results[name] for n, name in names if name in results}
    if len(found) < len(names):
        return []
    header = ["N", *(f"{what}, {name}" for what in ("P", "gradient") for name in _ESTIMATORS)]
    rows = [
        [n, *(each[name][which] for which in (0, 1) for name in _ESTIMATORS)]
        for n, each in found.items()
    ]
    title = f"Errors of the integral, {_CLASSES} classes"
    note = (
        "Relative, root mean square over trials, the median over 8 examples, scores N(0, 1) "
        "with the label's raised by 2; of the gradient relative to its length. The truth is a "
        "trapezoid of 4001 nodes. The exact integral has no N."
    )
    figure, ax = axes(log="xy", xlabel="samples N", ylabel="relative error of the gradient")
    for number, name in enumerate(_ESTIMATORS):
        values = [each[name][1] for each in found.values()]
        ax.plot(list(found), values, color=f"C{number}", marker="o", label=name)
    ax.legend()
    table = Table(title, header, rows, note)
    first, last = min(n for n in found if n >= 4), max(found)
    fell = found[first]["published"][0] / found[last]["published"][0]
    expected = math.sqrt(last / first)
    exact = float(np.max([each["exact"] for each in found.values()]))
    return [
        table,
        Picture("Error of the gradient against sample size", figure, table),
        Check(
            f"With the published algorithm the error of P falls like N^(-1/2): by "
            f"{expected:g}, within a factor of 2, from N = {first} to {last}.",
            expected / 2 < fell < expected * 2,
            f"By {fell:.2f}.",
        ),
        Check(
            "The exact integral and its gradient are right to 1e-12.", exact < 1e-12, f"{exact:.1g}"
        ),
    ]
