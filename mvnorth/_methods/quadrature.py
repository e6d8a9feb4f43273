"""Problems with a covariance diag(c) + v v^T, by integration over the common factor.

Derivatives in limits, mean and the whole covariance are exact to rounding as well.  Plackett's
identity, dP/dSigma_ij = (1/2) d2 P/dm_i dm_j over all ordered pairs, holds for every Sigma, so that
the one-factor integral at Sigma = diag(c) + v v^T also gives the derivatives in perturbations that
are not of that form (Plackett 1954, A reduction formula for normal multivariate integrals).  Off
the diagonal the matrix is one of posterior second moments, which are positive; its diagonal is the
derivative in c.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._device import Device
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._methods import conditional, one_factor_rule
from mvnorth._problem import Problems, Request
from mvnorth._rounding import ROUNDING
from mvnorth._threads import run_items

_FEW = 3


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": after closed forms."""
    if problems.d <= _FEW:  # closed forms come first; looking for the form takes longer
        return 1.0
    return None if problems.covariance.one_factor() is None else 1.0


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where the covariance has not this form."""
    if problems.covariance.given_one_factor() is not None:
        return integrate(problems, request.wrt, request.device)
    estimate = Estimate.unknown(problems, request.wrt)
    rows, factored = one_factor_problems(problems)
    if factored is None:
        return estimate
    names = tuple(
        dict.fromkeys("cov" if n in problems.covariance.parameters else n for n in request.wrt)
    )
    part = integrate(factored, names, request.device)
    if part.derivatives is not None:
        problems.take(rows).covariance.add_parameters(part.derivatives, request.wrt)
    if rows.all():
        derivatives = None if part.derivatives is None else part.derivatives.only(request.wrt)
        return replace(part, derivatives=derivatives)
    estimate.replace(rows, part)
    return estimate


def one_factor_problems(problems: Problems) -> tuple[np.ndarray, Problems | None]:
    """Return which rows have a covariance diag(c) + v v^T, and these rows in that form."""
    form = problems.covariance.one_factor()
    if form is None:
        return np.zeros(problems.size, dtype=bool), None
    c, v, error = form
    rows = np.broadcast_to(np.isfinite(error), problems.size)
    if len(c) > 1:
        c, v, error = c[rows], v[rows], error[rows]
    lower, upper = problems.lower[rows], problems.upper[rows]
    rounding = np.broadcast_to(error, len(upper))
    return rows, Problems(lower, upper, OneFactorRows(c, v), rounding, problems.sides)


def integrate(
    problems: Problems, wrt: tuple[str, ...] = (), device: Device | None = None
) -> Estimate:
    """Return estimates of problems given as diag(c) + v v^T.

    ``wrt`` names some of "lower", "upper", "mean", "cov", "c", "v".  Derivatives of boxes come from
    conditional problems, which have one factor too.
    """
    if not wrt:
        return one_factor_rule.solve(problems, device)

    def boxes(some: Problems) -> Estimate:
        estimate = one_factor_rule.solve_boxes(some)
        derivatives = conditional.differentiate(some, wrt, estimate, one_factor_rule.solve)
        return replace(estimate, derivatives=derivatives)

    def one_sided(some: Problems) -> Estimate:
        return _one_sided(some, wrt, device)

    return one_factor_rule.by_sides(problems, wrt, one_sided, boxes)


def differentiate_reflected(
    problems: Problems,
    wrt: tuple[str, ...],
    differentiate: Callable[[Problems, tuple[str, ...]], Estimate],
) -> Estimate:
    """Differentiate problems without two-sided coordinates by reflecting them to upper limits.

    Parameters
    ----------
    wrt : some of "lower", "upper", "mean", "c", "v"
    differentiate : estimates problems with upper limits alone, which are m, with derivatives in
        some of "m", "c", "v"
    """
    names = tuple(name for name in ("m", "c", "v") if name in wrt or name == "m")
    reflected = one_factor_rule.reflect(problems)
    estimate = differentiate(reflected, names)
    signed = estimate.derivatives
    assert signed is not None
    if reflected is not problems:
        below = np.isfinite(problems.lower)
        for name in {"m", "v"} & signed.value.keys():
            np.negative(signed.value[name], where=below, out=signed.value[name])
    derivatives = Derivatives({}, {})
    for name in wrt:
        source = name if name in names else "m"
        value = signed.value[source]
        derivatives.value[name] = -value if name == "mean" else value.copy()
        derivatives.error[name] = signed.error[source].copy()
    if reflected is not problems or "lower" in wrt:
        derivatives.clear_infinite(problems, estimate.log_prob > -np.inf)
    return replace(estimate, derivatives=derivatives)


def hessian(problems: Problems) -> np.ndarray:
    """Return the Hessian of log P in m, (B, d, d), of problems with upper limits alone: m.

    In double precision, as accurate as ``one_factor_rule.hessian_products``, for the price
    of a few of these.
    """
    return _matrices(problems, np.zeros(problems.size), False)[0]


def _matrices(
    problems: Problems, inherited: np.ndarray, in_sigma: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives in Sigma with bounds on their errors, or the Hessian; (B, d, d)."""
    from mvnorth._cpu.one_factor import one_factor_matrix

    m = problems.upper
    size, d = m.shape
    matrix = np.empty((size, d, d))
    error = np.empty((size, d, d) if in_sigma else (0, 0, 0))
    rounding = ROUNDING[m.dtype]
    scale, v = 1.0 / np.sqrt(problems.covariance.c), problems.covariance.v
    kernel = partial(
        one_factor_matrix, m.astype(np.float64), scale, v,
        int(m.dtype == np.float32), rounding, inherited, matrix, error,
    )  # fmt: skip
    run_items(kernel, size, size * d * (5e-7 + d * 5e-9))
    return matrix, error


def _one_sided(problems: Problems, wrt: tuple[str, ...], device: Device | None) -> Estimate:
    names = tuple(name for name in wrt if name != "cov")
    differentiate = partial(one_factor_rule.derivatives, device=device)
    estimate = differentiate_reflected(problems, names, differentiate)
    if "cov" in wrt:
        assert estimate.derivatives is not None
        in_covariance = _in_covariance(problems, estimate)
        estimate.derivatives.value["cov"], estimate.derivatives.error["cov"] = in_covariance
    return estimate


def _in_covariance(problems: Problems, estimate: Estimate) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative in Sigma and bounds on its errors, (B, d, d) both."""
    reflected = one_factor_rule.reflect(problems)
    m = reflected.upper
    from_input = 20.0 * one_factor_rule.inherited(problems, estimate.log_prob)
    grad, error = _matrices(reflected, from_input, True)
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
