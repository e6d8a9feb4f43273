"""The module that makes a loss of a function: it holds options, and reduces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from exact_torch import _arguments, _checks, _rows


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
    weight : Tensor (C,), optional
        Of classes, >= 0; the mean is a weighted one, as that of ``F.cross_entropy``.  Not for
        losses of a whole batch.
    ignore_index : int
        Label of examples that do not count.

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
        weight: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        self.function = function
        self.reduction = _arguments.reduction(reduction)
        self.ignore_index = _arguments.whole_number("ignore_index", ignore_index, at_least=-(2**63))
        if weight is not None and not isinstance(weight, Tensor):
            raise TypeError(f"weight must be a torch.Tensor, one number a class, got {weight!r}")
        self.register_buffer("weight", weight, persistent=False)
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
        """Return the reduced loss.

        Logits are (B, C), (B, C, d1, ...) or (C,), and labels (B,), (B, d1, ...) or ().
        """
        return self.reduced(logits, labels, self.options)

    def reduced(self, logits: Tensor, labels: Tensor, options: dict[str, Any]) -> Tensor:
        """Return the loss with these options, weighted and reduced."""
        rows = _rows.from_inputs(logits, labels, self.ignore_index)
        if rows.targets is not None:
            raise TypeError(
                f"labels must be whole numbers (torch.int64), got {labels.dtype}; class "
                "probabilities are for the loss 'exact'"
            )
        _checks.class_weights(self.weight, rows.scores)
        # Without what is in examples that are ignored, which might not be finite.
        clean = torch.where(rows.counts[:, None], rows.scores, 0.0)
        values = self.function(clean, rows.labels, **options)
        if values.ndim > 0:
            return self._reduce(values, rows)
        if self.weight is not None:
            raise ValueError(f"weight is of examples, and {self.function.__name__} of a batch")
        # A loss of the batch compares its examples: those that are ignored have to go, which would
        # change shapes within a compiled graph.
        if torch.compiler.is_compiling():
            torch._assert_async(
                rows.counts.all(), "a compiled loss of a batch cannot ignore labels"
            )
            return values
        return self.function(rows.scores[rows.counts], rows.labels[rows.counts], **options)

    def _reduce(self, values: Tensor, rows: _rows.Rows) -> Tensor:
        shares = rows.counts.to(values.dtype)
        if self.weight is not None:
            shares = shares * self.weight.to(values.dtype)[rows.labels]
        values = torch.where(shares > 0.0, values * shares, 0.0)
        if self.reduction == "none":
            return values.view(rows.shape)
        return values.sum() / shares.sum() if self.reduction == "mean" else values.sum()

    def extra_repr(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.function.__name__}{options}, reduction={self.reduction!r}"
