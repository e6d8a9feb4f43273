"""The probability that the label's score is among the k largest: by a kernel, or in plain torch.

Both integrate over a fixed range of the label's score, with an absolute accuracy.  For rows whose
label is far behind, where that would leave no gradient, ``_in_the_tail`` integrates logarithms
around the largest value of the integrand; on the CPU, and for first derivatives.
"""

import math

import numpy as np
import torch
from torch import Tensor

from mvnorth import _interface

_REACH, _NODES = 9.0, 288
_TINY = 2.0**-100  # a probability that counts as nothing: results have an absolute accuracy
_TAIL, _TAIL_NODES = 1e-9, 96  # below this the kernel's result has fewer than three digits to spare
_LARGEST = 2**22  # numbers in a tensor (rows, nodes, C)


def by_kernel(a: Tensor, b: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """log P (B,) and its derivatives in a (B, C) and b (1 or B, C)."""
    rows, classes = a.shape
    given = a.double().numpy(), b.double().contiguous().numpy()
    prob, in_a, in_b = _interface.label_topk(*given, min(k, classes), torch.get_num_threads())
    inverse = np.divide(1.0, prob, where=prob > _TINY, out=np.zeros(rows))[:, None]
    prob = np.maximum(prob, _TINY)
    in_a *= inverse
    in_b *= inverse
    log_prob, found_a, found_b = (
        torch.from_numpy(x).to(a.dtype) for x in (np.log(prob), in_a, in_b)
    )
    if k < classes:
        tail = torch.from_numpy(prob < _TAIL).nonzero()[:, 0]
        for some in tail.split(max(1, _LARGEST // (_TAIL_NODES * classes))) if len(tail) else ():
            wide = a[some].double(), b.expand(a.shape)[some].double()
            for whole, part in zip(
                (log_prob, found_a, found_b), _in_the_tail(*wide, k), strict=True
            ):
                whole[some] = part.to(a.dtype)
    return log_prob, found_a, found_b


def _in_the_tail(a: Tensor, b: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """log P (R,) and its derivatives in a and b (R, C), by sums of logarithms."""
    a = a.clamp(min=-1e8)  # beyond, differences of squares lose their digits
    low = torch.zeros_like(a[:, :1])
    high = 3.0 + (-a / b).amax(1, keepdim=True).clamp(min=0.0)  # there nearly all are below
    share = torch.linspace(0.0, 1.0, 65, dtype=a.dtype)
    for _ in range(8):  # narrow the range around the largest value, by 32 each time
        z = low + (high - low) * share
        best = _log_integrand(a, b, z, k).argmax(1, keepdim=True)
        step = (high - low) / 64.0
        centre = z.gather(1, best)
        low, high = (centre - step).clamp(min=0.0), centre + step
        if bool((step < 1e-3 / a.shape[1] ** 0.5).all()):
            break
    # The integrand's width from its curvature: at most that of the label's own density, 1.
    h = 0.1 / (1.0 + (b * b).sum(1, keepdim=True)).sqrt()
    around = _log_integrand(a, b, torch.cat([centre - h, centre, centre + h], 1), k)
    curvature = (2.0 * around[:, 1:2] - around[:, :1] - around[:, 2:]) / h**2
    width = curvature.clamp(min=1.0, max=1e6).rsqrt()
    z = centre + width * torch.linspace(-12.0, 12.0, _TAIL_NODES + 1, dtype=a.dtype)
    step = 24.0 * width[:, 0] / _TAIL_NODES

    def log_prob(a: Tensor, b: Tensor) -> Tensor:
        return torch.logsumexp(_log_integrand(a, b, z, k), 1) + torch.log(step)

    value, pull = torch.func.vjp(log_prob, a, b)
    return value, *pull(torch.ones_like(value))


def _log_integrand(a: Tensor, b: Tensor, z: Tensor, k: int) -> Tensor:
    """The logarithm of the label's density times Pr(at most k - 1 exceed it), (R, nodes)."""
    # At infinity there is no derivative, and from 40 on nothing changes.
    x = (a[:, None, :] + b[:, None, :] * z[..., None]).clamp(-1e100, 40.0)
    stays, exceeds = torch.special.log_ndtr(x), torch.special.log_ndtr(-x)
    nothing = torch.full_like(z, -1e300)  # as a logarithm; minus infinity would have no derivative
    counts = [torch.zeros_like(z)] + [nothing] * (k - 1)
    for stay, exceed in zip(stays.unbind(-1), exceeds.unbind(-1), strict=True):
        before = [nothing, *counts[:-1]]
        counts = [
            torch.logaddexp(now + stay, less + exceed)
            for now, less in zip(counts, before, strict=True)
        ]
    total = torch.logsumexp(torch.stack(counts), 0)
    return total - 0.5 * z * z - 0.5 * math.log(2.0 * math.pi)


def _log_prob(a: Tensor, b: Tensor, k: int) -> Tensor:
    step = 2.0 * _REACH / _NODES
    z = torch.arange(_NODES, dtype=a.dtype, device=a.device) * step + (0.5 * step - _REACH)
    x = a[:, None, :] + b[:, None, :] * z[:, None]  # (B, Q, C)
    stay = torch.special.ndtr(x.clamp(-40.0, 40.0))  # the slope at infinity would be NaN
    exceeding = [torch.ones_like(stay[..., 0])] + [torch.zeros_like(stay[..., 0])] * (k - 1)
    for own in stay.unbind(-1):
        before = [torch.zeros_like(own), *exceeding]
        exceeding = [
            now * own + less * (1.0 - own) for now, less in zip(exceeding, before[:-1], strict=True)
        ]
    weight = step * torch.exp(-0.5 * z * z) / (2.0 * torch.pi) ** 0.5
    return torch.log((sum(exceeding) * weight).sum(1).clamp(_TINY, 1.0))


def plain(a: Tensor, b: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same in plain torch, differentiable again; O(C) operations one after the other."""
    log_prob, pull = torch.func.vjp(
        lambda a, b: _log_prob(a, b.expand(a.shape), min(k, a.shape[1])), a, b.expand(a.shape)
    )
    in_a, in_b = pull(torch.ones_like(log_prob))
    return log_prob, in_a, in_b
