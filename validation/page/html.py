"""The page, in one file: style and figures are inside, and nothing is fetched."""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from validation.page.content import Check, Finding, NotRun, Part, Picture, Section, Table, Text
from validation.page.figures import svg


def page(title: str, facts: Mapping[str, str], sections: Mapping[str, Section]) -> str:
    """The whole page.

    Parameters
    ----------
    title : str
    facts : mapping
        What is said of the run: machine, versions, date.
    sections : mapping
        By the name of the report, which is the section's address in the page too.
    """
    style = Path(__file__).with_name("style.css").read_text()
    links = "".join(
        f'<li><a href="#{name}">{_text(each.title)}</a> {_verdict(each)}</li>'
        for name, each in sections.items()
    )
    told = "".join(
        f"<tr><td>{_text(k)}</td><td class=text>{_text(v)}</td></tr>" for k, v in facts.items()
    )
    numbers = (f"figure-{n}" for n in itertools.count(1))
    body = "".join(
        f'<section id="{name}"><h2>{_text(each.title)}</h2>'
        f"{_parts(each.parts, 3, numbers)}</section>"
        for name, each in sections.items()
    )
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f"<h1>{_text(title)}</h1><p>{_summary(sections.values())}</p>"
        f"<nav><ul>{links}</ul></nav><div class=scroll><table>{told}</table></div>"
        f"{body}</body></html>\n"
    )


def checks(sections: Iterable[Section]) -> list[Check]:
    """All checks of some sections."""
    return [part for each in sections for part in each.walk() if isinstance(part, Check)]


def _summary(sections: Iterable[Section]) -> str:
    found = checks(sections)
    failed = sum(not check.holds for check in found)
    if failed:
        return f"<b class=bad>{failed} of {len(found)} checks do not hold.</b>"
    if not found:
        return "<b class=wait>No check was run.</b>"
    return f"<b class=good>All {len(found)} checks hold.</b>"


def _verdict(section: Section) -> str:
    found = checks([section])
    failed = sum(not check.holds for check in found)
    if failed:
        return f"<span class=bad>✗ {failed} of {len(found)}</span>"
    if found:
        return f"<span class=good>✓ {len(found)}</span>"
    return "<span class=wait>not run</span>"


def _parts(parts: Sequence[Part], level: int, numbers: Any) -> str:
    """Parts as elements; pictures that follow each other share a grid."""
    written = ""
    for pictures, group in itertools.groupby(parts, lambda part: isinstance(part, Picture)):
        inside = "".join(_part(part, level, numbers) for part in group)
        written += f"<div class=pictures>{inside}</div>" if pictures else inside
    return written


def _part(part: Part, level: int, numbers: Any) -> str:
    match part:
        case Finding(claim, published, ours, verdict):
            return (
                f"<p><b>{_text(claim)}</b> Published: {_text(published) or 'nothing'}. "
                f"Ours: {_text(ours)}. <b>{verdict}</b></p>"
            )
        case Text(text):
            return f"<p>{_text(text)}</p>"
        case Table():
            return _table(part)
        case Picture(title, figure, _, caption):
            return (
                f"<figure><b>{_text(title)}</b>{svg(figure, next(numbers))}"
                f"<figcaption>{_text(caption)}</figcaption></figure>"
            )
        case Check(claim, holds, found):
            kind, word = ("good", "holds") if holds else ("bad", "does not hold")
            return (
                f'<div class="check {kind}"><b>{word}</b> <span>{_text(claim)}</span> '
                f"<span class=soft>{_text(found)}</span></div>"
            )
        case NotRun(what, why, command):
            return (
                f'<div class="notrun wait"><b>not run here</b> <span>{_text(what)}</span> '
                f"<span class=soft>{_text(why)}</span><pre>{html.escape(command)}</pre></div>"
            )
        case Section(title, inner, answer):
            opening = f"<p><b>{_text(answer)}</b></p>" if answer else ""
            head = f"<h{level}>{_text(title)}</h{level}>"
            return f"{head}{opening}{_parts(inner, level + 1, numbers)}"


def _table(table: Table) -> str:
    words = [any(isinstance(row[n], str) for row in table.rows) for n in range(len(table.header))]
    head = "".join(
        f"<th{' class=text' if left else ''}>{_text(name)}</th>"
        for name, left in zip(table.header, words, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f"<p class=note>{_text(table.note)}</p>" if table.note else ""
    caption = f"<p><b>{_text(table.title)}</b></p>" if table.title else ""
    return (
        f"{caption}<div class=scroll><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{note}"
    )


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f"<td class=text>{_text(value)}</td>"
    return f"<td>{_number(value)}</td>"


def _number(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")
    return f"{value}"


def _text(text: str) -> str:
    """Escaped, with code and links."""
    text = html.escape(text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)
