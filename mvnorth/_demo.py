"""A few probabilities beside scipy's, for a first look."""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

import mvnorth

T = TypeVar("T")


def _timed(function: Callable[..., T], *args: object, **kwargs: object) -> tuple[T, float]:
    start = time.perf_counter()
    value = function(*args, **kwargs)
    return value, time.perf_counter() - start


def demo() -> None:
    """Print a table of probabilities, their errors and times, beside scipy's."""
    from scipy.stats import multivariate_normal

    print("compiling kernels (half a minute the first time, cached afterwards) ...")
    for _, x, cov in _demo_problems():
        mvnorth.box(-np.inf, x, 0.0, cov, 256)

    heads = ("problem", "d", "mvnorth", "error", "ms", "scipy", "ms", "faster")
    print("{:34}{:>4}{:>14}{:>9}{:>9}{:>14}{:>9}{:>8}".format(*heads))
    for name, x, cov in _demo_problems():
        result, seconds = _timed(mvnorth.box, -np.inf, x, 0.0, cov)
        value, scipy_seconds = _timed(multivariate_normal.cdf, x, cov=cov)
        print(
            f"{name:34}{x.size:>4}{result.prob:>14.6g}{result.error:>9.0e}{1e3 * seconds:>9.2f}"
            f"{value:>14.6g}{1e3 * scipy_seconds:>9.2f}{scipy_seconds / seconds:>7.0f}x"
        )
    print(
        "\nerror: a bound at 99 % confidence on mvnorth's absolute error (by default at most 1e-4"
    )
    print(
        "of the probability); scipy's own target is 1e-5 absolute, which small values hide behind."
    )


def _demo_problems() -> list[tuple[str, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)

    def exchangeable(d: int, rho: float) -> np.ndarray:
        return rho + (1.0 - rho) * np.eye(d)

    def ar1(d: int, rho: float) -> np.ndarray:
        k = np.arange(d)
        return rho ** np.abs(k[:, None] - k)

    loadings = rng.normal(size=(20, 20))
    random = loadings @ loadings.T + 5.0 * np.eye(20)
    deviation = np.sqrt(np.diag(random))
    random /= np.outer(deviation, deviation)
    return [
        ("two variables, zero mean: 1/3", np.zeros(2), exchangeable(2, 0.5)),
        ("three variables, far out", np.full(3, -8.0), exchangeable(3, 0.5)),
        ("exchangeable 1/2, zero mean: 1/10", np.zeros(9), exchangeable(9, 0.5)),
        ("random correlation", rng.normal(1.0, 1.0, 20), random),
        ("AR(1), 0.9", rng.normal(1.5, 1.0, 50), ar1(50, 0.9)),
        ("exchangeable 0.2", rng.normal(2.5, 0.5, 100), exchangeable(100, 0.2)),
    ]
