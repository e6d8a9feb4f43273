"""Means of weights over randomly shifted lattices, until their spread is small enough.

The points come in ``REPLICATES`` independent shifts of one embedded lattice.  Each shift gives
an unbiased estimate; their mean is the answer and their spread its error.  Without a given
number of points the lattice is doubled, keeping what has been computed, until the error meets
the tolerance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from scipy.special import stdtrit

from mvnorth import qmc
from mvnorth._cpu.genz import BLOCK
from mvnorth._cpu.lattice_sums import join_parts, summarise
from mvnorth._estimate import Estimate
from mvnorth._points import Points
from mvnorth._problem import Request
from mvnorth._scalar.normal import Z_MAX

REPLICATES = 8
CONFIDENCE = 0.99
# Student's bound alone held in 94 to 98 % of the runs: replicates are skewed rather than normal,
# and stopping when the estimate is small favours runs that underestimate their error.  The factor,
# and a second look at the spread of the lattices' halves (whose error doubling should reduce to
# about HALVING, and which are twice as many), bring it to 99 %.
SAFETY = 1.3
HALVING = 0.7
# Corners of the integrand that points may miss, in shares of a point: of a smooth one, and of one
# with steps, which a row of the factor makes whose norm is above STEEP.
CORNER, STEP_CORNER, STEEP = 0.1, 5.0, 20.0
_STORED = 2.0**-22  # a few roundings of T and of a variable
PART = 2048  # points an item of work, fewer from d = 256 on: enough items for all threads


@dataclass(frozen=True)
class Tilt:
    """Scales, rounding errors and bounds of tilted weights, see ``_cpu/tilting.py``.

    Attributes
    ----------
    log_scale : (B,) number to add to logarithms of weights
    rounding : (B,) bound on the rounding error of logarithms of weights
    of_problem : (B,) bound on what the rounding of the covariance does to log P
    log_bound : (B,) upper bound on the logarithm of the probability
    gap : (B,) by how much weights of exponential tilting may exceed the bound; infinite if there
        are none
    """

    log_scale: np.ndarray
    rounding: np.ndarray
    of_problem: np.ndarray
    log_bound: np.ndarray
    gap: np.ndarray

    @classmethod
    def empty(cls, size: int) -> "Tilt":
        return cls(*np.empty((5, size)))

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        return self.log_scale, self.rounding, self.of_problem, self.log_bound, self.gap

    def scaled(self, mean_weights: Estimate) -> Estimate:
        """Return the probabilities from the mean weights; errors are still those of the weights."""
        log_prob = mean_weights.log_prob + self.log_scale
        return Estimate(log_prob, mean_weights.rel_error, mean_weights.n, self.log_bound)


def add_rounding(
    estimate: Estimate, rounding: np.ndarray, of_problem: np.ndarray, most: float
) -> None:
    """Add rounding errors of log P to relative errors of P, in place.

    Parameters
    ----------
    rounding : (B,) that of weights and limits
    of_problem : (B,) that of the covariance, to first order
    most : what the latter moves a probability by at most
    """
    error = estimate.rel_error
    with np.errstate(over="ignore", invalid="ignore"):
        # A logarithm known to 1000 is not known at all.
        from_problem = np.fmin(np.expm1(of_problem), most * np.exp(-estimate.log_prob))
        total = error + (np.expm1(rounding) + from_problem) * (1.0 + error)
    error[:] = np.where(np.isnan(total), np.inf, total)


def mean_weights(
    weigh: Callable[[np.ndarray, Points], np.ndarray],
    corner: np.ndarray,
    d: int,
    first_level: int,
    request: Request,
    log_scale: np.ndarray | None = None,
) -> Estimate:
    """Return estimates of mean weights.

    Parameters
    ----------
    weigh : ``weigh(rows, points)`` are logs of sum and largest weight (rows, R, parts, 2)
    corner : (B,) share of a point that may hide a corner of the integrand
    d : coordinates of a point
    first_level : log2 of the points a shift to start with, if the tolerance decides
    log_scale : (B,) what makes probabilities of mean weights, for the tolerance; 0 if None
    """
    if request.n is None:
        replicates, last = _split_points(request.most)
        replicates, level = min(replicates, REPLICATES), min(last, first_level)
    else:
        replicates, last = _split_points(request.n)
        level = last
    shifts = _random_shifts(request.seed, replicates, d)
    z = qmc.lattice_vector(d)

    part = max(BLOCK, PART // 2 ** max(0, (d // 128).bit_length() - 1))

    def add(rows: np.ndarray, level: int, first: int, stride: int) -> np.ndarray:
        """Return logs of sum and largest weight (rows, R, 2) over every ``stride``-th numerator."""
        count = 2**level // stride
        start = np.arange(0, count, part) * stride + first
        points = Points(z / 2**level, shifts, start, stride, min(count, part))
        parts = weigh(rows, points)
        if start.size == 1:
            return parts[:, :, 0]
        out = np.empty((*parts.shape[:2], 2))
        join_parts(parts.reshape(-1, *parts.shape[2:]), out.reshape(-1, 2))
        return out

    size = corner.size
    scale = np.zeros(size) if log_scale is None else log_scale
    estimate = Estimate.exact(np.empty(size), np.empty(size))
    rows = np.arange(size)
    even = add(rows, max(0, level - 1), 0, 1)
    while True:
        # A lattice of one point a shift has no odd half.
        odd = add(rows, level, 1, 2) if level else np.full_like(even, -np.inf)
        log_prob, rel_error, joined = _summarise(even, odd, 2**level, d, corner[rows])
        estimate.log_prob[rows] = log_prob
        estimate.rel_error[rows] = rel_error
        estimate.n[rows] = replicates * 2**level
        if level == last:
            break
        short = ~request.tolerance.met(log_prob + scale[rows], rel_error)
        if not short.any():
            break
        rows, even = rows[short], joined[short]
        level += 1
    return estimate


def corner_share(norm: np.ndarray) -> np.ndarray:
    """Return ``corner`` of ``mean_weights`` from the largest norm of a row below the diagonal.

    The row's limits are met or not within 1/norm of a variable: steps, the larger it is.  Of
    steps all or nothing is seen, so that the spread of the shifts does not tell of them.  A
    constant has no corner.
    """
    share = CORNER + STEP_CORNER * np.minimum(1.0, norm / STEEP) ** 2
    return np.asarray(np.where(norm > 0.0, share, 0.0))


def storage_rounding(estimate: Estimate, d: int, request: Request) -> np.ndarray | float:
    """Return the relative error of variables stored in single precision, (B,), or 0."""
    if request.device is None or request.device.dtype == np.float64:
        return 0.0
    return _STORED * (d + 2.0 * np.abs(estimate.log_prob))


def disclaim_beyond_reach(
    estimate: Estimate, lower: np.ndarray, upper: np.ndarray, deviation: np.ndarray
) -> None:
    """Set infinite errors where a limit lies beyond Z_MAX, at which Phi is cut off."""
    farthest = np.maximum(lower, -upper) - Z_MAX * deviation
    beyond = farthest.max(axis=1) > 0.0
    beyond |= estimate.log_prob < -0.45 * Z_MAX**2  # a conditional limit did
    estimate.rel_error[beyond] = np.inf


def _split_points(n: int) -> tuple[int, int]:
    """Return (replicates, level): replicates * 2**level <= n, replicates >= 8 if n allows it."""
    level = min(max(0, (n // REPLICATES).bit_length() - 1), qmc.MAX_LEVEL)
    return n >> level, level


def log_sum(logs: np.ndarray, axis: int) -> np.ndarray:
    """Return the log of the sum of exp along an axis, -inf where all are."""
    peak = np.max(logs, axis=axis, keepdims=True)
    peak[peak == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return np.squeeze(peak, axis) + np.log(np.sum(np.exp(logs - peak), axis=axis))


def spread_bound(whole: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Return a bound (rows, ...) on the error of the mean of estimates, from their spread.

    Parameters
    ----------
    whole : (rows, R, ...) one estimate a shift
    halves : (rows, 2R or 0, ...) the estimates of both halves of the lattices
    """

    def bound(means: np.ndarray) -> np.ndarray:
        """Return Student's bound on the mean of R estimates, from any number of similar ones."""
        quantile = student_quantile(means.shape[1])
        return np.asarray(quantile * np.std(means, axis=1, ddof=1) / np.sqrt(whole.shape[1]))

    error = SAFETY * bound(whole)
    return np.maximum(error, HALVING * bound(halves)) if halves.shape[1] else error


