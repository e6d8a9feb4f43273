"""Multiple comparisons by the distribution of the largest statistic.

Single-step and free step-down p-values, critical values and intervals: Hothorn, Bretz & Westfall
(2008), "Simultaneous inference in general parametric models", Biometrical Journal 50(3).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._contrasts import Contrasts
from mvnorth._equicoordinate import Equicoordinate, read_equicoordinate
from mvnorth._max_t_result import MaxTResult
from mvnorth._quantile import find_quantiles
from mvnorth._status import Status
from mvnorth.covariance import Factors

ALTERNATIVES = ("two-sided", "greater", "less")


def max_t(
    estimates: ArrayLike | Contrasts,
    cov: ArrayLike | Factors | None = None,
    df: float | None = None,
    *,
    null: ArrayLike = 0.0,
    alternative: str = "two-sided",
    level: float = 0.95,
    names: Sequence[str] | None = None,
    step_down: bool = True,
    rtol: float | None = None,
    seed: int = 0,
) -> MaxTResult:
    """Test several hypotheses at once; return adjusted p-values and simultaneous intervals.

    The statistics are (estimate - null) / standard error. If all hypotheses are true they have a
    multivariate normal or Student t distribution, and a single-step p-value is the probability
    that the largest of them is at least as large as the one observed. Under any set of true
    hypotheses the probability to reject one of them is at most the level of the test.

    Parameters
    ----------
    estimates : array_like (m,), or Contrasts
        Estimates of m parameters, or what ``group_contrasts`` and ``sample_contrasts`` return,
        which has ``cov``, ``df`` and ``names`` as well.
    cov : array_like (m, m), or Factors
        Covariance of the estimates, which may be singular.
    df : float, optional
        Degrees of freedom of the estimated variance in ``cov``. Default: it is known, and the
        distribution normal.
    null : float or array_like (m,)
        Values of the parameters under the hypotheses.
    alternative : {"two-sided", "greater", "less"}
        What the hypotheses are tested against: parameters that differ from ``null``, or are
        greater, or less.
    level : float
        Probability that all intervals cover their parameters.
    names : sequence of str, optional
        Names of the parameters, for the table and the plot.
    step_down : bool
        Compute step-down p-values too.
    rtol : float, optional
        Relative error of p-values and of the critical value asked for. Default: 1e-4.
    seed : int
        Seed of the random shifts, for covariances that are sampled.

    Returns
    -------
    MaxTResult

    Examples
    --------
    >>> import mvnorth
    >>> cov = [[1.0, 0.5, 0.3], [0.5, 1.0, 0.4], [0.3, 0.4, 1.0]]
    >>> result = mvnorth.max_t([2.5, 0.4, -1.1], cov)
    >>> result.p_values.round(4)
    array([0.0347, 0.9628, 0.5731])
    """
    if isinstance(estimates, Contrasts):
        if cov is not None or df is not None:
            raise ValueError("cov and df must not be given with Contrasts, which have their own")
        given = estimates
        estimates, cov, df = given.estimates, given.cov, given.df
        names = given.names if names is None else names
    if cov is None:
        raise TypeError("cov must be the covariance of the estimates, (m, m)")
    values = _arguments.real_array("estimates", estimates, infinite=False)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"estimates must have shape (m,) with m >= 1, got {values.shape}")
    if alternative not in ALTERNATIVES:
        listed = ", ".join(map(repr, ALTERNATIVES))
        raise ValueError(f"alternative must be one of {listed}, got {alternative!r}")
    if not (np.ndim(level) == 0 and 0.0 < level < 1.0):
        raise ValueError(f"level must be greater than 0 and less than 1, got {level!r}")
    if df is not None and np.ndim(df) > 0:
        raise ValueError(f"df must be one number, or None, got the shape {np.shape(df)}")
    tolerance = _arguments.tolerance(rtol, None, None)
    assert tolerance is not None
    start = _arguments.whole_number("seed", seed, at_least=0)
    two_sided = alternative == "two-sided"
    events = read_equicoordinate(0.0, cov, df, (), two_sided)
    if events.batch != () or events.d != values.size:
        raise ValueError(
            f"cov must be for {values.size} estimates, ({values.size}, {values.size}), got one "
            f"for {events.d}" + f" with batch axes {events.batch}" * bool(events.batch)
        )
    errors = events.deviation[0]
    if not (errors > 0.0).all():
        raise ValueError(f"cov must have variances > 0, that of estimate {errors.argmin()} is 0")
    hypotheses = _arguments.real_array("null", null, infinite=False)
    if hypotheses.shape not in ((), values.shape):
        raise ValueError(
            f"null must be one number or {values.size} of them, got {hypotheses.shape}"
        )
    statistics = (values - hypotheses) / errors
    sizes = np.abs(statistics) if two_sided else statistics * (-1) ** (alternative == "less")
    standardised = replace(events, scale=errors)
    single, down = _p_values(sizes, standardised, step_down, tolerance.relative, start)
    critical = find_quantiles(
        np.log([level]), np.log1p([-level]), standardised, tolerance, start
    ).reshaped(())
    width = float(critical) * errors
    lower = np.full(values.size, -np.inf) if alternative == "less" else values - width
    upper = np.full(values.size, np.inf) if alternative == "greater" else values + width
    met = single.met and (down is None or down.met) and critical.status != Status.LIMIT
    return MaxTResult(
        names=_names(names, values.size),
        estimates=values,
        null=np.broadcast_to(hypotheses, values.shape).copy(),
        standard_errors=errors.copy(),
        statistics=statistics,
        p_values=single.p,
        p_errors=single.error,
        step_down_p_values=None if down is None else down.p,
        step_down_p_errors=None if down is None else down.error,
        critical_value=critical.quantile,
        critical_error=critical.error,
        lower=lower,
        upper=upper,
        level=float(level),
        alternative=alternative,
        df=None if df is None else float(df),
        status=Status.CONVERGED if met else Status.LIMIT,
    )


class _PValues(NamedTuple):
    p: np.ndarray
    error: np.ndarray
    met: bool


def _p_values(
    sizes: np.ndarray, events: Equicoordinate, step_down: bool, rtol: float, seed: int
) -> tuple[_PValues, _PValues | None]:
    """Return single-step p-values of statistics (m,), and step-down ones if asked for.

    In a step-down row the coordinates with larger statistics have no limits.
    """
    m = sizes.size
    order = np.argsort(-sizes, kind="stable")
    upper = sizes[:, None] * events.scale
    if step_down:
        rest = sizes[order[1:], None] * events.scale
        rank = np.empty(m, dtype=int)
        rank[order] = np.arange(m)
        rest[rank[None, :] <= np.arange(m - 1)[:, None]] = np.inf
        upper = np.concatenate([upper, rest])
    rows = np.zeros(len(upper), dtype=int)  # one distribution for all of them
    found = events.probability(upper, rows, True, rtol, seed)
    p = np.minimum(np.exp(found.log_prob), 1.0)
    error = np.minimum(p * found.rel_error, 1.0)
    single = _PValues(p[:m], error[:m], bool(found.met[:m].all()))
    if not step_down:
        return single, None
    raw = np.append(p[order[0]], p[m:])
    raw_error = np.append(error[order[0]], error[m:])
    down, down_error = np.empty(m), np.empty(m)
    down[order] = np.maximum.accumulate(raw)  # a hypothesis is rejected only after those before
    down_error[order] = np.maximum.accumulate(raw_error)
    return single, _PValues(down, down_error, bool(found.met.all()))


def _names(names: Sequence[str] | None, m: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"parameter {k}" for k in range(m))
    given = tuple(str(name) for name in names)
    if isinstance(names, str) or len(given) != m:
        raise ValueError(f"names must be {m}, one for each estimate, got {names!r}")
    return given
