"""Genz integration: reorder, tilt if asked to, average the weights over shifted lattices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._cpu.genz import PANEL, genz_sums
from mvnorth._cpu.lattice_sums import add_rounding, corner_shares
from mvnorth._cpu.rounding import path_rounding
from mvnorth._estimate import Estimate
from mvnorth._linalg.reorder_large import reorder_all
from mvnorth._methods import structured, tilt
from mvnorth._methods.lattice_rule import Tilt, mean_weights, storage_rounding
from mvnorth._methods.tilt import ROUNDS
from mvnorth._points import Points
from mvnorth._problem import Problems, Request, in_chunks
from mvnorth._threads import run_items

_LARGEST = 20_000  # coordinates of a matrix that is made here: 3 GB
_CHUNK = 2**22  # entries of T at a time: 32 MB


@dataclass(eq=False)  # a frozen one takes three times as long to make
class System:
    """Problems in the order of integration, each row scaled to a unit diagonal.

    Attributes
    ----------
    T, lower, upper, rank, attached, slope, curve : see ``genz_sums``; slope and curve are zero
        before ``tilt``
    order : (B, d) which coordinate of the problem comes where
    diagonal : (B, d) diagonal of the factor in that order, relative to the deviations
    problems : as they were before
    stretch, shift : (B, d) what ``tilt`` did to limits: times stretch, plus shift
    """

    T: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rank: np.ndarray
    attached: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    order: np.ndarray
    diagonal: np.ndarray
    problems: Problems[Dense]
    stretch: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, problems: Problems[Dense]) -> "System":
        size, d = problems.lower.shape
        side = -(-d // PANEL) * PANEL
        lower, upper = problems.lower.copy(), problems.upper.copy()
        T, rank = np.empty((size, side, side)), np.empty(size, dtype=np.int64)
        attached, order = np.empty((2, size, d), dtype=np.int64)
        diagonal = np.empty((size, d))
        ordered = (T, lower, upper, rank, attached)
        factor, singular = problems.covariance.factor, problems.covariance.singular
        two_sided = problems.sides not in (0, 1) and bool(problems.two_sided.any())
        reorder_all(factor, singular, *ordered, order, diagonal, two_sided)
        slope, curve, shift, stretch = np.zeros((4, size, d))
        stretch.fill(1.0)
        return cls(*ordered, slope, curve, order, diagonal, problems, stretch, shift)

    @cached_property
    def unit(self) -> np.ndarray:
        """Factors (B, d) that turn (T y)_i into coordinates; negative where limits were swapped."""
        length = self.problems.covariance.deviations()
        mirrored = np.where(self.problems.upper == np.inf, -length, length)
        return self.diagonal * np.take_along_axis(mirrored, self.order, axis=1)

    def tilt(self, singular: float, rounds: int = ROUNDS) -> Tilt:
        """Bring the problems into tilted variables; ``singular`` is that of the problems."""
        limits = (None if self.one_sided else self.lower, self.upper)
        outputs = (self.slope, self.curve, self.stretch, self.shift)
        return tilt.tilt(
            self.T, *limits, self.rank, self.attached, *outputs, singular, rounds
        )  # fmt: skip

    def tilted(self, singular: float, rounds: int = ROUNDS) -> tuple["System", Tilt]:
        """Return the problems in tilted variables, and leave these as they are."""
        names = ("T", "lower", "upper", "slope", "curve", "stretch", "shift")
        other = replace(self, **{name: getattr(self, name).copy() for name in names})
        return other, other.tilt(singular, rounds)

    def rounding(self, singular: float) -> tuple[np.ndarray, np.ndarray]:
        """Return rounding errors of log P, (B,): of limits and sums, and of the covariance."""
        size, d = self.lower.shape
        of_sampling, of_problem = np.empty((2, size))
        limits = (self.T, self.lower, self.upper, self.rank, self.attached)
        kernel = partial(path_rounding, *limits, singular, of_sampling, of_problem)
        run_items(kernel, size, size * d * (d * d * 2e-10 + 1e-7))
        return of_sampling, of_problem

    @cached_property
    def one_sided(self) -> bool:
        """True if no variable has two limits, of its own or of a row that is tied to it."""
        full_rank = (self.rank == self.lower.shape[1]).all()
        return bool(full_rank) and (
            self.problems.sides in (0, 1) or bool((self.lower == -np.inf).all())
        )

    @property
    def kernel_arguments(self) -> tuple[np.ndarray, ...]:
        limits = (self.T, self.lower, self.upper, self.rank, self.attached)
        return (*limits, self.slope, self.curve)

    @property
    def cpu_arguments(self) -> tuple[np.ndarray | None, ...]:
        """``kernel_arguments`` without lower limits if the problem is one-sided."""
        T, lower, *rest = self.kernel_arguments
        return (T, None if self.one_sided else lower, *rest)


def preference(problems: Problems) -> float:
    """Return infinity: the method applies to all problems, on request only."""
    return np.inf


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates by Genz's method as published."""
    return integrate(problems, request, tilted=False)


