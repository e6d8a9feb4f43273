"""Polytopes Pr(A X <= b): time to a relative error of 1e-4, beside plain draws and scipy.

    python -m validation.benchmarks.polytopes [--full] [--json FILE]

About a minute, in one thread. Rows of A are random directions, at distances of 0.5 to 2.5
deviations from the mean: r = 2 d and 4 d of them in d dimensions.

* "mvnorth": ``polytope`` with its default tolerance of 1e-4; with the error that it claims, since
  not every polytope gets there with 2**20 points.
* "gradient": ``polytope_grad`` in A, b, mean and cov.
* "draws": plain Monte Carlo in numpy at an error of 1e-4 at 99 %, or at what mvnorth claims if that
  is more: the time of 2**18 draws, times how many of these it takes.
* "scipy": the distribution function of A X with ``allow_singular=True`` and 100,000 points, with
  the difference to mvnorth.

Times are the best of several calls. The second table is for polygons, which are exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import mvnorth
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

SIZES = (2, 3, 4, 6, 10)
DRAWS = 2**18
GOAL = 1e-4  # relative error
POINTS = 100_000  # of scipy
CONFIDENCE = 2.576  # deviations for 99 %


def problem(d: int, r: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return A with rows of length 1, and b, for X ~ N(0, I)."""
    rng = np.random.default_rng([d, r, seed])
    A = rng.normal(size=(r, d))
    A /= np.sqrt(np.sum(A * A, axis=1))[:, None]
    return A, rng.uniform(0.5, 2.5, r)


def count_inside(A: FloatArray, b: FloatArray, rng: np.random.Generator) -> float:
    inside = (rng.standard_normal((DRAWS, A.shape[1])) @ A.T <= b).all(axis=1)
    return float(inside.mean())


def measure(d: int, r: int, repeats: int) -> dict[str, Any]:
    """Return times in seconds and errors of one polytope."""
    A, b = problem(d, r)
    cov = np.eye(d)
    names = ("A", "b", "mean", "cov")
    result, ours = best_of(lambda: mvnorth.polytope(A, b, 0.0, cov), repeats)
    _, gradient = best_of(lambda: mvnorth.polytope_grad(A, b, 0.0, cov, wrt=names), 1)
    rng = np.random.default_rng(0)
    _, batch = best_of(lambda: count_inside(A, b, rng), 3)
    needed = (CONFIDENCE / max(result.rel_error, GOAL)) ** 2 * (1.0 - result.prob) / result.prob

    def scipys() -> float:
        cov = A @ A.T
        return float(multivariate_normal.cdf(b, cov=cov, allow_singular=True, maxpts=POINTS))

    other, theirs = best_of(scipys, 1)
    return {
        "d": d,
        "r": r,
        "prob": result.prob,
        "claimed": result.rel_error,
        "method": result.method,
        "mvnorth": ours,
        "gradient": gradient,
        "draws": batch * needed / DRAWS,
        "scipy": theirs,
        "scipy off": abs(other / result.prob - 1.0),
    }


def polygon(sides: int, repeats: int) -> dict[str, Any]:
    """Return the time of a regular polygon, and its error by Owen's T function."""
    from scipy.special import owens_t

    angle = 2.0 * math.pi * np.arange(sides) / sides
    A = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    exact = 1.0 - 2.0 * sides * owens_t(1.5, math.tan(math.pi / sides))
    result, seconds = best_of(lambda: mvnorth.polytope(A, 1.5, 0.0, np.eye(2)), repeats)
    return {
        "sides": sides,
        "seconds": seconds,
        "claimed": result.rel_error,
        "error": abs(result.prob / exact - 1.0),
    }


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    repeats = 20 if options.full else 5
    results = []
    for d in SIZES:
        for r in (2 * d, 4 * d):
            progress(f"d = {d}, r = {r} ...")
            results.append(measure(d, r, repeats))
    polygons = [polygon(sides, repeats) for sides in (3, 10, 100)]
    print(machine(), end="\n\n")
    print_table(
        ["", "P", "claimed", "mvnorth, ms", "gradient, ms", "draws, ms", "scipy, ms (off)"],
        [
            [
                f"d = {row['d']}, r = {row['r']}",
                f"{row['prob']:.3g}",
                f"{row['claimed']:.0e}",
                *(f"{1e3 * row[name]:.3g}" for name in ("mvnorth", "gradient", "draws")),
                f"{1e3 * row['scipy']:.3g} ({row['scipy off']:.0e})",
            ]
            for row in results
        ],
    )
    print_table(
        ["sides of a regular polygon", "microseconds", "claimed", "error"],
        [
            [
                row["sides"],
                f"{1e6 * row['seconds']:.0f}",
                f"{row['claimed']:.0e}",
                f"{row['error']:.0e}",
            ]
            for row in polygons
        ],
    )
    record(options.json, "polytopes", [*results, *polygons])


if __name__ == "__main__":
    main()
