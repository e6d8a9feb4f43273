"""The one-factor integral in plain torch: for devices without a kernel, and for higher derivatives.

    P = int phi(z) prod_i Phi(a_i + b_i z) dz,    b_i >= 0

by the trapezoidal rule around the mode, in the variable t of

    z = mode + s (sinh(eps + r t) - sinh(eps)) / (r cosh(eps)),

which takes the skewness at the mode out (docs/one_factor.md).  Nodes are held when the result is
differentiated: the rule is exact to rounding wherever they lie, and so are its derivatives, to any
order.  Where b is the same for all i, with 96 nodes; else with 384, which resolve integrands whose
b are within a factor of 30 of each other.  Beyond that they have walls, and the error of P may be
1e-2: the kernels of mvnorth know better.
"""

import math

import torch
from torch import Tensor

_EQUAL, _VARIED = 96, 384  # nodes
_REACH = 12.0  # of the nodes, in t
_MODE_STEPS = 24
_LARGEST = 2**24  # numbers in a tensor: rows are taken in parts
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_DEEP, _TERMS = -6.0, 20  # where the tail's continued fraction takes over; its terms
# Beyond this phi/Phi is below the smallest normal number of the dtype, and 1 - Phi below rounding.
_HIGHEST = {torch.float32: 12.5, torch.float64: 37.0}


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """``(h, h + x)`` for h = phi/Phi, differentiable to any order.

    Deep in the tail h + x comes from the continued fraction of the Mills ratio, not from a
    difference; it is meaningless where h is nothing.
    """
    deep = x < _DEEP
    t = torch.where(deep, -x, -_DEEP)
    r = t
    for k in range(_TERMS, 1, -1):
        r = t + k / r
    near = x.clamp(_DEEP, _HIGHEST[x.dtype])
    h = math.sqrt(2.0 / math.pi) / torch.special.erfcx(-math.sqrt(0.5) * near)
    h = h.masked_fill(x > _HIGHEST[x.dtype], 0.0)
    return torch.where(deep, t + 1.0 / r, h), torch.where(deep, 1.0 / r, near + h)


def log_phi(x: Tensor, h: Tensor | None = None) -> Tensor:
    """The logarithm of Phi, differentiable to any order; h is phi/Phi if it is known."""
    h = _parts(x)[0] if h is None else h
    deep = x < _DEEP
    t = torch.where(deep, x, _DEEP)
    below = -0.5 * t * t - _LOG_SQRT_2PI - torch.log(torch.where(deep, h, 1.0))
    near = x.clamp(_DEEP, _HIGHEST[x.dtype])
    return torch.where(deep, below, torch.special.log_ndtr(near))


def log_quantile(p: Tensor) -> Tensor:
    """x with log Phi(x) = p < 0, differentiable twice: the last two of Newton's steps are."""
    with torch.no_grad():
        x = torch.special.ndtri(torch.exp(p).clamp(min=1e-30))
        x = torch.where(p < -60.0, -torch.sqrt(-2.0 * p), x)
        for _ in range(4):
            h, _ = _parts(x)
            x = x - (log_phi(x, h) - p) / h
    for _ in range(2):
        h, _ = _parts(x)
        x = x - (log_phi(x, h) - p) / h
    return x


def _mode(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``(z, width, skewness)`` of the integrand, (B, 1) each.

    Newton's method for log(sum_i b_i h_i) = log(z), else for sum_i b_i h_i = z, else the middle of
    the bracket.
    """
    z = low = a.new_zeros(a.shape[0], 1)
    high = torch.full_like(z, math.inf)
    for _ in range(_MODE_STEPS):
        h, rise = _parts(a + b * z)
        total = (b * h).sum(1, keepdim=True)
        bend = (b * b * h * rise).sum(1, keepdim=True)
        right = total > z
        low, high = torch.where(right, z, low), torch.where(right, high, z)
        quick = z + torch.log(total / z) / (bend / total + 1.0 / z)
        plain = z + (total - z) / (1.0 + bend)
        z = torch.where((quick > low) & (quick < high), quick, plain)
        z = torch.where((z >= low) & (z <= high), z, 0.5 * (low + high))
    h, rise = _parts(a + b * z)
    bend = (b * b * h * rise).sum(1, keepdim=True)
    third = (b**3 * h * (rise * (rise + h) - 1.0)).sum(1, keepdim=True)
    width = (1.0 + bend).rsqrt()
    return z, width, third * width**3 / 3.0


def _nodes(a: Tensor, b: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Nodes and the logarithms of their weights, (B, Q) both.

    Where the integrand is so far out that rounding hides its shape, all of them are at the mode:
    it is a Gaussian there.
    """
    z, width, skewness = _mode(a, b)
    x = a + b * z
    size = log_phi(x, _parts(x)[0]).sum(1, keepdim=True).abs() + z * z
    hidden = ~(size * torch.finfo(a.dtype).eps < 1e-3)
    skewness = skewness.clamp(-2.0, 2.0)  # of walls: a map that bends more has too few nodes
    bend = (1.3 * skewness.abs()).clamp(min=0.18)
    start = torch.atanh(skewness / bend)
    t = torch.arange(1 - count, count, 2, dtype=a.dtype, device=a.device) * (_REACH / count)
    stretch = bend * start.cosh()
    offset = (torch.sinh(start + bend * t) - start.sinh()) / stretch
    log_weight = torch.log(
        2.0 * _REACH / count * width * torch.cosh(start + bend * t) / start.cosh()
    )
    flat = torch.log(width * (math.sqrt(2.0 * math.pi) / count))
    return z + width * offset.masked_fill(hidden, 0.0), torch.where(hidden, flat, log_weight)


def _integral(a: Tensor, b: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        z, log_weight = _nodes(a.detach(), b.detach(), count)
    z = z[:, :, None]
    x = a[:, None, :] + b[:, None, :] * z
    h, _ = _parts(x)
    log_f = log_phi(x, h).sum(2) - 0.5 * z[:, :, 0] ** 2 - _LOG_SQRT_2PI + log_weight
    share = torch.softmax(log_f, 1)[:, :, None] * h
    return torch.logsumexp(log_f, 1), share.sum(1), (z * share).sum(1)


def one_factor(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log P and its derivatives in a and in b.

    Parameters
    ----------
    a : (B, C) > -inf; +inf allowed
    b : (1, 1), (1, C) or (B, C) >= 0

    Returns
    -------
    log_prob : (B,)
    in_a, in_b : (B, C)
    """
    count = _EQUAL if b.shape[1] == 1 else _VARIED
    rows = max(1, _LARGEST // (count * a.shape[1]))
    if a.shape[0] <= rows:
        return _integral(a, b, count)
    pieces = zip(a.split(rows), b.expand(a.shape).split(rows), strict=True)
    parts = zip(*(_integral(*piece, count) for piece in pieces), strict=True)
    log_prob, in_a, in_b = map(torch.cat, parts)
    return log_prob, in_a, in_b
