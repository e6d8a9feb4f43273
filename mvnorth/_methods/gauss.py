"""Gauss rules in the tilted variables of Genz's recursion: few coordinates, without sampling."""

from __future__ import annotations

from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request, in_chunks
from mvnorth._threads import run_items

if TYPE_CHECKING:
    from mvnorth._methods.genz import System
    from mvnorth._methods.lattice_rule import Tilt

MAX_COORDINATES = 50
_FIRST = 4  # coordinates for which there are no closed forms
_PRODUCTS = 10  # coordinates up to which there are products of rules
_SMALL = 8  # those up to which variables may have two limits, and derivatives are exact
_CHUNK = 2**14  # rows at a time
# Points that cost as much as a lattice with a relative error of 1: over the number of coordinates
# for products of rules, and for sparse grids alone; and points that may be spent in any case.
_WORTH, _WORTH_SPARSE, _LEAST = 4.0, 2.0, 1000
_ROUNDS = 1  # of second-order tilting: more of them do not save nodes
_ROUNDING = 3.0  # times what is estimated of rounding errors


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": before sampling."""
    if not 1 <= problems.d <= MAX_COORDINATES:
        return None
    suited = problems.d >= _FIRST and not (problems.d > _SMALL and problems.two_sided.all())
    return 5.0 if suited else np.inf


def solve(problems: Problems, request: Request, complete: bool = True) -> Estimate:
    """Return estimates; rel_error is infinite where the covariance is singular or nearly so.

    Derivatives that the nodes do not give accurately come from other methods if ``complete``.
    """
    solve_some = partial(_solve, request, complete)
    if problems.d > _SMALL and problems.two_sided.any():
        # Sparse grids are for one limit a variable; a row must not depend on others.
        rows = np.flatnonzero(~problems.two_sided)
        estimate = Estimate.unknown(problems, request.wrt)
        estimate.replace(rows, in_chunks(problems.take(rows), _CHUNK, solve_some))
        return estimate
    return in_chunks(problems, _CHUNK, solve_some)


def _solve(request: Request, complete: bool, problems: Problems) -> Estimate:
    dense = problems.dense()
    if not request.wrt or request.device is not None:
        estimate, known = _integrate(dense, request), None
    else:
        estimate, known = _integrate_moments(problems, dense, request)
    if known is not None and not complete:
        estimate.derivatives = known
    elif request.wrt:
        estimate.derivatives = _complete(known, problems, estimate, request)
    return estimate


def _complete(
    known: Derivatives | None, problems: Problems, estimate: Estimate, request: Request
) -> Derivatives:
    """Return the derivatives wanted of all rows whose probability is known, as far as possible.

    Those from moments, ``known``, if they are not far less accurate than the probability: they are
    small differences of large numbers where P is close to 1, and in narrow intervals.  None of the
    names wanted may change those of others.
    """
    from mvnorth._methods import conditional, tilting

    rows = np.flatnonzero(np.isfinite(estimate.rel_error))  # any of them may be the best known
    if known is None:
        derivatives = Derivatives.unknown(problems, request.wrt)
    else:
        rows = rows[tilting.find_poor(estimate, known, request)[rows]]
        if not {"lower", "upper", "mean", "cov"}.issuperset(request.wrt):
            problems.covariance.add_parameters(known, request.wrt)
        derivatives = known.only(request.wrt)
    if not rows.size:
        return derivatives
    some, probabilities = problems.take(rows), estimate.take(rows)
    if problems.d > _SMALL:
        better = tilting.differentiate(some, request).derivatives
    else:
        assert request.subsolve is not None
        subsolve = request.subsolve
        probabilities.rel_error[:] += some.rounding
        better = conditional.differentiate(
            some, request.wrt, probabilities, lambda given: subsolve(given, "auto")
        )
    assert better is not None
    derivatives.replace(rows, better)
    return derivatives


def _integrate(problems: Problems[Dense], request: Request) -> Estimate:
    """Return probabilities."""
    if request.device is None and problems.d <= _SMALL:
        return _integrate_small(problems, request)
    system, tilt = _tilted(problems)
    given = (
        system.upper,
        system.slope,
        system.curve,
        tilt.log_scale,
        *_accuracy(problems, request),
    )
    if request.device is not None:
        from mvnorth._cuda.gauss import integrate
        from mvnorth._cuda.launch import Queue

        queue = Queue.of(request.device.stream)
        results = integrate(queue, system.T, system.lower, *given)
    else:
        lower = None if system.one_sided else system.lower
        unused = (None, system.stretch, system.shift, system.diagonal), (None, None, None)
        results = _on_cpu(system.T, lower, *given, *unused)
    return _estimate(problems, system, tilt, *results)


