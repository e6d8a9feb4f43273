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
    name = f"{option} {given}"
    if inline is not None:
        return _checked(Table(name, _rectangle(name, inline)))
    try:
        if given == "-":
            name += " (standard input)"
            data = sys.stdin.buffer.read()
        else:
            data = Path(given).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{name}: there is no such file, nor are these numbers") from None
    except (OSError, ValueError) as error:  # a name that cannot be one is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name} cannot be read: {reason}") from None
    if data.startswith(_NPY):
        return _from_npy(name, data)
    if data.startswith(_ZIP):
        raise InputError(
            f"{name} is an archive (.npz, .xlsx or the like); save one array as .npy or a table "
            "as .csv"
        )
    try:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # what some shells write into a file
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"{name} is neither text in UTF-8 nor an array in NPY format; save it as .csv or .npy"
        ) from None
    return _from_text(name, text)


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


def _from_text(name: str, text: str) -> Table:
    numbered = enumerate(text.splitlines(), start=1)
    lines = [
        (k, line) for k, line in numbered if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError(f"{name} is empty: rows of numbers are expected")
    separator = next((c for c in ";,\t" if any(c in line for _, line in lines)), " ")
    cells = [(k, _cells(line, separator)) for k, line in lines]
    first = cells[0][1]
    header = None
    # A first line that starts with an empty cell is how R and pandas write names of columns.
    if all(map(_is_name, first)) or (len(cells) > 1 and first[0] == "" and all(first[1:])):
        header = first
        cells = cells[1:]
    if not cells:
        raise InputError(
            f"{name}, line {lines[0][0]}: {lines[0][1].strip()!r} has no numbers in it"
        )
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
            f"{name}, line {lines[0][0]}: {len(header)} names, where line {cells[0][0]} has "
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
