"""The operator behind EXACT with correlated noise: scores s = mu + diag(sigma) e + V z.

e and z are standard normal, and V has a few columns.  The label y wins with the probability that
all of s_y - s_j are positive.  These have means mu_y - mu_j, independent parts of variance
sigma_j**2 and r + 1 common factors with the loadings (V_y - V_j, sigma_y): the orthant probability
that ``mvnorth.Factors`` is for (docs/factors.md).  Its derivatives come with it and are outputs of
the operator, so that the backward pass is one multiplication.
"""

import math
from typing import Any

import torch
from torch import Tensor

import mvnorth
from exact_torch import _checks, _transforms
from mvnorth import _interface

Four = tuple[Tensor, Tensor, Tensor, Tensor]
# Relative errors of the probability, by the columns of V.
_TOLERANCE = {torch.float32: (1e-6, 1e-4, 1e-3), torch.float64: (1e-10, 1e-9, 1e-7)}
_ENOUGH = 1e-4  # error beyond which the integral over the factors has failed


def _evaluate(
    scores: Tensor, labels: Tensor, sigma: Tensor, loadings: Tensor, margin: float, order: int
) -> Four:
    """Return log P and its derivatives, see the operator."""
    rows, classes = scores.shape
    label = labels[:, None].long()
    others = torch.arange(classes - 1, device=scores.device).expand(rows, -1)
    others = others + (others >= label)
    wide, spread = sigma.expand(rows, classes), loadings.expand(rows, -1, -1)
    columns = spread.shape[2]
    chosen = others[:, :, None].expand(-1, -1, columns)
    label_sigma = wide.gather(1, label)
    label_columns = label[:, :, None].expand(-1, -1, columns)
    label_spread = spread.gather(1, label_columns)
    other_scores, other_sigma = scores.gather(1, others), wide.gather(1, others)
    gap = (scores.gather(1, label) - other_scores).masked_fill(other_scores == -math.inf, math.inf)
    lost = ~(gap.amin(1) > -math.inf)  # by a competitor that is infinitely better, or NaN
    above = gap > margin
    gap = gap.clamp(max=margin).masked_fill(lost[:, None], 0.0)
    V = torch.cat(
        [
            label_spread - spread.gather(1, chosen),
            label_sigma[:, :, None].expand(-1, classes - 1, 1),
        ],
        dim=2,
    )
    log_prob, in_gap, in_c, in_V = _integrate(gap, other_sigma.double().square(), V, order)
    log_prob = torch.where(lost, gap.new_tensor(-math.inf), log_prob)
    log_prob = torch.where(scores.isnan().any(1), gap.new_tensor(math.nan), log_prob)
    if not order:
        empty = scores.new_empty(0)
        return log_prob, empty, empty, empty
    in_gap = in_gap.masked_fill(above, 0.0)
    grad_scores = torch.zeros_like(scores).scatter_(1, others, -in_gap)
    grad_scores.scatter_(1, label, in_gap.sum(1, keepdim=True))
    grad_sigma = torch.zeros_like(scores).scatter_(1, others, 2.0 * other_sigma * in_c)
    grad_sigma.scatter_(1, label, in_V[:, :, -1].sum(1, keepdim=True))
    if sigma.shape[1] == 1:
        grad_sigma = grad_sigma.sum(1, keepdim=True)
    in_V = in_V[:, :, :-1]
    grad_loadings = scores.new_zeros(rows, classes, columns).scatter_(1, chosen, -in_V)
    grad_loadings.scatter_(1, label_columns, in_V.sum(1, keepdim=True))
    return log_prob, grad_scores, grad_sigma, grad_loadings


def _integrate(m: Tensor, c: Tensor, V: Tensor, order: int) -> Four:
    """Return the log-probability that all are positive, and its derivatives in m, c and V."""
    rtol = _TOLERANCE[m.dtype][V.shape[2] - 2]
    arrays = m.numpy(), c.numpy(), V.double().numpy()
    results = _interface.integrate_factors(*arrays, rtol, bool(order), torch.get_num_threads())
    log_prob, rel_error, *grad = (torch.from_numpy(a) for a in results)
    log_prob, grad = log_prob.to(m.dtype), [a.to(m.dtype) for a in grad]
    failed = (rel_error > max(rtol, _ENOUGH)).nonzero()[:, 0]
    if len(failed):  # the noise of a class is much smaller than what it shares with others
        given = [a[failed].double().numpy() for a in (m, c, V)]
        cov = mvnorth.Factors(given[1], given[2])
        if order:
            some: Any = mvnorth.orthant_grad(given[0], cov, wrt=("m", "c", "V"), log=True)
            for to, name in zip(grad, ("m", "c", "V"), strict=True):
                to[failed] = torch.from_numpy(getattr(some, f"grad_{name}")).to(m.dtype)
        else:
            some = mvnorth.orthant(given[0], cov)
        log_prob[failed] = torch.from_numpy(some.log_prob).to(m.dtype)
    if not order:
        grad = [log_prob] * 3
    return log_prob, grad[0], grad[1], grad[2]


