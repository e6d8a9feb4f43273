"""Genz integration for Sigma = diag(c) + v v^T: O(d) a sample, O(d log d) to order coordinates.

Coordinates are sorted once by their marginal probability, the smallest first.  The conditional
order of ``reorder`` would cost O(d**2) and, with one common factor, hardly differs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._cpu.lattice_sums import add_rounding, corner_shares
from mvnorth._cpu.structured import sort_keys, structured_sums
from mvnorth._cpu.structured_tilting import structured_rounding, tilt_structured
from mvnorth._estimate import Estimate
from mvnorth._linalg.one_factor import cholesky
from mvnorth._methods.lattice_rule import Tilt, mean_weights, storage_rounding
from mvnorth._points import Points
from mvnorth._problem import Problems, Request
from mvnorth._threads import run_items

# log2 of the points a shift to start with: 2d, so that no coordinate repeats another's points, but
# not more than 2**10, since a sum over many coordinates with shifts of their own hardly notices.
_FIRST_LEVELS = (7, 10)


@dataclass(frozen=True)
class System:
    """Problems in the order of integration, each row scaled to a unit diagonal.

    Attributes
    ----------
    lower, upper, t, w : (B, d), see ``structured_sums``
    rank : (B,) number of coordinates with limits
    order : (B, d) which coordinate comes where
    slope : (B, d) tilt of the weights, zero unless ``tilted``
    c, v, diag : (B, d) ordered variances and loadings, and the diagonal of their Cholesky factor;
        the loading of a coordinate with a lower limit alone is mirrored
    deviation : (1 or B, d) standard deviations in the order of the problem
    """

    lower: np.ndarray
    upper: np.ndarray
    t: np.ndarray
    w: np.ndarray
    rank: np.ndarray
    slope: np.ndarray
    order: np.ndarray
    c: np.ndarray
    v: np.ndarray
    diag: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, problems: Problems[OneFactorRows]) -> "System":
        deviation = problems.covariance.deviations()
        mirrored = (problems.upper == np.inf) & (problems.lower > -np.inf)
        lower = np.where(mirrored, -np.inf, problems.lower)
        upper = np.where(mirrored, -problems.lower, problems.upper)
        loadings = np.where(mirrored, -problems.covariance.v, problems.covariance.v)
        keys = np.empty(upper.shape)
        standard = partial(sort_keys, lower / deviation, upper / deviation, keys)
        run_items(standard, problems.size, keys.size * 3e-8)
        order = np.argsort(keys, axis=1, kind="stable")
        lower, upper, v, c = (
            np.take_along_axis(a, order, axis=1)
            for a in (lower, upper, loadings, np.broadcast_to(problems.covariance.c, upper.shape))
        )
        diag, w = cholesky(c, v)
        rank = np.count_nonzero(keys < np.inf, axis=1)
        scaled = (lower / diag, upper / diag, v / diag)
        return cls(*scaled, w, rank, np.zeros_like(c), order, c, v, diag, deviation)

    def tilted(self) -> tuple["System", Tilt]:
        """Return the problems in tilted variables."""
        lower, upper = self.lower.copy(), self.upper.copy()
        tilt = Tilt.empty(len(self.rank))
        slope = np.empty_like(self.slope)
        own = self.c / self.diag**2
        limits = (lower, upper, self.t, self.w, own, self.rank)
        kernel = partial(tilt_structured, *limits, slope, *tilt.outputs)
        run_items(kernel, len(own), own.size * 1e-6)
        return replace(self, lower=lower, upper=upper, slope=slope), tilt

    def rounding(self) -> np.ndarray:
        """Return rounding errors of log P, (B,)."""
        found = np.empty(len(self.rank))
        limits = (self.lower, self.upper, self.t, self.w, self.rank)
        run_items(partial(structured_rounding, *limits, found), found.size, self.c.size * 5e-8)
        return found

    @property
    def kernel_arguments(self) -> tuple[np.ndarray, ...]:
        return self.lower, self.upper, self.t, self.w, self.rank, self.slope


def integrate(problems: Problems[OneFactorRows], request: Request, tilted: bool) -> Estimate:
    """Return estimates by Genz's method with the structured Cholesky factor."""
    system, tilt = System.of(problems), None
    if tilted:
        system, tilt = system.tilted()
    kernel = partial(structured_sums, *system.kernel_arguments)

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return points.log_sums(kernel, rows, problems.d * 6e-9)

    if request.device is not None:
        from mvnorth._cuda.launch import Queue
        from mvnorth._cuda.structured import StructuredSums

        queue = Queue.of(request.device.stream)
        weigh = StructuredSums(queue, request.device.dtype, *system.kernel_arguments)
    return estimate(problems, system, weigh, request, tilt)


def estimate(
    problems: Problems[OneFactorRows],
    system: System,
    weigh: Callable[[np.ndarray, Points], np.ndarray],
    request: Request,
    tilt: Tilt | None = None,
) -> Estimate:
    """Return probabilities of ``problems`` from ``weigh``, see ``lattice_rule.mean_weights``."""
    limited = np.arange(problems.d) < system.rank[:, None]
    dependent = np.count_nonzero((system.v != 0.0) & limited, axis=1)
    norm = np.max(np.abs(system.t), axis=1, where=limited, initial=0.0)
    corner = np.empty(problems.size)
    corner_shares(norm[:, None, None], dependent, corner)
    level = int(np.clip(np.ceil(np.log2(2 * problems.d + 1)), *_FIRST_LEVELS))
    log_scale = None if tilt is None else tilt.log_scale
    result = mean_weights(weigh, corner, problems.d, level, request, log_scale)
    # Limits less a large share of S are known to rounding of what was taken off.
    rounding = np.finfo(float).eps * np.sum(np.abs(system.t), axis=1, where=limited)
    result.rel_error[:] += rounding
    if tilt is not None:
        result.log_bound[:] = tilt.log_bound
    of_weights = system.rounding() if tilt is None else tilt.rounding
    of_problem, most = np.zeros(of_weights.shape), 0.0
    limits = (problems.lower, problems.upper, system.deviation[:, :, None])
    add_rounding(result.log_prob, result.rel_error, of_weights, of_problem, most, *limits)
    result.rel_error[:] += storage_rounding(result, problems.d, request)
    return result
