"""Marginal densities of truncated normal distributions from conditional probabilities.

The density of X_i at x given that all limits are met is

    N(x; 0, Sigma_ii) Pr(the others in their limits | X_i = x) / P

inside its limits, and that of two coordinates the same with one condition after the other.  It is
what the derivatives of P in limits are made of (``conditional``), at any x.
"""

from collections.abc import Sequence

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._methods.conditional import (
    conditional_probabilities,
    log_normal_density,
    rounding_of_log,
)
from mvnorth._problem import Problems, Request
from mvnorth._solve import solve

_CHUNK = 2**21  # entries of the conditional problems at a time: 16 MB
_EPS = float(np.finfo(np.float64).eps)


def log_densities(
    problems: Problems,
    rows: np.ndarray,
    coordinates: Sequence[int],
    values: np.ndarray,
    request: Request,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log densities (K,) and bounds on their relative errors.

    Parameters
    ----------
    rows : (K,) which of the problems
    values : (K, k) of the ``coordinates``, in the units of the problems

    A density is unknown, NaN with an infinite error, where the probability is 0 or the coordinates
    have none.
    """

    def probability(some: Problems) -> Estimate:
        return solve(some, request, "auto")[0]

    whole = probability(problems)
    chosen = list(coordinates)
    low, high = problems.lower[rows][:, chosen], problems.upper[rows][:, chosen]
    inside = ((values >= low) & (values <= high) & np.isfinite(values)).all(axis=1)
    known = whole.log_prob[rows] > -np.inf
    log_density = np.where(known, -np.inf, np.nan)
    error = np.where(known, 0.0, np.inf)
    wanted = np.flatnonzero(inside & known)
    chunk = max(1, _CHUNK // problems.covariance.memory)
    for k in range(0, wanted.size, chunk):
        item = wanted[k : k + chunk]
        part = problems.take(rows[item])
        log, part_error = _joint(part, chosen, values[item], probability)
        log_density[item] = log - whole.log_prob[rows[item]]
        error[item] = part_error + whole.rel_error[rows[item]]
        error[item] += rounding_of_log(whole.log_prob[rows[item]])
    lost = np.isnan(log_density) | np.isnan(error)
    error[lost] = np.inf
    return log_density, error


def _joint(
    problems: Problems, coordinates: list[int], values: np.ndarray, probability: object
) -> tuple[np.ndarray, np.ndarray]:
    """Return logs of density times probability of the others, and relative errors, (K,) both."""
    size = problems.size
    log, error = np.zeros(size), np.zeros(size)
    left = list(coordinates)
    values = values.copy()
    for step in range(len(left)):
        i, x = left[step], values[:, step]
        deviation = np.broadcast_to(problems.covariance.deviations(), problems.lower.shape)[:, i]
        with np.errstate(divide="ignore", invalid="ignore"):
            own = log_normal_density(x, deviation)
            error += rounding_of_log(own) + problems.rounding * (1.0 + 2.0 * np.abs(own))
            error += 2.0 * _EPS * (x / deviation) ** 2
        error[deviation == 0.0], own[deviation == 0.0] = np.inf, np.nan
        log += own
        marked = problems
        if step + 1 < len(left):  # the other value moves like a limit
            lower, upper = problems.lower.copy(), problems.upper.copy()
            lower[:, left[step + 1]] = upper[:, left[step + 1]] = values[:, step + 1]
            marked = Problems(lower, upper, problems.covariance, problems.rounding)
        which = np.full(size, i)
        given = problems.covariance.given_value(marked, np.arange(size), which, x)
        if step + 1 < len(left):
            left[step + 1] -= left[step + 1] > i
            values[:, step + 1] = given.lower[:, left[step + 1]]
        problems = given
    log_prob, of_prob = conditional_probabilities(problems, probability)  # type: ignore[arg-type]
    return log + log_prob, error + of_prob
