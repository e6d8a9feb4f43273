"""Gauss rules in the tilted variables of Genz's recursion: few coordinates, without sampling."""

from dataclasses import replace
from functools import cache, partial
from importlib.resources import files

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._problem import Problems, Request, in_chunks
from mvnorth._threads import run_items

MAX_COORDINATES = 50
_FIRST = 4  # coordinates for which there are no closed forms
_TENSOR = 8  # coordinates up to which variables may have two limits
_CHUNK = 2**14  # rows at a time
# Points, over the number of coordinates, that cost as much as a lattice of a relative error of 1.
_WORTH = 2.0


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": before sampling."""
    if not 2 <= problems.d <= MAX_COORDINATES:
        return None
    if problems.d < _FIRST or (problems.d > _TENSOR and problems.two_sided.all()):
        return np.inf
    return 5.0


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where the covariance is singular."""
    dense = problems.dense()
    estimate = in_chunks(dense, _CHUNK, lambda some: _integrate(some, request))
    if not request.wrt:
        return estimate
    from mvnorth._methods import conditional

    assert request.subsolve is not None
    subsolve = request.subsolve
    known = replace(estimate, rel_error=estimate.rel_error + problems.rounding)
    derivatives = conditional.differentiate(
        problems, request.wrt, known, lambda given: subsolve(given, "auto")
    )
    return replace(estimate, derivatives=derivatives)


def _integrate(problems: Problems, request: Request) -> Estimate:
    from mvnorth._cpu.gauss import gauss_rows
    from mvnorth._methods.genz import System
    from mvnorth._methods.lattice_rule import add_rounding, disclaim_beyond_reach

    size, d = problems.upper.shape
    covariance = problems.covariance
    system, tilt = System.of(problems).tilted(covariance.singular)
    relative, absolute, most = request.tolerance.relative, request.tolerance.absolute, request.most
    if request.n is not None:
        relative, absolute, most = 0.0, 0.0, request.n
    elif relative > 0.0 and absolute == 0.0:
        most = min(most, int(_WORTH * d / relative))
    estimate = Estimate(*np.empty((2, size)), np.empty(size, dtype=np.int64), tilt.log_bound)
    lower = None if system.one_sided else system.lower
    limits = (system.T, lower, system.upper, system.slope, system.curve, tilt.log_scale)
    results = (estimate.log_prob, estimate.rel_error, estimate.n)
    kernel = partial(gauss_rows, *limits, *_tables(), relative, absolute, float(most), *results)
    run_items(kernel, size, size * 1e-8 * 4.0 ** (d - 1))
    estimate.rel_error[system.rank < d] = np.inf
    add_rounding(estimate, tilt.rounding, tilt.of_problem, most=d * covariance.singular)
    disclaim_beyond_reach(estimate, problems.lower, problems.upper, covariance.deviations())
    return estimate


@cache
def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what ``gauss_rows`` needs.

    The coefficients of all rules, those of a rule in one piece; where each starts; and Gauss and
    Legendre's nodes and weights, (nodes, 2, nodes).
    """
    from mvnorth._cpu.gauss import CHUNK, MOST, RULES

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
