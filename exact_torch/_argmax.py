"""The operator for the probabilities of all classes, with derivatives.

Values come from one integral for all classes, O(C) a row.  So does a derivative towards them on the
CPU, with an absolute accuracy like theirs.  Elsewhere, and for rows of deviations so unlike that
this integral does not suffice, values and derivatives come from an integral for each class, O(C**2)
a row.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import mvnorth
from exact_torch import _checks, _ops, _transforms
from mvnorth import _interface

_LARGEST = 2**22  # numbers in a tensor (rows, C, C)
_LEAST_RATIO = 1e-15  # of deviations; mvnorth takes what is below 1e-16 of the largest for constant


def every_label(scores: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of scores and deviations once for each class, and these classes."""
    rows, classes = scores.shape
    every = torch.arange(classes, device=scores.device).repeat(rows)
    spread = sigma.repeat_interleave(classes, 0) if sigma.shape[0] > 1 else sigma
    return scores.repeat_interleave(classes, 0), every, spread


def _plain(scores: Tensor, sigma: Tensor) -> Tensor:
    """The probabilities in plain torch, differentiable to any order."""
    log_prob = _ops.in_plain_torch(*every_label(scores, sigma))
    return torch.exp(log_prob).view(scores.shape)


@torch.library.custom_op("exact_torch::argmax_probs", mutates_args=())
def _operator(scores: Tensor, sigma: Tensor) -> Tensor:
    """Probabilities that each score is the largest, (B, C).

    Parameters
    ----------
    scores : (B, C) means, in single or double precision
    sigma : (1 or B, 1 or C) > 0, as precise as scores
    """
    _checks.deviations(sigma)
    return _plain(scores, sigma)


@_operator.register_kernel(["cpu", "cuda"])
def _(scores: Tensor, sigma: Tensor) -> Tensor:
    _checks.deviations(sigma)
    if scores.device.type == "cpu":
        probs = torch.from_numpy(mvnorth.prob_argmax(scores.numpy(), sigma.numpy()))
    else:
        with torch.cuda.device(scores.device):
            found = mvnorth.prob_argmax(
                scores.contiguous(), sigma.expand(scores.shape).contiguous()
            )
            probs = torch.as_tensor(found, device=scores.device)
    for rows in _unlike_rows(scores, sigma):
        some = sigma[rows] if sigma.shape[0] > 1 else sigma
        probs[rows] = _by_class(scores[rows], some, 0)[0].view(-1, scores.shape[1])
    return probs


@_operator.register_fake
def _(scores: Tensor, sigma: Tensor) -> Tensor:
    return torch.empty_like(scores)


def _unlike_rows(scores: Tensor, sigma: Tensor) -> tuple[Tensor, ...]:
    """Parts of the rows with deviations that mvnorth counts as zero beside the largest."""
    if sigma.shape[1] == 1:
        return ()
    low, high = sigma.double().aminmax(dim=1)
    unlike = (low < _LEAST_RATIO * high).expand(scores.shape[0])
    return unlike.nonzero()[:, 0].split(max(1, _LARGEST // scores.shape[1] ** 2))


def _by_class(scores: Tensor, sigma: Tensor, order: int) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities (B * C,), and derivatives of their logarithms as ``log_accuracy`` has them."""
    log_prob, grad_scores, grad_sigma = _ops.log_accuracy(
        *every_label(scores, sigma), torch.inf, 1, 0, None, order
    )
    never = scores.reshape(-1) == -torch.inf  # log_prob is NaN if there are two of them
    return torch.exp(log_prob).masked_fill_(never, 0.0), grad_scores, grad_sigma


def _pull_by_class(scores: Tensor, sigma: Tensor, towards: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives (B, C) and (B, 1 or C), of the deviations that each row uses."""
    in_scores = torch.empty_like(scores)
    in_sigma = scores.new_empty(scores.shape[0], sigma.shape[1])
    classes = scores.shape[1]
    step = max(1, _LARGEST // classes**2)
    for begin in range(0, scores.shape[0], step):
        part = slice(begin, begin + step)
        some = sigma[part] if sigma.shape[0] > 1 else sigma
        prob, grad_scores, grad_sigma = _by_class(scores[part], some, 2)
        share = (towards[part].reshape(-1) * prob)[:, None]
        in_scores[part] = (share * grad_scores).view(-1, classes, classes).sum(1)
        in_sigma[part] = (share * grad_sigma).view(-1, classes, sigma.shape[1]).sum(1)
    return in_scores, in_sigma


@torch.library.custom_op("exact_torch::argmax_probs_backward", mutates_args=())
def _pull_operator(scores: Tensor, sigma: Tensor, towards: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives of sum(towards * probabilities) in scores and in sigma, of their shapes."""
    in_scores, in_sigma = _pull_by_class(scores, sigma, towards)
    return in_scores, in_sigma.sum_to_size(sigma.shape)


@_pull_operator.register_kernel("cpu")
def _(scores: Tensor, sigma: Tensor, towards: Tensor) -> tuple[Tensor, Tensor]:
    rows, classes = scores.shape
    wide = sigma.expand(sigma.shape[0], classes)
    given = [a.double().contiguous().numpy() for a in (scores, wide, towards)]
    single, threads = scores.dtype == torch.float32, torch.get_num_threads()
    found = _interface.argmax_pull(given[0], given[1], given[2], single, threads)
    in_scores, each, settled = (torch.from_numpy(a) for a in found)
    in_scores = in_scores.to(scores.dtype)
    in_sigma = each.sum_to_size(rows, sigma.shape[1]).to(scores.dtype)
    left = (~settled).nonzero()[:, 0]
    if len(left):
        some = sigma[left] if sigma.shape[0] > 1 else sigma
        in_scores[left], in_sigma[left] = _pull_by_class(scores[left], some, towards[left])
    return in_scores, in_sigma.sum_to_size(sigma.shape)


@_pull_operator.register_fake
def _(scores: Tensor, sigma: Tensor, towards: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(scores), torch.empty_like(sigma)


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, towards: Tensor) -> tuple[Tensor, Tensor]:
    return _pull(*ctx.saved_tensors, towards)


def _backward_again(ctx: Any, in_scores: Tensor, in_sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scores, sigma, towards = ctx.saved_tensors

    def pull(scores: Tensor, sigma: Tensor, towards: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(_plain, scores, sigma)[1](towards)

    _, again = torch.func.vjp(pull, scores, sigma, towards)
    return again((in_scores, in_sigma))


def _over_rows(operator: Any, summed: bool, info: Any, in_dims: Any, *tensors: Tensor) -> Any:
    scores, sigma, *towards = (
        a.expand(info.batch_size, *a.shape) if dim is None else a.movedim(dim, 0)
        for a, dim in zip(tensors, in_dims, strict=True)
    )
    size, rows, _ = scores.shape
    wide = sigma.expand(size, rows, sigma.shape[2]).flatten(0, 1)
    found = operator(scores.flatten(0, 1), wide, *(a.flatten(0, 1) for a in towards))
    if not summed:
        return found.unflatten(0, (size, rows)), 0
    in_scores, in_sigma = (a.unflatten(0, (size, rows)) for a in found)
    return (in_scores, in_sigma.sum_to_size(sigma.shape)), (0, 0)


_pull: Callable[..., Any] = _transforms.transformable(
    _pull_operator, _remember, _backward_again, lambda *args: _over_rows(_pull, True, *args)
)
argmax_probabilities: Callable[..., Any] = _transforms.transformable(
    _operator, _remember, _backward, lambda *args: _over_rows(argmax_probabilities, False, *args)
)
