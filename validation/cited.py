"""The figures that ``docs/`` cites, in one file, and the blocks of the pages written from it.

``validation/results/cited.json`` has an entry for each table and each measured sentence of the
documentation, with the command, the commit, the date and the machine of the run behind it.
In a page a table stands between two comments,

    <!-- cited: NAME -->
    (written by this program)
    <!-- end -->

and a test compares them with the file. Sentences are listed in an entry, and a test looks for them
in the page.

``python -m validation.cited write`` writes the blocks of all pages;
``python -m validation.cited update REPORT.json`` takes the tables that a report marks with a name
(``Table(..., cite="name")``) into the file first.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "results" / "cited.json"
PAGES = ROOT / "docs"

_BLOCK = re.compile(r"<!-- cited: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
_NUMBER = re.compile(r"\d[\d,\u202f]*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Entry:
    """Figures of one run that a page cites.

    Attributes
    ----------
    name : str
        Unique; the name in the page's comment.
    page : str
        A file of ``docs/``.
    title : str
        What was measured.
    command, commit, date, machine : str
        How to measure it again, the commit that computed it, when and where.
    header, rows : sequences
        The table, with numbers, texts, and None for an empty cell; empty for an entry that has
        sentences only.
    sentences : sequence of str
        Parts of the page's prose that state figures of this run. If there is a table, all their
        figures are in it.
    """

    name: str
    page: str
    title: str
    command: str
    commit: str
    date: str
    machine: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    sentences: Sequence[str] = ()


def entries(file: Path = FILE) -> list[Entry]:
    """Return all entries, in the order of the file."""
    return [Entry(**each) for each in json.loads(file.read_text(encoding="utf-8"))]


def table(name: str) -> Entry:
    """Return the entry of a name; raises ``KeyError`` if there is none."""
    return {each.name: each for each in entries()}[name]


def render(entry: Entry) -> str:
    """Return an entry as the Markdown that stands between the comments of its page."""
    lines = [_line(entry.header), "|" + "---|" * len(entry.header), *map(_line, entry.rows)]
    return "\n".join([*lines, "", _source(entry), ""])


def fill(page: str, stored: Mapping[str, Entry]) -> str:
    """Return the text of a page with all its blocks written from the entries."""

    def block(found: re.Match[str]) -> str:
        name = found[1]
        if name not in stored or not stored[name].rows:
            raise ValueError(f"the page cites {name!r}, which is no table of {FILE.name}")
        return f"<!-- cited: {name} -->\n{render(stored[name])}<!-- end -->"

    return _BLOCK.sub(block, page)


def blocks(page: str) -> list[str]:
    """Return the names of the tables that a page cites."""
    return [name for name, _ in _BLOCK.findall(page)]


def without_blocks(page: str) -> str:
    """Return the text of a page without the tables written from entries."""
    return _BLOCK.sub("", page)


def missing_sentences(entry: Entry, page: str) -> list[str]:
    """Return the sentences of an entry that are not in its page, whatever its line breaks."""
    text = " ".join(page.split())
    return [each for each in entry.sentences if " ".join(each.split()) not in text]


def unsupported(entry: Entry) -> list[str]:
    """Return the sentences of an entry with a table that have a figure which is not in it."""
    if not entry.rows:
        return []
    texts = [_cell(cell) for row in entry.rows for cell in row] + list(entry.header)
    raw = [abs(cell) for row in entry.rows for cell in row if isinstance(cell, float | int)]
    known = [float(each.replace(",", "")) for each in _numbers(" ; ".join(texts))] + raw
    return [
        sentence
        for sentence in entry.sentences
        if not all(_is_among(figure, known) for figure in _numbers(sentence))
    ]


def update(report: Mapping[str, Any], stored: Sequence[Entry]) -> list[Entry]:
    """Return the entries with the cited tables of a report (its JSON file) in place of old ones.

    A table under a new name is cited by ``validation.md``.
    """
    new = {each.name: each for each in _cited_tables(report)}
    kept = [
        replace(
            new.pop(old.name), page=old.page, sentences=old.sentences, title=old.title or old.name
        )
        if old.name in new
        else old
        for old in stored
    ]
    return [*kept, *new.values()]


def dump(stored: Sequence[Entry]) -> str:
    """Return entries as JSON with a line for each row, so that changes can be read."""
    return "[\n" + ",\n".join(map(_dump_entry, stored)) + "\n]\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m validation.cited``; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.cited", description="The figures that docs/ cites."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("write", help="write the blocks of all pages from the file")
    taking = actions.add_parser("update", help="take in the cited tables of a report, then write")
    taking.add_argument("report", type=Path, help="the JSON file beside a page of the reports")
    options = parser.parse_args(arguments)
    stored = entries()
    if options.action == "update":
        old, stored = stored, update(json.loads(options.report.read_text()), stored)
        for each in stored:
            if each not in old:
                print(f"{each.name}: {each.page}")
                for sentence in each.sentences:
                    print(f"  read again: {sentence}")
    FILE.write_text(dump(stored), encoding="utf-8")
    write_pages(stored)
    return 0


def write_pages(stored: Sequence[Entry], folder: Path = PAGES) -> None:
    """Write the blocks of all pages of a folder."""
    by_name = {each.name: each for each in stored}
    for page in sorted(folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, by_name)) != text:
            page.write_text(filled, encoding="utf-8")
            print(page.relative_to(folder.parent))


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "\N{MINUS SIGN}" if abs(value) >= 1e-4 else "-")
    return re.sub(r"(?<!\\)\|", r"\|", str(value))


def _source(entry: Entry) -> str:
    return f"<small>`{entry.command}`, commit {entry.commit}, {entry.date}</small>"


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _is_among(figure: str, known: Sequence[float]) -> bool:
    """Whether a figure is one of some numbers, rounded to its digits."""
    plain = re.sub(r"[,\u202f]", "", figure)
    decimals = len(plain.partition("e")[0].partition(".")[2])
    value = float(plain)
    unit = 10.0**-decimals * (10.0 ** int(plain.partition("e")[2]) if "e" in plain else 1.0)
    return any(abs(value - each) <= 0.5001 * unit for each in known)


def _cited_tables(report: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the tables of a report's JSON file that have a name to be cited by."""
    run = report["run"]
    command = "python -m validation" + ("" if run["scale"] == "quick" else f" --{run['scale']}")
    for section in report["reports"].values():
        for each in section["tables"].values():
            if each.get("cite"):
                commits = each.get("commits") or section.get("commits") or [run["commit"]]
                yield Entry(
                    each["cite"],
                    "validation.md",
                    each["title"],
                    command,
                    ", ".join(commits),
                    run["date"],
                    run["machine and versions"],
                    each["header"],
                    each["rows"],
                )


def _dump_entry(entry: Entry) -> str:
    parts = []
    for key, value in asdict(entry).items():
        if key in ("rows", "sentences"):
            if value:
                rows = ",\n".join("   " + json.dumps(row, ensure_ascii=False) for row in value)
                parts.append(f'  "{key}": [\n{rows}\n  ]')
        elif value:
            parts.append(f'  "{key}": {json.dumps(value, ensure_ascii=False)}')
    return " {\n" + ",\n".join(parts) + "\n }"


if __name__ == "__main__":
    sys.exit(main())
