"""Genz integration: reorder, then randomly shifted lattices until the spread is small enough.

The points come in ``REPLICATES`` independent shifts of one embedded lattice.  Each shift gives
an unbiased estimate; their mean is the answer and their spread its error.  Without a given
number of points the lattice is doubled, keeping what has been computed, until the error meets
the tolerance.
"""

from functools import partial

import numpy as np
from scipy.special import stdtrit

from mvnorth import qmc
from mvnorth._cpu.genz import BLOCK, PANEL, genz_sums
from mvnorth._linalg.reorder import reorder
from mvnorth._problem import Budget, Estimate, Problems
from mvnorth._scalar.normal import Z_MAX
from mvnorth._threads import run_items

REPLICATES = 8
CONFIDENCE = 0.99
# Student's bound alone held in 94 to 98 % of the runs: replicates are skewed rather than normal,
# and stopping when the estimate is small favours runs that underestimate their error.  The factor,
# and a second look at the spread of the lattices' halves (whose error doubling should reduce to
# about HALVING, and which are twice as many), bring it to 99 %.
SAFETY = 1.3
HALVING = 0.7
CORNER = 0.1  # of a point's share
_PART = 2048  # points an item of work
_CHUNK = 2**22  # entries of T at a time: 32 MB


def solve(problems: Problems, budget: Budget, seed: int) -> Estimate:
    """Probabilities of ``problems`` by Genz's method."""
    chunk = max(1, _CHUNK // _padded(problems.d) ** 2)
    return Estimate.concatenate(
        [
            _solve_chunk(problems.take(slice(k, k + chunk)), budget, seed)
            for k in range(0, problems.size, chunk)
        ]
    )


def _padded(d: int) -> int:
    return -(-d // PANEL) * PANEL


def _first_level(d: int) -> int:
    """log2 of the points a shift to start with; fewer than 2d would repeat coordinates."""
    return max(7, int(np.ceil(np.log2(2 * d))))


def _split_points(n: int) -> tuple[int, int]:
    """(replicates, level): at most n points as replicates * 2**level, from 8 replicates on."""
    level = min(max(0, (n // REPLICATES).bit_length() - 1), qmc.MAX_LEVEL)
    return n >> level, level


def _solve_chunk(problems: Problems, budget: Budget, seed: int) -> Estimate:
    size, d = problems.lower.shape
    padded = _padded(d)
    lower, upper = problems.lower.copy(), problems.upper.copy()
    T = np.empty((size, padded, padded))
    rank = np.empty(size, dtype=np.int64)
    attached = np.empty((size, d), dtype=np.int64)

    system = (T, lower, upper, rank, attached)
    order = partial(reorder, problems.factor, problems.singular, *system)
    run_items(order, size, size * d * d * (d + 30) * 4e-10)
    corner = np.where((rank <= 1) | ~T.any(axis=(1, 2)), 0.0, CORNER)  # a constant has none

    if budget.n is None:
        replicates, last = _split_points(budget.most)
        replicates, level = min(replicates, REPLICATES), min(last, _first_level(d))
    else:
        replicates, last = _split_points(budget.n)
        level = last
    shifts = qmc.random_shifts(seed, replicates, d)
    z = qmc.lattice_vector(d)

    def add(rows: np.ndarray, level: int, first: int, stride: int) -> np.ndarray:
        """Logs of sum and largest weight (rows, R, 2) over every ``stride``-th numerator."""
        points = 2**level // stride
        start = np.arange(0, points, _PART) * stride + first
        out = np.empty((rows.size * replicates * start.size, 2))
        part = min(points, _PART)
        kernel = partial(genz_sums, rows, *system, z / 2**level, shifts, start, stride, part, out)
        work = rows.size * replicates * max(points, BLOCK)
        run_items(kernel, len(out), work * d * (6e-9 + d * 3e-11))
        shaped = out.reshape(rows.size, replicates, start.size, 2)
        return np.stack([_log_sum(shaped[..., 0], axis=2), shaped[..., 1].max(axis=2)], axis=2)

    estimate = Estimate(np.empty(size), np.empty(size), np.zeros(size, dtype=np.int64))
    rows = np.arange(size)
    even = add(rows, max(0, level - 1), 0, 1)
    while rows.size:
        # A lattice of one point a shift has no odd half.
        odd = add(rows, level, 1, 2) if level else np.full_like(even, -np.inf)
        log_prob, rel_error = _summarise(even, odd, 2**level, d, corner[rows])
        estimate.log_prob[rows] = log_prob
        estimate.rel_error[rows] = rel_error
        estimate.n[rows] = replicates * 2**level
        if level == last:
            break
        short = ~budget.tolerance.met(log_prob, rel_error)
        rows, even = rows[short], _join(even, odd)[short]
        level += 1
    # Phi is cut off at Z_MAX: where a limit lies beyond, the estimate is a bound at best.
    reach = Z_MAX * np.sqrt(np.sum(problems.factor**2, axis=2))
    beyond = ((problems.upper < -reach) | (problems.lower > reach)).any(axis=1)
    beyond |= estimate.log_prob < -0.45 * Z_MAX**2  # a conditional limit did
    estimate.rel_error[beyond] = np.inf
    return estimate


def _join(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """Log sums and largest weights (..., 2) of two sets of points together."""
    total = np.logaddexp(even[..., 0], odd[..., 0])
    return np.stack([total, np.maximum(even[..., 1], odd[..., 1])], axis=-1)


def _log_sum(logs: np.ndarray, axis: int) -> np.ndarray:
    """log of the sum of exp along an axis, -inf where all are."""
    peak = np.max(logs, axis=axis, keepdims=True)
    peak[peak == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return np.squeeze(peak, axis) + np.log(np.sum(np.exp(logs - peak), axis=axis))


def _summarise(
    even: np.ndarray, odd: np.ndarray, points: int, d: int, corner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log of the probability and relative error bound.

    Parameters
    ----------
    even, odd : (rows, R, 2) logs of the sum of weights and of the largest weight of each shift,
        over the two halves of its lattice
    points : points a shift
    corner : (rows,) share of a point that may hide a corner of the integrand
    """
    replicates = even.shape[1]
    n = replicates * points
    log_sums = _join(even, odd)
    log_total = _log_sum(log_sums[..., 0], axis=1)
    log_prob = log_total - np.log(n)
    if replicates < REPLICATES:  # too few to say anything about their spread
        return log_prob, np.full(log_prob.shape, np.inf)
    known = log_prob > -np.inf
    scale = np.where(known, log_prob, 0.0)[:, None] + np.log(points)

    def bound(means: np.ndarray) -> np.ndarray:
        """Student's bound on the mean of R relative estimates, from any number of like ones."""
        quantile = stdtrit(means.shape[1] - 1, 0.5 + CONFIDENCE / 2)
        return np.asarray(quantile * np.std(means, axis=1, ddof=1) / np.sqrt(replicates))

    rel_error = SAFETY * bound(np.exp(log_sums[:, :, 0] - scale))
    if points > 1:
        halves = 2.0 * np.exp(np.concatenate([even[:, :, 0], odd[:, :, 0]], axis=1) - scale)
        rel_error = np.maximum(rel_error, HALVING * bound(halves))
    # Where few points carry the sum, all replicates may have missed what matters and their spread
    # says little.  What the unseen may add was measured in shares of the heaviest point.
    carriers = np.ones(known.shape)  # the sum over its largest term
    carriers[known] = np.exp(log_total[known] - log_sums[known, :, 1].max(axis=1))
    uneven = np.clip((n / carriers - 8.0) / 12.0, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        unseen = 3.0 / carriers + 120.0 / np.maximum(carriers - 3.0, 0.0) ** 2
    rel_error += np.multiply(uneven, unseen, where=uneven > 0.0, out=np.zeros(known.shape))
    # A corner of the integrand with less than a point's share is easily missed by all of them.
    rel_error += 1e-13 + 1e-14 * d + corner / n
    # No point had any weight: the estimate 0 says nothing of how small the probability is.
    return log_prob, np.where(known, rel_error, np.inf)
