"""Gauss-Markov chains by their transfer operator: exact to rounding."""

from collections.abc import Callable
from functools import partial

import numpy as np

from mvnorth._cpu.markov import markov
from mvnorth._derivatives.blocks import times
from mvnorth._linalg.markov import recognise
from mvnorth._linalg.one_factor import cholesky, dense_cholesky
from mvnorth._problem import Estimate, OneFactorProblems, Problems, Slopes
from mvnorth._threads import run_items

_ROUNDING = 1e-15
_EPS = float(np.finfo(np.float64).eps)
_SECONDS = 2e-5  # a row and coordinate, roughly


def solve(problems: Problems | OneFactorProblems, wanted: tuple[str, ...] = ()) -> Estimate:
    """Probabilities of ``problems``; rel_error is infinite where they are no chains.

    ``wanted`` names some of "lower", "upper", "mean", "cov" and "factor": derivatives, which take
    about as long again, and O(d**2) at most with one of the last two.
    """
    if isinstance(problems, OneFactorProblems):
        problems = _with_triangular_factor(problems)
    order, rho, noise, deviation, error = recognise(problems.factor)
    size, d = problems.lower.shape
    estimate = Estimate.unknown(problems, wanted)
    rows = np.flatnonzero(np.broadcast_to(np.isfinite(error), size))
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

    found = np.empty((rows.size if wanted else 0, 5, d))

    def some(begin: int, end: int) -> None:
        markov(lower, upper, rho, noise, log_prob, rel_error, used, found, begin, end)

    run_items(some, rows.size, rows.size * d * _SECONDS)
    rule = rel_error.copy()
    rel_error += _ROUNDING * (d + np.abs(log_prob))
    relative = _relative(problems, noise, error)
    shaky = relative + problems.rounding[rows]
    rel_error += shaky * (d + 2.0 * np.abs(log_prob))
    lost = ~(np.isfinite(log_prob) & (rel_error < np.inf))
    log_prob[lost], rel_error[lost] = -np.inf, np.inf
    slopes = None
    if wanted:
        from mvnorth._cpu.markov_slopes import markov_slopes

        rule[lost] = np.inf
        firm = np.broadcast_to(relative + _EPS, rows.size).copy()
        chain = partial(markov_slopes, lower, upper, rho, noise, log_prob, rule, found, shaky, firm)
        limits, covs = _derivatives(chain, rows.size, d, "cov" in wanted or "factor" in wanted)
        slopes = _named(limits, covs, order, deviation, problems, rows, wanted)
    part = Estimate(log_prob, rel_error, used, slopes=slopes)
    estimate.replace(rows, part, np.arange(rows.size))
    return estimate


def _with_triangular_factor(problems: OneFactorProblems) -> Problems:
    """The same problems with a dense factor: few of them are chains, such as all of two."""
    diag, w = cholesky(problems.c, problems.v)
    upper = problems.upper.astype(np.float64)
    factor, scale = dense_cholesky(diag, w, problems.v), np.ones(diag.shape)
    return Problems(np.array(problems.lower), upper, factor, problems.rounding, 0.0, scale)


def _relative(problems: Problems, noise: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Relative error (1 or B,) of noises and deviations that comes with the problems.

    To first order log P is off by E[e^T N e], with e the independent noises given the limits and N
    what their rows are off; E[e^T e] is at most d + 2 |log P|.  A covariance that was rounded has
    variances given the coordinates before, noise**2, off by its rounding; those of another order
    are smaller still, by about a number of coordinates.
    """
    rounded = problems.singular**2 / (8.0 * problems.d)  # negligible where a factor was given
    smallest = np.min(noise, axis=1, initial=1.0)
    return np.asarray(error + (2.0 + problems.d) * rounded / smallest**2)


def _derivatives(
    kernel: Callable[..., object], size: int, d: int, pairs: bool
) -> tuple[np.ndarray, np.ndarray]:
    """What ``markov_slopes`` writes: (2, B, 3, d), and (2, B, d, d) with ``pairs``."""
    limits, covs = np.zeros((2, size, 3, d)), np.zeros((2, size if pairs else 0, d, d))
    limits[1], covs[1] = np.inf, np.inf
    cost = size * d * _SECONDS * (d if pairs else 1)
    run_items(partial(kernel, limits, covs), size, cost)
    return limits, covs


def _named(
    limits: np.ndarray,
    covs: np.ndarray,
    order: np.ndarray,
    deviation: np.ndarray,
    problems: Problems,
    rows: np.ndarray,
    wanted: tuple[str, ...],
) -> Slopes:
    """Derivatives of standardised coordinates in the order of the chain, as they were asked for."""
    back = np.argsort(order, axis=1)
    limits = np.take_along_axis(limits, back[None, :, None, :], axis=3) / deviation[:, None, :]
    limits += 0.0  # no -0
    named = {
        name: (limits[0, :, k], limits[1, :, k] + _EPS * np.abs(limits[0, :, k]))
        for k, name in enumerate(("lower", "upper", "mean"))
    }
    if covs.shape[1]:
        covs = np.take_along_axis(covs, back[None, :, :, None], axis=2)
        covs = np.take_along_axis(covs, back[None, :, None, :], axis=3)
        covs /= deviation[:, :, None] * deviation[:, None, :]
        covs[1] += 2.0 * _EPS * np.abs(covs[0])
        named["cov"] = covs[0], covs[1]
    if "factor" in wanted:
        A = problems.factor if len(problems.factor) == 1 else problems.factor[rows]
        named["factor"] = times(*named["cov"], 2.0 * A)
    value, error = ({name: pair[k] for name, pair in named.items()} for k in (0, 1))
    return Slopes(value, error).only(wanted)
