"""Means of weights over randomly shifted lattices, until their spread is small enough.

The points come in ``REPLICATES`` independent shifts of one embedded lattice.  Each shift gives
an unbiased estimate; their mean is the answer and their spread its error.  Without a given
number of points the lattice is doubled, keeping what has been computed, until the error meets
the tolerance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import stdtrit

from mvnorth import qmc
from mvnorth._cpu.genz import BLOCK
from mvnorth._problem import Budget, Estimate
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
# Corners of the integrand that points may miss, in shares of a point: of a smooth one, and of one
# with steps, which a row of the factor makes whose norm is above STEEP.
CORNER, STEP_CORNER, STEEP = 0.1, 5.0, 20.0
PART = 2048  # points an item of work, fewer from d = 256 on: enough items for all threads


@dataclass(frozen=True)
class Points:
    """Every ``stride``-th point of shifted lattices, in parts of ``count`` points.

    Attributes
    ----------
    z : (d,) lattice vector over the number of points
    shifts : (R, d)
    start : (parts,) numerator of the first point of each part
    """

    z: np.ndarray
    shifts: np.ndarray
    start: np.ndarray
    stride: int
    count: int

    def log_sums(self, kernel: Callable[..., object], rows: np.ndarray, cost: float) -> np.ndarray:
        """Logs of sum and largest weight (rows, R, parts, 2), ``cost`` seconds a sample.

        ``kernel(rows, z, shifts, start, stride, count, out, begin, end)`` is such as
        ``mvnorth._cpu.genz.genz_sums``.
        """
        shape = (rows.size, len(self.shifts), self.start.size)
        out = np.empty((int(np.prod(shape)), 2))
        where = (self.z, self.shifts, self.start, self.stride, self.count)
        work = len(out) * max(self.count, BLOCK)
        run_items(partial(kernel, rows, *where, out), len(out), work * cost)
        return out.reshape(*shape, 2)


@dataclass(frozen=True)
class Tilt:
    """What tilting leaves to be said of the weights of each problem, see ``_cpu/tilting.py``.

    Attributes
    ----------
    log_scale : (B,) what logarithms of weights are to be increased by
    rounding : (B,) bound on the rounding error of logarithms of weights
    log_bound : (B,) upper bound on the logarithm of the probability
    gap : (B,) by how much weights of exponential tilting may exceed the bound; infinite if there
        are none
    """

    log_scale: np.ndarray
    rounding: np.ndarray
    log_bound: np.ndarray
    gap: np.ndarray

    @classmethod
    def empty(cls, size: int) -> "Tilt":
        return cls(*np.empty((4, size)))

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        return self.log_scale, self.rounding, self.log_bound, self.gap

    def scaled(self, mean_weights: Estimate) -> Estimate:
        """The probabilities, from the mean weights."""
        error = mean_weights.rel_error
        with np.errstate(over="ignore", invalid="ignore"):
            # A logarithm known to 1000 is not known at all.
            total = error + np.expm1(self.rounding) * (1.0 + error)
        return Estimate(
            mean_weights.log_prob + self.log_scale,
            np.where(np.isnan(total), np.inf, total),
            mean_weights.n,
            self.log_bound,
        )


def integrate(
    weigh: Callable[[np.ndarray, Points], np.ndarray],
    corner: np.ndarray,
    d: int,
    first_level: int,
    budget: Budget,
    seed: int,
    log_scale: np.ndarray | None = None,
) -> Estimate:
    """Estimates of mean weights.

    Parameters
    ----------
    weigh : ``weigh(rows, points)`` are logs of sum and largest weight (rows, R, parts, 2)
    corner : (B,) share of a point that may hide a corner of the integrand
    d : coordinates of a point
    first_level : log2 of the points a shift to start with, if the tolerance decides
    log_scale : (B,) what makes probabilities of mean weights, for the tolerance; 0 if None
    """
    if budget.n is None:
        replicates, last = _split_points(budget.most)
        replicates, level = min(replicates, REPLICATES), min(last, first_level)
    else:
        replicates, last = _split_points(budget.n)
        level = last
    shifts = qmc.random_shifts(seed, replicates, d)
    z = qmc.lattice_vector(d)

    part = max(BLOCK, PART // 2 ** max(0, (d // 128).bit_length() - 1))

    def add(rows: np.ndarray, level: int, first: int, stride: int) -> np.ndarray:
        """Logs of sum and largest weight (rows, R, 2) over every ``stride``-th numerator."""
        count = 2**level // stride
        start = np.arange(0, count, part) * stride + first
        points = Points(z / 2**level, shifts, start, stride, min(count, part))
        parts = weigh(rows, points)
        return np.stack([log_sum(parts[..., 0], axis=2), parts[..., 1].max(axis=2)], axis=2)

    size = corner.size
    scale = np.zeros(size) if log_scale is None else log_scale
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
        short = ~budget.tolerance.met(log_prob + scale[rows], rel_error)
        rows, even = rows[short], _join(even, odd)[short]
        level += 1
    return estimate


def corner_share(norm: np.ndarray) -> np.ndarray:
    """``corner`` for ``integrate`` from the largest norm of a row of the factor below its diagonal.

    The row's limits are met or not within 1/norm of a variable: steps, the larger it is.  Of
    steps all or nothing is seen, so that the spread of the shifts does not tell of them.  A
    constant has no corner.
    """
    share = CORNER + STEP_CORNER * np.minimum(1.0, norm / STEEP) ** 2
    return np.asarray(np.where(norm > 0.0, share, 0.0))


def disclaim_beyond_reach(
    estimate: Estimate, lower: np.ndarray, upper: np.ndarray, deviation: np.ndarray
) -> None:
    """Phi is cut off at Z_MAX: where a limit lies beyond, the estimate is a bound at best."""
    reach = Z_MAX * deviation
    beyond = ((upper < -reach) | (lower > reach)).any(axis=1)
    beyond |= estimate.log_prob < -0.45 * Z_MAX**2  # a conditional limit did
    estimate.rel_error[beyond] = np.inf


def _split_points(n: int) -> tuple[int, int]:
    """(replicates, level): at most n points as replicates * 2**level, from 8 replicates on."""
    level = min(max(0, (n // REPLICATES).bit_length() - 1), qmc.MAX_LEVEL)
    return n >> level, level


def _join(even: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """Log sums and largest weights (..., 2) of two sets of points together."""
    total = np.logaddexp(even[..., 0], odd[..., 0])
    return np.stack([total, np.maximum(even[..., 1], odd[..., 1])], axis=-1)


def log_sum(logs: np.ndarray, axis: int) -> np.ndarray:
    """log of the sum of exp along an axis, -inf where all are."""
    peak = np.max(logs, axis=axis, keepdims=True)
    peak[peak == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        return np.squeeze(peak, axis) + np.log(np.sum(np.exp(logs - peak), axis=axis))


def spread_bound(whole: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Bound (rows, ...) on the error of the mean of estimates, from their spread.

    Parameters
    ----------
    whole : (rows, R, ...) one estimate a shift
    halves : (rows, 2R or 0, ...) the estimates of both halves of the lattices
    """

    def bound(means: np.ndarray) -> np.ndarray:
        """Student's bound on the mean of R estimates, from any number of like ones."""
        quantile = stdtrit(means.shape[1] - 1, 0.5 + CONFIDENCE / 2)
        return np.asarray(quantile * np.std(means, axis=1, ddof=1) / np.sqrt(whole.shape[1]))

    error = SAFETY * bound(whole)
    return np.maximum(error, HALVING * bound(halves)) if halves.shape[1] else error


