"""Value and gradient: against the value alone, finite differences and torch's autograd.

    python -m validation.benchmarks.derivatives [--full] [--json FILE]

About five minutes. Random correlation matrices, means N(1, 1/4), log P and its derivatives in m
and in all d (d + 1) / 2 entries of L, in one thread, best of several runs by turns. Seconds are
the processor's, so that other work on the machine does not show:

* "value" is ``orthant`` with method="genz" or "tilting", "gradient" is ``orthant_grad`` with
  "pathwise" or "tilting": value and all derivatives.
* "differences": 2 (d + d (d + 1) / 2) values with the same seed. Eight of them, of four entries,
  are timed in one call and scaled up; "off" is the largest difference of these four derivatives
  from ours, relative to the largest entry. Pathwise derivatives are those of the estimate that is
  differenced. Those of a tilted estimate hold the tilt, which differences move: there both
  differ by what the points are in error.
* "torch": Genz's recursion in plain torch in double precision over the same points as one tensor,
  with autograd; "chunks" is the same 8192 points at a time, slopes averaged. "outside" is the
  share of all derivatives and log P that differ by more than the sum of both error bounds at 99 %,
  torch's being taken from the spread of the eight shifts: next to none if both are right.

Memory is the largest resident set of a process that warms up with few points and then computes
one gradient, minus that of a process that only warms up (Linux only: elsewhere a process inherits
the peak of the one that starts it).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

import mvnorth
from mvnorth import OrthantGradient
from validation.benchmarks import torch_genz
from validation.benchmarks.timing import (
    arguments,
    machine,
    peak_kilobytes,
    print_table,
    progress,
    record,
)
from validation.oracles.one_dimension import FloatArray

VALUES = {"pathwise": "genz", "tilting": "tilting"}  # the value that a gradient belongs to
SIZES = tuple((d, n) for d in (5, 20, 100, 500) for n in (2**13, 2**16))
WITH_TORCH = 100  # largest d; at 500 a run takes minutes
MEMORY = tuple((d, n) for d in (20, 100) for n in (2**13, 2**16, 2**18))
LARGE = (500, 100_000)
SHIFTS = 8  # of mvnorth's lattices
CHUNK = 8192  # points: what torch is quickest with
WARM = 256  # points
STEP = 1e-5  # of differences


@dataclass(frozen=True)
class Line:
    """One method on one problem: seconds, and agreement as the top of the file says."""

    d: int
    n: int
    method: str
    value: float
    gradient: float
    differences: float
    differences_off: float
    torch: float | None = None
    chunks: float | None = None
    outside: float | None = None


def problem(d: int) -> tuple[FloatArray, FloatArray]:
    """Means, (d,), and the factor of a random correlation matrix, (d, d)."""
    rng = np.random.default_rng(d)
    a = rng.normal(size=(d, 2 * d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return rng.normal(1.0, 0.5, d), np.linalg.cholesky(a @ a.T).astype(np.float64)


def gradient(m: FloatArray, L: FloatArray, n: int, method: str) -> OrthantGradient:
    return mvnorth.orthant_grad(m, L, n, wrt=("m", "L"), method=method, log=True)


def by_turns(calls: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """The fastest of several runs of each, for about ``seconds`` in all but at least once."""
    best = [processor_seconds(call) for call in calls]
    for _ in range(min(20, int(seconds / sum(best)))):
        best = [min(b, processor_seconds(call)) for b, call in zip(best, calls, strict=True)]
    return best


def processor_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


class Differences:
    """Central differences in the first mean and three entries of L, one batch of 8 values."""

    def __init__(self, m: FloatArray, L: FloatArray, n: int, method: str) -> None:
        d = len(m)
        self.entries = ((1, 0), (d - 1, 0), (d - 1, d - 1))
        self.m, self.L = np.tile(m, (8, 1)), np.tile(L, (8, 1, 1))
        self.m[0, 0] += STEP
        self.m[1, 0] -= STEP
        for k, (i, j) in enumerate(self.entries, start=1):
            self.L[2 * k, i, j] += STEP
            self.L[2 * k + 1, i, j] -= STEP
        self.call = partial(mvnorth.orthant, self.m, self.L, n, method=VALUES[method])

    def off(self, ours: OrthantGradient) -> float:
        logs = self.call().log_prob
        slopes = (logs[::2] - logs[1::2]) / (2 * STEP)
        same = np.array([ours.grad_m[0], *(ours.grad_L[entry] for entry in self.entries)])
        largest = max(np.abs(ours.grad_m).max(), np.abs(ours.grad_L).max())
        return float(np.abs(slopes - same).max() / largest)


def outside(m: FloatArray, L: FloatArray, u: FloatArray, ours: OrthantGradient) -> float:
    """The share of torch's results that differ from ours by more than the sum of both bounds."""
    shifts = [torch_genz.gradient(m, L, part) for part in np.split(u, SHIFTS, axis=1)]
    below = np.tril_indices(len(m))
    rows = np.array([np.concatenate([[p], gm, gl[below]]) for p, gm, gl in shifts])
    bound = student.ppf(0.995, SHIFTS - 1) * rows.std(axis=0, ddof=1) / np.sqrt(SHIFTS)
    own = np.concatenate([[ours.log_prob], ours.grad_m, ours.grad_L[below]])
    errors = (ours.grad_m_error, ours.grad_L_error[below])
    own_bound = np.concatenate([[ours.rel_error], *errors])
    return float(np.mean(np.abs(rows.mean(axis=0) - own) > bound + own_bound))


