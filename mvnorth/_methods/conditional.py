"""Derivatives by conditional Gaussians (EXACT, Theorem 4.3), for boxes and for the covariance.

With X ~ N(0, Sigma) between its limits and i left out of what carries the index -i,

    dP/dupper_i = N(upper_i; 0, Sigma_ii) Pr(lower_-i <= X_-i <= upper_-i | X_i = upper_i)

and minus the same at lower_i.  By Plackett's identity the derivative in Sigma_ij is half the one in
both means (half, because Sigma_ji moves with it), a sum over the corners of limits x_i and x_j:

    dP/dSigma_ij = 1/2 sum +-N(x_i, x_j; 0, Sigma) Pr(the others in limits | X_i, X_j = x_i, x_j)

P does not change with the unit of coordinate i, which gives the derivative in its variance:

    upper_i dP/dupper_i + lower_i dP/dlower_i + 2 sum_j Sigma_ij dP/dSigma_ij = 0

All of it is computed in logarithms, so that P may underflow.  2d probabilities at most of d - 1
coordinates give the derivatives in limits, and 2d(d - 1) of d - 2 those in the covariance.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request

_CHUNK = 2**21  # entries of the conditional problems at a time: 16 MB
_LOG_2_PI = float(np.log(2.0 * np.pi))
_EPS, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
_LARGEST = 709.0  # of a logarithm

Solve = Callable[[Problems], Estimate]


def preference(problems: Problems) -> float:
    """Return infinity: the method applies to all problems, on request only."""
    return np.inf


def solve(problems: Problems, request: Request) -> Estimate:
    """Return the estimates of "auto", with derivatives from conditional problems."""
    assert request.subsolve is not None
    subsolve = request.subsolve
    estimate = subsolve(problems, "auto")
    rows = np.flatnonzero(estimate.log_prob > -np.inf)
    derivatives = Derivatives.unknown(problems, request.wrt)
    if rows.size:
        some = differentiate(
            problems.take(rows),
            request.wrt,
            estimate.take(rows),
            lambda given: subsolve(given, "auto"),
        )
        derivatives.replace(rows, some)
    return replace(estimate, derivatives=derivatives)


def differentiate(
    problems: Problems,
    wrt: tuple[str, ...],
    estimate: Estimate,
    solve: Solve,
    keep_rank: bool = False,
) -> Derivatives:
    """Return the derivatives of log P that ``wrt`` names, see ``Derivatives``.

    Errors are those of the probabilities, added up.  They are infinite where P is not
    differentiable or too close to it: where coordinates determine each other and their limits meet,
    and in a singular covariance.

    Parameters
    ----------
    estimate : the probabilities of ``problems``
    solve : gives those of conditional problems, which are of the same type
    keep_rank : whether derivatives in a singular covariance are wanted for changes that leave it
        with its variables: the G for which 2 G A are the derivatives in a factor A
    """
    problems = problems.double()
    covariance = problems.covariance
    size, d = problems.lower.shape
    limits = np.stack([problems.lower, problems.upper], axis=2)  # (B, d, side)
    deviation = np.broadcast_to(covariance.deviations(), (size, d))
    constant = (deviation == 0.0)[:, :, None]
    active = np.isfinite(limits) & ~constant
    # A step at the limit of a constant; and of log 0 there is no derivative.
    unknown = (constant & (limits == 0.0)) | ~(estimate.log_prob > -np.inf)[:, None, None]
    face = np.zeros((size, d, 2))
    face_error = np.where(unknown, np.inf, 0.0)
    second = not {"lower", "upper", "mean"}.issuperset(wrt)
    G, G_error = np.zeros((2, size, d, d)) if second else np.zeros((2, size, 0, 0))
    regular = np.full(size, second)
    if second and not keep_rank:
        regular = covariance.regular(active.any(axis=2))
    rows, coordinates, sides = np.nonzero(active & ~unknown)
    chunk = max(1, _CHUNK // covariance.memory)
    for k in range(0, rows.size, chunk):
        row, i, side = (a[k : k + chunk] for a in (rows, coordinates, sides))
        values = limits[row, i, side]
        density = log_normal_density(values, deviation[row, i])
        conditional = covariance.given_value(problems, row, i, values)
        log_prob, error = conditional_probabilities(conditional, solve)
        with np.errstate(over="ignore", invalid="ignore"):
            error += problems.rounding[row] * (1.0 + 2.0 * np.abs(density))
        terms = _over(density + log_prob, error + rounding_of_log(density), estimate, row)
        sign = 2.0 * side - 1.0
        face[row, i, side], face_error[row, i, side] = sign * terms[0], terms[1]
        for item, j, log, error, other in _pairs(conditional, regular[row], i, density, solve):
            term, error = _over(log, error, estimate, row[item])
            np.add.at(G, (row[item], i[item], j), 0.5 * sign[item] * other * term)
            np.add.at(G_error, (row[item], i[item], j), 0.5 * error)
    value = {"lower": face[:, :, 0], "upper": face[:, :, 1], "mean": -face.sum(axis=2)}
    bound = {
        "lower": face_error[:, :, 0],
        "upper": face_error[:, :, 1],
        "mean": face_error.sum(axis=2),
    }
    if second:
        lost, limited = unknown.any(axis=2), active.any(axis=2) & ~regular[:, None]
        G_error[lost[:, :, None] | lost[:, None]] = np.inf
        G_error[limited[:, :, None] & limited[:, None]] = np.inf
        G += np.swapaxes(G, 1, 2)
        G_error = np.maximum(G_error, np.swapaxes(G_error, 1, 2))
        fill_diagonal(problems, limits, face, face_error, G, G_error)
        value["cov"], bound["cov"] = G, G_error
    derivatives = Derivatives(value, bound)
    if second:
        covariance.add_parameters(derivatives, wrt)
    return derivatives.only(wrt)


def log_normal_density(values: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return the logarithm of the density of a normal variable with mean 0."""
    with np.errstate(over="ignore"):
        return -0.5 * ((values / deviation) ** 2 + _LOG_2_PI) - np.log(deviation)


