"""The UCI tables in the layout of Fernández-Delgado et al. 2014 ("121 sets").

A set NAME is a folder with ``NAME_R.dat``, or with ``NAME_train_R.dat`` and ``NAME_test_R.dat``
where it has an official test part. The first line names the columns; a row is a number, the
features and the class (0, 1, ...), all numeric: the authors coded categories as integers and
standardised the features. Two more files hold 0-based row numbers of ``NAME_R.dat`` or
``NAME_train_R.dat``: ``conxuntos.dat`` (two lines: training and test half, for tuning) and
``conxuntos_kfold.dat`` (eight lines: training and test rows of four folds). Despite their name
the four test parts overlap: they are four separate 75/25 divisions.

The authors standardised the two files of a set with a test part apart from one another, and in
several sets only one of them: as they are, 1-nearest-neighbour has 4 % on hayes-roth's test
part. With partition "official" each of the two parts is therefore standardised by its own mean
and deviation; that looks at the features of the test part, not at its labels.

Option ``categorical`` puts indicators in place of columns that are categories; see
`exact_torch.data.uci_categories` for which they are.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from exact_torch._arguments import choice
from exact_torch.data.dataset import Dataset, MemorySplit, assemble, moments, stratified
from exact_torch.data.download import DataError, extract
from exact_torch.data.files import cache, data_folder, read
from exact_torch.data.uci_categories import categorical_columns, with_indicators

_ARCHIVES = ("uci121_R_dat.tar.xz", "data.tar.gz")
_ORIGIN = "http://persoal.citius.usc.es/manuel.fernandez.delgado/papers/jmlr/data.tar.gz"
_HOLDOUT = 0.2
_FOLDS = ("fold0", "fold1", "fold2", "fold3")


def uci_names(folder: str | Path | None = None) -> tuple[str, ...]:
    """The names of the sets whose files are all there, sorted; `load` takes ``uci/NAME``.

    Parameters
    ----------
    folder : path, optional
        As `load` takes it.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from exact_torch.data import uci_names
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     home = Path(folder, "uci121", "iris")
    ...     home.mkdir(parents=True)
    ...     for name in ("iris_R.dat", "conxuntos.dat", "conxuntos_kfold.dat"):
    ...         (home / name).touch()
    ...     uci_names(folder)
    ('iris',)
    """
    root = _root(data_folder(folder))
    return tuple(sorted(path.name for path in root.iterdir() if _complete(path)))


def load_uci(
    member: str,
    folder: Path,
    validation: float,
    fetch: bool,
    partition: str | None = None,
    categorical: str | Sequence[int] | None = None,
) -> Dataset:
    """One table.

    Parameters
    ----------
    member : the set's name
    partition : what the test part is: "official" (the set's own), "holdout" (a fixed stratified
        fifth), "fold0" to "fold3", or "tuning" (the second half of ``conxuntos.dat``). Default:
        "official" where the set has one, else "holdout".
    categorical : the columns to replace by an indicator for each of their values, one-hot: their
        numbers from 1, or "documented" for those that the UCI repository documents as categories.
        Default: none, the numbers of the files. Not with the official test part: its file is
        scaled apart, so that values of the two cannot be matched.
    """
    root = _root(folder)
    home = root / member
    if not _complete(home):
        known = ", ".join(sorted(path.name for path in root.iterdir() if _complete(path)))
        raise DataError(f"no complete set {member!r} in {root}; there are {known or 'none'}")
    whole = home / f"{member}_R.dat"
    apart = home / f"{member}_test_R.dat"
    possible = ("holdout", *_FOLDS, "tuning") + (() if whole.is_file() else ("official",))
    if partition is None:
        partition = "holdout" if whole.is_file() else "official"
    choice(f"partition of {member}", partition, possible)

    source = whole if whole.is_file() else home / f"{member}_train_R.dat"
    data, labels = read_table(source)
    columns: tuple[int, ...] = ()
    if categorical is not None:
        columns = categorical_columns(member, categorical, data.shape[1])
    if columns and partition == "official":
        raise ValueError(
            f"categorical needs another partition of {member}, such as 'holdout' or 'fold0': the "
            "files of the official one are scaled apart, so their categories cannot be matched"
        )
    if partition == "official":
        test_data, test_labels = read_table(apart)
        data, test_data = _standardised(data), _standardised(test_data)
        if test_data.shape[1] != data.shape[1]:
            raise DataError(f"{apart} has {test_data.shape[1]} features, {source} {data.shape[1]}")
    else:
        train, test = _rows(home, partition, labels)
        if columns:
            kept, _ = stratified(labels[train], validation)
            data = with_indicators(data, columns, train[kept])
        test_data, test_labels = data[test], labels[test]
        data, labels = data[train], labels[train]
    classes = 1 + int(torch.cat([labels, test_labels]).max())
    return assemble(
        f"uci/{member}",
        "table",
        [str(label) for label in range(classes)],
        data,
        labels,
        validation,
        lambda: MemorySplit(test_data, test_labels),
    )


def read_table(path: Path) -> tuple[Tensor, Tensor]:
    """Features (N, F) float32 and labels (N,) int64 of one ``_R.dat`` file."""
    lines = read(path).decode("utf-8", "replace").splitlines()
    width = 1 + len(lines[0].split()) if lines else 0
    if width < 3 or not lines[0].rstrip().endswith("clase"):
        raise DataError(f"{path} must start with the names of its columns, the last one 'clase'")
    values = []
    for number, line in enumerate(lines[1:], 2):
        fields = line.split()
        if fields and len(fields) != width:
            raise DataError(f"{path} has {len(fields)} fields in line {number}, not {width}")
        values += fields
    try:
        table = np.array(values, np.float64).reshape(-1, width)
    except ValueError as error:
        raise DataError(f"{path} has a field that is not a number: {error}") from error
    labels = table[:, -1].astype(np.int64)
    whole = (labels == table[:, -1]).all() and np.isfinite(table).all()
    if not len(table) or not whole or labels.min() < 0:
        raise DataError(f"{path} must have finite features, and classes 0, 1, 2, ... in every row")
    return torch.from_numpy(table[:, 1:-1].astype(np.float32)), torch.from_numpy(labels)


def _rows(home: Path, partition: str, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the training part and those of the test part."""
    if partition == "holdout":
        return stratified(labels, _HOLDOUT)
    path = home / ("conxuntos.dat" if partition == "tuning" else "conxuntos_kfold.dat")
    first = 0 if partition == "tuning" else 2 * _FOLDS.index(partition)
    try:
        lines = [[int(row) for row in line.split()] for line in read(path).decode().splitlines()]
        train, test = lines[first], lines[first + 1]
    except (IndexError, ValueError) as error:
        raise DataError(f"{path} must have lines of row numbers, two a division") from error
    if sorted(train + test) != list(range(len(labels))):
        raise DataError(f"{path} must divide rows 0 to {len(labels) - 1}, each of them once")
    return torch.tensor(train), torch.tensor(test)


