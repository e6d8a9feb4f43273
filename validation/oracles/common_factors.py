"""Boxes whose covariance has a few common factors, by the trapezoidal rule over the factors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, logsumexp

from validation.oracles.one_dimension import FloatArray, log_interval

_NEGLIGIBLE = 37.0  # fall of the logarithm from the mode, where nothing is left
_AHEAD = 4  # steps by which the grid is extended at a time
_DIFFERENCE = 1e-3  # for second derivatives at the mode


def log_prob(
    b: FloatArray,
    c: FloatArray,
    V: FloatArray,
    step: float = 0.125,
    lower: FloatArray | None = None,
    negligible: float = _NEGLIGIBLE,
) -> float:
    """Return log Pr(lower <= X <= b), X ~ N(0, diag(c) + V V^T).

    The rule converges faster than any power of its step: with own variances c of a tenth of the
    whole or more, a step of 1/8 gives 1e-13.  The integrand is log-concave: where it is negligible
    on all faces of a box around the mode, it is so beyond.

    Parameters
    ----------
    b, c : (d,)
    V : (d, k)
    step : float
        Between the nodes of each factor, in units of the integrand's width at the mode.
    lower : (d,), optional
        Lower limits, which may be -inf; none by default.
    negligible : float
        Fall of the logarithm of the integrand from the mode, beyond which it is left out.
    """
    k = V.shape[1]
    loadings, high = V / np.sqrt(c)[:, None], b / np.sqrt(c)
    low = np.full(b.size, -np.inf) if lower is None else lower / np.sqrt(c)

    def log_integrand(z: FloatArray) -> FloatArray:
        total = -0.5 * np.sum(z * z, axis=-1)
        for below, above, loading in zip(low, high, loadings, strict=True):
            shift = z @ loading
            if below == -np.inf:
                total += log_ndtr(above - shift)
            else:
                total += log_interval(below - shift, above - shift)
        return total

    def depth(z: FloatArray, /) -> float:
        return -float(log_integrand(z))

    mode = minimize(depth, np.zeros(k)).x
    curvature, axes = np.linalg.eigh(_second_differences(depth, mode))
    curvature = np.maximum(curvature, 1.0)
    axes *= step / np.sqrt(curvature)  # columns are steps

    def values(ranges: list[FloatArray]) -> FloatArray:
        steps = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, k)
        return log_integrand(mode + steps @ axes.T)

    lowest = -depth(mode) - negligible
    ends = np.tile([-_AHEAD, _AHEAD], (k, 1))
    growing = True
    while growing:
        growing = False
        for axis in range(k):
            for side in range(2):
                ranges = [np.arange(first, last + 1) for first, last in ends]
                ranges[axis] = ends[axis, side : side + 1]
                if values(ranges).max() > lowest:
                    ends[axis, side] += (2 * side - 1) * _AHEAD
                    growing = True
    first, *others = [np.arange(start, last + 1) for start, last in ends]
    planes = [logsumexp(values([first[n : n + 1], *others])) for n in range(first.size)]
    spacing = k * math.log(step / math.sqrt(2.0 * math.pi)) - 0.5 * np.sum(np.log(curvature))
    return float(logsumexp(planes) + spacing)


def _second_differences(depth: Callable[[FloatArray], float], z: FloatArray) -> FloatArray:
    """Return the Hessian of ``depth`` at z, roughly."""
    k = z.size
    hessian, moves = np.empty((k, k)), _DIFFERENCE * np.eye(k)
    for i in range(k):
        for j in range(k):
            up, down = moves[i] + moves[j], moves[i] - moves[j]
            hessian[i, j] = depth(z + up) + depth(z - up) - depth(z + down) - depth(z - down)
    return hessian / (4.0 * _DIFFERENCE**2)


def random_factors(
    rng: np.random.Generator, c: FloatArray, k: int
) -> tuple[FloatArray, FloatArray]:
    """Return loadings V (d, k) in random directions and the correlations diag(c) + V V^T."""
    V = rng.normal(size=(c.size, k))
    V *= (np.sqrt(1.0 - c) / np.linalg.norm(V, axis=1))[:, None]
    return V, np.diag(c) + V @ V.T
