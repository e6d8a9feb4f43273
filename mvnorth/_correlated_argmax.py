"""Probability to be best among correlated normal scores: an orthant for every score.

Score y is the largest where all differences s_y - s_i are >= 0.  With the covariance
diag(c) + V V^T of the scores these have the covariance diag(c_i) + W W^T, where W_i has the
loadings V_y - V_i and sqrt(c_y): one common factor more.  With any other covariance A A^T the
differences have the factor A_y - A_i.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from mvnorth import _checks
from mvnorth._covariance.dense import Dense
from mvnorth._covariance.factors import FactorsRows
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._problem import Problems, Request, Tolerance
from mvnorth._solve import solve

_CHUNK = 2**22  # numbers of covariances at a time: 32 MB
_NEGLIGIBLE = 0.01  # share of the absolute tolerance that needs no computation
_TIED = 1e-14  # variance of a difference relative to those of the scores, below which it is none


def argmax(mu: ArrayLike, cov: Any, tolerance: Tolerance, seed: int) -> tuple[np.ndarray, ...]:
    """Return the probability of every score to be the largest, and its error, (..., C) both."""
    means, covariance, shape = _checks.correlated_scores(mu, cov)
    size, classes = means.shape
    if classes == 1:
        return np.ones(shape), np.zeros(shape)
    log_prob, rel_error = np.full((size, classes), -np.inf), np.zeros((size, classes))
    tied, variance = differences(covariance, classes)
    for b in range(size):
        shared = b if len(tied) > 1 else 0
        never = means[b] == -np.inf
        finite = np.where(never, 0.0, means[b])
        gap = finite[:, None] - finite
        gap[:, never] = np.inf
        gap[never] = -np.inf
        same = tied[shared]
        bound = log_ndtr(gap / np.sqrt(np.where(same, 1.0, variance[shared])))
        bound = np.where(same, np.where(gap < 0.0, -np.inf, 0.0), bound).min(axis=1)
        equals = np.count_nonzero(same & (gap == 0.0), axis=1)  # the score itself included
        small = np.log(_NEGLIGIBLE * tolerance.absolute) if tolerance.absolute > 0.0 else -np.inf
        wanted = np.flatnonzero((bound > small) & ~never)
        rest = (bound <= small) & (bound > -np.inf)
        log_prob[b, rest], rel_error[b, rest] = bound[rest] - np.log(2.0), 1.0
        gap[same] = np.inf
        row = covariance.take(np.array([shared]))
        step = max(1, _CHUNK // (row.memory + classes * 4))
        for first in range(0, wanted.size, step):
            winners = wanted[first : first + step]
            problems = winning_orthants(row, winners, gap, same)
            request = Request(tolerance, seed=seed)
            estimate, _ = solve(problems, request, "auto")
            log_prob[b, winners] = estimate.log_prob - np.log(equals[winners])
            rel_error[b, winners] = estimate.rel_error
    prob = np.exp(log_prob)
    with np.errstate(invalid="ignore"):
        error = np.where(prob > 0.0, np.minimum(prob * rel_error, 1.0), 0.0)
    return prob.reshape(shape), np.where(np.isinf(rel_error), 1.0, error).reshape(shape)


def differences(covariance: CovarianceRows, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of scores with a constant difference, and the variances of differences.

    Both are (1 or B, C, C).
    """
    if isinstance(covariance, FactorsRows):
        apart = np.broadcast_to(np.eye(classes, dtype=bool), (1, classes, classes))
        c, V = covariance.c, covariance.V
        variance = _squared_distances(V) + c[:, :, None] + c[:, None]
        return np.broadcast_to(apart, variance.shape), variance
    factor = covariance.dense().factor
    square = np.sum(factor * factor, axis=2)
    variance = _squared_distances(factor)
    return variance <= _TIED * (square[:, :, None] + square[:, None]), variance


def _squared_distances(rows: np.ndarray) -> np.ndarray:
    """Return squared distances between rows, (N, C, C) of (N, C, r), column by column."""
    total = np.zeros((*rows.shape[:2], rows.shape[1]))
    for column in np.moveaxis(rows, 2, 0):
        total += (column[:, :, None] - column[:, None]) ** 2
    return total


def winning_orthants(
    covariance: CovarianceRows, winners: np.ndarray, gap: np.ndarray, same: np.ndarray
) -> Problems:
    """Return the problems of some scores to be the largest, for one row of the covariance."""
    classes = len(gap)
    others = np.arange(classes - 1)
    others = others + (others >= winners[:, None])
    upper = np.take_along_axis(gap[winners], others, axis=1)
    lower, rounding = np.full(upper.shape, -np.inf), np.zeros(winners.size)
    if isinstance(covariance, FactorsRows):
        c, V = covariance.c[0], covariance.V[0]
        own = np.broadcast_to(np.sqrt(c[winners])[:, None, None], (*others.shape, 1))
        loadings = np.concatenate([V[winners][:, None] - V[others], own], axis=2)
        return Problems(lower, upper, FactorsRows(c[others], loadings), rounding, sides=0)
    dense = covariance.dense()
    factor = dense.factor[0]
    rows = factor[winners][:, None] - factor[others]
    rows[np.take_along_axis(same[winners], others, axis=1)] = 0.0
    scale = np.exp2(np.round(np.log2(np.maximum(np.sqrt(np.sum(rows**2, axis=2)), 1e-290))))
    scale[~rows.any(axis=2)] = 1.0
    dense = Dense(rows / scale[:, :, None], dense.singular, scale)
    return Problems(lower, upper / scale, dense, rounding, sides=0)
