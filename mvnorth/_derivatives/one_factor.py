"""Derivatives of one-factor problems in limits, mean and the whole covariance, exact to rounding.

Plackett's identity, dP/dSigma_ij = (1/2) d2 P/dm_i dm_j over all ordered pairs, holds for every
Sigma, so that the one-factor integral at Sigma = diag(c) + v v^T also says what perturbations do
that are not of that form (Plackett 1954, A reduction formula for normal multivariate integrals).
Off the diagonal the matrix is one of posterior second moments, which are positive; its diagonal is
the derivative in c.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._derivatives import conditional
from mvnorth._methods import quadrature
from mvnorth._problem import Estimate, OneFactorProblems, Slopes
from mvnorth._threads import run_items


def solve(problems: OneFactorProblems, wanted: tuple[str, ...]) -> Estimate:
    """Log probabilities as ``quadrature.solve`` has them, and derivatives of them.

    ``wanted`` names some of "lower", "upper", "mean", "cov".  Those of boxes come from conditional
    problems, which have one factor too.
    """
    two_sided = (np.isfinite(problems.lower) & np.isfinite(problems.upper)).any(axis=1)
    if not two_sided.any():
        return _one_sided(problems, wanted)
    estimate = Estimate.unknown(problems, wanted)
    rows = np.flatnonzero(~two_sided)
    if rows.size:
        estimate.replace(rows, _one_sided(problems.take(rows), wanted), np.arange(rows.size))
    rows = np.flatnonzero(two_sided)
    boxes = problems.take(rows)
    part = quadrature.solve(boxes)
    found = conditional.slopes(boxes, wanted, part, quadrature.solve)
    estimate.replace(rows, replace(part, slopes=found), np.arange(rows.size))
    return estimate


def hessian(problems: OneFactorProblems) -> np.ndarray:
    """The Hessian of log P in m, (B, d, d), of problems with upper limits alone, which are m.

    As accurate as ``quadrature.hessian_products``, for the price of a few of these.
    """
    return _matrices(problems.double(), np.zeros(problems.size), False)[0]


def _matrices(
    problems: OneFactorProblems, inherited: np.ndarray, in_sigma: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in Sigma with bounds on their errors, or the Hessian; (B, d, d) in double."""
    from mvnorth._cpu.one_factor import one_factor_matrix

    m = problems.upper
    size, d = m.shape
    matrix = np.empty((size, d, d))
    error = np.empty((size, d, d) if in_sigma else (0, 0, 0))
    rounding = quadrature.ROUNDING[m.dtype]
    kernel = partial(
        one_factor_matrix, m.astype(np.float64), 1.0 / np.sqrt(problems.c), problems.v,
        int(m.dtype == np.float32), rounding, inherited, matrix, error,
    )  # fmt: skip
    run_items(kernel, size, size * d * (5e-7 + d * 5e-9))
    return matrix, error


def _one_sided(problems: OneFactorProblems, wanted: Iterable[str]) -> Estimate:
    """Derivatives where no coordinate has two limits: those of the mirrored problems, signed."""
    below, above = np.isfinite(problems.lower), np.isfinite(problems.upper)
    sign = np.where(below, -1.0, 1.0).astype(problems.upper.dtype)
    mirrored = quadrature.reflected(problems)
    estimate = quadrature.derivatives(mirrored, ("m",))
    found = estimate.slopes
    assert found is not None
    gradient, bound = sign * found.value["m"], found.error["m"]
    known = {
        "lower": lambda: (np.where(below, gradient, 0.0), np.where(below, bound, 0.0)),
        "upper": lambda: (np.where(above, gradient, 0.0), np.where(above, bound, 0.0)),
        "mean": lambda: (
            np.where(below | above, -gradient, 0.0),
            np.where(below | above, bound, 0.0),
        ),
        "cov": lambda: _covariance(mirrored, estimate, sign),
    }
    value, error = {}, {}
    for name in wanted:
        value[name], error[name] = known[name]()
    return replace(estimate, slopes=Slopes(value, error))


def _covariance(
    problems: OneFactorProblems, estimate: Estimate, sign: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The derivative in Sigma and bounds on its errors, (B, d, d) both."""
    m = problems.upper
    from_input = 20.0 * quadrature.inherited(problems, estimate.log_prob)
    grad, error = _matrices(problems, from_input, True)
    free = m == np.inf
    if free.any():  # nothing to differentiate
        without = free[:, :, None] | free[:, None, :]
        grad[without] = error[without] = 0.0
    # Numbers too large leave nothing.
    largest = np.max(np.abs(grad), axis=(1, 2), initial=0.0)
    worst = np.max(error, axis=(1, 2), initial=0.0)
    lost = ~(largest <= np.finfo(m.dtype).max) | ~(worst < np.inf) | np.isinf(estimate.rel_error)
    grad[lost], error[lost] = 0.0, np.inf
    if (sign < 0.0).any():
        grad *= sign[:, :, None] * sign[:, None, :]
    return grad.astype(m.dtype, copy=False), error
