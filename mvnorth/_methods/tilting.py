"""Genz's method in tilted variables: what "auto" takes where nothing exact applies."""

import numpy as np

from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request

_NEARLY_1 = float(np.log(0.99))  # log P above which conditional problems give derivatives
_POOR = 30.0  # errors of derivatives over that of the probability that are too large there
# Coordinates up to which conditional problems are few enough, with a covariance and without.
_PAIRS, _FACES = 16, 50


def preference(problems: Problems) -> float:
    """Return the place among the methods of "auto": the last."""
    return 9.0


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates, and derivatives of the tilted estimate with the tilt held."""
    from mvnorth._methods import genz  # and numba

    if request.wrt:
        return differentiate(problems, request)
    return genz.integrate(problems, request, tilted=True)


def differentiate(problems: Problems, request: Request) -> Estimate:
    """Return estimates with derivatives, those of conditional problems where P is close to 1.

    Few points come near limits that are hardly ever exceeded.  The density there times the
    probability of the others has a small relative error all the same.
    """
    from mvnorth._methods import conditional, pathwise  # and numba

    estimate = pathwise.differentiate(problems, request, tilted=True)
    assert estimate.derivatives is not None
    if not few_faces(problems, request) or request.device is not None:
        return estimate
    close = (estimate.log_prob > _NEARLY_1) & (estimate.rel_error < 1.0)
    rows = np.flatnonzero(close & find_poor(estimate, estimate.derivatives, request))
    if rows.size:
        assert request.subsolve is not None
        subsolve = request.subsolve
        some, known = problems.take(rows), estimate.take(rows)
        known.rel_error[:] += some.rounding
        better = conditional.differentiate(
            some, request.wrt, known, lambda given: subsolve(given, "auto")
        )
        for name, error in better.error.items():
            closer = error < estimate.derivatives.error[name][rows]
            for of, by in (
                (estimate.derivatives.value[name], better.value[name]),
                (estimate.derivatives.error[name], error),
            ):
                of[rows] = np.where(closer, by, of[rows])
    return estimate


def few_faces(problems: Problems, request: Request) -> bool:
    """Return whether derivatives may take as many other problems as "conditional" does."""
    return request.n is None and problems.d <= (_PAIRS if request.in_covariance else _FACES)


def find_poor(estimate: Estimate, derivatives: Derivatives, request: Request) -> np.ndarray:
    """Return rows whose derivatives are far less accurate than the probability, (B,)."""
    allowed = _POOR * np.maximum(request.tolerance.relative, estimate.rel_error)
    poor = np.zeros(estimate.log_prob.size, dtype=bool)
    for name, error in derivatives.error.items():
        axes = tuple(range(1, error.ndim))
        largest = np.abs(derivatives.value[name]).max(axis=axes, initial=0.0)
        with np.errstate(invalid="ignore"):  # of rows without a claim
            poor |= ~(error.max(axis=axes, initial=0.0) <= allowed * largest)
    return poor
