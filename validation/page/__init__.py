"""Parts of a page, which reports return, and the page itself."""

from validation.page.content import (
    Check,
    Finding,
    NotRun,
    Origin,
    Page,
    Picture,
    Section,
    Table,
    Text,
)
from validation.page.figures import axes

__all__ = [
    "Check",
    "Finding",
    "NotRun",
    "Origin",
    "Page",
    "Picture",
    "Section",
    "Table",
    "Text",
    "axes",
]
