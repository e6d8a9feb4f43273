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
from mvnorth._cpu.lattice_sums import join_parts, summarise, unseen_shares
from mvnorth._estimate import Estimate
from mvnorth._points import Points
from mvnorth._problem import Request

REPLICATES = 8
CONFIDENCE = 0.99
# Student's bound alone held in 94 to 98 % of the runs: replicates are skewed rather than normal,
# and stopping when the estimate is small favours runs that underestimate their error.  The factor,
# and a second look at the spread of the lattices' halves (whose error doubling should reduce to
# about HALVING, and which are twice as many), bring it to 99 %.
SAFETY = 1.3
HALVING = 0.7
_STORED = 2.0**-22  # a few roundings of T and of a variable
PART = 2048  # points an item of work, fewer from d = 256 on: enough items for all threads


@dataclass(eq=False)  # a frozen one takes three times as long to make
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
        return cls(*np.empty((5, size)))  # five arrays

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        return self.log_scale, self.rounding, self.of_problem, self.log_bound, self.gap


def mean_weights(
    weigh: Callable[[np.ndarray, Points], np.ndarray],
    corner: np.ndarray,
    d: int,
    first_level: int,
    request: Request,
    log_scale: np.ndarray | None = None,
    settled: Callable[[np.ndarray, Estimate], np.ndarray] | None = None,
) -> Estimate:
    """Return estimates of mean weights, times ``exp(log_scale)``.

    Parameters
    ----------
    weigh : ``weigh(rows, points)`` are logs of sum and largest weight (rows, R, parts, 2)
    corner : (B,) share of a point that may hide a corner of the integrand
    d : coordinates of a point
    first_level : log2 of the points a shift to start with, if the tolerance decides
    log_scale : (B,) what makes probabilities of mean weights; 0 if None
    settled : ``settled(rows, estimate)`` says which of the rows need no more points, in place of
        the tolerance of the probability
    """
    if request.n is None:
        replicates, last = _split_points(request.most)
        replicates, level = min(replicates, REPLICATES), min(last, first_level)
    else:
        replicates, last = _split_points(request.n)
        level = last
    shifts = _random_shifts(request.seed, replicates, d)
    part = max(BLOCK, PART // 2 ** max(0, (d // 128).bit_length() - 1))

    def add(rows: np.ndarray, level: int, first: int, stride: int) -> np.ndarray:
        """Return logs of sum and largest weight (rows, R, 2) over every ``stride``-th numerator."""
        count = 2**level // stride
        start = np.arange(first, count * stride, part * stride)
        points = Points(_lattice_vector(d, level), shifts, start, stride, min(count, part))
        parts = weigh(rows, points)
        if start.size == 1:
            return parts.reshape(*parts.shape[:2], 2)
        out = np.empty((*parts.shape[:2], 2))
        join_parts(parts.reshape(-1, *parts.shape[2:]), out.reshape(-1, 2))
        return out

    size = corner.size
    scale = np.zeros(size) if log_scale is None else log_scale
    estimate = Estimate.exact(np.empty(size), np.empty(size))
    results = (estimate.log_prob, estimate.rel_error, estimate.n)
    of_shifts = of_halves = np.inf
    if replicates >= REPLICATES:
        of_shifts = SAFETY * student_quantile(replicates)
        of_halves = HALVING * student_quantile(2 * replicates)
    errors = (corner, of_shifts, of_halves, 1e-13 + 1e-14 * d)
    rows = np.arange(size)
    even = add(rows, max(0, level - 1), 0, 1)
    while True:
        # A lattice of one point a shift has no odd half.
        odd = add(rows, level, 1, 2) if level else np.full_like(even, -np.inf)
        joined = np.empty(even.shape)
        summarise(even, odd, 2**level, rows, scale, *errors, joined, *results)
        if level == last:
            break
        if settled is None:
            short = ~request.tolerance.met(estimate.log_prob[rows], estimate.rel_error[rows])
        else:
            short = ~settled(rows, estimate)
        if not short.any():
            break
        rows, even = rows[short], joined[short]
        level += 1
    return estimate


def storage_rounding(estimate: Estimate, d: int, request: Request) -> np.ndarray | float:
    """Return the relative error of variables stored in single precision, (B,), or 0."""
    if request.device is None or request.device.dtype == np.float64:
        return 0.0
    return _STORED * (d + 2.0 * np.abs(estimate.log_prob))


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


def unseen_share(carriers: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return a bound on what unseen points may add to a sum, relative to the sum.

    Parameters
    ----------
    carriers : (...) the sum over its largest term
    n : (...) number of terms
    """
    out = np.empty(carriers.shape)
    counts = np.broadcast_to(n, out.shape).astype(np.float64)
    unseen_shares(np.ascontiguousarray(carriers).reshape(-1), counts.reshape(-1), out.reshape(-1))
    return out


@lru_cache(64)
def _lattice_vector(d: int, level: int) -> np.ndarray:
    """Return the lattice vector over the number of points, which kernels only read."""
    return qmc.lattice_vector(d) / 2**level


@lru_cache(64)
def _random_shifts(seed: int, replicates: int, d: int) -> np.ndarray:
    """Return shifts that kernels only read."""
    return qmc.random_shifts(seed, replicates, d)


@cache
def student_quantile(count: int) -> float:
    """Return the two-sided quantile of ``CONFIDENCE`` for the spread of ``count`` estimates."""
    return float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
