"""The figures that ``docs/`` cites, in one file, and the blocks of the pages written from it.

``validation/results/cited.json`` has an entry for each measured table and each measured sentence of
the documentation, with the command, the commit, the date and the machine of the run behind it.
In a page a table, or a text that a report wrote, stands between two comments,

    <!-- cited: NAME -->
    (written by this program)
    <!-- end -->

and a test compares them with the file. Figures in other sentences of a page are listed in an entry,
word for word, and a test looks for them in the page.

``python -m validation.cited write`` writes the blocks of all pages.

``python -m validation.cited update FILE`` first takes in what pages cite from the JSON file of a
report or of a benchmark (``--json``): tables with a name (``Table(..., cite="name")``,
``print_table(..., cite="name")``), the list of findings ("findings"), and the answer that opens a
section ("answer-SECTION"). To cite something new, put its two comments into a page first.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from validation import reports
from validation.page.numbers import MINUS, format_column, is_number, tidy_signs

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "results" / "cited.json"
PAGES = ROOT / "docs"

_NO_ANSWER = ("Not computed", "Not measured")  # what sections say that have no results yet
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
        What was measured; tables of benchmarks have none.
    command, commit, date, machine : str
        How to measure it again, the commit that computed it, when and where.
    header, rows : sequences
        The table, with numbers, texts, and None for an empty cell.
    text : str
        A text that a report wrote, in place of a table.
    sentences : sequence of str
        Parts of the page's prose that state figures of this run. If there is a table, all their
        figures are in it.
    """

    name: str
    page: str
    title: str = field(default="", kw_only=True)
    command: str
    commit: str
    date: str
    machine: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    text: str = ""
    sentences: Sequence[str] = ()


def entries(file: Path = FILE) -> list[Entry]:
    """Return all entries, in the order of the file."""
    return [Entry(**each) for each in json.loads(file.read_text(encoding="utf-8"))]


def table(name: str) -> Entry:
    """Return the entry of a name; raises ``KeyError`` if there is none."""
    return {each.name: each for each in entries()}[name]


def render(entry: Entry) -> str:
    """Return an entry as the Markdown that stands between the comments of its page."""
    source = f"<small>`{entry.command}`, commit {entry.commit}, {entry.date}</small>"
    if entry.text:
        return f"{_text(entry.text)} {source}\n"
    columns = map(_column, zip(*entry.rows, strict=True))
    rows = [_line(row) for row in zip(*columns, strict=True)]
    header = _line([_text(name) for name in entry.header])
    lines = [header, "|" + "---|" * len(entry.header), *rows]
    return "\n".join([*lines, "", source, ""])


def fill(page: str, stored: Mapping[str, Entry]) -> str:
    """Return the text of a page with all its blocks written from the entries.

    A block whose entry is missing is empty: there is nothing to cite yet.
    """

    def block(found: re.Match[str]) -> str:
        name = found[1]
        text = render(stored[name]) if name in stored else ""
        return f"<!-- cited: {name} -->\n{text}<!-- end -->"

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
    cells = [cell for row in entry.rows for cell in row if cell is not None]
    texts = [cell for cell in cells if isinstance(cell, str)] + [*entry.header, entry.title]
    raw = [abs(cell) for cell in cells if is_number(cell)]
    known = [float(each.replace(",", "")) for each in _numbers(" ; ".join(texts))] + raw
    return [
        sentence
        for sentence in entry.sentences
        if not all(_is_among(figure, known) for figure in _numbers(sentence))
    ]


def update(new: Iterable[Entry], stored: Sequence[Entry], pages: Mapping[str, str]) -> list[Entry]:
    """Return the entries that pages need, with new ones in place of old ones of the same name.

    Parameters
    ----------
    new, stored : entries
    pages : mapping
        The texts of pages by file name. Entries whose block no page has are left out, unless they
        have sentences only.
    """
    by_name = {each.name: each for each in new}
    page_of = {name: page for page, text in pages.items() for name in blocks(text)}
    kept = []
    for old in stored:
        each = by_name.pop(old.name, old)
        title = each.title or old.title
        if old.name in page_of:
            kept.append(replace(each, page=page_of[old.name], title=title, sentences=old.sentences))
        elif not (old.rows or old.text):
            kept.append(old)
    added = [replace(each, page=page_of[name]) for name, each in by_name.items() if name in page_of]
    return [*kept, *added]


