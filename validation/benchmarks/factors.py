"""Two and three common factors: mvnorth, `winning`, scipy, and sampling the matrix.

    python -m validation.benchmarks.factors [--full] [--json FILE]

About two minutes, in one thread. Covariances are diag(c) + V V^T with c uniform in (0.3, 1) and
loadings N(0, 0.5**2); the probability is that of X <= upper, with upper limits of 1.5 deviations
and more ("ordinary") or 2 deviations below zero ("tail").

* mvnorth for relative errors of 1e-4, 1e-8 and 1e-12, the value; and 1e-8 with derivatives in the
  limits, c and V.
* `winning.fastmvn` (https://pypi.org/project/winning, BSD) with the same c and V, if it is
  installed: `pip install --no-deps winning`.
* "matrix": mvnorth's sampling of the dense covariance, as for one without structure, with the
  tolerance 1e-4.
* scipy's distribution function, up to d = 100, of which the default number of points is kept.

The truth is mvnorth with a tolerance of 1e-13, which tests hold against sums in 30 digits and
against products of Gauss-Hermite rules. Errors are relative to the probability, of the logarithm
where it is below 1e-300. A dash is what was not run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import mvnorth
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

SIZES = (20, 100, 500)
LIMIT = 20.0  # seconds that a single call may take


def problem(k: int, d: int, tail: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return upper limits, c and V."""
    rng = np.random.default_rng([k, d, tail])
    c, V = rng.uniform(0.3, 1.0, d), 0.5 * rng.normal(size=(d, k))
    deviation = np.sqrt(c + np.sum(V * V, axis=1))
    upper = deviation * (-2.0 if tail else 1.5 + rng.exponential(size=d))
    return upper, c, V


def programs(upper: FloatArray, c: FloatArray, V: FloatArray) -> dict[str, Callable[[], float]]:
    """Return functions that compute the logarithm of the probability, by name."""
    cov = mvnorth.Factors(c, V)
    calls: dict[str, Callable[[], float]] = {}
    for rtol in (1e-4, 1e-8, 1e-12):
        calls[f"mvnorth {rtol:.0e}"] = lambda rtol=rtol: mvnorth.orthant_logprob(  # type: ignore[misc]
            upper, cov, rtol=rtol
        )
    calls["mvnorth 1e-08, derivatives"] = lambda: float(
        mvnorth.orthant_grad(upper, cov, rtol=1e-8, wrt=("m", "c", "V")).log_prob
    )
    if find_spec("winning"):
        fast = import_module("winning.fastmvn").mvn_cdf_fast
        calls["winning"] = lambda: _log(fast(upper=upper, V=V, D=c))
    matrix = cov.dense()
    factor = np.linalg.cholesky(matrix)
    calls["matrix"] = lambda: mvnorth.orthant_logprob(upper, factor, rtol=1e-4, method="tilting")
    if len(upper) <= 100:
        calls["scipy"] = lambda: float(multivariate_normal.logcdf(upper, cov=matrix))
    return calls


def _log(prob: float) -> float:
    return math.log(prob) if prob > 0.0 else -math.inf


def measure(call: Callable[[], float], truth: float, full: bool) -> dict[str, Any]:
    """Return the seconds of a call and its error."""
    start = time.perf_counter()
    value = call()
    once = time.perf_counter() - start
    if once < LIMIT / 4:
        repeats = int(min(max((2.0 if full else 0.5) / once, 2), 200))
        value, once = best_of(call, repeats)
    error = abs(value - truth)
    if truth > -690.0:
        error = abs(math.expm1(min(value - truth, 700.0)))
    return {"seconds": once, "error": error}


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    results: list[dict[str, Any]] = []
    for tail in (False, True):
        for k in (2, 3):
            for d in SIZES:
                upper, c, V = problem(k, d, tail)
                truth = mvnorth.orthant(upper, mvnorth.Factors(c, V), rtol=1e-13).log_prob
                where = {"k": k, "d": d, "kind": "tail" if tail else "ordinary", "log_prob": truth}
                progress(f"{where} ...")
                for name, call in programs(upper, c, V).items():
                    results.append({**where, "program": name, **measure(call, truth, options.full)})
    print(machine(), end="\n\n")
    names = list(dict.fromkeys(row["program"] for row in results))
    found = {(row["kind"], row["k"], row["d"], row["program"]): row for row in results}
    lines = []
    for kind, k, d in dict.fromkeys(key[:3] for key in found):
        cells = []
        for name in names:
            row = found.get((kind, k, d, name))
            cells.append(f"{1e3 * row['seconds']:.3g} ({row['error']:.0e})" if row else "-")
        log_prob = found[kind, k, d, names[0]]["log_prob"]
        lines.append([f"k = {k}, d = {d}, log P = {log_prob:.4g}", *cells])
    print_table(["milliseconds (error)", *names], lines)
    record(options.json, "factors", results)


if __name__ == "__main__":
    main()
