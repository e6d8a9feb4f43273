"""Problems from their limits and the structure of their covariance, unnamed and untagged.

One line says what a builder takes, with shapes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag, inv

from validation.oracles.one_dimension import (
    EPS,
    FloatArray,
    log_interval,
    markov_logprob,
    minus_factor_logprob,
    one_factor_logprob,
    two_factor_logprob,
)
from validation.problems.problem import Problem

REFERENCE = Path(__file__).parents[1] / "reference"


def independent(lower: ArrayLike, upper: ArrayLike) -> Problem:
    """Independent standard normals; lower, upper : (d,)."""
    log_prob = float(log_interval(lower, upper).sum())
    cov = np.eye(np.size(upper))
    return problem_with(lower, upper, cov, closed(log_prob), "product of Phi differences", True)


def exchangeable(lower: ArrayLike, upper: ArrayLike, rho: float) -> Problem:
    """Unit variances, all correlations rho > -1/(d - 1); lower, upper : (d,)."""
    d = np.size(upper)
    c, v = np.full(d, 1 - rho), np.full(d, math.sqrt(abs(rho)))
    rule = one_factor_logprob if rho >= 0 else minus_factor_logprob
    cov = np.full((d, d), rho)
    np.fill_diagonal(cov, 1.0)
    return problem_with(lower, upper, cov, rule(lower, upper, c, v), "one-factor integral")


def one_factor(
    lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: ArrayLike, *, exact: bool = False
) -> Problem:
    """Covariance diag(c) + v v^T; all arrays (d,), c >= 0; exact: cov holds it to the last bit."""
    answer = one_factor_logprob(lower, upper, c, v)
    cov = np.diag(c) + np.multiply.outer(v, v)
    return problem_with(lower, upper, cov, answer, "one-factor integral", exact)


def two_factor(lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: FloatArray) -> Problem:
    """Covariance diag(c) + V V^T; lower, upper, c : (d,), v : (d, 2)."""
    answer = two_factor_logprob(lower, upper, c, v)
    cov = np.diag(c) + np.outer(v[:, 0], v[:, 0]) + np.outer(v[:, 1], v[:, 1])
    return problem_with(lower, upper, cov, answer, "two-factor integral")


def bivariate(lower: ArrayLike, upper: ArrayLike, rho: float) -> Problem:
    """Two standard normals with correlation rho; lower, upper : (2,)."""
    root = math.sqrt(abs(rho))
    return one_factor(lower, upper, np.full(2, 1 - abs(rho)), [root, math.copysign(root, rho)])


def trivariate(lower: ArrayLike, upper: ArrayLike, cov: FloatArray) -> Problem:
    """Any positive definite cov, (3, 3); lower, upper : (3,).

    Without its smallest eigenvalue on the diagonal cov has rank two: a two-factor model.
    """
    values, vectors = np.linalg.eigh(cov)
    v = vectors[:, 1:] * np.sqrt(values[1:] - values[0])
    answer = two_factor_logprob(lower, upper, np.full(3, values[0]), v)
    return problem_with(lower, upper, cov, answer, "two-factor integral")


def markov(lower: ArrayLike, upper: ArrayLike, rho: ArrayLike) -> Problem:
    """A chain with unit variances and neighbour correlations rho, (d - 1,); limits : (d,)."""
    d = np.size(upper)
    cov = np.eye(d)
    for i in range(d - 1):
        cov[i, i + 1 :] = cov[i + 1 :, i] = np.cumprod(np.asarray(rho)[i:])
    return problem_with(lower, upper, cov, markov_logprob(lower, upper, rho), "transfer operator")


def ar1(lower: ArrayLike, upper: ArrayLike, rho: float) -> Problem:
    """Correlations rho^|i - j|; lower, upper : (d,)."""
    return markov(lower, upper, np.full(np.size(upper) - 1, rho))


def brownian(lower: ArrayLike, upper: ArrayLike, times: FloatArray) -> Problem:
    """A Brownian path seen at increasing times, (d,): covariance min(s, t); limits : (d,)."""
    sd = np.sqrt(times)
    limits = np.asarray(lower) / sd, np.asarray(upper) / sd
    answer = markov_logprob(*limits, sd[:-1] / sd[1:])
    return problem_with(lower, upper, np.minimum.outer(times, times), answer, "transfer operator")


def block(*parts: Problem) -> Problem:
    """Independent problems side by side."""
    return problem_with(
        np.concatenate([p.lower for p in parts]),
        np.concatenate([p.upper for p in parts]),
        block_diag(*(p.cov for p in parts)),
        (sum(p.log_prob for p in parts), sum(p.log_error for p in parts)),
        "sum over blocks: " + ", ".join(sorted({p.source for p in parts})),
        exact=True,  # the parts have counted their rounding
    )


def zero_orthant(cov: FloatArray, log_prob: float, source: str) -> Problem:
    """Pr(X <= 0) for cov, (d, d), from a closed form."""
    d = len(cov)
    return problem_with(np.full(d, -np.inf), np.zeros(d), cov, closed(log_prob), source, True)


def reference(name: str) -> Problem:
    """A stored reference, as it stands on disk."""
    stored = json.loads((REFERENCE / "references.json").read_text())[name]
    with np.load(REFERENCE / f"{name}.npz") as arrays:
        b, cov = arrays["b"], arrays["Sigma"]
    answer = stored["logp"], max(stored["err_logp"], closed(stored["logp"])[1])
    return problem_with(np.full(b.size, -np.inf), b, cov, answer, stored["method"], True)


def reference_gradient(name: str) -> FloatArray | None:
    """The gradient of log P in the upper limits of a stored reference.

    Parameters
    ----------
    name : str
        Name of a problem tagged `reference`.

    Returns
    -------
    (d,) array, or None where it is not known
    """
    with np.load(REFERENCE / f"{name}.npz") as stored:
        gradient: FloatArray | None = stored.get("dlogp_db")
        return gradient


def problem_with(
    lower: ArrayLike,
    upper: ArrayLike,
    cov: FloatArray,
    answer: tuple[float, float],
    source: str,
    exact: bool = False,
) -> Problem:
    """With the error of the answer, and of the rounding of cov unless it is ``exact``."""
    log_prob, log_error = answer
    if not exact:
        # The answer belongs to the structure, cov to its rounding, which counts the more the
        # nearer cov is to singular: diag(inv(corr)) is variance over conditional variance.
        log_error += EPS * (1 + abs(log_prob)) * float((np.diag(cov) * np.diag(inv(cov))).max())
    lower, upper = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    return Problem("", frozenset(), lower, upper, cov, log_prob, log_error, source)


def closed(log_prob: float) -> tuple[float, float]:
    """A closed form is right to rounding."""
    return log_prob, 8 * EPS * (1 + abs(log_prob))
