"""Arguments of the expected maximum, read into rows, and its excess over the largest mean."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._problem import Tolerance
from mvnorth._threads import run_items
from mvnorth.covariance import Factors

_DEFAULT = Tolerance(1e-3, 0.0)
# Below it the sum over arms is as exact as the integral, and does not underflow.
LOG_LEAST = math.log(1e-290)
_COST = 5e-7  # seconds an arm takes


@dataclass(frozen=True, eq=False)
class Arms:
    """Rows of normal arms, independent with ``deviations`` or with a ``covariance``.

    Attributes
    ----------
    means : (B, C) with the constant to improve upon as the last arm, if there is one
    deviations : (1 or B, C), or None
    covariance : of 1 or B rows, or None
    shape : of the batch
    dtype : precision of results
    constant : whether the last arm is a constant to improve upon
    """

    means: np.ndarray
    deviations: np.ndarray | None
    covariance: CovarianceRows | None
    shape: tuple[int, ...]
    dtype: np.dtype
    constant: bool = False

    def shaped(self, rows: np.ndarray) -> Any:
        """Return rows (B, ...) in the shape of the batch; a number for a single one."""
        whole = rows.reshape((*self.shape, *rows.shape[1:])).astype(self.dtype, copy=False)
        if whole.ndim:
            return whole
        return whole.item() if self.dtype == np.float64 else whole[()]


@dataclass(frozen=True, eq=False)
class Excess:
    """The excess of the expected maximum over the largest mean, each (B,).

    Attributes
    ----------
    largest : the largest mean
    log_loss : logarithm of the excess
    rel_error : bound on its relative error; 0 for independent arms, where it is rounding
    loss : the excess
    """

    largest: np.ndarray
    log_loss: np.ndarray
    rel_error: np.ndarray
    loss: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Bound on the absolute error of the excess, (B,)."""
        with np.errstate(invalid="ignore"):
            return np.where(self.loss > 0.0, self.loss * self.rel_error, 0.0)


def read_arms(
    function: str,
    mu: ArrayLike,
    sigma: ArrayLike | None,
    cov: ArrayLike | Factors | None,
) -> Arms:
    """Check the arguments of a public function of that name against each other."""
    if (sigma is None) == (cov is None):
        if sigma is None:
            raise TypeError(f"{function} needs sigma, for independent scores, or cov")
        raise ValueError("give either sigma, for independent scores, or cov, not both")
    if sigma is not None:
        means, deviations, shape, dtype = _checks.scores(mu, sigma)
        return Arms(means, deviations, None, shape[:-1], dtype)
    assert cov is not None
    means, covariance, shape = _checks.correlated_scores(mu, cov)
    given = np.asarray(mu).dtype
    single = given.kind == "f" and given.itemsize <= 4
    dtype = np.dtype(np.float32 if single else np.float64)
    return Arms(means, None, covariance, shape[:-1], dtype)


def add_best(arms: Arms, best: ArrayLike) -> Arms:
    """Return the arms with a constant to improve upon as the last one; batch axes broadcast."""
    values = _arguments.real_array("best", best, infinite=False)
    if values.size and np.abs(values).max() > 1e300:
        raise ValueError("best must not exceed 1e300 in size")
    shape = _checks.batch_shape(("mu", "best"), arms.shape, values.shape)
    means, deviations, covariance = arms.means, arms.deviations, arms.covariance
    if shape != arms.shape:
        place = np.broadcast_to(np.arange(len(means)).reshape(arms.shape), shape).ravel()
        means = means[place]
        if deviations is not None and len(deviations) > 1:
            deviations = deviations[place]
        if covariance is not None and covariance.shape[0] > 1:
            covariance = covariance.take(place)
    column = np.broadcast_to(values, shape).reshape(-1, 1)
    means = np.concatenate([means, column], axis=1)
    if deviations is not None:
        deviations = np.concatenate([deviations, np.zeros((len(deviations), 1))], axis=1)
    if covariance is not None:
        from mvnorth._contest import with_constant

        covariance = with_constant(covariance)
    return Arms(means, deviations, covariance, shape, arms.dtype, constant=True)


def read_tolerance(arms: Arms, rtol: Any, atol: Any, errors: bool, seed: Any) -> Tolerance:
    """Return the tolerance, which goes with a covariance only."""
    _arguments.whole_number("seed", seed, at_least=0)
    if arms.covariance is None and (rtol is not None or atol is not None or errors):
        raise ValueError("rtol, atol and errors go with cov; with sigma the result is exact")
    if rtol is None and atol is None:
        return _DEFAULT
    tolerance = _arguments.tolerance(rtol, atol, None)
    assert tolerance is not None
    return tolerance


