"""How far the Genz kernel is from its floor, and what a second thread brings.

    python -m validation.benchmarks.kernel

The floor of one sample and dimension is one vector Phi, one vector Phi^-1 and the multiply-adds,
each measured alone on data in the first-level cache, in the same run.
"""

import os

os.environ.setdefault("MVNORTH_NUM_THREADS", "1")

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from mvnorth._compile import FAST, kernel
from mvnorth._cpu.genz import BLOCK, PANEL, TILE, _subtract_tiles
from mvnorth._scalar.normal import ndtr_parts, quantile_central, quantile_w


@kernel(FAST)
def _phi(x, f, k, repeats):
    for _ in range(repeats):
        for i in range(x.size):
            f[i], k[i] = ndtr_parts(x[i])


@kernel(FAST)
def _quantile(p, k, y, repeats):
    for _ in range(repeats):
        for i in range(p.size):
            q, w = quantile_w(p[i], k[i])
            y[i] = quantile_central(q, w)


@kernel(FAST)
def _multiply_add(acc, T, y, repeats):
    for _ in range(repeats):
        _subtract_tiles(acc, T, 0, 0, TILE, y, 0, 24)


def _nanoseconds(call: Callable[..., Any], count: float, rounds: int = 15) -> float:
    """Best time of ``call`` over ``count`` operations."""
    call()
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e9 * best / count


def floor() -> tuple[float, float, float]:
    """Nanoseconds of one Phi, one Phi^-1 and one multiply-add, as vector code."""
    rng = np.random.default_rng(0)
    x, f, k, y = rng.normal(size=(4, BLOCK))
    phi = _nanoseconds(lambda: _phi(x, f, k, 200), 200 * BLOCK)
    quantile = _nanoseconds(lambda: _quantile(f, k, y, 200), 200 * BLOCK)
    acc, T, ys = np.zeros((PANEL, BLOCK)), rng.normal(size=(28, 28)), rng.normal(size=(28, BLOCK))
    add = _nanoseconds(lambda: _multiply_add(acc, T, ys, 200), 200 * BLOCK * 4 * 24)
    return phi, quantile, add


def _problem(d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d)
    return rng.normal(1.0, 1.0, d), np.linalg.cholesky(A @ A.T)


class Measured(NamedTuple):
    """Nanoseconds a sample and dimension, the least they could be, and two threads to one."""

    d: int
    cost: float
    bound: float
    speedup: float
    same_bits: bool


def measure(d: int, parts: tuple[float, float, float], rounds: int = 5) -> Measured:
    """The kernel in d dimensions beside the ``parts`` of its ``floor``."""
    phi, quantile, add = parts
    m, L = _problem(d)
    n = 2 ** max(14, 24 - int(np.log2(d) * 1.6))

    def value(points: int) -> float:
        return float(mvnorth.orthant_prob(m, L, points, method="genz"))

    def seconds(points: int, threads: int) -> float:
        mvnorth.set_num_threads(threads)
        return _nanoseconds(lambda: value(points), 1e9, rounds)

    # twice the points less once: the reordering, the same for both, drops out
    once, twice = seconds(n, 1), seconds(2 * n, 1)
    alone, cut = value(2 * n), seconds(2 * n, 2)
    same = value(2 * n) == alone  # still by two threads
    mvnorth.set_num_threads(1)
    bound = phi + quantile + add * (d - 1) / 2
    return Measured(d, 1e9 * (twice - once) / (n * d), bound, twice / cut, same)


def main() -> None:
    parts = floor()
    phi, quantile, add = parts
    print(f"vector Phi {phi:.2f} ns, Phi^-1 {quantile:.2f} ns, multiply-add {add:.4f} ns\n")
    print(f"{'d':>5}{'ns a sample and dimension':>28}{'floor':>8}{'ratio':>7}{'2 threads':>11}")
    for d in (5, 10, 20, 50, 100, 200, 500, 1000):
        x = measure(d, parts)
        print(f"{d:>5}{x.cost:>28.2f}{x.bound:>8.2f}{x.cost / x.bound:>7.2f}{x.speedup:>10.2f}x")


if __name__ == "__main__":
    main()
