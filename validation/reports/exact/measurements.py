"""What the report on EXACT measures of one example: errors, and the published estimate's noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from validation.oracles.one_dimension import FloatArray

DRAWN = 512  # the largest N whose estimates are looked at
ENOUGH = 1000  # draws of a gradient for a standard error to mean something: they are skewed
SHOWN = (1, 16, 512)  # N: the smallest, the default of the authors' code, that of the paper


def example_of(classes: int, prob: float, example: int) -> FloatArray:
    """Differences m, (C - 1,): competitors N(0, 1), the label raised until its P is ``prob``."""
    from scipy.optimize import brentq

    rng = np.random.default_rng([classes, example])
    others = rng.normal(size=classes - 1)

    def miss(shift: float) -> float:
        return log_prob_and_gradient(shift - others)[0] - math.log(prob)

    return np.asarray(brentq(miss, -15.0, 15.0, xtol=1e-10) - others)


def _seed(classes: int, prob: float, example: int, use: int) -> list[int]:
    return [classes, round(1e6 * prob), example, use]


def log_prob_and_gradient(m: FloatArray) -> tuple[float, FloatArray]:
    """What ``exact_loss`` says, in double precision: log P and its gradient in m."""
    import torch

    from exact_torch import exact_loss

    scores = torch.from_numpy(np.concatenate([[0.0], -m])[None]).requires_grad_()
    loss = exact_loss(scores, torch.tensor([0]), sigma=1.0)
    loss.backward()
    assert scores.grad is not None
    return -loss.item(), scores.grad[0, 1:].numpy()


def values_of(classes: int, prob: float, example: int, count: int) -> dict[str, Any]:
    """The value against sampled scores and published draws, and what estimates by N are like."""
    from validation.benchmarks.one_factor import truth
    from validation.reports.exact.published_estimator import draws, mean_and_error, value_noise

    m = example_of(classes, prob, example)
    log_prob, _ = log_prob_and_gradient(m)
    reference, _ = truth(m)
    pool = draws(m, count, _seed(classes, prob, example, 1)).value
    mean, error = mean_and_error(pool)
    rng = np.random.default_rng(_seed(classes, prob, example, 2))
    # The label's score wins or does not: nothing is assumed but the noise.
    sizes = [min(count, 4096)] * (count // min(count, 4096))
    won = sum(
        int(np.sum(np.all(rng.normal(size=(n, 1)) + m > rng.normal(size=(n, classes - 1)), axis=1)))
        for n in sizes
    )
    own = math.exp(log_prob)
    numbers = [2**k for k in range(DRAWN.bit_length()) if 2**k * 4 <= count]
    return {
        "prob": own,
        "reference_error": abs(log_prob - reference),
        "drawn": {"mean": mean, "error": error},
        "sampled": {
            "mean": won / sum(sizes),
            "error": math.sqrt(own * (1 - own) / sum(sizes)),
        },
        "noise": {str(n): value_noise(pool, n, math.exp(reference)) for n in numbers},
    }


def gradients_of(classes: int, prob: float, example: int, count: int) -> dict[str, Any]:
    """The gradient against the trapezoid, and what gradients by N published draws are like."""
    from validation.benchmarks.one_factor import truth
    from validation.reports.exact.published_estimator import draws, gradient_noise

    m = example_of(classes, prob, example)
    _, grad = log_prob_and_gradient(m)
    reference, slopes = truth(m)
    pool = draws(m, count, _seed(classes, prob, example, 3), slopes=True)
    numbers = [n for n in SHOWN if 4 * n <= count]
    return {
        "count": count,
        "reference_error": float(np.linalg.norm(grad - slopes) / np.linalg.norm(slopes)),
        "noise": {str(n): gradient_noise(pool, n, math.exp(reference), grad) for n in numbers},
    }


def digits_of(classes: int, prob: float) -> dict[str, float]:
    """Errors of value and gradient against 40 digits, in double and in single precision."""
    import torch

    from exact_torch import exact_loss
    from validation.oracles.one_factor import one_factor_derivatives

    # Numbers that single precision holds.
    m = example_of(classes, prob, 0).astype(np.float32).astype(float)
    ones = np.ones(classes - 1)
    right = one_factor_derivatives(m, ones, ones)
    value, slopes = float(right.log_prob), np.array([float(g) for g in right.m])
    out = {"log_prob": value}
    for name, dtype in (("double", torch.float64), ("single", torch.float32)):
        scores = torch.tensor(np.concatenate([[0.0], -m])[None], dtype=dtype, requires_grad=True)
        loss = exact_loss(scores, torch.tensor([0]), sigma=1.0)
        loss.backward()
        assert scores.grad is not None
        miss = scores.grad[0, 1:].double().numpy() - slopes
        out[f"{name}_value"] = abs(-loss.item() - value)
        out[f"{name}_gradient"] = float(np.linalg.norm(miss) / np.linalg.norm(slopes))
    return out
