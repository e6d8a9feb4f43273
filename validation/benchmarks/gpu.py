"""mvnorth on a CUDA device, beside the CPU and the published way in torch on the same device.

    python -m validation.benchmarks.gpu [--full] [--small] [--json FILE]

About ten minutes. Scores, labels and limits are those of ``validation.benchmarks.one_factor``:

* "exact": log P and its gradient in m with one common factor; m, c and v live on the device and so
  do the results.
* "pathwise, N": the same from N samples (the structured Genz estimate and its derivative), input
  and results on the host: ordering them, and copies, are in the time.
* "best": ``prob_argmax`` of the scores, all on the device.
* "published, N": ``one_factor.Published`` on the device, in torch, as many rows at once as memory
  allows; of the largest batches some rows are timed and scaled up. torch's cross-entropy is there
  for scale.
* "genz, dense", "tilting, dense", "pathwise, dense": a random correlation matrix, N points, the
  value, or the value and derivatives in m and L; input and results on the host.

Times are the best of several calls with the device idle before and after, so that they hold what
Python does for a call; "first" is the first call, with what had to be compiled. The CPU
runs the same call in all its cores. "off" is the largest difference from the CPU's results, and of
torch's results from the exact ones, in units of the largest of them (1 at least). torch's Phi is 0
below -5.6 in single and -8.3 in double precision, so that rows with small probabilities are lost
by the published algorithm there, and "off" is whatever.

Memory of torch is the peak of its allocator. Memory of mvnorth is what a call takes from the free
memory of the device while nothing is given back: results and everything in between, even what is
never held at the same time. It comes in pieces of 2 MB, so that small arrays show as 0 or
as a whole piece; and it contains what other programs take meanwhile.

The last tables have the settings of figure 5 of the EXACT paper (arXiv:2205.09615): milliseconds
and MB for each element of a batch of 256.

Under numba's simulator (NUMBA_ENABLE_CUDASIM=1, with --small) everything runs on the CPU, torch
too: a test of this program, not a measurement.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

import mvnorth
from validation.benchmarks.derivatives import problem
from validation.benchmarks.device_timing import (
    Call,
    difference,
    peak,
    simulated,
    taken,
    timed,
    torch_device,
)
from validation.benchmarks.one_factor import Batch, Published
from validation.benchmarks.timing import (
    arguments,
    machine,
    print_table,
    progress,
    record,
)

Sizes = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Settings:
    """What is run."""

    losses: Sizes = ((256, 10), (256, 100), (256, 1000), (64, 21841))  # rows, classes
    samples: Sequence[int] = (16, 512)  # of the sampled losses
    dense: Sequence[tuple[int, int, int]] = (  # rows, coordinates, points
        (1, 20, 2**16),
        (1, 100, 2**16),
        (1, 500, 2**16),
        (256, 20, 2**13),
    )
    elements: int = 256  # of a batch of figure 5, and its two halves: classes, samples
    classes: Sizes = tuple((2**k, 512) for k in range(3, 10))
    points: Sizes = tuple((128, 2**k) for k in range(4, 12))
    work: float = 2e10  # most rows * samples * classes**2 that torch is given, the rest is scaled


FULL = Settings(
    losses=((1, 1000), (32, 1000), (4096, 10), *Settings.losses),
    samples=(16, 64, 512, 2048),
    dense=(*Settings.dense, (1, 20, 2**20), (1, 100, 2**20), (4096, 20, 2**13)),
    work=2e11,
)
SMALL = Settings(((2, 3), (2, 5)), (16,), ((1, 3, 2),), 2, ((3, 16), (5, 16)), ((5, 16),))


@dataclass(frozen=True)
class Line:
    """One program on one batch."""

    program: str
    rows: int
    classes: int  # coordinates, if dense
    samples: int  # 0 for none
    seconds: float
    first: float  # seconds of the first call
    megabytes: float | None
    off: float | None
    cpu: float | None  # seconds
    timed: int  # rows


def own(program: str, rows: int, classes: int, samples: int, there: Call, here: Call) -> Line:
    """mvnorth on the device and on the CPU."""
    progress(f"{rows} x {classes}, {program} ...")
    found, first, seconds = timed(there)
    expected, _, cpu = timed(here)
    size, off = taken(there), difference(found, expected)
    return Line(program, rows, classes, samples, seconds, first, size, off, cpu, rows)


@cache
def batch(rows: int, classes: int) -> Batch:
    return Batch(rows, classes, judged=0)


def loss(m: Any, cov: Any, n: int | None = None, **options: Any) -> Any:
    return mvnorth.orthant_grad(m, cov, n, wrt=("m",), log=True, **options)


@cache
def exact_line(rows: int, classes: int, dtype: str) -> Line:
    from numba import cuda

    m, cov = batch(rows, classes).m.astype(dtype), mvnorth.OneFactor.exact(classes)
    resident = mvnorth.OneFactor(cuda.to_device(cov.c), cuda.to_device(cov.v))
    there = partial(loss, cuda.to_device(m), resident)
    return own(f"exact, {dtype}", rows, classes, 0, there, partial(loss, m, cov))


@cache
def pathwise_line(rows: int, classes: int, n: int) -> Line:
    m, cov = batch(rows, classes).m, mvnorth.OneFactor.exact(classes)
    here = partial(loss, m, cov, n, method="pathwise")
    return own(f"pathwise, {n}", rows, classes, n, partial(here, device="cuda"), here)


@cache
def best_line(rows: int, classes: int, dtype: str) -> Line:
    from numba import cuda

    scores = batch(rows, classes).scores.astype(dtype)
    there, here = (partial(mvnorth.prob_argmax, a, 1.0) for a in (cuda.to_device(scores), scores))
    return own(f"best, {dtype}", rows, classes, 0, there, here)


@cache
def published_line(rows: int, classes: int, n: int, dtype: str, work: float) -> Line | None:
    """None where a row is too much work, or more than the memory of the device."""
    few = min(rows, int(work / (n * classes**2)))
    if not few or torch_device() is None:
        return None
    import torch

    program = f"published, {n}, {dtype}"
    progress(f"{rows} x {classes}, {program} ...")
    given = batch(rows, classes).m[:few]
    m = torch.as_tensor(given).to(torch_device(), getattr(torch, dtype))
    try:
        if m.is_cuda:
            torch.cuda.empty_cache()
        call = partial(Published(classes, n, m.dtype, m.device), m)
        found, first, seconds = timed(call)
        megabytes = peak(call)
    except torch.OutOfMemoryError:
        return None
    off = difference(found, loss(given, mvnorth.OneFactor.exact(classes)))
    seconds *= rows / few
    return Line(program, rows, classes, n, seconds, first, megabytes, off, None, few)


def cross_entropy_line(rows: int, classes: int, dtype: str) -> Line:
    import torch

    data = batch(rows, classes)
    scores = torch.as_tensor(data.scores).to(torch_device(), getattr(torch, dtype))
    labels = torch.as_tensor(data.labels).to(torch_device())

    def call() -> Any:
        leaf = scores.detach().requires_grad_()
        torch.nn.functional.cross_entropy(leaf, labels, reduction="sum").backward()
        return leaf.grad

    _, first, seconds = timed(call)
    name = f"cross-entropy, {dtype}"
    return Line(name, rows, classes, 0, seconds, first, peak(call), None, None, rows)


def loss_lines(rows: int, classes: int, settings: Settings) -> list[Line]:
    lines: list[Line | None] = []
    for dtype in ("float64", "float32"):
        lines += [exact_line(rows, classes, dtype), best_line(rows, classes, dtype)]
        if torch_device():
            lines.append(cross_entropy_line(rows, classes, dtype))
            for n in settings.samples:
                lines.append(published_line(rows, classes, n, dtype, settings.work))
    lines += [pathwise_line(rows, classes, n) for n in settings.samples]
    return [line for line in lines if line]


def dense_lines(rows: int, d: int, n: int) -> list[Line]:
    m, L = problem(d)
    m = m + np.random.default_rng(d).normal(0.0, 0.1, (rows, d))
    slopes = partial(mvnorth.orthant_grad, wrt=("m", "L"), log=True)
    lines = []
    for call, name in (
        (mvnorth.orthant, "genz"),
        (mvnorth.orthant, "tilting"),
        (slopes, "pathwise"),
    ):
        here = partial(call, m, L, n, method=name)
        lines.append(own(f"{name}, dense", rows, d, n, partial(here, device="cuda"), here))
    return lines


def show(line: Line, other: Line) -> list[object]:
    """A row of a table; ``other`` is what ratios are taken to."""

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    work = line.rows * line.classes * max(line.samples, 1)
    return [
        line.program,
        f"{1e3 * line.seconds:.4g}",
        number(line.cpu and 1e3 * line.cpu, ".4g"),
        number(line.cpu and line.cpu / line.seconds, ".3g"),
        f"{line.seconds / other.seconds:.3g}",
        f"{1e9 * line.seconds / work:.3g}",
        f"{line.first:.2g}",
        number(line.megabytes, ".1f"),
        number(line.off, ".0e"),
        "" if line.timed == line.rows else f"{line.timed} rows, scaled",
    ]


def print_lines(title: str, unit: str, lines: list[Line]) -> None:
    print(title)
    header = ["", "ms", "CPU, ms", "CPU / GPU", f"/ {lines[0].program}", unit]
    print_table([*header, "first, s", "MB", "off", ""], [show(line, lines[0]) for line in lines])


def figure(title: str, sizes: Sizes, settings: Settings) -> list[Line]:
    """One half of figure 5: milliseconds and MB an element."""
    rows, lines, table = settings.elements, [], []
    for classes, n in sizes:
        lines += [exact_line(rows, classes, "float32"), pathwise_line(rows, classes, n)]
        published = published_line(rows, classes, n, "float32", 100 * settings.work)
        cells: list[object] = [f"{classes}, {n}"]
        for line in (*lines[-2:], published):
            cells.append(f"{1e3 * line.seconds / rows:.3g}" if line else "-")
            size = line.megabytes if line else None
            cells.append("-" if line is None or size is None else f"{size / line.timed:.3g}")
        ratios = [published.seconds / line.seconds if published else None for line in lines[-2:]]
        table.append(cells + ["-" if ratio is None else f"{ratio:.3g}" for ratio in ratios])
        lines += [published] if published else []
    print(title)
    names = ("exact, float32", "pathwise, N", "published, N, float32")
    header = ["classes, N", *(cell for name in names for cell in (f"{name}: ms", "MB"))]
    print_table([*header, "published / exact", "published / pathwise"], table)
    return lines


def where() -> str:
    """Devices, driver and versions, in one line."""
    parts = [" ".join(repr(mvnorth.device_info()).split())]
    if shutil.which("nvidia-smi"):
        query = "--query-gpu=driver_version,clocks.max.sm,power.limit"
        command = ["nvidia-smi", query, "--format=csv,noheader"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        parts.append(f"driver, clock, power: {run.stdout.strip()}".replace("\n", "; "))
    parts += [f"torch {version('torch')}"] if find_spec("torch") else []
    return ", ".join([*parts, f"mvnorth {mvnorth.__version__}", machine(mvnorth.get_num_threads())])


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, for the simulator")
    options = parser.parse_args()
    if not mvnorth.device_info().available:
        print(mvnorth.device_info())
        return 1
    mvnorth.set_num_threads(os.cpu_count() or 1)
    settings = SMALL if options.small else FULL if options.full else Settings()
    place = where()
    print(place, end="\n\n")
    if simulated():
        print("Simulated on the CPU: no time and no ratio below means anything.\n")
    if torch_device() is None:
        reason = "it sees no CUDA device" if find_spec("torch") else "it is not installed"
        print(f"missing: torch ({reason}): published algorithm, cross-entropy\n")
    results: list[Line] = []
    for rows, classes in settings.losses:
        lines = loss_lines(rows, classes, settings)
        print_lines(f"{rows} x {classes} classes", "ns a row, class and sample", lines)
        results += lines
    for rows, d, n in settings.dense:
        lines = dense_lines(rows, d, n)
        title = f"{rows} x {d} coordinates, random correlations, {n} points"
        print_lines(title, "ns a point and coordinate", lines)
        results += lines
    batches = f"an element of a batch of {settings.elements}, as figure 5 of the paper"
    results += figure(f"classes, {batches}", settings.classes, settings)
    results += figure(f"samples, {batches}", settings.points, settings)
    record(options.json, "gpu", [asdict(line) for line in results], place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