def _standardised(data: Tensor) -> Tensor:
    mean, std = moments(data)
    return (data - mean) / std


def _complete(home: Path) -> bool:
    tables = [home / f"{home.name}_R.dat"]
    if not tables[0].is_file():
        tables = [home / f"{home.name}_{part}_R.dat" for part in ("train", "test")]
    divisions = [home / "conxuntos.dat", home / "conxuntos_kfold.dat"]
    return all(path.is_file() for path in tables + divisions)


def _root(folder: Path) -> Path:
    """The folder that has the sets' folders; an archive is unpacked once, into the cache."""
    home = folder / "uci121"
    if home.is_dir() and any(path.is_dir() for path in home.iterdir()):
        return home
    for name in _ARCHIVES:
        archive = home / name
        if archive.is_file():
            facts = archive.stat()
            key = f"{archive.resolve()} {facts.st_size} {facts.st_mtime_ns}"
            target = cache() / f"uci121-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
            if not target.is_dir():
                beside = target.with_name(f".{target.name}-{os.getpid()}")
                try:
                    extract(archive, beside)
                    os.rename(beside, target)
                except OSError:
                    if not target.is_dir():  # else another process was first
                        raise
                finally:
                    shutil.rmtree(beside, ignore_errors=True)
            return target
    raise DataError(
        f"the UCI sets need {home / _ARCHIVES[0]} or {home / _ARCHIVES[1]}, or an unpacked folder "
        f"{home}/NAME for each set. The archive comes from\n  {_ORIGIN}\n(no checksum of it is "
        "published, so it is not downloaded here)."
    )