def unseen_share(carriers: np.ndarray, n: int | np.ndarray) -> np.ndarray:
    """Return a bound on what unseen points may add to a sum, relative to the sum.

    Where few points carry the sum, all replicates may have missed what matters and their spread
    says little.  What the unseen may add was measured in shares of the heaviest point.

    Parameters
    ----------
    carriers : (...) the sum over its largest term
    n : number of terms, one for all or (...)
    """
    share = n / carriers
    if share.max(initial=0.0) <= 8.0:
        return np.zeros(carriers.shape)
    uneven = np.clip((share - 8.0) / 12.0, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        unseen = 3.0 / carriers + 120.0 / np.maximum(carriers - 3.0, 0.0) ** 2
    return np.multiply(uneven, unseen, where=uneven > 0.0, out=np.zeros(carriers.shape))


def _summarise(
    even: np.ndarray, odd: np.ndarray, points: int, d: int, corner: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log of the mean weight, its relative error bound, and both halves joined.

    Parameters
    ----------
    even, odd : (rows, R, 2) logs of the sum of weights and of the largest weight of each shift,
        over the two halves of its lattice
    points : points a shift
    corner : (rows,) share of a point that may hide a corner of the integrand
    """
    rows, replicates, _ = even.shape
    n = replicates * points
    joined = np.empty_like(even)
    log_prob, carriers = np.empty(rows), np.empty(rows)
    spread = np.empty((rows, 2))
    summarise(even, odd, points, joined, log_prob, spread, carriers)
    if replicates < REPLICATES:  # too few to say anything about their spread
        return log_prob, np.full(rows, np.inf), joined
    rel_error = SAFETY * student_quantile(replicates) * spread[:, 0]
    if points > 1:
        of_halves = HALVING * student_quantile(2 * replicates) * spread[:, 1]
        rel_error = np.maximum(rel_error, of_halves)
    # A corner of the integrand with less than a point's share is easily missed by all of them.
    # No point had any weight: the estimate 0 says nothing of how small the probability is.
    rel_error += unseen_share(carriers, n) + (1e-13 + 1e-14 * d + corner / n)
    return log_prob, rel_error, joined


@lru_cache(64)
def _random_shifts(seed: int, replicates: int, d: int) -> np.ndarray:
    """Return shifts that kernels only read."""
    return qmc.random_shifts(seed, replicates, d)


@cache
def student_quantile(count: int) -> float:
    """Return the two-sided quantile of ``CONFIDENCE`` for the spread of ``count`` estimates."""
    return float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
