"""What a report says, as parts of a page, and the page."""

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
