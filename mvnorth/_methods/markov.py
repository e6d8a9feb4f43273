"""Gauss-Markov chains by their transfer operator: exact to rounding."""

import numpy as np

from mvnorth._cpu.markov import markov
from mvnorth._linalg.markov import recognise
from mvnorth._linalg.one_factor import cholesky, dense_cholesky
from mvnorth._problem import Estimate, OneFactorProblems, Problems
from mvnorth._threads import run_items

_ROUNDING = 1e-15
_SECONDS = 2e-5  # a row and coordinate, roughly


def solve(problems: Problems | OneFactorProblems) -> Estimate:
    """Probabilities of ``problems``; rel_error is infinite where they are no chains."""
    if isinstance(problems, OneFactorProblems):
        problems = _with_triangular_factor(problems)
    order, rho, noise, deviation, error = recognise(problems.factor)
    size, d = problems.lower.shape
    estimate = Estimate(
        np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size, dtype=np.int64)
    )
    found = np.isfinite(error)
    rows = np.flatnonzero(np.broadcast_to(found, size))
    if not rows.size:
        return estimate
    if len(error) > 1:
        order, rho, noise, deviation, error = (
            a[rows] for a in (order, rho, noise, deviation, error)
        )
    with np.errstate(over="ignore"):
        lower, upper = (
            np.take_along_axis(a[rows] / deviation, np.broadcast_to(order, (rows.size, d)), axis=1)
            for a in (problems.lower, problems.upper)
        )
    log_prob, rel_error = np.empty((2, rows.size))
    used = np.empty(rows.size, dtype=np.int64)

    def some(begin: int, end: int) -> None:
        markov(lower, upper, rho, noise, log_prob, rel_error, used, begin, end)

    run_items(some, rows.size, rows.size * d * _SECONDS)
    rel_error += _ROUNDING * (d + np.abs(log_prob))
    rel_error += _inherited(problems, rows, noise, error, log_prob)
    lost = ~(np.isfinite(log_prob) & (rel_error < np.inf))
    log_prob[lost], rel_error[lost] = -np.inf, np.inf
    estimate.replace(rows, Estimate(log_prob, rel_error, used), np.arange(rows.size))
    return estimate


def _with_triangular_factor(problems: OneFactorProblems) -> Problems:
    """The same problems with a dense factor: few of them are chains, such as all of two."""
    diag, w = cholesky(problems.c, problems.v)
    upper = problems.upper.astype(np.float64)
    factor, scale = dense_cholesky(diag, w, problems.v), np.ones(diag.shape)
    return Problems(np.array(problems.lower), upper, factor, problems.rounding, 0.0, scale)


def _inherited(
    problems: Problems,
    rows: np.ndarray,
    noise: np.ndarray,
    error: np.ndarray,
    log_prob: np.ndarray,
) -> np.ndarray:
    """Relative error of the probability that comes with the problems.

    To first order that of log P is E[e^T N e], with e the independent noises given the limits and N
    what their rows are off; E[e^T e] is at most d + 2 |log P|.  A covariance that was rounded has
    variances given the coordinates before, noise**2, off by its rounding; those of another order
    are smaller still, by about a number of coordinates.
    """
    rounded = problems.singular**2 / (8.0 * problems.d)  # negligible where a factor was given
    smallest = np.min(noise, axis=1, initial=1.0)
    relative = error + (2.0 + problems.d) * rounded / smallest**2 + problems.rounding[rows]
    return np.asarray(relative * (problems.d + 2.0 * np.abs(log_prob)))
