"""Genz integration: reorder, tilt if asked to, average the weights over shifted lattices."""

from functools import partial

import numpy as np

from mvnorth._cpu.genz import PANEL, genz_sums
from mvnorth._linalg.reorder_large import reorder_all
from mvnorth._methods.lattice_rule import (
    Points,
    corner_share,
    disclaim_beyond_reach,
    integrate,
)
from mvnorth._methods.tilting import tilt
from mvnorth._problem import Budget, Estimate, Problems

_CHUNK = 2**22  # entries of T at a time: 32 MB


def solve(problems: Problems, budget: Budget, seed: int, tilted: bool = False) -> Estimate:
    """Probabilities of ``problems`` by Genz's method, or that of tilted variables."""
    chunk = max(1, _CHUNK // _padded(problems.d) ** 2)
    return Estimate.concatenate(
        [
            _solve_chunk(problems.take(slice(k, k + chunk)), budget, seed, tilted)
            for k in range(0, problems.size, chunk)
        ]
    )


def _padded(d: int) -> int:
    return -(-d // PANEL) * PANEL


def _first_level(d: int) -> int:
    """log2 of the points a shift to start with; fewer than 2d would repeat coordinates."""
    return max(7, int(np.ceil(np.log2(2 * d))))


def _solve_chunk(problems: Problems, budget: Budget, seed: int, tilted: bool = False) -> Estimate:
    size, d = problems.lower.shape
    padded = _padded(d)
    lower, upper = problems.lower.copy(), problems.upper.copy()
    T = np.empty((size, padded, padded))
    rank = np.empty(size, dtype=np.int64)
    attached = np.empty((size, d), dtype=np.int64)

    ordered = (T, lower, upper, rank, attached)
    origin = (np.empty_like(attached), np.empty((size, d)))
    reorder_all(problems.factor, problems.singular, *ordered, *origin)
    system = (*ordered, np.zeros((size, d)), np.zeros((size, d)))
    if tilted:
        found = tilt(*system, problems.singular)
    norm = np.sqrt(np.max(np.einsum("bij,bij->bi", T, T), axis=1))
    corner = corner_share(np.where(rank > 1, norm, 0.0))

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return points.log_sums(partial(genz_sums, *system), rows, d * (6e-9 + d * 3e-11))

    log_scale = found.log_scale if tilted else None
    estimate = integrate(weigh, corner, d, _first_level(d), budget, seed, log_scale)
    deviation = np.sqrt(np.sum(problems.factor**2, axis=2))
    if tilted:
        estimate = found.scaled(estimate)
    disclaim_beyond_reach(estimate, problems.lower, problems.upper, deviation)
    return estimate
