"""Student t: mvnorth, scipy's ``multivariate_t`` and the normal probability beside it.

    python -m validation.benchmarks.student [--full] [--json FILE]

About two minutes, in one thread.

* Dunnett's problem with d treatments: two-sided limits of 2.5, correlations 1/2, given as a
  ``OneFactor``; and one-sided ones.
* Random correlation matrices with d = 3, 5 and 10 coordinates, upper limits of 1.

Each with mvnorth at relative errors of 1e-4, 1e-6 and 1e-10 (as far as these can be reached), the
normal probability at the same tolerance, and scipy with its default number of points. The truth is
mvnorth with a tolerance of 1e-12 (1e-8 for matrices), which tests hold against sums in 30 digits
and scipy's integrators; errors are relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import multivariate_t

import mvnorth
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record

DF = 5.0


def problems() -> dict[str, tuple[Any, Any, Any, tuple[float, ...]]]:
    """Return lower and upper limits, covariance and tolerances, by name."""
    table: dict[str, tuple[Any, Any, Any, tuple[float, ...]]] = {}
    for d in (4, 20):
        dunnett = mvnorth.OneFactor(np.full(d, 0.5), np.full(d, math.sqrt(0.5)))
        limit = np.full(d, 2.5)
        table[f"Dunnett, {d} treatments, one-sided"] = (
            -np.inf,
            limit,
            dunnett,
            (1e-4, 1e-6, 1e-10),
        )
        table[f"Dunnett, {d} treatments, two-sided"] = (-limit, limit, dunnett, (1e-4, 1e-6, 1e-10))
    for d in (3, 5, 10):
        factor = np.random.default_rng(d).normal(size=(d, 2 * d))
        cov = np.corrcoef(factor)
        tolerances = (1e-4, 1e-6) if d <= 5 else (1e-4,)
        table[f"matrix, d = {d}"] = (-np.inf, np.ones(d), cov, tolerances)
    return table


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    repeats = 50 if options.full else 15
    results: list[dict[str, Any]] = []
    for name, (lower, upper, cov, tolerances) in problems().items():
        progress(f"{name} ...")
        structured = isinstance(cov, mvnorth.Factors)
        best = 1e-12 if structured else 1e-8 if len(upper) <= 5 else 1e-6
        truth = mvnorth.box_prob(lower, upper, 0.0, cov, df=DF, rtol=best)
        calls: dict[str, Callable[[], float]] = {}
        for rtol in tolerances:
            call = partial(mvnorth.box_prob, lower, upper, 0.0, cov, rtol=rtol)
            calls[f"t, {rtol:.0e}"] = partial(call, df=DF)
            calls[f"normal, {rtol:.0e}"] = call
        matrix = cov.dense() if structured else cov
        below = np.broadcast_to(lower, np.shape(upper))
        calls["scipy"] = partial(
            multivariate_t.cdf, upper, shape=matrix, df=DF, lower_limit=below, random_state=0
        )
        for program, call in calls.items():
            value, seconds = best_of(call, 3 if program == "scipy" else repeats)
            error = math.nan if program.startswith("normal") else abs(value / truth - 1.0)
            results.append(
                {"problem": name, "program": program, "seconds": seconds, "error": error}
            )
    print(machine(), end="\n\n")
    programs = list(dict.fromkeys(row["program"] for row in results))
    found = {(row["problem"], row["program"]): row for row in results}
    lines = []
    for name in problems():
        cells = []
        for program in programs:
            row = found.get((name, program))
            error = "" if row is None or math.isnan(row["error"]) else f" ({row['error']:.0e})"
            cells.append("-" if row is None else f"{1e3 * row['seconds']:.3g}{error}")
        lines.append([name, *cells])
    print_table([f"milliseconds (error), df = {DF:g}", *programs], lines)
    record(options.json, "student", results)


if __name__ == "__main__":
    main()
