"""The same numbers as files: a CSV for every table and picture, and all of it as JSON."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from validation.page.content import Check, NotRun, Picture, Section, Table
from validation.page.html import page


def write(
    folder: Path, name: str, title: str, facts: Mapping[str, str], sections: Mapping[str, Section]
) -> Path:
    """``name.html`` and ``name.json`` in a folder, and CSV files in a folder a report."""
    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"title": title, "run": dict(facts), "reports": {}}
    for report, section in sections.items():
        for old in (folder / report).glob("*.csv"):
            old.unlink()
        told["reports"][report] = _section(folder / report, section)
    (folder / f"{name}.json").write_text(json.dumps(_plain(told), indent=1, allow_nan=False) + "\n")
    written = folder / f"{name}.html"
    written.write_text(page(title, facts, sections), encoding="utf-8")
    return written


def _section(folder: Path, section: Section) -> dict[str, Any]:
    told: dict[str, Any] = {"title": section.title, "checks": [], "tables": {}, "not_run": []}
    for part in section.walk():
        match part:
            case Check(claim, holds, found):
                told["checks"].append({"claim": claim, "holds": holds, "found": found})
            case NotRun(what, why, command):
                told["not_run"].append({"what": what, "why": why, "command": command})
            case Table():
                told["tables"][_csv(folder, part.title, part)] = _rows(part)
            case Picture():
                told["tables"][_csv(folder, part.title, part.data)] = _rows(part.data)
    return told


def _rows(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "header": list(table.header),
        "rows": [list(r) for r in table.rows],
    }


def _csv(folder: Path, title: str, table: Table) -> str:
    """Write a table; returns the name of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "table"
    names = [slug, *(f"{slug}-{n}" for n in range(2, 1000))]
    path = next(p for p in (folder / f"{each}.csv" for each in names) if not p.exists())
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.header)
        writer.writerows(table.rows)
    return path.name


def _plain(value: Any) -> Any:
    """Without what JSON does not know."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
