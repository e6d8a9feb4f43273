"""Derivatives of one-factor problems in limits, mean and the whole covariance, exact to rounding.

Plackett's identity, dP/dSigma_ij = (1/2) d2 P/dm_i dm_j over all ordered pairs, holds for every
Sigma, so that the one-factor integral at Sigma = diag(c) + v v^T also says what perturbations do
that are not of that form (Plackett 1954, A reduction formula for normal multivariate integrals).
Off the diagonal the matrix is one of posterior second moments, which are positive; its diagonal is
the derivative in c.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._derivatives import conditional
from mvnorth._device import Device
from mvnorth._methods import quadrature
from mvnorth._problem import Estimate, OneFactorProblems, Slopes
from mvnorth._threads import run_items


def solve(
    problems: OneFactorProblems, wanted: tuple[str, ...], device: Device | None = None
) -> Estimate:
    """Log probabilities as ``quadrature.solve`` has them, and derivatives of them.

    ``wanted`` names some of "lower", "upper", "mean", "cov", "c", "v".  Those of boxes come from
    conditional problems, which have one factor too.
    """

    def boxes(some: OneFactorProblems) -> Estimate:
        estimate = quadrature.solve_boxes(some)
        return replace(
            estimate, slopes=conditional.slopes(some, wanted, estimate, quadrature.solve)
        )

    def one_sided(some: OneFactorProblems) -> Estimate:
        return _one_sided(some, wanted, device)

    return quadrature.by_sides(problems, wanted, one_sided, boxes)


def mirrored_back(
    problems: OneFactorProblems,
    wanted: tuple[str, ...],
    differentiate: Callable[[OneFactorProblems, tuple[str, ...]], Estimate],
) -> Estimate:
    """Derivatives where no coordinate has two limits, from those of mirrored problems, signed.

    Parameters
    ----------
    wanted : some of "lower", "upper", "mean", "c", "v"
    differentiate : gives estimates of problems with upper limits alone, which are m, with slopes in
        some of "m", "c", "v"
    """
    names = tuple(name for name in ("m", "c", "v") if name in wanted or name == "m")
    mirrored = quadrature.reflected(problems)
    estimate = differentiate(mirrored, names)
    slopes = estimate.slopes
    assert slopes is not None
    if mirrored is not problems:
        below = np.isfinite(problems.lower)
        for name in {"m", "v"} & slopes.value.keys():
            np.negative(slopes.value[name], where=below, out=slopes.value[name])
    found = Slopes({}, {})
    for name in wanted:
        own = name if name in names else "m"
        value = slopes.value[own]
        found.value[name] = -value if name == "mean" else value.copy()
        found.error[name] = slopes.error[own].copy()
    if mirrored is not problems or "lower" in wanted:
        found.clear_infinite(problems, estimate.log_prob > -np.inf)
    return replace(estimate, slopes=found)


def hessian(problems: OneFactorProblems) -> np.ndarray:
    """The Hessian of log P in m, (B, d, d), of problems with upper limits alone, which are m.

    In double precision, as accurate as ``quadrature.hessian_products``, for the price
    of a few of these.
    """
    return _matrices(problems, np.zeros(problems.size), False)[0]


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


def _one_sided(
    problems: OneFactorProblems, wanted: tuple[str, ...], device: Device | None
) -> Estimate:
    own = tuple(name for name in wanted if name != "cov")
    estimate = mirrored_back(problems, own, partial(quadrature.derivatives, device=device))
    if "cov" in wanted:
        assert estimate.slopes is not None
        found = _covariance(problems, estimate)
        estimate.slopes.value["cov"], estimate.slopes.error["cov"] = found
    return estimate


def _covariance(problems: OneFactorProblems, estimate: Estimate) -> tuple[np.ndarray, np.ndarray]:
    """The derivative in Sigma and bounds on its errors, (B, d, d) both."""
    mirrored = quadrature.reflected(problems)
    m = mirrored.upper
    from_input = 20.0 * quadrature.inherited(problems, estimate.log_prob)
    grad, error = _matrices(mirrored, from_input, True)
    free = m == np.inf
    if free.any():  # nothing to differentiate
        without = free[:, :, None] | free[:, None, :]
        grad[without] = error[without] = 0.0
    # Numbers too large leave nothing.
    largest = np.max(np.abs(grad), axis=(1, 2), initial=0.0)
    worst = np.max(error, axis=(1, 2), initial=0.0)
    lost = ~(largest <= np.finfo(m.dtype).max) | ~(worst < np.inf) | np.isinf(estimate.rel_error)
    grad[lost], error[lost] = 0.0, np.inf
    below = np.isfinite(problems.lower)
    np.negative(grad, where=below[:, :, None] != below[:, None], out=grad)
    return grad.astype(m.dtype, copy=False), error
