"""From reports to a page: what there is to do, what came of it, what is said of it."""

from __future__ import annotations

import datetime
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from validation import reports
from validation.benchmarks.timing import machine
from validation.oracles import inventory
from validation.page import Check, NotRun, Section
from validation.page.content import Part
from validation.page.files import write as write_files
from validation.page.html import checks
from validation.running import Outcome, Store, Task, run
from validation.running.task import commit

# (tasks done, tasks in all, name, seconds, whether it failed)
Progress = Callable[[int, int, str, float, bool], None]


def sections(
    names: Sequence[str],
    scale: str,
    folder: Path,
    *,
    jobs: int = 1,
    dask: str | None = None,
    compute: bool = True,
    fresh: bool = False,
    only: str = "",
    progress: Progress = lambda *told: None,
) -> dict[str, Section]:
    """The sections of reports, by name; what ``folder`` has of their tasks is not done again.

    Parameters
    ----------
    names : sequence of str
        Of ``validation.reports.REPORTS``.
    scale : str
        "small", "quick" or "full".
    folder : Path
        Of results, as they come.
    jobs, dask
        See ``validation.running.run``.
    compute : bool
        Otherwise sections say what is in the folder, and how many tasks are not.
    fresh : bool
        Do all of these reports' tasks, whatever the folder has.
    only : str
        Compute just the tasks whose names contain it.
    progress : callable
        Called after each task with tasks done, tasks in all, name, seconds, and whether it failed.
    """
    store = Store(folder)
    missing = {name: _missing(reports.REPORTS[name].needs) for name in names}
    tasks = {name: reports.get(name).tasks(scale) for name in names if not missing[name]}
    everything = [(name, task) for name in tasks for task in tasks[name]]
    chosen = [(name, task) for name, task in everything if only in task.name and compute]
    if fresh:
        for _, task in chosen:
            store.forget(task)
    known = {task.key: store.get(task) is not None for _, task in chosen}  # equal ones once
    done = sum(known.values())

    def report(index: int, outcome: Outcome) -> None:
        nonlocal done
        done += 1
        name, task = chosen[index]
        failed = outcome.failure is not None
        progress(done, len(known), f"{name}: {task.name}", outcome.seconds, failed)

    computed = run([task for _, task in chosen], store, jobs=jobs, dask=dask, report=report)
    outcomes: dict[str, Outcome | None] = {
        task.key: outcome for (_, task), outcome in zip(chosen, computed, strict=True)
    }
    came = [
        ((name, task), outcomes[task.key] if task.key in outcomes else store.get(task))
        for name, task in everything
    ]
    found = {}
    for name in names:
        if missing[name]:
            found[name] = _not_run(name, missing[name])
        else:
            own = ((task, outcome) for (of, task), outcome in came if of == name)
            found[name] = _section(name, scale, own)
    return found


def flagged(found: Mapping[str, Section]) -> list[Check]:
    """The checks that do not hold."""
    return [check for check in checks(found.values()) if not check.holds]


def write(found: Mapping[str, Section], scale: str, folder: Path, name: str) -> Path:
    """The page and its files; returns the page's path."""
    facts = {
        "date": datetime.date.today().isoformat(),
        "machine and versions": machine(),
        "commit": commit() or "unknown",
        "scale": scale,
    }
    for oracle in inventory.oracles():
        there = oracle.version or f"missing: {oracle.install}"
        facts[f"oracle: {oracle.name}"] = there
    return write_files(folder, name, "mvnorth: validation", facts, found)


def _section(name: str, scale: str, came: Iterable[tuple[Task, Outcome | None]]) -> Section:
    """What a report says, after which of its tasks failed, or are not done."""
    found = list(came)
    values = {task.name: each.value for task, each in found if each and each.failure is None}
    first: list[Part] = [
        Check(f"`{task.name}` is computed.", False, each.failure.strip().splitlines()[-1])
        for task, each in found
        if each and each.failure is not None
    ]
    left = sum(each is None for _, each in found)
    if left:
        command = f"python -m validation {name}" + ("" if scale == "quick" else f" --{scale}")
        first.append(NotRun("The rest", f"{left} of {len(found)} tasks are not done yet.", command))
    title, answer = reports.REPORTS[name].title, ""
    parts: Sequence[Part]
    try:
        written = reports.get(name).section(values, scale)
        parts, answer = written.parts, written.answer
    except Exception as error:  # it cannot speak without what is missing, or it has a fault
        parts = [] if first else [Check("The report can be written.", False, repr(error))]
    return Section(title, [*first, *parts], answer)


def _not_run(name: str, missing: Sequence[str]) -> Section:
    title = reports.REPORTS[name].title
    why = f"{', '.join(missing)} cannot be imported."
    return Section(
        title,
        [NotRun(title, why, "python -m pip install -c .ci/constraints.txt -e '.[validation]'")],
    )


def _missing(needs: Sequence[str]) -> list[str]:
    return [name for name in needs if importlib.util.find_spec(name) is None]
