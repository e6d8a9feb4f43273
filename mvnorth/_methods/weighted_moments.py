"""Mean and covariance of truncated distributions from the weighted points of tilted sampling.

With the weights p_k and the points x_k of Genz's recursion in tilted variables,

    E[X] = sum_k p_k x_k / sum_k p_k,

and the covariance is the same mean of (x_k - E[X]) (x_k - E[X])^T.  Both are quotients of sums over
the same points, so that an error which numerator and denominator have in common drops out, and both
are computed about a centre close to the mean.  So the covariance has its relative accuracy in
tails, where the derivatives of log P give it as a small difference of large numbers.

The points are those of ``tilting``, and the errors come from the spread of the shifts in the way of
derivatives (``lattice_means``).
"""

from functools import partial

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._cpu.moment_sums import median_path, moment_sums
from mvnorth._estimate import Estimate
from mvnorth._linalg.product import padded
from mvnorth._methods import genz
from mvnorth._methods.faces import relative_rounding
from mvnorth._methods.lattice_means import LatticeMeans, Sums, quotients
from mvnorth._methods.lattice_rule import REPLICATES
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._points import Points
from mvnorth._problem import Problems, Request, in_chunks
from mvnorth._threads import run_items

_CHUNK = 2**22  # entries of the products at a time: 32 MB
_PARTS, _LARGE = 4, 256  # parts of the points at a time, and the d from which on it is one
_EPS = float(np.finfo(np.float64).eps)


def integrate(problems: Problems, request: Request) -> MomentEstimate:
    """Return the moments of problems in which every coordinate has a limit and a variance.

    Without a number of points in the request, points are added until the moments meet its
    tolerance, see ``MomentEstimate.excess``.
    """
    if genz.too_large(problems):
        return MomentEstimate.unknown(problems.size, problems.d)
    chunk = max(1, _CHUNK // (_PARTS * REPLICATES * padded(problems.d) ** 2))
    solve = partial(_integrate, request=request)
    return in_chunks(problems.dense(), chunk, solve)  # type: ignore[arg-type, return-value]


def _integrate(problems: Problems[Dense], request: Request) -> MomentEstimate:
    d, singular = problems.d, problems.covariance.singular
    base = genz.System.of(problems)
    system, tilt = base.tilted(singular)
    points = _WeightedPoints(system)
    parts = _PARTS if d < _LARGE else 1
    collected = LatticeMeans()
    unit = np.broadcast_to(problems.covariance.unit, problems.lower.shape)

    def weigh(rows: np.ndarray, some: Points) -> np.ndarray:
        return collected.collect(partial(points.sums, rows), rows, some, parts)

    def settled(rows: np.ndarray, estimate: Estimate) -> np.ndarray:
        moments = points.moments(collected.take(rows), rows, estimate.take(rows))
        return np.asarray(moments.excess(request.tolerance, unit[rows]) <= 1.0)

    estimate = genz.estimate(problems, system, weigh, request, tilt, settled)
    moments = points.moments(collected, np.arange(problems.size), estimate)
    rounding = relative_rounding(base, tilt, singular, estimate)
    moments.add_relative_error(np.where(np.isfinite(estimate.rel_error), rounding, np.inf))
    return moments


class _WeightedPoints:
    """The points of problems in tilted variables, and the moments that they give."""

    def __init__(self, system: genz.System) -> None:
        self._system = system
        size, d = system.upper.shape
        centre, variables = np.empty((2, size, d))
        arguments = (*system.cpu_arguments, centre, variables)
        run_items(partial(median_path, *arguments), size, size * d * (1e-6 + d * 5e-9))
        self._centre = np.where(np.isfinite(centre), centre, 0.0)
        self._corner = genz.corner(system)
        # Rounding error of a coordinate, a sum over the variables.
        steps = np.where(np.isfinite(variables), 1.0 + np.abs(variables), 1.0)
        reach = np.einsum("bij,bj->bi", np.abs(system.T[:, :d, :d]), steps) + steps
        self._rounding = 8.0 * _EPS * (reach + np.abs(self._centre))

    def sums(self, rows: np.ndarray, points: Points) -> tuple[np.ndarray, Sums]:
        """Return logs of the weights and all sums, of rows and points."""
        d, side = self._centre.shape[1], padded(self._centre.shape[1])
        items = rows.size * len(points.shifts) * points.start.size
        stats, products = np.empty((items, 3, 1, d)), np.empty((items, side, side))
        arguments = (*self._system.cpu_arguments, self._centre, stats, products)
        cost = d * (1e-8 + d * 8e-11)
        logs = points.log_sums(partial(moment_sums, *arguments), rows, cost)
        return logs, Sums.of_parts(logs, stats, products)

    def moments(self, means: LatticeMeans, rows: np.ndarray, estimate: Estimate) -> MomentEstimate:
        """Return the moments of ``rows`` from what has been collected of them."""
        d = self._centre.shape[1]
        share = means.share
        sums = means.sums[:, :, :, 0]  # of the coordinates less the centre
        first, first_error = quotients(sums, share)
        terms = np.stack([-products[..., :d, :d] for products in means.products()], axis=1)
        terms = np.tril(terms) + np.swapaxes(np.tril(terms, -1), -1, -2)
        delta = first[:, None, None]
        cross = sums[..., :, None] * delta[..., None, :]
        square = share[..., None, None] * (delta[..., :, None] * delta[..., None, :])
        terms += square - cross - np.swapaxes(cross, -1, -2)
        second, second_error = quotients(terms, share)
        length = np.sqrt(np.diagonal(second, axis1=1, axis2=2) + first**2)  # from the centre
        unseen = means.elsewhere(estimate.n, 0.0) + self._corner[rows] / estimate.n
        lost = unseen[:, None] * length + self._rounding[rows]
        first_error += lost
        cross = lost[:, :, None] * length[:, None]
        second_error += cross + np.swapaxes(cross, 1, 2)
        return self._in_coordinates(rows, estimate, first, first_error, second, second_error)

    def _in_coordinates(
        self,
        rows: np.ndarray,
        estimate: Estimate,
        first: np.ndarray,
        first_error: np.ndarray,
        second: np.ndarray,
        second_error: np.ndarray,
    ) -> MomentEstimate:
        """Return moments of the problems' coordinates from those of the rows of T."""
        system = self._system
        scale = system.unit[rows] / system.stretch[rows]
        centre, shift = self._centre[rows], system.shift[rows]
        mean = scale * (first + (centre - shift))
        mean_error = np.abs(scale) * (first_error + 4.0 * _EPS * (np.abs(centre) + np.abs(shift)))
        cov = scale[:, :, None] * scale[:, None] * second
        cov_error = np.abs(scale[:, :, None] * scale[:, None]) * second_error
        back = np.argsort(system.order[rows], axis=1)

        def in_order(a: np.ndarray) -> np.ndarray:
            a = np.take_along_axis(a, back[:, :, None] if a.ndim == 3 else back, axis=1)
            return np.take_along_axis(a, back[:, None], axis=2) if a.ndim == 3 else a

        moments = (in_order(a) for a in (mean, mean_error, cov, cov_error))
        return MomentEstimate.of(estimate, *moments)
