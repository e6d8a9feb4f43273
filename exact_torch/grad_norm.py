"""Gradients divided by a moving average of their norm, as the later version of EXACT does.

The gradient of an expected accuracy goes to zero as sigma does, and where nearly all examples are
right or wrong: the average keeps the size of steps through training.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from exact_torch import _arguments

__all__ = ["GradientNormalizer"]


class GradientNormalizer:
    """Divides gradients by max(A, floor), A a moving average of their global L2 norm.

    A starts as the first norm; each later one moves it to decay * A + (1 - decay) * norm before
    the division.  A norm that is not finite moves nothing and divides nothing, as the step will
    be skipped, or fail, by itself.  Nothing waits for a GPU.

    ``attach`` makes it part of ``optimizer.step()``; without that, call it between ``backward``
    and ``step``, in a closure as its last line.  Attached, it comes after all else that is done
    to gradients between them: clipping with ``clip_grad_norm_`` changes what is averaged.
    ``GradScaler.step`` removes its scale before; only for fused optimisers, which do that within
    their step, ``scaler.unscale_(optimizer)`` must be called first.

    Parameters
    ----------
    source : nn.Module, torch.optim.Optimizer or iterable of parameters
        Whose gradients are taken together; those without a gradient are left out.  Sparse
        gradients raise a TypeError.
    decay : float
        What the average keeps of itself, in [0, 1).
    floor : float
        The smallest divisor, > 0.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.grad_norm import GradientNormalizer
    >>> x = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = torch.optim.SGD([x], lr=1.0)
    >>> normalizer = GradientNormalizer(optimizer).attach(optimizer)
    >>> (x * torch.tensor([3.0, 4.0])).sum().backward()
    >>> optimizer.step()
    >>> x.tolist(), normalizer.average.item()
    ([-0.6000000238418579, -0.800000011920929], 5.0)
    """

    def __init__(
        self,
        source: nn.Module | Optimizer | Iterable[Tensor],
        *,
        decay: float = 0.9,
        floor: float = 0.01,
    ) -> None:
        self.decay = _arguments.number("decay", decay, least=0, below=1)
        self.floor = _arguments.number("floor", floor, above=0)
        self._source = source if isinstance(source, (nn.Module, Optimizer)) else _listed(source)
        # On a device only the device knows whether a norm was finite, so that "none yet" has to
        # be a value.
        self._average = torch.tensor(torch.nan)
        self._handle: Any = None

    @property
    def average(self) -> Tensor:
        """The moving average, ``()``; NaN before the first finite norm."""
        return self._average

    @torch.no_grad()
    def __call__(self) -> Tensor:
        """Take the gradients' norm into the average and divide them; the norm they had, ``()``."""
        gradients = [p.grad for p in self._parameters() if p.grad is not None]
        if any(gradient.layout != torch.strided for gradient in gradients):
            raise TypeError(
                "gradients must be dense, got a sparse one (an Embedding's sparse=True?)"
            )
        norm = torch.nn.utils.get_total_norm(gradients)
        if not gradients:
            return norm
        # An average in half precision would not move by small amounts.
        latest = norm.to(torch.promote_types(norm.dtype, torch.float32))
        average = self._average.to(latest)
        moved = torch.where(average.isnan(), latest, torch.lerp(latest, average, self.decay))
        self._average = torch.where(latest.isfinite(), moved, average)
        divisor = torch.where(latest.isfinite(), moved.clamp(min=self.floor), 1.0)
        for device in dict.fromkeys(gradient.device for gradient in gradients):
            there = [gradient for gradient in gradients if gradient.device == device]
            torch._foreach_div_(there, divisor.to(device))
        return norm

    def attach(self, optimizer: Optimizer) -> "GradientNormalizer":
        """Divide before every ``optimizer.step()`` from now on; returns itself."""
        if self._handle is not None:
            raise RuntimeError("attach: it is attached already; detach it first")
        self._handle = optimizer.register_step_pre_hook(self._before_step)
        return self

    def detach(self) -> None:
        """Leave the optimiser's steps alone again; the average stays."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint needs: the average."""
        return {"average": self._average}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from what ``state_dict`` returned."""
        if set(state) != {"average"} or not isinstance(state["average"], Tensor):
            raise ValueError(f"state must hold a tensor named 'average' only, got {sorted(state)}")
        if state["average"].shape != ():
            raise ValueError(f"state['average'] must be (), got {tuple(state['average'].shape)}")
        self._average = state["average"].clone()

    def _before_step(self, optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)  # args[0]: optimizer
        if closure is not None:
            raise RuntimeError(
                "an attached GradientNormalizer comes before the closure that step() was given: "
                "detach it and call it as the closure's last line"
            )
        if getattr(optimizer, "grad_scale", None) is not None:
            raise RuntimeError(
                "gradients still carry the scale of a GradScaler: call scaler.unscale_(optimizer) "
                "before scaler.step(optimizer)"
            )
        self()

    def _parameters(self) -> Iterator[Tensor]:
        if isinstance(self._source, nn.Module):
            yield from self._source.parameters()
        elif isinstance(self._source, Optimizer):
            for group in self._source.param_groups:
                yield from group["params"]
        else:
            yield from self._source


def _listed(source: Any) -> list[Tensor]:
    """Parameters, each once: shared ones must not be divided twice."""
    if isinstance(source, Tensor) or not isinstance(source, Iterable):
        raise TypeError(
            f"source must be a module, an optimiser or parameters, got {type(source).__name__}"
        )
    found = list(source)
    for each in found:
        if not isinstance(each, Tensor):
            raise TypeError(f"source must hold parameters only, got a {type(each).__name__}")
    if not found:
        raise ValueError("source must hold at least one parameter, got none")
    return list({id(each): each for each in found}.values())
