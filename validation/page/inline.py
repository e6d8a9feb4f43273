"""Texts of a page as HTML: escaped, with code, links and numbers in one format."""

from __future__ import annotations

import html
import re

from validation.page.numbers import tidy


def inline(text: str) -> str:
    """Return a text as HTML; `` `code` ``, ``**bold**`` and ``[words](address)`` may be in it."""
    pieces = re.split(r"(\*\*[^*]+\*\*|`[^`]+`|\[[^]]+\]\([^)]+\))", text)
    return "".join(map(_piece, pieces))


def slug(text: str, longest: int = 60) -> str:
    """Return a text as a part of an address or the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:longest].strip("-")


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: "1 row", "2 rows"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _piece(text: str) -> str:
    if len(text) > 2 and text[0] == text[-1] == "`":
        return f"<code>{html.escape(text[1:-1])}</code>"
    if len(text) > 4 and text.startswith("**") and text.endswith("**"):
        return f"<b>{inline(text[2:-2])}</b>"
    link = re.fullmatch(r"\[([^]]+)\]\(([^)]+)\)", text)
    if link:
        return f'<a href="{html.escape(link[2])}">{inline(link[1])}</a>'
    return tidy(html.escape(text))
