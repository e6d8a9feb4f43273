"""Log-densities of censored normal vectors, and their derivatives.

With o the observed coordinates and u the others, in the notation of
``mvnorth._covariance.given_values``,

    log f = log N(r; 0, Sigma_oo) + log Pr(lower_u <= X_u <= upper_u | X_o = r).

Let w = Sigma_oo^-1 r, g and G the derivatives of the second term in the mean and the covariance of
X_u given X_o (G as in ``Derivatives``), and T the matrix with -K^T in the rows o and the identity
in the rows u.  Then with w, and Sigma_oo^-1, extended by zeros to all coordinates,

    d log f / d mean  = T g + w
    d log f / d Sigma = T G T^T + (w (T g)^T + (T g) w^T + w w^T - Sigma_oo^-1) / 2
    d log f / d r     = -(d log f / d mean)_o

which is the chain rule for the conditional mean K r and covariance Sigma_uu - K Sigma_ou.
"""

from dataclasses import replace

import numpy as np

from mvnorth._censored_problems import CensoredProblems, require_density
from mvnorth._covariance.given_values import Given, transposed
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._linalg.bounds import times
from mvnorth._problem import Problems, Request
from mvnorth._solve import solve

_EPS = float(np.finfo(np.float64).eps)
_TIED = 10.0  # times ``singular``, as in ``mvnorth._covariance.dense``


def solve_censored(
    censored: CensoredProblems, request: Request, method: str
) -> tuple[Estimate, np.ndarray]:
    """Return log-densities and derivatives of a batch, and the names of the methods of each row.

    Rows with the same observed coordinates are solved together.
    """
    problems = censored.problems
    estimate = Estimate.unknown(problems, request.wrt)
    methods = np.full(problems.size, "", dtype=object)
    patterns, which = np.unique(censored.observed, axis=0, return_inverse=True)
    for number, observed in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == number)
        part, names = _solve_pattern(
            problems.take(rows), observed, censored.residuals[rows][:, observed], request, method
        )
        estimate.replace(rows, part)
        methods[rows] = names
    return estimate, methods.astype(str)


def _solve_pattern(
    problems: Problems, observed: np.ndarray, r: np.ndarray, request: Request, method: str
) -> tuple[Estimate, np.ndarray]:
    """Solve rows with the same observed coordinates, (d,) bool, whose residuals are r (B, o)."""
    in_covariance = request.in_covariance
    names = ("lower", "upper", "mean", *(("cov",) if in_covariance else ()))
    inner = replace(request, wrt=names if request.wrt else ())
    if not observed.any():
        estimate, methods = solve(problems, inner, method)
        if request.wrt:
            assert estimate.derivatives is not None
            problems.covariance.add_parameters(estimate.derivatives, request.wrt)
            estimate.derivatives = estimate.derivatives.only(request.wrt)
        return estimate, methods
    given = problems.covariance.given_values(observed)
    require_density(given, observed)
    log_density, density_error, weight = given.log_density(r)
    log_density = log_density - _log_units(problems, observed)
    if observed.all():
        estimate = Estimate.exact(np.zeros(problems.size), np.zeros(problems.size))
        methods = np.full(problems.size, "closed_form")
        inherited = np.zeros(problems.size)
        if request.wrt:
            estimate.derivatives = _no_derivatives(problems.size, names)
    else:
        conditional, rounding = _conditional(problems, given, observed, r, weight)
        estimate, methods = solve(conditional, inner, method)
        with np.errstate(invalid="ignore"):
            inherited = rounding * (conditional.d + 2.0 * np.abs(estimate.log_prob))
        inherited = np.where(estimate.log_prob == -np.inf, rounding, inherited)
    estimate.log_prob = estimate.log_prob + log_density
    estimate.rel_error = estimate.rel_error + inherited + density_error
    estimate.log_bound = estimate.log_bound + log_density
    if request.wrt:
        assert estimate.derivatives is not None
        chained = _chain(given, observed, r, weight, estimate.derivatives, inherited, names)
        problems.covariance.add_parameters(chained, request.wrt)
        estimate.derivatives = chained.only(request.wrt)
        impossible = estimate.log_prob == -np.inf
        for name, value in estimate.derivatives.value.items():
            value[impossible], estimate.derivatives.error[name][impossible] = 0.0, np.inf
    return estimate, methods


def _log_units(problems: Problems, observed: np.ndarray) -> np.ndarray:
    """Return what the units of ``problems`` add to the logarithm of a density, (1 or B,)."""
    unit = np.broadcast_to(problems.covariance.unit, (problems.covariance.shape[0], observed.size))
    return np.asarray(np.log(unit[:, observed]).sum(axis=1))


def _no_derivatives(size: int, names: tuple[str, ...]) -> Derivatives:
    shapes = {name: (size, 0, 0) if name == "cov" else (size, 0) for name in names}
    value, error = ({name: np.zeros(shape) for name, shape in shapes.items()} for _ in range(2))
    return Derivatives(value, error)


