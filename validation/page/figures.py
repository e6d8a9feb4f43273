"""Figures that a page can hold in light and in dark, on a phone and on a desk."""

from __future__ import annotations

import io
import re
from typing import Any

from validation.page.hover import write_marks
from validation.page.numbers import tidy_signs

_SMALLEST_TEXT = 8.0  # points; a figure on a phone has about 1.1 pixels a point
_PALETTE = (  # matplotlib's; the style of the page has one for light and one for dark
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)


def axes(*, log: str = "", **settings: Any) -> tuple[Any, Any]:
    """Return a figure with one pair of axes, as wide as a phone; pages put two in a row.

    Parameters
    ----------
    log : str
        Which axes are logarithmic: "", "x", "y" or "xy".
    **settings
        Passed to ``Axes.set``: xlabel, ylabel, title, ...

    Returns
    -------
    figure, axes
        Of matplotlib. Black becomes the page's colour of text, and the colours "C0" to "C9" those
        of the page.
    """
    from matplotlib.figure import Figure  # the object interface looks for no screen

    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    ax = figure.add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.3)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    ax.set(**settings)
    return figure, ax


def svg(figure: Any, name: str) -> str:
    """Return the figure as an element of a page; ``name`` keeps its ids apart from others'."""
    import matplotlib as mpl

    figure.patch.set_visible(False)
    for ax in figure.axes:
        ax.patch.set_visible(False)
        if ax.get_legend() is not None:
            ax.get_legend().set_frame_on(False)
    for text in figure.findobj(mpl.text.Text):
        text.set_fontsize(max(text.get_fontsize(), _SMALLEST_TEXT))
    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"#000000|\bblack\b", "currentColor", text)
    text = re.sub(r'"[^"]*"', _shorten, text)
    text = re.sub(r"(?<=>)[^<>]+(?=</text>)", lambda words: tidy_signs(words[0]), text)
    for number, colour in enumerate(_PALETTE):
        text = text.replace(colour, f"var(--c{number})")
    return text.replace("</svg>", f"{write_marks(figure)}</svg>")


def _shorten(attribute: re.Match[str]) -> str:
    """Return an attribute whose coordinates have two decimals: matplotlib writes six."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", attribute[0])
