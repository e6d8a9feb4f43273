"""Any number of coordinates that depend on two variables: the probability of a polygon."""

from functools import partial

import numpy as np

from mvnorth._cpu.polygon import polygons
from mvnorth._cpu.polygon_edges import polygon_derivatives
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._linalg.bounds import times
from mvnorth._methods.conditional import fill_diagonal
from mvnorth._problem import Problems, Request
from mvnorth._threads import run_items

_VARIABLES = 2
_PLACE = -1.0  # before closed forms, which have no derivatives in a singular covariance


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto", for a factor of one or two columns.

    There are closed forms for as many rows or fewer.
    """
    factor = getattr(problems.covariance, "factor", None)
    if factor is None or factor.shape[2] > _VARIABLES:
        return None
    return _PLACE if factor.shape[1] > factor.shape[2] else np.inf


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates to rounding, with the derivatives of the edges."""
    problems = problems.dense()
    size, d = problems.lower.shape
    log_prob, rel_error = np.empty(size), np.empty(size)
    kernel = partial(polygons, *_arguments(problems), log_prob, rel_error)
    run_items(kernel, size, size * d * 1e-5)
    estimate = Estimate.exact(log_prob, rel_error)
    if request.wrt:
        estimate.derivatives = differentiate(problems, request.wrt, estimate)
    return estimate


def _arguments(problems: Problems) -> tuple[np.ndarray, ...]:
    arrays = (problems.lower, problems.upper, problems.covariance.factor)
    return tuple(np.ascontiguousarray(array) for array in arrays)


def differentiate(
    problems: Problems, wrt: tuple[str, ...], estimate: Estimate, keep_rank: bool = False
) -> Derivatives:
    """Return the derivatives of log P that ``wrt`` names, see ``Derivatives``.

    Parameters
    ----------
    estimate : the probabilities of ``problems``
    keep_rank : whether derivatives in a singular covariance are wanted for changes that leave it
        with its variables: the G for which 2 G A are the derivatives in a factor A, a row for each
        edge. Otherwise they have infinite errors.
    """
    size, d = problems.lower.shape
    second = not {"lower", "upper", "mean"}.issuperset(wrt)
    face, face_error = np.empty((2, size, d, 2))
    G, G_error = np.zeros((2, size if second else 0, d, d))
    outputs = (face, face_error, G, G_error)
    kernel = partial(polygon_derivatives, *_arguments(problems), estimate.log_prob, *outputs)
    run_items(kernel, size, size * d * d * 1e-8)
    with np.errstate(invalid="ignore"):
        face_error += np.where(face == 0.0, 0.0, np.abs(face) * estimate.rel_error[:, None, None])
        G_error += np.where(G == 0.0, 0.0, np.abs(G) * estimate.rel_error[: len(G), None, None])
    unknown = ~(estimate.log_prob > -np.inf) | ~(estimate.rel_error < 1.0)
    face_error[unknown], G_error[unknown[: len(G)]] = np.inf, np.inf
    face[unknown], G[unknown[: len(G)]] = 0.0, 0.0
    value = {"lower": face[:, :, 0], "upper": face[:, :, 1], "mean": -face.sum(axis=2)}
    error = {
        "lower": face_error[:, :, 0],
        "upper": face_error[:, :, 1],
        "mean": face_error.sum(axis=2),
    }
    if second:
        limits = np.stack([problems.lower, problems.upper], axis=2)
        fill_diagonal(problems, limits, face, face_error, G, G_error)
        factor = problems.covariance.factor
        value["factor"], error["factor"] = times(G, G_error, 2.0 * factor)
        if d > factor.shape[2] and not keep_rank:
            G, G_error = np.zeros(G.shape), np.full(G.shape, np.inf)
        value["cov"], error["cov"] = G, G_error
    return Derivatives(value, error).only(wrt)
