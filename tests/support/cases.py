"""Small problems with probabilities and derivatives that come from other computations.

A probability is an integral over common factors or along a chain, by ``validation.oracles``.  A
derivative is the density of a coordinate at its limit times the probability of the others given
that, which is of the same kind again; the one in a covariance is that of two coordinates
(Plackett 1954).  Nothing here comes from the library under test.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from validation.oracles.one_dimension import (
    log_interval,
    markov_logprob,
    one_factor_logprob,
    two_factor_logprob,
)

INF = np.inf
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Factors:
    """The covariance diag(c) + V V^T; V is (d, r) with r up to 2."""

    c: np.ndarray
    V: np.ndarray

    @property
    def cov(self):
        return np.diag(self.c) + self.V @ self.V.T

    def given(self, i):
        """Return the covariance of the others given coordinate i."""
        loading = self.V[i]
        left = np.eye(len(loading)) - np.outer(loading, loading) / self.cov[i, i]
        values, vectors = np.linalg.eigh(left)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return Factors(np.delete(self.c, i), np.delete(self.V, i, axis=0) @ root)

    def log_prob(self, lower, upper):
        """Return log P and a bound on its error."""
        used = np.abs(self.V).max(axis=0, initial=0.0) > 1e-14
        V = self.V[:, used]
        if V.shape[1] == 0:
            scale = np.sqrt(self.c)
            total = float(log_interval(lower / scale, upper / scale).sum())
            return total, 1e-15 * (len(scale) + abs(total))
        if V.shape[1] == 1:
            return one_factor_logprob(lower, upper, self.c, V[:, 0])
        return two_factor_logprob(lower, upper, self.c, V)


@dataclass(frozen=True, eq=False)
class Chain:
    """The covariance of a Gauss-Markov chain, in the order of the chain."""

    cov: np.ndarray

    def given(self, i):
        """Return the covariance of the others given coordinate i: a chain again."""
        left = self.cov - np.outer(self.cov[i], self.cov[i]) / self.cov[i, i]
        return Chain(np.delete(np.delete(left, i, axis=0), i, axis=1))

    def log_prob(self, lower, upper):
        """Return log P and a bound on its error."""
        deviation = np.sqrt(np.diag(self.cov))
        rho = np.diag(self.cov, 1) / deviation[:-1] / deviation[1:]
        return markov_logprob(lower / deviation, upper / deviation, rho)


@dataclass(frozen=True, eq=False)
class Case:
    """One box.

    Attributes
    ----------
    name : what is special about it
    lower, upper : (d,) limits
    model : a ``Factors`` or a ``Chain``
    structures : which of "few" (at most 3 coordinates), "one_factor" and "chain" hold for each of
        its independent blocks
    """

    name: str
    lower: np.ndarray
    upper: np.ndarray
    model: Factors | Chain
    structures: frozenset

    @property
    def d(self):
        return len(self.lower)

    @property
    def cov(self):
        return self.model.cov

    @cached_property
    def truth(self):
        """log P and a bound on its error."""
        return self.model.log_prob(self.lower, self.upper)

    @cached_property
    def derivatives(self):
        """Derivatives of log P by name, and bounds on their errors by name."""
        return _derivatives(self.lower, self.upper, self.model, self.truth)


def _derivatives(lower, upper, model, whole):
    d, cov = len(lower), model.cov
    sides = ((lower, -1.0), (upper, 1.0))
    face, face_error = np.zeros((2, 2, d))
    value, error = np.zeros((2, d, d))
    for i in range(d):
        for side, (limits, sign) in enumerate(sides):
            if np.isinf(limits[i]):
                continue
            given = _given(lower, upper, model, i, limits[i])
            term, bound = _over(*_density(given), whole)
            face[side, i], face_error[side, i] = sign * term, bound
            for j in range(i + 1, d):
                for t in (1, 2):
                    x = given[t][j - 1]
                    if np.isinf(x):
                        continue
                    pair = _given(*given[1:4], j - 1, x, given[0])
                    term, bound = _over(*_density(pair), whole)
                    value[i, j] += 0.5 * sign * (2 * t - 3) * term
                    error[i, j] += 0.5 * bound
    value, error = value + value.T, error + error.T
    ends = [np.where(np.isinf(a), 0.0, a) for a in (lower, upper)]
    moved = ends[0] * face[0] + ends[1] * face[1] + 2.0 * (value * cov).sum(axis=1)
    bound = np.abs(ends[0]) * face_error[0] + np.abs(ends[1]) * face_error[1]
    bound += 2.0 * (error * np.abs(cov)).sum(axis=1)
    bound += 8 * _EPS * (np.abs(ends[0] * face[0]) + np.abs(ends[1] * face[1]))
    bound += 16 * _EPS * (np.abs(value) * np.abs(cov)).sum(axis=1)
    index = np.arange(d)
    value[index, index] = -moved / (2.0 * np.diag(cov))
    error[index, index] = bound / (2.0 * np.diag(cov))
    values = {"lower": face[0], "upper": face[1], "mean": -face.sum(axis=0), "cov": value}
    errors = {
        "lower": face_error[0],
        "upper": face_error[1],
        "mean": face_error.sum(axis=0),
        "cov": error,
    }
    return values, errors


def _given(lower, upper, model, i, x, log_density=0.0):
    """Return the log-density so far, and limits and covariance of the others given X_i = x."""
    variance = model.cov[i, i]
    log_density -= 0.5 * (x * x / variance + np.log(2.0 * np.pi * variance))
    shift = np.delete(model.cov[i] / variance * x, i)
    low, high = (np.delete(a, i) - shift for a in (lower, upper))
    return log_density, low, high, model.given(i)


def _density(given):
    """Return the logarithm of density times probability, and its error."""
    log_density, lower, upper, model = given
    if len(lower) == 0 or (np.isinf(lower) & np.isinf(upper)).all():
        return log_density, 1e-15 * (1.0 + abs(log_density))
    log_prob, error = model.log_prob(lower, upper)
    total = log_density + log_prob
    # Shifted limits are rounded, which counts as their distance in noises does.
    size = np.concatenate([lower, upper])
    size = np.max(np.abs(size[np.isfinite(size)]), initial=0.0)
    rounded = 20 * _EPS * (1.0 + size) ** 2 / np.min(np.diag(model.cov))
    return total, error + rounded + 8 * _EPS * (abs(log_density) + abs(log_prob))


def _over(log_term, error, whole):
    term = float(np.exp(log_term - whole[0]))
    return term, term * (error + whole[1] + 4 * _EPS * abs(log_term))


def _factors(name, lower, upper, c, *loadings, structures=()):
    c = np.array(c, dtype=float)
    V = np.array(loadings, dtype=float).reshape(len(loadings), len(c)).T
    lower, upper = (np.array(np.broadcast_to(a, c.shape), dtype=float) for a in (lower, upper))
    structures = {*structures, *(("one_factor",) if V.shape[1] < 2 else ())}
    structures.update(("few",) if len(c) <= 3 else ())
    structures.update(("chain",) if len(c) <= 2 else ())
    return Case(name, lower, upper, Factors(c, V), frozenset(structures))


def _chain(name, lower, upper, rho, deviation=1.0):
    rho = np.array(rho, dtype=float)
    corr = np.eye(len(rho) + 1)
    for i, r in enumerate(rho):
        corr[i + 1, : i + 1] = corr[: i + 1, i + 1] = r * corr[i, : i + 1]
    deviation = np.broadcast_to(deviation, len(corr))
    lower, upper = (np.array(np.broadcast_to(a, len(corr)), dtype=float) for a in (lower, upper))
    structures = frozenset({"chain"} | ({"few"} if len(corr) <= 3 else set()))
    return Case(name, lower, upper, Chain(corr * np.outer(deviation, deviation)), structures)


@cache
def cases():
    """Return all cases."""
    five = np.array([0.4, -0.3, 1.1, 0.6, 0.9])
    own = [0.7, 1.3, 0.4, 1.0, 2.0]
    loading = [0.9, -0.5, 0.7, 1.2, 0.3]
    other = [-0.4, 0.8, 0.5, -0.2, 1.0]
    return (
        _factors("one", -INF, [0.3], [2.0]),
        _factors("one interval", [0.5], [0.9], [1.0], [0.5]),
        _factors("two", -INF, [0.3, -0.8], [0.5, 1.0], [1.0, -0.7]),
        _factors("two in a box", [-1.0, 0.2], [0.7, 1.1], [0.3, 0.5], [1.0, 0.9]),
        _factors("three", -INF, [0.2, -0.1, 0.8], [0.6, 1.0, 0.8], [0.8, -0.6, 0.5]),
        _factors(
            "three of all limits", [-INF, -0.5, -0.2], [0.6, INF, 1.0],
            [0.5, 0.4, 0.7], [0.9, 0.5, -0.3], [-0.2, 0.6, 0.8],
        ),
        _factors("four independent", [-INF, -1.0, 0.1, -INF], [0.5, 0.3, INF, -0.4],
                 [1.0, 0.5, 2.0, 0.8], structures=("chain", "few")),
        _factors("five of one factor", -INF, five, own, loading),
        _factors("five of one factor and all limits", [-INF, -1.2, 0.1, -INF, -2.0],
                 [0.5, 0.9, INF, INF, 1.0], own, loading),
        _factors("five of two factors", -INF, five, own, loading, other),
        _factors("five of two factors and all limits", [-INF, -1.2, 0.1, -INF, -2.0],
                 [0.5, 0.9, INF, -0.1, 1.0], own, loading, other),
        _factors("five in two blocks", -INF, five, own, [0.9, -0.5, 0.0, 0.0, 0.0],
                 [0.0, 0.0, 0.7, 1.2, 0.3], structures=("few", "one_factor")),
        _factors("five far out", -INF, five - 7.0, own, loading),
        _factors("five of two factors far out", -INF, five - 6.0, own, loading, other),
        _factors("five almost certain", -INF, five + 5.0, own, loading),
        _chain("a chain", -INF, five, [0.6, -0.5, 0.8, 0.3]),
        _chain("a chain of all limits", [-INF, -1.2, 0.1, -INF, -2.0], [0.5, 0.9, INF, INF, 1.0],
               [0.6, -0.5, 0.8, 0.3], [1.0, 2.0, 0.5, 1.0, 3.0]),
        _chain("a chain far out", 4.0, INF, [0.7, 0.5, 0.8, 0.4]),
    )  # fmt: skip
