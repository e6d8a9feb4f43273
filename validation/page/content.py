"""A page and its parts: findings, text, tables, pictures with data, checks, what was not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

Verdict: TypeAlias = Literal["holds", "does not hold", "not decided"]


@dataclass(frozen=True)
class Finding:
    """A claim and what was measured of it; the page lists all findings on its first screen.

    Attributes
    ----------
    claim : str
        One sentence that can be right or wrong.
    published : str
        The published figure and where it stands; empty for a claim of this project.
    ours : str
        Our figure with an interval.
    verdict : {"holds", "does not hold", "not decided"}
        Computed from the results.
    """

    claim: str
    published: str
    ours: str
    verdict: Verdict


@dataclass(frozen=True)
class Text:
    """A paragraph; `` `code` ``, ``**bold**`` and ``[words](address)`` may be in it.

    The same holds for all other texts of a page.
    """

    text: str


@dataclass(frozen=True)
class Table:
    """Columns with a header; cells are numbers or texts, and None where there is nothing.

    ``cite`` is the name under which pages of ``docs/`` cite the table, if they do.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    cite: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure of matplotlib's with what it shows: ``data`` becomes a file beside the page."""

    title: str
    figure: Any
    data: Table
    caption: str = ""


@dataclass(frozen=True)
class Check:
    """A claim that may fail, and what was found. ``holds=False`` flags it in the page."""

    claim: str
    holds: bool
    found: str


@dataclass(frozen=True)
class NotRun:
    """A missing result, the reason, and the command that computes it."""

    what: str
    why: str
    command: str


class Origin(NamedTuple):
    """The commit that computed some results, the day, the number of tasks and their seconds."""

    commit: str
    date: str
    tasks: int
    seconds: float


@dataclass(frozen=True)
class Section:
    """A part of the page with a title.

    Attributes
    ----------
    title : str
    parts : sequence
    answer : str
        One to three sentences that say what came out; the page opens the section with them.
    origins : sequence of Origin
        What computed the results of the section, if that is known.
    tasks : int
        Number of tasks of a report, computed or not.
    """

    title: str
    parts: Sequence[Part] = field(default_factory=tuple)
    answer: str = ""
    origins: Sequence[Origin] = ()
    tasks: int = 0

    def walk(self) -> Iterator[Part]:
        """Yield all parts, those of inner sections as well."""
        for part in self.parts:
            yield part
            if isinstance(part, Section):
                yield from part.walk()


Part: TypeAlias = Finding | Text | Table | Picture | Check | NotRun | Section


@dataclass(frozen=True)
class Page:
    """All that a page says.

    Attributes
    ----------
    title : str
    about : sequence of str
        Paragraphs below the title.
    sections : mapping
        By the name of the report, in the order of the page.
    facts : mapping
        The foot of the page: date, commit, machine, versions.
    leading : sequence of str
        Names of the reports whose answers stand on the first screen.
    """

    title: str
    about: Sequence[str]
    sections: Mapping[str, Section]
    facts: Mapping[str, str]
    leading: Sequence[str] = ()
