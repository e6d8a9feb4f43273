"""Docstrings of functions that share parameters."""

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])


def document(parameters: str) -> Callable[[_Function], _Function]:
    """A decorator that puts ``parameters`` in the place of {parameters} in a docstring."""

    def decorate(function: _Function) -> _Function:
        if function.__doc__:  # python -OO has none
            function.__doc__ = function.__doc__.replace("{parameters}", parameters)
        return function

    return decorate
