"""Problems whose derivatives are known, for the report on gradients; all truths are oracles'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mvnorth import OneFactor
from validation.oracles import slopes
from validation.oracles.one_dimension import FloatArray, markov_logprob, two_factor_logprob

INF = np.inf
STEP = 0.01  # of differences in limits, whose scale is one


@dataclass(frozen=True)
class Case:
    """A box, its covariance, and what is known of the derivatives of its log P.

    Attributes
    ----------
    lower, upper : (d,)
    cov : (d, d)
    factors : (c, v) where cov = diag(c) + v v^T, else None
    truth : mapping
        Derivatives by the names of the arguments of ``box_grad``; what is not known is not there.
    rounding : mapping
        Errors of the truths relative to their largest entries, by the same names.
    exact : tuple of str
        Methods without sampling error that take this covariance.
    """

    lower: FloatArray
    upper: FloatArray
    cov: FloatArray
    factors: tuple[FloatArray, FloatArray] | None
    truth: dict[str, FloatArray]
    rounding: dict[str, float]
    exact: tuple[str, ...]

    @property
    def is_orthant(self) -> bool:
        return bool(np.isneginf(self.lower).all())

    @property
    def one_factor(self) -> Any:
        """The covariance as a ``OneFactor``, or None."""
        return OneFactor(*self.factors) if self.factors is not None else None


def case(structure: str, d: int, seed: int) -> Case:
    """A problem of ``STRUCTURES`` with random numbers."""
    return STRUCTURES[structure](np.random.default_rng([seed, d]), d)


def one_factor(
    rng: np.random.Generator, d: int, *, level: float = 0.7, box: bool = False, noise: float = 1.0
) -> Case:
    """Limits around ``level``; own variances around ``noise``, loadings of any sign."""
    c, v = noise * rng.lognormal(0.0, 0.5, d), rng.normal(0.0, 1.0, d)
    sd = np.sqrt(c + v**2)
    return _from_factors(*_limits(rng, sd, level, box), c, v)


def equal(rng: np.random.Generator, d: int) -> Case:
    """All the same: c = v = 1 and means of zero, the start of EXACT's training."""
    return _from_factors(np.full(d, -INF), np.zeros(d), np.ones(d), np.ones(d))


def few(rng: np.random.Generator, d: int) -> Case:
    """Two or three coordinates of any covariance: closed forms in 40 digits."""
    A = rng.normal(size=(d, d + 2))
    cov = A @ A.T / d
    upper = rng.normal(0.3, 1.0, d) * np.sqrt(np.diag(cov))
    found = slopes.few(upper, cov)
    truth = {"upper": found.upper, "mean": -found.upper, "cov": found.cov}
    exact = ("closed_form", "quadrature", "markov") if d == 2 else ("closed_form",)
    return Case(np.full(d, -INF), upper, cov, None, truth, dict.fromkeys(truth, 1e-14), exact)


def chain(rng: np.random.Generator, d: int, *, box: bool = False) -> Case:
    """A Markov chain: differences of the transfer operator; up to d = 4 also of differences."""
    rho = rng.uniform(-0.8, 0.8, d - 1)
    cov = np.eye(d)
    for i in range(d - 1):
        cov[i, i + 1 :] = cov[i + 1 :, i] = np.cumprod(rho[i:])
    lower, upper = _limits(rng, np.ones(d), 0.8, box)

    def value(low: FloatArray, high: FloatArray) -> float:
        return markov_logprob(low, high, rho)[0]

    truth = _differenced(value, lower, upper)
    rounding = dict.fromkeys(truth, 1e-8)
    if d <= 4:
        truth["cov"] = _plackett(value, lower, upper)
        rounding["cov"] = 3e-6
    return Case(lower, upper, cov, None, truth, rounding, ("markov",))


def two_factor(rng: np.random.Generator, d: int, *, box: bool = False) -> Case:
    """Two common factors: no method of its own, "auto" samples; differences of an integral."""
    c, v = rng.lognormal(0.0, 0.3, d), rng.normal(0.0, 0.7, (d, 2))
    cov = np.diag(c) + v @ v.T
    lower, upper = _limits(rng, np.sqrt(np.diag(cov)), 0.8, box)
    truth = _differenced(lambda low, high: two_factor_logprob(low, high, c, v)[0], lower, upper)
    return Case(lower, upper, cov, None, truth, dict.fromkeys(truth, 1e-8), ())


STRUCTURES: dict[str, Callable[..., Case]] = {
    "two or three": few,
    "one factor": one_factor,
    "one factor, box": lambda rng, d: one_factor(rng, d, box=True),
    "one factor, tail": lambda rng, d: one_factor(rng, d, level=-2.5),
    "one factor, P near 1": lambda rng, d: one_factor(rng, d, level=3.5),
    "one factor, nearly singular": lambda rng, d: one_factor(rng, d, noise=3e-3),
    "equal scores": equal,
    "chain": chain,
    "chain, box": lambda rng, d: chain(rng, d, box=True),
    "two factors": two_factor,
    "two factors, box": lambda rng, d: two_factor(rng, d, box=True),
}


def _limits(
    rng: np.random.Generator, sd: FloatArray, level: float, box: bool
) -> tuple[FloatArray, FloatArray]:
    """Above only, or in boxes on every possible side."""
    upper = rng.normal(level, 0.5, sd.size)
    lower = np.full(sd.size, -INF)
    if box:
        lower = upper - rng.uniform(1.0, 3.0, sd.size)
        lower[::4] = -INF
        upper[1::4] = INF
    return lower * sd, upper * sd


def _from_factors(lower: FloatArray, upper: FloatArray, c: FloatArray, v: FloatArray) -> Case:
    found = slopes.one_factor(lower, upper, c, v)
    truth = {
        "lower": found.lower,
        "upper": found.upper,
        "mean": -found.lower - found.upper,
        "cov": found.cov,
        "c": np.diag(found.cov).copy(),
        "v": 2.0 * found.cov @ v,
    }
    cov = np.diag(c) + np.outer(v, v)
    return Case(lower, upper, cov, (c, v), truth, dict.fromkeys(truth, 1e-12), ("quadrature",))


Value = Callable[[FloatArray, FloatArray], float]


def _differenced(value: Value, lower: FloatArray, upper: FloatArray) -> dict[str, FloatArray]:
    """Derivatives in limits and mean, of log P."""
    in_upper = slopes.differences(lambda x: value(lower, x), upper, STEP)
    in_lower = slopes.differences(lambda x: value(x, upper), lower, STEP)
    return {"lower": in_lower, "upper": in_upper, "mean": -in_lower - in_upper}


def _plackett(value: Value, lower: FloatArray, upper: FloatArray) -> NDArray[np.float64]:
    """Half the Hessian of P in the mean, over P: second differences with the widest safe step."""
    d = len(upper)
    wide = 2 * STEP

    def gradient(mean: FloatArray) -> FloatArray:
        def prob(x: FloatArray) -> float:
            return float(np.exp(value(lower - x, upper - x)))

        return slopes.differences(prob, mean, wide)

    columns = []
    for unit in wide * np.eye(d):
        near = gradient(unit) - gradient(-unit)
        far = gradient(2 * unit) - gradient(-2 * unit)
        columns.append((8 * near - far) / (12 * wide))
    hessian = np.array(columns)
    return 0.25 * (hessian + hessian.T) / np.exp(value(lower, upper))
