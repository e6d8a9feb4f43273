"""Runs of all methods on the table of problems, with many seeds; a part of honesty."""

from __future__ import annotations

from typing import Any

from validation import problems
from validation.reports import families, runs
from validation.reports.runs import dimension
from validation.running import Task

# Points and seeds; the first are for problems of up to 200 coordinates, the others for larger.
_GIVEN = {
    "small": ([(1024, 1)], []),
    "quick": ([(512, 10), (2048, 6), (8192, 3)], [(512, 2), (2048, 1)]),
    "full": ([(512, 40), (2048, 24), (8192, 12), (32768, 4)], [(512, 8), (2048, 6), (8192, 2)]),
}
_LARGEST = {"small": 50, "quick": 500, "full": 500}
_FACTORED = {"small": (20,), "quick": (5, 20, 100), "full": (5, 20, 50, 100, 500)}
_PARTS = {"small": 2, "quick": 8, "full": 20}
TOLERANCE = {"rtol": 1e-2, "atol": 1e-4}
_ADAPTIVE_SEEDS = {"small": 1, "quick": 1, "full": 4}
_ADAPTIVE_LARGEST = {"small": 20, "quick": 100, "full": 200}
METHODS = ("genz", "tilting", "auto", "gauss", "structured genz", "structured tilting")
_GAUSS = range(4, 51)  # coordinates for which "auto" takes Gauss rules


def tasks(scale: str) -> list[Task]:
    names = [n for n in problems.names() if dimension(n) <= _LARGEST[scale]]
    names += families.factored_names(_FACTORED[scale])
    names.sort(key=dimension)
    parts = _PARTS[scale]
    return [
        Task(f"runs, part {k + 1}", calls, {"names": names[k::parts], "scale": scale})
        for k in range(parts)
    ]


def calls(names: list[str], scale: str) -> list[list[Any]]:
    """Run all methods with given points and with a tolerance: what ``runs.over`` returns."""
    done = []
    for name in names:
        given = _GIVEN[scale][dimension(name) > 200]
        methods = [m for m in METHODS if _applies(m, name)]
        plans: list[Any] = [(method, n, seeds) for method in methods for n, seeds in given]
        if dimension(name) <= _ADAPTIVE_LARGEST[scale]:
            plans += [(m, None, _ADAPTIVE_SEEDS[scale], TOLERANCE) for m in methods]
        done += runs.over([name], plans)
    return done


def _applies(method: str, name: str) -> bool:
    """Return whether the report runs a method on a problem."""
    if method == "gauss":
        connected = not {"independent", "block"} & runs.find(name)[0].tags
        return dimension(name) in _GAUSS and connected
    return method not in runs.STRUCTURED or name.startswith(families.FACTORED)
