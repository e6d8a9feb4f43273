"""Problems with a covariance diag(c) + V V^T of two to four common factors, on a lattice of them.

Value and derivatives come from the same points, see ``mvnorth._cpu.factors``: those in the limits,
c and V, and by Plackett's identity those in the whole covariance.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._covariance.factors import FactorsRows
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._methods.one_factor_rule import by_sides, inherited
from mvnorth._problem import Problems, Request, Tolerance, in_chunks
from mvnorth._rounding import ROUNDING
from mvnorth._threads import run_items

MOST = 4  # factors
_POINTS = 2**20  # of a row, at most
_EVALUATIONS = 2**29  # points times coordinates, at most
_TYPICAL = (0, 0, 300, 3000, 30000)  # points by the number of factors
_SECONDS = 5e-9  # a point and coordinate
_BOX_SECONDS = 1e-7
_CHUNK = 2**24  # entries of derivatives in covariances at a time: 128 MB
_MARGIN = 0.95  # of a tolerance; the rest is for rounding of the input
_TINY = float(np.finfo(np.float64).tiny)
_NAMES = ("upper", "lower", "c", "V", "cov")


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": after closed forms and one factor."""
    form = problems.covariance.factors()
    return None if form is None or not 2 <= form.V.shape[2] <= MOST else 1.5


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where the covariance has not this form."""
    if problems.covariance.given_factors() is not None:
        return integrate(problems, request)
    estimate = Estimate.unknown(problems, request.wrt)
    rows, factored = factors_problems(problems)
    if factored is None:
        return estimate
    covariance = problems.covariance
    names = tuple(dict.fromkeys("cov" if n in covariance.parameters else n for n in request.wrt))
    part = integrate(factored, replace(request, wrt=names))
    if part.derivatives is not None:
        covariance.take(rows).add_parameters(part.derivatives, request.wrt)
        part = replace(part, derivatives=part.derivatives.only(request.wrt))
    estimate.replace(rows, part)
    return estimate


def factors_problems(problems: Problems) -> tuple[np.ndarray, Problems | None]:
    """Return which rows have a covariance diag(c) + V V^T, and these rows in that form."""
    form = problems.covariance.factors()
    if form is None:
        return np.zeros(problems.size, dtype=bool), None
    c, V, error = form
    rows = np.broadcast_to(np.isfinite(error), problems.size)
    if len(c) > 1:
        c, V, error = c[rows], V[rows], error[rows]
    lower, upper = problems.lower[rows], problems.upper[rows]
    rounding = np.broadcast_to(error, len(upper))
    return rows, Problems(lower, upper, FactorsRows(c, V), rounding, problems.sides)


def integrate(problems: Problems, request: Request) -> Estimate:
    """Return estimates of problems given as diag(c) + V V^T.

    The request names some of "lower", "upper", "mean", "cov", "c", "V".
    """
    wrt = request.wrt
    solve_some: Callable[[Problems], Estimate] = partial(_one_kind, request=request)
    chunk = max(1, _CHUNK // problems.d**2) if "cov" in wrt else problems.size
    return in_chunks(problems, chunk, lambda some: by_sides(some, wrt, solve_some, solve_some))


def most_points(d: int) -> int:
    """Return the points that are spent on a row at most."""
    return min(_POINTS, max(2**14, _EVALUATIONS // d))


def _reachable(n: int, k: int) -> Tolerance:
    """Return the tolerance that n points meet for a normal density, roughly."""
    ball = math.pi ** (0.5 * k) / math.gamma(0.5 * k + 1.0)
    return Tolerance(math.exp(-min(math.pi * (n / (8.0 * ball)) ** (1.0 / k), 50.0)), 0.0)


def _one_kind(problems: Problems, request: Request) -> Estimate:
    """Estimate problems of which all have a coordinate with two limits, or none has."""
    wrt = request.wrt
    covariance = problems.covariance
    c, V, upper = covariance.c, covariance.V, problems.upper
    lower = problems.lower
    below = np.zeros((1, 1), dtype=bool)
    if not problems.two_sided.any():  # X_i >= a is -X_i <= -a, and V_i changes sign
        if problems.has_lower():
            below = np.isfinite(lower)
            upper = np.where(below, -lower, upper)
            V = np.where(below[:, :, None], -V, V)
            c = np.broadcast_to(c, V.shape[:2])
        lower = lower[:0]
    grad = make_results(upper, len(lower), V.shape[2], "cov" in wrt) if wrt else None
    tolerance, most = request.tolerance, most_points(problems.d)
    if request.n is not None:
        tolerance, most = _reachable(request.n, V.shape[2]), request.n
    most = min(most, request.most)
    tolerance = Tolerance(_MARGIN * tolerance.relative, _MARGIN * tolerance.absolute)
    log_prob, rel_error, used = run(upper, lower, c, V, tolerance, most, grad)
    from_input = inherited(problems, log_prob)
    rel_error += from_input + ROUNDING[upper.dtype] * (1.0 + np.abs(log_prob))
    estimate = Estimate.exact(log_prob, rel_error, used)
    if grad is None:
        return estimate
    *values, errors = grad
    by_name = dict(zip(_NAMES, values, strict=True))
    if len(lower) == 0:
        np.negative(by_name["upper"], where=below, out=by_name["upper"])
        np.negative(by_name["V"], where=below[:, :, None], out=by_name["V"])
        if "cov" in wrt:
            sign = below[:, :, None] != below[:, None]
            np.negative(by_name["cov"], where=sign, out=by_name["cov"])
        by_name["lower"] = by_name["upper"]
    of_name = {name: errors[:, j] for j, name in enumerate(_NAMES)}
    if len(lower) == 0:
        of_name["lower"] = of_name["mean"] = of_name["upper"]
        by_name["mean"] = -by_name["upper"]
    else:
        of_name["mean"] = of_name["upper"] + of_name["lower"]
        by_name["mean"] = -(by_name["upper"] + by_name["lower"])
    derivatives = Derivatives({}, {})
    for name in wrt:
        value = by_name[name].copy()
        size = np.abs(value, dtype=np.float64)
        largest = np.max(size.reshape(len(size), -1), axis=1, initial=0.0)
        with np.errstate(invalid="ignore"):
            bound = of_name[name] + 10.0 * from_input * largest + _TINY
        bound = np.where(np.isnan(bound), np.inf, bound)
        derivatives.value[name] = value
        derivatives.error[name] = (
            bound.reshape(-1, *(1,) * (value.ndim - 1)) + ROUNDING[upper.dtype] * size
        )
    derivatives.clear_infinite(problems, log_prob > -np.inf)
    return replace(estimate, derivatives=derivatives)


def make_results(upper: np.ndarray, lower: int, k: int, pairs: bool) -> tuple[np.ndarray, ...]:
    """Return empty arrays for the derivatives that the kernel computes, and their errors.

    ``lower`` is the number of rows with lower limits, ``pairs`` whether those in the whole
    covariance are wanted.
    """
    size, d = upper.shape
    shapes = ((size, d), (lower, d), (size, d), (size, d, k), (size, d, d) if pairs else (0, 0, 0))
    return *(np.empty(shape, dtype=upper.dtype) for shape in shapes), np.empty((size, 5))


def run(
    upper: np.ndarray,
    lower: np.ndarray,
    c: np.ndarray,
    V: np.ndarray,
    tolerance: Tolerance,
    most: int,
    grad: tuple[np.ndarray, ...] | None,
    threads: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (log_prob, rel_error, used) of rows; write derivatives of log_prob to grad.

    Parameters
    ----------
    upper : (B, d) limits > -inf; their precision is that of the result
    lower : (B, d) limits, or (0, d) if there are none
    c, V : (1 or B, d) and (1 or B, d, k), k = 2, 3, 4
    most : points a row, about
    grad : see ``make_results``
    threads : at most; None for as many as there are
    """
    from mvnorth._cpu.factors import factors

    size, d = upper.shape
    k = V.shape[2]
    log_prob, rel_error = np.empty((2, size))
    used = np.empty(size, dtype=np.int64)
    scale = 1.0 / np.sqrt(c)
    arrays = (np.ascontiguousarray(a, dtype=np.float64) for a in (lower, scale, V))
    kernel = partial(
        factors, np.ascontiguousarray(upper), *arrays, tolerance.relative, tolerance.absolute,
        most, int(upper.dtype == np.float32), log_prob, rel_error, used, grad,
    )  # fmt: skip
    seconds = _BOX_SECONDS if len(lower) else _SECONDS
    run_items(kernel, size, size * d * _TYPICAL[k] * seconds, threads)
    lost = ~(log_prob > -np.inf) | ~(rel_error < np.inf)
    log_prob[lost], rel_error[lost] = -np.inf, np.inf
    if grad is not None and lost.any():
        for array in grad[:-1]:
            if len(array):
                array[lost] = 0.0
        grad[-1][lost] = np.inf
    return log_prob, rel_error, used
