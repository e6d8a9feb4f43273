"""Problems a second at a true relative error of 1e-4, in batches of small problems.

    python -m validation.benchmarks.throughput [--full] [--json FILE]

Each row of a batch has its own random correlation matrix and limits ~ N(0.5, 1). mvnorth takes
the batch of 200 in one call, scipy and R's mvtnorm take 20 of its rows one after the other (timed
inside R). All use the smallest number of points, by doubling, whose root-mean-square true error
over these 20 rows and several seeds is at most the target. Answers come from 2**22 points of
mvnorth with another seed, and are checked against long runs of scipy on a few rows.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

import mvnorth
from validation.benchmarks.peers import Program, call_scipy, programs, random_correlation, ratio
from validation.benchmarks.timing import (
    Reached,
    arguments,
    best_of,
    machine,
    print_table,
    progress,
    record,
    time_to_errors,
)
from validation.oracles.one_dimension import FloatArray

DIMENSIONS = (5, 9, 20)
TARGET = 1e-4
ROWS = 200
COMMON = 20  # rows on which all programs are judged
REFERENCE_SEED = 12345


class Batch:
    """Random problems of one dimension, with answers for the rows that all programs take.

    Attributes
    ----------
    b : (ROWS, d)
    cov : (ROWS, d, d)
    log_prob, rel_error : (COMMON,)
        Answers of the first rows and mvnorth's bound on their error.
    """

    def __init__(self, d: int, points: int = 2**22) -> None:
        rng = np.random.default_rng(d)
        self.cov = np.stack([random_correlation(rng, d, 2 * d) for _ in range(ROWS)])
        self.b = rng.normal(0.5, 1.0, (ROWS, d))
        factor = np.linalg.cholesky(self.cov[:COMMON])
        long = mvnorth.orthant(self.b[:COMMON], factor, points, method="genz", seed=REFERENCE_SEED)
        self.log_prob, self.rel_error = long.log_prob, long.rel_error

    def relative_errors(self, values: FloatArray) -> FloatArray:
        """Of the common rows, or of as many as there are values."""
        values = values[:COMMON]
        return values / np.exp(self.log_prob[: values.size]) - 1


def mvnorth_reached(batch: Batch, limit: float) -> Reached:
    """Points from the common rows, seconds from a call for all rows; per row."""

    def values(points: int, seed: int, rows: int) -> FloatArray:
        factor = np.linalg.cholesky(batch.cov[:rows])
        return mvnorth.orthant_prob(batch.b[:rows], factor, points, method="tilting", seed=seed)

    def trial(points: int, number: int) -> tuple[FloatArray, float]:
        few, seconds = best_of(lambda: values(points, number, COMMON), 1)
        return batch.relative_errors(few), seconds / COMMON

    points = [2**k for k in range(6, 24)]
    reached = time_to_errors(trial, points, [TARGET], (8, 8), limit / COMMON)[0]
    _, seconds = best_of(lambda: values(reached.points, 0, ROWS), 3)
    return replace(reached, seconds=seconds / ROWS)


def peer_reached(program: Program, batch: Batch, limit: float) -> Reached:
    """A loop over the common rows; the seconds are those of a row."""

    def trial(points: int, number: int) -> tuple[FloatArray, float]:
        rows = [
            program.call(batch.b[k], batch.cov[k], points, 1000 * number + k) for k in range(COMMON)
        ]
        values = np.array([row.value for row in rows])
        return batch.relative_errors(values), float(np.mean([row.seconds for row in rows]))

    return time_to_errors(trial, program.points, [TARGET], (2, 2), limit / COMMON)[0]


def adaptive(batch: Batch) -> dict[str, float]:
    """mvnorth with the target as ``rtol`` instead of a number of points."""

    def call() -> mvnorth.OrthantResult:
        return mvnorth.orthant(batch.b, np.linalg.cholesky(batch.cov), rtol=TARGET)

    result, seconds = best_of(call, 3)
    errors = batch.relative_errors(result.prob)
    return {
        "seconds": seconds / ROWS,
        "error": float(np.sqrt(np.mean(errors**2))),
        "largest": float(np.max(np.abs(errors))),
        "converged": float(np.mean(result.rel_error <= TARGET)),
    }


def check(batch: Batch, points: int) -> float:
    """Largest relative difference between the answers and scipy on three rows."""
    values = [call_scipy(batch.b[k], batch.cov[k], points, 0).value for k in range(3)]
    return float(np.max(np.abs(batch.relative_errors(np.array(values)))))


def main() -> None:
    options = arguments(__doc__).parse_args()
    limit = 60.0 if options.full else 12.0  # seconds of a pass over the common rows
    results: list[dict[str, Any]] = []
    speeds: list[list[object]] = []
    adaptives: list[list[object]] = []
    summary: list[str] = []
    print(machine(), end="\n\n")
    print(f"Answers: {COMMON} rows a dimension, mvnorth with 2**22 points")
    with programs(limit) as found:
        for d in DIMENSIONS:
            progress(f"d={d}, answers ...")
            batch = Batch(d)
            print(
                f"  d={d}: log P {batch.log_prob.min():.1f} to {batch.log_prob.max():.1f}, error "
                f"bounds {np.median(batch.rel_error):.0e} (median) to {batch.rel_error.max():.0e}, "
                f"scipy differs by {check(batch, 10**6 if options.full else 200_000):.0e}"
            )
            progress(f"d={d}, mvnorth ...")
            reached = [mvnorth_reached(batch, limit)]
            for program in found[1:]:
                progress(f"d={d}, {program.name} ...")
                reached.append(peer_reached(program, batch, limit))
            own, *others = reached
            for program, r in zip(found, reached, strict=True):
                rate = f"{1 / r.seconds:.4g}"
                shown = rate if r.met else f"< {rate}"
                speeds.append([f"d={d}", program.name, shown, f"{r.points}", f"{r.error:.1e}"])
                results.append({"d": d, "program": program.name} | asdict(r))
            summary.append(f"d={d}: {ratio(own, others) or 'open'}")
            asked = adaptive(batch)
            results.append({"d": d, "program": "mvnorth", "adaptive": True} | asked)
            adaptives.append(
                [
                    f"d={d}",
                    f"{1 / asked['seconds']:.4g}",
                    f"{asked['error']:.1e}",
                    f"{asked['largest']:.1e}",
                    f"{asked['converged']:.1%}",
                ]
            )
    print(f"\nProblems a second at a root-mean-square relative error of {TARGET:g}")
    print_table(["", "program", "problems/s", "points", "error reached"], speeds)
    print(f"mvnorth asked for rtol={TARGET:g}")
    print_table(["", "problems/s", "error", "largest error", "rows converged"], adaptives)
    print("problems a second, mvnorth / better peer: " + ", ".join(summary))
    record(options.json, "throughput", results)


if __name__ == "__main__":
    main()
