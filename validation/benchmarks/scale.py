"""One large dense problem: where its time goes, how close to dgemm, two threads, and memory.

    python -m validation.benchmarks.scale

Seconds are processor time of one thread, the best of several runs, so that other work on the
machine does not show.  The fraction of dgemm is the rate of the multiply-adds of the samples
(what is left of their time after one vector Phi and one Phi^-1 each) over that of numpy's product
of a (d, d) with a (d, samples) matrix.  The last columns compare whole calls by the clock, best of
alternating runs, and by what can be cut between threads: T / (serial + (T - serial) / 2).
"""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import mvnorth
from mvnorth import _threads
from mvnorth._cpu.genz import BLOCK, PANEL, genz_sums
from mvnorth._linalg import cholesky, reorder_large
from mvnorth._methods import lattice_rule, tilt
from validation.benchmarks.kernel import floor
from validation.benchmarks.timing import (
    arguments,
    best_of,
    machine,
    peak_kilobytes,
    print_table,
    progress,
    record,
)

POINTS = dict.fromkeys((100, 500, 1000, 2000), 100_000)


def _problem(d: int) -> tuple[np.ndarray, np.ndarray]:
    """A random correlation with a common part, log P from -3 to -7."""
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, 2 * d)) / np.sqrt(2 * d)
    return rng.normal(1.5, 1.0, d), np.linalg.cholesky(A @ A.T + 1.0)


def _processor_seconds(call: Callable[[], object], repeats: int) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def _phases(d: int, repeats: int) -> tuple[float, float, float]:
    """Seconds of reordering and saddle point, and nanoseconds a sample and dimension."""
    b, L = _problem(d)
    side = -(-d // PANEL) * PANEL
    T = np.empty((1, side, side))
    slope, curve, stretch, shift = np.zeros((4, 1, d))
    rank, attached = np.empty(1, dtype=np.int64), np.empty((1, d), dtype=np.int64)
    lower, upper = np.full((1, d), -np.inf), b[None].copy()
    origin = (np.empty_like(attached), np.empty((1, d)))

    def order() -> None:
        lower[:], upper[:] = -np.inf, b
        reorder_large.reorder_all(L[None], 1e-12, T, lower, upper, rank, attached, *origin, False)

    def find_tilt() -> None:
        copies = (T.copy(), lower.copy(), upper.copy())
        tilt.tilt(*copies, rank, attached, slope, curve, stretch, shift, 1e-12)

    order()
    find_tilt()
    reorder, saddle = _processor_seconds(order, repeats), _processor_seconds(find_tilt, repeats)
    points = 4 * BLOCK
    rng = np.random.default_rng(0)
    where = (np.zeros(1, dtype=np.int64), rng.random(d), rng.random((1, d)))
    start, out = np.zeros(1, dtype=np.int64), np.empty((1, 2))
    system = (T, lower, upper, rank, attached, slope, curve)
    sample = partial(genz_sums, *system, *where, start, 1, points, out, 0, 1)
    sample()
    return reorder, saddle, 1e9 * _processor_seconds(sample, 10 * repeats) / (points * d)


def _dgemm(d: int) -> float:
    """Multiply-adds a nanosecond."""
    rng = np.random.default_rng(0)
    A, B, C = rng.normal(size=(d, d)), rng.normal(size=(d, BLOCK)), np.empty((d, BLOCK))
    return d * d * BLOCK / (1e9 * _processor_seconds(lambda: np.matmul(A, B, out=C), 20))


def _threads_compared(d: int, repeats: int) -> tuple[float, float]:
    """Two threads to one, by the clock and by the share that can be cut."""
    b, L = _problem(d)
    inside = 0.0

    def timed(*args: Any) -> None:
        nonlocal inside
        start = time.process_time()
        _threads.run_items(*args)
        inside += time.process_time() - start

    def call() -> None:
        mvnorth.orthant(b, L, n=POINTS[d], method="tilting")

    seconds = {1: np.inf, 2: np.inf}
    for _ in range(repeats):
        for threads in seconds:
            mvnorth.set_num_threads(threads)
            seconds[threads] = min(seconds[threads], best_of(call, 1)[1])
    users: tuple[Any, ...] = (cholesky, reorder_large, lattice_rule, tilt)
    for module in users:
        module.run_items = timed
    alone = _processor_seconds(call, 1)  # by two threads: what cutting costs is in it
    mvnorth.set_num_threads(1)
    serial = alone - inside
    together = serial + inside / 2
    inside = 0.0
    single = min(_processor_seconds(call, 2), alone)
    for module in users:
        module.run_items = _threads.run_items
    return seconds[1] / seconds[2], single / together


def _peak_memory(d: int) -> float:
    """Megabytes of a process that makes and solves the problem once."""
    code = f"from validation.benchmarks import scale; scale.solve_once({d})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(run.stdout) / 1024


def solve_once(d: int) -> None:
    """Solve the problem with few points and print the kilobytes this process has used."""
    b, L = _problem(d)
    mvnorth.orthant(b, L, n=1024, method="tilting")
    print(peak_kilobytes())


def main() -> None:
    options = arguments(__doc__).parse_args()
    repeats = 8 if options.full else 3
    phi, quantile, _ = floor()
    rows, results = [], []
    for d, n in POINTS.items():
        progress(f"d = {d}")
        mvnorth.set_num_threads(1)
        reorder, saddle, cost = _phases(d, repeats)
        fraction = (d - 1) / 2 / (cost - phi - quantile) / _dgemm(d)
        clock, share = _threads_compared(d, repeats)
        memory = _peak_memory(d)
        sampling = cost * n * d * 1e-9
        rows.append(
            [d, n, f"{reorder:.3f}", f"{saddle:.3f}", f"{sampling:.2f}", f"{cost:.1f}",
             f"{fraction:.2f}", f"{clock:.2f}", f"{share:.2f}", f"{memory:.0f}"]
        )  # fmt: skip
        names = ("d", "points", "reorder", "saddle", "ns", "dgemm", "clock", "share", "megabytes")
        values = (d, n, reorder, saddle, cost, fraction, clock, share, memory)
        results.append(dict(zip(names, values, strict=True)))
    print(machine() + "\n")
    header = ["d", "points", "reorder", "saddle", "sampling", "ns", "of dgemm"]
    print_table([*header, "2 threads", "by share", "MB"], rows, cite="scale")
    record(options.json, "scale", results)


if __name__ == "__main__":
    main()
