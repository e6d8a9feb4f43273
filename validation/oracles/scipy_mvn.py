"""scipy's multivariate normal CDF, timed."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import multivariate_normal


class Estimate(NamedTuple):
    """What scipy returned, and the seconds of the call (fastest of the repetitions)."""

    value: float
    seconds: float


def cdf(
    lower: ArrayLike,
    upper: ArrayLike,
    cov: ArrayLike,
    maxpts: int | None = None,
    abseps: float = 1e-5,
    releps: float = 1e-5,
    seed: int = 1,
    repeat: int = 1,
) -> Estimate:
    """Pr(lower <= X <= upper) for X ~ N(0, cov) by scipy.stats.multivariate_normal.cdf.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    cov : (d, d)
        Covariance matrix; singular ones are allowed.
    maxpts, abseps, releps
        Passed on; the defaults are scipy's own (maxpts: a million times d).
    seed : int
        Starts the generator of every repetition.
    repeat : int
        Time this many calls and report the fastest.

    Returns
    -------
    Estimate
    """
    lower, upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    seconds = np.inf
    for _ in range(repeat):
        rng = np.random.default_rng(seed)
        start = time.perf_counter()
        value = multivariate_normal.cdf(
            upper,
            cov=np.asarray(cov, dtype=np.float64),
            allow_singular=True,
            maxpts=maxpts,
            abseps=abseps,
            releps=releps,
            lower_limit=lower,
            rng=rng,
        )
        seconds = min(seconds, time.perf_counter() - start)
    return Estimate(float(value), seconds)
