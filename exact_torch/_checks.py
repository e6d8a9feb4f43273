"""What losses and metrics ask of their input; the only place where it is checked."""

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
    if labels.device.type == "cpu" and labels.numel() and not torch.compiler.is_compiling():
        label_values(labels, scores.shape[1], ignore_index)


def label_values(labels: Tensor, classes: int, ignore_index: int | None = None) -> None:
    """Raise unless all labels are in [0, classes), or ``ignore_index``."""
    wrong = (labels < 0) | (labels >= classes)
    if ignore_index is not None:
        wrong &= labels != ignore_index
    if wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise ValueError(f"labels[{row}] = {int(labels[row])} is not a class in [0, {classes})")
