"""Equicoordinate quantiles: the public function, and the search for the root.

The method is ours.  F(q) is the probability that no coordinate exceeds q, and h(F) the quantile of
one coordinate at F**(1/d), which is q itself for independent coordinates with equal distributions.
h(F(q)) is nearly linear in q for any covariance, in both tails, so that a few secant steps suffice.
Marginal quantiles and Bonferroni's inequality bracket the root.  Above p = 1/2 the complement 1 - F
is computed in place of F, so that quantiles keep their relative accuracy as p goes to 1.
"""

import math
from dataclasses import dataclass, replace

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
_TINY = float(np.finfo(np.float64).tiny)
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
    log_p: np.ndarray,
    log_rest: np.ndarray,
    events: Equicoordinate,
    tolerance: Tolerance,
    seed: int,
) -> QuantileResult:
    """Return the quantiles of B rows, from logarithms of p and of 1 - p, (B,)."""
    roots = _bracket(log_p, log_rest, events)
    for _ in range(_MOST):
        rows = np.array([k for k, root in enumerate(roots) if not root.done], dtype=int)
        if not rows.size:
            break
        _advance([roots[k] for k in rows], rows, events, tolerance, seed)
    rounding = 128.0 * _EPS
    met = [r.error <= max(r.wanted(tolerance), rounding * (abs(r.q) + r.unit)) for r in roots]
    return QuantileResult(
        np.array([root.q for root in roots]),
        np.array([root.error for root in roots]),
        np.array([root.n for root in roots], dtype=np.int64),
        np.array([root.method for root in roots], dtype=object),
        np.where(met, Status.CONVERGED, Status.LIMIT).astype(np.int8),
        (tolerance.relative, tolerance.absolute),
    )


@dataclass(eq=False, slots=True)
class _Root:
    """The search for one root of h(F(q)) = target; numbers of Python, which are fast for one row.

    Attributes
    ----------
    complement : whether 1 - F is computed
    target : h(p)
    low, high : bracket of the root
    q : where F is computed next
    unit : largest standard deviation
    error : bound on the error of q
    derivative : of h(F(q)) in q, at first a guess
    doubt : estimate of its relative error, at most 1
    secants : number of secants so far
    last_q, last_h, last_error, last_step : of the evaluation before
    slow : number of steps in a row that were hardly shorter
    level : how often the tolerance of F was made smaller
    """

    complement: bool
    target: float
    low: float
    high: float
    q: float
    unit: float
    error: float = 0.0
    derivative: float = 0.0
    doubt: float = 1.0
    secants: int = 0
    last_q: float = math.nan
    last_h: float = math.nan
    last_error: float = 0.0
    last_step: float = math.inf
    slow: int = 0
    level: int = 0
    n: int = 0
    method: str = "closed_form"
    done: bool = False

    def __post_init__(self) -> None:
        self.q = min(max(self.q, self.low), self.high)
        self.derivative = 1.0 / self.unit
        self.error = self.high - self.low
        self.done = self.error <= 128.0 * _EPS * (abs(self.q) + self.unit)

    def wanted(self, tolerance: Tolerance) -> float:
        """Return the error of the quantile that is asked for."""
        return max(tolerance.relative * max(abs(self.q), self.unit), tolerance.absolute)

    def rtol(self, tolerance: Tolerance) -> float:
        """Return the relative error of F, or of 1 - F, to ask for."""
        of_quantile = max(tolerance.relative, tolerance.absolute / self.unit)
        return max(0.2 * of_quantile * 0.1**self.level, 1e-13)

    def step(self, h: float, error: float, met: bool, tolerance: Tolerance) -> None:
        """Move to the secant's root, or to the middle of the bracket, given h(F(q)).

        ``error`` is that of h, and ``met`` says whether F is as accurate as it was asked for.
        """
        q, gap, first = self.q, h - self.target, self.last_step == math.inf
        if abs(h - self.last_h) > 4.0 * (error + self.last_error) and q != self.last_q:
            secant = (h - self.last_h) / (q - self.last_q)
            if 0.0 < secant < math.inf:
                change = 2.0 * abs(secant - self.derivative) / secant
                self.doubt = min(change, 1.0) if self.secants else 1.0
                self.derivative, self.secants = secant, self.secants + 1
        step = -gap / self.derivative
        if gap > error:
            self.high = min(self.high, q)
        elif gap < -error:
            self.low = max(self.low, q)
        width = self.high - self.low
        self.q = min(max(q + step, self.low), self.high)
        self.slow = self.slow + 1 if abs(step) > 0.5 * self.last_step else 0
        # The relative error of the derivative is about its change between secants, which can be
        # small by accident.
        shrink = min(2.0 * abs(step) / max(self.last_step, _TINY), 1.0)
        remaining = abs(step) * max(self.doubt, shrink)
        if (self.q == q and abs(gap) > error) or self.slow >= 3 or not math.isfinite(step):
            self.q, self.slow, remaining = 0.5 * (self.low + self.high), 0, width
        of_value = error / self.derivative * (2.0 if first else 1.0)
        self.error = min(of_value + remaining, width) + 4.0 * _EPS * (abs(self.q) + self.unit)
        enough = self.error <= self.wanted(tolerance)
        exhausted = abs(gap) <= error or remaining <= 0.1 * of_value
        if exhausted and not enough and met and self.level < 3:
            self.level += 1
            exhausted = False
        # An exact F is used to the end, which costs one more evaluation at most.
        settled = remaining <= max(of_value, 1e-8 * max(abs(self.q), self.unit))
        narrow = width <= 4.0 * _EPS * (abs(self.q) + self.unit)
        self.done = (enough and settled) or exhausted or narrow
        self.last_q, self.last_h, self.last_error, self.last_step = q, h, error, abs(step)


