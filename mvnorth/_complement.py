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
from mvnorth._events import Events, total
from mvnorth._methods import METHODS, conditional, factors, quadrature, tilting
from mvnorth._plan import find_impossible
from mvnorth._problem import Problems, Request
from mvnorth._unions import solve_unions

# Probability of an event, and expected number of events, from which on Q is 1 - P.
_LIKELY, _MANY = 0.2, 4.0
_FEW = 100  # events up to which a union is computed where the error of 1 - P is too large
_STEP = 0.5  # ratio of lower bounds on Q, rows between which are solved together
_CLOSED = 3  # coordinates for which there are closed forms
_FAR_OUT = -600.0  # log Q below which derivatives of P underflow
_OFTEN = float(np.log(0.5))  # log P above which derivatives may come from conditional problems


def solve(problems: Problems, request: Request, method: str) -> tuple[Estimate, np.ndarray]:
    """Return estimates of log Q of a batch, with derivatives, and the methods of each row."""
    problems = problems.double()
    estimate, labels = _solve_values(problems, replace(request, wrt=(), subsolve=None), method)
    if request.wrt:
        estimate.derivatives = _differentiate(problems, request, method, estimate)
    return estimate, labels


def _solve_values(problems: Problems, request: Request, method: str) -> tuple[Estimate, np.ndarray]:
    size = problems.size
    estimate = Estimate.exact(np.full(size, -np.inf), np.zeros(size))
    labels = np.full(size, "closed_form", dtype=object)
    exceeded = find_impossible(problems)
    # 0 unless the interval was rounded away
    estimate.log_prob[exceeded], estimate.rel_error[exceeded] = 0.0, problems.rounding[exceeded]
    events = Events.of(problems)
    if not events.size:
        return estimate, labels.astype(str)
    possible = ~exceeded & (events.log_prob[:, 0] > -np.inf)
    likeliest = np.exp(events.log_prob[:, 0])
    likely = (likeliest >= _LIKELY) | (total(np.exp(events.log_prob)) >= _MANY)
    union = possible & ~likely
    for some, share in _by_size(possible & likely, likeliest):
        part, labels[some] = _subtract(problems.take(some), request, method, share)
        estimate.replace(some, part)
        if request.n is None and events.size <= _FEW:
            union[some] = ~request.tolerance.met(part.log_prob, part.rel_error)
    for some, boxes, exact in _by_structure(problems, np.flatnonzero(union), method):
        part, names = solve_unions(boxes, events.take(some), request, method, exact)
        with np.errstate(invalid="ignore"):
            better = ~possible[some] | ~likely[some] | (part.rel_error < estimate.rel_error[some])
        part.n[:] += estimate.n[some]
        estimate.replace(some[better], part, better)
        labels[some[better]] = [_label(names[k]) for k in np.flatnonzero(better)]
    return estimate, labels.astype(str)


def _label(names: set[str]) -> str:
    """Return the methods of the terms; closed forms are part of all unions."""
    return "+".join(name for name in METHODS if name in names - {"closed_form"}) or "closed_form"


def _by_size(rows: np.ndarray, likeliest: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Yield rows with events of about the same probability, and a lower bound on it."""
    high = np.inf
    for low in (_STEP, _STEP**2, _LIKELY, 0.0):
        some = np.flatnonzero(rows & (likeliest >= low) & (likeliest < high))
        if some.size:
            yield some, max(low, _LIKELY)
        high = low


def _by_structure(
    problems: Problems, rows: np.ndarray, method: str
) -> Iterator[tuple[np.ndarray, Problems, bool]]:
    """Yield rows, their problems, and whether boxes of these are exact.

    Problems with common factors are given in that form, which all of their boxes then have.
    """
    covariance = problems.covariance
    given = covariance.given_one_factor() is not None or covariance.given_factors() is not None
    few = problems.d <= _CLOSED
    if not (given or few):
        recognisers = {
            "quadrature": quadrature.one_factor_problems,
            "factors": factors.factors_problems,
        }
        for name, recognise in recognisers.items():
            if rows.size and method in ("auto", name):
                some = problems.take(rows)
                found, factored = recognise(some)
                if factored is not None and found.any():
                    rounding = factored.rounding + some.rounding[found]
                    yield rows[found], replace(factored, rounding=rounding), True
                    rows = rows[~found]
        chain = np.broadcast_to(covariance.triangular().may_be_chain(), problems.size)[rows]
        if chain.any() and method in ("auto", "markov"):
            yield rows[chain], problems.take(rows[chain]), True
            rows = rows[~chain]
    if rows.size:
        yield rows, problems.take(rows), given or few


def _subtract(
    problems: Problems, request: Request, method: str, share: float
) -> tuple[Estimate, np.ndarray]:
    """Return 1 - P of rows where that is at least ``share``, and the methods of each row."""
    relative = request.tolerance.relative * share
    absolute = max(relative, request.tolerance.absolute)
    asked = replace(request.tolerance, relative=relative, absolute=absolute)
    estimate, labels = _solve.solve(problems, replace(request, tolerance=asked), method)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_prob = np.log(-np.expm1(np.minimum(estimate.log_prob, 0.0)))
        error = estimate.rel_error * np.exp(estimate.log_prob - log_prob)
    # Of a P that is 0 nothing more is known than its error.
    error = np.where(estimate.log_prob == -np.inf, estimate.rel_error, error)
    return Estimate.exact(log_prob, error, estimate.n), labels


def _differentiate(
    problems: Problems, request: Request, method: str, estimate: Estimate
) -> Derivatives:
    """Return the derivatives of log Q."""
    of_box = _solve.solve(problems, request, method)[0]
    assert of_box.derivatives is not None
    derivatives = of_box.derivatives.only(request.wrt)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = np.exp(of_box.log_prob - estimate.log_prob)
        relative = estimate.rel_error + of_box.rel_error
        relative = np.where(relative < 1.0, relative / (1.0 - relative), np.inf)
        for name, value in derivatives.value.items():
            factor = ratio.reshape(-1, *(1,) * (value.ndim - 1))
            derivatives.value[name] = np.where(value == 0.0, 0.0, -value * factor)
            error = derivatives.error[name]
            derivatives.error[name] = np.where(error == 0.0, 0.0, error * factor)
    derivatives.add_relative_error(relative)
    known = estimate.log_prob > -np.inf
    other = known & (estimate.log_prob < _FAR_OUT)
    if method == "auto" and tilting.few_faces(problems, request):
        other |= (
            known & (of_box.log_prob > _OFTEN) & tilting.find_poor(of_box, derivatives, request)
        )
    rows = np.flatnonzero(other)
    if rows.size:
        part = _differentiate_faces(problems.take(rows), request, estimate.take(rows))
        derivatives.replace(rows, part)
    for name, error in derivatives.error.items():
        lost = ~np.isfinite(derivatives.value[name])
        derivatives.value[name][lost], error[lost | np.isnan(error)] = 0.0, np.inf
    derivatives.clear_infinite(problems, estimate.log_prob > -np.inf)
    return derivatives


def _differentiate_faces(problems: Problems, request: Request, estimate: Estimate) -> Derivatives:
    """Return derivatives of log Q from densities at the limits, which must not underflow."""
    plain = replace(request, wrt=(), subsolve=None)
    derivatives = conditional.differentiate(
        problems, request.wrt, estimate, lambda given: _solve.solve(given, plain, "auto")[0]
    )
    for value in derivatives.value.values():
        np.negative(value, out=value)
    return derivatives
