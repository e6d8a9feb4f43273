"""A task: a function and its arguments, small enough to be done again when it is lost."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.oracles.inventory import oracles, package_version

PACKAGES = ("mvnorth", "exact_torch", "validation")
_NOT_IN_RESULTS = ("cli.py", "__main__.py")
_DATA = ("mvnorth/_tables/*.npy", "validation/reference/*.json", "validation/reference/*.npz")


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
        """The name of its result: another one for other arguments or another library."""
        what = [self.call.__module__, self.call.__qualname__, dict(self.arguments), source()]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:20]

    def perform(self) -> Outcome:
        """Call the function; what it raises is an outcome too."""
        start = time.monotonic()
        try:
            value = json.loads(json.dumps(self.call(**self.arguments)))  # as the store returns it
        except Exception:
            return Outcome(None, time.monotonic() - start, traceback.format_exc())
        return Outcome(value, time.monotonic() - start)


@dataclass(frozen=True)
class Outcome:
    """What came of a task: its value and seconds, or what went wrong."""

    value: Any
    seconds: float
    failure: str | None = None


@functools.cache
def source() -> str:
    """A fingerprint: results of other code, libraries or oracles are not those of these.

    Comments, docstrings and programs that only print are not part of it; tables and references are.
    """
    root = Path(__file__).parents[2]
    hashed = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if path.name not in _NOT_IN_RESULTS:
                hashed.update(f"{path.relative_to(root)} {_code(path.read_text())}".encode())
    for pattern in _DATA:
        for path in sorted(root.glob(pattern)):
            hashed.update(path.read_bytes())
    hashed.update(json.dumps([*versions().items(), *oracles()]).encode())
    return hashed.hexdigest()[:12]


def versions() -> dict[str, str | None]:
    """Of the libraries that results depend on; None for those that are not there."""
    return {name: package_version(name) for name in ("numpy", "scipy", "numba", "torch")}


def _code(text: str) -> str:
    """What Python makes of a file, without texts that stand for themselves."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
