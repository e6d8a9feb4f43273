"""Dunnett's critical values and p-values: mvnorth, R's `qmvt`, `scipy.stats.dunnett`.

    python -m validation.benchmarks.quantiles [--full] [--json FILE]

About a minute, in one thread. A control and 3 or 8 treatments of 6 observations each are compared
at the level 0.95, two-sided.

* "critical value": `mvnorth.quantile` for relative errors of 1e-4 and 1e-8; `qmvt` of R's mvtnorm
  with its defaults, if R is there; scipy's from its confidence interval.
* "p-values": `mvnorth.max_t`, single-step and step-down p-values with the critical value and the
  intervals, and `scipy.stats.dunnett`, p-values alone.

The truth is a product of Gauss-Legendre rules over the common factor and the chi variable. An error
is the largest of several seeds, relative for critical values and p-values.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

import mvnorth
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record
from validation.oracles import r_mvtnorm
from validation.oracles.one_dimension import FloatArray

OBSERVATIONS = 6
TREATMENTS = (3, 8)
SEEDS = range(1, 6)

SCRIPT = """
args <- as.numeric(commandArgs(trailingOnly = TRUE))
suppressPackageStartupMessages(library(mvtnorm))
d <- args[1]; corr <- matrix(0.5, d, d); diag(corr) <- 1
best <- Inf; found <- c()
for (seed in seq_len(args[3])) {
  set.seed(seed)
  start <- proc.time()[["elapsed"]]
  found <- c(found, qmvt(0.95, df = args[2], corr = corr, tail = "both.tails")$quantile)
  best <- min(best, proc.time()[["elapsed"]] - start)
}
cat(sprintf("%.17g", c(best, found)))
"""


def complement(q: float, d: int, df: int) -> float:
    """Return Pr(max |T| > q) for d statistics with correlations 1/2."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    z, wz = 9.0 * nodes, 9.0 * weights * stats.norm.pdf(9.0 * nodes)
    low, high = stats.chi.ppf(1e-18, df), stats.chi.isf(1e-18, df)
    s = low + (high - low) * 0.5 * (1.0 + nodes)
    ws = 0.5 * (high - low) * weights * stats.chi.pdf(s, df)
    limit = q * s[:, None] / np.sqrt(0.5 * df)
    outside = special.ndtr(-limit + z) + special.ndtr(-limit - z)
    inside = np.log1p(-np.minimum(outside, 1.0 - 1e-16))
    return float(ws @ -np.expm1(d * inside) @ wz)


def samples(treatments: int) -> list[FloatArray]:
    rng = np.random.default_rng(treatments)
    return [rng.normal(0.3 * k, 1.0, OBSERVATIONS) for k in range(treatments + 1)]


def scipy_critical(groups: list[FloatArray], seed: int) -> float:
    found: Any = stats.dunnett(*groups[1:], control=groups[0], rng=seed)
    interval = found.confidence_interval(0.95)
    error = (np.mean(groups[1]) - np.mean(groups[0])) / found.statistic[0]
    return float((interval.high[0] - interval.low[0]) / 2.0 / error)


def r_critical(d: int, df: int, repeats: int) -> tuple[list[float], float]:
    """Return the results of several seeds, and the seconds of the fastest."""
    command = ["Rscript", "--vanilla", "-e", SCRIPT, str(d), str(df), str(repeats)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    best, *found = map(float, ran.stdout.split())
    return found, best


def relative(found: Any, truth: Any) -> float:
    return float(np.max(np.abs(np.asarray(found) / truth - 1.0)))


def measure(treatments: int, full: bool) -> list[dict[str, Any]]:
    """Return the time and the error of each program."""
    d, df = treatments, (treatments + 1) * (OBSERVATIONS - 1)
    groups, repeats = samples(treatments), 200 if full else 50
    rows: list[dict[str, Any]] = []

    def add(what: str, program: str, seconds: float, error: float) -> None:
        rows.append({"d": d, "what": what, "program": program, "seconds": seconds, "error": error})

    def timed(what: str, program: str, truth: Any, call: Callable[[], Any], count: int) -> None:
        found, seconds = best_of(call, count)
        add(what, program, seconds, relative(found, truth))

    critical = brentq(lambda q: complement(q, d, df) - 0.05, 1.0, 9.0, xtol=1e-14)
    contrasts = mvnorth.sample_contrasts(groups)
    cov = mvnorth.OneFactor.exchangeable(d, 0.5)

    def quantile(rtol: float) -> float:
        return float(mvnorth.quantile(0.95, cov, tail="both", df=df, rtol=rtol))

    def p_values(rtol: float) -> FloatArray:
        return mvnorth.max_t(contrasts, rtol=rtol).p_values

    for rtol in (1e-4, 1e-8):
        call = partial(quantile, rtol)
        timed("critical value", f"mvnorth {rtol:.0e}", critical, call, repeats)
    if r_mvtnorm.available():
        found, seconds = r_critical(d, df, len(SEEDS))
        add("critical value", "qmvt", seconds, relative(found, critical))
    _, seconds = best_of(lambda: scipy_critical(groups, 1), 2)
    values = [scipy_critical(groups, seed) for seed in SEEDS]
    add("critical value", "scipy", seconds, relative(values, critical))

    statistics = np.abs(mvnorth.max_t(contrasts, step_down=False).statistics)
    truth = np.array([complement(t, d, df) for t in statistics])
    for rtol in (1e-4, 1e-8):
        timed("p-values", f"mvnorth {rtol:.0e}", truth, partial(p_values, rtol), repeats)

    def scipy_p_values(seed: int) -> FloatArray:
        return np.asarray(stats.dunnett(*groups[1:], control=groups[0], rng=seed).pvalue)

    _, seconds = best_of(lambda: scipy_p_values(1), 5)
    add("p-values", "scipy", seconds, max(relative(scipy_p_values(s), truth) for s in SEEDS))
    return rows


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    results: list[dict[str, Any]] = []
    for treatments in TREATMENTS:
        progress(f"{treatments} treatments ...")
        results += measure(treatments, options.full)
    print(machine(), end="\n\n")
    names = list(dict.fromkeys(row["program"] for row in results))
    found = {(row["what"], row["d"], row["program"]): row for row in results}
    lines = []
    for what, d in dict.fromkeys((row["what"], row["d"]) for row in results):
        cells = []
        for name in names:
            row = found.get((what, d, name))
            cells.append(f"{1e3 * row['seconds']:.3g} ({row['error']:.0e})" if row else "-")
        lines.append([f"{what}, {d} treatments", *cells])
    print_table(["milliseconds (error)", *names], lines)
    record(options.json, "quantiles", results)


if __name__ == "__main__":
    main()
