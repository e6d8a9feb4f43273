"""Single arguments, validated and brought into the form that the rest takes.

Every message names the argument, what it got and what it takes.
"""

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any


def number(name: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    found = number(name, value)
    if not 0.0 < found < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
    return found


def non_negative(name: str, value: Any) -> float:
    found = number(name, value)
    if not 0.0 <= found < math.inf:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return found


def share(name: str, value: Any) -> float:
    found = number(name, value)
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
    return found


def decay(value: Any) -> float:
    """What a moving average keeps of itself: in [0, 1)."""
    found = number("decay", value)
    if not 0.0 <= found < 1.0:
        raise ValueError(f"decay must be in [0, 1), got {value!r}")
    return found


def progress(value: Any) -> float:
    """The part of training that is done: in [0, 1]."""
    found = number("progress", value)
    if not 0.0 <= found <= 1.0:
        raise ValueError(
            f"progress must be in [0, 1], the part of training that is done, got {value!r}"
        )
    return found


def reduction(value: Any) -> str:
    return choice("reduction", value, ("mean", "sum", "none"))


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}")
    return value
