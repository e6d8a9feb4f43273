"""Where the sections of a page stand: an address for every section and every one inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from validation.page.content import Check, Finding, Section
from validation.page.inline import slug


@dataclass(frozen=True)
class Place:
    """A section, its address in the page, and the places of the sections inside it, in order."""

    address: str
    section: Section
    inside: tuple[Place, ...]

    def walk(self) -> Iterator[Place]:
        """Yield this place and all places inside it."""
        yield self
        for place in self.inside:
            yield from place.walk()

    def findings(self) -> list[tuple[Place, Finding]]:
        """Return all findings with the innermost section that they stand in."""
        return [
            (place, part)
            for place in self.walk()
            for part in place.section.parts
            if isinstance(part, Finding)
        ]

    def checks(self) -> list[tuple[Place, Check]]:
        """Return all checks with the innermost section that they stand in."""
        return [
            (place, part)
            for place in self.walk()
            for part in place.section.parts
            if isinstance(part, Check)
        ]


def outline(sections: Mapping[str, Section]) -> dict[str, Place]:
    """Return the place of each report's section; addresses are "report" and "report-title"."""
    taken = set(sections)

    def place(report: str, address: str, section: Section) -> Place:
        inner = [part for part in section.parts if isinstance(part, Section)]
        return Place(
            address,
            section,
            tuple(place(report, free(f"{report}-{slug(part.title)}"), part) for part in inner),
        )

    def free(wanted: str) -> str:
        address, number = wanted, 2
        while address in taken:
            address, number = f"{wanted}-{number}", number + 1
        taken.add(address)
        return address

    return {name: place(name, name, section) for name, section in sections.items()}