def _integrate_small(problems: Problems[Dense], request: Request) -> Estimate:
    """Return probabilities by one compiled function."""
    from mvnorth._cpu.gauss_problems import integrate_problems

    size, d, covariance = problems.size, problems.d, problems.covariance
    two_sided = problems.sides not in (0, 1) and bool(problems.two_sided.any())
    log_prob, rel_error, spent, log_bound = results = np.empty((4, size))
    kernel = partial(
        integrate_problems,
        covariance.factor,
        covariance.singular,
        problems.lower,
        problems.upper,
        True if two_sided else None,
        _ROUNDS,
        *_accuracy(problems, request),
        _ROUNDING,
        *results,
    )
    run_items(kernel, size, size * (1e-5 + 1e-8 * 4.0 ** (d - 1)))
    return Estimate(log_prob, rel_error, spent.astype(np.int64), log_bound)


def _integrate_moments(
    problems: Problems, dense: Problems[Dense], request: Request
) -> tuple[Estimate, Derivatives]:
    """Return probabilities and derivatives."""
    from mvnorth._methods.faces import relative_rounding
    from mvnorth._methods.genz import System

    size, d = dense.lower.shape
    system = System.of(dense)
    base = system.T.copy()
    tilt = system.tilt(dense.covariance.singular, _ROUNDS)
    first, second, errors = np.zeros((size, d)), np.zeros((size, d, d)), np.full((size, 2), np.inf)
    given = (system.upper, system.slope, system.curve, tilt.log_scale, *_accuracy(dense, request))
    lower = None if system.one_sided else system.lower
    wanted = (base, system.stretch, system.shift, system.diagonal), (first, second, errors)
    results = _on_cpu(system.T, lower, *given, *wanted)
    estimate = _estimate(dense, system, tilt, *results)
    errors[~(estimate.rel_error < np.inf)] = np.inf
    derivatives = _of_moments(problems, system, first, second, errors)
    rounding = relative_rounding(system, tilt, dense.covariance.singular, estimate)
    derivatives.add_relative_error(_ROUNDING * rounding)
    return estimate, derivatives


def _of_moments(
    problems: Problems,
    system: System,
    first: np.ndarray,
    second: np.ndarray,
    errors: np.ndarray,
) -> Derivatives:
    """Return the derivatives in limits, mean and covariance.

    first, second and errors are for coordinates in units of their deviations, see ``gauss_rows``.
    Of two limits a and b of a coordinate, less its mean, d/da + d/db = -d/dmean, and P does not
    change with the coordinate's unit: a d/da + b d/db = -2 sum_j Sigma_ij d/dSigma_ij.
    """
    back, unit = np.argsort(system.order, axis=1), system.diagonal / system.unit

    def in_order(a: np.ndarray) -> np.ndarray:
        a = np.take_along_axis(a, back[:, :, None] if a.ndim == 3 else back, axis=1)
        return np.take_along_axis(a, back[:, None], axis=2) if a.ndim == 3 else a

    scale = np.abs(unit)
    known = np.where(np.isfinite(errors), errors, 0.0)
    mean, mean_error = (
        in_order(first * unit),
        in_order((known[:, 0] * np.abs(first).max(axis=1))[:, None] * scale),
    )
    cov = in_order(0.5 * second * unit[:, :, None] * unit[:, None])
    size = 0.5 * known[:, 1] * np.abs(second).max(axis=(1, 2))
    cov_error = in_order(size[:, None, None] * scale[:, :, None] * scale[:, None])
    value, error = {"mean": mean, "cov": cov}, {"mean": mean_error, "cov": cov_error}
    for name, limit in (("lower", problems.lower), ("upper", problems.upper)):
        finite = np.isfinite(limit)
        value[name], error[name] = np.where(finite, -mean, 0.0), np.where(finite, mean_error, 0.0)
    if problems.two_sided.any():
        low, high = problems.lower, problems.upper.astype(np.float64)
        both = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(both, low, 0.0), np.where(both, high, 1.0)
        matrix = problems.covariance.matrix()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            change = -2.0 * np.sum(matrix * cov, axis=2)
            lost = 2.0 * np.sum(np.abs(matrix) * cov_error, axis=2)
            for name, sign, other in (("lower", -1.0, high), ("upper", 1.0, low)):
                limit = sign * (change + other * mean) / (high - low)
                limit_error = (lost + np.abs(other) * mean_error) / (high - low)
                value[name] = np.where(both, limit, value[name])
                error[name] = np.where(both, limit_error, error[name])
    for of in error.values():
        of[~np.isfinite(errors).all(axis=1)] = np.inf
    return Derivatives(value, error)


