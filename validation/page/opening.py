"""The first screen of a page: what came out, in short, and the table of findings."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from validation.page.content import Finding, Page
from validation.page.inline import inline, plural
from validation.page.outline import Place

SHOWN = 8  # findings on the first screen; a reader opens the others
OF_EACH = 3  # of them from one report at most

SIGNS = {"holds": "\N{CHECK MARK}", "does not hold": "\N{BALLOT X}", "not decided": "?"}
KINDS = {"holds": "good", "does not hold": "bad", "not decided": "wait"}

_MEANING = (
    "<span class=soft>Checks test this software; findings test claims of the papers and of this "
    "project.</span>"
)
_RULE = (
    "Verdicts are computed from the results. A claim of a gain <i>holds</i> if its 95 % interval "
    "lies above 0 (where p is given: if p after correction is below 0.05). It <i>does not hold</i> "
    "if the interval lies below 0 or below the published gain. Otherwise it is <i>not decided</i>."
)

_Row = tuple[str, Place, Finding]


def opening(page: Page, places: Mapping[str, Place]) -> str:
    """Return the first screen; findings stand in the order of the reports."""
    about = "".join(f"<p>{inline(text)}</p>" for text in page.about)
    return (
        f'<header class=opening id="findings"><h1>{inline(page.title)}</h1>'
        f"<div class=about>{about}</div>{_answers(page, places)}{_checks(places)}"
        f"{_findings(places)}</header>"
    )


def write_verdict(verdict: str, words: str = "") -> str:
    """Return a verdict as a sign and words in a colour; the words are the verdict by default."""
    return (
        f"<span class='verdict {KINDS[verdict]}'><span class=sign aria-hidden=true>"
        f"{SIGNS[verdict]}</span> {words or verdict}</span>"
    )


def _answers(page: Page, places: Mapping[str, Place]) -> str:
    given = [places[name] for name in page.leading if name in places]
    cards = "".join(
        f'<div><dt><a href="#{place.address}">{inline(place.section.title)}</a></dt>'
        f"<dd>{inline(place.section.answer)}</dd></div>"
        for place in given
        if place.section.answer
    )
    return f"<dl class=answers>{cards}</dl>" if cards else ""


def _checks(places: Mapping[str, Place]) -> str:
    everything = [each for place in places.values() for each in place.checks()]
    failed = [(place, check) for place, check in everything if not check.holds]
    if not everything:
        return "<p class=status><b class=wait>No check was run.</b></p>"
    if not failed:
        count = len(everything)
        words = f"All {count} checks passed" if count > 1 else "The only check passed"
        return f"<p class=status><b class=good>{SIGNS['holds']} {words}.</b> {_MEANING}</p>"
    items = "".join(
        f'<li><a href="#{place.address}">{inline(place.section.title)}</a>: {inline(check.claim)} '
        f"<span class=soft>{inline(check.found)}</span></li>"
        for place, check in failed
    )
    passed = len(everything) - len(failed)
    words = f"{passed} of {plural(len(everything), 'check')} passed, {len(failed)} failed"
    return (
        f"<details class=status><summary><b class=bad>{SIGNS['does not hold']} {words}.</b> "
        f"{_MEANING}</summary><ul>{items}</ul></details>"
    )


def _findings(places: Mapping[str, Place]) -> str:
    rows: list[_Row] = [
        (name, place, finding)
        for name, report in places.items()
        for place, finding in report.findings()
    ]
    if not rows:
        return ""
    first, rest = _split(rows)
    written = f"<h2>Findings <span class=count>{_counts(rows)}</span></h2>{_table(first, places)}"
    if rest:
        label = f"{plural(len(rest), 'more finding')} <span class=count>{_counts(rest)}</span>"
        written += f"<details class=more><summary>{label}</summary>{_table(rest, places)}</details>"
    return f"{written}<p class=note>{_RULE}</p>"


def _split(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Return the findings that are shown and those that are folded, in the same order."""
    if len(rows) <= SHOWN + 1:  # a fold with a single row in it would save nothing
        return list(rows), []
    first: list[_Row] = []
    for row in rows:
        if len(first) < SHOWN and sum(other[0] == row[0] for other in first) < OF_EACH:
            first.append(row)
    return first, [row for row in rows if row not in first]


def _counts(rows: Sequence[_Row]) -> str:
    verdicts = [finding.verdict for _, _, finding in rows]
    words = {"holds": ("holds", "hold"), "does not hold": ("does not hold", "do not hold")}
    counted = []
    for verdict in SIGNS:
        if count := verdicts.count(verdict):  # type: ignore[arg-type]
            one, many = words.get(verdict, (verdict, verdict))
            counted.append(f"{count} {one if count == 1 else many}")
    return ", ".join(counted)


def _table(rows: Sequence[_Row], places: Mapping[str, Place]) -> str:
    body = ""
    for name, group in itertools.groupby(rows, lambda row: row[0]):
        title = inline(places[name].section.title)
        body += (
            f'<tbody><tr class=group><th colspan=4 scope=rowgroup><a href="#{name}">{title}</a>'
            f"</th></tr>{''.join(map(_row, group))}</tbody>"
        )
    return (
        "<table class=findings><thead><tr><th scope=col>Claim</th><th scope=col>Published</th>"
        f"<th scope=col>Ours</th><th scope=col>Verdict</th></tr></thead>{body}</table>"
    )


def _row(row: _Row) -> str:
    _, place, finding = row
    published = inline(finding.published) or "<span class=soft>a claim of this project</span>"
    return (
        f'<tr><td class=claim><a href="#{place.address}">{inline(finding.claim)}</a></td>'
        f'<td data-label="Published">{published}</td><td data-label="Ours">{inline(finding.ours)}'
        f"</td><td class=result>{write_verdict(finding.verdict)}</td></tr>"
    )
