"""Tables as HTML: columns that line up, a box of their own to scroll in, long ones folded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from validation.page.content import Table
from validation.page.inline import inline, plural
from validation.page.numbers import format_column, is_number

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
    rows = _scrolled(table)
    if fold:
        label = f"{title} <span class=count>{plural(count, 'row')}</span>"
        body = f"<details class=rows><summary>{label}</summary>{rows}</details>"
    else:
        body = f"<p class=caption>{title}</p>{rows}" if title else rows
    return f"<div class=table>{body}{note}</div>"


def _scrolled(table: Table) -> str:
    columns = [[row[n] for row in table.rows] for n in range(len(table.header))]
    left = [_is_text(column) for column in columns]
    cells = [_cells(column, text) for column, text in zip(columns, left, strict=True)]
    head = "".join(
        f"<th scope=col{' class=text' if text else ''}>{inline(name)}</th>"
        for name, text in zip(table.header, left, strict=True)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    long = " class=long" if len(table.rows) > LONG else ""
    return (
        "<div class=scroll tabindex=0>"
        f"<table{long}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(column: Sequence[Any], text: bool) -> list[str]:
    opening = "<td class=text>" if text else "<td>"
    formatted = format_column([inline(v) if isinstance(v, str) else v for v in column])
    return [f"{opening}{cell}</td>" for cell in formatted]


def _is_text(column: Sequence[Any]) -> bool:
    """Return whether a column is words, aligned left; numbers may have a ± or a unit."""
    given = [value for value in column if value is not None and value != ""]
    numbers = sum(is_number(v) or (isinstance(v, str) and _reads_as_number(v)) for v in given)
    words = sum(isinstance(value, str) for value in given)
    return words > 0 and 2 * numbers <= len(given)


def _reads_as_number(text: str) -> bool:
    return _NUMERIC.fullmatch(text.strip()) is not None
