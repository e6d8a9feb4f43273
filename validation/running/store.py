"""Results of tasks on disk: what has finished is never done again."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from validation.running.task import Outcome, Task


class Store:
    """A folder with a file a result, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, task: Task) -> Outcome | None:
        """The outcome of a task, if it was done before; an unreadable file is no outcome."""
        try:
            stored = json.loads(self._path(task).read_text())
            made = {name: stored.get(name, "") for name in ("commit", "date")}
            return Outcome(stored["value"], stored["seconds"], **made)
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep an outcome. Failures are not kept: the next run tries again."""
        if outcome.failure is not None:
            return
        told = {"task": task.name, "arguments": dict(task.arguments), **asdict(outcome)}
        with tempfile.NamedTemporaryFile(
            "w", dir=self.folder, suffix=".part", delete=False, encoding="utf-8"
        ) as file:
            json.dump(told, file)
        os.replace(file.name, self._path(task))

    def forget(self, task: Task) -> None:
        """Be without the outcome of a task."""
        self._path(task).unlink(missing_ok=True)

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.key}.json"
