"""Time of one call with everything included, beside scipy's cdf in the same run.

    python -m validation.benchmarks.calls [--full] [--json FILE]

One thread, processor time, the fastest of several rounds; rounds of the two libraries alternate, so
that both see the same machine.  "beyond the kernel" is the time of a call less that of the compiled
function that does its sampling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import mvnorth
from mvnorth import qmc
from mvnorth._checks import factor_problems
from mvnorth._cpu.genz import genz_sums
from mvnorth._methods import genz
from validation.benchmarks.timing import arguments, machine, print_table, progress, record

Call = Callable[[], object]
CORRELATIONS = np.array(
    [
        [1.0, 0.5, 0.2, 0.1, 0.3],
        [0.5, 1.0, 0.4, 0.2, 0.1],
        [0.2, 0.4, 1.0, 0.5, 0.2],
        [0.1, 0.2, 0.5, 1.0, 0.3],
        [0.3, 0.1, 0.2, 0.3, 1.0],
    ]
)
MEANS = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
POINTS = 1000


def calls() -> dict[str, Call]:
    """Return the calls of mvnorth by name."""
    lag = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    chain, many = np.linalg.cholesky(0.8**lag), np.full(20, 0.3)
    factor = mvnorth.OneFactor.exact(21)
    scores = np.linspace(0.0, 1.0, 10)
    found: dict[str, Call] = {}
    for d in (1, 2, 3):
        m, cov = MEANS[:d], CORRELATIONS[:d, :d]
        L = np.linalg.cholesky(cov)
        found[f"orthant_prob, d = {d}"] = partial(mvnorth.orthant_prob, m, L)
        found[f"cdf, d = {d}"] = partial(mvnorth.cdf, m, None, cov)
        found[f"box_prob, d = {d}"] = partial(mvnorth.box_prob, -m, m, 0.0, cov)
    found["OneFactor, d = 20"] = lambda: mvnorth.orthant_prob(many, factor)
    found["AR(1), d = 20"] = lambda: mvnorth.orthant_prob(many, chain)
    five = np.linalg.cholesky(CORRELATIONS)
    found["Gauss rules, d = 5"] = lambda: mvnorth.orthant_prob(MEANS, five)
    found[f"sampled, d = 5, n = {POINTS}"] = lambda: mvnorth.orthant_prob(
        MEANS, five, POINTS, method="tilting"
    )
    found["prob_argmax of ten"] = lambda: mvnorth.prob_argmax(scores, 1.0)
    return found


def kernel() -> Call:
    """Return a call of the compiled functions that sample in the call with d = 5."""
    problems, _ = factor_problems(MEANS, np.linalg.cholesky(CORRELATIONS))
    system, _ = genz.System.of(problems).tilted(problems.covariance.singular)
    level = (POINTS // 8).bit_length() - 1
    replicates = POINTS >> level
    shifts, z = qmc.random_shifts(0, replicates, 5), qmc.lattice_vector(5) / 2**level
    rows, out, half = np.zeros(1, dtype=np.int64), np.empty((replicates, 2)), 2 ** (level - 1)

    def run() -> None:
        for first, stride in ((0, 2), (1, 2)):
            start = np.array([first])
            given = (rows, z, shifts, start, stride, half, out, 0, replicates)
            genz_sums(*system.kernel_arguments, *given)

    return run


def peers() -> dict[str, Call]:
    """Return the calls of scipy by name."""
    found: dict[str, Call] = {}
    for d in (1, 2):
        m, cov = MEANS[:d], CORRELATIONS[:d, :d]
        found[f"d = {d}"] = partial(multivariate_normal.cdf, m, None, cov)
    return found


def fastest(timed: dict[str, Call], rounds: int) -> dict[str, float]:
    """Return seconds of processor time a call, the fastest of ``rounds``, which alternate."""
    repeats: dict[str, int] = {}
    for name, call in timed.items():
        took = np.inf
        for _ in range(4):  # the first ones compile, and fill caches
            start = time.thread_time()
            call()
            took = min(took, time.thread_time() - start)
        repeats[name] = max(5, int(5e-3 / max(took, 1e-6)))
    best = dict.fromkeys(timed, np.inf)
    for _ in range(rounds):
        for name, call in timed.items():
            start = time.thread_time()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (time.thread_time() - start) / repeats[name])
    return best


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    progress("compiling, then timing ...")
    ours, scipys = calls(), {f"scipy {name}": call for name, call in peers().items()}
    sampled = next(name for name in ours if name.startswith("sampled"))
    seconds = fastest({**ours, **scipys, "kernel": kernel()}, 40 if options.full else 15)
    rows: list[dict[str, Any]] = []
    for name in ours:
        peer = seconds.get(f"scipy {name.rpartition(', ')[2]}")
        beyond = seconds[name] - seconds["kernel"] if name == sampled else None
        rows.append({"call": name, "seconds": seconds[name], "scipy": peer, "beyond": beyond})

    def micro(value: float | None) -> str:
        return "" if value is None else f"{1e6 * value:.1f}"

    print(machine(), end="\n\n")
    print_table(
        ["call", "µs", "scipy's cdf, µs", "ratio", "beyond the kernel, µs"],
        [
            [
                row["call"],
                micro(row["seconds"]),
                micro(row["scipy"]),
                "" if row["scipy"] is None else f"{row['seconds'] / row['scipy']:.2f}",
                micro(row["beyond"]),
            ]
            for row in rows
        ],
        cite="calls",
    )
    record(options.json, "calls", rows)


if __name__ == "__main__":
    main()
