"""Text shown when a reader points at a mark of a figure: its series and its two values."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from validation.page.numbers import format_number

_MOST_MARKS = 60  # of a series; curves with more are smooth, and are read off the axes
_RADIUS = 6.0  # of the area that reacts, in points


class Mark(NamedTuple):
    """A mark at a place of the figure, in points from its left and upper edges, with its text."""

    x: float
    y: float
    text: str


def marks(figure: Any) -> list[Mark]:
    """Return the marks of a figure that was drawn before, so that its layout is known."""
    height = figure.get_figheight() * 72
    found = []
    for ax in figure.axes:
        for label, points in _series(ax):
            places = ax.transData.transform(points) * 72 / figure.dpi
            inside = ax.get_window_extent().expanded(1.01, 1.01)
            for (x, y), (left, up) in zip(points, places, strict=True):
                if inside.contains(left * figure.dpi / 72, up * figure.dpi / 72):
                    found.append(Mark(left, height - up, _describe(ax, label, x, y)))
    return found


def write_marks(figure: Any) -> str:
    """Return an invisible circle with a title for each mark of a figure, as SVG."""
    circles = "".join(
        f'<circle cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="{_RADIUS:g}">'
        f"<title>{html.escape(mark.text)}</title></circle>"
        for mark in marks(figure)
    )
    return f'<g class="marks">{circles}</g>' if circles else ""


def _series(ax: Any) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield label and points of every series that is drawn as marks, bars or a short line."""
    from matplotlib.container import BarContainer, ErrorbarContainer

    named = {}
    for container in ax.containers:
        if isinstance(container, ErrorbarContainer) and container[0] is not None:
            named[container[0]] = container.get_label()
    decorations = {
        line
        for container in ax.containers
        if isinstance(container, ErrorbarContainer)
        for line in container[1]
    }
    for line in ax.lines:
        if line in decorations or line.get_gid() or line.get_transform() != ax.transData:
            continue  # caps of error bars, lines with a name of their own or across the axes
        yield from _kept(named.get(line, line.get_label()), line.get_xydata())
    for collection in ax.collections:
        if type(collection).__name__ == "PathCollection":
            yield from _kept(collection.get_label(), collection.get_offsets())
    for container in ax.containers:
        if isinstance(container, BarContainer):
            tops = [
                (bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height())
                for bar in container
            ]
            yield from _kept(container.get_label(), tops)


def _kept(label: Any, points: Any) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    finite = [
        (float(x), float(y))
        for x, y in points
        if math.isfinite(float(x)) and math.isfinite(float(y))
    ]
    if 0 < len(finite) <= _MOST_MARKS:
        yield "" if str(label).startswith("_") else str(label), finite


def _describe(ax: Any, label: str, x: float, y: float) -> str:
    across = _value(ax.xaxis, ax.get_xlabel() or "x", x)
    return "\n".join(
        part for part in (label, across, _value(ax.yaxis, ax.get_ylabel() or "y", y)) if part
    )


def _value(axis: Any, name: str, value: float) -> str:
    """Return "name: value"; on an axis whose ticks are words, the word at the value."""
    from matplotlib.ticker import FixedFormatter

    if isinstance(axis.get_major_formatter(), FixedFormatter):
        near = [
            tick.get_text()
            for tick, place in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=False)
            if abs(place - value) < 0.5
        ]
        return near[0] if near else ""
    return f"{name}: {_plain(value)}"


def _plain(value: float) -> str:
    """Return a number as text; titles of SVG have no markup."""
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}".replace("-", "\N{MINUS SIGN}")
    text = format_number(float(f"{value:.4g}"))
    raised = str.maketrans("0123456789\N{MINUS SIGN}", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
    mantissa, _, exponent = text.partition("<sup>")
    return mantissa + exponent.removesuffix("</sup>").strip().translate(raised)
