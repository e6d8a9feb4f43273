"""The multivariate normal distribution function for tensors, differentiable in all its arguments.

Values and first derivatives are mvnorth's, exact where it has a closed form and with its errors
where it samples.  Second derivatives, and devices without a kernel, take Genz's estimate in plain
torch (docs/derivatives.md), which is good to three or four digits.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

import mvnorth
from exact_torch import _arguments, _plain, _transforms

_POINTS = 4096  # of the estimate in plain torch, unless their number is given


def orthant_logprob(
    m: Tensor, L: Tensor, n: int | None = None, *, rtol: float | None = None, seed: int = 0
) -> Tensor:
    """Log probability that all coordinates of t ~ N(m, L L^T) are >= 0; differentiable.

    Parameters
    ----------
    m : Tensor (..., d)
        Means, > -inf.
    L : Tensor (d, d) or (..., d, d)
        Lower triangular factor of the covariance, with a positive diagonal; what stands above the
        diagonal is not looked at.
    n : int, optional
        Number of points for problems that are sampled, as in ``mvnorth.orthant``; without it as
        many as the tolerance takes.
    rtol : float, optional
        Relative error of the probability asked for.
    seed : int
        Of the points, in [0, 2**63); the same input and seed give the same result.

    Returns
    -------
    Tensor (...)

    Examples
    --------
    >>> import torch
    >>> from exact_torch import orthant_logprob
    >>> m = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    >>> log_prob = orthant_logprob(m, torch.eye(2, dtype=torch.float64))
    >>> print(log_prob.exp().detach())
    tensor(0.2500, dtype=torch.float64)
    >>> log_prob.backward()
    >>> print(m.grad)
    tensor([0.7979, 0.7979], dtype=torch.float64)
    """
    _check("m", m, "L", L)
    points, tolerance, seed = _check_points(n, rtol, seed)
    dtype = torch.promote_types(torch.promote_types(m.dtype, L.dtype), torch.float32)
    batch = torch.broadcast_shapes(m.shape[:-1], L.shape[:-2])
    d = m.shape[-1]
    means = m.to(dtype).expand(*batch, d).reshape(-1, d)
    shared = L.ndim == 2
    factors = L.to(dtype).tril().expand(*(() if shared else batch), d, d).reshape(-1, d, d)
    order = int(torch.is_grad_enabled())
    return _log_prob(means, factors, points, tolerance, seed, order)[0].reshape(batch)


def mvn_logcdf(
    x: Tensor,
    mean: Tensor | float,
    cov: Tensor,
    n: int | None = None,
    *,
    rtol: float | None = None,
    seed: int = 0,
) -> Tensor:
    """Logarithm of the multivariate normal distribution function; differentiable.

    Parameters
    ----------
    x : Tensor (..., d)
        Upper limits, > -inf.
    mean : Tensor (..., d) or float
    cov : Tensor (d, d) or (..., d, d)
        Covariance, positive definite.
    n, rtol, seed
        As in ``orthant_logprob``.

    Returns
    -------
    Tensor (...)

    Examples
    --------
    >>> import torch
    >>> from exact_torch import mvn_logcdf
    >>> cov = torch.tensor([[1.0, 0.5], [0.5, 1.0]], requires_grad=True)
    >>> log_cdf = mvn_logcdf(torch.zeros(2), 0.0, cov)
    >>> print(log_cdf.exp().detach())
    tensor(0.3333)
    >>> log_cdf.backward()
    >>> print(cov.grad)
    tensor([[-0.1378,  0.2757],
            [ 0.2757, -0.1378]])
    """
    _check("x", x, "cov", cov)
    _check_points(n, rtol, seed)
    dtype = torch.promote_types(torch.promote_types(x.dtype, cov.dtype), torch.float32)
    factor = torch.linalg.cholesky(cov.to(dtype))
    return orthant_logprob(x.to(dtype) - mean, factor, n, rtol=rtol, seed=seed)


def _check(name: str, vector: Tensor, other: str, matrix: Tensor) -> None:
    for label, given in ((name, vector), (other, matrix)):
        if not isinstance(given, Tensor) or not given.is_floating_point():
            raise TypeError(f"{label} must be a tensor of floating point numbers, got {given!r}")
    d = vector.shape[-1] if vector.ndim else 0
    if d == 0 or matrix.ndim < 2 or matrix.shape[-2:] != (d, d):
        raise ValueError(
            f"{name} must be (..., d) and {other} (d, d) or (..., d, d), "
            f"got {tuple(vector.shape)} and {tuple(matrix.shape)}"
        )


def _check_points(n: int | None, rtol: float | None, seed: int) -> tuple[int, float, int]:
    """The number of points and the tolerance, 0 where they are not given, and the seed."""
    points = 0 if n is None else _arguments.whole_number("n", n, at_least=1)
    tolerance = 0.0 if rtol is None else _arguments.number("rtol", rtol, least=0)
    return points, tolerance, _arguments.whole_number("seed", seed, at_least=0)


@torch.library.custom_op("exact_torch::orthant_logprob", mutates_args=())
def _operator(
    m: Tensor, factor: Tensor, n: int, rtol: float, seed: int, order: int
) -> tuple[Tensor, Tensor, Tensor]:
    """log P of rows, (B,), with its derivatives in m (B, d) and in the factors (B, d, d).

    Parameters
    ----------
    m : (B, d)
    factor : (1 or B, d, d)
    n, rtol : 0 where they are not given
    order : 0 for the value alone, 1 with derivatives; (0,) stands for what is not wanted
    """
    if not order:
        return _estimate(m, factor, n, seed), m.new_empty(0), m.new_empty(0)
    return _estimate(m, factor, n, seed), *_slopes(m, factor, n, seed)


@_operator.register_kernel(["cpu", "cuda"])
def _(
    m: Tensor, factor: Tensor, n: int, rtol: float, seed: int, order: int
) -> tuple[Tensor, Tensor, Tensor]:
    on_cpu = m.device.type == "cpu"
    means, L = (a.contiguous().numpy() if on_cpu else a.contiguous() for a in (m, factor))
    options: dict[str, Any] = {"n": n or None, "rtol": rtol or None, "seed": seed}
    columns: tuple[Any, ...] = (np.empty(0), np.empty(0))
    if order:
        found = mvnorth.orthant_grad(means, L, wrt=("m", "L"), log=True, **options)
        columns = (found.log_prob, found.grad_m, found.grad_L)
    else:
        columns = (mvnorth.orthant_logprob(means, L, **options), *columns)
    log_prob, in_m, in_factor = (torch.as_tensor(a, device=m.device).to(m.dtype) for a in columns)
    return log_prob, in_m, in_factor


@_operator.register_fake
def _(
    m: Tensor, factor: Tensor, n: int, rtol: float, seed: int, order: int
) -> tuple[Tensor, Tensor, Tensor]:
    in_m = m.new_empty(m.shape if order else 0)
    in_factor = m.new_empty((*m.shape, m.shape[1]) if order else 0)
    return m.new_empty(m.shape[0]), in_m, in_factor


def _estimate(m: Tensor, factor: Tensor, n: int, seed: int) -> Tensor:
    """Genz's estimate in plain torch, differentiable to second order."""
    d = m.shape[1]
    count = 1 << ((n or _POINTS) - 1).bit_length()  # lattices have a power of two
    u = torch.from_numpy(mvnorth.qmc.points(count, d, seed)).to(m)
    total = m.new_zeros(m.shape[0], len(u))
    drawn: list[Tensor] = []
    for i in range(d):
        known = sum((factor[:, i, j, None] * y for j, y in enumerate(drawn)), m.new_zeros(()))
        b = (m[:, i, None] - known) / factor[:, i, i, None]
        log_e = _plain.log_phi(b)
        total = total + log_e
        if i < d - 1:
            drawn.append(_plain.log_quantile(log_e + torch.log(u[:, i])))
    return torch.logsumexp(total, 1) - torch.log(m.new_full((), len(u)))


