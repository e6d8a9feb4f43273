"""Accuracy, classification by a single logit, and calibration.

In single-logit classification an example is taken to be of class j if its logit z_j alone exceeds
a threshold: no other logit is needed (Keren, Sabato and Schuller, 2019).  Its metrics are those of
C binary problems, averaged over classes; the paper reports one minus each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from exact_torch import _arguments, _checks
from exact_torch.exact import expected_accuracy
from exact_torch.running_metric import ExpectedAccuracy
from mvnorth._interface import whole_number

__all__ = [
    "ExpectedAccuracy",
    "accuracy",
    "all_logits",
    "average_precision",
    "calibration_error",
    "expected_accuracy",
    "precision_at_recall",
    "single_logit",
]

_NUMBERS = 2**24  # in a block of classes that is sorted at once


def accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    """The share of examples whose largest score is that of the label.

    Parameters
    ----------
    scores : (B, C) Tensor
    labels : (B,) Tensor of integers

    Returns
    -------
    0-d Tensor of float64
        Of equal largest scores the first one counts, as in ``argmax``.

    Examples
    --------
    >>> import torch
    >>> accuracy(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([1, 0])).item()
    0.5
    """
    _checks.scores_and_labels(scores, labels)
    return (scores.argmax(1) == labels).double().mean()


def _curves(scores: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Precision and recall of each class at each example, in blocks of classes.

    Sorted by score, the largest first, (B, c); equal scores are accepted together, so they have
    the precision and recall of the last of them.  The third array marks the class's own examples.
    """
    _checks.scores_and_labels(scores, labels)
    _checks.no_nan("scores", scores)
    rows, classes = scores.shape
    if rows == 0:
        raise ValueError("there must be at least one example, got none")
    accepted = torch.arange(1, rows + 1, device=scores.device)[:, None]
    for block in torch.arange(classes, device=scores.device).split(max(1, _NUMBERS // (rows + 1))):
        ordered, order = scores[:, block].sort(0, descending=True)
        own = labels[order] == block
        hits = own.cumsum(0)
        last = torch.ones_like(own)
        last[:-1] = ordered[:-1] != ordered[1:]
        # The number accepted with an example: the position of the next one that is the last.
        position = torch.where(last, accepted, rows).flip(0).cummin(0).values.flip(0)
        found = hits.gather(0, position - 1).double()
        yield found / position, found / own.sum(0), own


def _of_classes(scores: Tensor, labels: Tensor, recalls: Sequence[float]) -> Tensor:
    """Average precision and the best precision at recalls, (1 + number of recalls, C)."""
    blocks = []
    for precision, reached, own in _curves(scores, labels):
        rows = [(precision * own).sum(0) / own.sum(0)]
        for recall in recalls:
            best = torch.where(reached >= recall, precision, 0.0).amax(0)
            rows.append(torch.where(reached[-1].isnan(), torch.nan, best))
        blocks.append(torch.stack(rows))
    return torch.cat(blocks, 1)


def average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """Area under the precision-recall curve of each class's score, as average precision.

    The sum over thresholds of precision times the recall gained, as in scikit-learn's
    ``average_precision_score`` of scores[:, j] and labels == j.

    Parameters
    ----------
    scores : (B, C) Tensor
        Logits, for single-logit classification.
    labels : (B,) Tensor of integers

    Returns
    -------
    (C,) Tensor of float64
        NaN for classes without examples, which have no recall.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[3.0, 0.0], [2.0, 1.0], [1.0, 2.0]])
    >>> average_precision(scores, torch.tensor([0, 1, 0]))  # 1/2 + 1/2 * 2/3, and 1/2
    tensor([0.8333, 0.5000], dtype=torch.float64)
    """
    return _of_classes(scores, labels, ())[0]


def precision_at_recall(scores: Tensor, labels: Tensor, recall: float) -> Tensor:
    """The best precision of each class's score at thresholds with at least this recall.

    The maximum over the points of scikit-learn's ``precision_recall_curve``.

    Parameters
    ----------
    scores : (B, C) Tensor
    labels : (B,) Tensor of integers
    recall : float
        In (0, 1].

    Returns
    -------
    (C,) Tensor of float64
        NaN for classes without examples.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[3.0, 0.0], [2.0, 1.0], [1.0, 2.0]])
    >>> precision_at_recall(scores, torch.tensor([0, 1, 0]), 0.9)
    tensor([0.6667, 0.5000], dtype=torch.float64)
    """
    _arguments.number("recall", recall, above=0, most=1)
    return _of_classes(scores, labels, (recall,))[1]


def single_logit(
    logits: Tensor, labels: Tensor, recalls: Sequence[float] = (0.9, 0.99)
) -> dict[str, float]:
    """The metrics of single-logit classification, averaged over classes that have examples.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    recalls : sequence of float

    Returns
    -------
    dict
        "auprc", and "precision@r" for each recall r.

    Examples
    --------
    >>> import torch
    >>> logits = torch.tensor([[8.0, 4.0], [-8.0, -4.0]])  # all right, but class 1 is higher in 0
    >>> labels = torch.tensor([0, 1])
    >>> accuracy(logits, labels).item()
    1.0
    >>> single_logit(logits, labels)
    {'auprc': 0.75, 'precision@0.9': 0.75, 'precision@0.99': 0.75}
    >>> all_logits(logits, labels)["auprc"]
    1.0
    """
    for recall in recalls:
        _arguments.number("recall", recall, above=0, most=1)
    names = ["auprc", *(f"precision@{recall:g}" for recall in recalls)]
    means = _of_classes(logits, labels, recalls).nanmean(1)
    return dict(zip(names, means.tolist(), strict=True))


def all_logits(
    logits: Tensor, labels: Tensor, recalls: Sequence[float] = (0.9, 0.99)
) -> dict[str, float]:
    """The metrics of ``single_logit`` when p_j > T is tested, which takes all logits.

    The softmax p is taken in logarithms and double precision: examples whose p_j rounds to 1 or
    to 0 keep their order.

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    recalls : sequence of float

    Returns
    -------
    dict
        See ``single_logit``.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import metrics
    >>> found = metrics.all_logits(torch.eye(3) * 4, torch.arange(3), recalls=(0.9,))
    >>> found["precision@0.9"]
    1.0
    """
    _checks.scores_and_labels(logits, labels)
    return single_logit(torch.log_softmax(logits.double(), 1), labels, recalls)


def calibration_error(
    probs: Tensor, labels: Tensor, bins: int = 15, adaptive: bool = False
) -> Tensor:
    """Expected calibration error: the mean distance of confidence and accuracy over bins.

    Confidence is the largest probability of an example; Guo et al. (2017).

    Parameters
    ----------
    probs : (B, C) Tensor
        Probabilities of the classes.
    labels : (B,) Tensor of integers
    bins : int
    adaptive : bool
        Bins with as many examples each, to one, in place of bins of confidence as wide.  Examples
        of equal confidence share their accuracy, so that their order does not count.

    Returns
    -------
    0-d Tensor of float64

    Examples
    --------
    >>> import torch
    >>> probs = torch.tensor([[0.8, 0.2], [0.8, 0.2]])
    >>> round(calibration_error(probs, torch.tensor([0, 1])).item(), 6)
    0.3
    """
    _checks.scores_and_labels(probs, labels)
    _checks.probabilities(probs)
    whole_number("bins", bins, at_least=1)
    confidence, guess = probs.double().max(1)
    right = (guess == labels).double()
    rows = len(probs)
    if adaptive:
        levels, level = confidence.unique(return_inverse=True)
        sums = right.new_zeros(2, len(levels))
        sums[0].scatter_add_(0, level, right)
        sums[1].scatter_add_(0, level, torch.ones_like(right))
        confidence, order = confidence.sort()
        right = (sums[0] / sums[1])[level[order]]
        group = torch.arange(rows, device=probs.device) * bins // max(rows, 1)
    else:
        group = (torch.ceil(confidence * bins).long() - 1).clamp(0, bins - 1)  # (a, b]
    gap = right.new_zeros(bins).scatter_add_(0, group, right - confidence)
    return gap.abs().sum() / rows
