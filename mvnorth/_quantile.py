"""Equicoordinate quantiles: the public function, and the search for the root.

The method is ours.  F(q) is the probability that no coordinate exceeds q, and h(F) the quantile of
one coordinate at F**(1/d), which is q itself for independent coordinates with equal distributions.
h(F(q)) is nearly linear in q for any covariance, in both tails, so that a few secant steps suffice.
Marginal quantiles and Bonferroni's inequality bracket the root.  Above p = 1/2 the complement 1 - F
is computed in place of F, so that quantiles keep their relative accuracy as p goes to 1.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._equicoordinate import Equicoordinate, read_equicoordinate
from mvnorth._problem import Tolerance
from mvnorth._quantile_result import QuantileResult
from mvnorth._status import Status
from mvnorth.covariance import Factors

TAILS = ("lower", "upper", "both")
_EPS = float(np.finfo(np.float64).eps)
_MOST = 100  # evaluations of a row; three to five are usual, fifty halve the bracket away


def quantile(
    p: ArrayLike,
    cov: ArrayLike | Factors,
    *,
    mean: ArrayLike = 0.0,
    tail: str = "lower",
    df: ArrayLike | None = None,
    complement: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> QuantileResult:
    """Return the limit q that all coordinates of X ~ N(mean, cov) keep to with probability p.

    Parameters
    ----------
    p : float or array_like (...)
        Probabilities, between 0 and 1.
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed. Batch axes of p, cov, mean
        and df broadcast.
    mean : float or array_like (..., d)
    tail : {"lower", "upper", "both"}
        The event that has probability p: all X_i <= q, all X_i > q, or all abs(X_i) <= q. R's
        ``qmvnorm`` calls them "lower.tail", "upper.tail" and "both.tails".
    df : float or array_like (...), optional
        Degrees of freedom: X - mean has a multivariate Student t distribution with scale matrix
        ``cov``. Default: normal.
    complement : bool
        p is the probability that the event does *not* happen, such as 1e-20.
    rtol, atol : float, optional
        Error of the quantile asked for, absolute, or relative to the quantile (to the largest
        standard deviation, if that is larger); one of the two must be met. Default: rtol=1e-4.
    seed : int
        Seed of the random shifts, for covariances that are sampled. The same input and seed give
        the same bits, however a batch is cut.

    Returns
    -------
    QuantileResult

    Examples
    --------
    Dunnett's critical value for three treatments and a control of equal size, variance known:

    >>> import mvnorth
    >>> cov = mvnorth.OneFactor.exchangeable(3, 0.5)
    >>> result = mvnorth.quantile(0.95, cov, tail="both", rtol=1e-8)
    >>> round(float(result), 6)
    2.348971
    """
    probability = _arguments.real_array("p", p, infinite=False)
    if not ((probability > 0.0) & (probability < 1.0)).all():
        wrong = probability[~((probability > 0.0) & (probability < 1.0))].flat[0]
        raise ValueError(f"p must be greater than 0 and less than 1, got {wrong:g}")
    if tail not in TAILS:
        raise ValueError(f"tail must be one of {', '.join(map(repr, TAILS))}, got {tail!r}")
    tolerance = _arguments.tolerance(rtol, atol, None)
    assert tolerance is not None
    start = _arguments.whole_number("seed", seed, at_least=0)
    events = read_equicoordinate(mean, cov, df, probability.shape, tail == "both")
    if tail == "upper":  # -X, which has the same covariance, lies below -q
        events = replace(events, mean=-events.mean)
    p_rows = _arguments.as_rows(probability, events.batch, 0)
    log_p, log_rest = np.log(p_rows), np.log1p(-p_rows)
    if complement:
        log_p, log_rest = log_rest, log_p
    result = find_quantiles(log_p, log_rest, events, tolerance, start)
    if tail == "upper":
        result = replace(result, quantile=-result.quantile)
    return result.reshaped(events.batch)


def find_quantiles(
    log_p: np.ndarray, log_rest: np.ndarray, events: Equicoordinate, tolerance: Tolerance, seed: int
) -> QuantileResult:
    """Return the quantiles of B rows, from logarithms of p and of 1 - p, (B,)."""
    search = _Search(log_p, log_rest, events, tolerance)
    for _ in range(_MOST):
        rows = np.flatnonzero(~search.done)
        if not rows.size:
            break
        search.step(rows, seed)
    return search.result()


class _Search:
    """The state of the search for B roots."""

    def __init__(
        self, log_p: np.ndarray, log_rest: np.ndarray, events: Equicoordinate, tolerance: Tolerance
    ) -> None:
        size = log_p.size
        self.events, self.tolerance = events, tolerance
        self.complement = log_rest < log_p
        self.target = self._transform(np.where(self.complement, log_rest, log_p), slice(None))
        self.low, self.high, start, self.unit = _bracket(log_p, log_rest, self.target, events)
        self.q = np.clip(start, self.low, self.high)
        self.derivative = 1.0 / self.unit  # of h(F(q)) in q: a first guess
        self.last_q, self.last_h = np.full(size, np.nan), np.full(size, np.nan)
        self.last_error = np.zeros(size)
        self.last_step = np.full(size, np.inf)
        self.slow = np.zeros(size, dtype=int)  # steps in a row that were hardly shorter
        self.level = np.zeros(size, dtype=int)  # how often the tolerance of F was made smaller
        self.n = np.zeros(size, dtype=np.int64)
        self.method = np.full(size, "closed_form", dtype=object)
        self.error = self.high - self.low
        self.done = self.error <= 128.0 * _EPS * (np.abs(self.q) + self.unit)

    def _transform(self, log_value: np.ndarray, rows: Any) -> np.ndarray:
        """Return h(F) from log F, or from log(1 - F) in rows with the complement."""
        rest = np.minimum(np.exp(log_value), 1.0 - 0.5 * _EPS)
        log_inside = np.where(self.complement[rows], np.log1p(-rest), log_value) / self.events.d
        return marginal_quantile(log_inside, self.events.df[rows], self.events.two_sided)

    def _evaluate(self, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return h(F(q)), its error, and whether F met its tolerance."""
        smallest = np.maximum(self.tolerance.absolute / self.unit, self.tolerance.relative)
        rtol = np.maximum(0.2 * smallest * 0.1**self.level, 1e-13)[rows]
        log_value, rel_error = np.empty(rows.size), np.empty(rows.size)
        met = np.empty(rows.size, dtype=bool)
        pairs = np.stack([self.complement[rows], rtol], axis=1)
        for complement, target in np.unique(pairs, axis=0) if rows.size > 1 else pairs:
            some = np.flatnonzero((pairs == (complement, target)).all(axis=1))
            part = rows[some]
            upper = self.events.limits(self.q[part])
            values = self.events.probability(upper, part, complement > 0, target, seed)
            log_value[some], rel_error[some] = values.log_prob, values.rel_error
            met[some] = values.met
            self.n[part] += values.n
            self.method[part] = values.method
        h = self._transform(log_value, rows)
        with np.errstate(divide="ignore"):
            shifted = log_value + np.log1p(-np.minimum(rel_error, 1.0))
        error = np.abs(self._transform(shifted, rows) - h) + 8.0 * _EPS * np.abs(h)
        return h, np.where(rel_error < 0.5, error, np.inf), met

    def step(self, rows: np.ndarray, seed: int) -> None:
        """Evaluate some rows, and move to the secant's root or to the middle of the bracket."""
        h, error, met = self._evaluate(rows, seed)
        q, low, high, unit = self.q[rows], self.low[rows], self.high[rows], self.unit[rows]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            gap = h - self.target[rows]
            secant = (h - self.last_h[rows]) / (q - self.last_q[rows])
            resolved = np.abs(h - self.last_h[rows]) > 4.0 * (error + self.last_error[rows])
            usable = resolved & (secant > 0.0) & (secant < np.inf)
            derivative = np.where(usable, secant, self.derivative[rows])
            step = -gap / derivative
        high = np.where(gap > error, np.minimum(high, q), high)
        low = np.where(gap < -error, np.maximum(low, q), low)
        new = np.clip(q + step, low, high)
        slow = np.where(np.abs(step) > 0.5 * self.last_step[rows], self.slow[rows] + 1, 0)
        stuck = ~np.isfinite(new) | (new == q) & (np.abs(gap) > error) | (slow >= 3)
        new = np.where(stuck, 0.5 * (low + high), new)
        slow[stuck] = 0
        # A secant's error is the last but one times the last, times a constant.
        last = self.last_step[rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(last < np.inf, np.fmin(2.0 * np.abs(step) / last, 1.0), 1.0)
        remaining = np.where(stuck, high - low, np.abs(step) * ratio)
        of_value = error / derivative * np.where(last < np.inf, 1.0, 2.0)  # first a guess
        total = np.minimum(of_value + remaining, high - low)
        total += 4.0 * _EPS * (np.abs(new) + unit)
        wanted = np.maximum(
            self.tolerance.relative * np.maximum(np.abs(new), unit), self.tolerance.absolute
        )
        at_limit = (np.abs(gap) <= error) | (remaining <= 0.1 * of_value)
        smaller = at_limit & (total > wanted) & met & (self.level[rows] < 3)
        self.level[rows] += smaller
        settled = remaining <= np.maximum(of_value, 1e-8 * np.maximum(np.abs(new), unit))
        narrow = high - low <= 4.0 * _EPS * (np.abs(new) + unit)
        self.done[rows] = (total <= wanted) & settled | (at_limit & ~smaller) | narrow
        self.low[rows], self.high[rows], self.q[rows], self.error[rows] = low, high, new, total
        self.last_q[rows], self.last_h[rows], self.last_error[rows] = q, h, error
        self.derivative[rows], self.last_step[rows], self.slow[rows] = (
            derivative,
            np.abs(step),
            slow,
        )

    def result(self) -> QuantileResult:
        wanted = np.maximum(
            self.tolerance.relative * np.maximum(np.abs(self.q), self.unit), self.tolerance.absolute
        )
        rounded = self.error <= 128.0 * _EPS * (np.abs(self.q) + self.unit)
        met = (self.error <= wanted) | rounded
        status = np.where(met, Status.CONVERGED, Status.LIMIT).astype(np.int8)
        asked = (self.tolerance.relative, self.tolerance.absolute)
        return QuantileResult(self.q, self.error, self.n, self.method, status, asked)


def _bracket(
    log_p: np.ndarray, log_rest: np.ndarray, target: np.ndarray, events: Equicoordinate
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds of the quantile, a first guess, and a standard deviation, each (B,)."""
    mean, deviation = events.mean / events.scale, events.deviation / events.scale
    df, d = events.df, events.d
    with np.errstate(divide="ignore"):
        # Bonferroni: each coordinate exceeds the limit with probability (1 - p) / d.
        log_each = np.log1p(-np.exp(log_rest - np.log(d)))
    if d == 1:
        log_each = log_p
    size, centre = log_p.size, np.abs(mean) if events.two_sided else mean
    above = marginal_quantile(log_each, df, events.two_sided)[:, None]
    high = np.max(centre + deviation * above, axis=1)
    alone = marginal_quantile(log_p, df, events.two_sided)[:, None]
    if events.two_sided:
        one_sided = marginal_quantile(log_p, df, False)[:, None]
        low = np.max(np.maximum(centre + deviation * one_sided, deviation * alone), axis=1)
        low = np.maximum(low, np.max(np.where(deviation > 0.0, 0.0, centre), axis=1))
    else:
        low = np.max(centre + deviation * alone, axis=1)
    guesses = centre + deviation * target[:, None]
    start = np.max(guesses, axis=1)
    unit = np.broadcast_to(np.max(deviation, axis=1), (size,)).copy()
    unit[unit == 0.0] = 1.0
    slack = 16.0 * _EPS * (np.abs(low) + np.abs(high))
    return low - slack, high + slack, start, unit


def marginal_quantile(log_p: np.ndarray, df: np.ndarray, two_sided: bool) -> np.ndarray:
    """Return y with log Pr(T <= y) = log_p, or log Pr(abs(T) <= y), for one coordinate T."""
    inside, outside = np.exp(log_p), -np.expm1(log_p)
    if two_sided:
        return _absolute_quantile(inside, outside, df)
    tail = np.minimum(inside, outside)
    return np.where(outside < inside, 1.0, -1.0) * _absolute_quantile(
        1.0 - 2.0 * tail, 2.0 * tail, df
    )


def _absolute_quantile(inside: np.ndarray, outside: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return y with Pr(abs(T) <= y) = inside = 1 - outside for Student's t or the normal."""
    from scipy import special

    with np.errstate(divide="ignore", over="ignore"):
        small = inside < 0.5
        normal = np.sqrt(2.0) * np.where(small, special.erfinv(inside), special.erfcinv(outside))
        finite = df < np.inf
        if not finite.any():
            return np.asarray(normal)
        # z = y**2 / (df + y**2) has a beta distribution, and so has 1 - z.
        a = 0.5 * np.where(finite, df, 1.0)
        z = np.where(
            small, special.betaincinv(0.5, a, inside), special.betainccinv(0.5, a, outside)
        )
        rest = np.where(z > 0.5, special.betaincinv(a, 0.5, outside), 1.0 - z)
        return np.where(finite, np.sqrt(2.0 * a * z / rest), normal)
