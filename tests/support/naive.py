"""The slow, obvious judge: box probabilities of N(0, cov) in the plainest way.

Nothing here is clever, and nothing comes from the library under test.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import nquad
from scipy.special import ndtr, ndtri


def genz(
    lower: ArrayLike, upper: ArrayLike, cov: ArrayLike, n: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Genz's transformation with plain Monte Carlo, in the order given.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    cov : (d, d)
        Positive definite covariance.
    n : int
        Number of samples.
    seed : int
        Of numpy's generator.

    Returns
    -------
    estimate, standard_error : float
        Of Pr(lower <= X <= upper).
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    L = np.linalg.cholesky(np.asarray(cov, dtype=np.float64))
    d = len(L)
    rng = np.random.default_rng(seed)
    y = np.zeros((n, d))
    weight = np.ones(n)
    for i in range(d):
        shift = y[:, :i] @ L[i, :i]
        a, b = (lower[i] - shift) / L[i, i], (upper[i] - shift) / L[i, i]
        # In the right tail Phi is too close to one: reflect, draw there, reflect back.
        sign = np.where(a > 0, -1.0, 1.0)
        left, right = ndtr(np.where(a > 0, -b, a)), ndtr(np.where(a > 0, -a, b))
        weight *= right - left
        # Rounding may reach 0 or 1, whose quantiles are infinite.
        u = np.clip(left + rng.random(n) * (right - left), 1e-300, 1 - 1e-16)
        y[:, i] = sign * ndtri(u)
    return float(weight.mean()), float(weight.std() / np.sqrt(n))


def count(
    lower: ArrayLike, upper: ArrayLike, cov: ArrayLike, n: int = 100_000, seed: int = 0
) -> tuple[float, float]:
    """Draw X and count how often it falls into the box; cov may be singular.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    cov : (d, d)
        Positive semidefinite covariance.
    n : int
        Number of draws.
    seed : int
        Of numpy's generator.

    Returns
    -------
    estimate, standard_error : float
        Of Pr(lower <= X <= upper).
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.asarray(cov, dtype=np.float64))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    x = np.random.default_rng(seed).normal(size=(n, lower.size)) @ root.T
    inside = np.all((x >= lower) & (x <= upper), axis=1)
    return float(inside.mean()), float(inside.std() / np.sqrt(n))


def nested_quad(lower: ArrayLike, upper: ArrayLike, cov: ArrayLike) -> float:
    """Integrate the density over the box with nested adaptive quadrature; d <= 3.

    Parameters
    ----------
    lower, upper : (d,)
        The box; it is cut at nine standard deviations.
    cov : (d, d)
        Positive definite covariance.

    Returns
    -------
    float
        Pr(lower <= X <= upper), to about 1e-8.
    """
    cov = np.asarray(cov, dtype=np.float64)
    d = len(cov)
    if d > 3:
        raise ValueError(f"nested_quad takes at most 3 coordinates, got {d}")
    precision = np.linalg.inv(cov).tolist()
    constant = float(np.sqrt((2 * np.pi) ** d * np.linalg.det(cov)))

    def density(*x: float) -> float:
        square = sum(precision[i][j] * x[i] * x[j] for i in range(d) for j in range(d))
        return float(np.exp(-square / 2)) / constant

    reach = 9 * np.sqrt(np.diag(cov))
    box = np.stack([np.maximum(lower, -reach), np.minimum(upper, reach)], axis=1)
    return float(nquad(density, box.tolist())[0])
