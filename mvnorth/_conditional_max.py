"""Expected maximum of arms with few common factors, by integration over these.

Given the common factors z, arms with the covariance diag(c) + V V^T are independent, so that

    E[max X] - mu_l = int phi(z) (E[max X | z] - E[X_l | z]) dz,

l the leader: an analytic function without negative values, for which the trapezoidal rule converges
geometrically once its step resolves the loadings.  Only differences of loadings matter; a factor
that all arms share drops out.
"""

import math

import numpy as np

from mvnorth._contest import Contest
from mvnorth._covariance.factors import FactorsRows
from mvnorth._cpu.expected_max import expected_max
from mvnorth._threads import run_items

_MOST_FACTORS = 3
_FIRST_STEP = 0.6
_ENTRIES = 2**24  # nodes times arms at most: 128 MB
_REACH = 84.0  # exp(-42) is negligible
_LOG_LEAST = math.log(1e-280)  # what underflows at single nodes does not count from here on
_ROUNDING = 1e-13
_COST = 5e-7  # seconds that an arm takes at a node


def integrate_factors(contest: Contest, relative: float, nodes: int) -> tuple[float, float]:
    """Return the log of the result and a bound on its relative error, infinite if it is unknown.

    With up to so many nodes.
    """
    covariance, arms = contest.covariance, contest.arms
    assert isinstance(covariance, FactorsRows)
    c, V = covariance.c[0, arms], covariance.V[0, arms]
    left, sizes, _ = np.linalg.svd(V - V[0], full_matrices=False)
    loadings = (left * sizes)[:, sizes > 1e-14 * max(sizes[0], float(np.sqrt(c.max())))]
    loadings[0] = 0.0  # of the leader: the rounding of svd would exceed small results
    k = loadings.shape[1]
    if k > _MOST_FACTORS or contest.log_scale < _LOG_LEAST:
        return contest.log_scale, np.inf
    mean = contest.mean[arms] - contest.mean[contest.leader]
    nearest = contest.others[np.argmax(contest.log_excess[contest.others])]
    gap = contest.mean[contest.leader] - contest.mean[nearest]
    square = gap**2 / contest.variance[contest.leader, nearest]
    rounding = _ROUNDING * (1.0 + square)
    reach = math.sqrt(square + _REACH)
    step, before, error, total = _first_step(c, loadings), np.nan, np.inf, 0.0
    while True:
        count = 2 * int(reach / step) + 1
        if count**k > nodes or count**k * arms.size > _ENTRIES:
            break
        total = _sum_nodes(mean, np.sqrt(c), loadings, step, count // 2)
        if k == 0:
            error = 0.0
            break
        change = abs(before / total - 1.0) if total > 0.0 else np.inf
        if change == change:  # from the second step on; halving squares the error
            error = change * min(1.0, 10.0 * math.sqrt(change))
        if error + rounding <= relative or error <= rounding:
            break
        before, step = total, 0.5 * step
    if not total > 0.0:
        return contest.log_scale, np.inf
    return math.log(total), error + rounding


def _first_step(c: np.ndarray, loadings: np.ndarray) -> float:
    """Return a step of at most twice the smallest distance over which two arms change places.

    From half of it on the rule converges geometrically; before that its changes say little.
    """
    apart = np.sqrt(np.sum((loadings[:, None] - loadings) ** 2, axis=2))
    own = np.sqrt(c[:, None] + c)
    shortest = np.min(np.where(apart > 0.0, own / np.maximum(apart, 1e-300), np.inf))
    step = _FIRST_STEP
    while step > 2.0 * shortest:
        step *= 0.5
    return step


def _sum_nodes(
    mean: np.ndarray, deviation: np.ndarray, loadings: np.ndarray, step: float, half: int
) -> float:
    """Return the trapezoidal sum over a grid of 2 half + 1 nodes in each direction."""
    k = loadings.shape[1]
    axes = np.meshgrid(*[step * np.arange(-half, half + 1.0)] * k, indexing="ij")
    z = np.stack([axis.ravel() for axis in axes], axis=1) if k else np.zeros((1, 0))
    squares = np.sum(z * z, axis=1)
    inside = squares <= (step * (half + 1)) ** 2
    z, squares = z[inside], squares[inside]
    means = mean + z @ loadings.T
    size, classes = means.shape
    largest, loss = np.empty(size), np.empty(size)
    none = np.empty((0, classes))

    def some(begin: int, end: int) -> None:
        expected_max(means, deviation[None], largest, loss, none, none, begin, end)

    run_items(some, size, size * classes * _COST)
    weight = np.exp(-0.5 * squares) * (step / math.sqrt(2.0 * math.pi)) ** k
    return float(np.sum(weight * (largest + loss)))
