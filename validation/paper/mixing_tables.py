"""Mixing CE and EL: tables 1, 2, 5 and 6 at the scale of a CPU."""

from __future__ import annotations

from validation.page import Section
from validation.paper.mixing_image_runs import tasks
from validation.reports import Results

__all__ = ["section", "tasks"]


def section(results: Results, scale: str) -> Section:
    return Section("Mixing CE and EL: tables 1, 2, 5 and 6")
