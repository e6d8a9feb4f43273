"""Mixing CE and EL: escaping efficiency, eq. 15 to 18."""

from __future__ import annotations

from validation.page import Section
from validation.paper.mixing_escaping_runs import tasks
from validation.reports import Results

__all__ = ["section", "tasks"]


def section(results: Results, scale: str) -> Section:
    return Section("Mixing CE and EL: escaping efficiency")