def _advance(
    roots: list[_Root], rows: np.ndarray, events: Equicoordinate, tolerance: Tolerance, seed: int
) -> None:
    """Evaluate the rows of these roots, and let them take a step."""
    together: dict[tuple[bool, float], list[int]] = {}
    for k, root in enumerate(roots):
        together.setdefault((root.complement, root.rtol(tolerance)), []).append(k)
    for (complement, rtol), members in together.items():
        upper = events.limits(np.array([roots[k].q for k in members]))
        part = rows[members]
        values = events.probability(upper, part, complement, rtol, seed)
        with np.errstate(divide="ignore"):
            shifted = values.log_prob + np.log1p(-np.minimum(values.rel_error, 1.0))
        both = np.stack([values.log_prob, shifted])
        if complement:
            both = np.log1p(-np.minimum(np.exp(both), 1.0 - 0.5 * _EPS))
        h = marginal_quantile(both / events.d, events.df[part], events.two_sided)
        with np.errstate(invalid="ignore"):
            error = np.abs(h[1] - h[0]) + 8.0 * _EPS * np.abs(h[0])
        error[~(values.rel_error < 0.5)] = np.inf
        columns = (h[0].tolist(), error.tolist(), values.met.tolist(), values.n, values.method)
        for k, h_k, error_k, met, n, method in zip(members, *columns, strict=True):
            roots[k].n += int(n)
            roots[k].method = method
            roots[k].step(h_k, error_k, met, tolerance)


def _bracket(log_p: np.ndarray, log_rest: np.ndarray, events: Equicoordinate) -> list[_Root]:
    """Return brackets of the quantiles, and where to start."""
    mean, deviation = events.mean / events.scale, events.deviation / events.scale
    df, d, two_sided = events.df, events.d, events.two_sided
    log_each = log_p
    if d > 1:  # Bonferroni: each coordinate exceeds the limit with probability (1 - p) / d
        log_each = np.log1p(-np.exp(log_rest) / d)
    levels = np.stack([log_p, log_each, log_p / d])
    alone, above, target = marginal_quantile(levels, df, two_sided)
    centre = np.abs(mean) if two_sided else mean
    low = deviation * alone[:, None]
    if not two_sided:
        low = centre + low
    elif mean.any():
        one_sided = marginal_quantile(log_p, df, False)[:, None]
        low = np.maximum(low, centre + deviation * np.where(deviation > 0.0, one_sided, 0.0))
    low = np.max(low, axis=1)
    high, start = (np.max(centre + deviation * y[:, None], axis=1) for y in (above, target))
    unit = np.max(deviation, axis=1)
    unit = np.broadcast_to(np.where(unit > 0.0, unit, 1.0), low.shape)
    slack = 16.0 * _EPS * (np.abs(low) + np.abs(high))
    columns = (log_rest < log_p, target, low - slack, high + slack, start, unit)
    return [_Root(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def marginal_quantile(log_p: np.ndarray, df: np.ndarray, two_sided: bool) -> np.ndarray:
    """Return y with log Pr(T <= y) = log_p, or log Pr(abs(T) <= y), for one coordinate T."""
    inside, outside = np.exp(log_p), -np.expm1(log_p)
    if two_sided:
        return _absolute_quantile(inside, outside, df)
    tail = np.minimum(inside, outside)
    sign = np.where(outside < inside, 1.0, -1.0)
    return sign * _absolute_quantile(1.0 - 2.0 * tail, 2.0 * tail, df)


def _absolute_quantile(inside: np.ndarray, outside: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return y with Pr(abs(T) <= y) = inside = 1 - outside for Student's t or the normal."""
    from scipy import special

    small, finite = inside < 0.5, df < np.inf
    result = np.empty(inside.shape)
    with np.errstate(divide="ignore", over="ignore"):
        if not finite.all():
            root = np.where(small, special.erfinv(inside), special.erfcinv(outside))
            result[:] = math.sqrt(2.0) * root
        if finite.any():
            # z = y**2 / (df + y**2) has a beta distribution, and so has 1 - z.
            a = 0.5 * np.where(finite, df, 1.0)
            lower, upper = special.betaincinv(0.5, a, inside), special.betainccinv(0.5, a, outside)
            z = np.where(small, lower, upper)
            rest = np.where(z > 0.5, special.betaincinv(a, 0.5, outside), 1.0 - z)
            student = np.sqrt(2.0 * a * z / rest)
            result[:] = np.where(finite, student, result)
    return result
