"""Runs side by side: mean and standard deviation over seeds for each setting."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import special

from exact_torch.train.config import Config
from exact_torch.train.record import Folder
from exact_torch.train.run_files import RunError, read_config

__all__ = ["Difference", "Group", "compare", "difference_table", "differences", "table"]

_SHOWN = {
    "test_accuracy": "accuracy, %",
    "test_expected_accuracy": "expected, %",
    "test_calibration_error": "calibration, %",
    "validation_accuracy": "validation, %",
}


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds only.

    Attributes
    ----------
    name : what sets them apart from the other groups
    data : the data set and its options; only accuracies of the same one can be compared
    loss : the loss's name
    seeds : of each run
    summaries, metrics : of each run
    """

    name: str
    data: str
    loss: str
    seeds: tuple[int, ...]
    summaries: tuple[dict[str, Any], ...]
    metrics: tuple[list[dict[str, Any]], ...]

    def mean(self, name: str) -> float | None:
        """The mean over seeds; None where no run has the value."""
        values = self._values(name)
        return statistics.fmean(values) if values else None

    def std(self, name: str) -> float | None:
        """The sample standard deviation over seeds; None of fewer than two."""
        values = self._values(name)
        return statistics.stdev(values) if len(values) > 1 else None

    def accuracies(self) -> dict[int, float]:
        """Test accuracies, or else those on the validation set, by seed."""
        for name in ("test_accuracy", "validation_accuracy"):
            if self._values(name):
                pairs = zip(self.seeds, self.summaries, strict=True)
                return {seed: each[name] for seed, each in pairs if each.get(name) is not None}
        return {}

    def _values(self, name: str) -> list[float]:
        return [each[name] for each in self.summaries if each.get(name) is not None]


def compare(paths: Iterable[str | Path]) -> tuple[list[Group], list[Path]]:
    """Groups of finished runs, the most accurate first, and the runs that are not finished.

    Parameters
    ----------
    paths : iterable of paths
        Run folders, or folders with run folders anywhere below them.
    """
    settings: dict[str, dict[str, Any]] = {}
    members: dict[str, list[Folder]] = {}
    unfinished = []
    found = [config.parent for path in paths for config in sorted(Path(path).rglob("config.json"))]
    if not found:
        raise RunError("none of the folders holds a run")
    for path in dict.fromkeys(found):
        config = read_config(path)
        folder = Folder(path, config, writes=False)
        if folder.summary() is None:
            unfinished.append(path)
            continue
        setting = {name: each for name, each in _flat(config.to_json()).items() if name != "seed"}
        key = json.dumps(setting, sort_keys=True)
        settings[key] = setting
        members.setdefault(key, []).append(folder)
    if not members:
        raise RunError(f"none of the runs is finished: {', '.join(map(str, unfinished))}")
    names = _names(settings)
    groups = [
        Group(
            names[key],
            _data_of(folders[0].config),
            folders[0].config.loss,
            tuple(folder.config.seed for folder in folders),
            tuple(folder.summary() or {} for folder in folders),
            tuple(folder.metrics() for folder in folders),
        )
        for key, folders in members.items()
    ]
    groups.sort(key=lambda group: -(group.mean("test_accuracy") or 0.0))
    return groups, unfinished


@dataclass(frozen=True)
class Difference:
    """How much more accurate a setting is than a baseline, over the seeds that both have.

    Attributes
    ----------
    name, baseline : of the two groups
    seeds : number of pairs
    mean : mean difference of their accuracies
    half_width : of its 95 % interval, by Student's t of the differences
    """

    name: str
    baseline: str
    seeds: int
    mean: float
    half_width: float


def differences(groups: Sequence[Group], baseline: str = "ce") -> list[Difference]:
    """Return the paired differences to a baseline, data set by data set.

    Parameters
    ----------
    groups : sequence of Group
    baseline : str
        The loss that others are compared with; where a data set has no runs with it, or several
        groups of them, its most accurate group is taken.

    Returns
    -------
    list of Difference
        None for groups that share fewer than two seeds with their baseline.
    """
    found = []
    for data in dict.fromkeys(group.data for group in groups):
        alike = [group for group in groups if group.data == data]
        named = [group for group in alike if group.loss == baseline]
        reference = (named or alike)[0]
        for group in alike:
            if group is reference:
                continue
            pairs = [
                own - other
                for seed, own in group.accuracies().items()
                if (other := reference.accuracies().get(seed)) is not None
            ]
            if len(pairs) > 1:
                deviation = statistics.stdev(pairs)
                quantile = float(special.stdtrit(len(pairs) - 1, 0.975))
                half_width = quantile * deviation / len(pairs) ** 0.5
                mean = statistics.fmean(pairs)
                found.append(Difference(group.name, reference.name, len(pairs), mean, half_width))
    return found


def difference_table(found: Sequence[Difference]) -> str:
    """The differences as a table in Markdown."""
    rows = [["setting", "minus", "seeds", "difference, points", "95 % interval"]]
    for each in found:
        low, high = each.mean - each.half_width, each.mean + each.half_width
        interval = f"{100 * low:+.2f} to {100 * high:+.2f}"
        rows.append(
            [each.name, each.baseline, str(each.seeds), f"{100 * each.mean:+.2f}", interval]
        )
    return _markdown(rows)


def table(groups: Sequence[Group]) -> str:
    """The groups as a table in Markdown, which is readable as it is."""
    columns = [name for name in _SHOWN if any(group.mean(name) is not None for group in groups)]
    rows = [["setting", "seeds", *(_SHOWN[name] for name in columns), "seconds"]]
    for group in groups:
        values = [_text(group.mean(name), group.std(name), 100.0) for name in columns]
        seconds = _text(group.mean("seconds"), group.std("seconds"), 1.0, digits=1)
        rows.append([group.name, str(len(group.summaries)), *values, seconds])
    return _markdown(rows)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _data_of(config: Config) -> str:
    return json.dumps([config.data, dict(config.data_options), config.validation], sort_keys=True)


def _text(mean: float | None, std: float | None, unit: float, digits: int = 2) -> str:
    if mean is None:
        return "-"
    spread = "" if std is None else f" ± {unit * std:.{digits}f}"
    return f"{unit * mean:.{digits}f}{spread}"


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Options beside the fields, under dotted names."""
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{option}": each for option, each in value.items()}
        else:
            flat[name] = value
    return flat


def _names(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """As much as tells the settings apart, "loss=ce, lr=0.1"; of a single one, what it is."""
    every = list(settings.values())

    def told_apart(keys: Sequence[str]) -> int:
        return len({json.dumps([each.get(key) for key in keys]) for each in every})

    apart: list[str] = []
    for key in ("data", "model", "loss", *dict.fromkeys(key for each in every for key in each)):
        if told_apart([*apart, key]) > told_apart(apart):
            apart.append(key)
    apart = apart or ["data", "model", "loss"]
    return {
        key: ", ".join(f"{name}={each[name]}" for name in apart if name in each)
        for key, each in settings.items()
    }
