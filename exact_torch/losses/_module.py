"""The module that makes a loss of a function: it holds options, and reduces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from exact_torch import _arguments


class Loss(nn.Module):
    """A loss function with its options and a reduction.

    Parameters
    ----------
    function : callable
        ``function(logits, labels, **options)`` returns values of the examples, (B,), or one of the
        batch, which no reduction changes.
    options : dict, optional
        Tensors among them move with the module.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import torch
    >>> from exact_torch.losses import Loss, focal
    >>> loss = Loss(focal, {"gamma": 1.0}, reduction="sum")
    >>> loss
    Loss(focal, gamma=1.0, reduction='sum')
    >>> round(loss(torch.zeros(3, 2), torch.tensor([0, 1, 1])).item(), 4)  # 3 * 0.5 * log 2
    1.0397
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        options: dict[str, Any] | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.function = function
        self.reduction = _arguments.reduction(reduction)
        self._names = tuple(options or ())
        for name, value in (options or {}).items():
            if isinstance(value, Tensor):
                self.register_buffer(f"option_{name}", value, persistent=False)
            else:
                setattr(self, f"option_{name}", value)

    @property
    def options(self) -> dict[str, Any]:
        """What the function is called with."""
        return {name: getattr(self, f"option_{name}") for name in self._names}

    @property
    def phases(self) -> tuple[nn.Module, ...]:
        """The losses a trainer steps on with each batch, one after the other."""
        return (self,)

    def set_progress(self, progress: float) -> None:
        """Say how much of training is done, from 0 to 1; most losses do not ask."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The reduced loss of logits, (B, C), and labels, (B,)."""
        return self.reduce(self.function(logits, labels, **self.options))

    def reduce(self, values: Tensor) -> Tensor:
        """``values`` as the reduction says."""
        if values.ndim == 0 or self.reduction == "none":
            return values
        return torch.mean(values) if self.reduction == "mean" else torch.sum(values)

    def extra_repr(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.function.__name__}{options}, reduction={self.reduction!r}"
