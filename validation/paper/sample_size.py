"""Skeleton."""

from validation.page import Section
from validation.paper import sample_size_runs

tasks = sample_size_runs.tasks


def section(results, scale):
    return Section("sample_size", [])
