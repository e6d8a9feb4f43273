"""Read the arguments of censored likelihoods: observed values, intervals and missing values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _checks
from mvnorth._arguments import as_rows, numbers
from mvnorth._covariance.given_values import Given
from mvnorth._problem import Problems
from mvnorth.covariance import Covariance


@dataclass(eq=False)
class CensoredProblems:
    """Normal vectors of which some coordinates are observed and others are in intervals.

    Attributes
    ----------
    problems : the intervals, in which observed coordinates have no limits
    observed : (B, d) bool
    residuals : (B, d) observed values less their means, in the units of ``problems``; else 0
    """

    problems: Problems
    observed: np.ndarray
    residuals: np.ndarray


def read_censored(
    lower: ArrayLike, upper: ArrayLike, mean: ArrayLike, cov: ArrayLike | Covariance
) -> tuple[CensoredProblems, tuple[int, ...]]:
    """Return the problems, and the batch shape."""
    low, high = numbers("lower", lower), numbers("upper", upper)
    try:
        observed = np.asarray(low == high)
    except ValueError:
        raise ValueError(
            f"batch shapes do not broadcast: lower {low.shape}, upper {high.shape}"
        ) from None
    if np.isinf(np.broadcast_to(low, observed.shape)[observed]).any():
        raise ValueError(
            "lower = upper is an observed value, which must be finite; they are both infinite "
            "somewhere. A missing value has lower = -inf and upper = inf"
        )
    problems, batch = _checks.box_problems(
        np.where(observed, -np.inf, low), np.where(observed, np.inf, high), mean, cov
    )
    shape = (*batch, problems.d)
    known = as_rows(np.broadcast_to(observed, shape), batch, 1)
    values, centres = (
        as_rows(np.broadcast_to(a, shape), batch, 1) for a in (low, numbers("mean", mean))
    )
    residuals = np.zeros(known.shape)
    np.subtract(values, centres, out=residuals, where=known)
    residuals /= problems.covariance.unit
    return CensoredProblems(problems, known, residuals), batch


def require_density(given: Given, observed: np.ndarray) -> None:
    """Raise if the observed coordinates, (d,) bool, have a singular covariance."""
    if given.determined.any():
        places = np.flatnonzero(observed)
        coordinate = places[np.argwhere(given.determined)[0, 1]]
        raise ValueError(
            "cov of the observed coordinates (lower = upper) must not be singular: coordinate "
            f"{coordinate} has no variance, given the other observed ones of "
            f"{places.tolist()}, so that there is no density. Make it a missing value (lower = "
            "-inf, upper = inf) if it repeats others, or an interval"
        )
