"""Numbers from outside: tables in text and NPY files, on standard input, or written out.

Every message names the option and the file, the line where there is one, and what is expected.
Rows, columns and lines are counted from 1, as editors and spreadsheets do.
"""

import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_NPY = b"\x93NUMPY"
_ZIP = b"PK\x03\x04"
_MISSING = ("", "na", "n/a", "nan", "null", "none", ".", "-", "?")


class InputError(ValueError):
    """Input that cannot be used; the message is for the person who gave it."""


@dataclass(frozen=True)
class Table:
    """The numbers that one option names.

    Attributes
    ----------
    name : how messages call it, such as "--cov cov.csv"
    values : rows and columns; from NPY any number of axes
    rows, columns : their names, where the file has them
    """

    name: str
    values: np.ndarray
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    @property
    def size(self) -> str:
        counts = self.values.shape
        if len(counts) != 2:
            return f"the shape {counts}"
        return f"{_count(counts[0], 'row')} and {_count(counts[1], 'column')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def read_table(option: str, given: str) -> Table:
    """Return the table that ``given`` stands for: numbers, "-" for standard input, or a file.

    Examples
    --------
    >>> from mvnorth._read_numbers import read_table
    >>> read_table("--upper", "0, 1, inf").values
    array([[ 0.,  1., inf]])
    """
    given = given.strip()
    inline = written_out(given)
    if inline is not None:
        name = f"{option} {given}"
        return _checked(Table(name, _rectangle(name, inline)))
    name, data = _read(option, given, "nor are these numbers")
    if data.startswith(_NPY):
        return _from_npy(name, data)
    return _from_text(name, _decode(name, data))


def read_groups(
    option: str, given: str, group: str | None, value: str | None
) -> dict[str, np.ndarray]:
    """Return the observations of each group, in the order of the file or standard input.

    ``group`` and ``value`` name the two columns, else they are "group" and "value", or the first
    two.
    """
    name, data = _read(option, given.strip(), "and groups come from a file")
    cells = _split(name, _decode(name, data))
    first, header = cells[0]
    if len(header) < 2:
        raise InputError(f"{name}, line {first}: two columns are expected, group and value")
    where = []
    for default, (label, chosen) in enumerate((("group", group), ("value", value))):
        if chosen is not None and chosen not in header:
            names = ", ".join(header)
            raise InputError(f"--{label} {chosen}: {name} has no such column, it has {names}")
        column = label if chosen is None else chosen
        where.append(header.index(column) if column in header else default)
    if where[0] == where[1]:
        raise InputError(f"{name}: name the columns of groups and values: --group and --value")
    named = group is not None or value is not None or _is_name(header[where[1]])
    groups: dict[str, list[float]] = {}
    for line, row in cells[int(named) :]:
        if len(row) != len(header):
            raise InputError(
                f"{name}, line {line}: {len(row)} entries, where line {first} has {len(header)}"
            )
        number = _number(row[where[1]])
        if not np.isfinite(number):
            raise InputError(
                f"{name}, line {line}, column {where[1] + 1}: {row[where[1]]!r} is not a finite "
                "number"
            )
        groups.setdefault(row[where[0]], []).append(number)
    return {label: np.array(values) for label, values in groups.items()}


def _read(option: str, given: str, otherwise: str) -> tuple[str, bytes]:
    """Return how messages call a file or standard input, and its bytes."""
    name = f"{option} {given}"
    try:
        if given == "-":
            name += " (standard input)"
            data = sys.stdin.buffer.read()
        else:
            data = Path(given).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file, {otherwise}") from None
    except (OSError, ValueError) as error:  # a name that cannot be one is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read: {reason}") from None
    return name, data


def _decode(name: str, data: bytes) -> str:
    if data.startswith(_ZIP):
        raise InputError(
            f"{name} is an archive (.npz, .xlsx or the like); save one array as .npy or a table "
            "as .csv"
        )
    try:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # what some shells write into a file
        return data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is neither text in UTF-8 nor an array in NPY format; save it as .csv or .npy"
        ) from None


def written_out(text: str) -> list[list[float]] | None:
    """Return numbers given in place of a file name, ";" between rows; None for anything else."""
    try:
        rows = [re.split(r"[,\s]+", row.strip()) for row in text.strip().strip(";").split(";")]
        return [[float(cell) for cell in row] for row in rows]
    except ValueError:
        return None