def unseen_share(carriers: np.ndarray, n: int | np.ndarray) -> np.ndarray:
    """What points unseen may add to a sum, relative to it.

    Where few points carry the sum, all replicates may have missed what matters and their spread
    says little.  What the unseen may add was measured in shares of the heaviest point.

    Parameters
    ----------
    carriers : (...) the sum over its largest term
    n : number of terms, one for all or (...)
    """
    uneven = np.clip((n / carriers - 8.0) / 12.0, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        unseen = 3.0 / carriers + 120.0 / np.maximum(carriers - 3.0, 0.0) ** 2
    return np.multiply(uneven, unseen, where=uneven > 0.0, out=np.zeros(carriers.shape))


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
    log_total = log_sum(log_sums[..., 0], axis=1)
    log_prob = log_total - np.log(n)
    if replicates < REPLICATES:  # too few to say anything about their spread
        return log_prob, np.full(log_prob.shape, np.inf)
    known = log_prob > -np.inf
    scale = np.where(known, log_prob, 0.0)[:, None] + np.log(points)
    halves = 2.0 * np.exp(np.concatenate([even[:, :, 0], odd[:, :, 0]], axis=1) - scale)
    whole = np.exp(log_sums[:, :, 0] - scale)
    rel_error = spread_bound(whole, halves if points > 1 else halves[:, :0])
    carriers = np.ones(known.shape)
    carriers[known] = np.exp(log_total[known] - log_sums[known, :, 1].max(axis=1))
    rel_error += unseen_share(carriers, n)
    # A corner of the integrand with less than a point's share is easily missed by all of them.
    rel_error += 1e-13 + 1e-14 * d + corner / n
    # No point had any weight: the estimate 0 says nothing of how small the probability is.
    return log_prob, np.where(known, rel_error, np.inf)
