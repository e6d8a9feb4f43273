"""Mean and covariance of truncated distributions with two common factors, on a lattice of them.

As for one factor (``factor_moments``) the coordinates are independent given the factors z, so that
means, variances and covariances over the density of z given the limits are sums in which nothing
cancels.  In the variable t of z = mode + T t the density is round at its mode.  It is summed over
a square lattice of t, at all points where it has not fallen below e**-32 of its peak: they are
found from neighbour to neighbour, since they are those of a convex set.  The difference from the
lattice of twice the step is the error that is claimed, and the step is halved until it is small
enough.  What lies outside of the points is at most what an exponential density has there, the worst
of all log-concave ones.
"""

import numpy as np

from mvnorth._covariance.factors import FactorsRows
from mvnorth._methods.factor_moments import Comparison, Nodes, Posterior
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._problem import Problems

FACTORS = 2
_STEP = 0.5  # of the first lattice
_DROP = 32.0
_OUTSIDE = _DROP**3 * float(np.exp(-_DROP))  # of the second moments of an exponential density
_ENOUGH = 1e-6  # difference of two lattices, in deviations of the result
_CONVERGING = 0.1  # what half the step leaves of the error, at most; more where there are walls
_SIDE = 512  # points from the mode to the edge, at most
_EVALUATIONS = 2**21  # points times coordinates of a lattice, at most: about 2 s
_NEWTON, _HALVINGS, _CLOSE = 60, 40, 1e-8  # steps to the mode, and the square of what is left
_NEIGHBOURS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)])


def integrate(problems: Problems[FactorsRows], result: MomentEstimate) -> None:
    """Set the moments in ``result`` of problems given as diag(c) + V V^T, V (d, 2).

    They stay as they are where the density has no mode or takes too many points.
    """
    size, d = problems.lower.shape
    c = np.broadcast_to(problems.covariance.c, (size, d))
    V = np.broadcast_to(problems.covariance.V, (size, d, FACTORS))
    for row in np.flatnonzero(np.isfinite(result.rel_error)):
        density = _TwoFactors(problems.lower[row], problems.upper[row], c[row], V[row])
        moments = density.integrate()
        if moments is not None:
            result.set_row(row, *moments[1:])


class _TwoFactors(Posterior):
    """The density of two common factors, which square lattices cover."""

    def integrate(self) -> Comparison | None:
        """Return the moments, from as many points as it takes, or None."""
        place = self._mode()
        if place is None:
            return None
        result, step = None, _STEP
        while True:
            lattice = self._lattice(*place, step)
            if lattice is None:
                return result
            points, nodes = lattice
            half = Nodes(*(a[(points % 2 == 0).all(axis=1)] for a in nodes))
            reach = float(np.max(np.abs(place[0] + step * points @ place[1].T)))
            before = np.inf if result is None else result.worst
            result = self.compare(nodes, half, _ENOUGH, reach, _OUTSIDE)
            if not _ENOUGH < result.worst <= _CONVERGING * before:
                return result
            step *= 0.5

    def _mode(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the mode (k,) and the map T (k, k) by Newton's method, or None."""
        z = np.zeros(FACTORS)
        log, gradient, curvature = self.derivatives(z)
        for _ in range(_NEWTON):
            direction = np.linalg.solve(curvature, gradient)
            decrement = float(gradient @ direction)
            if not np.isfinite(decrement):
                return None
            if decrement <= _CLOSE:
                return z, np.linalg.inv(np.linalg.cholesky(curvature)).T
            for _ in range(_HALVINGS):
                trial = self.derivatives(z + direction)
                if trial[0] >= log + 0.1 * float(gradient @ direction):
                    break
                direction = 0.5 * direction
            z = z + direction
            log, gradient, curvature = trial
        return None

    def _lattice(
        self, mode: np.ndarray, T: np.ndarray, step: float
    ) -> tuple[np.ndarray, Nodes] | None:
        """Return the points (N, k) of a lattice, in steps, and the nodes there, or None."""
        most = _EVALUATIONS // len(self._s)
        seen = np.zeros((2 * _SIDE + 1,) * FACTORS, dtype=bool)
        waiting = np.zeros((1, FACTORS), dtype=np.int64)
        least = self.at(mode[None]).log[0] - _DROP
        points, parts, count = [], [], 0
        while waiting.size:
            seen[tuple((waiting + _SIDE).T)] = True
            nodes = self.at(mode + step * waiting @ T.T)
            inside = nodes.log > least
            points.append(waiting[inside])
            parts.append(Nodes(*(a[inside] for a in nodes)))
            count += len(waiting)
            around = np.unique((points[-1][:, None] + _NEIGHBOURS).reshape(-1, FACTORS), axis=0)
            if count > most or np.abs(around).max(initial=0) > _SIDE:
                return None
            waiting = around[~seen[tuple((around + _SIDE).T)]]
        return np.concatenate(points), Nodes(*map(np.concatenate, zip(*parts, strict=True)))
