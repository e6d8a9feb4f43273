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
from mvnorth import _interface

Three = tuple[Tensor, Tensor, Tensor]
Four = tuple[Tensor, Tensor, Tensor, Tensor]
# A deviation below the label's divided by this counts as that quotient.  log P changes by less than
# its rounding; kernels do not resolve larger ratios, and single precision overflows at 1e38.
_LARGEST_RATIO = 1e15
_WANTED = ((), ("m",), ("m", "c", "v"))  # derivatives by order
_SURELY = 1e30  # an a that surely wins, and whose products with nothing are nothing
# Of a (B, C), b (1 or B, 1 or C), k, n, seed and order: log P (B,) and its derivatives in a, in b
# and in log sigma, where a_j and b_j are divided by sigma_j, (B, C); the first if order is 1, all
# if it is 2, anything in place of what is not wanted.
Integral = Callable[[Tensor, Tensor, int, int, Tensor | None, int], Four]


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
    label_sigma = None
    if varied:  # before any division, which could overflow
        label_sigma = sigma.expand(scores.shape).gather(1, own)
        least = label_sigma / _LARGEST_RATIO
        narrow = sigma < least
        sigma = torch.where(narrow, least, sigma)
    label = scores.gather(1, own)
    gap = (label - scores).masked_fill_(scores == -math.inf, math.inf)
    above = (gap > margin) if margin < math.inf and order else None
    if margin < math.inf:
        gap = gap.clamp(max=margin)
    a = (gap / sigma).clamp_(max=_SURELY)
    del gap
    a.scatter_(1, own, _SURELY)
    b = sigma.new_ones(1, 1) if label_sigma is None else label_sigma / sigma
    lowest = a.detach().amin(1)  # -inf if a competitor is infinitely better, NaN if a score is
    if k > 1:
        a, lowest = a.clamp_(min=-_SURELY), lowest.clamp(min=-_SURELY)
    if k < scores.shape[1]:
        lowest = torch.where(label[:, 0] == -math.inf, lowest.clamp(max=-math.inf), lowest)
    lost = ~(lowest > -math.inf)
    a.masked_fill_(lost[:, None], _SURELY)
    log_prob, in_a, in_b, in_scale = integral(a, b, k, n, seed, order if varied else min(order, 1))
    log_prob = torch.where(lost, lowest, log_prob)
    grad_sigma = scores.new_empty(0)
    if order > 1:
        if label_sigma is not None:
            spread = torch.where(narrow, -a * in_a, b * in_b).sum(1, keepdim=True) / label_sigma
            grad_sigma = (in_scale / sigma).masked_fill_(narrow, 0.0).scatter_(1, own, spread)
        else:  # not as a dot product, which autocast takes in half precision
            grad_sigma = -(a * in_a).sum(1, keepdim=True) / sigma
    if order == 0:
        return log_prob, scores.new_empty(0), grad_sigma
    del a, b, in_b, in_scale
    in_a = in_a / sigma
    if above is not None:
        in_a = in_a.masked_fill(above, 0.0)
    total = in_a.sum(1, keepdim=True)
    return log_prob, in_a.neg_().scatter_(1, own, total), grad_sigma


def _with_scale(a: Tensor, b: Tensor, log_prob: Tensor, in_a: Tensor, in_b: Tensor) -> Four:
    """Add the derivative in the scale, from the others: it loses digits where b is large."""
    return log_prob, in_a, in_b, -(a * in_a + b * in_b)


def _plain_integral(a: Tensor, b: Tensor, k: int, n: int, seed: Tensor | None, order: int) -> Four:
    if n:
        raise NotImplementedError(
            "method='genz' runs on the CPU and on CUDA, and has first derivatives only; "
            "use method='quadrature'"
        )
    return _with_scale(a, b, *(_plain.one_factor(a, b) if k == 1 else _topk.plain(a, b, k)))


def _cpu_integral(a: Tensor, b: Tensor, k: int, n: int, seed: Tensor | None, order: int) -> Four:
    b = b.expand(b.shape[0], a.shape[1])
    if k > 1:
        return _with_scale(a, b, *_topk.by_kernel(a, b, k))
    if n:
        return _by_mvnorth(a, b, n, seed, order)
    wanted = _WANTED[order]
    grad = {name: torch.empty_like(a) for name in wanted}
    log_prob = _interface.integrate_one_factor(
        a.numpy(),
        np.ones((1, a.shape[1])),
        b.contiguous().numpy(),
        {name: column.numpy() for name, column in grad.items()},
        torch.get_num_threads(),
    )
    found = torch.from_numpy(log_prob).to(a.dtype)
    if order < 2:
        return found, grad.get("m", found), found, found
    return found, grad["m"], grad["v"], 2.0 * grad["c"]


