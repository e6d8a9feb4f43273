"""EXACT in its common form as one autograd function: fewer steps than with operators.

For scores (B, C) in single precision on the CPU, class numbers, and one sigma that is not
differentiated.  Everything else, compiled graphs and transforms included, goes through ``_ops``.
"""

import math
from typing import Any

import torch
from torch import Tensor

from exact_torch import _checks, _ops, _transforms
from exact_torch._values import Options, margin_limit

_COMMON = Options()
_PLAIN = (Tensor, torch.nn.Parameter)


def applies(
    scores: Any,
    labels: Any,
    weight: Any,
    sigma: Any,
    loadings: Any,
    options: Options,
    ignore_index: int,
) -> bool:
    """Return whether ``loss`` can compute this; the options are checked ones."""
    return (
        not torch.compiler.is_compiling()
        and type(scores) in _PLAIN
        and type(labels) in _PLAIN
        and type(sigma) in (float, int)
        and weight is None
        and loadings is None
        and options._replace(objective="nll", margin=None) == _COMMON
        and scores.dtype == torch.float32
        and labels.dtype == torch.int64
        and scores.ndim == 2
        and scores.shape[1] > 1
        and not 0 <= ignore_index < scores.shape[1]
        and labels.shape == scores.shape[:1]
        and scores.device.type == labels.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not _transforms.is_active()
        and not torch._C._len_torch_dispatch_stack()  # as of make_fx, which records operators
    )


def loss(
    scores: Tensor,
    labels: Tensor,
    sigma: Any,
    margin: float | None,
    objective: str,
    reduction: str,
    ignore_index: int,
) -> Tensor:
    """Return the loss of ``exact_loss`` with the same arguments."""
    deviation = _checks.deviations_of(sigma, scores)
    limit = margin_limit(margin, scores)
    differentiate = torch.is_grad_enabled() and scores.requires_grad
    options = (limit, objective, reduction, ignore_index, differentiate)
    result: Tensor = _Loss.apply(scores, labels, deviation, *options)
    return result


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        labels: Tensor,
        sigma: Tensor,
        margin: float,
        objective: str,
        reduction: str,
        ignore_index: int,
        differentiate: bool,
    ) -> Tensor:
        order = int(differentiate)
        log_prob, grad, _, absent = _ops.by_label(scores, labels, sigma, margin, order)
        count = len(labels)
        if absent is not None:
            _checks.label_values(labels, scores.shape[1], ignore_index)
            count -= len(absent)
            log_prob[absent] = 0.0
            if order:
                grad[absent] = 0.0
        share = 1.0 if reduction != "mean" else 1.0 / count if count else math.nan
        factor: float | Tensor = -share
        if objective == "nll":
            values = 0.0 - log_prob  # not -0.0 where P = 1
        else:
            values = -torch.expm1(log_prob)
            factor = torch.exp(log_prob) * -share  # values - 1 would lose the digits of a small P
        if differentiate:
            ctx.save_for_backward(scores, labels, sigma, grad)
            ctx.factor, ctx.reduction = factor, reduction
            ctx.options = margin, objective, ignore_index
        if reduction == "none":
            return values
        return values.sum() * share

    @staticmethod
    def backward(ctx: Any, towards: Tensor) -> tuple[Tensor | None, ...]:
        scores, labels, sigma, grad = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            return _differentiable(ctx, scores, labels, sigma, towards), *(None,) * 7
        factor = towards * ctx.factor
        return grad * (factor[:, None] if factor.ndim else factor), *(None,) * 7


def _differentiable(
    ctx: Any, scores: Tensor, labels: Tensor, sigma: Tensor, towards: Tensor
) -> Tensor:
    """Return the derivative in scores as a function of scores."""
    margin, objective, ignore_index = ctx.options
    counts = labels != ignore_index
    row = torch.where(counts, labels, 0)
    log_prob, grad, _ = _ops.log_accuracy(scores, row, sigma, margin, 1, 0, None, 1)
    share = ctx.factor if objective == "nll" else -torch.exp(log_prob)
    if objective != "nll" and ctx.reduction == "mean":
        share = share / counts.sum()
    factor = torch.where(counts, towards * share, 0.0)
    return grad * factor[:, None]
