"""What losses and metrics ask of tensors; the only place where they are checked."""

from typing import Any

import torch
from torch import Tensor

from exact_torch import _arguments, _transforms


def _is_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")


def scores_only(scores: Tensor) -> None:
    """Raise unless scores are (B, C), of real numbers."""
    _is_tensor("scores", scores)
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ValueError(
            f"scores must be (B, C) with C >= 2, got {tuple(scores.shape)}; flatten further "
            "dimensions into the first"
        )
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating point, got {scores.dtype}")


def scores_of_any_shape(scores: Tensor) -> None:
    """Raise unless scores are (C,), (B, C) or (B, C, d1, ...), of real numbers."""
    _is_tensor("scores", scores)
    if scores.ndim == 0 or scores.shape[min(1, scores.ndim - 1)] < 2:
        raise ValueError(
            f"scores must be (B, C), (B, C, d1, ...) or (C,) with C >= 2, got {tuple(scores.shape)}"
        )
    if not scores.is_floating_point():
        raise TypeError(f"scores must be floating point, got {scores.dtype}")


def labels_of_shape(
    labels: Tensor, scores: Tensor, shape: torch.Size, classes: int, ignore_index: int
) -> None:
    """Raise unless labels are class numbers of this shape, or ``ignore_index``."""
    _is_tensor("labels", labels)
    if labels.shape != shape:
        raise ValueError(
            f"labels must be {tuple(shape)}, class numbers, or {tuple(scores.shape)} of floats, "
            f"class probabilities, got {tuple(labels.shape)} of {labels.dtype}"
        )
    _class_numbers(labels, scores, classes, ignore_index)


def target_probabilities(targets: Tensor, scores: Tensor, ignore_index: int) -> None:
    """Raise unless class probabilities are where scores are, and none is to be ignored."""
    if targets.device != scores.device:
        raise ValueError(f"labels are on {targets.device}, scores on {scores.device}")
    if ignore_index >= 0:
        raise ValueError(
            f"ignore_index is for class numbers, labels are probabilities: got {ignore_index}"
        )


def someone_wins(scores: Tensor) -> None:
    """Raise if the largest score of a row is infinite or NaN, where it can be looked at."""
    if _visible(scores) and not (scores.amax(1).abs() < torch.inf).all():
        raise ValueError(
            "scores must not contain NaN or infinity, nor minus infinity for all classes of a row"
        )


def scores_and_labels(scores: Tensor, labels: Tensor, ignore_index: int | None = None) -> None:
    """Raise unless scores are (B, C), of real numbers, and labels (B,), of whole ones in [0, C).

    Labels may also be ``ignore_index``.  Their values are looked at where that is cheap: on the
    CPU, outside compiled graphs and function transforms.
    """
    scores_only(scores)
    _is_tensor("labels", labels)
    if labels.shape != scores.shape[:1]:
        raise ValueError(
            f"labels must be ({scores.shape[0]},), one class number a row of scores, "
            f"got {tuple(labels.shape)}"
        )
    _class_numbers(labels, scores, scores.shape[1], ignore_index)


def _class_numbers(labels: Tensor, scores: Tensor, classes: int, ignore_index: int | None) -> None:
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels must be whole numbers (torch.int64), got {labels.dtype}")
    if labels.device != scores.device:
        raise ValueError(f"labels are on {labels.device}, scores on {scores.device}")
    if _visible(labels):
        # Small integers would be compared with an ignore_index that is not one of theirs, wrapped.
        label_values(labels.reshape(-1).long(), classes, ignore_index)


def _visible(values: Tensor) -> bool:
    """Whether values can be looked at, and that is cheap."""
    blind = torch.compiler.is_compiling() or _transforms.is_active()
    return values.device.type == "cpu" and not blind


def label_values(labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raise unless all labels are in [0, classes), or ``ignore_index``."""
    if labels.numel() == 0:
        return
    low, high = labels.aminmax()
    right = (low >= 0) & (high < classes)
    if labels.device.type == "cuda":  # without waiting for the device
        torch._assert_async(right, f"labels must be classes in [0, {classes})")
        return
    if right:
        return
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if wrong.any():
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
        value = _arguments.number("sigma", sigma, above=0)
        if not _smallest(scores.dtype) <= value <= torch.finfo(scores.dtype).max:
            raise _beyond("sigma", value, scores.dtype)
        return scores.new_full((1, 1), value)
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
    converted = sigma.to(scores)
    if converted.dtype != sigma.dtype and _visible(sigma):
        lost = ((converted == 0) | converted.isinf()) & (sigma > 0) & (sigma < torch.inf)
        if lost.any():
            raise _beyond("sigma", float(sigma[lost][0]), scores.dtype)
    return converted


def loadings_of(loadings: Tensor, scores: Tensor, examples: torch.Size) -> Tensor:
    """Return loadings as (1 or N, C, r) for scores (N, C); raise for other shapes.

    ``examples`` is the shape in which the N examples were given.
    """
    _is_tensor("loadings", loadings)
    classes = scores.shape[1]
    if loadings.is_complex() or not loadings.is_floating_point():
        raise TypeError(f"loadings must be floating point, got {loadings.dtype}")
    if loadings.device != scores.device:
        raise ValueError(f"loadings are on {loadings.device}, scores on {scores.device}")
    shape, wanted = tuple(loadings.shape), tuple(examples)
    matrix = loadings.ndim >= 2 and shape[-2] == classes and 1 <= shape[-1] <= 3
    if not matrix or shape[:-2] not in ((), (1,), wanted):
        raise ValueError(
            f"loadings must be (C, r) or {(*wanted, 'C', 'r')} with C = {classes} and r = 1, 2 or "
            f"3, got {shape}".replace("'", "")
        )
    if _visible(loadings) and not loadings.isfinite().all():
        raise ValueError("loadings must be finite")
    return loadings.reshape(-1, *shape[-2:]).to(scores.dtype)


def _smallest(dtype: torch.dtype) -> float:
    """Return the smallest positive number of a dtype."""
    return torch.finfo(dtype).tiny * torch.finfo(dtype).eps


def _beyond(name: str, value: float, dtype: torch.dtype) -> ValueError:
    return ValueError(
        f"{name} must be from {_smallest(dtype):.2g} to {torch.finfo(dtype).max:.2g}, the range of "
        f"{dtype}, in which scores are computed, got {value:g}; rescale, or use scores.double()"
    )


def class_weights(weight: Tensor | None, scores: Tensor) -> None:
    """Raise unless there is one weight >= 0 a class, or none; scores are (N, C)."""
    if weight is None:
        return
    if not isinstance(weight, Tensor):
        raise TypeError(
            f"weight must be a torch.Tensor, one number a class, got {weight!r}; sigma is given by "
            "name"
        )
    if weight.shape != scores.shape[1:]:
        raise ValueError(
            f"weight must be ({scores.shape[1]},), one a class, got {tuple(weight.shape)}"
        )
    if weight.device != scores.device:
        raise ValueError(f"weight is on {weight.device}, scores on {scores.device}")
    if _visible(weight):
        if not ((weight >= 0) & weight.isfinite()).all():
            raise ValueError(f"weight must be >= 0 and finite, got {weight.tolist()}")
        dtype = torch.promote_types(scores.dtype, torch.float32)
        if weight.numel() and float(weight.amax()) > torch.finfo(dtype).max:
            raise _beyond("weight", float(weight.amax()), dtype)


def prior(weights: Tensor, classes: int) -> None:
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
