"""Derivatives in limits by Genz's recursion with one variable after the other pinned to a limit.

See ``mvnorth._cpu.pinned``.  Value and derivatives come from the same points, so that of their
quotient, the derivative of log P, the error that both have in common drops out.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._cpu.genz import PANEL
from mvnorth._cpu.pinned import pinned_sums
from mvnorth._estimate import Estimate
from mvnorth._methods import genz, structured
from mvnorth._methods.faces import (
    MISSED,
    Faces,
    exponents_rounding,
    limit_derivatives,
    relative_rounding,
    with_both,
)
from mvnorth._methods.lattice_means import LatticeMeans, Sums, of_size, quotients
from mvnorth._methods.lattice_rule import REPLICATES
from mvnorth._points import Points
from mvnorth._problem import Problems, Request, in_chunks

_CHUNK = 2**22  # entries of T, or of the sums, at a time: 32 MB
_PARTS = 4  # parts of the points at a time
_TINY = float(np.finfo(np.float64).tiny)


def preference(problems: Problems) -> float:
    """Return infinity: the method applies to all problems, on request only."""
    return np.inf


def solve(problems: Problems, request: Request) -> Estimate:
    """Return the estimates of ``genz``, bit for bit, with derivatives in "lower", "upper", "mean".

    The tolerance is that of the value.  Where coordinates determine each other to rounding the
    derivatives are unknown. Every coordinate has a variance.
    """
    estimate = _solve_in_chunks(problems.dense(), request)
    if problems.covariance.given_one_factor() is None:
        return estimate
    value = structured.integrate(problems, request, tilted=False)
    return replace(value, derivatives=estimate.derivatives)


def _solve_in_chunks(problems: Problems[Dense], request: Request) -> Estimate:
    chunk = max(
        1, _CHUNK // max(max(problems.d, PANEL) ** 2, 10 * _PARTS * REPLICATES * problems.d)
    )
    return in_chunks(problems, chunk, lambda some: _solve(some, request))


def _solve(problems: Problems[Dense], request: Request) -> Estimate:
    d = problems.d
    system = genz.System.of(problems)
    means = LatticeMeans()

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        def sums(some: Points) -> tuple[np.ndarray, Sums]:
            items = rows.size * len(some.shifts) * some.start.size
            pinned = np.empty((items, d, 2, 2))
            arguments = (*system.kernel_arguments, pinned)
            cost = d * d * (6e-9 + d * 3e-11)
            logs = some.log_sums(partial(pinned_sums, *arguments), rows, cost)
            stats, unit = _relative(pinned, logs[..., 0].reshape(-1))
            return logs, Sums.of_parts(logs, stats, log_unit=unit.reshape(logs.shape[:3]))

        return means.collect(sums, rows, points, _PARTS)

    estimate = genz.estimate(problems, system, weigh, request, None)
    density, spread = quotients(means.sums, means.share)
    unseen, _ = means.unseen(estimate.n, genz.corner(system))
    value = with_both(density * np.array([[-1.0], [1.0]]))
    elsewhere = means.elsewhere(estimate.n, MISSED)
    faces = Faces.of(system, value, density, unseen, elsewhere, estimate)
    missed = np.minimum(of_size(unseen, density), density + faces.most[:, :2])
    rounding = relative_rounding(system, None, problems.covariance.singular, estimate)
    rounding = (rounding + exponents_rounding(system))[:, None, None]
    error = spread + missed + faces.alone[:, :2] + of_size(rounding, density) + _TINY
    unknown = np.isinf(estimate.rel_error) | (system.rank < d)
    error[unknown] = np.inf
    derivatives = limit_derivatives(system, value, with_both(error))
    return replace(estimate, derivatives=derivatives.only(request.wrt))


def _relative(faces: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pinned weights as ``Sums`` takes them, (items, 3, 2, d), and the log of their unit.

    Pinned ones may have weight where the plain ones have none.
    """
    log_unit = np.maximum(log_weight, np.max(faces[..., 0], axis=(1, 2), initial=-np.inf))
    reference = np.where(log_unit > -np.inf, log_unit, 0.0)[:, None, None, None]
    total, largest = np.moveaxis(np.exp(faces - reference), (3, 2), (0, 2))  # (items, 2, d) each
    return np.stack([total, total, largest], axis=1), log_unit  # they are positive
