"""Which data sets are on this machine: reports train on what is there and name what is not."""

from __future__ import annotations

import functools
from typing import Any

from validation.page import NotRun

_DOWNLOAD = "python -m validation paper --download"
_HAVE = (
    "python -m validation paper --data-dir DIR   # where DIR/uci121 has the sets, see docs/data.md"
)


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
    command = _HAVE if name.startswith("uci/") else _DOWNLOAD
    return NotRun(what, f"The files of {name} are not on this machine.", command)
