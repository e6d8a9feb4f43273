"""Moments of truncated normals by other ways than the package's, for tests to compare with."""

import numpy as np
from scipy.special import log_ndtr, logsumexp


def log_interval(a, b):
    """Logarithm of Phi(b) - Phi(a), on the side where it does not cancel."""
    swap = a + b > 0.0
    low, high = np.where(swap, -b, a), np.where(swap, -a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = log_ndtr(low) - log_ndtr(high)
        return log_ndtr(high) + np.log(-np.expm1(below))


def interval_moments(a, b):
    """Mean and variance of a standard normal between a < b, by their textbook formulas."""
    log_z = log_interval(a, b)
    half_log = 0.5 * np.log(2.0 * np.pi)

    def density(x):
        return np.where(np.isinf(x), 0.0, np.exp(-0.5 * np.minimum(x * x, 1e6) - half_log - log_z))

    def times(x):
        return np.where(np.isinf(x), 0.0, x) * density(x)

    mean = density(a) - density(b)
    return mean, 1.0 + times(a) - times(b) - mean**2


def one_factor_moments(lower, upper, c, v, nodes=1501):
    """Mean and covariance of N(0, diag(c) + v v^T) in a box, by the trapezoidal rule over z.

    Given the common factor z the coordinates are independent, with known moments.
    """

    def log_integrand(z):
        a, b = ((x - z[:, None] * v) / np.sqrt(c) for x in (lower, upper))
        return -0.5 * z * z + np.sum(log_interval(a, b), axis=1)

    z = np.linspace(-60.0, 60.0, 4001)
    for _ in range(2):  # where the integrand is above e**-40 of its largest value
        log = log_integrand(z)
        inside = np.flatnonzero(log > log.max() - 40.0)
        first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, z.size - 1)
        z = np.linspace(z[first], z[last], nodes)
    log = log_integrand(z)
    share = np.exp(log - logsumexp(log))
    a, b = ((x - z[:, None] * v) / np.sqrt(c) for x in (lower, upper))
    mean, variance = interval_moments(a, b)
    mean = mean * np.sqrt(c) + z[:, None] * v
    whole = share @ mean
    apart = mean - whole
    cov = np.einsum("k,ki,kj->ij", share, apart, apart) + np.diag(share @ (variance * c))
    log_prob = logsumexp(log) + np.log(z[1] - z[0]) - 0.5 * np.log(2.0 * np.pi)
    return log_prob, whole, cov


def two_factor_moments(lower, upper, c, V, nodes=201):
    """Mean and covariance of N(0, diag(c) + V V^T) in a box, by the trapezoidal rule over z."""
    x = np.linspace(-7.0, 7.0, nodes)
    z = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    moved = z @ V.T
    a, b = ((limit - moved) / np.sqrt(c) for limit in (lower, upper))
    log = np.sum(log_interval(a, b), axis=1) - 0.5 * np.sum(z * z, axis=1)
    share = np.exp(log - logsumexp(log))
    likely = share > 1e-18  # elsewhere the textbook formulas cancel
    share, moved = share[likely], moved[likely]
    mean, variance = interval_moments(a[likely], b[likely])
    mean = mean * np.sqrt(c) + moved
    whole = share @ mean
    apart = mean - whole
    return whole, (apart.T * share) @ apart + np.diag(share @ (variance * c))


def random_problem(rng, d, two_sided):
    """A random box of a one-factor covariance, from ordinary to far out in a tail."""
    c, v = rng.uniform(0.1, 1.0, d), rng.normal(0.0, 1.0, d)
    deviation = np.sqrt(c + v * v)
    far = rng.choice([0.0, 0.0, 1.0, 3.0, 6.0])
    lower = deviation * (
        rng.normal(0.0, 1.0, d) - 0.5 + far * rng.uniform(0.0, 1.0, d) * rng.choice([0, 1], d)
    )
    upper = np.full(d, np.inf)
    if two_sided:
        wide = rng.choice([0.3, 1.0, 3.0])
        upper = lower + deviation * wide * rng.uniform(0.3, 2.0, d)
    return lower, upper, c, v


def correlation(rng, d, own=0.3):
    """A random correlation matrix without structure."""
    A = rng.normal(size=(d, d))
    cov = A @ A.T / d + own * np.eye(d)
    s = np.sqrt(np.diag(cov))
    return cov / np.outer(s, s)


def within(moments, mean, cov, slack=0.0):
    """Whether all claimed errors hold, but for a slack of the truth itself."""
    of_mean = np.abs(moments.mean - mean) <= moments.mean_error + slack
    of_cov = np.abs(moments.cov - cov) <= moments.cov_error + slack
    return bool(of_mean.all() and of_cov.all())
