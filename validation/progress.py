"""Print the progress of ``python -m validation``: running tasks and time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TextIO

_EVERY_ON_TERMINAL = 1.0  # seconds between two states of the line that is written over
_EVERY_IN_FILE = 60.0  # seconds between two lines
_TRUST = 30.0  # seconds of computing after which the measured speed counts as much as the typical


class Job(NamedTuple):
    """A task that is to be computed.

    ``typical`` is the number of seconds that a task of its report takes; tasks with ``alone`` run
    one by one after the others.
    """

    report: str
    name: str
    typical: float
    alone: bool


class Estimate:
    """The time left, from typical seconds and those of the tasks that are done."""

    def __init__(self, jobs: Sequence[Job], processes: int) -> None:
        self.jobs = jobs
        self.processes = processes
        self.done: dict[int, float] = {}

    def finish(self, index: int, seconds: float) -> None:
        """Record that a task is done and how long it took."""
        self.done[index] = seconds

    def left(self, running: Mapping[int, float]) -> float:
        """Return the seconds left; ``running`` has the seconds since each running task began."""
        together = alone = 0.0
        expected = self._expected(running)
        for index, job in enumerate(self.jobs):
            if index in self.done:
                continue
            passed = running.get(index, 0.0)
            seconds = max(expected[job.report] - passed, 0.1 * passed)
            if job.alone:
                alone += seconds
            else:
                together += seconds
        return together / self.processes + alone

    def _expected(self, running: Mapping[int, float]) -> dict[str, float]:
        """Return the seconds of a task by report, corrected by those that are done or late."""
        typical = {job.report: job.typical for job in self.jobs}
        predicted = sum(self.jobs[index].typical for index in self.done)
        late = sum(max(each - self.jobs[index].typical, 0.0) for index, each in running.items())
        speed = (sum(self.done.values()) + late + _TRUST) / (predicted + _TRUST)
        expected = {}
        for report, seconds in typical.items():
            own = [took for index, took in self.done.items() if self.jobs[index].report == report]
            expected[report] = (sum(own) + speed * seconds) / (len(own) + 1)
        return expected


@dataclass
class _State:
    running: dict[int, float]  # when each task began
    failed: int = 0


class Display:
    """Print progress: one line that is written over on a terminal, else a line a minute.

    Use it as a context manager around the computation.

    Parameters
    ----------
    jobs : sequence of Job
        What is to be computed; tasks are named by their index.
    known : int
        Tasks whose results are there already.
    processes : int
    stream : text file
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        known: int,
        processes: int,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jobs = jobs
        self.known = known
        self.stream = stream
        self.clock = clock
        self.terminal = stream.isatty()
        self.estimate = Estimate(jobs, processes)
        self.start = clock()
        self._state = _State({})
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Display:
        if self.jobs:
            again = f" ({self.known} more are already computed)" if self.known else ""
            left = describe_seconds(self.estimate.left({}))
            count = f"{len(self.jobs)} task" + ("s" if len(self.jobs) != 1 else "")
            self._print(f"Computing {count}{again}: about {left}.")
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.terminal and self.jobs:
            self.stream.write("\r\x1b[K")
        if self.jobs and len(self.estimate.done) == len(self.jobs):
            failures = f", {self._state.failed} failed" if self._state.failed else ""
            self._print(f"Computed in {describe_seconds(self.clock() - self.start)}{failures}.")

    def begin(self, index: int) -> None:
        """Record that a task has started."""
        with self._lock:
            self._state.running[index] = self.clock()

    def finish(self, index: int, seconds: float, failure: str | None = None) -> None:
        """Record that a task is done; a failure is printed at once."""
        with self._lock:
            self._state.running.pop(index, None)
            self.estimate.finish(index, seconds)
            if failure is not None:
                self._state.failed += 1
                job = self.jobs[index]
                last = failure.strip().splitlines()[-1]
                self._print(f"FAILED {job.report}: {job.name}: {last}")
            left = sum(
                job.report == self.jobs[index].report and number not in self.estimate.done
                for number, job in enumerate(self.jobs)
            )
            if not left:
                self._print(f"{self.jobs[index].report}: all tasks done")

    def line(self) -> str:
        """Return the state in one line."""
        now = self.clock()
        with self._lock:
            running = {index: now - began for index, began in self._state.running.items()}
            done = len(self.estimate.done)
            left = self.estimate.left(running)
        names = "; ".join(
            f"{self.jobs[index].report}: {self.jobs[index].name} ({describe_seconds(seconds)})"
            for index, seconds in running.items()
        )
        return (
            f"{done} of {len(self.jobs)} tasks, {describe_seconds(now - self.start)} so far, "
            f"about {describe_seconds(left)} left" + (f"; now {names}" if names else "")
        )

    def _repeat(self) -> None:
        while not self._over.wait(_EVERY_ON_TERMINAL if self.terminal else _EVERY_IN_FILE):
            if self.terminal:
                import shutil

                width = shutil.get_terminal_size().columns - 1
                self.stream.write("\r\x1b[K" + self.line()[:width])
                self.stream.flush()
            else:
                self._print(self.line())

    def _print(self, text: str) -> None:
        clear = "\r\x1b[K" if self.terminal else ""
        print(f"{clear}{text}", file=self.stream, flush=True)


def describe_seconds(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> describe_seconds(7.4), describe_seconds(200), describe_seconds(8000)
    ('7 s', '3 min', '2 h 13 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
