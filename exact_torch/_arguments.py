"""Single arguments, validated and brought into the form that the rest takes.

Every message names the argument, what it got and what it takes.
"""

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

from mvnorth import _interface

_MOST = 2**63 - 1


def number(
    name: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """``value``, if it is a finite number, least <= value <= most and above < value < below."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        found = float(value)
    except OverflowError:  # a whole number beyond all others, of either sign
        found = math.inf
    # Not isfinite, which a compiled graph cannot take of a number that changes.
    finite = -math.inf < found < math.inf
    if not (finite and least <= found <= most and above < found < below):
        limits = {">=": least, ">": above, "<=": most, "<": below}
        wanted = [f"{sign} {limit:g}" for sign, limit in limits.items() if math.isfinite(limit)]
        text = " ".join(["a finite number", " and ".join(wanted)]).strip()
        raise ValueError(f"{name} must be {text}, got {value!r}")
    return found


def whole_number(name: str, value: Any, *, at_least: int, at_most: int = _MOST) -> int:
    """``value``, if it is a whole number in [at_least, at_most]; torch holds 64 bits."""
    found = _interface.whole_number(name, value, at_least=at_least)
    if found > at_most:
        limit = "2**63 - 1" if at_most == _MOST else at_most
        raise ValueError(f"{name} must be at most {limit}, got {found}")
    return found


def progress(value: Any) -> float:
    """The part of training that is done: in [0, 1]."""
    return number("progress", value, least=0, most=1)


def reduction(value: Any) -> str:
    return choice("reduction", value, ("mean", "sum", "none"))


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, names))}, got {value!r}")
    return value
