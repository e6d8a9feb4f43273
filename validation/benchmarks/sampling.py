"""Acceptance and speed of exact draws.

    python -m validation.benchmarks.sampling [--full] [--json FILE]

Draws of t ~ N(m, Sigma) given t >= 0, one thread: the share of proposals that is accepted, draws a
second of processor time (the fastest of several runs), and the time to the first draw.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import mvnorth
from mvnorth import OneFactor
from validation.benchmarks.timing import (
    arguments,
    machine,
    print_table,
    progress,
    record,
)
from validation.oracles.one_dimension import FloatArray

MEANS = (0.0, -3.0, -10.0)


def random_correlation(d: int) -> FloatArray:
    """Correlations of d vectors of 2d independent normal numbers."""
    vectors = np.random.default_rng(d).normal(size=(d, 2 * d))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    return vectors @ vectors.T


def covariances(full: bool) -> Iterator[tuple[str, int, np.ndarray | OneFactor]]:
    """Name, dimension, and the covariance as ``sample_orthant`` takes it."""
    for d in (10, 50, 100, 200) if full else (10, 50):
        yield "random correlation", d, np.linalg.cholesky(random_correlation(d))
    for d in (10, 50, 100) if full else (10,):
        lag = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
        yield "correlation 0.9^|i-j|", d, np.linalg.cholesky(0.9**lag)
    for d in (10, 1000, 100_000) if full else (10, 1000):
        yield "one factor, correlation 1/2", d, OneFactor.exchangeable(d, 0.5)


def measure(m: FloatArray, cov: np.ndarray | OneFactor, repeats: int) -> dict[str, Any]:
    """Acceptance, draws a second, and seconds to the first draw."""

    def draw(size: int) -> mvnorth.OrthantSample:
        return mvnorth.sample_orthant(m, cov, size)

    def cpu_seconds(size: int) -> tuple[mvnorth.OrthantSample, float]:
        best = np.inf
        for _ in range(repeats):
            start = time.process_time()
            sample = draw(size)
            best = min(best, time.process_time() - start)
        return sample, best

    sample, first = cpu_seconds(1)
    size = int(max(10, min(16384 * sample.acceptance, 2e7 / m.size)))
    sample, seconds = cpu_seconds(size)
    return {"acceptance": sample.acceptance, "draws": size / seconds, "first": first}


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    repeats = 5 if options.full else 3
    results: list[dict[str, Any]] = []
    for name, d, cov in covariances(options.full):
        progress(f"{name}, d = {d} ...")
        for mean in MEANS:
            try:
                found = measure(np.full(d, mean), cov, repeats)
            except mvnorth.AcceptanceError as refused:
                found = {"acceptance": refused.acceptance, "draws": 0.0, "first": np.inf}
            results.append({"covariance": name, "d": d, "mean": mean, **found})
    print(machine(), end="\n\n")
    print_table(
        ["covariance", "d", "m", "accepted", "draws/s", "first draw, ms"],
        [
            [
                row["covariance"],
                str(row["d"]),
                f"{row['mean']:g}",
                f"{row['acceptance']:.2g}",
                f"{row['draws']:.2g}",
                f"{1e3 * row['first']:.2g}",
            ]
            for row in results
        ],
    )
    record(options.json, "sampling", results)


if __name__ == "__main__":
    main()
