"""Derivatives for any covariance by differentiating the Genz estimate itself.

The gradient is the exact one of the estimate, whatever its error: for given points log P is a
smooth function of limits and covariance as long as the order of the coordinates does not change,
and with the weights p_k

    grad log P = sum_k p_k grad log p_k / sum_k p_k.

One reverse sweep gives the derivatives in all limits and in all entries of the reordered Cholesky
factor.  With L = diag(unit) T for that factor and L^ the derivatives in it, those in Sigma are
(Murray 2016, arXiv:1602.07527)

    G = L^-T S L^-1 / 2,    S = the symmetric matrix whose lower triangle is that of L^T L^

and those in any other factor A of Sigma, 2 G A = L^-T S Q with the orthogonal Q = L^-1 A.

A tilt is held when the derivatives are taken.  Whatever it is, the mean of the weights is P, so
the derivatives with a tilt that is held are those of P in the mean as well; they differ from those
of the estimate with its tilt by what has mean zero, and is small because the tilt is at a
stationary point (docs/derivatives.md).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._cpu.pathwise import pathwise_sums
from mvnorth._derivatives.faces import MISSED, Faces, exponents_rounding, limit_slopes
from mvnorth._derivatives.lattice_means import LatticeMeans, Sums, of_size, quotients
from mvnorth._device import Device
from mvnorth._linalg.product import padded
from mvnorth._methods import genz
from mvnorth._methods.lattice_rule import REPLICATES, Points
from mvnorth._problem import Budget, Estimate, Problems, Slopes, in_chunks, in_covariance

_CHUNK = 2**22  # entries of the products at a time: 32 MB
_PARTS, _LARGE = 4, 256  # parts of the points at a time, and the d from which on it is one
_TIED = 10.0  # times ``singular``: how far limits must be apart that bind the same variable
_EPS = float(np.finfo(np.float64).eps)


def solve(
    problems: Problems, budget: Budget, seed: int, wanted: tuple[str, ...], tilted: bool = False
) -> Estimate:
    """Probabilities as ``genz.solve`` gives them, and their slopes in what is ``wanted``."""
    chunk = max(1, _CHUNK // (_PARTS * REPLICATES * padded(problems.d) ** 2))
    return in_chunks(problems, chunk, lambda some: _solve(some, budget, seed, wanted, tilted))


def _solve(
    problems: Problems, budget: Budget, seed: int, wanted: tuple[str, ...], tilted: bool
) -> Estimate:
    d = problems.d
    base, tilt = genz.System.of(problems), None
    system, rounding = base, np.zeros(problems.size)
    if tilted:
        system, tilt = base.tilted(problems.singular)
        rounding = np.expm1(np.minimum(tilt.rounding, 700.0))
    second = in_covariance(wanted)
    means = LatticeMeans()
    if budget.device is None:
        sums, parts = _sums(system, second), _PARTS if d < _LARGE else 1
    else:
        sums, parts = _sums_on_device(system, second, budget.device), budget.most

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return means.collect(partial(sums, rows), rows, points, parts)

    estimate = genz.estimate(problems, system, weigh, budget, seed, tilt)
    unseen, size = means.unseen(estimate.n, genz.corner(system))
    value, spread = quotients(means.sums, means.share)
    stretch = system.stretch[:, None]
    elsewhere = means.elsewhere(estimate.n, MISSED)
    faces = Faces.of(base, value * stretch, size * stretch, unseen, elsewhere, estimate)
    missed = np.minimum(of_size(unseen, size), size + faces.most / stretch)
    missed += faces.hidden / stretch
    rounding += exponents_rounding(system) + genz.storage_rounding(estimate, d, budget)
    bound = spread + missed + of_size(rounding[:, None, None], size)
    bound[_coinciding(base, problems.singular)] = np.inf
    slopes = limit_slopes(system, value, bound)
    if second:
        eps = _EPS if budget.device is None else float(np.finfo(budget.device.dtype).eps)
        given = (base, system, problems.factor, means)
        _add_covariance(slopes, *given, unseen[:, 2], faces, wanted, eps)
    slopes.round(rounding)
    for error in slopes.error.values():
        error[np.isinf(estimate.rel_error)] = np.inf
        error += np.finfo(float).tiny  # for what underflows
    return replace(estimate, slopes=slopes.only(wanted))


def _sums(
    system: genz.System, second: bool
) -> Callable[[np.ndarray, Points], tuple[np.ndarray, Sums]]:
    """Logs of the weights and all sums, of rows and points."""
    d = system.lower.shape[1]
    side = padded(d)
    transposed = np.ascontiguousarray(np.swapaxes(system.T, 1, 2))

    def sums(rows: np.ndarray, points: Points) -> tuple[np.ndarray, Sums]:
        items = rows.size * len(points.shifts) * points.start.size
        stats = np.empty((items, 3, 3, d))
        products = np.empty((items if second else 0, side, side))
        arguments = (*system.kernel_arguments, transposed, stats, products)
        cost = d * (2e-8 + d * 1e-10)
        logs = points.log_sums(partial(pathwise_sums, *arguments), rows, cost)
        return logs, Sums.of_parts(logs, stats, products if second else None)

    return sums


def _sums_on_device(
    system: genz.System, second: bool, device: Device
) -> Callable[[np.ndarray, Points], tuple[np.ndarray, Sums]]:
    from mvnorth._cuda.launch import Queue
    from mvnorth._cuda.pathwise import PathwiseSums

    queue = Queue.of(device.stream)
    there = PathwiseSums(queue, device.dtype, *system.kernel_arguments, products=second)

    def sums(rows: np.ndarray, points: Points) -> tuple[np.ndarray, Sums]:
        logs, stats, products = there(rows, points)
        return logs, Sums.of_parts(logs, stats, products)

    return sums


def _coinciding(system: genz.System, singular: float) -> np.ndarray:
    """Limits of rows of T, (B, 3, d), that bind the same variable in the same way: P has a kink.

    For lower, upper and both limits.
    """
    size, d = system.lower.shape
    found = np.zeros((size, 3, d), dtype=bool)
    for b in np.flatnonzero(system.rank < d):
        T, attached = system.T[b, :d], system.attached[b]
        near = _TIED * singular * (1.0 + np.max(np.abs(T), axis=1))
        for i in range(int(system.rank[b]), d):
            same = np.max(np.abs(T - T[i]), axis=1) <= near[i]
            same &= (attached == attached[i]) & (np.arange(d) < i)
            for side, limit in enumerate((system.lower[b], system.upper[b])):
                if np.isinf(limit[i]):
                    continue
                with np.errstate(invalid="ignore"):
                    meets = same & (np.abs(limit - limit[i]) <= near[i] * (1.0 + np.abs(limit[i])))
                found[b, side] |= meets
                found[b, side, i] |= meets.any()
    found[:, 2] = found[:, 0] | found[:, 1]
    return found


def _symmetric(
    base: genz.System, system: genz.System, sums: np.ndarray, products: np.ndarray
) -> np.ndarray:
    """Contributions to S, (B, R, d, d).

    With z the standard normal variables, of which the tilted ones y are a linear function,
    stretch T z + shift = T' y, the derivatives in T are those of the limits times -z.

    Parameters
    ----------
    base, system : before and after tilting
    sums : (B, R, 3, d) of derivatives in lower, upper and both limits
    products : (B, R, d, d) of derivatives in both limits of row i times -y_j, below the diagonal
    """
    d = base.lower.shape[1]
    T = base.T[:, :d, :d] + np.eye(d)
    of_z = -np.tril(products, -1)  # derivatives in both limits times z
    if system is not base:
        scaled = (system.T[:, :d, :d] + np.eye(d)) / system.stretch[:, :, None]
        linear = np.linalg.solve(T, scaled)
        origin = np.linalg.solve(T, (system.shift / system.stretch)[:, :, None])
        of_z = of_z @ np.swapaxes(linear, 1, 2)[:, None]
        of_z -= sums[:, :, 2, :, None] * np.swapaxes(origin, 1, 2)[:, None]
        of_z = np.tril(of_z, -1)
    limits = np.stack([base.lower, base.upper], axis=1)
    limits = np.where(np.isfinite(limits), limits, 0.0)[:, None]
    diagonal = np.sum(sums[..., :2, :] * limits, axis=-2) - np.einsum("bij,brij->bri", T, of_z)
    of_z[..., np.arange(d), np.arange(d)] = diagonal
    of_z *= -system.stretch[:, None, :, None]
    lower = np.tril(np.swapaxes(T, 1, 2)[:, None] @ of_z)
    return np.asarray(lower + np.swapaxes(np.tril(lower, -1), -1, -2))


def _add_covariance(
    slopes: Slopes,
    base: genz.System,
    system: genz.System,
    factor: np.ndarray,
    means: LatticeMeans,
    unseen: np.ndarray,
    faces: Faces,
    wanted: tuple[str, ...],
    eps: float,
) -> None:
    """Slopes in "cov" and "factor".

    unseen : (B, d) share that all points may have missed of the slopes in the limits of rows of T
    eps : rounding unit of the products
    """
    size, d = base.lower.shape
    back = np.argsort(base.order, axis=1)
    inverse = np.tril(np.linalg.inv(base.T[:, :d, :d] + np.eye(d)))  # pivots leave rounding above
    inverse /= base.unit[:, None, :]
    inverse = np.take_along_axis(inverse, back[:, None], axis=2)  # L^-1
    left = np.swapaxes(inverse, 1, 2)
    rights = {"cov": 0.5 * inverse, "factor": inverse @ factor}
    share, sums = means.share, means.sums
    terms = {
        name: np.empty((*share.shape, d, rights[name].shape[2]))
        for name in wanted
        if name in rights
    }
    whole = np.zeros((size, d, d))
    for h, products in enumerate(means.products()):
        symmetric = _symmetric(base, system, sums[:, h], products[..., :d, :d])
        whole += np.abs(symmetric).sum(axis=1)
        half = left[:, None] @ symmetric
        for name, term in terms.items():
            np.matmul(half, rights[name][:, None], out=term[:, h])
    # Integrals over the faces of the box: what of a face was missed is missed of its row, and
    # where nothing better is known, standard variables are about 1, and both faces of an edge
    # independent.
    unseen = np.take_along_axis(unseen, back, axis=1)
    g = np.abs(slopes.value["mean"])
    about = {"cov": 0.5 * g[:, :, None] * g[:, None, :], "factor": g[:, :, None]}
    share_of = {
        "cov": np.maximum(unseen[:, :, None], unseen[:, None]),
        "factor": unseen[:, :, None],
    }
    cov = factor @ np.swapaxes(factor, 1, 2)
    seen = np.abs(sums.sum(axis=(1, 2))[:, :2]) * system.stretch[:, None]
    cap, hidden = faces.edges(base, seen, cov)
    through = {"cov": np.eye(d), "factor": 2.0 * np.abs(factor)}
    for name, term in terms.items():
        value, spread = quotients(term, share)
        size_of = np.abs(value) + about[name]
        missed = np.minimum(of_size(share_of[name], size_of), np.abs(value) + cap @ through[name])
        rounding = eps * d * np.abs(left) @ whole @ np.abs(rights[name])
        error = spread + missed + hidden @ through[name] + rounding
        value[base.rank < d], error[base.rank < d] = 0.0, np.inf
        slopes.value[name], slopes.error[name] = value, error
