"""The layout of the 121 UCI sets, from a tiny copy made here, unpacked and in an archive."""

import shutil
import tarfile

import numpy as np
import pytest
import torch

from exact_torch import data
from exact_torch.data import uci, uci_categories

RNG = np.random.default_rng(2)


def write_table(path, rows, classes=2, scale=1.0):
    features = np.round(RNG.normal(size=(rows, 3)) * scale, 4)
    labels = np.arange(rows) % classes
    lines = ["\tf1\tf2\tf3\tclase"]
    lines += [
        "\t".join([str(i + 1), *map(str, row), str(label)])
        for i, (row, label) in enumerate(zip(features.tolist(), labels, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")
    return features, labels


def write_set(root, name, rows=40, test_rows=None):
    home = root / name
    home.mkdir(parents=True)
    if test_rows is None:
        tables = write_table(home / f"{name}_R.dat", rows)
    else:
        tables = (
            write_table(home / f"{name}_train_R.dat", rows),
            write_table(home / f"{name}_test_R.dat", test_rows, classes=3, scale=100),
        )
    quarter = rows // 4
    divisions = [RNG.permutation(rows) for _ in range(4)]
    folds = [part for order in divisions for part in (order[quarter:], order[:quarter])]
    halves = [np.arange(rows // 2), np.arange(rows // 2, rows)]
    for file, parts in (("conxuntos.dat", halves), ("conxuntos_kfold.dat", folds)):
        (home / file).write_text("".join(" ".join(map(str, part)) + " \n" for part in parts))
    return tables, folds


@pytest.fixture
def sets(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "uci121"
    written = {"alone": write_set(root, "alone"), "parted": write_set(root, "parted", test_rows=12)}
    (root / "lacking").mkdir()
    return tmp_path, written


def rows_of(split):
    return split.inputs(torch.arange(len(split)))


def test_names_are_those_of_complete_sets(sets):
    assert data.uci_names(sets[0]) == ("alone", "parted")


def test_folds_are_the_published_ones(sets):
    folder, written = sets
    (features, labels), folds = written["alone"]
    for number in range(4):
        dataset = data.load("uci/alone", folder, validation=0, partition=f"fold{number}")
        train, test = folds[2 * number : 2 * number + 2]
        np.testing.assert_allclose(rows_of(dataset.test), features[test], rtol=1e-6)
        np.testing.assert_allclose(rows_of(dataset.train), features[train], rtol=1e-6)
        assert dataset.test.labels.tolist() == labels[test].tolist()
    assert dataset.kind == "table"
    assert dataset.name == "uci/alone"
    assert dataset.shape == (3,)
    assert dataset.classes == ("0", "1")


def test_tuning_is_the_division_in_halves(sets):
    features, _ = sets[1]["alone"][0]
    dataset = data.load("uci/alone", sets[0], validation=0, partition="tuning")
    np.testing.assert_allclose(rows_of(dataset.test), features[20:], rtol=1e-6)


def test_holdout_is_the_default_without_a_test_part(sets):
    dataset = data.load("uci/alone", sets[0])
    again = data.load("uci/alone", sets[0], partition="holdout")
    assert rows_of(dataset.test).equal(rows_of(again.test))
    assert len(dataset.test) == 8
    assert torch.bincount(dataset.test.labels).tolist() == [4, 4]
    with pytest.raises(ValueError, match="partition of alone must be one of 'holdout', 'fold0'"):
        data.load("uci/alone", sets[0], partition="official")


def test_the_official_parts_are_brought_to_one_scale(sets):
    folder, written = sets
    (_, (features, labels)), _ = written["parted"]
    dataset = data.load("uci/parted", folder, validation=0)
    standardised = (features - features.mean(0)) / features.std(0)
    np.testing.assert_allclose(rows_of(dataset.test), standardised, rtol=1e-4, atol=1e-5)
    assert dataset.test.labels.tolist() == labels.tolist()
    assert len(dataset.train) == 40
    assert rows_of(dataset.train).std(0, correction=0).allclose(torch.ones(3))
    assert dataset.classes == ("0", "1", "2")
    assert len(data.load("uci/parted", folder, partition="fold0").test) == 10


@pytest.mark.parametrize(
    ("archive", "mode"), [("uci121_R_dat.tar.xz", "w:xz"), ("data.tar.gz", "w:gz")]
)
def test_an_archive_is_unpacked_once(sets, archive, mode, monkeypatch):
    folder, _ = sets
    expected = rows_of(data.load("uci/alone", folder).train)
    root = folder / "uci121"
    with tarfile.open(folder / archive, mode) as tar:
        tar.add(root, ".")
    shutil.rmtree(root)
    root.mkdir()
    (folder / archive).rename(root / archive)
    assert rows_of(data.load("uci/alone", folder).train).equal(expected)
    monkeypatch.setattr(uci, "extract", None)  # not called again
    assert data.uci_names(folder) == ("alone", "parted")
    assert len(list((folder / "cache" / "exact_torch").iterdir())) == 1


def test_missing_sets(sets, tmp_path):
    with pytest.raises(data.DataError, match=r"no complete set 'lacking'.*there are alone, parted"):
        data.load("uci/lacking", sets[0])
    with pytest.raises(data.DataError, match=r"uci121_R_dat.tar.xz(.|\n)*manuel.fernandez"):
        data.load("uci/alone", tmp_path / "empty")


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("alone_R.dat", lambda t: t[t.index("\n") + 1 :], "must start with the names"),
        ("alone_R.dat", lambda t: "", "must start with the names"),
        ("alone_R.dat", lambda t: t[: t.index("\n") + 1], "in every row"),
        ("alone_R.dat", lambda t: t + "41\t1\t2\n", "3 fields in line 42, not 5"),
        ("alone_R.dat", lambda t: t + "41\t1\t2\tx\t1\n", "not a number.*x"),
        ("alone_R.dat", lambda t: t + "41\t1\t2\tnan\t1\n", "finite features"),
        ("alone_R.dat", lambda t: t + "41\t1\t2\t3\t0.5\n", "classes 0, 1, 2"),
        ("conxuntos_kfold.dat", lambda t: t.replace("7 ", "8 ", 1), "each of them once"),
        ("conxuntos_kfold.dat", lambda t: "", "two a division"),
        ("conxuntos_kfold.dat", lambda t: "a" + t, "lines of row numbers"),
    ],
)
def test_damaged_files_are_named(sets, file, damage, message):
    path = sets[0] / "uci121" / "alone" / file
    path.write_text(damage(path.read_text()))
    with pytest.raises(data.DataError, match=f"{file} .*{message}"):
        data.load("uci/alone", sets[0], partition="fold0")


def write_categories(root, name="alone"):
    """Column 1: four values, one of them in row 0 only; column 2: a constant; column 3: numbers."""
    path = root / "uci121" / name / f"{name}_R.dat"
    lines = path.read_text().splitlines()
    codes = [9.5] + [(-1.5, 0.25, 2.0)[row % 3] for row in range(len(lines) - 2)]
    for row, code in enumerate(codes):
        fields = lines[1 + row].split("\t")
        lines[1 + row] = "\t".join([fields[0], str(code), "7", *fields[3:]])
    path.write_text("\n".join(lines) + "\n")
    return np.array(codes)


def test_categories_become_indicators(sets):
    codes = write_categories(sets[0])
    (features, _), folds = sets[1]["alone"]
    train, test = np.arange(20, 40), np.arange(20)  # row 0, with a value of its own, is not trained
    lines = [" ".join(map(str, part)) for part in (train, test, *folds[2:])]
    (sets[0] / "uci121" / "alone" / "conxuntos_kfold.dat").write_text("\n".join(lines))
    options = {"validation": 0, "partition": "fold0"}
    dataset = data.load("uci/alone", sets[0], categorical=[1, 2], **options)
    assert dataset.shape == (4,)  # three values of training rows, no constant, the numbers
    for split, rows in ((dataset.train, train), (dataset.test, test)):
        expected = (codes[rows, None] == [-1.5, 0.25, 2.0]).astype(float)
        np.testing.assert_array_equal(rows_of(split)[:, :3], expected)
        np.testing.assert_allclose(rows_of(split)[:, 3], features[rows, 2], rtol=1e-6)
    unseen = rows_of(dataset.test)[test.tolist().index(0)]
    assert unseen[:3].tolist() == [0, 0, 0]
    plain = data.load("uci/alone", sets[0], **options)
    np.testing.assert_allclose(rows_of(plain.test)[:, 0], codes[test])  # the default: as they are


def test_categories_are_those_of_the_rows_without_validation(sets):
    codes = write_categories(sets[0])
    for validation in (0.25, 0.5, 0.75):
        dataset = data.load("uci/alone", sets[0], validation=validation, categorical=[1])
        indicators = rows_of(dataset.train)[:, :-1]
        assert (indicators.sum(0) > 0).all()
        assert (indicators.sum(1) == 1).all()
        assert indicators.shape[1] <= len(set(codes))


def test_documented_categories(sets, monkeypatch):
    write_categories(sets[0])
    with pytest.raises(ValueError, match=r"alone are not documented here.*adult, annealing"):
        data.load("uci/alone", sets[0], categorical="documented")
    monkeypatch.setitem(uci_categories.DOCUMENTED, "alone", (1,))
    listed = data.load("uci/alone", sets[0], categorical=[1])
    documented = data.load("uci/alone", sets[0], categorical="documented")
    assert rows_of(documented.test).equal(rows_of(listed.test))
    monkeypatch.setitem(uci_categories.DOCUMENTED, "alone", ())
    numbers = data.load("uci/alone", sets[0], categorical="documented")
    assert rows_of(numbers.test).equal(rows_of(data.load("uci/alone", sets[0]).test))


@pytest.mark.parametrize("categorical", ["onehot", [0], [4], [1.0], [True], 2.5])
def test_wrong_categories(sets, categorical):
    with pytest.raises(ValueError, match=r"categorical must be 'documented' or a sequence.*1 to 3"):
        data.load("uci/alone", sets[0], categorical=categorical)


def test_categories_of_the_official_parts_cannot_be_matched(sets):
    with pytest.raises(ValueError, match=r"another partition of parted.*scaled apart"):
        data.load("uci/parted", sets[0], categorical=[1])
    assert data.load("uci/parted", sets[0], categorical=[1], partition="holdout").shape[0] > 3


def test_documented_columns_are_numbered_from_one():
    for name, columns in uci_categories.DOCUMENTED.items():
        assert list(columns) == sorted(set(columns)), name
        assert not columns or columns[0] >= 1, name
