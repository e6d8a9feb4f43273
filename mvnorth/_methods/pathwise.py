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

from mvnorth._covariance.dense import Dense
from mvnorth._cpu.pathwise import pathwise_sums
from mvnorth._device import Device
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._linalg.product import padded
from mvnorth._methods import genz, structured_pathwise
from mvnorth._methods.faces import (
    MISSED,
    Faces,
    exponents_rounding,
    limit_derivatives,
    relative_rounding,
)
from mvnorth._methods.lattice_means import LatticeMeans, Sums, of_size, quotients
from mvnorth._methods.lattice_rule import REPLICATES, storage_rounding
from mvnorth._points import Points
from mvnorth._problem import Problems, Request, in_chunks

_CHUNK = 2**22  # entries of the products at a time: 32 MB
_PARTS, _LARGE = 4, 256  # parts of the points at a time, and the d from which on it is one
_TIED = 10.0  # times ``singular``: how far limits must be apart that bind the same variable
_EPS = float(np.finfo(np.float64).eps)


def preference(problems: Problems) -> float:
    """Return infinity: the method applies to all problems, on request only."""
    return np.inf


def solve(problems: Problems, request: Request) -> Estimate:
    """Return the estimates of Genz's method with their exact derivatives."""
    return differentiate(problems, request, tilted=False)


def differentiate(problems: Problems, request: Request, tilted: bool) -> Estimate:
    """Return the estimates of ``genz.integrate`` with derivatives."""
    if problems.covariance.given_one_factor() is not None:
        return structured_pathwise.differentiate(problems, request, tilted, with_factor)
    if genz.too_large(problems):
        return Estimate.unknown(problems, request.wrt)
    dense, covariance = problems.dense(), problems.covariance
    if covariance is dense.covariance or covariance.parameters == ():
        return with_factor(dense, request, tilted)
    # In own parameters by the chain rule.
    names = tuple(dict.fromkeys("cov" if n in covariance.parameters else n for n in request.wrt))
    estimate = with_factor(dense, replace(request, wrt=names), tilted)
    assert estimate.derivatives is not None
    if "cov" in names:
        covariance.add_parameters(estimate.derivatives, request.wrt)
    return replace(estimate, derivatives=estimate.derivatives.only(request.wrt))


def with_factor(problems: Problems[Dense], request: Request, tilted: bool) -> Estimate:
    """Differentiate problems with a factor as a matrix."""
    chunk = max(1, _CHUNK // (_PARTS * REPLICATES * padded(problems.d) ** 2))
    return in_chunks(problems, chunk, lambda some: _differentiate(some, request, tilted))


def _differentiate(problems: Problems[Dense], request: Request, tilted: bool) -> Estimate:
    d, covariance = problems.d, problems.covariance
    base, tilt = genz.System.of(problems), None
    system = base
    if tilted:
        system, tilt = base.tilted(covariance.singular)
    second = request.in_covariance
    means = LatticeMeans()
    if request.device is None:
        sums, parts = _sums(system, second), _PARTS if d < _LARGE else 1
    else:
        sums, parts = _sums_on_device(system, second, request.device), request.most

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return means.collect(partial(sums, rows), rows, points, parts)

    estimate = genz.estimate(problems, system, weigh, request, tilt)
    unseen, size = means.unseen(estimate.n, genz.corner(system))
    value, spread = quotients(means.sums, means.share)
    stretch = system.stretch[:, None]
    elsewhere = means.elsewhere(estimate.n, MISSED)
    faces = Faces.of(base, value * stretch, size * stretch, unseen, elsewhere, estimate)
    missed = np.minimum(of_size(unseen, size), size + faces.most / stretch)
    missed += faces.hidden / stretch
    rounding = relative_rounding(base, tilt, covariance.singular, estimate)
    rounding += exponents_rounding(system) + storage_rounding(estimate, d, request)
    bound = spread + missed + of_size(rounding[:, None, None], size)
    bound[_coinciding(base, covariance.singular)] = np.inf
    derivatives = limit_derivatives(system, value, bound)
    if second:
        eps = _EPS if request.device is None else float(np.finfo(request.device.dtype).eps)
        given = (base, system, covariance.factor, means)
        _add_covariance(derivatives, *given, unseen[:, 2], faces, request.wrt, eps)
    derivatives.add_relative_error(rounding)
    for error in derivatives.error.values():
        error[np.isinf(estimate.rel_error)] = np.inf
        error += np.finfo(float).tiny  # for what underflows
    return replace(estimate, derivatives=derivatives.only(request.wrt))


def _sums(
    system: genz.System, second: bool
) -> Callable[[np.ndarray, Points], tuple[np.ndarray, Sums]]:
    """Return logs of the weights and all sums, of rows and points."""
    d = system.lower.shape[1]
    side = padded(d)
    transposed = np.ascontiguousarray(np.swapaxes(system.T, 1, 2))

    def sums(rows: np.ndarray, points: Points) -> tuple[np.ndarray, Sums]:
        items = rows.size * len(points.shifts) * points.start.size
        stats = np.empty((items, 3, 3, d))
        products = np.empty((items if second else 0, side, side))
        arguments = (*system.cpu_arguments, transposed, stats, products)
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
    """Return limits (B, 3, d) of rows of T that bind one variable in the same way: P has a kink.

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
    """Return contributions to S, (B, R, d, d).

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
    derivatives: Derivatives,
    base: genz.System,
    system: genz.System,
    factor: np.ndarray,
    means: LatticeMeans,
    unseen: np.ndarray,
    faces: Faces,
    wrt: tuple[str, ...],
    eps: float,
) -> None:
    """Add derivatives in "cov" and "factor".

    unseen : (B, d) share that all points may have missed of the derivatives in the limits of T
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
        name: np.empty((*share.shape, d, rights[name].shape[2])) for name in wrt if name in rights
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
    g = np.abs(derivatives.value["mean"])
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
        derivatives.value[name], derivatives.error[name] = value, error
