"""Docstrings of functions that share parameters."""

import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from mvnorth._methods import METHODS

_Function = TypeVar("_Function", bound=Callable[..., Any])


def method_parameter(names: tuple[str, ...], auto: str) -> str:
    """Return the text of the parameter ``method``, which takes ``names``."""
    text = f'"auto" {auto} The others force one method on the whole problem: '
    text += "; ".join(f'"{name}": {METHODS[name].summary}' for name in names if name != "auto")
    lines = textwrap.wrap(f"{text}.", width=88)
    choices = textwrap.wrap(", ".join(f'"{name}"' for name in names), width=78)
    heading = "method : {" + "\n        ".join(choices) + "}"
    return "\n        ".join([heading, *lines])


def document(parameters: str) -> Callable[[_Function], _Function]:
    """Return a decorator that puts ``parameters`` in the place of {parameters} in a docstring."""

    def decorate(function: _Function) -> _Function:
        if function.__doc__:  # python -OO has none
            function.__doc__ = function.__doc__.replace("{parameters}", parameters)
        return function

    return decorate