def _rectangle(name: str, rows: list[list[float]]) -> np.ndarray:
    if len({len(row) for row in rows}) > 1:
        counts = ", ".join(str(len(row)) for row in rows)
        raise InputError(f"{name}: rows must have equally many numbers, these have {counts}")
    return np.array(rows)


def _checked(table: Table) -> Table:
    """Return ``table`` if it has numbers, none of them NaN; else raise."""
    values = table.values
    if values.size == 0:
        raise InputError(f"{table.name} is empty, it has {table.size}")
    if np.isnan(values).any():
        place = np.argwhere(np.isnan(values))[0] + 1
        index = ", ".join(map(str, place))
        where = f"row {place[0]}, column {place[1]}" if len(place) == 2 else f"entry {index}"
        raise InputError(f"{table.name}, {where}: NaN is not a number (inf and -inf may be used)")
    return table


def _from_npy(name: str, data: bytes) -> Table:
    try:
        values = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{name} is a damaged NPY file, or has objects in it: {error}") from None
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} must have real numbers in it, it has the type {values.dtype}")
    # Single precision is kept: it says how exact a covariance is.
    kept = values.dtype.newbyteorder("=") if values.dtype.kind == "f" else np.float64
    return _checked(Table(name, np.atleast_1d(values).astype(kept)))


def _split(name: str, text: str) -> list[tuple[int, list[str]]]:
    """Return the cells of each line that has any, with its number."""
    numbered = enumerate(text.splitlines(), start=1)
    lines = [
        (k, line) for k, line in numbered if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError(f"{name} is empty: rows of numbers are expected")
    separator = next((c for c in ";,\t" if any(c in line for _, line in lines)), " ")
    return [(k, _cells(line, separator)) for k, line in lines]


def _from_text(name: str, text: str) -> Table:
    cells = _split(name, text)
    first_line, first = cells[0]
    header = None
    # A first line that starts with an empty cell is how R and pandas write names of columns.
    if all(map(_is_name, first)) or (len(cells) > 1 and first[0] == "" and all(first[1:])):
        header = first
        cells = cells[1:]
    if not cells:
        raise InputError(f"{name}, line {first_line}: {', '.join(first)!r} has no numbers in it")
    width = len(cells[0][1])
    for k, row in cells:
        if len(row) != width:
            raise InputError(
                f"{name}, line {k}: {len(row)} entries, where line {cells[0][0]} has {width}"
            )
    named = width > 1 and (
        (header is not None and (len(header) == width - 1 or header[0] == ""))
        or all(_is_name(row[0]) for _, row in cells)
    )
    if header is not None and len(header) not in ((width, width - 1) if named else (width,)):
        raise InputError(
            f"{name}, line {first_line}: {len(header)} names, where line {cells[0][0]} has "
            f"{width} entries"
        )
    values = [_numbers(name, k, row, int(named)) for k, row in cells]
    return Table(
        name,
        np.array(values),
        tuple(row[0] for _, row in cells) if named else None,
        tuple(header[len(header) - width + named :]) if header else None,
    )


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        line = " ".join(line.split())
    parts = next(csv.reader([line], delimiter=separator)) if '"' in line else line.split(separator)
    # Where columns are apart by semicolons a comma is a decimal one.
    return [part.strip().replace(",", ".") if separator == ";" else part.strip() for part in parts]


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _is_name(cell: str) -> bool:
    """Return whether a cell names a row or column, and is neither a number nor missing."""
    try:
        float(cell)
    except ValueError:
        return cell.casefold() not in _MISSING
    return False


def _numbers(name: str, line: int, row: Sequence[str], skip: int) -> list[float]:
    try:
        numbers = [float(cell) for cell in row[skip:]]
    except ValueError:
        numbers = [_number(cell) for cell in row[skip:]]
    for k, number in enumerate(numbers, start=skip):
        if number != number:
            what = repr(row[k]) if row[k] else "an empty entry"
            raise InputError(
                f"{name}, line {line}, column {k + 1}: {what} is not a number (inf and -inf may be "
                "used)"
            )
    return numbers
