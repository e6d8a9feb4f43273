"""Findings of reduced runs, which decide nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from validation.page import Finding


def decide_if_full(findings: Iterable[Finding], scale: str) -> list[Finding]:
    """Return the findings; at any scale but "full" their verdict is "not decided".

    A reduced run trains for too short a time to refute a claim, on too little data to confirm it.

    >>> findings = [Finding("A is better.", "+1 point", "+2 ± 1 points", "holds")]
    >>> decide_if_full(findings, "full") == findings
    True
    >>> decide_if_full(findings, "quick")[0].verdict
    'not decided'
    """
    if scale == "full":
        return list(findings)
    return [
        replace(each, ours=f"{each.ours}; a reduced run", verdict="not decided")
        for each in findings
    ]
