"""Mixing CE and EL, tables 1, 2, 5 and 6 at the scale of a CPU: the training runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from exact_torch import data, recipes
from exact_torch.train import Config
from validation import data_sets
from validation.paper.mixing_training import Followed, dropout_cnn, follow, scaled_rate
from validation.paper.training import train_once
from validation.running import Task

SCALED = "scaled"
"""The control: cross-entropy with the learning rate times M (eq. 20 to 22)."""
TABLES = {
    "1": ("ce", "f0", "f0,0.5", "f0-0.5", SCALED),
    "2": ("ce", "f0", "f0,0.5", "f0-0.5"),
    "5": ("ce", "f0-0.5", "cot"),
    "6": ("ce", "f0-0.5"),
}
AGREEMENT = "loop"
CHANGES = ("baseline", "erasing", "erasing-no-rotation", "jitter", "dropout")


@dataclass(frozen=True)
class Setting:
    """Data and network of a table.

    Attributes
    ----------
    data : str
    examples : int, optional
        Training examples; all unless given.
    epochs, seeds : int
    width : int
        Maps of the first layer of ``small_cnn``.
    image_size : int, optional
        Images are scaled to it.
    test_step : int
        Every how many test examples are used.
    batch_size : int
    """

    data: str
    examples: int | None
    epochs: int
    seeds: int
    width: int = 12
    image_size: int | None = None
    test_step: int = 1
    batch_size: int = 128


_DIGITS = Setting("digits", 600, 6, 2, width=6, batch_size=32)
SETTINGS: dict[str, dict[str, Setting]] = {
    "small": dict.fromkeys(TABLES, _DIGITS),
    "quick": {
        "1": Setting("cifar10", 1000, 6, 2, 8, 16, test_step=20),
        "2": Setting("mnist", 1000, 6, 2, 8, 14, test_step=20),
        "5": Setting("cifar10", 1000, 6, 2, 8, 16, test_step=20),
    },
    "full": {
        "1": Setting("cifar10", None, 12, 6, 12, 16),
        "2": Setting("mnist", 10_000, 6, 6, 12, 14),
        "5": Setting("cifar10", None, 12, 4, 12, 16),
        "6": Setting("cifar10", 5_000, 12, 3, 12, 16),
    },
}


def there(name: str) -> bool:
    """Return whether a set can be loaded here."""
    return data_sets.there(name, batches=(1,)) if name == "cifar10" else data_sets.there(name)


def task_name(table: str, change: str, seed: int) -> str:
    """Return the name of the task of a seed, and of one of the changes of table 6."""
    return f"table {table}, {change}seed {seed}"


def changes(table: str) -> tuple[str, ...]:
    """Return the rows of a table that are trained apart: those of table 6, else one."""
    return CHANGES if table == "6" else ("",)


def tasks(scale: str) -> list[Task]:
    """Return a task for each seed, with the runs of all losses, and one that checks the method."""
    listed = [Task(AGREEMENT, agreement, {})]
    plan = {table: each for table, each in SETTINGS[scale].items() if there(each.data)}
    for seed in range(max((each.seeds for each in plan.values()), default=0)):
        for table, setting in plan.items():
            if seed >= setting.seeds:
                continue
            for change in changes(table):
                name = task_name(table, f"{change}, " if change else "", seed)
                given = {"table": table, "change": change, "seed": seed}
                listed.append(Task(name, run, given | {"setting": asdict(setting)}))
    return listed


def run(table: str, change: str, seed: int, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Train a network with each loss, from the same initial weights on the same batches.

    Returns
    -------
    dict
        By loss: "accuracy" on test examples and "groups", see ``mixing_training.Groups``.
    """
    plan = Setting(**setting)
    configs = {loss: config_of(table, change, loss, plan, seed) for loss in TABLES[table]}
    first = configs["ce"]
    dataset = data.load(first.data, validation=0.0, **dict(first.data_options))
    results = {}
    for loss, config in configs.items():
        factor: Callable[[float], float] | None = scaled_rate if loss == SCALED else None
        came: Followed = follow(config, dataset, factor, plan.test_step)
        results[loss] = {"accuracy": came.accuracy, "groups": list(came.groups)}
    return results


def config_of(table: str, change: str, loss: str, setting: Setting, seed: int) -> Config:
    """Return the config of the small recipe of a table with the data and network of a setting."""
    runs = recipes.get(f"mixing-table{table}-small").runs
    loss = "ce" if loss == SCALED else loss
    if table == "6":
        config = runs[f"{'baseline' if change == 'dropout' else change}-{loss}"]
    else:
        config = runs[f"small_cnn-{loss}"]
    options: dict[str, Any] = {"batches": [1]} if setting.data == "cifar10" else {}
    if setting.examples is not None:
        options["examples"] = setting.examples
    milestones = [
        round(each * setting.epochs / config.epochs)
        for each in config.schedule_options["milestones"]
    ]
    network: dict[str, Any] = {"model_options": {"width": setting.width}}
    if change == "dropout":
        channels = 3 if setting.data == "cifar10" else 1
        network = {
            "model": f"{dropout_cnn.__module__}:{dropout_cnn.__qualname__}",
            "model_options": {"channels": channels, "width": setting.width, "dropout": 0.2},
        }
    augment = config.augment
    if setting.data == "digits":  # 8 x 8: moved or turned, they cannot be read
        augment = tuple(each for each in augment if each not in ("flip", "crop", "rotate"))
    return replace(
        config,
        augment=augment,
        data=setting.data,
        data_options=options,
        image_size=setting.image_size,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        schedule_options={**config.schedule_options, "milestones": milestones},
        seed=seed,
        **network,
    )


def agreement() -> dict[str, float]:
    """Return the test accuracy of a short run on digits, by ``follow`` and by ``train``."""
    config = config_of("5", "", "f0-0.5", Setting("digits", 300, 3, 1, width=4, batch_size=32), 0)
    dataset = data.load("digits", validation=0.0, examples=300)
    ours = follow(config, dataset).accuracy
    theirs: float = train_once(config.to_json())["summary"]["test_accuracy"]
    return {"follow": ours, "train": theirs}
