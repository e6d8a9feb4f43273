"""Derivatives for Sigma = diag(c) + v v^T by differentiating the Genz estimate itself.

The gradient is the exact one of the estimate, whatever its error: for given points log P is a
smooth function of m, c and v as long as their order does not change, and with the weights
p_k = prod_i Phi(b_ik)

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
    PART,
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
    """Derivatives of log P, or of P, in those of "m", "c", "v" that ``wrt`` names.

    Parameters
    ----------
    problems : with upper limits alone, which are m, > -inf
    n : points, as in ``Budget``; None for ``FIXED_POINTS``
    """
    items = max(REPLICATES, fixed_points(n).most // PART)
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
    """Statistics of one half of the lattices.

    Attributes
    ----------
    log_sum, log_largest : (rows, R) of the weights
    stats : (3, rows, R, 3 names, d) sum, sum of absolute values and largest absolute value, see
        ``pathwise_sums``
    """

    def __init__(self, logs: np.ndarray, stats: np.ndarray) -> None:
        self.log_sum = log_sum(logs[..., 0], axis=2)
        self.log_largest = logs[..., 1].max(axis=2)
        stats = stats.reshape(*logs.shape[:3], *stats.shape[1:])
        stats *= np.exp(logs[..., 0] - self.log_sum[:, :, None])[..., None, None, None]
        sums, sizes, largest = np.moveaxis(stats, 4, 0)
        self.stats = np.stack([sums.sum(axis=2), sizes.sum(axis=2), largest.max(axis=2)])


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
        arguments = (*system.kernel_arguments, recursion, stats)
        logs = points.log_sums(partial(pathwise_sums, *arguments), rows, problems.d * 2e-8)
        halves.append(_Half(logs, stats))
        return logs

    estimate = structured.estimate(problems, system, weigh, fixed_points(n), seed)
    grad, spread, missed = _summarise(halves, int(estimate.n[0]), log)
    scale = np.stack([1 / system.diag, 1 / c, np.ones_like(c)], axis=1)
    grad = grad * scale
    error = (spread + missed) * scale + _missed_by_all(system, missed[:, 0])
    if not log:
        prob = np.exp(estimate.log_prob)[:, None, None]
        grad = grad * prob
        known = np.isfinite(error)  # what is not stays unknown when P underflows
        np.multiply(error, prob, where=known, out=error)
    error += np.finfo(float).tiny  # for what underflows
    error[np.isinf(estimate.rel_error)] = np.inf
    order = np.broadcast_to(system.order[:, None], grad.shape)
    for values in (grad, error):
        np.put_along_axis(values, order, values.copy(), axis=2)
    return estimate, grad, error


def _summarise(halves: list[_Half], n: int, log: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(gradient, spread, missed)``, each (rows, 3 names, d) in the units of the kernel.

    The gradient is that of log P.  Its error has two parts: what the spread between shifts says,
    and what all n points may have missed.  Without ``log`` both are errors of the gradient of P,
    divided by P.
    """
    logs = np.stack([half.log_sum for half in halves], axis=1)  # (rows, H, R)
    rows, count, replicates = logs.shape
    log_total = log_sum(logs.reshape(rows, -1), axis=1)
    share = np.exp(logs - log_total[:, None, None])[..., None, None]
    sums, sizes, largest = (
        share * np.stack([half.stats[k] for half in halves], axis=1) for k in range(3)
    )
    grad, size, top = sums.sum(axis=(1, 2)), sizes.sum(axis=(1, 2)), largest.max(axis=(1, 2))
    if log:  # in a quotient of two sums, what both have in common is no error
        sums = sums - share * grad[:, None, None]
    if replicates < REPLICATES:
        spread = np.full(grad.shape, np.inf)
    else:
        each = count * replicates * sums.reshape(rows, -1, *grad.shape[1:])
        spread = spread_bound(replicates * sums.sum(axis=1), each if count > 1 else each[:, :0])
    spread += (1e-13 + 1e-14 * grad.shape[-1]) * n * top  # rounding; n * top is above any sum
    carriers = np.divide(size, top, where=top > 0.0, out=np.full(top.shape, float(n)))
    unseen = unseen_share(carriers, n) + CORNER / n
    if log:
        heaviest = np.max([half.log_largest for half in halves], axis=(0, 2))
        unseen += unseen_share(np.exp(log_total - heaviest), n)[:, None, None]
    return grad, spread, np.multiply(unseen, size, where=size > 0.0, out=np.zeros(size.shape))


def _missed_by_all(system: structured.System, missed: np.ndarray) -> np.ndarray:
    """What all points may have missed of the derivatives in c and v, (B, 3 names, d).

    All derivatives in coordinate i are integrals over the face t_i = 0, where those in c_i and
    v_i are about m_i / (2 Sigma_ii) and v_i m_i / Sigma_ii times the one in m_i.  Only the latter
    is not overlaid with what other coordinates contribute, so it tells whether the face was seen.

    Parameters
    ----------
    missed : (B, d) of the derivative in m_i L_ii
    """
    m_bar = missed / system.diag
    m = np.where(np.isinf(system.upper), 0.0, np.abs(system.upper) * system.diag)
    multiple = m / (system.c + system.v**2)
    out = np.zeros((len(m), 3, m.shape[1]))
    for k, times in ((1, 0.5 * multiple), (2, np.abs(system.v) * multiple)):
        np.multiply(m_bar, times, where=times > 0.0, out=out[:, k])
    return out
