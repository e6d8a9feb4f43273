"""A page as files: HTML, a CSV for every table and picture, and all numbers as JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from validation.page.content import Check, NotRun, Page, Picture, Table
from validation.page.html import write_page
from validation.page.inline import slug
from validation.page.outline import Place, outline


def write(folder: Path, name: str, page: Page) -> Path:
    """Write ``name.html``, ``name.json`` and a folder of CSV files for each report.

    Returns the path of the page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    places = outline(page.sections)
    for report in places:
        for old in (folder / report).glob("*.csv"):
            old.unlink()
    content = {
        "title": page.title,
        "about": list(page.about),
        "run": dict(page.facts),
        "findings": _findings(places),
        "reports": {report: _report(folder / report, place) for report, place in places.items()},
    }
    text = json.dumps(_plain(content), indent=1, allow_nan=False, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    path = folder / f"{name}.html"
    path.write_text(write_page(page), encoding="utf-8")
    return path


def _findings(places: Mapping[str, Place]) -> list[dict[str, str]]:
    return [
        {"report": report, "section": place.address, **asdict(finding)}
        for report, whole in places.items()
        for place, finding in whole.findings()
    ]


def _report(folder: Path, place: Place) -> dict[str, Any]:
    content: dict[str, Any] = {
        "title": place.section.title,
        "answer": place.section.answer,
        "commits": list(dict.fromkeys(each.commit for each in place.section.origins)),
        "computed": [each._asdict() for each in place.section.origins],
        "sections": {
            inner.address: {"title": inner.section.title, "answer": inner.section.answer}
            for inner in place.walk()
            if inner is not place
        },
        "checks": [],
        "tables": {},
        "not_run": [],
    }
    for part in place.section.walk():
        match part:
            case Check():
                content["checks"].append(asdict(part))
            case NotRun():
                content["not_run"].append(asdict(part))
            case Table():
                content["tables"][_write_csv(folder, part.title, part)] = _table(part, part.title)
            case Picture():
                name = _write_csv(folder, part.title, part.data)
                content["tables"][name] = _table(part.data, part.title)
    return content


def _table(table: Table, title: str) -> dict[str, Any]:
    content = {"title": title, "header": list(table.header), "rows": [list(r) for r in table.rows]}
    return content | ({"cite": table.cite} if table.cite else {})


def _write_csv(folder: Path, title: str, table: Table) -> str:
    """Write a table; returns the name of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = slug(title) or "table"
    names = [stem, *(f"{stem}-{n}" for n in range(2, 1000))]
    path = next(p for p in (folder / f"{each}.csv" for each in names) if not p.exists())
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.header)
        writer.writerows(table.rows)
    return path.name


def _plain(value: Any) -> Any:
    """Return a value without infinities and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
