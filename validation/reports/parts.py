"""Parts of a report that can be written only when their results are there."""

from __future__ import annotations

from validation.page import NotRun, Section
from validation.reports import Report, Results

NOT_YET = "Not computed yet."


def section_of(part: Report, title: str, name: str, results: Results, scale: str) -> Section:
    """Return a part's section, or one that says which share of its tasks is missing.

    Parameters
    ----------
    part : a module with ``tasks`` and ``section``
    title : str
        For a section without results.
    name : str
        The report, for the command that computes them.
    """
    names = [task.name for task in part.tasks(scale)]
    missing = sum(each not in results for each in names)
    if not missing:
        return part.section(results, scale)
    return without(title, f"{missing} of {len(names)} tasks have no result.", name, scale)


def without(title: str, why: str, name: str, scale: str) -> Section:
    """Return a section that says that its results are missing, and how to get them."""
    command = f"python -m validation {name}" + ("" if scale == "quick" else f" --{scale}")
    return Section(title, [NotRun(title, why, command)], NOT_YET)
