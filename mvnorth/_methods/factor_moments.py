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


def integrate(problems: Problems[OneFactorRows]) -> MomentEstimate:
    """Return the moments of problems given as diag(c) + v v^T."""
    chunk = max(1, _CHUNK // (problems.d * _FIRST))
    return in_chunks(problems, chunk, _integrate)  # type: ignore[arg-type, return-value]


def _integrate(problems: Problems[OneFactorRows]) -> MomentEstimate:
    estimate = one_factor_rule.solve(problems)
    size, d = problems.lower.shape
    unknown = (*np.full((2, size, d), np.nan), *np.full((2, size, d, d), np.nan))
    result = MomentEstimate.of(estimate, *unknown)
    for row in np.flatnonzero(np.isfinite(estimate.rel_error)):  # each with nodes of its own
        for name, value in zip(
            ("mean", "mean_error", "cov", "cov_error"), _Posterior(problems, row).moments(),
            strict=True,
        ):  # fmt: skip
            getattr(result, name)[row] = value
    return result


class _Posterior:
    """The density of the common factor of one problem, given the limits."""

    def __init__(self, problems: Problems[OneFactorRows], row: int) -> None:
        shared = 0 if len(problems.covariance.c) == 1 else row
        self._v = problems.covariance.v[shared]
        self._s = np.sqrt(problems.covariance.c[shared])
        self._lower, self._upper = problems.lower[row], problems.upper[row]
        self._width = (self._upper - self._lower) / self._s

    def _at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the log density at nodes (N,), and means and variances (N, d) of coordinates."""
        log, mean, variance = np.empty(z.size), *np.empty((2, z.size, self._v.size))
        step = max(1, _CHUNK // self._v.size)
        for k in range(0, z.size, step):
            part = slice(k, k + step)
            moved = z[part, None] * self._v
            low, high = ((limit - moved) / self._s for limit in (self._lower, self._upper))
            own = interval_moments(low, high, np.broadcast_to(self._width, low.shape))
            log[part] = np.sum(own.log_prob, axis=1) - 0.5 * z[part] ** 2
            mean[part], variance[part] = self._s * own.mean + moved, self._s**2 * own.variance
        return log, mean, variance

    def _mode(self) -> tuple[float, float]:
        """Return the mode and the log density there.

        The derivative of the log density falls with a slope of at least 1, so that its value
        bounds the distance to the mode.
        """
        z, low, high, log = 0.0, -np.inf, np.inf, 0.0
        beta = self._v / self._s
        for _ in range(_STEPS):
            at, mean, variance = self._at(np.array([z]))
            log = float(at[0])
            noise = (mean[0] - z * self._v) / self._s
            gradient = float(beta @ noise) - z
            low, high = (max(low, z), min(high, z + gradient)) if gradient > 0.0 else (
                max(low, z + gradient), min(high, z))  # fmt: skip
            step = gradient / (1.0 + float(beta**2 @ (1.0 - variance[0] / self._s**2)))
            if abs(step) <= 1e-6:
                break
            z = z + step if low <= z + step <= high else 0.5 * (low + high)
        return z, log

    def _reach(self, mode: float, top: float, direction: float) -> float:
        """Return where the density has fallen to e**-_DROP, which is within 9 of the mode."""
        near, far = 0.0, float(np.sqrt(2.0 * _DROP))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (near + far)
            log = self._at(np.array([mode + direction * middle]))[0][0]
            near, far = (middle, far) if log > top - _DROP else (near, middle)
            if far <= 1.1 * near:
                break
        return mode + direction * far

    def moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the mean, bounds on its errors, the covariance and bounds on its errors."""
        mode, top = self._mode()
        first, last = (self._reach(mode, top, direction) for direction in (-1.0, 1.0))
        z = np.linspace(first, last, _FIRST + 1)
        values = self._at(z)
        while True:
            mean, cov = _moments_of_nodes(*values)
            half_mean, half_cov = _moments_of_nodes(*(a[::2] for a in values))
            s = np.sqrt(np.diag(cov))
            mean_error, cov_error = np.abs(mean - half_mean), np.abs(cov - half_cov)
            worst = max(np.max(mean_error / s), np.max(cov_error / np.outer(s, s)))
            if not worst > _ENOUGH or z.size > _MOST:
                break
            between = 0.5 * (z[1:] + z[:-1])
            more = self._at(between)
            z = _interleave(z, between)
            log, means, variances = map(_interleave, values, more)
            values = (log, means, variances)
        if worst > _ENOUGH:  # walls between nodes: an entry may agree by chance
            mean_error, cov_error = worst * s, worst * np.outer(s, s)
        rounding = 8.0 * _EPS * (np.abs(mean) + np.abs(self._v) * np.max(np.abs(z)))
        lost = ROUNDING * s + rounding
        cross = lost[:, None] * s
        return mean, _MARGIN * mean_error + lost, cov, _MARGIN * cov_error + cross + cross.T


def _interleave(a: np.ndarray, between: np.ndarray) -> np.ndarray:
    out = np.empty((len(a) + len(between), *a.shape[1:]))
    out[::2], out[1::2] = a, between
    return out


def _moments_of_nodes(
    log: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance from log densities (N,), means and variances (N, d) at nodes."""
    share = np.exp(log - log.max())
    share /= share.sum()
    mean = share @ means
    apart = means - mean
    cov = (apart * share[:, None]).T @ apart
    cov[np.diag_indices_from(cov)] += share @ variances
    return mean, 0.5 * (cov + cov.T)
