"""What the report on the criticism of EXACT trains: equal settings, equal tuning, long runs."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exact_torch import ExactLoss, losses
from validation.reports.criticism.noise import NoisyLoss
from validation.reports.criticism.stacked import Loss, Setting, Stack, train_alone
from validation.reports.when.problems import Part, Problem, Split, problem

UNIT = math.pi / math.sqrt(6.0)  # standard deviation of Gumbel noise of scale 1: plain softmax

# Equal settings: whether scores and gradients are normalised, and the first and last sigma.
RECIPES: dict[str, tuple[bool, tuple[float, float]]] = {
    "plain": (False, (1.0, 1.0)),
    "scheduled": (True, (10.0, 0.1)),
}
ARMS = (
    ("normal", "-log P"),
    ("normal", "1 - P"),
    ("normal", "-log of the mean P"),
    ("Gumbel", "-log P"),
    ("Gumbel", "1 - P"),
)
RATES = (0.05, 0.2, 1.0)
DECAY = 1e-4

# Equal tuning: the published values of learning rate and weight decay, and gradients treated in
# one of three ways. Every loss has these axes and no other.
AXES: dict[str, tuple[Any, ...]] = {
    "rate": (0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
    "decay": (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "gradient": ("none", "clip", "normalise"),
}
TUNED = ("cross-entropy", "hinge", "EXACT, 1 - P", "EXACT, robust", "EXACT, -log P")


def arms_of(data: str, model: str, recipe: str, steps: int, splits: int) -> dict[str, Any]:
    """Return accuracies by noise and objective: validation and test, of rates and splits."""
    torch.set_num_threads(1)
    posed = problem(data, "clean", splits)
    normalised, sigma = RECIPES[recipe]
    settings = [Setting(rate, DECAY, "normalise" if normalised else "none") for rate in RATES]
    accuracies: dict[str, Any] = {}
    for noise, objective in ARMS:
        loss = NoisyLoss(noise, objective, sigma, normalised)
        stack = Stack(posed, model, [settings] * splits, loss, steps).run()
        accuracies[f"{noise}, {objective}"] = {
            part: np.array([_shares(right) for right in stack.right(part)]).T.tolist()
            for part in ("validation", "test")
        }
    return accuracies


def draws(count: int, search: int) -> list[Setting]:
    """Return the settings of a search, the same for all losses: draws without replacement."""
    everything = list(itertools.product(*AXES.values()))
    chosen = np.random.default_rng([23, search]).choice(len(everything), count, replace=False)
    return [Setting(*everything[int(number)]) for number in chosen]


def tuned_loss(name: str, model: str) -> Loss:
    """Return a loss of ``TUNED`` for many networks."""
    if name == "cross-entropy":
        return NoisyLoss("Gumbel", "-log P", (UNIT, UNIT), False)
    if name == "EXACT, -log P":
        return NoisyLoss("normal", "-log P", (1.0, 1.0), False)
    if name == "EXACT, 1 - P":
        # published: the last sigma is 0.01 for tables, and 1 for most networks on images
        return NoisyLoss("normal", "1 - P", (10.0, 0.01 if model == "linear" else 1.0), True)
    if name == "EXACT, robust":
        preset = ExactLoss.robust()
        preset.set_progress(1.0)
        last, margin = float(preset.deviation(2)), preset.margin
        assert isinstance(margin, float)
        return NoisyLoss("normal", "1 - P", (10.0, last), True, margin)
    if name == "hinge":
        return _hinge
    raise ValueError(f"loss must be one of {', '.join(TUNED)}, got {name!r}")


def _hinge(scores: Tensor, labels: Tensor, progress: float) -> Tensor:
    return losses.hinge(scores.flatten(0, 1), labels.flatten()).view(labels.shape).mean(1).sum()


def tuned_of(data: str, model: str, trials: int, steps: list[int], splits: int) -> dict[str, Any]:
    """Return what independent searches, one for each split, choose and how that is tested.

    By number of steps and loss: ``test`` and ``validation`` accuracies of the trial that is best
    on validation, the mean of equally good ones; ``settings``, the first of them; ``over_ce``, the
    standard error that the choice of test examples gives to the difference to cross-entropy.
    """
    torch.set_num_threads(1)
    posed = problem(data, "clean", splits)
    settings = [draws(trials, search) for search in range(splits)]
    tuned: dict[str, Any] = {
        "test_examples": sum(len(split.test.labels) for split in posed.splits),
        "lengths": {},
    }
    for length in steps:
        begin = time.process_time()
        rights: dict[str, list[np.ndarray]] = {}
        chosen: dict[str, Any] = {}
        for name in TUNED:
            stack = Stack(posed, model, settings, tuned_loss(name, model), length).run()
            validation = [np.array(_shares(right)) for right in stack.right("validation")]
            best = [values == values.max() for values in validation]
            rights[name] = [
                right[torch.from_numpy(where)].double().mean(0).numpy()
                for right, where in zip(stack.right("test"), best, strict=True)
            ]
            chosen[name] = {
                "validation": [float(values.max()) for values in validation],
                "median": [float(np.median(values)) for values in validation],
                "test": [float(right.mean()) for right in rights[name]],
                "settings": [
                    settings[search][int(where.argmax())] for search, where in enumerate(best)
                ],
                "over_ce": _error_of_examples(rights[name], rights["cross-entropy"]),
            }
        tuned["lengths"][str(length)] = {"losses": chosen, "seconds": time.process_time() - begin}
    return tuned


def _shares(right: Tensor) -> list[float]:
    """Return accuracies (T,) of rows that are right or not (T, n)."""
    shares: list[float] = right.double().mean(1).tolist()
    return shares


def _error_of_examples(first: list[np.ndarray], second: list[np.ndarray]) -> float:
    """Return the standard error of the mean difference over splits with disjoint test parts."""
    squares = [(one - other).var() / len(one) for one, other in zip(first, second, strict=True)]
    return float(np.sqrt(np.sum(squares)) / len(squares))


def distances_of(steps: int) -> dict[str, float]:
    """Return by loss how far scores of stacked networks are from those of networks alone.

    In units of the largest score, in double precision, the largest over linear models and those
    with a hidden layer, two and ten classes, and all treatments of gradients.
    """
    torch.set_num_threads(1)
    apart: dict[str, float] = {}
    (split,) = problem("digits", "clean", 1).splits
    for classes, model in ((10, "linear"), (2, "hidden")):
        parts = [Part(part.inputs.double(), part.labels % classes) for part in split]
        posed = Problem(classes, [Split(*parts)], False)
        settings = [Setting(0.1, 1e-2, gradient) for gradient in AXES["gradient"]]
        for name in TUNED:
            stack = Stack(posed, model, [settings], tuned_loss(name, model), steps).run()
            together = stack.of_split(0, parts[2].inputs)
            for place, setting in enumerate(settings):
                network = train_alone(posed, model, setting, tuned_loss(name, model), steps)
                with torch.no_grad():
                    scores = network(parts[2].inputs)
                    distance = (together[place] - scores).abs().max() / scores.abs().max()
                # of NaN and a number np.max returns NaN
                apart[name] = float(np.max([distance.item(), apart.get(name, 0.0)]))
    return apart
