"""Markov chains: true and claimed errors, and the time of values and derivatives.

    python -m validation.benchmarks.markov [--full] [--json FILE]

About a minute, in one thread. Covariances are dense, and every call recognises the chain in them.
A random walk stays positive for d steps with probability C(2d, d)/4^d (Sparre Andersen 1954), which
gives its true error; chains with an autoregressive correlation have none so simple. Milliseconds
are the processor's, the fastest of several calls; claimed errors are relative, those of derivatives
to the largest entry.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from validation.benchmarks.timing import arguments, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

MOST_WITH_COVARIANCES = 400  # coordinates


class Chain(NamedTuple):
    """A chain and its limits."""

    name: str
    limits: str
    lower: float
    upper: float
    covariance: Callable[[int], FloatArray]
    sizes: tuple[int, ...]
    log_prob: Callable[[int], float] | None = None


def walk(d: int) -> FloatArray:
    """Return the covariance of a random walk."""
    steps = np.arange(1.0, d + 1)
    return np.minimum.outer(steps, steps)


def autoregressive(correlation: float) -> Callable[[int], FloatArray]:
    """Return a function of d: the covariance of an AR(1) process."""

    def covariance(d: int) -> FloatArray:
        return np.asarray(correlation ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))

    return covariance


def stays_positive(d: int) -> float:
    """Return the logarithm of C(2d, d)/4^d."""
    return math.lgamma(2 * d + 1) - 2 * math.lgamma(d + 1) - d * math.log(4)


CHAINS = (
    Chain("walk", "x > 0", 0.0, np.inf, walk, (20, 100, 400, 1000), stays_positive),
    Chain("AR(1), 0.9", "x > 0", 0.0, np.inf, autoregressive(0.9), (20, 100, 400, 1000)),
    Chain("AR(1), 0.9", "x > 10", 10.0, np.inf, autoregressive(0.9), (100, 1000)),
    Chain("AR(1), 0.9", "|x| < 1", -1.0, 1.0, autoregressive(0.9), (100, 1000)),
    Chain("AR(1), 0.99", "x > -1", -1.0, np.inf, autoregressive(0.99), (100, 400)),
    Chain("AR(1), 0.5", "x > 0", 0.0, np.inf, autoregressive(0.5), (400,)),
)


class Row(NamedTuple):
    """One problem: errors; milliseconds of the value, with derivatives in limits, in all."""

    chain: str
    limits: str
    d: int
    log_prob: float
    error: float | None
    claimed: float
    value: float
    gradient: float
    covariances: float | None
    claimed_limits: float


def measure(chain: Chain, d: int, repeats: int) -> Row:
    """Return the errors and times of one chain with d coordinates."""
    cov = chain.covariance(d)
    limits = np.full(d, chain.lower), np.full(d, chain.upper), 0.0, cov
    found, value = _fastest(lambda: mvnorth.box(*limits, method="markov"), repeats)
    slopes, gradient = _fastest(lambda: _gradient(limits, ("lower",)), repeats)
    covariances = None
    if d <= MOST_WITH_COVARIANCES:
        covariances = _fastest(lambda: _gradient(limits, ("lower", "cov")), 2)[1]
    truth = chain.log_prob(d) if chain.log_prob else None
    return Row(
        chain.name,
        chain.limits,
        d,
        float(found.log_prob),
        None if truth is None else abs(math.expm1(float(found.log_prob) - truth)),
        float(found.rel_error),
        value,
        gradient,
        covariances,
        float(np.max(slopes.grad_lower_error) / np.max(np.abs(slopes.grad_lower))),
    )


def _gradient(limits: tuple[Any, ...], wrt: tuple[str, ...]) -> Any:
    return mvnorth.box_grad(*limits, method="markov", wrt=wrt, log=True)


def _fastest(call: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """Return the result of a call and the milliseconds of its fastest run."""
    best = np.inf
    for _ in range(repeats + 1):  # the first may compile
        start = time.process_time()
        result = call()
        best = min(best, time.process_time() - start)
    return result, 1e3 * best


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    rows = []
    for chain in CHAINS:
        for d in chain.sizes:
            progress(f"{chain.name}, {chain.limits}, d = {d} ...")
            rows.append(measure(chain, d, 20 if options.full else 5))
    print(machine(), end="\n\n")
    header = ["chain", "limits", "d", "log P", "true error", "claimed", "value, ms"]
    header += ["with limits, ms", "with covariances, ms", "claimed, limits"]
    print_table(header, [_cells(row) for row in rows], cite="markov")
    record(options.json, "markov", [row._asdict() for row in rows])


def _cells(row: Row) -> list[str]:
    return [
        row.chain,
        row.limits,
        f"{row.d}",
        f"{row.log_prob:.4g}",
        "" if row.error is None else f"{row.error:.0e}",
        f"{row.claimed:.0e}",
        _milliseconds(row.value),
        _milliseconds(row.gradient),
        "" if row.covariances is None else _milliseconds(row.covariances),
        f"{row.claimed_limits:.0e}",
    ]


def _milliseconds(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