def too_large(problems: Problems) -> bool:
    """Return whether a covariance given by its factors would not fit into memory as a matrix."""
    return problems.covariance.given_factors() is not None and problems.d > _LARGEST


def integrate(problems: Problems, request: Request, tilted: bool) -> Estimate:
    """Return estimates by Genz's method, or that of tilted variables."""
    if problems.covariance.given_one_factor() is not None:
        return structured.integrate(problems, request, tilted)
    if too_large(problems):
        return Estimate.unknown(problems)
    chunk = max(1, _CHUNK // max(problems.d, PANEL) ** 2)
    return in_chunks(problems.dense(), chunk, lambda some: _integrate(some, request, tilted))


def _integrate(problems: Problems[Dense], request: Request, tilted: bool) -> Estimate:
    system, found = System.of(problems), None
    if tilted:
        found = system.tilt(problems.covariance.singular)
    kernel, d = partial(genz_sums, *system.cpu_arguments), problems.d

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return points.log_sums(kernel, rows, d * (6e-9 + d * 3e-11))

    if request.device is not None:
        from mvnorth._cuda.genz import GenzSums
        from mvnorth._cuda.launch import Queue

        queue = Queue.of(request.device.stream)
        weigh = GenzSums(queue, request.device.dtype, *system.kernel_arguments)
    return estimate(problems, system, weigh, request, found)


def corner(system: System) -> np.ndarray:
    """Return the share of a point that may hide a corner of the integrand, (B,)."""
    share = np.empty(system.rank.size)
    corner_shares(system.T, system.rank, share)
    return share


def estimate(
    problems: Problems[Dense],
    system: System,
    weigh: Callable[[np.ndarray, Points], np.ndarray],
    request: Request,
    tilted: Tilt | None,
    settled: Callable[[np.ndarray, Estimate], np.ndarray] | None = None,
) -> Estimate:
    """Return probabilities of ``problems`` from ``weigh``, see ``lattice_rule.mean_weights``."""
    d = problems.d
    level = max(7, (2 * d - 1).bit_length())  # fewer than 2d points would repeat coordinates
    log_scale = None if tilted is None else tilted.log_scale
    result = mean_weights(weigh, corner(system), d, level, request, log_scale, settled)
    singular = problems.covariance.singular
    if tilted is not None:
        result.log_bound = tilted.log_bound
        rounding = (tilted.rounding, tilted.of_problem)
    else:
        rounding = system.rounding(singular)
    limits = (problems.lower, problems.upper, problems.covariance.factor)
    add_rounding(result.log_prob, result.rel_error, *rounding, d * singular, *limits)
    if request.device is not None:
        result.rel_error[:] += storage_rounding(result, d, request)
    return result
