"""From reports to a page: run their tasks, write their sections, and the page."""

from __future__ import annotations

import datetime
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from validation import reports
from validation.benchmarks.timing import machine
from validation.oracles import inventory
from validation.page import Check, NotRun, Origin, Page, Section
from validation.page.content import Part
from validation.page.files import write as write_files
from validation.page.html import checks
from validation.progress import Display, Job, describe_seconds
from validation.running import Outcome, Store, Task, run
from validation.running.task import commit

_TITLE = "mvnorth and exact_torch: validation"
_ABOUT = (
    "`mvnorth` computes probabilities of multivariate normal vectors and their derivatives, each "
    "with an error bound. `exact_torch` uses it for EXACT, a loss that trains the expected "
    "accuracy of a classifier in place of cross-entropy."
)
_SCALES = {
    "small": "The smallest size of every experiment, which only shows that the reports work",
    "quick": "Reduced experiments; `python -m validation --full` runs them at their full size",
    "full": "Full-size experiments",
}


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
    stream: TextIO | None = None,
) -> dict[str, Section]:
    """Return the sections of reports, by name; tasks whose results are stored are not run again.

    Parameters
    ----------
    names : sequence of str
        Of ``validation.reports.REPORTS``.
    scale : str
        "small", "quick" or "full".
    folder : Path
        Where results are stored as soon as they are computed.
    jobs, dask
        See ``validation.running.run``.
    compute : bool
        If false, nothing is computed: sections are written from the stored results, and say how
        many tasks are missing.
    fresh : bool
        Run all tasks of these reports, even those with stored results.
    only : str
        Run just the tasks whose names contain it.
    stream : text file, optional
        Where progress is printed; by default the standard error stream.
    """
    store = Store(folder)
    missing = {name: _missing(reports.REPORTS[name].needs) for name in names}
    tasks = {name: reports.get(name).tasks(scale) for name in names if not missing[name]}
    everything = [(name, task) for name in tasks for task in tasks[name]]
    chosen = [(name, task) for name, task in everything if only in task.name and compute]
    if fresh:
        for _, task in chosen:
            store.forget(task)
    computed = _compute(chosen, store, scale, jobs, dask, stream or sys.stderr)
    came = [
        (name, task, computed[task.key] if task.key in computed else store.get(task))
        for name, task in everything
    ]
    return {
        name: _not_run(name, missing[name])
        if missing[name]
        else _section(name, scale, [(task, outcome) for of, task, outcome in came if of == name])
        for name in names
    }


def _compute(
    chosen: Sequence[tuple[str, Task]],
    store: Store,
    scale: str,
    jobs: int,
    dask: str | None,
    stream: TextIO,
) -> dict[str, Outcome]:
    """Return the outcomes of tasks by key; those that are not stored are run."""
    unique = {task.key: (name, task) for name, task in reversed(chosen)}  # equal tasks run once
    new = [key for key in reversed(unique) if store.get(unique[key][1]) is None]
    tasks = [unique[key][1] for key in new]
    counts = {name: len(reports.get(name).tasks(scale)) for name in {n for n, _ in chosen}}
    expected = [
        Job(name, task.name, 60 * reports.REPORTS[name].minutes[scale] / counts[name], task.alone)
        for name, task in (unique[key] for key in new)
    ]
    with Display(expected, len(unique) - len(new), jobs, stream) as display:
        outcomes = run(
            tasks,
            store,
            jobs=jobs,
            dask=dask,
            begin=display.begin,
            report=lambda index, outcome: display.finish(index, outcome.seconds, outcome.failure),
        )
    return dict(zip(new, outcomes, strict=True))


def flagged(found: Mapping[str, Section]) -> list[Check]:
    """Return the checks that failed."""
    return [check for check in checks(found.values()) if not check.holds]


def write(found: Mapping[str, Section], scale: str, folder: Path, name: str) -> Path:
    """Write the page and its files; returns the page's path."""
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": commit() or "unknown",
        "scale": scale,
        "machine and versions": machine(),
    }
    for oracle in inventory.oracles():
        facts[f"oracle: {oracle.name}"] = oracle.version or f"missing: {oracle.install}"
    origins = [origin for section in found.values() for origin in section.origins]
    computed = sum(origin.tasks for origin in origins)
    tasks = sum(section.tasks for section in found.values())
    seconds = sum(origin.seconds for origin in origins)
    size = (
        f"{_SCALES[scale]}: {computed:,} of {tasks:,} tasks computed, "
        f"{describe_seconds(seconds)} of tasks one after another."
    )
    leading = [name for name, entry in reports.REPORTS.items() if entry.leading]
    return write_files(folder, name, Page(_TITLE, [_ABOUT, size], found, facts, leading))


def _section(name: str, scale: str, came: Iterable[tuple[Task, Outcome | None]]) -> Section:
    """Return the section of a report, which begins with the tasks that failed or are missing."""
    found = list(came)
    values = {task.name: each.value for task, each in found if each and each.failure is None}
    first: list[Part] = [
        Check(f"`{task.name}` is computed.", False, each.failure.strip().splitlines()[-1])
        for task, each in found
        if each and each.failure is not None
    ]
    left = sum(each is None for _, each in found)
    command = f"python -m validation {name}" + ("" if scale == "quick" else f" --{scale}")
    if left:
        why = "Their results are not stored yet."
        first.append(NotRun(f"{left} of {len(found)} tasks.", why, command))
    answer = ""
    parts: Sequence[Part]
    try:
        written = reports.get(name).section(values, scale)
        parts, answer = written.parts, written.answer
    except Exception as error:
        if first and isinstance(error, KeyError):  # it needs a result that is missing
            why = f"It needs a result that is missing ({error!r})."
            parts = [NotRun("The rest of the report.", why, command)]
        else:
            parts = [Check("The report can be written.", False, repr(error))]
    origins = _origins([each for _, each in found if each and each.failure is None])
    return Section(reports.REPORTS[name].title, [*first, *parts], answer, origins, len(found))


def _origins(outcomes: Iterable[Outcome]) -> list[Origin]:
    """Return what computed some outcomes, by commit and day, the most tasks first."""
    groups: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.commit, outcome.date), []).append(outcome.seconds)
    origins = [Origin(*key, len(seconds), sum(seconds)) for key, seconds in groups.items()]
    return sorted(origins, key=lambda origin: (-origin.tasks, origin.date, origin.commit))


def _not_run(name: str, missing: Sequence[str]) -> Section:
    title = reports.REPORTS[name].title
    why = f"{', '.join(missing)} cannot be imported."
    return Section(
        title,
        [NotRun(title, why, "python -m pip install -c .ci/constraints.txt -e '.[validation]'")],
    )


def _missing(needs: Sequence[str]) -> list[str]:
    return [name for name in needs if importlib.util.find_spec(name) is None]
