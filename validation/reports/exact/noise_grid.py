"""Direction of the published estimate's gradient for a batch, over the settings of the loss.

A batch's gradient is one vector, of all scores of all its examples: estimates that are right in
direction for each example but not in length turn it. It is followed back through the margin and
through the normalisation of scores by the batch's deviation, as in the authors' code.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from validation.oracles.one_dimension import FloatArray
from validation.reports.exact.published_estimator import Draws, draws, estimates
from validation.running import Task

IntArray: TypeAlias = NDArray[np.int64]

EXAMPLES = 64  # of a batch
LIFT = 2.0  # of the label's score, as in the middle of training
MARGIN = 0.5
OBJECTIVES = ("error", "nll")  # 1 - P, and -log P
FEATURES = 64  # of the last layer, for the gradient of its weights
DEFAULT = 16  # N in the authors' code


class Grid(NamedTuple):
    """What is run: classes, numbers of draws N, batches, and the sigmas."""

    classes: tuple[int, ...]
    numbers: tuple[int, ...]
    batches: int
    sigmas: tuple[float, ...] = (1.0, 3.0)


GRIDS = {
    "small": Grid((10, 30), (1, 16), 2, (3.0,)),
    "quick": Grid((10, 100), (1, 16), 4),
    "full": Grid((10, 100), (1, 4, 16, 64), 8),
}


class Cosine(NamedTuple):
    """Cosines of the estimated gradient of one batch with the exact one.

    ``scores`` in all scores of the batch, ``weights`` in those of a last layer whose features tell
    the classes apart, ``mean`` in the scores for the mean of several estimates (how many:
    ``groups``).
    """

    objective: str
    n: int
    batch: int
    scores: float
    weights: float
    mean: float
    groups: int


def tasks(scale: str) -> list[Task]:
    grid = GRIDS[scale]
    return [
        Task(
            task_name(classes, normalize, margin, sigma),
            cosines_of,
            {
                "classes": classes,
                "normalize": normalize,
                "margin": margin,
                "sigma": sigma,
                "numbers": grid.numbers,
                "batches": grid.batches,
            },
        )
        for classes in grid.classes
        for normalize in (False, True)
        for margin in (None, MARGIN)
        for sigma in grid.sigmas
    ]


def task_name(classes: int, normalize: bool, margin: float | None, sigma: float) -> str:
    end = "no margin" if margin is None else f"margin {margin:g}"
    scores = "normalised" if normalize else "plain"
    return f"directions: C = {classes}, {scores}, {end}, sigma = {sigma:g}"


def cosines_of(
    classes: int,
    normalize: bool,
    margin: float | None,
    sigma: float,
    numbers: list[int],
    batches: int,
) -> list[Cosine]:
    """Return the cosines for every objective, number of draws and batch."""
    found: list[Cosine] = []
    for batch in range(batches):
        scores, labels, features = random_batch(classes, batch)
        limits, back = differences(scores, labels, normalize, margin, sigma)
        pools = [
            draws(row, max(numbers), [classes, batch, example], slopes=True)
            for example, row in enumerate(limits)
        ]
        for objective in OBJECTIVES:
            exact = exact_gradient(scores, labels, normalize, margin, sigma, objective)
            for n in numbers:
                groups = max(numbers) // n
                parts = np.stack([_slopes(pool, n, objective) for pool in pools])
                rows = [back(parts[:, group]) for group in range(groups)]
                in_scores = [_cosine(row, exact) for row in rows]
                in_weights = [_cosine(features.T @ row, features.T @ exact) for row in rows]
                mean = _cosine(np.mean(rows, axis=0), exact)
                found.append(
                    Cosine(
                        objective,
                        n,
                        batch,
                        float(np.mean(in_scores)),
                        float(np.mean(in_weights)),
                        mean,
                        groups,
                    )
                )
    return found


def random_batch(classes: int, batch: int) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return scores (B, C), labels (B,) and features (B, F): a class's mean and noise."""
    rng = np.random.default_rng([classes, batch])
    labels = rng.integers(classes, size=EXAMPLES)
    scores = rng.normal(size=(EXAMPLES, classes))
    scores[np.arange(EXAMPLES), labels] += LIFT
    means = rng.normal(size=(classes, FEATURES))
    return scores, labels, means[labels] + rng.normal(size=(EXAMPLES, FEATURES))


def differences(
    scores: FloatArray, labels: IntArray, normalize: bool, margin: float | None, sigma: float
) -> tuple[FloatArray, Any]:
    """Return limits m, (B, C - 1), and what takes derivatives in them to those in the scores."""
    import torch

    leaf = torch.from_numpy(scores).requires_grad_()
    given = (leaf - leaf.mean()) / leaf.std() if normalize else leaf
    label = torch.from_numpy(labels)[:, None]
    others = torch.arange(scores.shape[1]) != label
    gaps = (given.gather(1, label) - given)[others].view(len(scores), -1)
    m = gaps.clamp(max=math.inf if margin is None else margin) / sigma

    def back(slopes: FloatArray) -> FloatArray:
        gradient = torch.autograd.grad(m, leaf, torch.from_numpy(slopes), retain_graph=True)[0]
        return np.asarray(gradient.numpy())

    return m.detach().numpy(), back


def exact_gradient(
    scores: FloatArray,
    labels: IntArray,
    normalize: bool,
    margin: float | None,
    sigma: float,
    objective: Any,
) -> FloatArray:
    """Return the gradient of ``exact_loss`` in the scores, (B, C)."""
    import torch

    from exact_torch import exact_loss

    leaf = torch.from_numpy(scores).requires_grad_()
    options: dict[str, Any] = {"margin": margin, "normalize": normalize, "objective": objective}
    loss = exact_loss(leaf, torch.from_numpy(labels), sigma=sigma, reduction="sum", **options)
    return np.asarray(torch.autograd.grad(loss, leaf)[0].numpy())


def _slopes(pool: Draws, n: int, objective: str) -> FloatArray:
    """Return estimates of the loss's derivatives in m by n draws, (groups, C - 1)."""
    assert pool.slopes is not None
    slopes = -estimates(pool.slopes, n)
    if objective == "error":
        return slopes
    return slopes / np.maximum(estimates(pool.value, n), 1e-300)[:, None]


def _cosine(a: FloatArray, b: FloatArray) -> float:
    return float(np.sum(a * b) / (np.linalg.norm(a) * np.linalg.norm(b)))
