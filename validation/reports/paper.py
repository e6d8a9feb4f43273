"""The tables and figures of the papers, each from a file of ``validation.paper``."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence

from validation.page import Check, Finding, NotRun, Section
from validation.page.content import Part
from validation.reports import Report, Results
from validation.running import Task

FILES: tuple[str, ...] = (
    "toy_example",
    "sigma_in_training",
    "sample_size",
    "sampled_prediction",
    "cost",
    "v2_sigma",
    "v2_margin",
    "v2_gradient_norm",
    "images",
    "single_logit",
    "single_logit_speed",
    "uci_linear",
    "uci_mixing",
    "mixing_tables",
    "mixing_gradients",
    "mixing_escaping",
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
            key.removeprefix(start): each for key, each in results.items() if key.startswith(start)
        }
        try:
            parts.append(_file(name).section(own, scale))
        except Exception as error:  # others are not to be lost with it
            undone = sum(task.name not in own for task in _file(name).tasks(scale))
            if undone and isinstance(error, KeyError):  # it needs a result that is missing
                command = f"python -m validation paper{' --full' if scale == 'full' else ''}"
                why = f"{undone} of its tasks are not done ({error!r})."
                told: Part = NotRun(name, why, command)
            else:
                told = Check(f"`{name}` can be written.", False, repr(error))
            parts.append(Section(name, [told]))
    findings = [part for each in parts for part in each.walk() if isinstance(part, Finding)]
    return Section("The papers' tables and figures", parts, _answer(findings))


def _answer(findings: Sequence[Finding]) -> str:
    """Return how many published claims hold, and those of EXACT's lead over cross-entropy."""
    published = [finding for finding in findings if finding.published]
    if not published:
        return ""
    counts = Counter(finding.verdict for finding in published)
    said = (
        f"Of {len(published)} published claims tested, {_verb(counts['holds'], 'hold', 'holds')}, "
        f"{_verb(counts['does not hold'], 'do not hold', 'does not hold')} and "
        f"{_verb(counts['not decided'], 'are not decided', 'is not decided')}."
    )
    against = [each for each in published if _is_against_ce(each.claim)]
    if not against:
        return said
    shown = sum(each.verdict == "holds" for each in against)
    return (
        f"{said} That EXACT is more accurate than cross-entropy is confirmed in {shown or 'none'} "
        f"of the {len(against)} claims of this kind."
    )


def _verb(count: int, plural: str, singular: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


def _is_against_ce(claim: str) -> bool:
    """Return whether a claim says that EXACT is more accurate than cross-entropy."""
    return "EXACT" in claim and claim.endswith("accuracy than cross-entropy.") | claim.endswith(
        "more accurate than cross-entropy."
    )
