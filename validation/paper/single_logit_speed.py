"""Skeleton."""

from validation.page import Section
from validation.paper import single_logit_speed_runs

tasks = single_logit_speed_runs.tasks


def section(results, scale):
    return Section("single_logit_speed", [])