def read(file: Path) -> list[Entry]:
    """Return what may be cited of a report, its JSON file, or of a benchmark's ``--json`` file."""
    text = file.read_text(encoding="utf-8")
    try:
        return list(_report_entries(json.loads(text)))
    except (json.JSONDecodeError, KeyError):
        return [each for line in text.splitlines() for each in _benchmark_entries(json.loads(line))]


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
    taking = actions.add_parser("update", help="take in cited tables, then write the blocks")
    taking.add_argument("files", type=Path, nargs="+", help="JSON of a report or of a benchmark")
    options = parser.parse_args(arguments)
    stored = old = entries()
    for file in options.files if options.action == "update" else ():
        for line in _incomplete(file):
            print(line)
        pages = {page.name: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
        stored = update(read(file), stored, pages)
    for each in stored:
        if each not in old:
            print(f"{each.name}: {each.page}")
            for sentence in each.sentences:
                print(f"  read again: {sentence}")
    FILE.write_text(dump(stored), encoding="utf-8")
    write_pages(stored)
    return 0


def _incomplete(file: Path) -> list[str]:
    """Return a line for each report of a JSON file that has tasks left."""
    try:
        reports = json.loads(file.read_text(encoding="utf-8"))["reports"]
    except (json.JSONDecodeError, KeyError):
        return []
    return [
        f"{name} is incomplete, without {each['what']}"
        for name, section in reports.items()
        for each in section["not_run"]
        if re.match(r"\d+ of \d+ tasks", each["what"])
    ]


def write_pages(stored: Sequence[Entry], folder: Path = PAGES) -> None:
    """Write the blocks of all pages of a folder."""
    by_name = {each.name: each for each in stored}
    for page in sorted(folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name in blocks(text):
            if name not in by_name:
                print(f"{page.name}: {name} is not measured yet")
        if (filled := fill(text, by_name)) != text:
            page.write_text(filled, encoding="utf-8")
            print(page.relative_to(folder.parent))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _column(values: Sequence[Any]) -> list[str]:
    """Return the cells of a column as the page of the validation has them, in Markdown."""
    given = ["" if value is None or value != value else value for value in values]
    cells = [_text(value) if isinstance(value, str) else value for value in given]
    return [
        _plain_power(value, cell) if is_number(value) else cell
        for value, cell in zip(values, format_column(cells), strict=True)
    ]


def _plain_power(value: float, cell: str) -> str:
    """Return a number of a page as plain text: "3.1e5", or "76.8" if it needs no power."""
    mantissa, _, exponent = cell.removesuffix("</sup>").partition("\N{MULTIPLICATION SIGN}10<sup>")
    if not exponent:
        return cell
    if 0.01 <= abs(value) < 1e4:
        return f"{value:.{4 if abs(value) >= 1e3 else 3}g}".replace("-", MINUS)
    return f"{mantissa}e{exponent.strip()}"


def _text(text: str) -> str:
    """Return a text with minus signs, except in code, and with the bars of tables escaped."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"(?<!\\)\|", r"\|", text))
    return "".join(part if part.startswith("`") else tidy_signs(part) for part in parts)


def _numbers(text: str) -> list[str]:
    return _NUMBER.findall(text.replace(MINUS, "-"))


def _is_among(figure: str, known: Sequence[float]) -> bool:
    """Whether a figure is one of some numbers, rounded to its digits."""
    plain = re.sub(r"[,\u202f]", "", figure)
    decimals = len(plain.partition("e")[0].partition(".")[2])
    value = float(plain)
    unit = 10.0**-decimals * (10.0 ** int(plain.partition("e")[2]) if "e" in plain else 1.0)
    return any(abs(value - each) <= 0.5001 * unit for each in known)


def _report_entries(report: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the findings of a report's JSON file, its answers, and its tables with a name.

    The list of findings is left out if the run had some of the reports only.
    """
    run = report["run"]
    complete = set(reports.REPORTS) <= set(report["reports"])
    names = [] if complete else list(report["reports"])
    options = [] if run["scale"] == "quick" else [f"--{run['scale']}"]
    command = " ".join(["python -m validation", *names, *options])

    def entry(name: str, title: str, commits: Sequence[str], dates: Sequence[str]) -> Entry:
        made = _several(commits or [run["commit"]]), max([*dates, ""]) or run["date"]
        return Entry(name, "", command, *made, run["machine and versions"], title=title)

    every = [each for section in report["reports"].values() for each in section["computed"]]
    commits = list(dict.fromkeys(each["commit"] for each in every))
    columns = ["claim", "published", "ours", "verdict"]
    rows = [[each[column] for column in columns] for each in report["findings"]]
    findings = entry("findings", "Findings", commits, [each["date"] for each in every])
    if complete:
        yield replace(findings, header=columns, rows=rows)
    for address, section in report["reports"].items():
        dates = [each["date"] for each in section["computed"]]
        for place, inner in {address: section, **section["sections"]}.items():
            if not inner["answer"] or inner["answer"].startswith(_NO_ANSWER):
                continue
            made = entry(f"answer-{place}", inner["title"], section["commits"], dates)
            yield replace(made, text=inner["answer"])
        for table in section["tables"].values():
            if name := table.get("cite"):
                rows = [[_rounded(cell) for cell in row] for row in table["rows"]]
                made = entry(name, table["title"], section["commits"], dates)
                yield replace(made, header=table["header"], rows=rows)


def _several(commits: Sequence[str]) -> str:
    """Return names of commits, the first few of many."""
    if len(commits) <= 6:
        return ", ".join(commits)
    return f"{', '.join(commits[:4])} and {len(commits) - 4} others"


def _benchmark_entries(run: Mapping[str, Any]) -> Iterator[Entry]:
    command = f"python -m validation.benchmarks.{run['benchmark']}"
    for each in run.get("tables", ()):
        where = run["commit"], run["time"][:10], run["machine"]
        yield Entry(each["cite"], "", command, *where, each["header"], each["rows"])


def _rounded(cell: Any) -> Any:
    """Return a number with the digits that a page may show."""
    return float(f"{cell:.5g}") if isinstance(cell, float) else cell


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
