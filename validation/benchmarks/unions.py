"""Complements: the probability that at least one limit is exceeded, to relative accuracy.

    python -m validation.benchmarks.unions [--full] [--json FILE]

About two minutes, in one thread. All problems have one common factor, X_i = v_i z + sqrt(c_i) e_i
with loadings of both signs, so that Q = Pr(X_i > upper_i for some i) is one integral without
cancellation: the truth here. Upper limits are drawn so that Q is about 1e-3, 1e-10, 1e-100 and
1e-300.

* "complement": ``mvnorth.box(..., complement=True)`` with the matrix, in which it finds the factor.
* "general": the same with ``method="tilting"``, as for a covariance without structure.
* "1 - P": one minus ``mvnorth.box_prob``.
* "scipy": one minus scipy's distribution function with its default number of points, d <= 25.
* "gradient": ``box_grad(..., complement=True)`` in the upper limits, with the matrix.

Times are the best of several calls; errors are relative to Q and true, in brackets with the claimed
one. The second table counts claims that are too small, over problems and seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

import mvnorth
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

SIZES = (2, 5, 10, 25, 50, 100)
HEIGHTS = {"1e-3": 3.3, "1e-10": 6.4, "1e-100": 21.4, "1e-300": 37.0}
SCIPY = 25  # coordinates up to which scipy takes less than seconds


def problem(d: int, height: float, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return upper limits and loadings; variances are 1."""
    rng = np.random.default_rng([d, seed])
    v = np.sqrt(rng.uniform(0.05, 0.9, d)) * rng.choice([-1.0, 1.0], d)
    return height + rng.uniform(0.0, 0.5, d), v


def covariance(v: FloatArray) -> FloatArray:
    cov = np.outer(v, v)
    np.fill_diagonal(cov, 1.0)
    return cov


def truth(upper: FloatArray, v: FloatArray, nodes: int = 40_000) -> float:
    """Return log Q by the trapezoidal rule, 1 - exp(sum log Phi) at every node."""
    reach = max(12.0, 2.0 * float(np.abs(upper).max()))
    z = np.linspace(-reach, reach, nodes + 1)
    held = np.zeros(nodes + 1)
    for limit, loading in zip(upper, v, strict=True):
        held += log_ndtr((limit - loading * z) / math.sqrt(1.0 - loading * loading))
    with np.errstate(divide="ignore"):
        log = np.log(-np.expm1(held)) - 0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    top = float(log.max())
    return top + math.log(float(np.exp(log - top).sum()) * 2.0 * reach / nodes)


def programs(upper: FloatArray, v: FloatArray) -> dict[str, Callable[[], tuple[float, float]]]:
    """Return functions that compute log Q and the relative error they claim, by name."""
    cov = covariance(v)

    def ours(method: str) -> tuple[float, float]:
        result = mvnorth.box(-np.inf, upper, 0.0, cov, complement=True, method=method)
        return result.log_prob, result.rel_error

    def subtracted() -> tuple[float, float]:
        result = mvnorth.box(-np.inf, upper, 0.0, cov, method="tilting")
        left = 1.0 - result.prob
        return (math.log(left), result.error / left) if left > 0.0 else (-math.inf, math.inf)

    def scipys() -> tuple[float, float]:
        left = 1.0 - float(multivariate_normal.cdf(upper, cov=cov))
        return (math.log(left) if left > 0.0 else -math.inf), math.nan

    def gradient() -> tuple[float, float]:
        result = mvnorth.box_grad(-np.inf, upper, 0.0, cov, complement=True, wrt=("upper",))
        return result.log_prob, result.rel_error

    calls = {
        "complement": lambda: ours("auto"),
        "general": lambda: ours("tilting"),
        "1 - P": subtracted,
        "gradient": gradient,
    }
    if upper.size <= SCIPY:
        calls["scipy"] = scipys
    return calls


def measure(call: Callable[[], tuple[float, float]], log_q: float, full: bool) -> dict[str, float]:
    """Return seconds, the true error and the claimed one, relative to Q."""
    _, once = best_of(call, 1)
    repeats = int(min(max((2.0 if full else 0.3) / once, 1), 100))
    (value, claimed), seconds = best_of(call, repeats)
    return {
        "seconds": seconds,
        "error": abs(math.expm1(min(value - log_q, 700.0))),
        "claimed": claimed,
    }


def honesty(full: bool) -> dict[str, Any]:
    """Count claims of the general method that the truth is outside of."""
    outside, missed, runs = 0, 0, 0
    for d in (4, 8, 12, 20):
        for height in (1.5, 3.0, 5.0, 9.0):
            for seed in range(20 if full else 4):
                upper, v = problem(d, height, seed)
                log_q = truth(upper, v)
                result = mvnorth.box(
                    -np.inf, upper, 0.0, covariance(v), complement=True, method="tilting", seed=seed
                )
                off = abs(math.expm1(result.log_prob - log_q))
                runs += 1
                outside += bool(off > result.rel_error + 1e-11)
                missed += bool(result.rel_error > 1e-4)
    return {"runs": runs, "outside": outside, "tolerance missed": missed}


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    results: list[dict[str, Any]] = []
    for d in SIZES:
        for name, height in HEIGHTS.items():
            upper, v = problem(d, height)
            log_q = truth(upper, v)
            progress(f"d = {d}, Q about {name} ...")
            for program, call in programs(upper, v).items():
                measured = measure(call, log_q, options.full)
                results.append({"d": d, "log_q": log_q, "program": program, **measured})
    print(machine(), end="\n\n")
    names = list(dict.fromkeys(row["program"] for row in results))
    lines: dict[tuple[int, float], dict[str, str]] = {}
    for row in results:
        cell = f"{1e3 * row['seconds']:.3g} ({row['error']:.0e}, {row['claimed']:.0e})"
        lines.setdefault((row["d"], row["log_q"]), {})[row["program"]] = cell
    print_table(
        ["milliseconds (error, claimed)", *names],
        [
            [f"d = {d}, log10 Q = {log_q / math.log(10.0):.1f}"] + [of.get(n, "-") for n in names]
            for (d, log_q), of in lines.items()
        ],
    )
    counts = honesty(options.full)
    print_table(list(counts), [list(counts.values())])
    record(options.json, "unions", [*results, counts])


if __name__ == "__main__":
    main()
