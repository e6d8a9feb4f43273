"""The inputs of ``F.cross_entropy`` as rows: scores (N, C) with labels (N,) or targets (N, C).

Classes are in dimension 1, of unbatched scores in dimension 0, as torch has them; in the last one
of what a ``GaussianHead`` returns.  This is the only place that knows about further dimensions.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from exact_torch import _checks


class Rows(NamedTuple):
    """Examples in rows.

    Attributes
    ----------
    scores : (N, C)
    labels : (N,) int64; 0 where an example does not count, and where there are targets
    counts : (N,) bool, whether an example counts
    targets : (N, C) probabilities of the classes, or None
    shape : of the losses of all examples
    """

    scores: Tensor
    labels: Tensor
    counts: Tensor
    targets: Tensor | None
    shape: torch.Size


def from_inputs(
    scores: Tensor, labels: Tensor, ignore_index: int = -100, classes_last: bool = False
) -> Rows:
    """Return the rows of scores and labels, which are class numbers or class probabilities."""
    _checks.scores_of_any_shape(scores)
    axis = _class_axis(scores, classes_last)
    shape = scores.shape[:axis] + scores.shape[axis:][1:]
    rows = _by_row(scores, axis)
    if _are_probabilities(labels, scores):
        _checks.target_probabilities(labels, scores, ignore_index)
        number = torch.zeros(rows.shape[0], dtype=torch.int64, device=scores.device)
        targets = _by_row(labels, axis).to(torch.promote_types(labels.dtype, torch.float32))
        return Rows(rows, number, torch.ones_like(number, dtype=torch.bool), targets, shape)
    _checks.labels_of_shape(labels, scores, shape, rows.shape[1], ignore_index)
    flat = labels.reshape(-1).long()
    counts = flat != ignore_index
    return Rows(rows, torch.where(counts, flat, 0), counts, None, shape)


def deviations(sigma: Any, scores: Tensor, classes_last: bool = False) -> Any:
    """Return a sigma for rows: a number, (), (N,), (C,), or (1 or N, 1 or C)."""
    if not isinstance(sigma, Tensor) or sigma.ndim == 0 or scores.ndim == 2:
        return sigma
    axis = _class_axis(scores, classes_last)
    classes = scores.shape[axis]
    if sigma.ndim == 1 and sigma.shape[0] in (1, classes):
        return sigma[None]
    fits = sigma.ndim == scores.ndim and all(
        size in (1, wanted) for size, wanted in zip(sigma.shape, scores.shape, strict=True)
    )
    if not fits:
        raise ValueError(
            f"sigma must be a number, (C,) with C = {classes}, or broadcast to scores "
            f"{tuple(scores.shape)} with as many dimensions, got {tuple(sigma.shape)}"
        )
    moved = sigma.movedim(axis, -1)
    leading = scores.movedim(axis, -1).shape[:-1]
    if math.prod(moved.shape[:-1]) > 1:
        moved = moved.expand(*leading, moved.shape[-1])
    return moved.reshape(-1, moved.shape[-1])


def _class_axis(scores: Tensor, classes_last: bool) -> int:
    return scores.ndim - 1 if classes_last or scores.ndim == 1 else 1


def _by_row(values: Tensor, axis: int) -> Tensor:
    if values.ndim == 2:
        return values
    return values.movedim(axis, -1).reshape(-1, values.shape[axis])


def _are_probabilities(labels: Any, scores: Tensor) -> bool:
    return (
        isinstance(labels, Tensor) and labels.is_floating_point() and labels.shape == scores.shape
    )
