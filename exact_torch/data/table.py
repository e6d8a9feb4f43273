"""Any CSV table: numbers stay, words become indicators, the target column becomes classes.

What the training rows decide (which columns are numbers, their means, the categories) is kept in
an `Encoder`, which turns into JSON and back and encodes rows of other files in the same way.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exact_torch.data.dataset import Dataset, MemorySplit, moments, stratified
from exact_torch.data.download import DataError
from exact_torch.data.files import read

_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
_HOLDOUT = 0.2


@dataclass(frozen=True)
class Table:
    """The fields of a CSV file, all as text.

    Attributes
    ----------
    source : str
        Where they come from, for messages.
    names : tuple of str
        The columns' names.
    rows : list of list of str
        The fields.

    Examples
    --------
    >>> from exact_torch.data import Table
    >>> table = Table("here", ("size", "colour"), [["1", "red"], ["2", "blue"]])
    >>> table.column("colour"), table.select([1]).rows
    (['red', 'blue'], [['2', 'blue']])
    """

    source: str
    names: tuple[str, ...]
    rows: list[list[str]]

    def column(self, name: str) -> list[str]:
        """The fields of one column."""
        if name not in self.names:
            raise DataError(f"{self.source} has no column {name!r}; it has {', '.join(self.names)}")
        place = self.names.index(name)
        return [row[place] for row in self.rows]

    def select(self, indices: Sequence[int]) -> "Table":
        """A table of these rows."""
        return Table(self.source, self.names, [self.rows[index] for index in indices])


def read_csv(path: str | Path, header: bool = True, delimiter: str = ",") -> Table:
    """A CSV file (plain, .gz or .xz; UTF-8), its fields without surrounding blanks.

    Parameters
    ----------
    path : path
        Of the file.
    header : bool
        Whether the first line names the columns; if not, their names are "0", "1", ...
    delimiter : str
        Between fields.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from exact_torch.data import read_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "flowers.csv")
    ...     count = path.write_text("petal, kind\\n1.4, setosa\\n4.7, versicolor\\n")
    ...     table = read_csv(path)
    >>> table.names, table.column("kind")
    (('petal', 'kind'), ['setosa', 'versicolor'])
    """
    source = Path(path)
    if not source.is_file():
        raise DataError(f"there is no file {source}")
    try:
        text = read(source).decode("utf-8-sig")
        lines = [row for row in csv.reader(StringIO(text), delimiter=delimiter) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{source} is not a CSV file in UTF-8: {error}") from error
    rows = [[field.strip() for field in row] for row in lines]
    names = rows.pop(0) if header and rows else [str(i) for i in range(len(rows[0]) if rows else 0)]
    if not rows:
        raise DataError(f"{source} has no rows of data")
    if len(set(names)) < len(names):
        raise DataError(f"{source} has two columns of the same name: {', '.join(names)}")
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise DataError(f"{source} has {len(row)} fields in row {number}, not {len(names)}")
    return Table(str(source), tuple(names), rows)


@dataclass(frozen=True)
class Column:
    """A numeric column with the mean that stands for missing values, or one of categories."""

    name: str
    mean: float = 0.0
    categories: tuple[str, ...] | None = None

    @classmethod
    def fitted(cls, name: str, fields: Sequence[str]) -> "Column":
        present = [field for field in fields if not _missing(field)]
        if not all(_is_number(field) for field in present):
            return cls(name, categories=tuple(sorted(set(present))))
        return cls(name, mean=math.fsum(map(float, present)) / max(len(present), 1))

    def encode(self, fields: Sequence[str], source: str) -> Tensor:
        """(N, 1) numbers, or (N, categories) indicators: all 0 for missing and unknown ones."""
        if self.categories is None:
            return torch.tensor([[self._number(field, source)] for field in fields])
        places = {category: place for place, category in enumerate(self.categories)}
        found = torch.tensor([places.get(field, -1) for field in fields])
        return (found[:, None] == torch.arange(len(places))).float()

    def _number(self, field: str, source: str) -> float:
        if _missing(field):
            return self.mean
        if not _is_number(field) or not math.isfinite(float(field)):
            raise DataError(f"{source} has {field!r} in column {self.name!r} of finite numbers")
        return float(field)


@dataclass(frozen=True)
class Encoder:
    """Rows of text into numbers, as the training rows decided.

    Attributes
    ----------
    columns : tuple of Column
        What becomes of each column; made by ``fitted``.

    Examples
    --------
    >>> from exact_torch.data import Encoder, Table, encoder_from_json
    >>> table = Table("here", ("size", "colour"), [["1", "red"], ["?", "blue"], ["3", "red"]])
    >>> encoder = Encoder.fitted(table, ["size", "colour"])
    >>> encoder.features
    ('size', 'colour=blue', 'colour=red')
    >>> encoder.encode(table)
    tensor([[1., 0., 1.],
            [2., 1., 0.],
            [3., 0., 1.]])
    >>> encoder_from_json(encoder.to_json()) == encoder
    True
    """

    columns: tuple[Column, ...]

    @classmethod
    def fitted(cls, table: Table, names: Sequence[str]) -> "Encoder":
        """The encoder that these columns of a table, its training rows, decide."""
        return cls(tuple(Column.fitted(name, table.column(name)) for name in names))

    @property
    def features(self) -> tuple[str, ...]:
        """A name for every number of an encoded row."""
        return tuple(
            column.name if category is None else f"{column.name}={category}"
            for column in self.columns
            for category in ((None,) if column.categories is None else column.categories)
        )

    def encode(self, table: Table) -> Tensor:
        """(N, F) float32; columns are found by their names, others are passed over."""
        parts = [column.encode(table.column(column.name), table.source) for column in self.columns]
        return torch.cat(parts, dim=1)

    def to_json(self) -> dict[str, Any]:
        """Lists, strings and numbers only."""
        return {
            "columns": [
                {"name": column.name, "mean": column.mean}
                if column.categories is None
                else {"name": column.name, "categories": list(column.categories)}
                for column in self.columns
            ]
        }


def encoder_from_json(content: Mapping[str, Any]) -> Encoder:
    """The encoder whose `Encoder.to_json` this is.

    Parameters
    ----------
    content : mapping
        As JSON has it.

    Returns
    -------
    Encoder

    Examples
    --------
    >>> from exact_torch.data import encoder_from_json
    >>> encoder_from_json({"columns": [{"name": "size", "mean": 2.0}]}).features
    ('size',)
    """
    columns = []
    for column in content["columns"]:
        categories = column.get("categories")
        fixed = None if categories is None else tuple(categories)
        columns.append(Column(column["name"], column.get("mean", 0.0), fixed))
    return Encoder(tuple(columns))


def load_csv(
    folder: Path,
    validation: float,
    fetch: bool,
    path: str | Path | None = None,
    target: str | int = -1,
    test_path: str | Path | None = None,
    header: bool = True,
    delimiter: str = ",",
) -> Dataset:
    """A table of the user's.

    Parameters
    ----------
    path : the CSV file
    target : the name or the number of the column of classes, default the last one
    test_path : a file with the test rows; default: a fixed stratified fifth of ``path``
    header, delimiter : as `read_csv` takes them
    """
    if path is None:
        raise ValueError("csv needs path=FILE")
    table = read_csv(path, header, delimiter)
    name = _target_name(table, target)
    fields = table.column(name)
    classes = _classes(table.source, fields)
    labels = _labels(table.source, fields, classes)
    if test_path is None:
        rest, test = stratified(labels, _HOLDOUT)
        test_table = table.select(test.tolist())
    else:
        rest, test_table = torch.arange(len(labels)), read_csv(test_path, header, delimiter)
    kept, held = (rest[part] for part in stratified(labels[rest], validation))
    features = [column for column in table.names if column != name]
    if not features:
        raise DataError(f"{table.source} has no column beside the target {name!r}")
    encoder = Encoder.fitted(table.select(kept.tolist()), features)

    def split(part: Table) -> MemorySplit:
        return MemorySplit(encoder.encode(part), _labels(part.source, part.column(name), classes))

    train = split(table.select(kept.tolist()))
    mean, std = moments(train.data)
    return Dataset(
        "csv",
        "table",
        classes,
        (len(encoder.features),),
        mean,
        std,
        train,
        split(table.select(held.tolist())),
        lambda: split(test_table),
        encoder,
    )


def _target_name(table: Table, target: str | int) -> str:
    if isinstance(target, str) and target in table.names:
        return target
    places = range(-len(table.names), len(table.names))
    if isinstance(target, int) and not isinstance(target, bool) and target in places:
        return table.names[target]
    raise ValueError(
        f"target must be a column of {table.source} ({', '.join(table.names)}) or its number, "
        f"got {target!r}"
    )


def _classes(source: str, fields: Sequence[str]) -> tuple[str, ...]:
    """The different classes: by size if all are numbers, else by the alphabet."""
    names = sorted(set(fields))
    if len(names) < 2:
        raise DataError(f"{source} must have two classes at least, got {', '.join(names)}")
    if all(_is_number(name) for name in names):
        names.sort(key=float)
    return tuple(names)


def _labels(source: str, fields: Sequence[str], classes: Sequence[str]) -> Tensor:
    places = {name: place for place, name in enumerate(classes)}
    for number, field in enumerate(fields, 1):
        if _missing(field):
            raise DataError(f"{source} has no class in row {number}")
        if field not in places:
            raise DataError(f"{source} has the class {field!r}, which no training row has")
    return torch.tensor([places[field] for field in fields], dtype=torch.int64)


def _missing(field: str) -> bool:
    return field.lower() in _MISSING


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field  # float("1_000") is Python's spelling, not a table's
