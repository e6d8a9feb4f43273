"""The one-factor integral in plain torch: for devices without a kernel, and for higher derivatives.

    P = int phi(z) prod_i Phi(a_i + b_i z) dz,    b_i >= 0

by the trapezoidal rule around the mode, in the variable t of

    z = mode + s (sinh(eps + r t) - sinh(eps)) / (r cosh(eps)),

which takes the skewness at the mode out (docs/one_factor.md).  Nodes are held when the result is
differentiated: the rule is exact to rounding wherever they lie, and so are its derivatives, to any
order.  Where b is the same for all i, with 96 nodes; else with 384, which resolve integrands whose
b are within a factor of 30 of each other.  Beyond that they have walls, and the error of P may be
1e-2: the kernels of mvnorth know better.  Single precision is computed in double where there is
such: sums over the nodes would lose three digits of a second derivative.
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


def _nodes(a: Tensor, b: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The mode (B, 1), distances of the nodes from it and logarithms of their weights, (B, Q)."""
    z, width, skewness = _mode(a, b)
    skewness = skewness.clamp(-2.0, 2.0)  # of walls: a map that bends more has too few nodes
    bend = (1.3 * skewness.abs()).clamp(min=0.18)
    start = torch.atanh(skewness / bend)
    t = torch.arange(1 - count, count, 2, dtype=a.dtype, device=a.device) * (_REACH / count)
    stretch = bend * start.cosh()
    offset = (torch.sinh(start + bend * t) - start.sinh()) / stretch
    log_weight = torch.log(
        2.0 * _REACH / count * width * torch.cosh(start + bend * t) / start.cosh()
    )
    return z, width * offset, log_weight


def _changes(x0: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``(h0, remainder, change)`` of log Phi and h = phi/Phi from x0 to x0 + t.

    remainder is log Phi(x0 + t) - log Phi(x0) - t h0, change is h(x0 + t) - h0, both without the
    cancellation of large numbers in the lower tail, where h = -x + r with a small r.
    """
    x = x0 + t
    h0, r0 = _parts(x0)
    h, r = _parts(x)
    deep = (x0 < _DEEP) & (x < _DEEP)
    # Neither branch may be infinite where the other is taken: its derivative would be NaN.
    ratio = torch.where(deep, h, 1.0) / torch.where(deep, h0, 1.0)
    far = -t * (r0 + 0.5 * t) - torch.log(ratio)
    near = log_phi(x, h) - log_phi(x0, h0) - t * h0
    return h0, torch.where(deep, far, near), torch.where(deep, (r - r0) - t, h - h0)


def _integral(a: Tensor, b: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """log P and its derivatives in a and in b, from sums over the nodes.

    The logarithm of the integrand is taken relative to its value at the mode z0, where its slope,
    sum_i b_i h_i - z0, is zero: for scores of 1e8 deviations its terms are 1e16, and their rounding
    would be as large as the differences between nodes.
    """
    with torch.no_grad():
        z0, offset, log_weight = _nodes(a.detach(), b.detach(), count)
    x0 = a + b * z0
    h0, remainder, change = _changes(x0[:, None, :], b[:, None, :] * offset[:, :, None])
    h0 = h0[:, 0, :]
    pull = (b * h0).sum(1, keepdim=True)
    # The derivatives of the slope, and its value where that is more than rounding.
    slope = (pull - z0).detach()
    rounding = 64.0 * torch.finfo(a.dtype).eps * (pull.detach() + z0)
    slope = pull - pull.detach() + torch.where(slope.abs() > rounding, slope, 0.0)
    at_mode = log_phi(x0, h0).sum(1) - 0.5 * z0[:, 0] ** 2 - _LOG_SQRT_2PI
    log_f = remainder.sum(2) + offset * slope - 0.5 * offset**2 + log_weight
    share = torch.softmax(log_f, 1)[:, :, None]
    in_a = h0 + (share * change).sum(1)
    in_b = z0 * in_a + (share * offset[:, :, None] * (h0[:, None, :] + change)).sum(1)
    return at_mode + torch.logsumexp(log_f, 1), in_a, in_b


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
    if a.dtype == torch.float32 and a.device.type in ("cpu", "cuda"):  # others may have no doubles
        log_prob, in_a, in_b = one_factor(a.double(), b.double())
        return log_prob.to(a.dtype), in_a.to(a.dtype), in_b.to(a.dtype)
    count = _EQUAL if b.shape[1] == 1 else _VARIED
    rows = max(1, _LARGEST // (count * a.shape[1]))
    if a.shape[0] <= rows:
        return _integral(a, b, count)
    pieces = zip(a.split(rows), b.expand(a.shape).split(rows), strict=True)
    parts = zip(*(_integral(*piece, count) for piece in pieces), strict=True)
    log_prob, in_a, in_b = map(torch.cat, parts)
    return log_prob, in_a, in_b
