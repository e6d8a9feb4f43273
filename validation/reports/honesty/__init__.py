"""Honesty: how often true errors are inside the reported ones, which promise 99 %."""

from __future__ import annotations

from validation.page import Section, Text
from validation.page.content import Part
from validation.reports import Results
from validation.reports.honesty import (
    factors,
    gauss,
    gradients,
    narrow,
    strata,
    strata_page,
    student,
    table_page,
    table_runs,
)
from validation.running import Task


def tasks(scale: str) -> list[Task]:
    parts = (strata, table_runs, narrow, gauss, factors, student, gradients)
    return [task for part in parts for task in part.tasks(scale)]


def section(results: Results, scale: str) -> Section:
    by_stratum = strata_page.section(results, scale)
    parts: list[Part] = [
        Text(
            "mvnorth reports a bound on its error that promises to hold at about 99 % confidence. "
            "Here it is compared with the truth. A run is outside if the true relative error is "
            "larger than the claimed one even when the known answer is moved towards the estimate "
            "by its error; open if that error decides; and makes no claim if the reported error is "
            "infinite. Shares are of the runs with a claim, intervals are Clopper and Pearson's at "
            "95 %. The median of true over claimed error says how cautious claims are: far below "
            "1 means caution, and 0 that half of the runs are as near the known answers as these "
            "are known."
        ),
        by_stratum,
        table_page.section(results, scale),
        narrow.section(results),
        gauss.section(results),
        factors.section(results),
        student.section(results),
        gradients.section(results),
    ]
    return Section("Honesty of errors", parts, by_stratum.answer)
