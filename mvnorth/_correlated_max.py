"""Expected maximum of correlated normal arms: exactly where orthants are, else by sampling.

By Stein's identity, with P_i the probability that arm i is the largest, V_ij the variance of
X_i - X_j and A_ij = -dP_i/dmu_j >= 0, which is symmetric,

    E[max X] - mu_l = sum_i P_i (mu_i - mu_l) + sum_(i<j) A_ij V_ij.

This is taken where P and A are exact, for up to four arms.  With few common factors arms are
independent given these, see ``_conditional_max.py``.  All others are sampled, by the mixture of
``_cpu/largest_excess.py``, with a relative error that does not depend on the size of the result:
the errors of many sampled derivatives would add up, and small results cancel.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from mvnorth._conditional_max import integrate_factors
from mvnorth._contest import Contest, make_contest
from mvnorth._correlated_argmax import differences, winning_orthants
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._cpu.lattice_sums import CORNER
from mvnorth._methods.lattice_rule import mean_weights
from mvnorth._points import Points
from mvnorth._problem import Request, Tolerance
from mvnorth._size_biased import excess_tables
from mvnorth._solve import differentiate
from mvnorth._status import derivative_of_probability

_CHUNK = 2**22  # numbers of covariances at a time: 32 MB
_EXACT_ARMS = 4
_FEW_NODES, _MANY_NODES = 2**16, 2**21  # over common factors, before sampling and after it
_GAUSS_ARMS = 10  # up to which Gauss rules may do better than sampling
_FINER = 1e-2  # tolerance of probabilities in that of the result: derivatives err more
_ROUNDING = 1e-13
_TABLES = 1e-8  # relative error that tables of draws may cause
_FIRST_LEVEL = 9  # log2 of the points a shift to start with
# Most weights are 1 where results are small, and their spread is that of a few: it is skewed.
_SKEWED = 1.3


def contests(
    means: np.ndarray, covariance: CovarianceRows, tolerances: list[Tolerance]
) -> Iterator[Contest]:
    """Yield the contest of each row of means (B, C), with 1 or B covariances."""
    same, variance = differences(covariance, means.shape[1])
    for b, (mean, tolerance) in enumerate(zip(means, tolerances, strict=True)):
        shared = b if len(same) > 1 else 0
        row = covariance.take(np.array([shared])) if len(same) > 1 else covariance
        yield make_contest(mean, row, same[shared], variance[shared], tolerance)


def excess_over_leader(contest: Contest, seed: int) -> tuple[float, float]:
    """Return log(E[max X] - mu_l) and a bound on its relative error; (-inf, 0) for one arm."""
    n = contest.others.size
    if n == 0:
        return -np.inf, 0.0
    target, missing = contest.tolerance, contest.missing
    if n == 1:
        gap = contest.mean[contest.leader] - contest.mean[contest.others[0]]
        square = gap**2 / contest.variance[contest.leader, contest.others[0]]
        return contest.log_scale, missing + _ROUNDING * (1.0 + square)
    log_loss, error = -np.inf, np.inf
    for integrate in _methods(contest, seed):
        other = integrate(contest, target - missing)
        if other[1] < error:
            log_loss, error = other
        if error + missing <= target:
            break
    return log_loss, error + missing


def _methods(contest: Contest, seed: int) -> Iterator[Callable[..., tuple[float, float]]]:
    """Yield functions of a contest and a relative tolerance, in the order in which to try them."""
    n = contest.others.size
    if contest.given_factors:
        yield partial(integrate_factors, nodes=_FEW_NODES)
    if n < _EXACT_ARMS:
        yield partial(_by_stein, seed=seed)
    yield partial(_by_mixture, seed=seed)
    if contest.given_factors:
        yield partial(integrate_factors, nodes=_MANY_NODES)
    if _EXACT_ARMS <= n < _GAUSS_ARMS:
        yield partial(_by_stein, seed=seed)


def solve_orthants(
    contest: Contest, tolerance: Tolerance, log_unit: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return P (n,) and its errors, A (n, n) and its errors, of the arms that count.

    All are in units of exp(log_unit), and the leader is the first arm.
    """
    arms = contest.arms
    n = arms.size
    row = contest.marginal(arms)
    gap = contest.gaps(arms)
    same = np.eye(n, dtype=bool)
    log_prob, rel_error = np.empty(n), np.empty(n)
    value, error = np.zeros((n, n)), np.zeros((n, n))
    request = Request(tolerance, seed=seed, wrt=("upper",))
    step = max(1, _CHUNK // (row.memory + n * 4))
    for first in range(0, n, step):
        winners = np.arange(first, min(first + step, n))
        estimate, _ = differentiate(winning_orthants(row, winners, gap, same), request, "auto")
        assert estimate.derivatives is not None
        log_prob[winners], rel_error[winners] = estimate.log_prob, estimate.rel_error
        others = np.arange(n - 1) + (np.arange(n - 1) >= winners[:, None])
        for of, into in ((estimate.derivatives.value, value), (estimate.derivatives.error, error)):
            part = into[winners]
            np.put_along_axis(part, others, of["upper"], axis=1)
            into[winners] = part
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        prob = np.exp(log_prob - log_unit)
        prob_error = np.where(prob > 0.0, prob * rel_error, 0.0)
        value, error = derivative_of_probability(value, error, prob[:, None], rel_error[:, None])
    error[np.isnan(error)] = np.inf
    # A is symmetric and computed twice: take what is known better.
    better = error > error.T
    value, error = np.where(better, value.T, value), np.where(better, error.T, error)
    return prob, prob_error, value, error


def _by_stein(contest: Contest, relative: float, seed: int) -> tuple[float, float]:
    """Return the logarithm of the result and its relative error from exact orthants."""
    relative = _FINER * max(relative, 1e-8)
    absolute = relative * float(np.exp(max(contest.log_scale, -600.0)))
    spread = float(np.sqrt(contest.variance[contest.leader, contest.others].max()))
    tolerance = Tolerance(relative, absolute / spread if spread > 0.0 else 0.0)
    unit = contest.log_scale
    prob, prob_error, change, change_error = solve_orthants(contest, tolerance, unit, seed)
    arms = contest.arms
    behind = contest.mean[contest.leader] - contest.mean[arms]
    half = 0.5 * contest.variance[np.ix_(arms, arms)]
    if not (np.isfinite(change_error).all() and np.isfinite(prob_error[1:]).all()):
        return unit, np.inf
    gained, lost = np.sum(change * half), np.sum(prob[1:] * behind[1:])
    error = np.sum(change_error * half) + np.sum(prob_error[1:] * behind[1:])
    error += 4.0 * np.finfo(float).eps * arms.size * (gained + lost)
    loss = gained - lost
    if not (loss > 0.0 and error < loss):
        return unit, np.inf
    return float(np.log(loss)) + unit, float(error / loss)


def _by_mixture(contest: Contest, relative: float, seed: int) -> tuple[float, float]:
    """Return the logarithm of the result and its relative error from weighted draws."""
    from mvnorth._cpu.largest_excess import largest_excess

    leader, others = contest.leader, contest.others
    rows = contest.covariance.dense().factor[0]
    delta = contest.mean[leader] - contest.mean[others]
    left, sizes, _ = np.linalg.svd(rows[others] - rows[leader], full_matrices=False)
    factor = np.ascontiguousarray((left * sizes)[:, sizes > 1e-16 * sizes[0]])
    covariance = factor @ factor.T
    deviation = np.sqrt(np.diagonal(covariance))
    lift = covariance / np.diagonal(covariance)[:, None]
    logs = contest.log_excess[others]
    share = np.exp(logs - contest.log_scale)
    log_total = contest.log_scale + float(np.log(share.sum()))
    share /= share.sum()
    n, r = factor.shape
    kernel = partial(
        largest_excess, factor, delta, deviation, share, lift, excess_tables(delta / deviation)
    )
    cost = 1e-9 * (n * n + n * r + 10 * (n + r))

    def weigh(rows: np.ndarray, points: Points) -> np.ndarray:
        return points.log_sums(kernel, rows, cost)

    request = Request(Tolerance(relative / _SKEWED, 0.0), seed=seed)
    corner, scale = np.array([CORNER]), np.array([log_total])
    estimate = mean_weights(weigh, corner, r + 1, _FIRST_LEVEL, request, scale)
    rounding = _TABLES + _ROUNDING * (1.0 + float(np.max(delta / deviation)) ** 2)
    return float(estimate.log_prob[0]), _SKEWED * float(estimate.rel_error[0]) + rounding
