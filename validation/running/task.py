"""A task: a function and its arguments, small enough to be done again when it is lost."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import subprocess
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.oracles.inventory import oracles, package_version
from validation.running.reach import Reader

ROOT = Path(__file__).parents[2]
_LIBRARIES = ("numpy", "scipy", "numba", "torch", "torchvision", "scikit-learn", "mpmath")
_OTHER_SOFTWARE = ("validation.oracles.r_mvtnorm", "validation.oracles.botorch_mvnxpb")


@dataclass(frozen=True)
class Task:
    """What one worker does at a time.

    Attributes
    ----------
    name : str
        Unique in a report.
    call : callable
        A function of a module. It depends on nothing but its arguments, so that results are the
        same whatever runs it, and returns what JSON can hold (infinities and NaN included).
    arguments : mapping
        By name, of what JSON can hold.
    alone : bool
        It measures time or memory: nothing else runs beside it.
    """

    name: str
    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    alone: bool = False

    @property
    def key(self) -> str:
        """The name of its result: another one for other arguments, code or libraries."""
        what = [self.call.__module__, self.call.__qualname__, dict(self.arguments)]
        what.append(fingerprint(self.call))
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:20]

    def perform(self) -> Outcome:
        """Call the function; what it raises is an outcome too."""
        start = time.monotonic()
        value, failure = None, None
        try:
            value = json.loads(json.dumps(self.call(**self.arguments)))  # as the store returns it
        except Exception:
            failure = traceback.format_exc()
        today = datetime.date.today().isoformat()
        return Outcome(value, time.monotonic() - start, failure, commit(), today)


@dataclass(frozen=True)
class Outcome:
    """What came of a task: its value and seconds, or what went wrong; which commit, which day."""

    value: Any
    seconds: float
    failure: str | None = None
    commit: str = ""
    date: str = ""


@functools.cache
def fingerprint(call: Callable[..., Any]) -> str:
    """Return a fingerprint of all that results of a function depend on but its arguments.

    The code it reaches, the versions of numerical libraries, and those of other software where the
    code calls it.
    """
    found = _reader().reached(call)
    what: list[Any] = [found.code, *versions().items()]
    if any(module in found.modules for module in _OTHER_SOFTWARE):
        what += oracles()
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]


@functools.cache
def _reader() -> Reader:
    return Reader(ROOT)


def versions() -> dict[str, str | None]:
    """Return the versions of libraries that results depend on; None for those that are missing."""
    return {name: package_version(name) for name in _LIBRARIES}


@functools.cache
def commit() -> str:
    """Return the commit of this code, with a plus sign if files differ; empty outside git."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        name = _git("rev-parse", "--short=7", "HEAD")
        changed = _git("status", "--porcelain", "--", "mvnorth", "exact_torch", "validation")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{name}+" if changed else name


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()
