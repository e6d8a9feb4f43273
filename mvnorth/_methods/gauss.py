"""Gauss rules in the tilted variables of Genz's recursion: few coordinates, without sampling."""

from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import Any

import numpy as np

from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request, in_chunks
from mvnorth._threads import run_items

MAX_COORDINATES = 50
_FIRST = 4  # coordinates for which there are no closed forms
_TENSOR = 8  # coordinates up to which variables may have two limits, and derivatives are exact
_CHUNK = 2**14  # rows at a time
# Points that cost as much as a lattice with a relative error of 1: over the number of coordinates
# for products of rules, and for sparse grids; and points that may be spent in any case.
_WORTH, _WORTH_SPARSE, _LEAST = 2.0, 0.4, 1000
_ROUNDING = 3.0  # times what is estimated of rounding errors


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": before sampling."""
    if not 1 <= problems.d <= MAX_COORDINATES:
        return None
    suited = problems.d >= _FIRST and not (problems.d > _TENSOR and problems.two_sided.all())
    return 5.0 if suited else np.inf


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where the covariance is singular or nearly so."""
    rows = None
    if problems.d > _TENSOR and problems.two_sided.any():
        # Sparse grids are for one limit a variable; a row must not depend on others.
        rows = np.flatnonzero(~problems.two_sided)
    dense = (problems if rows is None else problems.take(rows)).dense()
    estimate = in_chunks(dense, _CHUNK, lambda some: _integrate(some, request))
    if rows is not None:
        part, estimate = estimate, Estimate.unknown(problems)
        estimate.replace(rows, part)
    if request.wrt:
        estimate = replace(estimate, derivatives=_differentiate(problems, estimate, request))
    return estimate


def _differentiate(problems: Problems, estimate: Estimate, request: Request) -> Derivatives:
    """Return the derivatives of rows whose probability is known, and unknown ones of others."""
    from mvnorth._methods import conditional, pathwise

    derivatives = Derivatives.unknown(problems, request.wrt)
    rows = np.flatnonzero(np.isfinite(estimate.rel_error))  # any of them may be the best known
    if not rows.size:
        return derivatives
    some, known = problems.take(rows), estimate.take(rows)
    if problems.d > _TENSOR:
        found = pathwise.differentiate(some, request, tilted=True).derivatives
    else:
        assert request.subsolve is not None
        subsolve = request.subsolve
        known.rel_error[:] += some.rounding
        found = conditional.differentiate(
            some, request.wrt, known, lambda given: subsolve(given, "auto")
        )
    assert found is not None
    derivatives.replace(rows, found)
    return derivatives


def _integrate(problems: Problems, request: Request) -> Estimate:
    from mvnorth._cpu.lattice_sums import add_rounding
    from mvnorth._methods.genz import System

    d, covariance = problems.d, problems.covariance
    system = System.of(problems)
    tilt = system.tilt(covariance.singular)
    relative, absolute, most = request.tolerance.relative, request.tolerance.absolute, request.most
    if request.n is not None:
        relative, absolute, most = 0.0, 0.0, request.n
    elif max(relative, absolute) > 0.0:
        worth = _WORTH * d if d <= _TENSOR else _WORTH_SPARSE
        most = int(min(most, max(_LEAST, worth / max(relative, absolute))))
    weights = (system.upper, system.slope, system.curve, tilt.log_scale)
    given = (*weights, *_tables(), relative, absolute, float(most))
    if request.device is not None:
        from mvnorth._cuda.gauss import integrate
        from mvnorth._cuda.launch import Queue

        queue = Queue.of(request.device.stream)
        log_prob, rel_error, spent = integrate(queue, system.T, system.lower, *given)
    else:
        lower = None if system.one_sided else system.lower
        log_prob, rel_error, spent = _on_cpu(system.T, lower, *given)
    estimate = Estimate(log_prob, rel_error, spent.astype(np.int64), tilt.log_bound)
    estimate.rel_error[system.rank < d] = np.inf
    # Nothing else covers it here, so it must not be too small.
    rounding = (_ROUNDING * tilt.rounding, _ROUNDING * tilt.of_problem, d * covariance.singular)
    limits = (problems.lower, problems.upper, covariance.factor)
    add_rounding(estimate.log_prob, estimate.rel_error, *rounding, *limits)
    return estimate


def _on_cpu(
    T: np.ndarray, lower: np.ndarray | None, upper: np.ndarray, *given: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logarithms, relative errors and points spent; arguments as of the kernels."""
    from mvnorth._cpu.gauss_rows import gauss_rows, sparse_rows
    from mvnorth._scalar.gauss import TENSOR, TENSOR_ONLY

    size, d = upper.shape
    results = np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
    arguments = (T, lower, upper, *given, *results)
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
    from mvnorth._scalar.gauss import CHUNK, MOST, RULES

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
    for n in range(1, MOST + 1):
        legendre[n, :, :n] = np.polynomial.legendre.leggauss(n)
    return np.concatenate(parts), starts, legendre
