"""A predicted sigma at the published learning rate: which runs train, and which stay at chance.

The first version of EXACT trains networks that predict sigma by SGD with momentum 0.9 and a
learning rate of 0.5 (arXiv:2205.09615v1, section 5.1). How they keep sigma positive is not said; a
plain way is the exponential of a linear layer, without an upper limit. Beside it, at the same
rates: this package's head, whose sigma is at most four times the initial one, the same with
gradients clipped to norm 1, the same loss with a fixed sigma, and cross-entropy. So what the rate
does and what the predicted sigma does can be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from exact_torch.train import Config
from validation.paper import image_runs
from validation.running import Task

PLAIN = "predicted sigma, no upper limit"
_FIXED: dict[str, Any] = {"loss": "exact", "loss_options": {"objective": "nll"}}
_PREDICTED: dict[str, Any] = {**_FIXED, "head": "predicted"}
ARMS: dict[str, dict[str, Any]] = {
    PLAIN: _PREDICTED,
    "predicted sigma, limited": _PREDICTED,
    "predicted sigma, limited, clipped": {**_PREDICTED, "gradient": "clip", "clip": 1.0},
    "fixed sigma": _FIXED,
    "cross-entropy": {"loss": "ce"},
}
_NO_LIMIT = 1e6  # so far above the scores that sigma is the exponential of a linear layer
RATES = {"small": (0.5,), "quick": (0.5,), "full": (0.02, 0.1, 0.5)}
_IMAGE_RATES = (0.1, 0.5)  # of MNIST and CIFAR-10
SEEDS = {"small": 2, "quick": 4, "full": 10}
STEPS = {"small": 40, "quick": 80, "full": 200}
SETS = {"small": ("digits",), "quick": ("digits",), "full": ("digits", "mnist", "cifar10")}
CHANCE = 0.2  # ten classes: below this a run counts as not trained


class Outcome(NamedTuple):
    """What came of the runs of an arm at a rate."""

    data: str
    arm: str
    rate: float
    accuracies: list[float]
    sigmas: list[float | None]

    @property
    def untrained(self) -> int:
        """How many runs stayed at chance or were no longer finite."""
        return sum(each < CHANCE for each in self.accuracies)


def run(config: Mapping[str, Any], seeds: int, sigma_max: float | None) -> dict[str, Any]:
    """Return test accuracies and mean predicted sigmas by seed; None for no sigma."""
    from validation.paper.in_memory import train

    base = Config.from_json(config)
    tested = [train(replace(base, seed=seed), sigma_max=sigma_max).test() for seed in range(seeds)]
    return {
        "accuracy": [each.accuracy for each in tested],
        "sigma": [None if each.sigma is None else float(each.sigma.mean()) for each in tested],
    }


def configs(scale: str) -> dict[tuple[str, str, float], Config]:
    """Return the runs by data set, arm and rate: SGD with momentum 0.9 and a constant rate."""
    found = {}
    for data in SETS[scale]:
        base = image_runs.config(data, "ce", "sgd", STEPS[scale])
        base = replace(base, schedule="constant")
        for arm, changes in ARMS.items():
            for rate in RATES[scale] if data == "digits" else _IMAGE_RATES:
                found[data, arm, rate] = replace(base, lr=rate, **changes)
    return found


def name(data: str, arm: str, rate: float) -> str:
    """Return the name of a task."""
    return f"rates, {data}, {arm}, {rate:g}"


def tasks(scale: str) -> list[Task]:
    """Return a task for each data set, arm and rate; digits have twice the seeds."""
    return [
        Task(
            name(data, arm, rate),
            run,
            {
                "config": config.to_json(),
                "seeds": SEEDS[scale] if data == "digits" else SEEDS[scale] // 2,
                "sigma_max": _NO_LIMIT if arm == PLAIN else None,
            },
        )
        for (data, arm, rate), config in configs(scale).items()
        if image_runs.there(data)
    ]


def outcomes(results: Mapping[str, Any], scale: str) -> list[Outcome]:
    """Return what came of each task that is done."""
    return [
        Outcome(data, arm, rate, results[task]["accuracy"], results[task]["sigma"])
        for data, arm, rate in configs(scale)
        if (task := name(data, arm, rate)) in results
    ]
