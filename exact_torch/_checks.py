"""What losses and metrics ask of their input; the only place where it is checked."""

import math
from typing import Any

import torch
from torch import Tensor

REDUCTIONS = ("mean", "sum", "none")


def scores_only(scores: Tensor) -> None:
    """Raise unless scores are (B, C), of real numbers."""
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ValueError(
            f"scores must be (B, C) with C >= 2, got {tuple(scores.shape)}; flatten further "
            "dimensions into the first"
        )
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating point, got {scores.dtype}")


def scores_and_labels(scores: Tensor, labels: Tensor, ignore_index: int | None = None) -> None:
    """Raise unless scores are (B, C), of real numbers, and labels (B,), of whole ones in [0, C).

    Labels may also be ``ignore_index``.  Their values are looked at where that is cheap: on the
    CPU, outside a compiled graph.
    """
    scores_only(scores)
    if labels.shape != scores.shape[:1]:
        raise ValueError(
            f"labels must be ({scores.shape[0]},), one class number a row of scores, "
            f"got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels must be whole numbers (torch.int64), got {labels.dtype}")
    if labels.device != scores.device:
        raise ValueError(f"labels are on {labels.device}, scores on {scores.device}")
    if labels.device.type == "cpu" and labels.numel() and not torch.compiler.is_compiling():
        label_values(labels, scores.shape[1], ignore_index)


def label_values(labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raise unless all labels are in [0, classes), or ``ignore_index``."""
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if labels.device.type == "cuda":
        torch._assert_async(~wrong.any(), f"labels must be classes in [0, {classes})")
    elif wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(f"labels[{row}] = {int(labels[row])} is not a class in [0, {classes})")


def deviations(sigma: Tensor) -> None:
    """Raise unless all standard deviations are positive and finite."""
    right = (sigma > 0) & (sigma < torch.inf)
    if sigma.device.type == "cuda":
        torch._assert_async(right.all(), "sigma must be positive and finite")
    elif not right.all():
        wrong = sigma[~right].flatten()[0]
        raise ValueError(f"sigma must be positive and finite, got {float(wrong)}")


def deviations_of(sigma: float | Tensor, scores: Tensor) -> Tensor:
    """Standard deviations as (1 or B, 1 or C), as precise as scores; raise for other shapes.

    Values in a tensor are looked at by the operators.
    """
    rows, classes = scores.shape
    if not isinstance(sigma, Tensor):
        number("sigma", sigma)
        if not 0.0 < sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {sigma!r}")
        return scores.new_full((1, 1), sigma)
    if sigma.is_complex() or sigma.dtype == torch.bool:
        raise TypeError(f"sigma must be real numbers, got {sigma.dtype}")
    shape = tuple(sigma.shape)
    if sigma.ndim == 1 and rows == classes == len(sigma) > 1:
        raise ValueError(
            f"sigma {shape} could be one an example or one a class, since there are as many of "
            "both; give (B, 1) or (1, C)"
        )
    if sigma.ndim == 1:
        sigma = sigma[:, None] if len(sigma) == rows else sigma[None]
    elif sigma.ndim == 0:
        sigma = sigma[None, None]
    if sigma.ndim != 2 or sigma.shape[0] not in (1, rows) or sigma.shape[1] not in (1, classes):
        raise ValueError(
            f"sigma must be a number, (B,), (B, 1), (C,), (1, C) or (B, C) with B = {rows} and "
            f"C = {classes}, got {shape}"
        )
    return sigma.to(scores)


def class_weights(weight: Tensor | None, scores: Tensor) -> None:
    """Raise unless there is one weight a class, or none."""
    if weight is not None and weight.shape != scores.shape[1:]:
        raise ValueError(
            f"weight must be ({scores.shape[1]},), one a class, got {tuple(weight.shape)}"
        )


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise unless value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def number(name: str, value: Any) -> None:
    """Raise unless value is a real number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {value!r}")


def at_least(name: str, value: float | None, least: float) -> None:
    """Raise unless value is None or a number from ``least`` on."""
    if value is not None:
        number(name, value)
        if not value >= least:
            raise ValueError(f"{name} must be at least {least:g}, or None, got {value!r}")


def share(name: str, value: float) -> None:
    """Raise unless value is a number in [0, 1]."""
    number(name, value)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")


def whole(name: str, value: int | None) -> None:
    """Raise unless value is None or a positive whole number."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be a positive whole number, got {value!r}")
