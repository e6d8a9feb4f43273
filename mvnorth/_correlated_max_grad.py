"""Derivatives of the expected maximum of correlated normal arms, from orthants and their gradients.

In the mean of arm i it is P_i, the probability that it is the largest; in the covariance half the
second derivatives: for i other than j -A_ij / 2, where A_ij = -dP_i/dmu_j is the density of
X_i - X_j at 0 times the probability that all others are below both, and the diagonal makes rows add
up to zero.  An arm that was left out changes each by at most such a product with one other arm.
"""

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from mvnorth._contest import Contest
from mvnorth._correlated_max import solve_orthants
from mvnorth._problem import Tolerance


def derivatives(
    contest: Contest, log_unit: float, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return derivatives in means (C,) and in the covariance (C, C), each with its errors.

    All are in units of exp(log_unit).
    """
    first, rest = contest.arms, contest.left_out
    classes = contest.mean.size
    P, P_error = np.zeros(classes), np.zeros(classes)
    A, A_error = np.zeros((classes, classes)), np.zeros((classes, classes))
    if contest.others.size:
        relative = min(contest.tolerance, 0.1)
        largest = float(np.max(_log_pair(contest, contest.others)))
        wanted = Tolerance(relative, relative * float(np.exp(max(largest, -700.0))))
        found = solve_orthants(contest, wanted, log_unit, seed)
        P[first], P_error[first] = found[:2]
        A[np.ix_(first, first)], A_error[np.ix_(first, first)] = found[2:]
    else:
        P[first] = np.exp(-log_unit)
    if rest.size:
        _bound_left_out(contest, log_unit, P_error, A_error)
    H_error = A_error.sum(axis=1)
    H = -A
    np.fill_diagonal(H, A.sum(axis=1))
    np.fill_diagonal(A_error, H_error)
    return (*_share_vector(contest, P, P_error), *_share_matrix(contest, 0.5 * H, 0.5 * A_error))


def _log_pair(contest: Contest, arms: np.ndarray) -> np.ndarray:
    """Return logs of the probability that each of some arms exceeds the leader."""
    gap = contest.mean[arms] - contest.mean[contest.leader]
    return np.asarray(log_ndtr(gap / np.sqrt(contest.variance[contest.leader, arms])))


def _log_density(contest: Contest, i: Any, j: Any) -> np.ndarray:
    """Return logs of the density of X_i - X_j at 0."""
    gap, square = contest.mean[i] - contest.mean[j], contest.variance[i, j]
    return np.asarray(-0.5 * gap**2 / square - 0.5 * np.log(2.0 * math.pi * square))


def _log_tie(contest: Contest, i: np.ndarray, j: np.ndarray, other: int, sign: float) -> np.ndarray:
    """Return logs of the density of X_i - X_j at 0 times Pr(sign (X_i - X_other) > 0 given that).

    i and j broadcast; no two of the three may be the same.
    """
    mean, V = contest.mean, contest.variance
    gap, square = mean[i] - mean[j], V[i, j]
    coefficient = 0.5 * (square + V[i, other] - V[j, other]) / square
    centre = (mean[i] - mean[other]) - coefficient * gap
    spread = np.sqrt(np.maximum(V[i, other] - coefficient**2 * square, 1e-30 * V[i, other]))
    return np.asarray(_log_density(contest, i, j) + log_ndtr(sign * centre / spread))


def _bound_left_out(
    contest: Contest, log_unit: float, P_error: np.ndarray, A_error: np.ndarray
) -> None:
    """Add bounds on the change by leaving arms out, and on the derivatives of these arms."""
    first, rest, leader = contest.arms, contest.left_out, contest.leader
    with np.errstate(over="ignore", under="ignore"):
        bound = np.exp(_log_pair(contest, rest) - log_unit)
        P_error[first] += bound.sum()
        P_error[rest] = bound
        upper = np.triu_indices(first.size, 1)
        i, j = first[upper[0]], first[upper[1]]
        for arm in rest:
            changed = np.exp(_log_tie(contest, i, j, arm, -1.0) - log_unit)
            A_error[i, j] += changed
            A_error[j, i] += changed
        every = np.append(contest.others, rest)
        for arm in rest:
            others = every[every != arm]
            pairs = np.full(others.shape, arm)
            bound = np.exp(_log_tie(contest, others, pairs, leader, 1.0) - log_unit)
            A_error[others, arm] = A_error[arm, others] = bound
            bound = np.exp(_log_density(contest, leader, arm) - log_unit)
            A_error[leader, arm] = A_error[arm, leader] = bound


def _shares(contest: Contest) -> tuple[np.ndarray, np.ndarray]:
    """Return the share (C,) of each arm in its group, and whether the group has several (C,)."""
    group = contest.group
    count = np.bincount(group[group >= 0], minlength=group.size)[group]
    return np.where(group >= 0, 1.0 / np.maximum(count, 1), 0.0), (group >= 0) & (count > 1)


def _share_vector(
    contest: Contest, value: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return entries of all arms (C,): those that are always equal share theirs."""
    share, _ = _shares(contest)
    return value[contest.group] * share, error[contest.group] * share


def _share_matrix(
    contest: Contest, value: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return entries of all pairs of arms (C, C); within a group there is no derivative."""
    group = contest.group
    share, several = _shares(contest)
    inside = (group[:, None] == group) & several
    both = np.where(np.eye(group.size, dtype=bool), share, share[:, None] * share)
    both[inside & ~np.eye(group.size, dtype=bool)] = 0.0
    pairs = np.ix_(group, group)
    return value[pairs] * both, np.where(inside, np.inf, error[pairs] * both)