def _cuda_integral(a: Tensor, b: Tensor, k: int, n: int, seed: Tensor | None, order: int) -> Four:
    if k > 1:
        return _with_scale(a, b, *_topk.plain(a, b, k))
    with torch.cuda.device(a.device):
        return _by_mvnorth(a, b.expand(b.shape[0], a.shape[1]), n, seed, order)


def _by_mvnorth(a: Tensor, b: Tensor, n: int, seed: Tensor | None, order: int) -> Four:
    """By n points of Genz's method, or by the exact integral if n is 0, where the tensors live."""
    arrays = (a, torch.ones_like(b), b.contiguous())
    if a.device.type == "cpu":
        arrays = tuple(x.numpy() for x in arrays)
    found = solve(*arrays, n, 0 if seed is None else int(seed), order)
    log_prob, in_a, *rest = (torch.as_tensor(x, device=a.device).to(a.dtype) for x in found)
    if order < 2:
        return log_prob, in_a, log_prob, log_prob
    in_c, in_b = rest
    return log_prob, in_a, in_b, 2.0 * in_c


def solve(m: Any, c: Any, v: Any, n: int, seed: int, order: int) -> tuple[Any, ...]:
    """log P and its derivatives in m and, if order is 2, in c and v; of arrays on any device."""
    wanted = _WANTED[max(order, 1)]
    found = mvnorth.orthant_grad(
        m,
        mvnorth.OneFactor(c, v),
        n or None,
        wrt=wanted,
        method="pathwise" if n else "quadrature",
        log=True,
        seed=seed,
    )
    return found.log_prob, *(getattr(found, f"grad_{name}") for name in wanted)


def by_label(
    scores: Tensor, labels: Tensor, sigma: Tensor, margin: float, order: int
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Evaluate the operator on the CPU for k = 1 and one deviation a row, in single precision.

    Returns what it returns, and the rows (m,) whose labels are no classes, None if there are none.
    """
    # Contiguous arrays only: the kernel would be compiled again for others.
    scores, labels = scores.detach().contiguous(), labels.contiguous()
    grad_scores = torch.empty_like(scores) if order else scores.new_empty(0, 0)
    grad_sigma = scores.new_empty(scores.shape[0] if order > 1 else 0)
    found, state = _interface.label_best(
        scores.numpy(),
        labels.numpy(),
        sigma.detach().flatten().contiguous().numpy(),
        margin,
        grad_scores.numpy(),
        grad_sigma.numpy(),
        torch.get_num_threads(),
    )
    log_prob, grad_sigma = torch.from_numpy(found), grad_sigma[:, None]
    absent = None
    if state.any():
        rest = torch.from_numpy(np.flatnonzero(state == 1))
        absent = torch.from_numpy(np.flatnonzero(state == 2))
        absent = absent if len(absent) else None
        one = sigma if sigma.shape[0] == 1 else sigma[rest]
        outputs = (log_prob, grad_scores, grad_sigma)[: 1 + order]
        values = _evaluate(
            _cpu_integral, scores[rest], labels[rest], one, margin, 1, 0, None, order
        )
        for output, value in zip(outputs, values, strict=False):
            output[rest] = value
    return log_prob, grad_scores if order else grad_scores.flatten(), grad_sigma, absent


def _on_cpu(
    scores: Tensor, labels: Tensor, sigma: Tensor, margin: float, k: int, n: int,
    seed: Tensor | None, order: int,
) -> Three:  # fmt: skip
    """The operator on the CPU."""
    if scores.dtype != torch.float32 or k > 1 or n or sigma.shape[1] > 1 or scores.shape[1] < 2:
        return _checked(_cpu_integral, scores, labels, sigma, margin, k, n, seed, order)
    _checks.label_values(labels, scores.shape[1])
    _checks.deviations(sigma)
    log_prob, grad_scores, grad_sigma, _ = by_label(scores, labels.long(), sigma, margin, order)
    return log_prob, grad_scores, grad_sigma if order > 1 else grad_sigma.flatten()


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


_operator.register_kernel("cpu")(_on_cpu)
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
