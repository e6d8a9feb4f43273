"""Runs side by side: mean and standard deviation over seeds for each setting."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exact_torch.train.record import Folder
from exact_torch.train.run_files import RunError, read_config

__all__ = ["Group", "compare", "table"]

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
    summaries, metrics : of each run
    """

    name: str
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
            tuple(folder.summary() or {} for folder in folders),
            tuple(folder.metrics() for folder in folders),
        )
        for key, folders in members.items()
    ]
    groups.sort(key=lambda group: -(group.mean("test_accuracy") or 0.0))
    return groups, unfinished


def table(groups: Sequence[Group]) -> str:
    """The groups as a table in Markdown, which is readable as it is."""
    columns = [name for name in _SHOWN if any(group.mean(name) is not None for group in groups)]
    rows = [["setting", "seeds", *(_SHOWN[name] for name in columns), "seconds"]]
    for group in groups:
        values = [_text(group.mean(name), group.std(name), 100.0) for name in columns]
        seconds = _text(group.mean("seconds"), group.std("seconds"), 1.0, digits=1)
        rows.append([group.name, str(len(group.summaries)), *values, seconds])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


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
