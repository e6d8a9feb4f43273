"""Problems of one to three coordinates, without random points."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._cpu import closed_form as kernels
from mvnorth._estimate import Estimate
from mvnorth._methods import conditional, quadrature
from mvnorth._problem import Problems, Request
from mvnorth._threads import run_items

MAX_COORDINATES = 3
# Kernels for one-sided rows of d = 1, 2, 3, and for all others, with the seconds that a row takes.
_ONE_SIDED = (
    ((kernels.univariate, 2e-8),),
    ((kernels.bivariate, 3e-7),),
    ((kernels.trivariate, 1.5e-6), (kernels.trivariate_adaptive, 5e-5)),
)
_TWO_SIDED = (
    ((kernels.univariate_box, 5e-8),),
    ((kernels.bivariate_box, 4e-6),),
    ((kernels.trivariate_box, 1e-5), (kernels.trivariate_box_adaptive, 1e-4)),
)
_FAR_OUT = -500.0  # logarithm of a probability


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": the first, unless one factor is given."""
    if problems.d > MAX_COORDINATES:
        return None
    return 0.0 if problems.covariance.given_one_factor() is None else 2.0


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where the closed form does not hold."""
    estimate = _solve(problems.dense())
    if not request.wrt:
        return estimate
    assert request.subsolve is not None
    subsolve = request.subsolve
    known = replace(estimate, rel_error=estimate.rel_error + problems.rounding)
    derivatives = conditional.differentiate(
        problems, request.wrt, known, lambda given: subsolve(given, "closed_form")
    )
    estimate = replace(estimate, derivatives=derivatives)
    _refine_far_out(problems, estimate, request)
    return estimate


def _refine_far_out(problems: Problems, estimate: Estimate, request: Request) -> None:
    """Take derivatives from quadrature where P is so small that these are better.

    Those of a closed form are quotients, whose logarithms are rounded to their own size.
    """
    rows = np.flatnonzero((estimate.log_prob < _FAR_OUT) & np.isfinite(estimate.log_prob))
    if not rows.size:
        return
    other = quadrature.solve(problems.take(rows), replace(request, device=None)).derivatives
    assert other is not None
    assert estimate.derivatives is not None
    for name, error in estimate.derivatives.error.items():
        better = other.error[name] < error[rows]
        value = estimate.derivatives.value[name]
        value[rows] = np.where(better, other.value[name], value[rows])
        error[rows] = np.where(better, other.error[name], error[rows])


def _solve(problems: Problems[Dense]) -> Estimate:
    lower, upper = _contiguous(problems.lower), _contiguous(problems.upper)
    factor = _contiguous(problems.covariance.factor)
    size = len(lower)
    log_prob, rel_error = np.empty(size), np.empty(size)
    rel_error.fill(np.nan)
    left = size  # rows that the kernels so far have not done
    for kernel, cost in _kernels(problems):
        rows = partial(kernel, lower, upper, factor, log_prob, rel_error)
        run_items(rows, size, left * cost)
        left = int(rel_error[0] != rel_error[0]) if size == 1 else int(np.isnan(rel_error).sum())
        if left == 0:
            break
    return Estimate.exact(log_prob, rel_error)


def _kernels(problems: Problems) -> tuple[tuple[Callable, float], ...]:
    """Return the kernels to try, each with the seconds that a row takes.

    Each leaves rows that it does not do for the next.
    """
    both = problems.sides == 2 and (problems.size == 1 or bool(problems.two_sided.all()))
    one_sided, two_sided = _ONE_SIDED[problems.d - 1], _TWO_SIDED[problems.d - 1]
    return two_sided if both else one_sided + two_sided


def _contiguous(a: np.ndarray) -> np.ndarray:
    """Return the layout for which kernels are compiled: contiguous and writable."""
    return a if a.flags.carray else np.array(a, order="C")
