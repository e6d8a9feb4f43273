"""The toy example of the EXACT paper: three points on a line, and a threshold.

Points -0.25 and 0 are of class 0 and 0.25 is of class 1; the scores are (0, f) with
f(x) = k (x - b). The paper holds k = 1 and trains b; its critics train k as well. All three points
are right where 0 < b < 0.25.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from exact_torch import exact_loss, losses
from validation.oracles.one_dimension import FloatArray

X = (-0.25, 0.0, 0.25)
LABELS = (0, 0, 1)
SIGMA = 0.05  # of EXACT, unless it is said

# Called as (scores, labels, sigma): only EXACT has a sigma. The value of each example.
LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cross-entropy": lambda scores, labels, sigma: losses.ce(scores, labels),
    "hinge": lambda scores, labels, sigma: losses.hinge(scores, labels),
    "EXACT, -log P": lambda scores, labels, sigma: _exact(scores, labels, sigma, "nll"),
    "EXACT, 1 - P": lambda scores, labels, sigma: _exact(scores, labels, sigma, "error"),
}


def _exact(scores: Any, labels: Any, sigma: Any, objective: str) -> Any:
    return exact_loss(scores, labels, sigma=sigma, objective=objective, reduction="none")


def curve(name: str, b: Any, k: Any = 1.0, sigma: float = SIGMA) -> FloatArray:
    """The mean loss of the three points at thresholds ``b`` and slopes ``k``, which broadcast.

    Examples
    --------
    >>> curve("hinge", [0.125, 0.75])
    array([0.79166667, 0.58333333])
    """
    b, k = np.broadcast_arrays(np.asarray(b, dtype=float), np.asarray(k, dtype=float))
    f = (k[..., None] * (np.asarray(X) - b[..., None])).ravel()
    scores = torch.from_numpy(np.stack([np.zeros_like(f), f], axis=1))
    labels = torch.tensor(LABELS).repeat(b.size)
    values = LOSSES[name](scores, labels, sigma).numpy()
    mean: FloatArray = values.reshape(*b.shape, len(X)).mean(axis=-1)
    return mean


def wrong(b: float) -> int:
    """How many of the three points a threshold has on the wrong side."""
    return sum(int((b <= x) != bool(label)) for x, label in zip(X, LABELS, strict=True))


def minimisers(
    name: str,
    k: float = 1.0,
    sigma: float = SIGMA,
    grid: Sequence[float] | FloatArray | None = None,
) -> tuple[float, float]:
    """The first and the last threshold of a grid where the loss is smallest, to rounding.

    Without ``grid``, from -2 to 3 in steps of 1/1000; the two differ where the loss is flat.

    Examples
    --------
    >>> minimisers("hinge")
    (0.75, 1.0)
    """
    b = np.arange(-2000, 3001) / 1000 if grid is None else np.asarray(grid, dtype=float)
    values = curve(name, b, k, sigma)
    least = values.min()
    best = b[values <= least + 1e-12 * max(1.0, abs(least))]
    return float(best[0]), float(best[-1])


class Path(NamedTuple):
    """Gradient descent: thresholds, slopes and losses before each step and after the last."""

    b: list[float]
    k: list[float]
    loss: list[float]


def descent(
    name: str,
    *,
    scale: bool,
    start: float = 0.6,
    sigma: float | Callable[[float], float] = SIGMA,
    steps: int = 1200,
    rate: float = 0.05,
) -> Path:
    """Train b from ``start``, and k from 1 if ``scale`` is True, by Adam with a falling rate.

    ``sigma`` may be a function of the share of steps that are done.
    """
    x, labels = torch.tensor(X, dtype=torch.float64), torch.tensor(LABELS)
    b = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    k = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([b, k] if scale else [b], lr=rate)
    path = Path([], [], [])
    for step in range(steps + 1):
        progress = step / steps
        f = k * (x - b)
        scores = torch.stack([torch.zeros_like(f), f], dim=1)
        value = LOSSES[name](scores, labels, sigma(progress) if callable(sigma) else sigma).mean()
        path.b.append(b.item())
        path.k.append(k.item())
        path.loss.append(value.item())
        if step == steps:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * (1.0 - progress)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return path
