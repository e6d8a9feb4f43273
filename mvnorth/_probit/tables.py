"""Read outcomes and design matrices from arrays or data frames; frames keep their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._arguments import numbers

_CONSTANT = "const"


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix with names of its columns.

    Attributes
    ----------
    values : (n, p)
    names : p names
    named : whether a data frame gave them
    """

    values: np.ndarray
    names: tuple[str, ...]
    named: bool


def read_table(argument: str, value: Any, prefix: str, *, missing: bool = False) -> Table:
    """Return a matrix (n, p); a vector is one column. ``missing`` allows NaN.

    Names of columns are those of a data frame, the name of a series, or ``prefix`` with a number.
    """
    columns = getattr(value, "columns", None)
    if columns is not None:
        names = tuple(str(name) for name in columns)
        parts = [
            _one_column(argument, name, value[column])
            for name, column in zip(names, columns, strict=True)
        ]
        array = np.column_stack(parts) if parts else np.empty((0, 0))
    else:
        array = numbers(argument, _without_na(value))
        if array.ndim == 1:
            array = array[:, None]
        series = getattr(value, "name", None)
        names = tuple(f"{prefix}{k + 1}" for k in range(array.shape[-1] if array.ndim else 0))
        if series is not None and len(names) == 1:
            names = (str(series),)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{argument} must have shape (n, p) with n and p at least 1, got {array.shape}"
        )
    if len(set(names)) != len(names):
        raise ValueError(f"{argument} has two columns of the same name: {', '.join(names)}")
    wrong = np.isinf(array) if missing else ~np.isfinite(array)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"{argument} must be finite; column {names[column]!r} has {array[row, column]} in row "
            f"{row} ({int(wrong.any(axis=1).sum())} such rows in all). Leave these rows out"
        )
    return Table(array, names, columns is not None)


def _one_column(argument: str, name: str, column: Any) -> np.ndarray:
    array = numbers(f"column {name!r} of {argument}", _without_na(column))
    if array.ndim != 1:
        raise ValueError(f"{argument} has two columns of the same name: {name!r}")
    return array


def _without_na(column: Any) -> Any:
    """Return a series of pandas' nullable numbers or booleans as float64, with NaN for NA."""
    dtype = getattr(column, "dtype", None)
    nullable = hasattr(dtype, "na_value") and getattr(dtype, "kind", "") in tuple("biuf")
    return column.astype("float64") if nullable else column


def with_constant(table: Table) -> Table:
    """Return the table with a column of ones first."""
    flat = np.ptp(table.values, axis=0) == 0.0
    if flat.any():
        name = table.names[int(np.argmax(flat))]
        raise ValueError(
            f"X has a constant column, {name!r}, already: leave intercept=True out, or the column"
        )
    ones = np.ones((len(table.values), 1))
    return Table(np.hstack([ones, table.values]), (_CONSTANT, *table.names), table.named)


def read_again(argument: str, value: Any, like: Table, *, intercept: bool) -> np.ndarray:
    """Return new rows of a design matrix that was read before, columns by name if it has them."""
    names = like.names[1:] if intercept else like.names
    if hasattr(value, "columns") and like.named:
        value = columns_by_name(argument, value, names)
    elif np.ndim(value) == 1 and len(names) > 1:
        value = np.asarray(value)[None]  # one row
    table = read_table(argument, value, "x")
    if table.values.shape[1] != len(names):
        raise ValueError(
            f"{argument} must have the {len(names)} columns {', '.join(names)}, got "
            f"{table.values.shape[1]}"
        )
    ones = np.ones((len(table.values), int(intercept)))
    return np.hstack([ones, table.values])


def columns_by_name(argument: str, value: Any, names: Sequence[str]) -> Any:
    """Return the columns of a data frame that have these names, in this order; else ``value``."""
    columns = getattr(value, "columns", None)
    if columns is None:
        return value
    known = {str(name): name for name in columns}
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{argument} has no column {', '.join(map(repr, missing))}")
    return value[[known[name] for name in names]]


def same_rows(first: str, one: Any, second: str, other: Any) -> None:
    """Raise if two data frames have different indices."""
    if hasattr(one, "iloc") and hasattr(other, "iloc") and not one.index.equals(other.index):
        raise ValueError(
            f"{first} and {second} have different indices; align them first, or pass arrays"
        )


def require_full_rank(argument: str, X: np.ndarray, names: Sequence[str]) -> None:
    """Raise if the columns of X (n, p) are linearly dependent, and say which."""
    from scipy.linalg import qr

    size = np.linalg.norm(X, axis=0)
    if not size.all():
        raise ValueError(f"{argument} has a column of zeros: {names[int(np.argmin(size))]!r}")
    R, pivots = qr(X / size, mode="r", pivoting=True)
    own = np.abs(np.diag(R))
    tiny = max(X.shape) * np.finfo(np.float64).eps * 10.0
    rank = int(np.sum(own > tiny))
    if rank == X.shape[1]:
        return
    last = names[pivots[rank]]
    if rank < X.shape[0]:
        weights = np.linalg.solve(R[:rank, :rank], R[:rank, rank])
        others = [names[k] for k, w in zip(pivots[:rank], weights, strict=True) if abs(w) > 1e-8]
        raise ValueError(
            f"{argument} is collinear: column {last!r} is a combination of "
            f"{', '.join(map(repr, sorted(others)))}; leave one of them out"
        )
    raise ValueError(f"{argument} has {X.shape[1]} columns, but only {X.shape[0]} rows")
