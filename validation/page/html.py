"""The page, in one file: style, script and figures are inside, and nothing is fetched."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from validation.page.content import (
    Check,
    Finding,
    NotRun,
    Origin,
    Page,
    Part,
    Picture,
    Section,
    Table,
    Text,
)
from validation.page.figures import svg
from validation.page.inline import inline, plural
from validation.page.opening import SIGNS, opening, write_verdict
from validation.page.outline import Place, outline
from validation.page.tables import write_table

_MANY_CHECKS = 3  # that passed; more are folded


def write_page(page: Page) -> str:
    """Return the whole page."""
    places = outline(page.sections)
    figures = (f"figure-{n}" for n in itertools.count(1))
    alone = len(places) == 1
    reports = "".join(_section(place, 2, figures, alone) for place in places.values())
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(page.title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{_read("style.css")}</style></head>'
        f'<body id="top">{_menus(places)}<main>{opening(page, places)}'
        "<div class=tools hidden><button type=button data-fold=open>Open all sections</button> "
        "<button type=button data-fold=close>Close all</button></div>"
        f"{reports}{_foot(page)}</main>"
        '<a class=up href="#top" aria-label="Back to top">\N{UPWARDS ARROW} top</a>'
        f"<script>{_read('script.js')}</script></body></html>\n"
    )


def checks(sections: Iterable[Section]) -> list[Check]:
    """Return all checks of some sections."""
    return [part for each in sections for part in each.walk() if isinstance(part, Check)]


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _menus(places: Mapping[str, Place]) -> str:
    """Return the menu twice: beside the page on wide screens, folded above it on others."""
    full = "".join(_entry(place, inside=True) for place in places.values())
    short = "".join(_entry(place, inside=False) for place in places.values())
    first, last = (
        '<li><a href="#findings">Findings</a></li>',
        ('<li><a href="#run">About this run</a></li>'),
    )
    return (
        f'<nav class=side aria-label="Contents"><ul>{first}{full}{last}</ul></nav>'
        f"<details class=menu><summary>Contents</summary><nav><ul>{first}{short}{last}</ul></nav>"
        "</details>"
    )


def _entry(place: Place, *, inside: bool) -> str:
    title = inline(place.section.title)
    entry = f'<a href="#{place.address}">{title}</a> {_badge(place.section)}'
    if inside and place.inside:
        entry += f"<ul>{''.join(map(_inner_entry, place.inside))}</ul>"
    return f"<li>{entry}</li>"


def _inner_entry(place: Place) -> str:
    return f'<li><a href="#{place.address}">{inline(place.section.title)}</a></li>'


def _badge(section: Section) -> str:
    """Return how many checks of a section passed, or that nothing of it was run."""
    found = checks([section])
    failed = sum(not check.holds for check in found)
    if failed:
        words = f"{failed} of {plural(len(found), 'check')} failed"
        return f'<span class="badge bad" title="{words}">{SIGNS["does not hold"]} {failed}</span>'
    if found:
        words = f"{plural(len(found), 'check')}, all passed"
        return f'<span class="badge good" title="{words}">{SIGNS["holds"]} {len(found)}</span>'
    if any(isinstance(part, NotRun) for part in section.walk()):
        return '<span class="badge wait">not run</span>'
    return ""


def _section(place: Place, level: int, figures: Iterator[str], unfold: bool = False) -> str:
    """Return a section that folds; its title and its answer are always visible."""
    section = place.section
    answer = f"<span class=answer>{inline(section.answer)}</span>" if section.answer else ""
    kind = "report" if level == 2 else "part"
    heading = min(level, 6)
    return (
        f'<details class="section {kind}" id="{place.address}"{" open" if unfold else ""}><summary>'
        f"<h{heading}>{inline(section.title)}</h{heading}> {_badge(section)}{answer}</summary>"
        f"<div class=body>{_parts(place, level, figures)}{_origins(section.origins)}</div>"
        "</details>"
    )


def _parts(place: Place, level: int, figures: Iterator[str]) -> str:
    """Return parts as elements; pictures, checks and findings in a row share a box."""
    inner = iter(place.inside)
    written = ""
    for kind, group in itertools.groupby(place.section.parts, type):
        if kind is Section:
            written += "".join(_section(next(inner), level + 1, figures) for _ in group)
        elif kind is Check:
            written += _checks([part for part in group if isinstance(part, Check)])
        else:
            elements = [_part(part, figures) for part in group]
            box = {Picture: "pictures", Finding: "cards"}.get(kind)
            written += f"<div class={box}>{''.join(elements)}</div>" if box else "".join(elements)
    return written


def _checks(group: Sequence[Check]) -> str:
    """Return checks as a list; those that passed are folded if there are many."""
    failed = "".join(_check(check) for check in group if not check.holds)
    held = [_check(check) for check in group if check.holds]
    listed = "".join(held)
    if len(held) > _MANY_CHECKS:
        label = f"{SIGNS['holds']} {len(held)} checks passed"
        listed = f"<details class='held good'><summary>{label}</summary>{listed}</details>"
    return f"<div class=checks>{failed}{listed}</div>"


def _check(check: Check) -> str:
    kind, sign, words = (
        ("good", "holds", "passed") if check.holds else ("bad", "does not hold", "failed")
    )
    return (
        f"<div class='check {kind}'>{write_verdict(sign, words)} "
        f"<span class=claim>{inline(check.claim)}</span> "
        f"<span class=soft>{inline(check.found)}</span></div>"
    )


def _part(part: Part, figures: Iterator[str]) -> str:
    match part:
        case Finding(claim, published, ours, verdict):
            source = f"<span><b>Published</b> {inline(published)}</span>" if published else ""
            return (
                f"<div class=card><p>{write_verdict(verdict)} {inline(claim)}</p>"
                f"<p class=figures>{source}<span><b>Ours</b> {inline(ours)}</span></p></div>"
            )
        case Text(text):
            return f"<p>{inline(text)}</p>"
        case Table():
            return write_table(part)
        case Picture():
            return _picture(part, next(figures))
        case NotRun(what, why, command):
            return (
                f"<div class='notrun wait'><b>Not run here:</b> <span>{inline(what)}</span> "
                f"<span class=soft>{inline(why)}</span><pre>{html.escape(command)}</pre></div>"
            )
    raise TypeError(f"{part!r} is no part of a page")


def _picture(picture: Picture, name: str) -> str:
    caption = f"<p>{inline(picture.caption)}</p>" if picture.caption else ""
    count = len(picture.data.rows)
    data = Table("Numbers of this figure", picture.data.header, picture.data.rows)
    shown = write_table(data, fold=True) if count else ""
    title = inline(picture.title)
    return (
        f"<figure><figcaption class=title>{title}</figcaption>{svg(picture.figure, name)}"
        f"<div class=words>{caption}{shown}</div></figure>"
    )


def _origins(origins: Sequence[Origin]) -> str:
    if not origins:
        return ""
    listed = "; ".join(
        f"commit <code>{html.escape(each.commit or 'unknown')}</code> on "
        f"<span class=date>{html.escape(each.date or 'an unknown day')}</span> "
        f"({plural(each.tasks, 'task')}, {_duration(each.seconds)})"
        for each in origins
    )
    changed = any(each.commit.endswith("+") for each in origins)
    note = " A plus sign: with changes that were not committed." if changed else ""
    return f"<p class=origin>Computed at {listed}.{note}</p>"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:,.1f} core-minutes" if seconds >= 60 else f"{seconds:.1f} s"


def _foot(page: Page) -> str:
    facts = dict(page.facts)
    commit, date = (facts.pop(name, "unknown") for name in ("commit", "date"))
    rows = "".join(
        f"<tr><th scope=row>{inline(name)}</th><td>{inline(value)}</td></tr>"
        for name, value in facts.items()
    )
    return (
        '<footer id="run"><h2>About this run</h2>'
        f"<p>This page was written at commit <code>{html.escape(commit)}</code> on "
        f"<span class=date>{html.escape(date)}</span>; the foot of each report names the commits "
        f"that computed its results.</p><table class=facts><tbody>{rows}</tbody></table></footer>"
    )
