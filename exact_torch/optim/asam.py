"""Sharpness-aware minimisation: the gradient of a step taken where the loss is worse nearby.

ASAM is Kwon et al., "ASAM: Adaptive sharpness-aware minimization for scale-invariant learning of
deep neural networks" (2021), SAM Foret et al. (2021).  With g the gradient at the weights w and
T = diag(|w| + eta), the base optimiser steps from w with the gradient at

    w + rho T^2 g / |T g|

(T = I for SAM).  As in the authors' code (SamsungLabs/ASAM) T is 1 for parameters that are not
called "weight": only those are adaptive, biases move as in SAM.

What differs from that code: weights come back from copies, to the bit, where it subtracts what it
added; a gradient of 0, or one that is not finite, moves nothing; the second pass leaves the
running statistics of batch normalisation as the first left them, where that code has them see
each batch twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from exact_torch import _arguments

__all__ = ["Asam"]


class Asam:
    """Moves a model's weights to where ASAM takes its gradient, and back.

    Not an optimiser: any optimiser makes the step, and clipping or a ``GradientNormalizer`` come
    between as they always do.  What moves the weights is what the gradients hold when
    ``perturbed`` is entered, so that gradients may be accumulated before, and of several
    processes, each with its share of the batch, all move alike once gradients have been averaged.
    The perturbation does not change with the scale of the gradients: those of a ``GradScaler``
    may keep theirs.  It needs memory for a copy of the weights and two more while it is entered.

    Parameters
    ----------
    model : nn.Module
        Parameters without a gradient are left where they are.
    rho : float
        How far, >= 0.  0.5 is the paper's for CIFAR-10, 1 for CIFAR-100; EXACT had 2.
    eta : float
        Added to ``|w|``, >= 0.
    adaptive : bool
        False for SAM; its usual rho is 0.05.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.optim import Asam
    >>> model = torch.nn.Linear(2, 1, bias=False)
    >>> optimizer, asam = torch.optim.SGD(model.parameters(), lr=0.1), Asam(model, rho=0.5)
    >>> x = torch.ones(3, 2)
    >>> model(x).square().mean().backward()
    >>> with asam.perturbed():
    ...     optimizer.zero_grad()
    ...     model(x).square().mean().backward()
    >>> optimizer.step()
    """

    def __init__(
        self, model: nn.Module, rho: float = 0.5, eta: float = 0.01, adaptive: bool = True
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
        self.model = model
        self.rho = _arguments.number("rho", rho, least=0)
        self.eta = _arguments.number("eta", eta, least=0)
        self.adaptive = adaptive

    @contextmanager
    def perturbed(self) -> Iterator[None]:
        """Weights as ASAM moves them, until the end of the block, whichever way it ends.

        Enter it after the backward pass; in it, set gradients to zero and go forward and backward
        with the same examples; step when it is left.
        """
        moved = [p for p in self.model.parameters() if p.grad is not None]
        weights = [p.detach().clone() for p in moved]
        statistics = [
            (buffer, buffer.clone())
            for module in self.model.modules()
            if isinstance(module, _NormBase)
            for buffer in module.buffers(recurse=False)
        ]
        try:
            self._perturb()
            versions = [p._version for p in moved]
            yield
            if versions != [p._version for p in moved]:
                raise RuntimeError(
                    "weights were changed inside asam.perturbed(), which takes changes back: "
                    "step the optimiser after the block"
                )
        finally:
            with torch.no_grad():
                for now, before in (*zip(moved, weights, strict=True), *statistics):
                    now.copy_(before)

    @torch.no_grad()
    def _perturb(self) -> None:
        named = [(name, p) for name, p in self.model.named_parameters() if p.grad is not None]
        if not named:
            return
        for name, p in named:
            if p.grad.layout != torch.strided:
                raise TypeError(f"gradients must be dense, that of {name} is {p.grad.layout}")
        scales = [self._scale(name, p) for name, p in named]
        # In single precision at least: the squares of scaled gradients would leave half precision.
        ascents = [
            _wide(p.grad) if scale is None else _wide(p.grad) * scale
            for (_, p), scale in zip(named, scales, strict=True)
        ]
        norm = torch.nn.utils.get_total_norm(ascents)
        usable = norm.isfinite() & (norm > 0)
        for (_, p), scale, ascent in zip(named, scales, ascents, strict=True):
            step = ascent * (self.rho / norm).to(ascent.device)
            if scale is not None:
                step.mul_(scale)
            # A choice, not a factor of 0, which would leave NaN where there is one.
            p.copy_(torch.where(usable.to(p.device), _wide(p) + step, _wide(p)))

    def _scale(self, name: str, p: Tensor) -> Tensor | None:
        if not self.adaptive or "weight" not in name.rpartition(".")[2]:
            return None
        return _wide(p).abs() + self.eta


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
