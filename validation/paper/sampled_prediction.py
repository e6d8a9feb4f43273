"""EXACT, first version, section 4.5: predicting by sampling the scores, against their mean.

Published, in words: sampling does not give accuracy improvements, but rather introduces noise into
predictions (a small set of experiments, no figures).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from exact_torch.train import Config
from validation.page import Check, Finding, NotRun, Picture, Section, Table, axes
from validation.page.content import Part
from validation.paper import image_runs
from validation.paper.over_seeds import Interval, interval, over, paired
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v1, section 4.5: prediction by sampling"
PUBLISHED = "sampling gives no improvement but introduces noise (section 4.5, in words)"
_SETS = {"small": ("digits",), "quick": ("digits",), "full": ("mnist", "cifar10")}
_SEEDS = {"small": 2, "quick": 3, "full": 6}
_STEPS = {"small": 30, "quick": 100, "full": 500}
_RATE = 3e-3  # Adam
VOTES = (1, 3, 9, 33)
_REPEATS = 8  # votes of each size for every example


class Way(NamedTuple):
    """A way to predict on a set: how many samples vote (0: the mean), accuracies in % by seed."""

    data: str
    votes: int
    accuracies: list[float]


def predict(config: Mapping[str, Any], seeds: int) -> list[dict[str, Any]]:
    """Train with several seeds; return for each how accurate the ways to predict are.

    Returns
    -------
    list of dict
        "mean", the accuracy of the largest mean score; "votes", accuracies by the number of samples
        that vote, ties broken at random; "expected", the expected accuracy by the exact integral,
        which the accuracy of one sample estimates, and "error", the standard error of that.
    """
    import torch

    from exact_torch import expected_accuracy
    from validation.paper.in_memory import train

    measured = []
    for seed in range(seeds):
        outputs = train(replace(Config.from_json(config), seed=seed)).test()
        scores, labels, sigma = outputs
        assert sigma is not None
        rng = np.random.default_rng(seed)
        votes, single = {}, np.zeros(_REPEATS)
        for count in VOTES:
            right = [_vote(scores, sigma, count, rng) == labels for _ in range(_REPEATS)]
            votes[str(count)] = float(np.mean(right))
            if count == 1:
                single = np.mean(right, axis=1)
        probs = expected_accuracy(
            torch.as_tensor(scores),
            torch.as_tensor(labels),
            torch.as_tensor(sigma).double(),
            reduction="none",
        ).numpy()
        measured.append(
            {
                "mean": outputs.accuracy,
                "votes": votes,
                "single": float(single.mean()),
                "expected": float(probs.mean()),
                "error": float(np.sqrt(np.sum(probs * (1 - probs)) / _REPEATS) / len(labels)),
            }
        )
    return measured


def _vote(scores: np.ndarray, sigma: np.ndarray, count: int, rng: np.random.Generator) -> Any:
    """Return the class that most of ``count`` samples of the scores have as their largest."""
    rows = np.arange(len(scores))
    ballots = rng.random(scores.shape)  # less than a vote: breaks ties
    for _ in range(count):
        ballots[rows, (scores + sigma * rng.standard_normal(scores.shape)).argmax(axis=1)] += 1
    return ballots.argmax(axis=1)


def tasks(scale: str) -> list[Task]:
    """Return a task for each set."""
    listed = []
    for data in _SETS[scale]:
        if image_runs.there(data):
            config = image_runs.config(data, "exact_v1", "adam", _STEPS[scale])
            arguments = {"config": replace(config, lr=_RATE).to_json(), "seeds": _SEEDS[scale]}
            listed.append(Task(data, predict, arguments))
    return listed


def section(results: Results, scale: str) -> Section:
    """Return accuracies by the way of predicting, and what the paper says of it."""
    return Section(TITLE, [])
