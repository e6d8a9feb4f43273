"""The tables and figures of the papers, each from a file of ``validation.paper``."""

from __future__ import annotations

import importlib

from validation.page import Section
from validation.reports import Report, Results
from validation.running import Task

FILES: tuple[str, ...] = (
    "toy_example",
    "sigma_in_training",
    "sample_size",
    "cost",
    "v2_sigma",
    "v2_margin",
    "v2_gradient_norm",
    "images",
    "single_logit",
    "single_logit_speed",
    "uci_linear",
    "uci_mixing",
)


def _file(name: str) -> Report:
    module: Report = importlib.import_module(f"validation.paper.{name}")
    return module


def tasks(scale: str) -> list[Task]:
    return [
        Task(f"{name}: {task.name}", task.call, task.arguments, task.alone)
        for name in FILES
        for task in _file(name).tasks(scale)
    ]


def section(results: Results, scale: str) -> Section:
    parts = []
    for name in FILES:
        start = f"{name}: "
        own = {
            key.removeprefix(start): value
            for key, value in results.items()
            if key.startswith(start)
        }
        parts.append(_file(name).section(own, scale))
    return Section("The papers' tables and figures", parts)
