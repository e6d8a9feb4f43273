"""What runs tasks: this machine's processes, or a Dask cluster. Results are the same."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from validation.running.store import Store
from validation.running.task import Outcome, Task

_LOSSES = 3  # of processes; from then on each task has one of its own

Begin = Callable[[int], None]
Done = Iterator[tuple[int, Outcome]]


def run(
    tasks: Sequence[Task],
    store: Store,
    *,
    jobs: int = 1,
    dask: str | None = None,
    begin: Begin = lambda index: None,
    report: Callable[[int, Outcome], None] = lambda index, outcome: None,
) -> list[Outcome]:
    """Do all tasks that the store does not have.

    Parameters
    ----------
    tasks : sequence of Task
        Those that measure time run one by one, after all others and on this machine.
    store : Store
        Has every result from the moment it is there.
    jobs : int
        Processes on this machine.
    dask : str, optional
        Address of a Dask scheduler, whose workers do the tasks instead.
    begin : callable
        Called with the index of each task that begins on this machine.
    report : callable
        Called with the index of each task and its outcome when it is done.

    Returns
    -------
    list of Outcome
        In the order of the tasks.
    """
    keys = [task.key for task in tasks]
    outcomes = {key: store.get(task) for key, task in zip(keys, tasks, strict=True)}
    first = {key: index for index, key in reversed(list(enumerate(keys)))}  # equal tasks: done once
    waiting = [index for key, index in first.items() if outcomes[key] is None]
    together = {index: tasks[index] for index in sorted(waiting) if not tasks[index].alone}
    alone = {index: tasks[index] for index in sorted(waiting) if tasks[index].alone}
    others = on_dask(together, dask) if dask else in_processes(together, jobs, begin)
    for index, outcome in itertools.chain(others, in_processes(alone, 1, begin)):
        store.put(tasks[index], outcome)
        outcomes[keys[index]] = outcome
        report(index, outcome)
    found = [outcomes[key] for key in keys]
    return [outcome for outcome in found if outcome is not None]


def in_processes(tasks: Mapping[int, Task], jobs: int, begin: Begin = lambda index: None) -> Done:
    """Yield outcomes from ``jobs`` processes; tasks that ran when one was lost are run again."""
    waiting = dict(tasks)
    for _ in range(_LOSSES):
        if not waiting:
            return
        with _pool(jobs) as pool:
            try:
                for index, outcome in _in_pool(pool, dict(waiting), jobs, begin):
                    del waiting[index]
                    yield index, outcome
            except BrokenProcessPool:
                continue
            except BaseException:  # interrupted: no other task begins
                pool.shutdown(cancel_futures=True)
                raise
    for index, task in waiting.items():
        with _pool(1) as pool:
            begin(index)
            try:
                yield index, pool.submit(task.perform).result()
            except BrokenProcessPool:
                yield index, Outcome(None, 0.0, "the process that did this was killed, or crashed")


def _in_pool(pool: ProcessPoolExecutor, tasks: Mapping[int, Task], jobs: int, begin: Begin) -> Done:
    """Yield outcomes; no more tasks are submitted than run, so that it is known which those are."""
    left = iter(tasks.items())
    running: dict[Future[Outcome], int] = {}
    while True:
        for index, task in itertools.islice(left, jobs - len(running)):
            running[pool.submit(task.perform)] = index
            begin(index)
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            outcome = future.result()
            yield running.pop(future), outcome


def on_dask(tasks: Mapping[int, Task], address: str) -> Done:
    """On the workers of a Dask cluster; the scheduler does a lost worker's tasks again."""
    if not tasks:
        return
    try:
        from dask import distributed
    except ImportError as error:
        raise ModuleNotFoundError(
            "--dask needs dask.distributed: pip install 'mvnorth[dask]'"
        ) from error
    with distributed.Client(address) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if any(worker["nthreads"] > 1 for worker in workers):
            raise ValueError(
                "tasks share nothing but the process they run in: start Dask's workers with "
                "--nthreads 1"
            )
        folder = os.environ.get("EXACT_TORCH_DATA")
        futures = {
            client.submit(_there, task, task.key, folder, key=f"validation-{task.key}"): index
            for index, task in tasks.items()
        }
        for future in distributed.as_completed(futures):
            if future.status == "finished":
                yield futures[future], future.result()
            else:
                yield futures[future], Outcome(None, 0.0, f"{future.exception()}")


def _there(task: Task, expected: str, folder: str | None) -> Outcome:
    """On a worker, which must have the code, libraries and data of who asks."""
    if task.key != expected:
        return Outcome(None, 0.0, "this Dask worker has other code, libraries or oracles")
    if folder is not None:
        os.environ["EXACT_TORCH_DATA"] = folder
    return task.perform()


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Spawned, because threads of numerical libraries do not survive a fork.
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
