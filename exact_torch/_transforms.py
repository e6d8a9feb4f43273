"""Operators under ``torch.func``, whose transforms know autograd functions but not operators."""

from collections.abc import Callable
from typing import Any

import torch


def is_active() -> bool:
    """Whether a transform of ``torch.func`` is at work."""
    inside = torch._C._functorch.maybe_current_level
    return not torch.compiler.is_compiling() and inside() is not None


def transformable(
    operator: Callable, remember: Callable, backward: Callable, over_rows: Callable
) -> Callable:
    """The operator, with its derivative registered, in a form that can be transformed too.

    ``remember``, ``backward`` and ``over_rows`` are the ``setup_context``, ``backward`` and
    ``vmap`` of an autograd function.
    """
    operator.register_autograd(backward, setup_context=remember)  # type: ignore[attr-defined]
    members = {"setup_context": remember, "backward": backward, "vmap": over_rows}
    members |= {"forward": lambda *args: operator(*args)}
    function: Any = type(
        operator._name,  # type: ignore[attr-defined]
        (torch.autograd.Function,),
        {name: staticmethod(member) for name, member in members.items()},
    )

    def call(*args: Any) -> Any:
        return function.apply(*args) if is_active() else operator(*args)

    return call