def measure(d: int, n: int, method: str, with_torch: bool, seconds: float) -> Line:
    """One line; torch is timed beside it, so that other work on the machine meets both."""
    m, L = problem(d)
    gradient(m, L, WARM, method)  # compiles
    differences = Differences(m, L, n, method)
    calls: list[Callable[[], object]] = [
        partial(mvnorth.orthant, m, L, n, method=VALUES[method]),
        partial(gradient, m, L, n, method),
        differences.call,
    ]
    if with_torch:
        u = torch_genz.points(n, d, SHIFTS, seed=0)
        calls.append(partial(torch_genz.gradient, m, L, u))
        calls.append(partial(torch_genz.gradient_in_chunks, m, L, u, CHUNK))
    times = by_turns(calls, seconds)
    ours = gradient(m, L, n, method)
    times[2] *= (2 * d + d * (d + 1)) / 8
    value, slopes, differenced = times[:3]
    line = Line(d, n, method, value, slopes, differenced, differences.off(ours))
    if with_torch:
        share = outside(m, L, u, ours)
        line = replace(line, torch=times[3], chunks=times[4], outside=share)
    return line


def show(line: Line) -> list[object]:
    return [
        f"{line.d}, {line.n}, {line.method}",
        f"{1e3 * line.value:.3g}",
        f"{1e3 * line.gradient:.3g}",
        f"{line.gradient / line.value:.2f}",
        f"{1e3 * line.differences:.4g}",
        f"{line.differences / line.gradient:.3g}",
        f"{line.differences_off:.0e}",
        *(f"{1e3 * s:.4g}" if s else "-" for s in (line.torch, line.chunks)),
        *(f"{s / line.gradient:.3g}" if s else "-" for s in (line.torch, line.chunks)),
        f"{100 * line.outside:.2g} %" if line.outside is not None else "-",
    ]


def solve_once(program: str, d: int, n: int) -> None:
    """Warm up, compute one gradient unless n is 0, and print kilobytes and seconds."""
    m, L = problem(d)
    mvnorth.set_num_threads(1)
    if program == "torch":
        import torch

        torch.set_num_threads(1)

        def call(n: int) -> object:
            return torch_genz.gradient(m, L, torch_genz.points(n, d, SHIFTS, seed=0))

    else:

        def call(n: int) -> object:
            return gradient(m, L, n, program)

    call(WARM)
    seconds = processor_seconds(lambda: call(n)) if n else 0.0
    print(peak_kilobytes(), seconds)


def peak_memory(program: str, d: int, n: int) -> tuple[float, float]:
    """Megabytes of a process that calls ``solve_once``, and the seconds of its gradient."""
    code = (
        f"from validation.benchmarks import derivatives as b; b.solve_once({program!r}, {d}, {n})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kilobytes, seconds = run.stdout.split()
    return int(kilobytes) / 1024, float(seconds)


def memory(programs: Sequence[str]) -> list[dict[str, Any]]:
    """Megabytes above those of a process that only warms up, for all of ``MEMORY``."""
    bases: dict[tuple[str, int], float] = {}
    lines = []
    for d, n in MEMORY:
        line: dict[str, Any] = {"d": d, "n": n}
        for program in programs:
            progress(f"memory, {d}, {n}, {program} ...")
            if (program, d) not in bases:
                bases[program, d] = peak_memory(program, d, 0)[0]
            line[program] = peak_memory(program, d, n)[0] - bases[program, d]
        lines.append(line)
    return lines


def main() -> None:
    options = arguments(__doc__).parse_args()
    has_torch = find_spec("torch") is not None
    mvnorth.set_num_threads(1)
    if has_torch:
        import torch

        torch.set_num_threads(1)
    print(machine() + (f", torch {version('torch')}" if has_torch else ""), end="\n\n")
    lines = []
    for d, n in SIZES:
        for method in VALUES:
            progress(f"{d}, {n}, {method} ...")
            with_torch = has_torch and d <= WITH_TORCH
            lines.append(measure(d, n, method, with_torch, 60.0 if options.full else 5.0))
    header = ["d, points, method", "value, ms", "gradient", "/ value", "differences", "/ gradient"]
    header += ["off", "torch", "chunks", "torch / gradient", "chunks / gradient", "outside"]
    print_table(header, [show(line) for line in lines])
    if not has_torch:
        print("missing: torch\n")

    if not Path("/proc/self/status").exists():
        print("missing: Linux, for memory\n")
        record(options.json, "derivatives", [*map(asdict, lines)])
        return
    programs = [*VALUES, *(["torch"] if has_torch else [])]
    peaks = memory(programs)
    header = ["d, points", *(f"{program}, MB" for program in programs)]
    rows = [
        [f"{p['d']}, {p['n']}", *(f"{max(p[name], 0.0):.0f}" for name in programs)] for p in peaks
    ]
    print_table(header, rows)

    d, n = LARGE
    large = []
    for method in VALUES:
        progress(f"{d}, {n}, {method} ...")
        base = peak_memory(method, d, 0)[0]
        megabytes, seconds = peak_memory(method, d, n)
        names = ("d", "n", "method", "seconds", "megabytes", "above")
        values = (d, n, method, seconds, megabytes, megabytes - base)
        large.append(dict(zip(names, values, strict=True)))
    print_table(
        ["d, points, method", "gradient, s", "MB in all", "MB above a small one"],
        [
            [
                f"{x['d']}, {x['n']}, {x['method']}",
                f"{x['seconds']:.3g}",
                f"{x['megabytes']:.0f}",
                f"{x['above']:.0f}",
            ]
            for x in large
        ],
    )
    record(options.json, "derivatives", [*map(asdict, lines), *peaks, *large])


if __name__ == "__main__":
    main()
