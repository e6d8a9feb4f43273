"""Boxes whose covariance has a few common factors, by the trapezoidal rule over the factors."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, logsumexp

from validation.oracles.one_dimension import FloatArray, log_interval

_REACH = 8.6  # from the mode; the logarithm of the integrand has a curvature of one at least


def log_prob(
    b: FloatArray,
    c: FloatArray,
    V: FloatArray,
    step: float = 0.125,
    lower: FloatArray | None = None,
) -> float:
    """Return log Pr(lower <= X <= b), X ~ N(0, diag(c) + V V^T).

    The rule converges faster than any power of its step: with own variances c of a tenth of the
    whole or more, a step of 1/8 gives 1e-13.

    Parameters
    ----------
    b, c : (d,)
    V : (d, k)
    step : float
        Between the nodes of each factor.
    lower : (d,), optional
        Lower limits; none by default.
    """
    below = np.full(len(b), -np.inf) if lower is None else lower

    def log_integrand(z: FloatArray) -> FloatArray:
        total = -0.5 * np.sum(z * z, axis=-1)
        for low, high, variance, loading in zip(below, b, c, V, strict=True):
            mean, scale = z @ loading, math.sqrt(variance)
            if low == -np.inf:
                total += log_ndtr((high - mean) / scale)
            else:
                total += log_interval((low - mean) / scale, (high - mean) / scale)
        return total

    def depth(z: FloatArray, /) -> float:
        return -float(log_integrand(z))

    k = V.shape[1]
    mode = minimize(depth, np.zeros(k)).x
    offsets = np.arange(-_REACH, _REACH, step)
    others = np.stack(np.meshgrid(*[offsets] * (k - 1), indexing="ij"), axis=-1).reshape(-1, k - 1)
    planes = []
    for first in offsets:
        z = mode + np.column_stack([np.full(len(others), first), others])
        planes.append(logsumexp(log_integrand(z)))
    return float(logsumexp(planes)) + k * math.log(step / math.sqrt(2.0 * math.pi))


def random_factors(
    rng: np.random.Generator, c: FloatArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Return loadings V (d, k) in random directions and the correlations diag(c) + V V^T."""
    V = rng.normal(size=(c.size, k))
    V *= (np.sqrt(1.0 - c) / np.linalg.norm(V, axis=1))[:, None]
    return V, np.diag(c) + V @ V.T
