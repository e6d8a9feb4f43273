"""The operator behind EXACT: how probable it is that the label's score is among the k largest.

For scores s_j ~ N(mu_j, sigma_j**2) the label y wins with the orthant probability of

    x_j(z) = a_j + b_j z,    a_j = min(mu_y - mu_j, margin)/sigma_j,    b_j = sigma_y/sigma_j

(docs/one_factor.md).  The label's own a is huge, so that its factor is 1.  On the CPU and on
CUDA a kernel of mvnorth integrates; elsewhere, and for second derivatives, plain torch does.  The
derivatives of the logarithm come with it and are outputs of the operator, so that the backward pass
is one multiplication, and its own derivative is that of these outputs.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import mvnorth
from exact_torch import _checks, _plain, _topk, _transforms
from mvnorth._methods import quadrature

Three = tuple[Tensor, Tensor, Tensor]
_SURELY = 1e30  # an a that surely wins, and whose products with nothing are nothing
# Of a (B, C), b (1 or B, 1 or C), k, n, seed and order: log P (B,), its derivatives in a and in b,
# (B, C); the first if order is 1, both if it is 2, anything in place of what is not wanted.
Integral = Callable[[Tensor, Tensor, int, int, Tensor | None, int], Three]


def _evaluate(
    integral: Integral,
    scores: Tensor,
    labels: Tensor,
    sigma: Tensor,
    margin: float,
    k: int,
    n: int,
    seed: Tensor | None,
    order: int,
) -> Three:
    """The operator, by any way to integrate."""
    own = labels[:, None].long()
    varied = sigma.shape[1] > 1
    label = scores.gather(1, own)
    gap = (label - scores).masked_fill_(scores == -math.inf, math.inf)
    above = (gap > margin) if margin < math.inf and order else None
    if margin < math.inf:
        gap = gap.clamp(max=margin)
    a = (gap / sigma).clamp_(max=_SURELY)
    del gap
    a.scatter_(1, own, _SURELY)
    b = sigma.new_ones(1, 1)
    if varied:
        b = sigma.expand(a.shape).gather(1, own) / sigma
    lowest = a.detach().amin(1)  # -inf if a competitor is infinitely better, NaN if a score is
    if k > 1:
        a, lowest = a.clamp_(min=-_SURELY), lowest.clamp(min=-_SURELY)
    if k < scores.shape[1]:
        lowest = torch.where(label[:, 0] == -math.inf, lowest.clamp(max=-math.inf), lowest)
    lost = ~(lowest > -math.inf)
    a.masked_fill_(lost[:, None], _SURELY)
    log_prob, in_a, in_b = integral(a, b, k, n, seed, order if varied else min(order, 1))
    log_prob = torch.where(lost, lowest, log_prob)
    grad_sigma = scores.new_empty(0)
    if order > 1:
        if varied:
            spread = (in_b / sigma).sum(1, keepdim=True)
            grad_sigma = (a * in_a).addcmul_(b, in_b).div_(sigma).neg_().scatter_(1, own, spread)
        else:  # not as a dot product, which autocast takes in half precision
            grad_sigma = -(a * in_a).sum(1, keepdim=True) / sigma
    if order == 0:
        return log_prob, scores.new_empty(0), grad_sigma
    del a, b, in_b
    in_a = in_a / sigma
    if above is not None:
        in_a = in_a.masked_fill(above, 0.0)
    total = in_a.sum(1, keepdim=True)
    return log_prob, in_a.neg_().scatter_(1, own, total), grad_sigma


def _plain_integral(a: Tensor, b: Tensor, k: int, n: int, seed: Tensor | None, order: int) -> Three:
    if n:
        raise NotImplementedError(
            "method='genz' runs on the CPU and on CUDA, and has first derivatives only; "
            "use method='quadrature'"
        )
    return _plain.one_factor(a, b) if k == 1 else _topk.plain(a, b, k)


def _cpu_integral(a: Tensor, b: Tensor, k: int, n: int, seed: Tensor | None, order: int) -> Three:
    b = b.expand(b.shape[0], a.shape[1])
    if k > 1:
        return _topk.by_kernel(a, b, k)
    if n:
        return _by_mvnorth(a, b, n, seed, order)
    wanted = ("m", "v")[:order]
    grad = {name: torch.empty_like(a) for name in wanted}
    log_prob, *_ = quadrature.integrate(
        a.numpy(),
        np.ones((1, a.shape[1])),
        b.contiguous().numpy(),
        {name: column.numpy() for name, column in grad.items()},
        torch.get_num_threads(),
    )
    found = torch.from_numpy(log_prob).to(a.dtype)
    return found, grad.get("m", found), grad.get("v", found)


def _cuda_integral(a: Tensor, b: Tensor, k: int, n: int, seed: Tensor | None, order: int) -> Three:
    if k > 1:
        return _topk.plain(a, b, k)
    with torch.cuda.device(a.device):
        return _by_mvnorth(a, b.expand(b.shape[0], a.shape[1]), n, seed, order)


def _by_mvnorth(a: Tensor, b: Tensor, n: int, seed: Tensor | None, order: int) -> Three:
    """By n points of Genz's method, or by the exact integral if n is 0, where the tensors live."""
    arrays = (a, torch.ones_like(b), b.contiguous())
    if a.device.type == "cpu":
        arrays = tuple(x.numpy() for x in arrays)
    found = solve(*arrays, n, 0 if seed is None else int(seed), order)
    log_prob, in_a, in_b = (torch.as_tensor(x, device=a.device).to(a.dtype) for x in found)
    return log_prob, in_a, in_b