def excess(arms: Arms, tolerance: Tolerance, seed: int) -> Excess:
    """Return the excess of the expected maximum over the largest mean."""
    if arms.deviations is not None:
        return independent_excess(arms)[0]
    from mvnorth._correlated_max import contests, excess_over_leader

    size = len(arms.means)
    largest = arms.means.max(axis=1)
    log_loss, rel_error = np.empty(size), np.empty(size)
    assert arms.covariance is not None
    rows = contests(arms.means, arms.covariance, row_tolerances(arms, tolerance))
    for b, contest in enumerate(rows):
        log_loss[b], rel_error[b] = excess_over_leader(contest, seed)
    return Excess(largest, log_loss, rel_error, np.exp(log_loss))


def row_tolerances(arms: Arms, tolerance: Tolerance) -> list[Tolerance]:
    """Return the tolerance of the excess of each row.

    The improvement has the distance of the constant from the largest mean in addition.
    """
    if not arms.constant:
        return [tolerance] * len(arms.means)
    ahead = arms.means.max(axis=1) - arms.means[:, -1]
    return [
        replace(tolerance, absolute=max(tolerance.absolute, tolerance.relative * float(gap)))
        for gap in ahead
    ]


def independent_excess(
    arms: Arms, derivatives: bool = False
) -> tuple[Excess, np.ndarray, np.ndarray]:
    """Return the excess of the expected maximum of independent arms over the largest mean.

    And derivatives of the expected maximum in means and deviations, (B, C), or none of them.
    """
    from mvnorth._cpu.expected_max import expected_max  # numba is imported with the first call

    means, deviations = arms.means, arms.deviations
    size, classes = means.shape
    largest, loss = np.empty(size), np.empty(size)
    in_mu, in_sigma = np.empty((2, size if derivatives else 0, classes))
    kernel = partial(expected_max, means, deviations, largest, loss, in_mu, in_sigma)
    run_items(kernel, size, size * classes * _COST)
    with np.errstate(divide="ignore"):
        log_loss = np.log(loss)
    return Excess(largest, log_loss, np.zeros(size), loss), in_mu, in_sigma


def log_improvement(arms: Arms, found: Excess) -> np.ndarray:
    """Return the logarithm of the expected improvement upon the last arm, (B,)."""
    with np.errstate(divide="ignore"):
        total = np.logaddexp(found.log_loss, np.log(found.largest - arms.means[:, -1]))
    if arms.deviations is not None:
        rows = np.flatnonzero(total < LOG_LEAST)
        total[rows] = np.logaddexp.reduce(_log_terms(arms, rows)[0], axis=1)
    return np.asarray(total)


def relative_error(found: Excess, logs: np.ndarray) -> np.ndarray:
    """Return a bound on the relative error of the improvement, whose logarithm is given, (B,)."""
    with np.errstate(invalid="ignore"):
        share = np.exp(found.log_loss - logs)  # of the excess in the improvement
    return np.where(found.log_loss > -np.inf, share * found.rel_error, 0.0)


def log_error(arms: Arms, found: Excess, logs: np.ndarray) -> np.ndarray:
    """Return a bound on the error of the logarithm of the improvement, (B,)."""
    relative = np.minimum(relative_error(found, logs), 1.0 - 1e-15)
    rounding = np.finfo(arms.dtype).eps * np.where(np.isinf(logs), 0.0, np.abs(logs))
    return rounding - np.log1p(-relative)


def tail_gradients(arms: Arms, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives of ``log_improvement`` of some rows, which are below LOG_LEAST.

    In means and deviations, (A, C - 1).
    """
    from mvnorth._size_biased import log_excess_derivative

    terms, spread, distance = _log_terms(arms, rows)
    total = np.logaddexp.reduce(terms, axis=1, keepdims=True)
    share = np.exp(terms - np.where(total > -np.inf, total, 0.0))
    slope = -log_excess_derivative(distance) / spread
    return share * slope, share * (1.0 / spread + slope * distance)


def _log_terms(arms: Arms, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the log of each independent arm's own expected improvement, of some rows.

    Where these are tiny their sum is the expected improvement of all.  Then deviations, and
    distances of the means in them; each (A, C - 1).
    """
    from mvnorth._size_biased import log_excess

    assert arms.deviations is not None
    deviation = arms.deviations[rows if len(arms.deviations) > 1 else [0], :-1]
    mean, best = arms.means[rows, :-1], arms.means[rows, -1:]
    live = (deviation > 0.0) & (mean > -np.inf)
    behind = best - np.where(live, mean, 0.0)
    spread = np.where(live, deviation, 1.0)
    distance = np.maximum(behind / spread, 0.0)
    return np.where(live, np.log(spread) + log_excess(distance), -np.inf), spread, distance
