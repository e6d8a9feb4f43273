"""The folder of a run: what it was told, where it ran, what it measured."""

import dataclasses
import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from exact_torch.train import checkpoint, run_files
from exact_torch.train.config import Config
from exact_torch.train.folder_lock import hold_folder
from exact_torch.train.run_files import RunError, RunWarning

__all__ = ["FILES", "Folder"]

# What a run may leave that failed before its first checkpoint.
_BEFORE = ("config.json", "environment.json", "metrics.jsonl", "best.pt", "lock", "tensorboard")
_RESULTS = ("checkpoint.pt", "model.pt", "summary.json")  # what another run must not overwrite
FILES = (*_BEFORE, *_RESULTS, "curves.png", "confusion.png")

_REMEDIES = {  # for a state that cannot be used
    "model.pt": "delete it and summary.json and re-run the command that trained the run",
    "best.pt": "delete it and checkpoint.pt to begin again",
}


class Folder:
    """A run's files.  All but ``metrics.jsonl`` are written whole or not at all.

    ``config.json``, ``environment.json``, ``metrics.jsonl`` (a line an epoch), ``checkpoint.pt``
    (to resume from), ``best.pt`` (weights with the best validation accuracy), ``model.pt``
    (weights and what predictions need), ``summary.json``, ``curves.png``, ``confusion.png``.

    Nothing is written before the folder is locked: a process that is refused changes nothing.

    Parameters
    ----------
    path : Path
        Made by ``locked`` if it does not exist.  A run with another config in it is an error,
        unless it failed before its first checkpoint: then there is nothing to lose.
    config : Config
    writes : bool
        Whether this process is the one that writes.
    extend : bool
        Whether a run of the same config with fewer epochs may go on with this one.
    """

    def __init__(
        self, path: Path, config: Config, writes: bool = True, extend: bool = False
    ) -> None:
        self.path, self.config, self.writes, self.extend = path, config, writes, extend
        self._is_locked = False
        self._check()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def _check(self) -> bool:
        """Return whether this run was begun here; raise if something else is in the folder."""
        begun = [name for name in _RESULTS if (self / name).exists()]
        if begun and (self / "config.json").exists():
            known = run_files.read_config(self.path)  # by another version, which has other fields
            if self._is_longer(known):
                return True
            _check_same(self.config.to_json(), known.to_json(), self.path)
            return True
        if not self.writes or not self.path.exists():
            return False
        if not self.path.is_dir():
            raise RunError(f"{self.path} is a file; name a folder")
        if begun:
            raise RunError(
                f"{self.path} has a {begun[0]} but no config.json; put a copy of config.json back, "
                "or name another folder"
            )
        if any(file.name not in _BEFORE and file.suffix != ".part" for file in self.path.iterdir()):
            raise RunError(f"{self.path} holds other files and no run; name another folder")
        return False

    def _is_longer(self, known: Config) -> bool:
        """Whether this run continues the one in the folder with more epochs."""
        same = dataclasses.replace(self.config, epochs=known.epochs) == known
        return self.extend and same and self.config.epochs > known.epochs

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process write here, until this one is done or dead.

        Writes ``config.json`` and ``environment.json`` where they are missing.
        """
        if not self.writes:
            yield
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"the folder {self.path} cannot be made: {error}") from error
        with hold_folder(self.path):
            self._is_locked = True
            try:
                begun = self._check()  # again: another process may have been here since
                longer = begun and self._is_longer(run_files.read_config(self.path))
                if longer:
                    (self / "summary.json").unlink(missing_ok=True)
                if longer or not begun:
                    self._write("config.json", _json(self.config.to_json()))
                if not (begun and (self / "environment.json").exists()):
                    self._write("environment.json", _json(environment()))
                yield
            finally:
                self._is_locked = False

    def _may_write(self) -> bool:
        if self.writes and not self._is_locked:
            raise RuntimeError("a run's folder must be locked to write into it")
        return self.writes

    def summary(self) -> dict[str, Any] | None:
        """The summary, if the run is finished."""
        if self.extend and (self / "config.json").exists():
            known = run_files.read_config(self.path)
            if self._is_longer(known):
                return None
        return run_files.read_summary(self.path)

    def save_summary(self, summary: dict[str, Any]) -> None:
        self._write("summary.json", _json(summary))

    def save(self, name: str, state: dict[str, Any]) -> None:
        """Write a state; if there is no room, say which checkpoint is left."""
        if not self._may_write():
            return
        try:
            checkpoint.save(self / name, state)
        except OSError as error:
            raise RunError(f"{self / name} cannot be written: {error}. {self.left()}") from error

    def load(
        self, name: str, device: torch.device | str = "cpu", needs: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        """Return a state with the entries ``needs``, or None if there is no such file."""
        path = self / name
        if not path.exists():
            return None
        try:
            state = checkpoint.load(path, device)
        except Exception as error:  # torch raises many kinds for a file that is no state
            raise self.damaged(name, str(error)) from error
        if not isinstance(state, dict):
            raise self.damaged(name, f"it holds a {type(state).__name__}, not a dict")
        if missing := [entry for entry in needs if entry not in state]:
            raise self.damaged(name, f"it has no {', '.join(missing)}")
        return state

    def damaged(self, name: str, why: str) -> RunError:
        """Return the error that says why a state cannot be used."""
        remedy = _REMEDIES.get(name, "delete it to begin again")
        return RunError(f"{self / name} is damaged ({why}); {remedy}, or put a copy of it back")

    def left(self) -> str:
        """What is left of a run that stopped."""
        path = self / "checkpoint.pt"
        if not path.exists():
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {path}; re-run the same command to resume from it."

    def metrics(self) -> list[dict[str, Any]]:
        """Return the measurements so far, one an epoch; warn if the last line was cut off."""
        rows, cut = run_files.read_metrics(self.path)
        if cut:
            run_files.warn_of_cut_line(self.path, len(rows))
        return rows

    def keep_metrics(self, epochs: int) -> None:
        """Delete what was measured after these epochs, which will be trained again.

        Warns if one of these epochs is missing.  A line that was cut off is the usual reason.
        """
        rows, _ = run_files.read_metrics(self.path)
        kept = [row for row in rows if row["epoch"] <= epochs]
        if self._may_write():
            missing = sorted(set(range(1, epochs + 1)) - {row["epoch"] for row in kept})
            if missing:
                warnings.warn(
                    f"{self / 'metrics.jsonl'} has no whole line for epoch "
                    f"{', '.join(map(str, missing))}; the run continues with the {len(kept)} "
                    "whole lines",
                    RunWarning,
                    stacklevel=2,
                )
            self._write("metrics.jsonl", "".join(map(_line, kept)))

    def add_metrics(self, measured: dict[str, Any]) -> None:
        if not self._may_write():
            return
        try:
            with open(self / "metrics.jsonl", "a", encoding="utf-8") as file:
                file.write(_line(measured))
                file.flush()
                os.fsync(file.fileno())  # before the checkpoint that counts this epoch as done
        except OSError as error:
            raise RunError(
                f"{self / 'metrics.jsonl'} cannot be written: {error}. {self.left()}"
            ) from error

    def _write(self, name: str, text: str) -> None:
        if not self._may_write():
            return
        try:
            checkpoint.write_bytes(self / name, text.encode())
        except OSError as error:
            raise RunError(f"{self / name} cannot be written: {error}. {self.left()}") from error


def environment() -> dict[str, Any]:
    """Versions, the commit and the machine."""
    versions: dict[str, str | None] = {}
    for name in ("mvnorth", "torch", "torchvision", "numpy", "scipy", "numba"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "versions": {"python": platform.python_version(), **versions},
        "commit": _commit(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": sys.argv,
    }


def _commit() -> str | None:
    """The commit of this source, "+changes" if files differ from it; None outside a checkout."""
    here = Path(__file__).parent  # which may be installed somewhere below another project's

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, timeout=10
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        if not git("ls-files", __file__):
            return None
        commit = git("rev-parse", "HEAD")
        return (commit + ("+changes" if git("status", "--porcelain", str(here)) else "")) or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _check_same(config: dict[str, Any], known: dict[str, Any], path: Path) -> None:
    names = sorted(set(config) | set(known))
    changed = [name for name in names if config.get(name) != known.get(name)]
    if changed:
        told = ", ".join(f"{n}={config.get(n)!r} (was {known.get(n)!r})" for n in changed)
        raise RunError(f"{path} holds a run with other settings: {told}; name another folder")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _line(value: Any) -> str:
    return json.dumps(value, allow_nan=False) + "\n"
