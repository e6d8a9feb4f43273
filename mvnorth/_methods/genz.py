"""Genz integration: reorder, tilt if asked to, average the weights over shifted lattices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mvnorth._cpu.genz import PANEL, genz_sums
from mvnorth._linalg.reorder_large import reorder_all
from mvnorth._methods import tilting
from mvnorth._methods.lattice_rule import (
    Points,
    Tilt,
    corner_share,
    disclaim_beyond_reach,
    integrate,
)
from mvnorth._problem import Budget, Estimate, Problems, in_chunks

_STORED = 2.0**-22  # a few roundings of T and of a variable
_CHUNK = 2**22  # entries of T at a time: 32 MB


@dataclass(frozen=True)
class System:
    """Problems in the order of integration, each row scaled to a unit diagonal.

    Attributes
    ----------
    T, lower, upper, rank, attached, slope, curve : see ``genz_sums``; slope and curve are zero
        unless ``tilted``
    order : (B, d) which coordinate of the problem comes where
    unit : (B, d) what (T y)_i is to be multiplied by to give that coordinate; if negative, limits
        have changed places
    stretch, shift : (B, d) what ``tilted`` did to limits: times stretch, plus shift
    """

    T: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rank: np.ndarray
    attached: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    order: np.ndarray
    unit: np.ndarray
    stretch: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, problems: Problems) -> "System":
        size, d = problems.lower.shape
        side = -(-d // PANEL) * PANEL
        lower, upper = problems.lower.copy(), problems.upper.copy()
        T, rank = np.empty((size, side, side)), np.empty(size, dtype=np.int64)
        attached, order = np.empty((2, size, d), dtype=np.int64)
        diagonal = np.empty((size, d))
        ordered = (T, lower, upper, rank, attached)
        reorder_all(problems.factor, problems.singular, *ordered, order, diagonal)
        length = np.sqrt(np.einsum("bij,bij->bi", problems.factor, problems.factor))
        mirrored = np.where(problems.upper == np.inf, -length, length)
        unit = diagonal * np.take_along_axis(mirrored, order, axis=1)
        slope, curve, shift = np.zeros((3, size, d))
        return cls(*ordered, slope, curve, order, unit, np.ones((size, d)), shift)

    def tilted(self, singular: float, rounds: int = tilting.ROUNDS) -> tuple["System", Tilt]:
        """The same problems in tilted variables; ``singular`` is that of the problems."""
        T, lower, upper = self.T.copy(), self.lower.copy(), self.upper.copy()
        slope, curve, stretch, shift = np.empty((4, *lower.shape))
        system = (T, lower, upper, self.rank, self.attached, slope, curve, stretch, shift)
        tilt = tilting.tilt(*system, singular, rounds)
        limits = {"T": T, "lower": lower, "upper": upper, "slope": slope, "curve": curve}
        return replace(self, **limits, stretch=stretch, shift=shift), tilt

    @property
    def kernel_arguments(self) -> tuple[np.ndarray, ...]:
        limits = (self.T, self.lower, self.upper, self.rank, self.attached)
        return (*limits, self.slope, self.curve)


def solve(problems: Problems, budget: Budget, seed: int, tilted: bool = False) -> Estimate:
    """Probabilities of ``problems`` by Genz's method, or that of tilted variables."""
    chunk = max(1, _CHUNK // max(problems.d, PANEL) ** 2)
    return in_chunks(problems, chunk, lambda some: _solve(some, budget, seed, tilted))


def _solve(problems: Problems, budget: Budget, seed: int, tilted: bool) -> Estimate:
    system, tilt = System.of(problems), None
    if tilted:
        system, tilt = system.tilted(problems.singular)
    kernel, d = partial(genz_sums, *system.kernel_arguments), problems.d

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return points.log_sums(kernel, rows, d * (6e-9 + d * 3e-11))

    if budget.device is not None:
        from mvnorth._cuda.genz import GenzSums
        from mvnorth._cuda.launch import Queue

        queue = Queue.of(budget.device.stream)
        weigh = GenzSums(queue, budget.device.dtype, *system.kernel_arguments)
    return estimate(problems, system, weigh, budget, seed, tilt)


def corner(system: System) -> np.ndarray:
    """Share of a point that may hide a corner of the integrand, (B,)."""
    norm = np.sqrt(np.max(np.einsum("bij,bij->bi", system.T, system.T), axis=1))
    return corner_share(np.where(system.rank > 1, norm, 0.0))


def estimate(
    problems: Problems,
    system: System,
    weigh: Callable[[np.ndarray, Points], np.ndarray],
    budget: Budget,
    seed: int,
    tilt: Tilt | None,
) -> Estimate:
    """Probabilities of ``problems`` from ``weigh``, see ``lattice_rule.integrate``."""
    d = problems.d
    level = max(7, int(np.ceil(np.log2(2 * d))))  # fewer than 2d points would repeat coordinates
    log_scale = None if tilt is None else tilt.log_scale
    result = integrate(weigh, corner(system), d, level, budget, seed, log_scale)
    if tilt is not None:
        result = tilt.scaled(result)
    deviation = np.sqrt(np.sum(problems.factor**2, axis=2))
    disclaim_beyond_reach(result, problems.lower, problems.upper, deviation)
    result.rel_error[:] += storage_rounding(result, d, budget)
    return result


def storage_rounding(estimate: Estimate, d: int, budget: Budget) -> np.ndarray | float:
    """Relative error of weights whose variables were stored in single precision, (B,), or none."""
    if budget.device is None or budget.device.dtype == np.float64:
        return 0.0
    return _STORED * (d + 2.0 * np.abs(estimate.log_prob))
