"""What losses and metrics ask of their input; the only place where it is checked."""

import math
from numbers import Real

import torch
from torch import Tensor


def scores_and_labels(scores: Tensor, labels: Tensor, ignore_index: int | None = None) -> None:
    """Raise unless scores are (B, C), of real numbers, and labels (B,), of whole ones in [0, C).

    Labels may also be ``ignore_index``.  Their values are looked at where that is cheap: on the
    CPU, outside a compiled graph.
    """
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ValueError(f"scores must be (B, C) with C >= 2, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating point, got {scores.dtype}")
    if labels.shape != scores.shape[:1]:
        raise ValueError(
            f"labels must be ({scores.shape[0]},), one class number a row of scores, "
            f"got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels must be whole numbers (torch.int64), got {labels.dtype}")
    if labels.device != scores.device:
        raise ValueError(f"labels are on {labels.device}, scores on {scores.device}")
    if _visible(labels):
        label_values(labels, scores.shape[1], ignore_index)


def _visible(values: Tensor) -> bool:
    """Whether looking at values is cheap."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def label_values(labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raise unless all labels are in [0, classes), or ``ignore_index``."""
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(f"labels[{row}] = {int(labels[row])} is not a class in [0, {classes})")


def number(
    name: str,
    value: float,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """``value``, if it is a finite number, least <= value <= most and above < value < below."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not (math.isfinite(value) and least <= value <= most and above < value < below):
        limits = {"at least": least, "at most": most, "above": above, "below": below}
        wanted = [f"{word} {limit:g}" for word, limit in limits.items() if math.isfinite(limit)]
        raise ValueError(f"{name} must be {' and '.join(wanted) or 'finite'}, got {value!r}")
    return float(value)


def class_weights(weights: Tensor, classes: int) -> None:
    """Raise unless there is one positive, finite weight a class."""
    if weights.shape != (classes,):
        raise ValueError(
            f"prior must be ({classes},), one weight a class, got {tuple(weights.shape)}"
        )
    if _visible(weights) and not ((weights > 0) & weights.isfinite()).all():
        raise ValueError(f"prior must be positive and finite, got {weights.tolist()}")


def draws(draws: Tensor, rows: int, classes: int) -> None:
    """Raise unless draws are class numbers, (n,) or (rows, n), with n > 0."""
    if draws.ndim not in (1, 2) or draws.shape[-1] < 1 or (draws.ndim == 2 and len(draws) != rows):
        raise ValueError(f"draws must be (n,) or ({rows}, n), n > 0, got {tuple(draws.shape)}")
    if draws.is_floating_point() or draws.is_complex() or draws.dtype == torch.bool:
        raise TypeError(f"draws must be whole numbers (torch.int64), got {draws.dtype}")
    if _visible(draws) and ((draws < 0) | (draws >= classes)).any():
        raise ValueError(f"draws must be classes in [0, {classes}), got {draws.tolist()}")


def no_nan(name: str, values: Tensor) -> None:
    """Raise if there are NaN among values."""
    if values.isnan().any():
        raise ValueError(f"{name} must not contain NaN, found {int(values.isnan().sum())}")


def probabilities(probs: Tensor) -> None:
    """Raise unless rows of probs are in [0, 1] and sum to 1, to the rounding of half precision."""
    no_nan("probs", probs)
    sums = probs.double().sum(1)
    if (probs < 0).any() or (probs > 1).any() or ((sums - 1).abs() > 0.01).any():
        raise ValueError(
            "probs must be in [0, 1] and each row sum to 1: give probabilities, not logits"
        )