def solve(m: Any, c: Any, v: Any, n: int, seed: int, order: int) -> tuple[Any, Any, Any]:
    """log P and its derivatives in m and, if order is 2, in v; of arrays on any device."""
    found = mvnorth.orthant_grad(
        m,
        mvnorth.OneFactor(c, v),
        n or None,
        wrt=("m", "v")[: max(order, 1)],
        method="pathwise" if n else "quadrature",
        log=True,
        seed=seed,
    )
    return found.log_prob, found.grad_m, found.grad_v if order > 1 else found.log_prob


def _checked(
    integral: Integral, scores: Tensor, labels: Tensor, sigma: Tensor, *rest: Any
) -> Three:
    """The operator of a device; here, since compiled graphs cannot look at values before."""
    _checks.label_values(labels, scores.shape[1])
    _checks.deviations(sigma)
    return _evaluate(integral, scores.contiguous(), labels, sigma, *rest)


@torch.library.custom_op("exact_torch::log_accuracy", mutates_args=())
def _operator(
    scores: Tensor,
    labels: Tensor,
    sigma: Tensor,
    margin: float,
    k: int,
    n: int,
    seed: Tensor | None,
    order: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """log Pr(at most k - 1 scores exceed the label's), and its derivatives in scores and sigma.

    Parameters
    ----------
    scores : (B, C) means, in single or double precision
    labels : (B,) in [0, C)
    sigma : (1 or B, 1 or C) > 0, as precise as scores
    margin : upper limit of the differences between the label's mean and the others
    k : 1, or more: with an absolute accuracy then
    n : 0 to integrate over the label's score; else the points of Genz's method
    seed : () of these points
    order : 0 for the value alone, 1 with the derivative in scores, 2 in both

    Returns
    -------
    log_prob : (B,)
    grad_scores : (B, C), or (0,) if it is not wanted
    grad_sigma : (B, 1 or C), or (0,); row b is the derivative in the deviations that it uses
    """
    return _checked(_plain_integral, scores, labels, sigma, margin, k, n, seed, order)


_operator.register_kernel("cpu")(partial(_checked, _cpu_integral))
_operator.register_kernel("cuda")(partial(_checked, _cuda_integral))


@_operator.register_fake
def _(
    scores: Tensor, labels: Tensor, sigma: Tensor, margin: float, k: int, n: int,
    seed: Tensor | None, order: int,
) -> Three:  # fmt: skip
    grad_scores = scores.new_empty(scores.shape if order else 0)
    grad_sigma = scores.new_empty((scores.shape[0], sigma.shape[1]) if order > 1 else 0)
    return scores.new_empty(scores.shape[0]), grad_scores, grad_sigma


def in_plain_torch(scores: Tensor, labels: Tensor, sigma: Tensor) -> Tensor:
    """The value alone, differentiable to any order."""
    return _evaluate(_plain_integral, scores, labels, sigma, math.inf, 1, 0, None, 0)[0]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    scores, labels, sigma, margin, k, n, _, order = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(scores, labels, sigma, output[1], output[2])
    ctx.margin, ctx.k, ctx.n, ctx.order = margin, k, n, order


def _backward(
    ctx: Any, towards: Tensor | None, in_scores: Tensor | None, in_sigma: Tensor | None
) -> tuple[Tensor | None, ...]:
    """From derivatives in the three outputs, of which the last two are derivatives themselves."""
    scores, labels, sigma, grad_scores, grad_sigma = ctx.saved_tensors
    found: list[Tensor | None] = [None, None]
    if towards is not None:
        found[0] = towards[:, None] * grad_scores
        if ctx.order > 1:
            found[1] = (towards[:, None] * grad_sigma).sum_to_size(sigma.shape)
    if in_scores is not None or in_sigma is not None:

        def slopes(scores: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
            how = (ctx.margin, ctx.k, ctx.n, None, ctx.order)
            return _evaluate(_plain_integral, scores, labels, sigma, *how)[1:]

        _, pull = torch.func.vjp(slopes, scores, sigma)
        in_scores = torch.zeros_like(grad_scores) if in_scores is None else in_scores
        in_sigma = torch.zeros_like(grad_sigma) if in_sigma is None else in_sigma
        for place, more in enumerate(pull((in_scores, in_sigma))[: ctx.order]):
            before = found[place]
            found[place] = more if before is None else before + more
    return found[0], None, found[1], None, None, None, None, None


def _over_rows(
    info: Any, in_dims: tuple[int | None, ...], scores: Tensor, labels: Tensor, sigma: Tensor,
    margin: float, k: int, n: int, seed: Tensor | None, order: int,
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:  # fmt: skip
    """Rows are independent of each other: those of all problems are one batch."""
    size = info.batch_size

    def stacked(a: Tensor, dim: int | None) -> Tensor:
        return a.expand(size, *a.shape) if dim is None else a.movedim(dim, 0)

    scores, labels = stacked(scores, in_dims[0]), stacked(labels, in_dims[1])
    rows = scores.shape[1]
    if in_dims[6] is not None:
        raise NotImplementedError("vmap over the random points of method='genz'")
    if in_dims[2] is not None or sigma.shape[0] > 1:
        wide = stacked(sigma, in_dims[2])
        sigma = wide.expand(size, rows, wide.shape[2]).flatten(0, 1)
    found = log_accuracy(
        scores.flatten(0, 1), labels.flatten(0, 1), sigma, margin, k, n, seed, order
    )
    shaped = tuple(a.unflatten(0, (size, rows)) if a.numel() else a.expand(size, 0) for a in found)
    return shaped, (0, 0, 0)


log_accuracy = _transforms.transformable(_operator, _remember, _backward, _over_rows)
