"""Tables as HTML: columns that line up, a box of their own to scroll in, long ones folded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from validation.page.content import Table
from validation.page.inline import inline, plural
from validation.page.numbers import format_column

_SHORT = 16  # characters; longer texts may wrap
LONG = 12  # rows; tables with more are folded, and the script adds a filter

_NUMERIC = re.compile(  # "-3.1", "3.1e-5", "3.1 ± 0.2", "3.1 (2.9 to 3.3)", "3:2", "12 of 40"
    r"[+\N{MINUS SIGN}-]?[\d.,]+(e[+-]?\d+)?\s*%?(\s*(±|\(|to|of|/|:|\[)"
    r"[\s\d.,±()to+/:%\N{MINUS SIGN}-]*\]?)?"
)


def write_table(table: Table, *, fold: bool | None = None) -> str:
    """Return a table with its title and note.

    Parameters
    ----------
    table : Table
    fold : bool, optional
        Whether rows are hidden until a reader opens them; by default those of long tables are.
    """
    count = len(table.rows)
    fold = count > LONG if fold is None else fold
    note = f"<p class=note>{inline(table.note)}</p>" if table.note else ""
    title = f"<b>{inline(table.title)}</b>" if table.title else ""
    rows = _scrolled(table) if count else "<p class=note>No rows.</p>"
    if fold:
        label = f"{title} <span class=count>{plural(count, 'row')}</span>"
        body = f"<details class=rows><summary>{label}</summary>{rows}</details>"
    else:
        body = f"<p class=caption>{title}</p>{rows}" if title else rows
    return f"<div class=table>{body}{note}</div>"


def _scrolled(table: Table) -> str:
    columns = [[row[n] for row in table.rows] for n in range(len(table.header))]
    kinds = [_kind(column) for column in columns]
    cells = [_cells(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    head = "".join(
        f"<th scope=col{kind}>{inline(name)}</th>"
        for name, kind in zip(table.header, kinds, strict=True)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    long = " class=long" if len(table.rows) > LONG else ""
    return (
        "<div class=scroll tabindex=0>"
        f"<table{long}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(column: Sequence[Any], kind: str) -> list[str]:
    formatted = format_column([inline(v) if isinstance(v, str) else v for v in column])
    return [f"<td{kind}>{cell}</td>" for cell in formatted]


def _kind(column: Sequence[Any]) -> str:
    """Return the class of a column's cells: words are on the left, and long ones may wrap.

    Texts that read as numbers, with a ± or an interval, are numbers.
    """
    given = [value for value in column if value is not None and value != ""]
    words = [value for value in given if isinstance(value, str) and not _reads_as_number(value)]
    if not words or 2 * len(words) < len(given):
        return ""
    return " class=text" if max(map(len, words)) <= _SHORT else ' class="text long"'


def _reads_as_number(text: str) -> bool:
    return _NUMERIC.fullmatch(text.strip().strip("*`")) is not None