def _tilted(problems: Problems[Dense]) -> tuple[System, Tilt]:
    from mvnorth._methods.genz import System

    system = System.of(problems)
    return system, system.tilt(problems.covariance.singular, _ROUNDS)


def _accuracy(problems: Problems, request: Request) -> tuple[Any, ...]:
    """Return the tables of rules, the tolerance and the largest number of points."""
    d = problems.d
    relative, absolute, most = request.tolerance.relative, request.tolerance.absolute, request.most
    if request.n is not None:
        relative, absolute, most = 0.0, 0.0, request.n
    elif max(relative, absolute) > 0.0:
        worth = _WORTH * d if d <= _PRODUCTS else _WORTH_SPARSE
        most = int(min(most, max(_LEAST, worth / max(relative, absolute))))
    return (*_tables(), relative, absolute, float(most))


def _estimate(
    problems: Problems[Dense],
    system: System,
    tilt: Tilt,
    log_prob: np.ndarray,
    rel_error: np.ndarray,
    spent: np.ndarray,
) -> Estimate:
    from mvnorth._cpu.lattice_sums import add_rounding

    d, covariance = problems.d, problems.covariance
    estimate = Estimate(log_prob, rel_error, spent.astype(np.int64), tilt.log_bound)
    lost = system.rank < d
    estimate.log_prob[lost], estimate.rel_error[lost], estimate.n[lost] = -np.inf, np.inf, 0
    # Nothing else covers it here, so it must not be too small.
    rounding = (_ROUNDING * tilt.rounding, _ROUNDING * tilt.of_problem, d * covariance.singular)
    limits = (problems.lower, problems.upper, covariance.factor)
    add_rounding(estimate.log_prob, estimate.rel_error, *rounding, *limits)
    return estimate


def _on_cpu(
    T: np.ndarray,
    lower: np.ndarray | None,
    upper: np.ndarray,
    *given: Any,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logarithms, relative errors and points spent; arguments as of the kernels.

    The last two arguments are what derivatives need, and the arrays to write them to.
    """
    from mvnorth._cpu.gauss_rows import gauss_rows, sparse_rows
    from mvnorth._scalar.gauss import TENSOR, TENSOR_ONLY

    *weights, system, outputs = given
    size, d = upper.shape
    results = np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
    arguments = (T, lower, upper, *weights, *system, *results, *outputs)
    if d > TENSOR_ONLY:
        run_items(partial(sparse_rows, *arguments), size, size * d * d * 1e-6)
    if d <= TENSOR:
        run_items(partial(gauss_rows, *arguments), size, size * 1e-8 * 4.0 ** (d - 1))
    return results


@cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what ``gauss_rows`` needs.

    The coefficients of all rules, those of a rule in one piece; where each starts; and Gauss and
    Legendre's nodes and weights, (nodes, 2, nodes).
    """
    from mvnorth._scalar.gauss import (
        CHUNK,
        LARGE,
        MOST,
        MOST_BETWEEN,
        RULES,
    )

    with (files("mvnorth._tables") / "gauss.npy").open("rb") as file:
        table = np.load(file)
    parts, starts = [], np.zeros(RULES + 2, dtype=np.int64)
    for n in range(1, RULES + 1):
        numbers = table[:, :, n * (n - 1) : n * (n + 1)]
        padded = np.zeros((*numbers.shape[:2], -(-2 * n // CHUNK) * CHUNK))
        padded[:, :, : 2 * n] = numbers
        parts.append(padded.reshape(-1))
        starts[n + 1] = starts[n] + padded.size
    legendre = np.zeros((MOST + 1, 2, MOST))
    for n in (*range(1, MOST_BETWEEN + 1), *range(MOST_BETWEEN + LARGE, MOST + 1, LARGE)):
        legendre[n, :, :n] = np.polynomial.legendre.leggauss(n)
    return np.concatenate(parts), starts, legendre
