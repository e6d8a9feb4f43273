"""Mean and covariance of truncated distributions with one common factor, by integration over it.

For X_i = sqrt(c_i) e_i + v_i z between limits, the coordinates given z are independent normal
variables between limits, with means m_i(z) and variances s_i(z).  Over the density of z given the
limits, which is log-concave,

    E[X] = E m(z),    Cov[X] = Cov m(z) + diag(E s(z)).

No term is a small difference of large ones, so that moments keep their accuracy in tails, in narrow
boxes and for any number of coordinates.  The trapezoidal rule reaches from the mode of the density
to where it has fallen to e**-40 on either side; it is refined until it agrees with the rule of
every second node, and the difference of both is the error that is claimed.
"""

from typing import NamedTuple

import numpy as np

from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._methods import one_factor_rule
from mvnorth._methods.interval_moments import ROUNDING, interval_moments
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._problem import Problems, in_chunks

_FIRST, _MOST = 64, 4096  # intervals between nodes
_DROP = 40.0
_ENOUGH = 1e-10  # difference of two rules, in deviations of the result
_MARGIN = 4.0  # on that difference
_STEPS, _BISECTIONS = 60, 50
_CHUNK = 2**16  # coordinates times nodes at a time: 80 numbers each
_EPS = float(np.finfo(np.float64).eps)


class Nodes(NamedTuple):
    """Log densities (N,) of common factors, and means and variances (N, d) of coordinates."""

    log: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and covariance over the density, with equal weights of the nodes."""
        share = np.exp(self.log - self.log.max())
        share /= share.sum()
        mean = share @ self.means
        apart = self.means - mean
        cov = (apart * share[:, None]).T @ apart
        cov[np.diag_indices_from(cov)] += share @ self.variances
        return mean, 0.5 * (cov + cov.T)


class Comparison(NamedTuple):
    """Moments of one problem, and bounds on their errors from the moments of fewer nodes.

    ``worst`` is the largest difference, in deviations.
    """

    worst: float
    mean: np.ndarray
    mean_error: np.ndarray
    cov: np.ndarray
    cov_error: np.ndarray


def integrate(problems: Problems[OneFactorRows]) -> MomentEstimate:
    """Return the moments of problems given as diag(c) + v v^T."""
    chunk = max(1, _CHUNK // (problems.d * _FIRST))
    return in_chunks(problems, chunk, _integrate)  # type: ignore[arg-type, return-value]


def _integrate(problems: Problems[OneFactorRows]) -> MomentEstimate:
    estimate = one_factor_rule.solve(problems)
    size, d = problems.lower.shape
    unknown = (*np.full((2, size, d), np.nan), *np.full((2, size, d, d), np.nan))
    result = MomentEstimate.of(estimate, *unknown)
    c, v = (np.broadcast_to(a, (size, d)) for a in (problems.covariance.c, problems.covariance.v))
    for row in np.flatnonzero(np.isfinite(estimate.rel_error)):  # each with nodes of its own
        limits = (problems.lower[row], problems.upper[row])
        result.set_row(row, *_OneFactor(*limits, c[row], v[row][:, None]).integrate()[1:])
    return result


class Posterior:
    """The density of the k common factors of one problem, given the limits."""

    def __init__(
        self, lower: np.ndarray, upper: np.ndarray, c: np.ndarray, loadings: np.ndarray
    ) -> None:
        """Take limits and c (d,), and loadings (d, k)."""
        self._lower, self._upper, self._loadings, self._s = lower, upper, loadings, np.sqrt(c)
        self._width = (upper - lower) / self._s

    def at(self, z: np.ndarray) -> Nodes:
        """Return log densities, and means and variances of coordinates, at nodes (N, k)."""
        d = len(self._s)
        log, mean, variance = np.empty(len(z)), *np.empty((2, len(z), d))
        step = max(1, _CHUNK // d)
        for k in range(0, len(z), step):
            part = slice(k, k + step)
            moved = z[part] @ self._loadings.T
            low, high = ((limit - moved) / self._s for limit in (self._lower, self._upper))
            own = interval_moments(low, high, np.broadcast_to(self._width, low.shape))
            log[part] = np.sum(own.log_prob, axis=1) - 0.5 * np.sum(z[part] ** 2, axis=1)
            mean[part], variance[part] = self._s * own.mean + moved, self._s**2 * own.variance
        return Nodes(log, mean, variance)

    def derivatives(self, z: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the log density at z (k,), its gradient, and minus its second derivatives."""
        nodes = self.at(z[None])
        beta = self._loadings / self._s[:, None]
        noise = (nodes.means[0] - self._loadings @ z) / self._s
        less = 1.0 - nodes.variances[0] / self._s**2
        return float(nodes.log[0]), noise @ beta - z, np.eye(z.size) + (beta.T * less) @ beta

    def compare(
        self, all_nodes: Nodes, some: Nodes, enough: float, reach: float, outside: float = 0.0
    ) -> Comparison:
        """Return the moments of nodes, with errors from those of ``some`` of the nodes.

        Parameters
        ----------
        enough : difference, in deviations, up to which errors are those of each entry
        reach : largest coordinate of a node, for what rounding does
        outside : relative error from what lies outside of the nodes
        """
        (mean, cov), (half_mean, half_cov) = all_nodes.moments(), some.moments()
        s = np.sqrt(np.diag(cov))
        mean_error, cov_error = np.abs(mean - half_mean), np.abs(cov - half_cov)
        worst = max(np.max(mean_error / s), np.max(cov_error / np.outer(s, s)))
        if worst > enough:  # walls between nodes: an entry may agree by chance
            mean_error, cov_error = worst * s, worst * np.outer(s, s)
        size = np.sum(np.abs(self._loadings), axis=1)
        lost = (ROUNDING + outside) * s + 8.0 * _EPS * (np.abs(mean) + size * reach)
        cross = lost[:, None] * s
        mean_error, cov_error = _MARGIN * mean_error + lost, _MARGIN * cov_error + cross + cross.T
        return Comparison(float(worst), mean, mean_error, cov, cov_error)


