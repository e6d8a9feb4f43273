"""The loss of EXACT: time, and memory; ``training`` beside this file has its share of a step.

    python -m validation.benchmarks.exact [--full] [--small] [--json FILE]

About a minute, or five with ``--full``. Everything computes a loss of a batch,
(B, C) scores in single precision, and its gradient:

* ``exact_torch.exact_loss`` with one deviation, with one an example and with one a class that are
  differentiated too, and with margin and normalisation.
* "published": the algorithm of the EXACT paper, N = 16, from ``one_factor`` beside this file. It is
  given the differences of scores and returns the gradient in them: what leads from scores there and
  back is not in its time, nor are its points. Of large batches some rows are timed and scaled up.
* torch's cross-entropy.

Last, the time of ``exact_loss`` over that of cross-entropy from few classes to 21,841 and from a
small to a large sigma, with scores N(0, 2^2) and random labels.

Scores are N(0, 1) with the label's raised by 2, as in the middle of training, or N(0, 2^2) with
random labels, where probabilities are small.

Times are the processor's, the best of several, the programs taken in turn.

Memory is the most that is held at any moment beyond the inputs: gradients, and everything in
between. torch's profiler sees all that torch allocates, also inside operators, and ``tracemalloc``
what numpy and compiled kernels do, most of which is a workspace a thread, whatever the rows; the
sum of both is an upper limit. "published" runs row by row, and the gradient of the other rows is
added; and with all rows at once, in proportion to what it takes for two.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from exact_torch import exact_loss
from validation.benchmarks.one_factor import Published
from validation.benchmarks.timing import arguments, machine, print_table, progress, record

SAMPLES = 16  # of the published algorithm
OPTIONS: dict[str, Any] = {"margin": 2.0, "normalize": True}
OWN = "exact_loss"
PUBLISHED = f"published, N={SAMPLES}"
CROSS_ENTROPY = "cross-entropy"

Call = Callable[[], Any]


@dataclass(frozen=True)
class Settings:
    """What is run."""

    sizes: Sequence[tuple[int, int]] = ((128, 10), (128, 100), (128, 1000))  # rows, classes
    rounds: int = 7
    published: float = 6.4e7  # most rows * classes**2 * samples, the rest is scaled
    compared: Sequence[tuple[int, int]] = ((32, 10), (128, 100), (128, 1000), (32, 21841))


FULL = Settings(rounds=15, published=2.6e8)
SMALL = Settings(((4, 3), (6, 5)), 1, 500, ((4, 3),))
SIGMAS = (0.1, 1.0, 3.0)


class Batch:
    """Scores (B, C), labels (B,) and, for the published algorithm, limits (B, C - 1)."""

    def __init__(self, rows: int, classes: int, trained: bool) -> None:
        generator = torch.Generator().manual_seed(classes)
        noise = torch.randn(rows, classes, generator=generator)
        self.labels = torch.randint(classes, (rows,), generator=generator)
        own = self.labels[:, None]
        self.scores = (
            noise.scatter_add(1, own, torch.full((rows, 1), 2.0)) if trained else 2 * noise
        )
        others = torch.arange(classes) != own
        self.m = (self.scores.gather(1, own) - self.scores)[others].view(rows, classes - 1)
        self.sigma = 0.5 + torch.rand(rows, classes, generator=generator)

    def calls(self) -> dict[str, Call]:
        """Losses and their gradients, all but the published algorithm."""
        run = partial(gradients, self.scores, self.labels)
        return {
            OWN: partial(run, partial(exact_loss, sigma=1.0)),
            f"{OWN}, sigma (B, 1)": partial(run, _with_sigma, self.sigma[:, :1]),
            f"{OWN}, sigma (1, C)": partial(run, _with_sigma, self.sigma[:1]),
            f"{OWN}, margin, normalize": partial(run, partial(exact_loss, sigma=1.0, **OPTIONS)),
            CROSS_ENTROPY: partial(run, cross_entropy),
        }


def _with_sigma(scores: Any, labels: Any, sigma: Any) -> Any:
    return exact_loss(scores, labels, sigma=sigma)


def gradients(scores: Any, labels: Any, loss: Callable[..., Any], *more: Any) -> list[Any]:
    """Of the loss in scores, and in what more it takes."""
    inputs = [x.detach().requires_grad_() for x in (scores, *more)]
    loss(inputs[0], labels, *inputs[1:]).backward()
    return [x.grad for x in inputs]


def fastest(calls: Sequence[Call], rounds: int, least: float = 0.02) -> list[float]:
    """Seconds of the fastest run of each; in turn they run, for ``least`` seconds or once."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            spent = 0.0
            while spent < least:
                start = time.process_time()
                call()
                seconds = time.process_time() - start
                best[i] = min(best[i], seconds)
                spent += seconds
    return best


