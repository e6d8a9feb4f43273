"""Derivatives for Sigma = diag(c) + v v^T by differentiating the Genz estimate itself.

The gradient is the exact one of the estimate, whatever its error: for n points and given shifts
log P is a smooth function, and with weights p_k = prod Phi(b_ik)

    grad log P = sum_k p_k grad log p_k / sum_k p_k.

All of m, c and v cost one reverse sweep, O(d) a point.
"""

from functools import partial

import numpy as np

from mvnorth._cpu.pathwise import pathwise_sums
from mvnorth._linalg.one_factor import running_sums
from mvnorth._methods import structured
from mvnorth._methods.lattice_rule import (
    CORNER,
    REPLICATES,
    Points,
    fixed_points,
    log_sum,
    spread_bound,
    unseen_share,
)
from mvnorth._problem import Derivatives, Estimate, OneFactorProblems

_NAMES = ("m", "c", "v")
_CHUNK = 2**22  # entries of the kernel's statistics at a time: 32 MB


def solve(
    problems: OneFactorProblems, n: int | None, seed: int, wrt: tuple[str, ...], log: bool
) -> Derivatives:
    """Derivatives of log P, or of P, in the ``wrt`` out of "m", "c", "v".

    Parameters
    ----------
    problems : with upper limits alone, which are m, > -inf
    n : points, as in ``Budget``; None for ``FIXED_POINTS``
    """
    points = fixed_points(n).most
    items = REPLICATES * (1 + points // (REPLICATES * 2048))
    chunk = max(1, _CHUNK // (9 * items * problems.d))
    parts = [
        _solve_chunk(problems.take(slice(k, k + chunk)), n, seed, log)
        for k in range(0, problems.size, chunk)
    ]
    estimate = Estimate.concatenate([part[0] for part in parts])
    grad, error = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    columns = {name: _NAMES.index(name) for name in wrt}
    return Derivatives(
        estimate,
        {name: grad[:, k] for name, k in columns.items()},
        {name: error[:, k] for name, k in columns.items()},
    )


class _Half:
    """Statistics of one half of the lattices: (rows, R) shifts, parts joined.

    Attributes
    ----------
    log_sum, log_largest : (rows, R) of the weights
    stats : (rows, R, 3 names, 3, d) see ``pathwise_sums``
    """

    def __init__(self, logs: np.ndarray, stats: np.ndarray) -> None:
        self.log_sum = log_sum(logs[..., 0], axis=2)
        self.log_largest = logs[..., 1].max(axis=2)
        share = np.exp(logs[..., 0] - self.log_sum[:, :, None])
        stats = stats.reshape(*share.shape, *stats.shape[1:])
        stats *= share[..., None, None, None]
        self.stats = stats.sum(axis=2)
        self.stats[..., 2, :] = stats[..., 2, :].max(axis=2)


def _solve_chunk(
    problems: OneFactorProblems, n: int | None, seed: int, log: bool
) -> tuple[Estimate, np.ndarray, np.ndarray]:
    """The estimate, and gradient and error (B, 3 names, d)."""
    system = structured.System.of(problems)
    c, v = system.c, system.v
    s, before = running_sums(c, v)
    root = np.sqrt(c) * np.sqrt(s) * np.sqrt(before)
    recursion = np.stack([1 / s, v * v / c, 1 / system.diag, 1 / root, 2 * v / c], axis=1)
    halves: list[_Half] = []

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        items = rows.size * len(points.shifts) * points.start.size
        stats = np.empty((items, 3, 3, problems.d))
        kernel = partial(pathwise_sums, *system.kernel_arguments, recursion, stats)
        logs = points.log_sums(kernel, rows, problems.d * 2e-8)
        halves.append(_Half(logs, stats))
        return logs

    estimate = structured.estimate(problems, system, weigh, fixed_points(n), seed)
    grad, error = _summarise(halves, estimate, log)
    scale = np.stack([1 / system.diag, 1 / c, np.ones_like(c)], axis=1)
    order = np.broadcast_to(system.order[:, None], grad.shape)
    for values in (grad, error):
        np.put_along_axis(values, order, values * scale, axis=2)
    return estimate, grad, error


def _summarise(
    halves: list[_Half], estimate: Estimate, log: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and error bound, each (rows, 3 names, d), in the units of the kernel."""
    n = int(estimate.n[0])
    logs = np.stack([half.log_sum for half in halves], axis=1)  # (rows, H, R)
    rows, count, replicates = logs.shape
    log_total = log_sum(logs.reshape(rows, -1), axis=1)
    share = np.exp(logs - log_total[:, None, None])[..., None, None]
    sums, sizes, largest = (
        share * np.stack([half.stats[..., k, :] for half in halves], axis=1) for k in range(3)
    )  # (rows, H, R, 3, d)
    grad = sums.sum(axis=(1, 2))
    size, top = sizes.sum(axis=(1, 2)), largest.max(axis=(1, 2))
    if log:  # errors of the two sums of a quotient go together
        sums = sums - share * grad[:, None, None]
    each = count * replicates * sums.reshape(rows, -1, *grad.shape[1:])
    bound = spread_bound(
        replicates * sums.sum(axis=1), each if count > 1 else each[:, :0]
    ) if replicates >= REPLICATES else np.full(grad.shape, np.inf)
    carriers = np.divide(size, top, where=top > 0.0, out=np.full(top.shape, float(n)))
    unseen = unseen_share(carriers, n) + CORNER / n
    if log:
        heaviest = np.max([half.log_largest for half in halves], axis=(0, 2))
        unseen += unseen_share(np.exp(log_total - heaviest), n)[:, None, None]
    error = bound + size * unseen + (1e-13 + 1e-14 * grad.shape[-1]) * n * top
    error[np.isinf(estimate.rel_error)] = np.inf
    if not log:
        scale = np.exp(estimate.log_prob)[:, None, None]
        grad, error = grad * scale, error * scale + np.finfo(float).tiny
    return grad, error