@torch.library.custom_op("exact_torch::log_accuracy_correlated", mutates_args=())
def _operator(
    scores: Tensor, labels: Tensor, sigma: Tensor, loadings: Tensor, margin: float, order: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log Pr(the label's score is the largest), and its derivatives.

    On the CPU; tensors of other devices travel there and back.

    Parameters
    ----------
    scores : (B, C) means, in single or double precision
    labels : (B,) in [0, C)
    sigma : (1 or B, 1 or C) > 0, as precise as scores
    loadings : (1 or B, C, r), r from 1 to 3, as precise as scores
    margin : upper limit of the differences between the label's mean and the others
    order : 0 for the value alone, 1 with derivatives

    Returns
    -------
    log_prob : (B,)
    grad_scores : (B, C), or (0,) if it is not wanted
    grad_sigma : (B, 1 or C), or (0,)
    grad_loadings : (B, C, r), or (0,)
    """
    _checks.label_values(labels, scores.shape[1])
    _checks.deviations(sigma)
    given = (scores.detach().cpu(), labels.cpu(), sigma.detach().cpu(), loadings.detach().cpu())
    outputs = _evaluate(*given, margin, order)
    log_prob, grad_scores, grad_sigma, grad_loadings = (a.to(scores.device) for a in outputs)
    return log_prob, grad_scores, grad_sigma, grad_loadings


@_operator.register_fake
def _(
    scores: Tensor, labels: Tensor, sigma: Tensor, loadings: Tensor, margin: float, order: int
) -> Four:
    rows = scores.shape[0]
    grad_scores = scores.new_empty(scores.shape if order else 0)
    grad_sigma = scores.new_empty((rows, sigma.shape[1]) if order else 0)
    grad_loadings = scores.new_empty((rows, *loadings.shape[1:]) if order else 0)
    return scores.new_empty(rows), grad_scores, grad_sigma, grad_loadings


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, sigma, loadings, _, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(sigma, loadings, *output[1:])


def _backward(
    ctx: Any, towards: Tensor | None, *of_derivatives: Tensor | None
) -> tuple[Tensor | None, ...]:
    if any(a is not None for a in of_derivatives):
        raise NotImplementedError(
            "with loadings, exact_loss can be differentiated once; second derivatives need "
            "loadings=None"
        )
    if towards is None:
        return None, None, None, None, None, None
    sigma, loadings, grad_scores, grad_sigma, grad_loadings = ctx.saved_tensors
    in_sigma = (towards[:, None] * grad_sigma).sum_to_size(sigma.shape)
    in_loadings = (towards[:, None, None] * grad_loadings).sum_to_size(loadings.shape)
    return towards[:, None] * grad_scores, None, in_sigma, in_loadings, None, None


def _over_rows(
    info: Any, in_dims: tuple[int | None, ...], scores: Tensor, labels: Tensor, sigma: Tensor,
    loadings: Tensor, margin: float, order: int,
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:  # fmt: skip
    """Rows are independent of each other: those of all problems are one batch."""
    size = info.batch_size

    def stacked(a: Tensor, dim: int | None) -> Tensor:
        return a.expand(size, *a.shape) if dim is None else a.movedim(dim, 0)

    scores, labels, sigma, loadings = (
        stacked(a, dim)
        for a, dim in zip((scores, labels, sigma, loadings), in_dims[:4], strict=True)
    )
    rows = scores.shape[1]
    sigma = sigma.expand(size, rows, sigma.shape[2]).flatten(0, 1)
    loadings = loadings.expand(size, rows, *loadings.shape[2:]).flatten(0, 1)
    outputs = log_accuracy_correlated(
        scores.flatten(0, 1), labels.flatten(0, 1), sigma, loadings, margin, order
    )
    shaped = tuple(  # derivatives that are not wanted have one dimension and no entries
        a.unflatten(0, (size, rows)) if order or k == 0 else a.expand(size, 0)
        for k, a in enumerate(outputs)
    )
    return shaped, (0, 0, 0, 0)


log_accuracy_correlated = _transforms.transformable(_operator, _remember, _backward, _over_rows)
