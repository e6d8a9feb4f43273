"""Time and memory of EXACT's loss and its gradient by classes and draws, as in figure 5 of v1.

The report on EXACT and that on the papers share these tasks, and so their results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from validation.running import Task

ROWS = 256  # of a batch, as in the paper
FIXED_SAMPLES, FIXED_CLASSES = 512, 128  # as in the paper
_WORK = 8e6  # most C^2 N rows of the published algorithm in a call: fewer rows if they are large
PROGRAMS = ("exact_loss", "cross-entropy", "published")


class Sizes(NamedTuple):
    """Classes with N = 512, and draws with so many classes."""

    by_classes: tuple[int, ...]
    by_samples: tuple[int, ...]
    fixed_classes: int
    rounds: int


SIZES = {
    "small": Sizes((8, 32), (16, 64), 16, 1),
    "quick": Sizes((8, 16, 32, 64, 128, 256), (16, 64, 256, 1024, 2048), FIXED_CLASSES, 1),
    "full": Sizes(
        (8, 16, 32, 64, 128, 256, 512),
        (16, 32, 64, 128, 256, 512, 1024, 2048),
        FIXED_CLASSES,
        3,
    ),
}


class Cost(NamedTuple):
    """Seconds and bytes an example of a loss and its gradient."""

    seconds: float
    bytes: float


def tasks(scale: str) -> list[Task]:
    size = SIZES[scale]
    pairs = [(classes, FIXED_SAMPLES) for classes in size.by_classes]
    pairs += [(size.fixed_classes, samples) for samples in size.by_samples]
    return [
        Task(
            task_name(classes, samples),
            cost_of,
            {"classes": classes, "samples": samples, "rounds": size.rounds},
            alone=True,
        )
        for classes, samples in dict.fromkeys(pairs)
    ]


def task_name(classes: int, samples: int) -> str:
    return f"cost: C = {classes}, N = {samples}"


def cost_of(classes: int, samples: int, rounds: int) -> dict[str, Cost]:
    """Return seconds and bytes an example of loss and gradient, by program, in one thread.

    The published algorithm is timed on as many rows as keep a call short, and its memory is that
    of one row; the bytes of the others include the kernel's workspace, which a batch has once.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from exact_torch import exact_loss
    from validation.benchmarks.exact import Batch, fastest, gradients, peak_bytes
    from validation.benchmarks.one_factor import Published

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        batch = Batch(ROWS, classes, trained=True)
        run = partial(gradients, batch.scores, batch.labels)
        few = min(ROWS, max(1, int(_WORK / (classes**2 * samples))))
        published = Published(classes, samples, batch.m.dtype)
        calls: dict[str, tuple[Callable[[], Any], int]] = {
            "exact_loss": (partial(run, partial(exact_loss, sigma=1.0)), ROWS),
            "cross-entropy": (partial(run, cross_entropy), ROWS),
            "published": (partial(published, batch.m[:few]), few),
        }
        held = {name: sum(peak_bytes(call)) / rows for name, (call, rows) in calls.items()}
        held["published"] = float(sum(peak_bytes(partial(published, batch.m[:1]))))
        seconds = {
            name: fastest([call], rounds if name == "published" else rounds + 4)[0] / rows
            for name, (call, rows) in calls.items()
        }
    finally:
        torch.set_num_threads(threads)
    return {name: Cost(seconds[name], held[name]) for name in PROGRAMS}