def rounding_of_log(log: np.ndarray) -> np.ndarray:
    """Return the relative error of a number whose logarithm is rounded."""
    with np.errstate(over="ignore"):
        return 8.0 * _EPS * (1.0 + np.abs(log))


def conditional_probabilities(problems: Problems, solve: Solve) -> tuple[np.ndarray, np.ndarray]:
    """Return logarithms and relative errors of conditional probabilities, (K,) both."""
    if problems.size == 0 or problems.d == 0:
        return np.zeros(problems.size), np.zeros(problems.size)
    # Where rounding decides, what is found is still the best guess.
    rounding = np.where(problems.rounding < 1.0, problems.rounding, np.inf)
    lost = np.isinf(rounding)
    with np.errstate(over="ignore", invalid="ignore"):  # limits may be any number
        found = solve(replace(problems, rounding=np.where(lost, 0.0, rounding)))
        inherited = rounding * (problems.d + 2.0 * np.abs(found.log_prob))
        error = found.rel_error + np.where(found.log_prob == -np.inf, rounding, inherited)
    return found.log_prob, np.where(lost | np.isnan(error), np.inf, error)


def _over(
    log_term: np.ndarray, rel_error: np.ndarray, estimate: Estimate, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return terms over the probabilities of their rows, and absolute errors, (K,) both."""
    known = estimate.rel_error[rows]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log = log_term - estimate.log_prob[rows]
        total = np.where(known < 1.0, (rel_error + known) / (1.0 - known), np.inf)
        small = log < _LARGEST
        total = np.where(small & ~np.isnan(total), total, np.inf)
        term = np.exp(np.where(small, log, -np.inf))
        return term, np.where(np.isinf(total), np.inf, total * term + _TINY)


def _pairs(
    conditional: Problems,
    regular: np.ndarray,
    first: np.ndarray,
    log_density: np.ndarray,
    solve: Solve,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield corners with a second coordinate after the first one, chunk by chunk, (K,) all.

    Yields which of the conditional problems, the coordinate, logarithm and relative error of the
    density times the probability of the others, and the sign of the second limit.
    """
    if not regular.any() or conditional.d == 0:
        return
    deviation = np.broadcast_to(conditional.covariance.deviations(), conditional.lower.shape)
    limits = np.stack([conditional.lower, conditional.upper], axis=2)
    later = np.arange(conditional.d) >= first[:, None]
    active = np.isfinite(limits) & (later & regular[:, None] & (deviation > 0.0))[:, :, None]
    items, columns, sides = np.nonzero(active)
    chunk = max(1, _CHUNK // conditional.covariance.memory)
    for k in range(0, items.size, chunk):
        item, column, side = (a[k : k + chunk] for a in (items, columns, sides))
        values = limits[item, column, side]
        own = log_normal_density(values, deviation[item, column])
        corner = conditional.covariance.given_value(conditional, item, column, values)
        log_prob, error = conditional_probabilities(corner, solve)
        density = log_density[item] + own
        with np.errstate(over="ignore", invalid="ignore"):
            error += conditional.rounding[item] * (1.0 + 2.0 * np.abs(own)) + rounding_of_log(
                density
            )
        yield item, column + 1, density + log_prob, error, 2.0 * side - 1.0


def fill_diagonal(
    problems: Problems,
    limits: np.ndarray,
    face: np.ndarray,
    face_error: np.ndarray,
    G: np.ndarray,
    G_error: np.ndarray,
) -> None:
    """Set the diagonals of G (B, d, d) from what is off them, and from the faces (B, d, 2)."""
    cov = problems.covariance.matrix()
    index = np.arange(problems.d)
    variance = np.where(cov[:, index, index] > 0.0, cov[:, index, index], 1.0)
    own = np.where(np.isfinite(limits), limits, 0.0)
    size = np.sqrt(variance)
    largest = size[:, :, None] * size[:, None, :]  # what rounding of the covariance is relative to
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(own * face, axis=2) + 2.0 * np.sum(G * cov, axis=2)
        error = np.sum(np.abs(own) * face_error, axis=2)
        error += 2.0 * np.sum(np.where(cov == 0.0, 0.0, np.abs(cov)) * G_error, axis=2)
        error += 4.0 * _EPS * np.sum(np.abs(own * face), axis=2)
        error += 8.0 * _EPS * np.sum(np.abs(G) * largest, axis=2)
        bound = error / (2.0 * variance)
        diagonal = -total / (2.0 * variance)
    known = np.isfinite(diagonal)
    G[:, index, index] = np.where(known, diagonal, 0.0)
    G_error[:, index, index] = np.where(known & ~np.isnan(bound), bound, np.inf)
