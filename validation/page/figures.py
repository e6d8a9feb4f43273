"""Figures that a page can hold in light and in dark, on a phone and on a desk."""

from __future__ import annotations

import io
import re
from typing import Any


def axes(*, log: str = "", **settings: Any) -> tuple[Any, Any]:
    """A figure with one pair of axes, as wide as a phone; pages put several beside each other.

    Parameters
    ----------
    log : str
        Which axes are logarithmic: "", "x", "y" or "xy".
    **settings
        Passed to ``Axes.set``: xlabel, ylabel, title, ...

    Returns
    -------
    figure, axes
        Of matplotlib. Black becomes the page's own colour of text.
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
    """The figure as an element of a page; ``name`` keeps its ids apart from other figures'."""
    import matplotlib as mpl

    for ax in figure.axes:
        ax.patch.set_visible(False)
        if ax.get_legend() is not None:
            ax.get_legend().set_frame_on(False)
    figure.patch.set_visible(False)
    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    return re.sub(r"#000000|\bblack\b", "currentColor", text)
