"""Runs of the single-logit tables: seven losses on MNIST and a file of CIFAR-10.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020),
sections 6.1 and 6.2. The runs are those of ``pols-table1``, shortened; as published, the learning
rate of each loss is the best of four in accuracy on a validation set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exact_torch.train import Config
from validation import data_sets
from validation.running import Task

MEASURES = ("auprc", "precision@0.9", "precision@0.99")  # one minus each is reported
LOSSES = {
    "ce": "CE",
    "max_margin": "max-margin",
    "self_norm": "self-norm",
    "nce": "NCE",
    "bce": "binary CE",
    "batch_ce": "batch CE",
    "batch_max_margin": "batch max-margin",
}
RATES = (1.0, 0.1, 0.01, 0.001)  # published


@dataclass(frozen=True)
class Settings:
    """How far the protocol is reduced on a set.

    Attributes
    ----------
    changes : mapping
        Of the settings of the recipe's runs.
    steps : int
        Of a run; published 100,000.
    rates : tuple of float
        Of which the best on the validation set is taken.
    search_steps : int
        Of each run of that search; published as many as of a run.
    seeds : int
        Published one.
    """

    changes: Mapping[str, Any]
    steps: int
    rates: tuple[float, ...]
    search_steps: int
    seeds: int


_CIFAR10: dict[str, Any] = {
    "data": "cifar10",
    "data_options": {"batches": [1]},
    "model": "cnn6",
    "model_options": {"width": 16},
    "image_size": 16,
    "batch_size": 64,
}
_DIGITS: dict[str, Any] = {
    "data": "digits",
    "model_options": {"width": 50},
    "batch_size": 64,
}
SETTINGS: dict[str, dict[str, Settings]] = {
    "small": {"digits": Settings(_DIGITS, 60, (0.1,), 0, 2)},
    "quick": {"mnist": Settings({"model_options": {"width": 50}}, 60, (0.1,), 0, 2)},
    "full": {
        "mnist": Settings({}, 1000, RATES, 200, 3),
        "cifar10": Settings(_CIFAR10, 600, RATES, 150, 3),
    },
}


def there(data: str) -> bool:
    """Return whether a set can be trained on here."""
    return data_sets.there(data, **({"batches": (1,)} if data == "cifar10" else {}))


def compare(
    config: Mapping[str, Any], rates: Sequence[float], search_steps: int, seeds: int
) -> dict[str, Any]:
    """Choose the rate on the validation set, then train and measure on the test set.

    Returns
    -------
    dict
        "search", validation accuracies by rate; "rate"; and "runs", for each seed "accuracy" and
        the three measures of single logits and of all, by this package and, for the first seed,
        by scikit-learn ("sklearn").
    """
    import torch

    from exact_torch import metrics
    from validation.paper.in_memory import train

    base = Config.from_json(config)
    search = {}
    for rate in rates if len(rates) > 1 else ():
        trial = replace(base, lr=rate, epoch_steps=search_steps, seed=seeds)
        search[f"{rate:g}"] = train(trial).validation().accuracy
    rate = max(rates, key=lambda rate: search.get(f"{rate:g}", 0.0))
    runs = []
    for seed in range(seeds):
        outputs = train(replace(base, lr=rate, seed=seed)).test()
        scores, labels = torch.as_tensor(outputs.scores), torch.as_tensor(outputs.labels)
        single, every = metrics.single_logit(scores, labels), metrics.all_logits(scores, labels)
        runs.append(
            {
                "accuracy": outputs.accuracy,
                "single": [single[name] for name in MEASURES],
                "all": [every[name] for name in MEASURES],
                "sklearn": by_sklearn(outputs.scores, outputs.labels) if seed == 0 else None,
            }
        )
    return {"search": search, "rate": rate, "runs": runs}


def by_sklearn(scores: Any, labels: Any) -> dict[str, list[float]]:
    """Return the measures of single logits and of all, computed by scikit-learn."""
    from scipy.special import log_softmax

    return {"single": measures(scores, labels), "all": measures(log_softmax(scores, 1), labels)}


def measures(scores: Any, labels: Any) -> list[float]:
    """Return AUPRC and precision at recalls 0.9 and 0.99, means over classes, by scikit-learn."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    classes = range(scores.shape[1])
    area = [average_precision_score(labels == j, scores[:, j]) for j in classes]
    curves = [precision_recall_curve(labels == j, scores[:, j])[:2] for j in classes]
    at = [
        [precision[recall >= least].max() for precision, recall in curves] for least in (0.9, 0.99)
    ]
    return [float(sum(each) / len(each)) for each in (area, *at)]


def name(data: str, loss: str) -> str:
    """Return the name of a task."""
    return f"{data}, {loss}"


def tasks(scale: str) -> list[Task]:
    """Return a task for each loss and set: its search, and its runs."""
    from exact_torch import recipes

    runs = recipes.get("pols-table1").runs
    listed = []
    for data, chosen in SETTINGS[scale].items():
        for loss in LOSSES if there(data) else ():
            config = replace(
                runs[f"mnist-{loss}"],
                **{"epochs": 1, "epoch_steps": chosen.steps, "device": "cpu", **chosen.changes},
            )
            arguments = {
                "config": config.to_json(),
                "rates": chosen.rates,
                "search_steps": chosen.search_steps,
                "seeds": chosen.seeds,
            }
            listed.append(Task(name(data, loss), compare, arguments))
    return listed
