"""Import objects of the user's code by their path, "package.module:name"."""

import importlib
from typing import Any


def is_path(name: Any) -> bool:
    """Return whether a name is an import path, "package.module:name"."""
    return isinstance(name, str) and ":" in name


def load(what: str, path: str) -> Any:
    """Return the object at "package.module:name"; messages call it ``what``."""
    module, _, name = path.partition(":")
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{what} {path!r} cannot be imported: {error}") from error
    return value


def load_callable(what: str, path: str) -> Any:
    """Return the object at the path; raise if it is not callable."""
    value = load(what, path)
    if not callable(value):
        raise TypeError(f"{what} {path!r} must be callable, got {type(value).__name__}")
    return value
