"""EXACT, first version, section 4.5: predicting by sampling the scores, against their mean.

Published, in words: sampling does not give accuracy improvements, but rather introduces noise into
predictions (a small set of experiments, no figures).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from exact_torch.train import Config
from validation import data_sets
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part, Verdict
from validation.paper import image_runs
from validation.paper.over_seeds import Interval, interval, paired
from validation.paper.reduced import decide_if_full
from validation.reports import Results
from validation.running import Task

TITLE = "EXACT v1, section 4.5: prediction by sampling"
PUBLISHED = "sampling gives no improvement but introduces noise (section 4.5, in words)"
_SETS = {"small": ("digits",), "quick": ("digits",), "full": ("mnist", "cifar10")}
_SEEDS = {"small": 2, "quick": 3, "full": 6}
_STEPS = {"small": 30, "quick": 100, "full": 400}
_RATE = 3e-3  # Adam
VOTES = (1, 3, 9, 33)
_REPEATS = 8  # votes of each size for every example
_WORTH = 0.5  # points: an improvement below this is none


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
    done = {data: results[data] for data in _SETS[scale] if data in results}
    parts: list[Part] = [
        data_sets.missing(f"Prediction by sampling on {data}", data)
        for data in _SETS[scale]
        if not image_runs.there(data)
    ]
    ways = [way for data, runs in done.items() for way in _ways(data, runs)]
    parts += decide_if_full(_findings(ways), scale)
    if done:
        parts.append(
            Text(
                "Networks trained with -log P and a predicted sigma (the small network of the "
                f"image tables, Adam, {_STEPS[scale]} steps, {_SEEDS[scale]} seeds). The mean: the "
                "class with the largest mean score, as the paper predicts. Sampling: scores are "
                "drawn from the predicted distribution, and the class that is most often the "
                "largest is taken, ties at random. Intervals are over seeds, differences are "
                "paired by seed."
            )
        )
    parts += [part for data in done for part in _of_set(data, [w for w in ways if w.data == data])]
    parts += [_check(done)] if done else []
    parts.append(
        NotRun(
            "Prediction by sampling with the published networks",
            "The paper gives no figures; its networks take a GPU days.",
            "exact-torch train exact-v1-table2/cifar10-sgd-exact",
        )
    )
    return Section(TITLE, parts, _answer(ways))


def _ways(data: str, runs: Sequence[Mapping[str, Any]]) -> list[Way]:
    means = [100 * run["mean"] for run in runs]
    votes = [Way(data, n, [100 * run["votes"][str(n)] for run in runs]) for n in VOTES]
    return [Way(data, 0, means), *votes]


def _difference(ways: Sequence[Way], data: str, votes: int) -> Interval:
    values = {way.votes: way.accuracies for way in ways if way.data == data}
    return paired(values[votes], values[0])


def _findings(ways: Sequence[Way]) -> list[Finding]:
    if not ways:
        return []
    sets = list(dict.fromkeys(way.data for way in ways))
    single = {data: _difference(ways, data, 1) for data in sets}
    many = {data: _difference(ways, data, VOTES[-1]) for data in sets}
    every = [*single.values(), *many.values()]
    verdict: Verdict = "not decided"
    if any(each.verdict() == "holds" for each in every):  # sampling is better somewhere
        verdict = "does not hold"
    elif all(each.decided for each in single.values()) and all(
        each.half is not None and each.mean + each.half < _WORTH for each in many.values()
    ):  # worse with one sample, and at most a little better with many
        verdict = "holds"
    ours = "; ".join(
        f"{_set(data)}: {single[data]} points with one sample, {many[data]} with the vote of "
        f"{VOTES[-1]}"
        for data in sets
    )
    return [
        Finding(
            "Predicting by sampling the scores is no better than predicting by their mean: worse "
            f"with one sample, and not better by {_WORTH:g} points with the vote of {VOTES[-1]}.",
            PUBLISHED,
            ours,
            verdict,
        )
    ]


def _answer(ways: Sequence[Way]) -> str:
    told = [
        f"on {_set(data)} one sample costs {-_difference(ways, data, 1).mean:.2f} points of test "
        f"accuracy and the vote of {VOTES[-1]} differs by {_difference(ways, data, VOTES[-1])}"
        for data in dict.fromkeys(way.data for way in ways)
    ]
    return f"Against predicting by the mean, {'; '.join(told)}." if told else ""


def _set(data: str) -> str:
    return image_runs.SETS.get(data, data)


def _of_set(data: str, ways: Sequence[Way]) -> list[Part]:
    rows: list[list[Any]] = []
    for way in ways:
        mean = interval(way.accuracies)
        apart = _difference(ways, data, way.votes) if way.votes else (None, None)
        rows.append(["mean" if not way.votes else way.votes, *mean, *apart])
    header = ["samples that vote", "test accuracy, %", "± (95 %)", "minus mean, points"]
    title = f"{_set(data)}: prediction by the mean and by sampling"
    table = Table(title, [*header, "± (95 %) of it"], rows, cite=f"sampled-prediction-{data}")
    figure, ax = axes(log="x", xlabel="samples that vote", ylabel="test accuracy, %")
    mean = interval(ways[0].accuracies)
    ax.axhline(mean.mean, color="C1", label="mean")
    votes = [interval(way.accuracies) for way in ways[1:]]
    ax.errorbar(
        [way.votes for way in ways[1:]],
        [each.mean for each in votes],
        yerr=[each.half or 0.0 for each in votes],
        fmt="o-",
        capsize=3,
        color="C0",
        label="vote of samples",
    )
    ax.set_xticks(VOTES, [str(each) for each in VOTES])
    ax.minorticks_off()
    ax.legend(fontsize=7)
    caption = "Bars: 95 % intervals over seeds."
    return [table, Picture(f"{_set(data)}: accuracy by samples that vote", figure, table, caption)]


def _check(done: Mapping[str, Any]) -> Check:
    """Return the check of sampled accuracies against the exact integral."""
    apart = [
        (abs(run["single"] - run["expected"]) / max(run["error"], 1e-12), data, run)
        for data, runs in done.items()
        for run in runs
    ]
    far, data, run = max(apart, key=lambda each: each[0])
    return Check(
        "The accuracy of one sample is the expected accuracy that the exact integral gives, within "
        f"4 standard errors, for all {len(apart)} networks.",
        far < 4,
        f"largest: {far:.1f} standard errors ({_set(data)}, {100 * run['single']:.2f} % and "
        f"{100 * run['expected']:.2f} %)",
    )
