"""The runs behind the table of linear models on UCI sets: searches in each fold, oracles."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from exact_torch import data, recipes
from exact_torch.data import Dataset, Split
from exact_torch.train import Config, with_settings
from exact_torch.train.search import settings_of
from validation.paper.side_by_side import distance, train_all

LOSSES = ("ce", "hinge", "sigmoid", "betabern", "polynomial", "polyloss", "exact")
RECIPE = "exact-v2-tabular"
DECAYS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # the recipe's grid, for scikit-learn as well
_NO_DECAY = 1e-7  # in place of 0, for which separable classes have no optimum
_ITERATIONS = 3000


@dataclass(frozen=True)
class Judged:
    """The accuracies of one trial; None if its weights became infinite."""

    validation: float | None
    test: float | None


def search_fold(
    name: str, fold: int, trials: int, rounds: int, steps: int, seed: int = 0
) -> dict[str, Any]:
    """Search with every loss in one fold, and with scikit-learn's logistic regression.

    Trials are judged on a fifth of the fold's training part. Several that are equally good count
    alike: the test accuracy is the mean of theirs, what a draw among them has on average.
    """
    configs = {loss: _configs(name, loss, fold, trials, rounds, steps, seed) for loss in LOSSES}
    dataset = load(configs["ce"][0])
    judged: dict[str, list[Judged]] = {}
    for stack in _stacks(configs):
        together = list(itertools.chain.from_iterable(configs[loss] for loss in stack))
        results = iter(train_all(together, dataset))
        for loss in stack:
            part = itertools.islice(results, len(configs[loss]))
            judged[loss] = [Judged(each.validation, each.test) for each in part]
    plain = load(replace(configs["ce"][0], data_options={"partition": f"fold{fold}"}))
    labels = dataset.test.labels
    return {
        "losses": {loss: _chosen(judged[loss], configs[loss]) for loss in LOSSES},
        "sklearn": _chosen(_logistic(dataset)),
        "sklearn, as numbers": _chosen(_logistic(plain)),
        "features": dataset.shape[0],
        "training": len(dataset.train),
        "examples": len(labels),
        "majority": (torch.bincount(labels).max() / len(labels)).item(),
    }


def agreement(steps: int) -> dict[str, float]:
    """Return for each loss how far weights trained side by side are from those of ``Training``.

    Relative to the largest weight, after two rounds with two settings of the grid.
    """
    distances = {}
    for loss in LOSSES:
        configs = _configs("wine", loss, 0, 2, 2, steps // 2, seed=3)
        dataset = load(configs[0])
        pairs = zip(configs, train_all(configs, dataset), strict=True)
        apart = [distance(config, dataset, result.weights) for config, result in pairs]
        distances[loss] = float(np.max(apart))  # NaN if one is
    return distances


def excess(name: str, rounds: int, steps: int) -> dict[str, float]:
    """Return by how much of itself the least objective of CE is exceeded, for three decays.

    The objective is the mean of CE over the training rows plus decay / 2 times the squared weights
    without biases; scikit-learn's logistic regression finds its least value for two classes.
    """
    config = replace(_configs(name, "ce", 0, 1, rounds, steps, seed=0)[0], lr=0.5, clip=10.0)
    dataset = load(config)
    if len(dataset.classes) != 2:
        raise ValueError(f"{name} must have two classes, got {len(dataset.classes)}")
    decays = (1e-3, 1e-2, 1e-1)
    trained = train_all([replace(config, weight_decay=decay) for decay in decays], dataset)
    inputs, labels = _rows(dataset, dataset.train)
    found = {}
    for decay, result in zip(decays, trained, strict=True):
        model = _fitted(inputs, labels, decay)
        weight, bias = (each.double().numpy() for each in result.weights.values())
        ours, least = (
            _objective(inputs, labels, w.ravel(), b.item(), decay)
            for w, b in ((weight, bias), (model.coef_, model.intercept_))
        )
        found[str(decay)] = (ours - least) / least
    return found


def load(config: Config) -> Dataset:
    """Return the data set of a config."""
    options = dict(config.data_options)
    return data.load(config.data, validation=config.validation, download=False, **options)


def _configs(
    name: str, loss: str, fold: int, trials: int, rounds: int, steps: int, seed: int
) -> list[Config]:
    """Return the trials of a search; the draws are those of ``exact-torch search``."""
    variant = f"{name}-{loss}"
    recipe = recipes.get(f"{RECIPE}/{variant}")
    base = recipe.runs[variant]
    options = {**base.data_options, "partition": f"fold{fold}"}
    base = replace(base, epochs=rounds, epoch_steps=steps, seed=seed, data_options=options)
    return [_with(base, each) for each in settings_of(recipe.search[variant], trials, seed)]


def _stacks(configs: Mapping[str, Sequence[Config]]) -> list[list[str]]:
    """Return losses in groups that can be trained together."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for loss, (first, *_) in configs.items():
        learned = first.loss == "beta_bernoulli"  # it has weights of its own
        groups.setdefault((first.gradient, learned), []).append(loss)
    return list(groups.values())


def _chosen(judged: Sequence[Judged], configs: Sequence[Config] = ()) -> dict[str, Any]:
    """Return the mean test accuracy of the trials that are best on the validation set."""
    accuracies = [-1.0 if each.validation is None else each.validation for each in judged]
    best = max(accuracies)
    tied = [n for n, each in enumerate(accuracies) if each == best]
    tests = [judged[n].test or 0.0 for n in tied]  # 0 if all trials diverged
    chosen: dict[str, Any] = {
        "test": float(np.mean(tests)),
        "validation": best,
        "tied": len(tied),
        "least": min(tests),
        "most": max(tests),
        "failed": sum(each.validation is None for each in judged),
    }
    if configs:
        first = configs[tied[0]]
        chosen["lr"], chosen["weight_decay"] = first.lr, first.weight_decay
    return chosen


def _logistic(dataset: Dataset) -> list[Judged]:
    """Return the accuracies of scikit-learn's logistic regression with each decay of the grid."""
    inputs, labels = _rows(dataset, dataset.train)
    others = [_rows(dataset, split) for split in (dataset.validation, dataset.test)]
    judged = []
    for decay in DECAYS:
        model = _fitted(inputs, labels, decay)
        judged.append(Judged(*(float(model.score(*each)) for each in others)))
    return judged


def _fitted(inputs: np.ndarray, labels: np.ndarray, decay: float) -> Any:
    """Return scikit-learn's model with the penalty decay / 2 times the squared weights."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    strength = 1.0 / (len(labels) * max(decay, _NO_DECAY))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # without decay there may be no optimum
        return LogisticRegression(C=strength, max_iter=_ITERATIONS, tol=1e-6).fit(inputs, labels)


def _rows(dataset: Dataset, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return the standardised inputs and the labels."""
    inputs = (split.inputs(torch.arange(len(split))) - dataset.mean) / dataset.std
    return inputs.double().numpy(), split.labels.numpy()


def _objective(
    inputs: np.ndarray, labels: np.ndarray, weight: np.ndarray, bias: float, decay: float
) -> float:
    signs = 2.0 * labels - 1.0
    losses = np.logaddexp(0.0, -signs * (inputs @ weight + bias))
    return float(losses.mean() + 0.5 * decay * (weight @ weight))


def _with(config: Config, settings: Mapping[str, Any]) -> Config:
    return with_settings(config, [f"{name}={_json(each)}" for name, each in settings.items()])


def _json(value: Any) -> str:
    return "none" if value is None else repr(value)
