"""Events: coordinates beyond their limits, with the probabilities of one and of two of them.

Each finite limit is an event, {X_i > upper_i} or {X_i < lower_i}.  All probabilities are in units
of that of the likeliest event of a row, p_1, so that they may underflow.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from mvnorth._covariance.dense import Dense
from mvnorth._methods import METHODS
from mvnorth._problem import Problems, Request, Tolerance

_EPS = float(np.finfo(np.float64).eps)
_SAME = 4.0 * _EPS  # correlations that are this close to 1 or -1 count as such
_CHUNK = 2**20  # pairs at a time
_NO_POINTS = Request(Tolerance(0.0, 0.0), most=1)


def total(a: np.ndarray) -> np.ndarray:
    """Return sums over the last axis that do not depend on zeros at its end, to the last bit."""
    if a.shape[-1] == 0:
        return np.zeros(a.shape[:-1])
    return np.asarray(np.cumsum(a, axis=-1)[..., -1])


@dataclass(eq=False)
class Events:
    """The events of each row, the likeliest first, (B, M) all; those that cannot happen are last.

    Attributes
    ----------
    log_prob : logarithms of their probabilities, -inf for those that cannot happen
    coordinate : which one is beyond its limit
    upper : whether it is above, rather than below
    height : the limit in deviations: the event is that a standard normal is above it
    """

    log_prob: np.ndarray
    coordinate: np.ndarray
    upper: np.ndarray
    height: np.ndarray

    @classmethod
    def of(cls, problems: Problems) -> "Events":
        """Return the events of all finite limits of coordinates with a variance."""
        size, d = problems.lower.shape
        deviation = np.broadcast_to(problems.covariance.deviations(), (size, d))
        height = np.stack([-problems.lower, problems.upper], axis=2)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            height /= deviation[:, :, None]
        height[deviation == 0.0] = np.inf
        height = height.reshape(size, 2 * d)
        log_prob = log_ndtr(-height)
        # Rounding must not change the order of equal events from row to row.
        order = np.argsort(-np.round(log_prob, 6), axis=1, kind="stable")
        order = order[:, : int(np.max((log_prob > -np.inf).sum(axis=1), initial=0))]
        log_prob, height = (np.take_along_axis(a, order, axis=1) for a in (log_prob, height))
        return cls(log_prob, order // 2, order % 2 == 1, height)

    @property
    def size(self) -> int:
        return self.log_prob.shape[1]

    def take(self, rows: np.ndarray, count: int | None = None) -> "Events":
        """Return some rows, and the first events of each."""
        parts = (self.log_prob, self.coordinate, self.upper, self.height)
        return Events(*(a[rows, :count] for a in parts))

    def weights(self) -> np.ndarray:
        """Return the probabilities in units of the largest of each row, (B, M)."""
        with np.errstate(invalid="ignore"):
            weights = np.exp(self.log_prob - self.log_prob[:, :1])
        return np.where(self.log_prob > -np.inf, weights, 0.0)


class Pairs(NamedTuple):
    """Probabilities p_ef in units of p_1 for f before e, and bounds on their errors, (B, M, M)."""

    value: np.ndarray
    error: np.ndarray


def pair_weights(problems: Problems, events: Events, kept: np.ndarray) -> Pairs:
    """Return the probabilities of all pairs of events."""
    size, count = kept.shape
    pairs, errors = np.zeros((2, size, count, count))
    second, first = np.tril_indices(count, -1)  # events e and f
    row, pair = np.nonzero(kept[:, second])
    e, f = second[pair], first[pair]
    i, j = events.coordinate[row, e], events.coordinate[row, f]
    matrix = problems.covariance.matrix()
    deviation = problems.covariance.deviations()
    for start in range(0, row.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        r, x, y, a, b = row[part], e[part], f[part], i[part], j[part]
        c = r if len(matrix) > 1 else np.zeros_like(r)
        rho = matrix[c, a, b] / (deviation[c, a] * deviation[c, b])
        rho = np.clip(np.where(events.upper[r, x] == events.upper[r, y], rho, -rho), -1.0, 1.0)
        rho[a == b] = -1.0  # a coordinate is not beyond both of its limits
        heights = np.stack([events.height[r, x], events.height[r, y]], axis=1)
        log_unit = events.log_prob[r, 0]
        log_prob, rel_error = _bivariate(rho, heights)
        value = np.exp(np.minimum(log_prob, events.log_prob[r, y]) - log_unit)
        error = value * rel_error + _of_correlation(rho, heights, log_unit)
        value[a == b], error[a == b] = 0.0, 0.0
        pairs[r, x, y], errors[r, x, y] = value, error
    return Pairs(pairs, errors)


def _bivariate(rho: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-probability that both of two standard normals exceed heights (K, 2)."""
    size = rho.size
    factor = np.zeros((size, 2, 2))
    factor[:, 0, 0], factor[:, 1, 0] = 1.0, rho
    factor[:, 1, 1] = np.sqrt((1.0 - rho) * (1.0 + rho))
    covariance = Dense(factor, 0.0, np.ones((size, 2)))
    problems = Problems(np.full((size, 2), -np.inf), -heights, covariance, np.zeros(size), 0)
    estimate = METHODS["closed_form"].solve(problems, _NO_POINTS)
    # Nothing better is known than that both have at most the probability of each.
    unknown = ~np.isfinite(estimate.rel_error)
    largest = log_ndtr(-heights.max(axis=1))
    same = rho >= 1.0 - _SAME  # one event implies the other
    estimate.log_prob[same], estimate.rel_error[same], unknown[same] = largest[same], 0.0, False
    opposite = (rho <= _SAME - 1.0) & (heights.sum(axis=1) > 0.0)  # they exclude each other
    estimate.log_prob[opposite], estimate.rel_error[opposite] = -np.inf, 0.0
    unknown[opposite] = False
    log_prob = np.where(unknown, largest - np.log(2.0), np.minimum(estimate.log_prob, largest))
    return log_prob, np.where(unknown, 1.0, estimate.rel_error)


def _of_correlation(rho: np.ndarray, heights: np.ndarray, log_unit: np.ndarray) -> np.ndarray:
    """Return how much the rounding of a correlation changes the probability, in units.

    Its derivative is the bivariate density at both heights (Plackett 1954).
    """
    rounding = 2.0 * _SAME
    variance = np.maximum((1.0 - rho) * (1.0 + rho), 2.0 * rounding)
    a, b = heights[:, 0], heights[:, 1]
    # The larger height, and the distance of the other one given that, which does not cancel.
    top = np.maximum(a, b)
    away = np.minimum(a, b) - rho * top
    with np.errstate(over="ignore"):
        log_density = -0.5 * (top * top + away * away / variance + np.log(variance))
        return np.asarray(rounding / (2.0 * np.pi) * np.exp(log_density - log_unit))
