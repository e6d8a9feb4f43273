"""Maximum likelihood from the scores of observations, and covariances of the estimates.

Steps of scoring, with the outer products of the scores for the information (Berndt, Hall, Hall &
Hausman 1974), come close to the maximum; BFGS updates finish, in units in which this information is
the identity.  There the gradient is the distance from the maximum in standard errors, so that one
tolerance fits all data.  An integrated likelihood jumps by a part of its error where rules or
orders of integration change, which stops the line searches of general optimisers: here a step may
lower the likelihood by less than that error, and the search ends where gradients no longer fall.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_GRADIENT = 1e-5  # standard errors from the maximum, where the search ends
_ACCEPTED = 2e-2  # where it counts as converged if steps do not come closer
# Standard errors, for differences of gradients: of exact ones, and of those with jumps.
_STEP, _LONG_STEP, _EXACT = 0.01, 0.1, 1e-6
_SINGULAR = 1e-4  # eigenvalues of the information beside outer products; differences err as much
_SCORING = 5  # steps of scoring in any case; afterwards as long as they need not be halved
_CLOSE = 0.3  # squared standard errors from the maximum, where BFGS takes over


@dataclass(eq=False)
class Scores:
    """Log-likelihoods of the observations at some parameters.

    Attributes
    ----------
    logs : (n,)
    errors : (n,) bounds on their errors
    scores : (n, k) derivatives in the parameters
    """

    logs: np.ndarray
    errors: np.ndarray
    scores: np.ndarray

    @property
    def total(self) -> float:
        return float(self.logs.sum())

    @property
    def gradient(self) -> np.ndarray:
        return np.asarray(self.scores.sum(axis=0))


Evaluate = Callable[[np.ndarray], Scores]


@dataclass(eq=False)
class Maximum:
    """Where a search ended.

    Attributes
    ----------
    parameters : (k,)
    at : the scores there
    converged : whether the gradient is small enough
    distance : largest entry of the gradient, in standard errors
    evaluations : passes over the data
    root : (k, k) C with C C^T the inverse of the information from outer products
    """

    parameters: np.ndarray
    at: Scores
    converged: bool
    distance: float
    evaluations: int
    root: np.ndarray


class _Counter:
    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate, self.calls = evaluate, 0

    def __call__(self, parameters: np.ndarray) -> Scores:
        self.calls += 1
        return self._evaluate(parameters)


def inverse_root(scores: np.ndarray) -> np.ndarray:
    """Return C (k, k) with C C^T the inverse of S^T S, for scores S (n, k).

    Directions without information, as if n is less than k, count as the one with the most, so that
    steps along them stay moderate. Units of the parameters do not matter.
    """
    size = np.linalg.norm(scores, axis=0)
    size[size == 0.0] = 1.0
    padding = np.zeros((size.size, size.size))
    R = np.linalg.qr(np.concatenate([scores / size, padding]), mode="r")
    _, values, vectors = np.linalg.svd(R)
    most = values.max(initial=1e-300)
    values = np.where(values > 1e-8 * most, values, most)
    return np.asarray(vectors.T / values / size[:, None])


def maximise(evaluate: Evaluate, start: np.ndarray, maxiter: int) -> Maximum:
    """Return the maximum of a log-likelihood, searched from ``start``."""
    counted = _Counter(evaluate)
    parameters, at = start, counted(start)
    root = inverse_root(at.scores)
    H, scoring = np.eye(start.size), True  # inverse information in units of the root
    for k in range(maxiter):
        g = at.gradient @ root
        distance = float(np.abs(g).max(initial=0.0))
        if distance < _GRADIENT:
            break
        move = H @ g
        share, there = _search(counted, parameters, at, root @ move, float(g @ move))
        if share == 0.0:
            break
        after = there.gradient @ root
        stalled = np.abs(after).max() > 0.5 * distance and distance < 0.5 * _ACCEPTED
        if stalled and there.total <= at.total:
            break
        parameters, at = parameters + share * (root @ move), there
        if scoring:
            root = inverse_root(at.scores)
            far = float(np.sum((at.gradient @ root) ** 2)) > _CLOSE
            scoring = far and (k < _SCORING or share == 1.0)
        else:
            H = _update(H, share * move, g - after)
        if stalled:
            break
    root = inverse_root(at.scores)
    distance = float(np.abs(at.gradient @ root).max(initial=0.0))
    return Maximum(parameters, at, distance < _ACCEPTED, distance, counted.calls, root)


def _search(
    evaluate: Evaluate, parameters: np.ndarray, at: Scores, move: np.ndarray, slope: float
) -> tuple[float, Scores]:
    """Return the largest of the shares 1, 1/2, ... of a move that gains, and the scores there.

    A gain may be negative by less than the error of the likelihood. The share is 0 if none gains.
    """
    share = 1.0
    while share > 1e-6:
        there = evaluate(parameters + share * move)
        noise = min(float(at.errors.sum()), 0.1 * slope)
        if there.total - at.total > 1e-3 * share * slope - noise:
            return share, there
        share *= 0.5
    return 0.0, at


def _update(H: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return the BFGS update of an inverse Hessian, for a step and the change of the gradient."""
    curvature = float(step @ change)
    if not curvature > 1e-8 * float(step @ step):
        return H
    left = np.eye(step.size) - np.outer(step, change) / curvature
    return np.asarray(left @ H @ left.T + np.outer(step, step) / curvature)


def observed_information(evaluate: Evaluate, maximum: Maximum) -> np.ndarray:
    """Return minus the Hessian (k, k), in units of ``maximum.root``, by central differences."""
    k = maximum.parameters.size
    found = np.empty((k, k))
    length = _STEP if maximum.at.errors.sum() < _EXACT else _LONG_STEP
    for i in range(k):
        step = length * maximum.root[:, i]
        ends = (evaluate(maximum.parameters + sign * step).gradient for sign in (1.0, -1.0))
        up, down = ends
        found[i] = -(up - down) @ maximum.root / (2.0 * length)
    return 0.5 * (found + found.T)


def covariance(evaluate: Evaluate, maximum: Maximum, kind: str) -> np.ndarray | None:
    """Return the covariance of the parameters, (k, k); None if the information is singular.

    kind : "opg", the inverse of the outer products of the scores; "hessian", of the observed
        information; "robust", the inverse Hessian on either side of the outer products
    """
    root = maximum.root
    scaled = maximum.at.scores @ root
    outer = scaled.T @ scaled  # the identity, unless directions have no information
    if kind == "opg":
        least = np.linalg.eigvalsh(outer).min(initial=1.0)
        return root @ np.linalg.inv(outer) @ root.T if least > 1e-6 else None
    information = observed_information(evaluate, maximum)
    if not np.linalg.eigvalsh(information).min(initial=1.0) > _SINGULAR:
        return None
    inverse = np.linalg.inv(information)
    inner = inverse if kind == "hessian" else inverse @ outer @ inverse
    return np.asarray(root @ inner @ root.T)
