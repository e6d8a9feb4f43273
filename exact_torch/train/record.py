"""The folder of a run: what it was told, where it ran, what it measured."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from exact_torch.train import checkpoint
from exact_torch.train.config import Config

__all__ = ["Folder", "RunError"]

try:
    import fcntl
except ImportError:  # Windows, where folders are not locked
    fcntl = None  # type: ignore[assignment]

# What a run may leave that failed before its first checkpoint.
_BEFORE = ("config.json", "environment.json", "metrics.jsonl", "best.pt", "lock")


class RunError(RuntimeError):
    """A run that cannot go on, with what to do about it.

    Examples
    --------
    >>> import tempfile
    >>> from exact_torch.train import RunError
    >>> from exact_torch.train.trained import Trained
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         Trained(folder)
    ...     except RunError as error:
    ...         print(error)
    /... holds no run: there is no config.json
    """


class Folder:
    """A run's files.  All but ``metrics.jsonl`` are written whole or not at all.

    ``config.json``, ``environment.json``, ``metrics.jsonl`` (a line an epoch), ``checkpoint.pt``
    (to go on from), ``best.pt`` (weights with the best validation accuracy), ``model.pt``
    (weights and what predictions need), ``summary.json``, ``curves.png``, ``confusion.png``.

    Parameters
    ----------
    path : Path
        Made if it is not there.  A run with another config in it is an error, unless it failed
        before its first checkpoint: then there is nothing to lose.
    config : Config
    writes : bool
        Whether this process is the one that writes.
    """

    def __init__(self, path: Path, config: Config, writes: bool = True) -> None:
        self.path, self.writes = path, writes
        begun = any((self / name).exists() for name in ("checkpoint.pt", "summary.json"))
        known = self / "config.json"
        if begun and known.exists():
            _same(config.to_json(), json.loads(known.read_text()), path)
        elif writes:
            path.mkdir(parents=True, exist_ok=True)
            if any(each.name not in _BEFORE and each.suffix != ".part" for each in path.iterdir()):
                raise RunError(f"{path} holds other files and no run; name another folder")
            self._write("config.json", _json(config.to_json()))
        if not (begun and (self / "environment.json").exists()):
            self._write("environment.json", _json(environment()))

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other process train here, until this one is done or dead."""
        if not self.writes or fcntl is None:
            yield
            return
        with open(self / "lock", "w") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by workers
            except OSError as error:
                raise RunError(f"another process is training in {self.path}") from error
            yield

    def summary(self) -> dict[str, Any] | None:
        """The summary, if the run is finished."""
        path = self / "summary.json"
        return json.loads(path.read_text()) if path.exists() else None

    def save_summary(self, summary: dict[str, Any]) -> None:
        self._write("summary.json", _json(summary))

    def save(self, name: str, state: dict[str, Any]) -> None:
        """Write a state; if there is no room, say which checkpoint is left."""
        if not self.writes:
            return
        try:
            checkpoint.save(self / name, state)
        except OSError as error:
            raise RunError(f"{self / name} cannot be written: {error}. {self.left()}") from error

    def load(self, name: str, device: torch.device | str = "cpu") -> dict[str, Any] | None:
        """A state, if there is one."""
        path = self / name
        if not path.exists():
            return None
        try:
            return checkpoint.load(path, device)
        except Exception as error:  # torch raises many kinds for a file that is no state
            raise RunError(
                f"{path} is damaged ({error}); delete it to begin again, or put a copy back"
            ) from error

    def left(self) -> str:
        """What is left of a run that stopped."""
        path = self / "checkpoint.pt"
        if not path.exists():
            return "There is no checkpoint yet."
        return f"The last good checkpoint is {path}; the same command goes on from it."

    def metrics(self) -> list[dict[str, Any]]:
        """The measurements so far, an epoch each."""
        path = self / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]  # not a half-written one

    def keep_metrics(self, epochs: int) -> None:
        """Forget what was measured after these epochs, which will be trained again."""
        kept = "".join(_line(each) for each in self.metrics() if each["epoch"] <= epochs)
        self._write("metrics.jsonl", kept)

    def add_metrics(self, measured: dict[str, Any]) -> None:
        if not self.writes:
            return
        try:
            with open(self / "metrics.jsonl", "a") as file:
                file.write(_line(measured))
        except OSError as error:
            raise RunError(f"{self / 'metrics.jsonl'}: {error}. {self.left()}") from error

    def _write(self, name: str, text: str) -> None:
        if not self.writes:
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


def _same(config: dict[str, Any], known: dict[str, Any], path: Path) -> None:
    names = sorted(set(config) | set(known))
    changed = [name for name in names if config.get(name) != known.get(name)]
    if changed:
        told = ", ".join(f"{n}={config.get(n)!r} (was {known.get(n)!r})" for n in changed)
        raise RunError(f"{path} holds a run with other settings: {told}; name another folder")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _line(value: Any) -> str:
    return json.dumps(value, allow_nan=False) + "\n"
