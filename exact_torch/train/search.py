"""Random search over a grid of settings, judged on the validation set.

Each trial is a run in a folder and a process of its own.  So trials that are finished are not
repeated, those that were interrupted go on, and one that fails takes no other with it.
"""

import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from exact_torch.train import checkpoint
from exact_torch.train.config import Config
from exact_torch.train.folder_lock import hold_folder
from exact_torch.train.record import Folder
from exact_torch.train.run_files import RunError, read_summary
from exact_torch.train.settings import with_settings
from mvnorth._interface import whole_number

__all__ = ["Trial", "search", "settings_of"]


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial of a search.

    Attributes
    ----------
    settings : what was drawn from the grid
    accuracy : on the validation set; None if the run failed
    failure : what the run said then
    """

    settings: dict[str, Any]
    accuracy: float | None
    failure: str | None = None


def settings_of(grid: Mapping[str, Sequence[Any]], trials: int, seed: int) -> list[dict[str, Any]]:
    """Settings drawn from a grid, no two alike while there are others.

    Examples
    --------
    >>> sorted(each["lr"] for each in settings_of({"lr": [0.1, 1.0]}, 2, seed=0))
    [0.1, 1.0]
    """
    draw = random.Random(seed)
    found: list[dict[str, Any]] = []
    for _ in range(100 * trials):
        settings = {name: draw.choice(values) for name, values in grid.items()}
        if settings not in found:
            found.append(settings)
        if len(found) == trials:
            break
    return found


def search(
    config: Config,
    grid: Mapping[str, Sequence[Any]],
    out: str | Path,
    *,
    trials: int = 20,
    jobs: int = 1,
    seed: int = 0,
    data_dir: str | Path | None = None,
    report: Callable[[int, Trial], None] = lambda number, trial: None,
) -> tuple[Config, list[Trial]]:
    """The config with the settings that were best on the validation set, and all trials.

    Parameters
    ----------
    config : Config
        What the grid's settings are put into.
    grid : mapping
        Names of settings, dotted for options, to the values they may take.
    out : path
        Folder of the search, which one process at a time may write into.  Repeat the same call to
        resume a search that was interrupted.
    trials, jobs : int
        Number of trials, and of processes at a time.
    seed : int
        Of the draws from the grid.
    data_dir : path, optional
    report : callable
        Called with the number of a trial and the trial when it is done.
    """
    if config.validation == 0:
        raise ValueError("a search is judged on the validation set, got validation=0")
    if not grid:
        raise ValueError("there is nothing to search: the grid is empty")
    whole_number("trials", trials, at_least=1)
    whole_number("jobs", jobs, at_least=1)
    out = Path(out)
    drawn = settings_of(grid, trials, seed)
    configs = [_put(config, settings) for settings in drawn]
    if (out / "config.json").exists():
        raise RunError(f"{out} holds a run; name another folder for the search")
    out.mkdir(parents=True, exist_ok=True)
    with hold_folder(out):
        return _search(drawn, configs, out, jobs, data_dir, report)


def _search(
    drawn: list[dict[str, Any]],
    configs: list[Config],
    out: Path,
    jobs: int,
    data_dir: str | Path | None,
    report: Callable[[int, Trial], None],
) -> tuple[Config, list[Trial]]:
    for number, each in enumerate(configs):  # a trial of another search is not one of this
        folder = out / f"trial-{number:02d}"
        if folder.exists():
            Folder(folder, each, writes=False)

    def run(number: int) -> Trial:
        folder = out / f"trial-{number:02d}"
        trial = _trial(drawn[number], configs[number], folder, jobs, data_dir)
        report(number, trial)
        return trial

    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(run, range(len(drawn))))
    worked = [number for number, trial in enumerate(done) if trial.accuracy is not None]
    if not worked:
        raise RunError(f"all {len(done)} trials failed; the first said: {done[0].failure}")
    best = max(worked, key=lambda number: done[number].accuracy or 0.0)
    result = {
        "trials": [dataclasses.asdict(trial) for trial in done],
        "best": best,
        "config": configs[best].to_json(),
    }
    checkpoint.write_bytes(out / "search.json", (json.dumps(result, indent=2) + "\n").encode())
    return configs[best], done


def _put(config: Config, settings: Mapping[str, Any]) -> Config:
    return with_settings(config, [f"{name}={json.dumps(each)}" for name, each in settings.items()])


def _trial(
    settings: dict[str, Any], config: Config, folder: Path, jobs: int, data_dir: str | Path | None
) -> Trial:
    if read_summary(folder) is None:
        told = ["--config", json.dumps(config.to_json()), "--out", str(folder)]
        told += ["--no-test", "--quiet"] + (["--data-dir", str(data_dir)] if data_dir else [])
        # Threads of several processes would wait for each other.
        threads = {} if jobs == 1 else {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "exact_torch", "train", *told],
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return Trial(settings, None, lines[-1])
    summary = read_summary(folder) or {}
    if "validation_accuracy" not in summary:
        return Trial(settings, None, f"{folder / 'summary.json'} has no validation_accuracy")
    return Trial(settings, summary["validation_accuracy"])