@dataclass(frozen=True)
class Line:
    """One loss on one batch: seconds, scaled up if fewer rows were timed."""

    program: str
    rows: int
    classes: int
    scores: str
    seconds: float
    timed: int


def loss_lines(rows: int, classes: int, trained: bool, settings: Settings) -> list[Line]:
    batch = Batch(rows, classes, trained)
    published = Published(classes, SAMPLES, batch.m.dtype)
    few = min(rows, max(1, int(settings.published / (classes**2 * SAMPLES))))
    calls = batch.calls() | {PUBLISHED: partial(published, batch.m[:few])}
    for call in calls.values():
        call()
    seconds = dict(zip(calls, fastest(list(calls.values()), settings.rounds), strict=True))
    seconds[PUBLISHED] *= rows / few
    scores = "trained" if trained else "random"
    return [
        Line(name, rows, classes, scores, value, few if name == PUBLISHED else rows)
        for name, value in seconds.items()
    ]


def print_losses(lines: list[Line]) -> None:
    first = lines[0]
    print(f"{first.rows} x {first.classes} classes, {first.scores} scores, loss and gradient")
    seconds = {line.program: line.seconds for line in lines}
    print_table(
        ["", "ms", "us a row", "/ cross-entropy", "published / it", ""],
        [
            [
                line.program,
                f"{1e3 * line.seconds:.3g}",
                f"{1e6 * line.seconds / line.rows:.3g}",
                f"{line.seconds / seconds[CROSS_ENTROPY]:.3g}",
                f"{seconds[PUBLISHED] / line.seconds:.3g}",
                "" if line.timed == line.rows else f"{line.timed} rows, scaled",
            ]
            for line in lines
        ],
    )


def print_summary(lines: list[Line]) -> None:
    """Print milliseconds by program and number of classes, with trained scores."""
    seconds = {(line.program, line.classes): line.seconds for line in lines}
    programs, classes = (list(dict.fromkeys(names)) for names in zip(*seconds, strict=True))
    rows = [[name, *(f"{1e3 * seconds[name, c]:.3g}" for c in classes)] for name in programs]
    for title, above, below in (
        (f"{PUBLISHED} / {OWN}", PUBLISHED, OWN),
        (f"{OWN} / {CROSS_ENTROPY}", OWN, CROSS_ENTROPY),
    ):
        rows.append([title, *(f"{seconds[above, c] / seconds[below, c]:.3g}" for c in classes)])
    print(f"milliseconds for {lines[0].rows} examples, trained scores, loss and gradient")
    print_table(["", *(f"C = {c}" for c in classes)], rows, cite="exact-time")


@dataclass(frozen=True)
class Memory:
    """Most bytes beyond the inputs: of torch's tensors, and of numpy and compiled kernels."""

    program: str
    rows: int
    classes: int
    tensors: int
    workspace: int

    def __str__(self) -> str:
        one = 4 * self.rows * self.classes
        both = (self.tensors + self.workspace) / one
        return f"{both:.3g} ({self.tensors / one:.3g}, {self.workspace / 1e3:.0f} kB)"