class _OneFactor(Posterior):
    """The density of one common factor, which the trapezoidal rule covers."""

    def _mode(self) -> tuple[float, float]:
        """Return the mode and the log density there.

        The derivative of the log density falls with a slope of at least 1, so that its value
        bounds the distance to the mode.
        """
        z, low, high, log = 0.0, -np.inf, np.inf, 0.0
        for _ in range(_STEPS):
            log, (gradient,), ((curvature,),) = self.derivatives(np.array([z]))
            low, high = (max(low, z), min(high, z + gradient)) if gradient > 0.0 else (
                max(low, z + gradient), min(high, z))  # fmt: skip
            step = float(gradient / curvature)
            if abs(step) <= 1e-6:
                break
            z = z + step if low <= z + step <= high else 0.5 * (low + high)
        return z, log

    def _reach(self, mode: float, top: float, direction: float) -> float:
        """Return where the density has fallen to e**-_DROP, which is within 9 of the mode."""
        near, far = 0.0, float(np.sqrt(2.0 * _DROP))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (near + far)
            log = self.at(np.array([[mode + direction * middle]])).log[0]
            near, far = (middle, far) if log > top - _DROP else (near, middle)
            if far <= 1.1 * near:
                break
        return mode + direction * far

    def integrate(self) -> Comparison:
        """Return the moments, from as many nodes as it takes."""
        mode, top = self._mode()
        first, last = (self._reach(mode, top, direction) for direction in (-1.0, 1.0))
        z = np.linspace(first, last, _FIRST + 1)
        nodes = self.at(z[:, None])
        while True:
            half = Nodes(*(a[::2] for a in nodes))
            result = self.compare(nodes, half, _ENOUGH, np.max(np.abs(z)))
            if not result.worst > _ENOUGH or z.size > _MOST:
                return result
            between = 0.5 * (z[1:] + z[:-1])
            nodes = Nodes(*map(_interleave, nodes, self.at(between[:, None])))
            z = _interleave(z, between)


def _interleave(a: np.ndarray, between: np.ndarray) -> np.ndarray:
    out = np.empty((len(a) + len(between), *a.shape[1:]))
    out[::2], out[1::2] = a, between
    return out
