"""Carry out a plan for the moments of truncated distributions.

Each block of dependent coordinates goes to the methods of "auto" that are exact, whose derivatives
give moments by identities; rows whose moments are not accurate enough that way go to the weighted
points of sampling.  Coordinates without limits follow by regression on those with limits.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._linalg.regression import regress
from mvnorth._methods import METHODS
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._plan import Block, find_impossible, group_rows, make_plan
from mvnorth._problem import Problems, Request, Tolerance
from mvnorth._solve import contradicts, label_methods, method_bit, subsolver

_SHARE = 1e-6  # of the tolerance of moments: that of the probabilities and derivatives behind them
_CLOSE = 1e-3  # of the tolerance: what exact methods are asked for, as long as there is another
_ORDINARY = 1e-2  # relative tolerance at most, where only an absolute one is given
_FEW = 5  # coordinates up to which Gauss rules are faster than sampling
_ROUNDING = 1e-15
_EPS = float(np.finfo(np.float64).eps)


def solve_moments(problems: Problems, request: Request) -> tuple[MomentEstimate, np.ndarray]:
    """Return moments of X ~ N(0, covariance) between limits, and names of methods, of a batch.

    They are in the units of the problems; NaN with infinite errors where the probability is 0.
    """
    problems = problems.double()
    size, d = problems.lower.shape
    result = MomentEstimate.unknown(size, d)
    used = np.zeros(size, dtype=np.int64)
    never = find_impossible(problems)
    result.rel_error[never] = problems.rounding[never]
    possible = np.flatnonzero(~never)
    limited = np.isfinite(problems.lower) | np.isfinite(problems.upper)
    active = limited & ~problems.covariance.constant()
    for group in group_rows(active[possible]) if possible.size else ():
        rows = possible[group]
        coordinates = np.flatnonzero(active[rows[0]])
        some = problems.take(rows)
        moments, used[rows] = _solve_limited(some.take(slice(None), coordinates), request)
        if coordinates.size < d:
            moments = _extend(some, coordinates, moments)
        result.replace(rows, moments)
    with np.errstate(invalid="ignore"):
        result.add_relative_error(4.0 * problems.rounding)
        contradicted = contradicts(_probability(result), result.log_bound)
    unknown = contradicted | (result.log_prob == -np.inf)
    result.rel_error[contradicted] = np.inf
    result.mean_error[unknown], result.cov_error[unknown] = np.inf, np.inf
    result.mean[result.log_prob == -np.inf] = np.nan
    result.cov[result.log_prob == -np.inf] = np.nan
    return result, label_methods(used)


def _probability(moments: MomentEstimate) -> Estimate:
    return Estimate(moments.log_prob, moments.rel_error, moments.n, moments.log_bound)


def _solve_limited(problems: Problems, request: Request) -> tuple[MomentEstimate, np.ndarray]:
    """Return moments where every coordinate has a limit and a variance, and bits of methods."""
    size, d = problems.lower.shape
    used = np.zeros(size, dtype=np.int64)
    result = MomentEstimate.of(
        Estimate.exact(np.zeros(size), _ROUNDING + problems.rounding),
        *np.zeros((2, size, d)), *np.zeros((2, size, d, d)),
    )  # fmt: skip
    pieces = make_plan(problems, "auto").pieces if d else ()
    for piece in pieces:
        rows = np.arange(size) if piece.rows is None else piece.rows
        share = request.divided(sum(block.may_sample for block in piece.blocks))
        for block in piece.blocks:
            part, bits = _solve_block(block, replace(share, tolerance=request.tolerance))
            used[rows] |= bits
            result.log_prob[rows] += part.log_prob
            result.rel_error[rows] += part.rel_error * (1.0 + result.rel_error[rows])
            result.n[rows] += part.n
            result.log_bound[rows] += part.log_bound
            coordinates = np.arange(d) if block.coordinates is None else block.coordinates
            for name in ("mean", "mean_error", "cov", "cov_error"):
                array, own = getattr(result, name), getattr(part, name)
                array[np.ix_(rows, *[coordinates] * (array.ndim - 1))] = own
    with np.errstate(invalid="ignore"):
        result.rel_error += _ROUNDING * np.abs(result.log_prob)
    return result, used


def _solve_block(block: Block, request: Request) -> tuple[MomentEstimate, np.ndarray]:
    """Return moments of problems that do not fall apart, and bits of their methods, (B,)."""
    problems = block.problems
    if problems.d == 1:
        return _solve_intervals(problems), np.full(problems.size, method_bit("closed_form"))
    result = MomentEstimate.unknown(problems.size, problems.d)
    used = np.full(problems.size, method_bit("tilting"))
    excess = np.full(problems.size, np.inf)
    for name in block.methods():
        rows = np.flatnonzero(excess > (1.0 if METHODS[name].samples else _CLOSE))
        if rows.size and not (name == "gauss" and problems.d > _FEW):
            some = problems.take(rows)
            part = _moments_by(name, some, request)
            of_part = part.excess(request.tolerance, some.covariance.unit)
            better = (of_part < excess[rows]) | np.isnan(result.mean[rows, 0])
            result.replace(rows[better], part, better)
            excess[rows[better]] = of_part[better]
            used[rows[better]] = method_bit(name)
        if not (excess > _CLOSE).any():
            break
    return result, used


def _solve_intervals(problems: Problems) -> MomentEstimate:
    """Return the moments of one coordinate."""
    from mvnorth._methods.interval_moments import ROUNDING, interval_moments

    estimate = METHODS["closed_form"].solve(problems, Request(Tolerance(0.0, 0.0), most=1))
    unit = problems.covariance.deviations()
    width = (problems.upper - problems.lower) / unit
    standard = interval_moments(problems.lower / unit, problems.upper / unit, width)
    error = unit * (ROUNDING * np.sqrt(standard.variance) + 2.0 * _EPS * np.abs(standard.mean))
    cov = (unit**2 * standard.variance)[:, :, None]
    return MomentEstimate.of(estimate, unit * standard.mean, error, cov, 4.0 * ROUNDING * cov)


def _moments_by(name: str, problems: Problems, request: Request) -> MomentEstimate:
    """Return the moments of weighted points, or those that derivatives of an exact method give."""
    if METHODS[name].random:
        from mvnorth._methods.weighted_moments import integrate

        return integrate(problems, request)
    if name == "quadrature":
        return _with_one_factor(problems, request)
    if name == "factors":
        return _with_two_factors(problems, request)
    return _differentiate(name, problems, request)


def _differentiate(name: str, problems: Problems, request: Request) -> MomentEstimate:
    """Return the moments that the derivatives of an exact method give."""
    from mvnorth._methods import gauss
    from mvnorth._methods.moment_identities import moments_of_derivatives

    relative, absolute = request.tolerance.relative, request.tolerance.absolute
    tolerance = Tolerance(_SHARE * (relative or min(absolute, _ORDINARY)), 0.0)
    asked = replace(request, tolerance=tolerance, wrt=("mean", "cov"))
    asked = replace(asked, subsolve=subsolver(asked))
    solve = partial(gauss.solve, complete=False) if name == "gauss" else METHODS[name].solve
    estimate = solve(problems, asked)
    assert estimate.derivatives is not None
    estimate.derivatives.add_relative_error(4.0 * problems.rounding)
    return moments_of_derivatives(problems, estimate)


def _with_one_factor(problems: Problems, request: Request) -> MomentEstimate:
    """Return moments of rows with one common factor, by derivatives if that is accurate enough."""
    from mvnorth._methods import factor_moments
    from mvnorth._methods.quadrature import one_factor_problems

    result = MomentEstimate.unknown(problems.size, problems.d)
    one_sided = np.flatnonzero(~problems.two_sided)
    if one_sided.size:
        result.replace(one_sided, _differentiate("quadrature", problems.take(one_sided), request))
    rows, _ = one_factor_problems(problems)
    excess = result.excess(request.tolerance, problems.covariance.unit)
    rows = np.flatnonzero(rows & (excess > _CLOSE))
    if rows.size:
        _, factored = one_factor_problems(problems.take(rows))
        assert factored is not None
        part = factor_moments.integrate(factored)
        part.add_relative_error(factored.rounding)
        result.replace(rows, part)
    return result


def _with_two_factors(problems: Problems, request: Request) -> MomentEstimate:
    """Return moments of rows with common factors, by derivatives if that is accurate enough.

    Those with two factors are integrated over them where it is not.
    """
    from mvnorth._methods import factors_moments
    from mvnorth._methods.factors import factors_problems

    result = _differentiate("factors", problems, request)
    rows, factored = factors_problems(problems)
    if factored is None or factored.covariance.V.shape[2] != factors_moments.FACTORS:
        return result
    known = np.flatnonzero(rows)
    excess = result.excess(request.tolerance, problems.covariance.unit)[known]
    chosen = excess > _CLOSE
    if chosen.any():
        part = result.take(known[chosen])
        some = factored.take(chosen)
        factors_moments.integrate(some, part)
        part.add_relative_error(some.rounding)
        result.replace(known[chosen], part)
    return result


def _extend(problems: Problems, limited: np.ndarray, moments: MomentEstimate) -> MomentEstimate:
    """Return moments of all coordinates from those of the ``limited`` ones.

    Given the limited ones, the others are normal: K X_limited plus an independent part.
    """
    size, d = problems.lower.shape
    dense = problems.covariance.dense()
    rest = np.setdiff1d(np.arange(d), limited)
    dependent = dense.factor[:, rest]
    K, K_error, left = regress(dependent, dense.factor[:, limited], dense.singular)
    across, across_error, width = np.swapaxes(K, 1, 2), np.swapaxes(K_error, 1, 2), np.abs(K)
    with np.errstate(invalid="ignore"):
        first = K @ moments.mean[:, :, None]
        first_error = width @ moments.mean_error[:, :, None]
        first_error += K_error @ np.abs(moments.mean)[:, :, None]
        cross = K @ moments.cov
        cross_error = width @ moments.cov_error + K_error @ np.abs(moments.cov)
        own = left @ np.swapaxes(left, 1, 2) + cross @ across
        own_error = cross_error @ np.abs(across) + np.abs(cross) @ across_error
        variance = np.sum(dependent**2, axis=2)
        own_error += 8.0 * _EPS * d * np.sqrt(variance[:, :, None] * variance[:, None])
    whole = MomentEstimate.of(
        _probability(moments), *np.zeros((2, size, d)), *np.zeros((2, size, d, d))
    )
    whole.mean[:, limited], whole.mean_error[:, limited] = moments.mean, moments.mean_error
    whole.mean[:, rest], whole.mean_error[:, rest] = first[:, :, 0], first_error[:, :, 0]
    for array, inside, between, outside in (
        (whole.cov, moments.cov, cross, own),
        (whole.cov_error, moments.cov_error, cross_error, own_error),
    ):
        array[:, limited[:, None], limited] = inside
        array[:, rest[:, None], limited] = between
        array[:, limited[:, None], rest] = np.swapaxes(between, 1, 2)
        array[:, rest[:, None], rest] = 0.5 * (outside + np.swapaxes(outside, 1, 2))
    return whole