def _conditional(
    problems: Problems, given: Given, observed: np.ndarray, r: np.ndarray, weight: np.ndarray
) -> tuple[Problems, np.ndarray]:
    """Return the problems of the other coordinates, and the rounding that they inherit, (B,).

    It is relative to a probability that is not small; of a small one it counts |log P| times.
    """
    shift = given.shift(r)
    lower, upper = (limits[:, ~observed] for limits in (problems.lower, problems.upper))
    size = np.maximum(*(np.where(np.isinf(a), 0.0, np.abs(a)) for a in (lower, upper)))
    lost = given.shift_error(r, weight) + _EPS * (size + np.abs(shift))
    low, high = lower - shift, upper - shift
    limited, two_sided = (np.isfinite(lower) | np.isfinite(upper), np.isfinite(high - low))
    two_sided &= lower < upper
    closed = two_sided & (low >= high)  # rounded to nothing
    width_lost = np.divide(lost, high - low, where=two_sided & ~closed, out=np.zeros_like(lost))
    cost = given.sharpness * lost + given.covariance_cost() + width_lost
    constant = np.broadcast_to(given.covariance.constant(), cost.shape)
    if constant.any():
        singular = given.covariance.dense().singular
        margin = _TIED * singular * given.spread + lost
        near = constant & ((np.abs(low) < margin) | (np.abs(high) < margin))
        cost = np.where(constant, np.where(near, np.inf, 0.0), cost)
    rounding = np.where(limited, cost, 0.0).sum(axis=1)
    rounding[closed.any(axis=1) | np.isnan(rounding)] = np.inf
    return Problems(low, high, given.covariance, problems.rounding), rounding


def _chain(
    given: Given,
    observed: np.ndarray,
    r: np.ndarray,
    weight: np.ndarray,
    inner: Derivatives,
    inherited: np.ndarray,
    names: tuple[str, ...],
) -> Derivatives:
    """Return derivatives in all coordinates from those of the conditional problems."""
    size, d = len(r), observed.size
    value, error = ({name: np.zeros((size, d)) for name in names} for _ in range(2))
    g, g_error = inner.value["mean"], inner.error["mean"]
    with np.errstate(invalid="ignore", over="ignore"):
        g_error = g_error + inherited[:, None] * (np.abs(g) + given.sharpness)
    back, back_error = times(g[:, None], g_error[:, None], given.gain)
    in_mean = weight - back[:, 0]
    weight_error = given.weight_error(r, weight, g)
    in_mean_error = weight_error + back_error[:, 0]
    for name in ("lower", "upper"):
        value[name][:, ~observed], error[name][:, ~observed] = (
            of[name] for of in (inner.value, inner.error)
        )
        error[name][:, ~observed] += (
            inherited[:, None]
            * (np.abs(inner.value[name]) + given.sharpness)
            * (inner.value[name] != 0.0)
        )
        value[name][:, observed], error[name][:, observed] = -0.5 * in_mean, 0.5 * in_mean_error
    value["mean"][:, ~observed], error["mean"][:, ~observed] = g, g_error
    value["mean"][:, observed], error["mean"][:, observed] = in_mean, in_mean_error
    if "cov" in names:
        full_weight, full_error = np.zeros((size, d)), np.zeros((size, d))
        full_weight[:, observed], full_error[:, observed] = weight, weight_error
        T = np.zeros((len(given.gain), d, int((~observed).sum())))
        T[:, observed], T[:, ~observed] = -transposed(given.gain), np.eye(T.shape[2])
        product = _sandwich(T, inner, inherited, given)
        value["cov"], error["cov"] = product
        mean, mean_error = value["mean"], error["mean"]
        pair = full_weight[:, :, None] * (mean - 0.5 * full_weight)[:, None, :]
        pair_error = full_error[:, :, None] * np.abs(mean - 0.5 * full_weight)[:, None, :]
        pair_error += np.abs(full_weight)[:, :, None] * (mean_error + full_error)[:, None, :]
        pair_error += full_error[:, :, None] * (mean_error + full_error)[:, None, :]
        pair_error[np.isnan(pair_error)] = np.inf
        value["cov"] += 0.5 * (pair + transposed(pair))
        error["cov"] += 0.5 * (pair_error + transposed(pair_error))
        both = np.ix_(np.arange(size), observed.nonzero()[0], observed.nonzero()[0])
        value["cov"][both] -= 0.5 * given.precision
        error["cov"][both] += 0.5 * given.precision_error()
    return Derivatives(value, error)


def _sandwich(
    T: np.ndarray, inner: Derivatives, inherited: np.ndarray, given: Given
) -> tuple[np.ndarray, np.ndarray]:
    """Return T G T^T, and a bound on its error."""
    G, G_error = inner.value["cov"], inner.error["cov"]
    sharp = given.sharpness[:, :, None] * given.sharpness[:, None, :]
    with np.errstate(invalid="ignore", over="ignore"):
        G_error = G_error + inherited[:, None, None] * (np.abs(G) + sharp * (G != 0.0))
    half, half_error = times(G, G_error, transposed(T))
    whole, error = times(transposed(half), transposed(half_error), transposed(T))
    return transposed(whole), transposed(error)
