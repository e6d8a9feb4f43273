"""What the benchmarks share: timing, the sweep to a true error, tables, and their record."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from validation.oracles import r_mvtnorm
from validation.oracles.one_dimension import FloatArray
from validation.running.task import commit

T = TypeVar("T")

# (points, number of the trial) -> relative errors of its problems, seconds
Trial = Callable[[int, int], tuple[FloatArray, float]]


def best_of(call: Callable[[], T], repeats: int) -> tuple[T, float]:
    """The result of ``call`` and the seconds of its fastest of ``repeats`` runs."""
    seconds = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds = min(seconds, time.perf_counter() - start)
    return result, seconds


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError(seconds) in what runs longer, as soon as it is back in Python code.

    Without effect where the system has no timers (Windows).
    """

    def stop(*_: object) -> None:
        raise TimeoutError(seconds)

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Reached:
    """The smallest setting whose root-mean-square true error met a target.

    Attributes
    ----------
    target : float
        Relative error asked for.
    met : bool
        Otherwise the sweep ended first, and the rest describes its last setting.
    points : int
        The setting.
    seconds : float
        Of its fastest trial.
    error : float
        Root-mean-square relative error over its trials.
    """

    target: float
    met: bool
    points: int
    seconds: float
    error: float

    def __str__(self) -> str:
        seconds = f"{self.seconds:.3g}" if self.met else f"> {self.seconds:.3g}"
        return f"{seconds} ({self.error:.0e})"


def time_to_errors(
    trial: Trial,
    points: Iterable[int],
    targets: Sequence[float],
    trials: tuple[int, int],
    limit: float,
) -> list[Reached]:
    """Sweep the number of points upwards until the true error meets all targets.

    A setting is left as soon as the remaining trials cannot bring its error down to the target,
    but not before the second trial.

    Parameters
    ----------
    trial : callable
        Runs one trial with given points; trials differ in their seed.
    points : iterable of int
        Settings, increasing, each about twice the one before.
    targets : sequence of float
        Decreasing.
    trials : (int, int)
        Trials a setting, where they take less and where they take more than a second.
    limit : float
        Give up before a call that will take more seconds than this.

    Returns
    -------
    list of Reached
        One for each target.
    """
    reached: list[Reached] = []
    for n in points:
        target = targets[len(reached)]
        total, seconds, done, wanted = 0.0, np.inf, 0, trials[0]
        while done < wanted and (done < 2 or total <= wanted * target**2):
            errors, elapsed = trial(n, done)
            total += float(np.mean(errors**2))
            seconds = min(seconds, elapsed)
            done += 1
            wanted = trials[0] if seconds < 1.0 else trials[1]
        error = float(np.sqrt(total / done))
        if done == wanted:
            reached += [
                Reached(t, True, n, seconds, error) for t in targets[len(reached) :] if error <= t
            ]
        if len(reached) == len(targets) or 2 * seconds > limit:
            break
    return reached + [Reached(t, False, n, seconds, error) for t in targets[len(reached) :]]


def machine(threads: int = 1) -> str:
    """The machine and the versions of what is compared, in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    cores = f"{os.cpu_count()} cores, {threads} thread{'s' if threads > 1 else ''}"
    parts = [model, cores, f"Python {platform.python_version()}"]
    if hasattr(os, "getloadavg"):
        parts.insert(2, f"load {os.getloadavg()[0]:.1f}")
    for name in ("numpy", "scipy", "numba", "torch", "botorch"):
        with contextlib.suppress(PackageNotFoundError):
            parts.append(f"{name} {version(name)}")
    if r_mvtnorm.available():
        show = "cat(as.character(getRversion()), as.character(packageVersion('mvtnorm')))"
        result = subprocess.run(["Rscript", "-e", show], capture_output=True, text=True, check=True)
        r, mvtnorm = result.stdout.split()
        parts += [f"R {r}", f"mvtnorm {mvtnorm}"]
    return ", ".join(parts)


def progress(text: str) -> None:
    """Say on the error stream what runs, so that tables stay clean when redirected."""
    print(text, file=sys.stderr, flush=True)


_cited: list[dict[str, Any]] = []  # tables of this process that docs cite


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], cite: str | None = None
) -> None:
    """Columns as wide as they need to be, the first to the left and the others to the right.

    ``cite`` is the name under which docs cite the table; ``record`` writes it to the file.
    """
    if cite is not None:
        table = {"cite": cite, "header": list(header), "rows": [list(map(str, r)) for r in rows]}
        _cited.append(table)
    lines = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())
    print(flush=True)


def geometric_mean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="more time, or more randomisations")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append the results to FILE")
    return parser


def record(
    path: Path | None, benchmark: str, results: list[dict[str, Any]], where: str | None = None
) -> None:
    """Append a run to ``path`` as one line of JSON; ``where`` it ran is ``machine()`` or said."""
    if path is None:
        return
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    run = {"benchmark": benchmark, "time": now, "machine": where or machine(), "results": results}
    if _cited:
        run |= {"commit": commit(), "tables": _cited}
    with path.open("a") as file:
        file.write(json.dumps(run) + "\n")


def peak_kilobytes() -> int:
    """The most memory this process has used, on Linux.

    What ``resource`` says of a child is at least what its parent once used.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
