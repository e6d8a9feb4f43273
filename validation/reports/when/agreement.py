"""Stacked networks beside networks of torch's own layers, optimiser and loss modules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exact_torch import ExactLoss
from validation.reports.when import training
from validation.reports.when.losses import LOSSES
from validation.reports.when.problems import Part, Problem, Split, problem

_PLACE = 1  # of the trial that is trained alone


class _Gumbel(nn.Module):
    """Cross-entropy or the error of a softmax of normalised scores, written without the package."""

    def __init__(self, bounded: bool) -> None:
        super().__init__()
        self.bounded, self.robust = bounded, ExactLoss.robust()

    def set_progress(self, progress: float) -> None:
        self.robust.set_progress(progress)

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        unit = (scores - scores.mean()) / scores.std()
        scale = math.pi / math.sqrt(6.0) / self.robust.deviation(scores.shape[1])
        if not self.bounded:
            return F.cross_entropy(scale * unit, labels)
        label = unit.gather(1, labels[:, None])
        unit = torch.maximum(unit, label - self.robust.margin)
        return 1.0 - (scale * unit).softmax(1).gather(1, labels[:, None]).mean()


class _Halves(nn.Module):
    """Cross-entropy in the first half of training, the robust loss in the second."""

    def __init__(self) -> None:
        super().__init__()
        last = ExactLoss.robust()
        last.set_progress(1.0)
        self.later = ExactLoss.robust(sigma=(1.0, float(last.deviation(2))))
        self.progress = 0.0

    def set_progress(self, progress: float) -> None:
        self.progress = progress
        self.later.set_progress(max(0.0, 2.0 * progress - 1.0))

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        early = self.progress < 0.5
        return F.cross_entropy(scores, labels) if early else self.later(scores, labels)


def _gce(scores: Tensor, labels: Tensor) -> Tensor:
    return ((1.0 - scores.softmax(1).gather(1, labels[:, None]) ** 0.7) / 0.7).mean()


def _hinge(scores: Tensor, labels: Tensor) -> Tensor:
    return F.multi_margin_loss(scores, labels) * scores.shape[1] / (scores.shape[1] - 1)


def _modules() -> dict[str, Any]:
    return {
        "CE": F.cross_entropy,
        "CE normalised": _Gumbel(bounded=False),
        "hinge": _hinge,
        "GCE": _gce,
        "1 - softmax": _Gumbel(bounded=True),
        "nll": ExactLoss(),
        "robust": ExactLoss.robust(),
        "CE then robust": _Halves(),
    }


def distances(steps: int) -> dict[str, float]:
    """Return for each loss the largest difference of test scores, relative to the largest one."""
    torch.set_num_threads(1)
    posed = problem("digits", "symmetric 30 %", splits=1)
    # In single precision AdamW makes whole steps of gradients that are nothing but rounding.
    (split,) = posed.splits
    found: dict[str, float] = {}
    for classes in (10, 2):  # digits, and odd or even ones
        parts = [Part(part.inputs.double(), part.labels % classes) for part in split]
        posed = posed._replace(splits=[Split(*parts)], classes=classes)
        for name, apart in _distances(posed, steps).items():
            found[name] = float(np.max([apart, found.get(name, 0.0)]))  # NaN if one is
    return found


def _distances(posed: Problem, steps: int) -> dict[str, float]:
    settings = training.trials(3)
    inputs = posed.splits[0].test.inputs
    found = {}
    for name, module in _modules().items():
        model = "MLP" if name == "robust" else "linear"
        layers = training.train_stack(posed, model, LOSSES[name], settings, steps)
        with torch.no_grad():
            together = layers.scores(inputs.flatten(1)[None])[0, _PLACE]
        network = training.alone(
            posed.splits[0], posed.classes, model, module, settings[_PLACE], steps
        )
        with torch.no_grad():
            apart = network(inputs)
        found[name] = float((together - apart).abs().max() / apart.abs().max())
    return found
