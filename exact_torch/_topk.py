"""The probability that the label's score is among the k largest: by a kernel, or in plain torch."""

import numpy as np
import torch
from torch import Tensor

from mvnorth import _interface

_REACH, _NODES = 9.0, 288
_TINY = 2.0**-100  # a probability that counts as nothing: results have an absolute accuracy


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
    return log_prob, found_a, found_b


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
