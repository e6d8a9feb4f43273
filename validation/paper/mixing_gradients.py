"""Mixing CE and EL: figure 1 and what the paper says of the two losses as functions of p_y."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from exact_torch import losses
from exact_torch.losses.mixing import weights
from validation.page import Section
from validation.reports import Results
from validation.running import Task

FOCI = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_GRID = 2000
_TASK = "gradients"


class Weights(NamedTuple):
    """alpha and beta of a curve."""

    alpha: float
    beta: float


CURVES = {
    "CE": Weights(1.0, 0.0),
    **{f"F = {each:g}": Weights(*weights(each)) for each in FOCI[:-1]},
    "EL (F = 0.5)": Weights(0.0, 1.0),
}


def tasks(scale: str) -> list[Task]:
    """Return one task: gradients are quick."""
    return [Task(_TASK, gradients, {"classes": classes}) for classes in (10,)]


def gradients(classes: int) -> dict[str, Any]:
    """Return gradients of ``ce_el`` in the logits at many values of p_y, by autograd.

    Returns
    -------
    dict
        "p", values of p_y; and by curve "true", the absolute gradient in the label's logit, and
        "error", the largest difference from eq. 13 of all logits.
    """
    p = torch.linspace(0.0, 1.0, _GRID + 1, dtype=torch.float64)[1:-1]
    rest = torch.linspace(1.0, 2.0, classes - 1, dtype=torch.float64)  # not all alike
    others = (1.0 - p)[:, None] * rest / rest.sum()
    labels = torch.zeros(len(p), dtype=torch.long)
    curves = {}
    for name, (alpha, beta) in CURVES.items():
        logits = torch.cat([p[:, None], others], 1).log().requires_grad_()
        (came,) = torch.autograd.grad(losses.ce_el(logits, labels, alpha, beta).sum(), logits)
        published = torch.cat(
            [
                (beta * p**2 + p * (alpha - beta) - alpha)[:, None],
                others * (beta * p + alpha)[:, None],
            ],
            1,
        )
        curves[name] = {
            "true": came[:, 0].abs().tolist(),
            "error": (came - published).abs().max().item(),
        }
    return {"p": p.tolist(), "curves": curves}


def remainder(p: float) -> float:
    """Return CE - EL at p_y, the remainder of eq. 11.

    >>> round(remainder(0.25), 3)
    0.636
    """
    return -math.log(p) - (1.0 - p)


def section(results: Results, scale: str) -> Section:
    return Section("Mixing CE and EL: figure 1")
