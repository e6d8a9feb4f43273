"""What the report trains to compare cross-entropy with 1 - p along a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from validation.reports.criticism.noise import NoisyLoss, expected_error, minus_log
from validation.reports.criticism.stacked import Setting, Stack
from validation.reports.criticism.trainings import DECAY, RATES, UNIT
from validation.reports.when.problems import problem

WATCHED = (0, 1, 3, 10, 30, 100, 300, 1000, 3000)
NEAR_ONE, NEAR_ZERO = 0.9, 0.05
_CE = NoisyLoss("Gumbel", "-log P", (UNIT, UNIT), False)
_EXACT = NoisyLoss("normal", "1 - P", (1.0, 1.0), False)


def late_of(data: str, model: str, steps: int, splits: int) -> list[dict[str, Any]]:
    """Return, at some steps of training with cross-entropy, what -log p and 1 - p have in common.

    Values and gradients are of the whole training part; lists are (rates, splits).

    ``minus_log``, ``error``
        Means of -log p and of 1 - p.
    ``accuracy``, ``near_one``
        Shares of examples that are right, and that have p >= 0.9.
    ``cosine``, ``ratio``
        Of the gradients in the weights: cosine of their angle, and length of that of 1 - p over
        that of -log p.
    ``score_cosine``
        Cosine of the gradients in the scores of all examples.
    """
    torch.set_num_threads(1)
    stack = _stack(data, model, _CE, steps, splits)
    watched = []
    while True:
        if stack.step in WATCHED or stack.step == steps:
            watched.append({"step": stack.step, **_compare_gradients(stack)})
        if stack.step == steps:
            return watched
        stack.advance()


def stuck_of(data: str, model: str, steps: int, splits: int) -> dict[str, Any]:
    """Return the share of training examples whose P is below 0.05 after training.

    For "EXACT", 1 - P under normal noise of sigma = 1, and "cross-entropy", each by its P; lists
    are (rates, splits).
    """
    torch.set_num_threads(1)
    stuck = {}
    for name, loss in (("EXACT", _EXACT), ("cross-entropy", _CE)):
        stack = _stack(data, model, loss, steps, splits).run()
        rows = []
        for number, split in enumerate(stack.splits):
            with torch.no_grad():
                scores = stack.of_split(number, split.train.inputs)
                labels = split.train.labels.expand(scores.shape[:2])
                errors = expected_error(scores, labels, loss.noise, loss.sigma[1])
            rows.append(_shares(errors > 1.0 - NEAR_ZERO))
        stuck[name] = np.array(rows).T.tolist()
    return stuck


def _stack(data: str, model: str, loss: NoisyLoss, steps: int, splits: int) -> Stack:
    settings = [Setting(rate, DECAY, "none") for rate in RATES]
    return Stack(problem(data, "clean", splits), model, [settings] * splits, loss, steps)


def _compare_gradients(stack: Stack) -> dict[str, Any]:
    rows = []
    for number in range(stack.shape[0]):
        scores = stack.of_split(number, stack.splits[number].train.inputs)
        labels = stack.splits[number].train.labels.expand(scores.shape[:2])
        logs = minus_log(scores, labels, "Gumbel", UNIT)
        errors = expected_error(scores, labels, "Gumbel", UNIT)
        one, other = (_flat_gradients(value, stack, number) for value in (logs, errors))
        in_scores = [
            torch.autograd.grad(value.sum(), scores, retain_graph=True)[0].flatten(1)
            for value in (logs, errors)
        ]
        rows.append(
            {
                "minus_log": logs.mean(1).tolist(),
                "error": errors.mean(1).tolist(),
                "accuracy": _shares(scores.argmax(2) == labels),
                "near_one": _shares(errors <= 1.0 - NEAR_ONE),
                "cosine": torch.cosine_similarity(one, other).tolist(),
                "ratio": (other.norm(dim=1) / one.norm(dim=1)).tolist(),
                "score_cosine": torch.cosine_similarity(*in_scores).tolist(),
            }
        )
    return {name: np.array([row[name] for row in rows]).T.tolist() for name in rows[0]}


def _flat_gradients(values: Tensor, stack: Stack, number: int) -> Tensor:
    """Return gradients (T, weights) of the means of values (T, n), in the weights of a split."""
    weights = list(stack.weights.values())
    gradients = torch.autograd.grad(values.mean(1).sum(), weights, retain_graph=True)
    return torch.cat([each[number].flatten(1) for each in gradients], 1)


def _shares(chosen: Tensor) -> list[float]:
    """Return the share of each row of (T, n)."""
    shares: list[float] = chosen.double().mean(1).tolist()
    return shares
