"""Brute force: the share of normal draws that fall into a box."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

CHUNK = 2**20  # numbers drawn at a time


class Estimate(NamedTuple):
    """The share of draws inside, and its standard error; that of no draw, or all, is not zero.

    With k of n draws inside, the standard error is that of a share (k + 1) / (n + 2), which is
    never 0 or 1.
    """

    value: float
    error: float


def prob(
    lower: ArrayLike, upper: ArrayLike, cov: ArrayLike, draws: int = 10**5, seed: int = 0
) -> Estimate:
    """Pr(lower <= X <= upper) for X ~ N(0, cov), by counting.

    Parameters
    ----------
    lower, upper : (d,)
        The box; infinite limits are allowed.
    cov : (d, d)
        Covariance matrix; singular ones are allowed.
    draws : int
        How many, at least 1. They are made in chunks, so that memory does not grow with them.
    seed : int

    Examples
    --------
    >>> from validation.oracles.monte_carlo import prob
    >>> value, error = prob([0.0, 0.0], [9.0, 9.0], [[1.0, 0.5], [0.5, 1.0]])  # 1/3
    >>> abs(value - 1 / 3) < 4 * error < 0.01
    True
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.asarray(cov, dtype=np.float64))
    factor = vectors * np.sqrt(np.maximum(values, 0.0))  # rounding may make zeros negative
    rng = np.random.default_rng(seed)
    rows = max(1, CHUNK // len(factor))
    inside = 0
    for first in range(0, draws, rows):
        x = rng.standard_normal((min(rows, draws - first), len(factor))) @ factor.T
        inside += int(np.count_nonzero(np.all((lower <= x) & (x <= upper), axis=1)))
    share = (inside + 1) / (draws + 2)
    return Estimate(inside / draws, float(np.sqrt(share * (1 - share) / draws)))