def peak_bytes(call: Call) -> tuple[int, int]:
    """The most that torch, and that numpy and compiled kernels, hold at once during a call."""
    call()  # compiles, and fills caches
    gc.collect()
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # else it reports each start and stop
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        call()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = sorted((e["ts"], e["args"]["Bytes"]) for e in events if e["name"] == "[memory]")
    held = tensors = 0
    for _, size in changes:
        held += size
        tensors = max(tensors, held)
    tracemalloc.start()
    try:
        call()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return tensors, most - before


def memory_lines(rows: int, classes: int) -> list[Memory]:
    batch = Batch(rows, classes, trained=True)
    lines = [Memory(name, rows, classes, *peak_bytes(call)) for name, call in batch.calls().items()]
    published = Published(classes, SAMPLES, batch.m.dtype)
    tensors, workspace = peak_bytes(partial(published, batch.m[:1]))
    gradient = 4 * (rows - 1) * classes
    name = f"{PUBLISHED}, row by row"
    lines.append(Memory(name, rows, classes, tensors + gradient, workspace))
    # Every tensor has the rows as a dimension: two at once take as much a row as all do.
    published.chunk = 2
    tensors, workspace = peak_bytes(partial(published, batch.m[:2]))
    name = f"{PUBLISHED}, all rows at once"
    return [*lines, Memory(name, rows, classes, tensors * rows // 2, workspace)]


def print_memory(lines: list[Memory]) -> None:
    print(
        "memory beyond the inputs, in units of one (B, C) tensor; in brackets torch's part of it,"
    )
    print("and the rest in kB")
    sizes = list(dict.fromkeys((line.rows, line.classes) for line in lines))
    names = list(dict.fromkeys(line.program for line in lines))
    found = {(line.program, line.rows, line.classes): line for line in lines}
    print_table(
        ["", *(f"{rows} x {classes}" for rows, classes in sizes)],
        [[name, *(found[name, *size] for size in sizes)] for name in names],
        cite="exact-memory",
    )


@dataclass(frozen=True)
class Ratio:
    """Milliseconds of cross-entropy, and those of ``exact_loss`` over it for each of SIGMAS."""

    rows: int
    classes: int
    cross_entropy: float
    ratios: Sequence[float]


def compare(rows: int, classes: int, rounds: int) -> Ratio:
    batch = Batch(rows, classes, trained=False)
    run = partial(gradients, batch.scores, batch.labels)
    calls = [partial(run, cross_entropy)]
    calls += [partial(run, partial(exact_loss, sigma=sigma)) for sigma in SIGMAS]
    for call in calls:
        call()
    first, *others = fastest(calls, rounds)
    return Ratio(rows, classes, 1e3 * first, [seconds / first for seconds in others])


def print_ratios(lines: list[Ratio]) -> None:
    print(f"time of {OWN} over cross-entropy, loss and gradient, random scores")
    print_table(
        ["rows, classes", "cross-entropy, ms", *(f"sigma = {sigma:g}" for sigma in SIGMAS)],
        [
            [
                f"{line.rows} x {line.classes}",
                f"{line.cross_entropy:.3g}",
                *(f"{ratio:.3g}" for ratio in line.ratios),
            ]
            for line in lines
        ],
        cite="exact-ratios",
    )


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to test this program")
    options = parser.parse_args(given)
    settings = SMALL if options.small else FULL if options.full else Settings()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    where = machine()
    print(where, end="\n\n")
    results: list[Line] = []
    for rows, classes in settings.sizes:
        for trained in (True, False):
            progress(f"{rows} x {classes}, losses ...")
            lines = loss_lines(rows, classes, trained, settings)
            print_losses(lines)
            results += lines
    print_summary([line for line in results if line.scores == "trained"])
    memory: list[Memory] = []
    for rows, classes in settings.sizes:
        progress(f"{rows} x {classes}, memory ...")
        memory += memory_lines(rows, classes)
    print_memory(memory)
    compared = []
    for rows, classes in settings.compared:
        progress(f"{rows} x {classes}, beside cross-entropy ...")
        compared.append(compare(rows, classes, settings.rounds))
    print_ratios(compared)
    everything: list[Any] = [*results, *memory, *compared]
    record(options.json, "exact", [asdict(line) for line in everything], where)


if __name__ == "__main__":
    main()
