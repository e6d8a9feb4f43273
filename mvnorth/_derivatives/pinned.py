"""Derivatives in limits by Genz's recursion with one variable after the other pinned to a limit.

See ``mvnorth._cpu.pinned``.  Value and derivatives come from the same points, so that of their
quotient, the derivative of log P, the error that both have in common drops out.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._cpu.genz import PANEL
from mvnorth._cpu.pinned import pinned_sums
from mvnorth._derivatives.faces import (
    MISSED,
    Faces,
    exponents_rounding,
    limit_slopes,
    with_both,
)
from mvnorth._derivatives.lattice_means import LatticeMeans, Sums, of_size, quotients
from mvnorth._methods import genz
from mvnorth._methods.lattice_rule import REPLICATES, Points
from mvnorth._problem import Budget, Estimate, Problems, in_chunks

_CHUNK = 2**22  # entries of T, or of the sums, at a time: 32 MB
_PARTS = 4  # parts of the points at a time
_TINY = float(np.finfo(np.float64).tiny)


def solve(problems: Problems, budget: Budget, seed: int, wanted: tuple[str, ...]) -> Estimate:
    """Estimates of ``genz.solve``, bit for bit, and slopes in ``wanted``: "lower", "upper", "mean".

    The budget's tolerance is that of the value.  Where coordinates determine each other to
    rounding the slopes are unknown.

    Parameters
    ----------
    problems : every coordinate has a variance
    """
    chunk = max(
        1, _CHUNK // max(max(problems.d, PANEL) ** 2, 10 * _PARTS * REPLICATES * problems.d)
    )
    return in_chunks(problems, chunk, lambda some: _solve(some, budget, seed, wanted))


def _solve(problems: Problems, budget: Budget, seed: int, wanted: tuple[str, ...]) -> Estimate:
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

    estimate = genz.estimate(problems, system, weigh, budget, seed, None)
    density, spread = quotients(means.sums, means.share)
    unseen, _ = means.unseen(estimate.n, genz.corner(system))
    value = with_both(density * np.array([[-1.0], [1.0]]))
    elsewhere = means.elsewhere(estimate.n, MISSED)
    faces = Faces.of(system, value, density, unseen, elsewhere, estimate)
    missed = np.minimum(of_size(unseen, density), density + faces.most[:, :2])
    rounding = exponents_rounding(system)[:, None, None]
    error = spread + missed + faces.alone[:, :2] + of_size(rounding, density) + _TINY
    unknown = np.isinf(estimate.rel_error) | (system.rank < d)
    error[unknown] = np.inf
    return replace(estimate, slopes=limit_slopes(system, value, with_both(error)).only(wanted))


def _relative(faces: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pinned weights as ``Sums`` wants them, (items, 3, 2, d), and the log of their unit.

    Pinned ones may have weight where the plain ones have none.
    """
    log_unit = np.maximum(log_weight, np.max(faces[..., 0], axis=(1, 2), initial=-np.inf))
    reference = np.where(log_unit > -np.inf, log_unit, 0.0)[:, None, None, None]
    total, largest = np.moveaxis(np.exp(faces - reference), (3, 2), (0, 2))  # (items, 2, d) each
    return np.stack([total, total, largest], axis=1), log_unit  # they are positive
