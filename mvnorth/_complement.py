"""Complements: the probability Q = 1 - P that at least one limit is exceeded.

Where Q is not small it is 1 - P, with an error in P that is small against Q.  Otherwise it is the
probability of a union, without cancellation (``mvnorth._unions``).  Derivatives are those of P:

    d log Q = -(P / Q) d log P
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mvnorth import _solve
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._events import Events
from mvnorth._methods import METHODS, conditional, factors, quadrature
from mvnorth._plan import find_impossible
from mvnorth._problem import Problems, Request
from mvnorth._unions import solve_unions

_SMALL = 0.05  # a probability below which Q is computed as a union
_STEP = 2.0  # ratio of lower bounds of Q, rows between which are solved together
_CLOSED = 3  # coordinates for which there are closed forms
_FAR_OUT = -600.0  # log Q below which the derivatives of P underflow


def solve(problems: Problems, request: Request, method: str) -> tuple[Estimate, np.ndarray]:
    """Return estimates of log Q of a batch, with derivatives, and the methods of each row."""
    problems = problems.double()
    estimate, names = _values(problems, replace(request, wrt=(), subsolve=None), method)
    if request.wrt:
        estimate.derivatives = _differentiate(problems, request, method, estimate)
    return estimate, names


def _values(problems: Problems, request: Request, method: str) -> tuple[Estimate, np.ndarray]:
    size = problems.size
    estimate = Estimate.exact(np.full(size, -np.inf), np.zeros(size))
    names = np.full(size, "closed_form", dtype=object)
    exceeded = find_impossible(problems)
    # 0 unless the interval was rounded away
    estimate.log_prob[exceeded], estimate.rel_error[exceeded] = 0.0, problems.rounding[exceeded]
    events = Events.of(problems)
    some = ~exceeded & (events.log_prob > -np.inf).any(axis=1)
    least = np.exp(events.log_prob[:, 0]) if events.size else np.zeros(size)
    rows = np.flatnonzero(some & (least < _SMALL))
    for rows, boxes, exact in _by_structure(problems, rows, method):
        part, used = solve_unions(boxes, events.take(rows), request, method, exact)
        estimate.replace(rows, part)
        names[rows] = [_label(of) for of in used]
    for rows, share in _shares(some, least):
        part, labels = _subtract(problems.take(rows), request, method, share)
        estimate.replace(rows, part)
        names[rows] = labels
    return estimate, names.astype(str)


def _by_structure(
    problems: Problems, rows: np.ndarray, method: str
) -> Iterator[tuple[np.ndarray, Problems, bool]]:
    """Yield rows, their problems, and whether boxes of these are exact.

    Problems with common factors are given in that form, which all of their boxes then have.
    """
    covariance = problems.covariance
    if rows.size and problems.d > _CLOSED and not _given(problems) and method == "auto":
        for recognise in (quadrature.one_factor_problems, factors.factors_problems):
            some = problems.take(rows)
            found, factored = recognise(some)
            if factored is not None:
                yield (
                    rows[found],
                    replace(factored, rounding=factored.rounding + some.rounding[found]),
                    True,
                )
                rows = rows[~found]
            if not rows.size:
                return
    if rows.size:
        yield rows, problems.take(rows), problems.d <= _CLOSED or _given(problems)


def _given(problems: Problems) -> bool:
    covariance = problems.covariance
    return covariance.given_one_factor() is not None or covariance.given_factors() is not None


def _label(used: set[str]) -> str:
    sampled = used - {"closed_form"}
    return "+".join(name for name in METHODS if name in sampled) or "closed_form"


def _shares(some: np.ndarray, least: np.ndarray):
    """Yield rows whose Q is not small, and a lower bound on Q in each set of rows."""
    high = 1.0
    while high > max(_SMALL, 1e-300):
        low = max(high / _STEP, _SMALL)
        rows = np.flatnonzero(some & (least >= low) & ((least < high) | (high == 1.0)))
        if rows.size:
            yield rows, low
        high = low


def _subtract(
    problems: Problems, request: Request, method: str, share: float
) -> tuple[Estimate, np.ndarray]:
    """Return 1 - P of rows where that is at least ``share``, and the methods of each row."""
    tolerance = request.tolerance
    absolute = max(tolerance.relative * share, tolerance.absolute)
    asked = replace(tolerance, relative=tolerance.relative * share, absolute=absolute)
    estimate, labels = _solve.solve(problems, replace(request, tolerance=asked), method)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_prob = np.log(-np.expm1(np.minimum(estimate.log_prob, 0.0)))
        error = estimate.rel_error * np.exp(estimate.log_prob - log_prob)
        error = np.where(estimate.log_prob == -np.inf, estimate.rel_error, error)
    estimate = Estimate.exact(log_prob, error, estimate.n)
    return estimate, labels


def _differentiate(
    problems: Problems, request: Request, method: str, estimate: Estimate
) -> Derivatives:
    """Return the derivatives of log Q."""
    of_box, _ = _solve.solve(problems, request, method)
    derivatives = of_box.derivatives
    assert derivatives is not None
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(of_box.log_prob - estimate.log_prob)
        # Of both probabilities; a ratio of errors above 1 says nothing.
        relative = of_box.rel_error + estimate.rel_error
        relative = np.where(relative < 1.0, relative / (1.0 - relative), np.inf)
    for name, value in derivatives.value.items():
        shape = (-1, *(1,) * (value.ndim - 1))
        with np.errstate(over="ignore", invalid="ignore"):
            derivatives.value[name] = -value * ratio.reshape(shape)
            derivatives.error[name] = derivatives.error[name] * ratio.reshape(shape)
    derivatives.add_relative_error(relative)
    return derivatives
