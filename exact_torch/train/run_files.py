"""Read the text files of a run's folder and check what they hold.

Every error names the file, what is wrong with it and what to do about it.
"""

import json
import warnings
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from exact_torch.train.config import Config

__all__ = ["RunError", "RunWarning", "read_config", "read_metrics", "read_summary"]

_RESTORE = "put a copy of it back, or train again in another folder"
_REWRITE = "delete it and re-run the command that trained the run, which writes it again"


class RunError(RuntimeError):
    """A run that cannot continue, with what to do about it.

    Examples
    --------
    >>> import tempfile
    >>> from exact_torch.train import RunError
    >>> from exact_torch.train.trained import Trained
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         Trained(folder)
    ...     except RunError as error:
    ...         print(error)
    /... holds no run: there is no config.json
    """


class RunWarning(UserWarning):
    """Something in a run's folder was lost, and the run continues without it.

    Examples
    --------
    To stop instead:

    >>> import warnings
    >>> from exact_torch.train import RunWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", RunWarning)
    ...     # train(...)
    """


def _read_text(path: Path, remedy: str) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged: it is not UTF-8 text ({error}); {remedy}") from error


def _parse_mapping(text: str, where: str, remedy: str) -> dict[str, Any]:
    """Return the JSON object in ``text``; ``where`` names the file, and the line if need be."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where} is damaged: it is not JSON ({error}); {remedy}") from error
    if not isinstance(value, dict):
        shown = text.strip()
        shown = shown if len(shown) <= 40 else shown[:40] + "..."
        raise RunError(f"{where} must be a JSON object {{...}}, got {shown}; {remedy}")
    return value


def _check_numbers(fields: Mapping[str, Any], names: tuple[str, ...], where: str, fix: str) -> None:
    """Raise unless the named fields are numbers."""
    for name in names:
        value = fields.get(name)
        if not isinstance(value, Real) or isinstance(value, bool):
            raise RunError(f"{where} must hold a number {name!r}, got {value!r}; {fix}")


def read_config(folder: Path) -> Config:
    """Return the config of a run."""
    path = folder / "config.json"
    settings = _parse_mapping(_read_text(path, _RESTORE), str(path), _RESTORE)
    try:
        return Config.from_json(settings)
    except (TypeError, ValueError) as error:
        raise RunError(f"{path}: {error}; {_RESTORE}") from error


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a run, or None if it is not finished."""
    path = folder / "summary.json"
    if not path.exists():
        return None
    summary = _parse_mapping(_read_text(path, _REWRITE), str(path), _REWRITE)
    measures = ("accuracy", "calibration_error")
    _check_numbers(
        summary,
        ("seconds", *(name for name in summary if name.endswith(measures))),
        str(path),
        _REWRITE,
    )
    return summary


def read_metrics(folder: Path) -> tuple[list[dict[str, Any]], bool]:
    """Return the measurements of a run, one an epoch, and whether the last line was cut off.

    A line that was cut off is left out.
    """
    path = folder / "metrics.jsonl"
    if not path.exists():
        return [], False
    lines = path.read_bytes().split(b"\n")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"line {number} of {path}"
        fix = "delete that line: its epoch is then missing from curves, and nothing else changes"
        try:
            rows.append(_parse_mapping(line.decode("utf-8", errors="replace"), where, fix))
        except RunError:
            if number < len(lines):
                raise
            return rows, True
        _check_numbers(rows[-1], ("epoch", "lr"), where, fix)
        for name, kinds in (("train", dict), ("validation", (dict, type(None)))):
            if not isinstance(rows[-1].get(name), kinds):
                raise RunError(f"{where} must hold {name!r}, what was measured; {fix}")
    return rows, False


def warn_of_cut_line(folder: Path, kept: int) -> None:
    """Warn that the last line of ``metrics.jsonl`` was cut off and ``kept`` lines are used."""
    warnings.warn(
        f"the last line of {folder / 'metrics.jsonl'} was cut off and is ignored; "
        f"the lines before it, {kept}, are used",
        RunWarning,
        stacklevel=3,
    )