def _slopes(m: Tensor, factor: Tensor, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Derivatives of ``_estimate``, row by row."""
    full = factor.expand(m.shape[0], *factor.shape[1:])
    log_prob, pull = torch.func.vjp(lambda m, factor: _estimate(m, factor, n, seed), m, full)
    in_m, in_factor = pull(torch.ones_like(log_prob))
    return in_m, in_factor.tril()


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    m, factor, n, _, seed, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(m, factor, *output[1:])
    ctx.n, ctx.seed = n, seed


def _backward(
    ctx: Any, towards: Tensor | None, in_m: Tensor | None, in_factor: Tensor | None
) -> tuple[Tensor | None, ...]:
    m, factor, grad_m, grad_factor = ctx.saved_tensors
    found_m = found_factor = None
    if towards is not None:
        found_m = towards[:, None] * grad_m
        found_factor = (towards[:, None, None] * grad_factor).sum_to_size(factor.shape)
    if in_m is not None or in_factor is not None:
        _, pull = torch.func.vjp(lambda a, b: _slopes(a, b, ctx.n, ctx.seed), m, factor)
        in_m = torch.zeros_like(grad_m) if in_m is None else in_m
        in_factor = torch.zeros_like(grad_factor) if in_factor is None else in_factor
        more_m, more_factor = pull((in_m, in_factor))
        found_m = more_m if found_m is None else found_m + more_m
        found_factor = more_factor if found_factor is None else found_factor + more_factor
    return found_m, found_factor, None, None, None, None


def _over_rows(
    info: Any, in_dims: tuple[int | None, ...], m: Tensor, factor: Tensor, *rest: Any
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Rows are independent of each other: those of all problems are one batch."""
    size = info.batch_size
    means, factors = (
        a.expand(size, *a.shape) if dim is None else a.movedim(dim, 0)
        for a, dim in zip((m, factor), in_dims[:2], strict=True)
    )
    rows, d = means.shape[1:]
    factors = factors.expand(size, rows, d, d).flatten(0, 1)
    found = _log_prob(means.flatten(0, 1), factors, *rest)
    shaped = tuple(a.unflatten(0, (size, rows)) if a.numel() else a.expand(size, 0) for a in found)
    return shaped, (0, 0, 0)


_log_prob = _transforms.transformable(_operator, _remember, _backward, _over_rows)
