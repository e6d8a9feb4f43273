"""Genz's recursion in plain torch, in double precision, with its gradient by autograd.

What a user of torch would write, for the benchmarks to compare with: all points are one tensor,
coordinates in the order given, the sums of each row kept up to date as variables are drawn (which
leaves less to be remembered for the way back than a product per row, and is as quick).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mvnorth import qmc
from validation.oracles.one_dimension import FloatArray

Gradient = tuple[float, FloatArray, FloatArray]


def points(n: int, d: int, shifts: int, seed: int) -> FloatArray:
    """``shifts`` shifted lattices of n / shifts points one after the other, (d, n)."""
    count = n // shifts
    steps = np.arange(count)[:, None] * (qmc.lattice_vector(d) / count)
    x = (steps + qmc.random_shifts(seed, shifts, d)[:, None, :]) % 1.0
    inside: FloatArray = (1 - 2.0**-53) - np.abs(2 * x - 1) * (1 - 2.0**-52)
    return np.ascontiguousarray(inside.reshape(n, d).T)


def log_weights(m: Any, L: Any, u: Any) -> Any:
    """log prod_i Phi(b_i), (n,), for m, (d,), L, (d, d), and u, (d, n): tensors."""
    import torch

    sums = m[:, None].expand(-1, u.shape[1])
    logs = torch.zeros_like(u[0])
    for i in range(len(m)):
        e = torch.special.ndtr(sums[0] / L[i, i])
        logs = logs + e.log()
        if i + 1 < len(m):
            y = -torch.special.ndtri(u[i] * e)
            sums = sums[1:] + torch.outer(L[i + 1 :, i], y)
    return logs


def gradient(m: FloatArray, L: FloatArray, u: FloatArray) -> Gradient:
    """log P and its derivatives in m, (d,), and in L, (d, d)."""
    import torch

    mean: Any = torch.tensor(m, requires_grad=True)
    factor: Any = torch.tensor(L, requires_grad=True)
    logs = log_weights(mean, factor, torch.from_numpy(u))
    log_prob = torch.logsumexp(logs, dim=0) - float(np.log(u.shape[1]))
    log_prob.backward()
    return float(log_prob.detach()), mean.grad.numpy(), factor.grad.numpy()


def gradient_in_chunks(m: FloatArray, L: FloatArray, u: FloatArray, size: int) -> Gradient:
    """The same, ``size`` points at a time: slopes of chunks, averaged with their weights."""
    parts = [gradient(m, L, u[:, at : at + size]) for at in range(0, u.shape[1], size)]
    logs = np.array([log_prob for log_prob, _, _ in parts])
    share = np.exp(logs - logs.max())
    share /= share.sum()
    log_prob = float(np.logaddexp.reduce(logs) - np.log(len(logs)))
    slopes = (sum(s * part[k] for s, part in zip(share, parts, strict=True)) for k in (1, 2))
    grad_m, grad_L = (np.asarray(slope) for slope in slopes)
    return log_prob, grad_m, grad_L
