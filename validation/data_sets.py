"""Which data sets are on this machine: reports train on what is there and name what is not."""

from __future__ import annotations

import functools
from typing import Any

from validation.page import NotRun

GET = "python -m validation paper --download"


@functools.cache
def there(name: str, **options: Any) -> bool:
    """Whether ``exact_torch.data`` can load a set without the net."""
    from exact_torch import data

    try:
        data.load(name, download=False, **options)
    except data.DataError:
        return False
    return True


def missing(what: str, name: str) -> NotRun:
    """What the page says in place of ``what``, if the set is not there."""
    return NotRun(what, f"The files of {name} are not on this machine.", GET)
