"""CSV tables: columns of numbers and of words, missing values, and the encoder in JSON."""

import gzip
import json

import pytest
import torch

from exact_torch import data


def write(path, rows, names="age,colour,kind"):
    path.write_text("\n".join([names, *rows]) + "\n")
    return path


@pytest.fixture
def table(tmp_path):
    colours = ["red", "blue", "green"]
    rows = [f"{i},{colours[i % 3]},{'yes' if i % 2 else 'no'}" for i in range(60)]
    return write(tmp_path / "table.csv", rows)


def rows_of(split):
    return split.inputs(torch.arange(len(split)))


def test_columns_and_classes(table):
    dataset = data.load("csv", path=table)
    assert dataset.classes == ("no", "yes")
    assert dataset.shape == (4,)
    assert dataset.encoder.features == ("age", "colour=blue", "colour=green", "colour=red")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (43, 5, 12)
    ages = []
    for split in (dataset.train, dataset.validation, dataset.test):
        for row, label in zip(rows_of(split).tolist(), split.labels.tolist(), strict=True):
            age = int(row[0])
            expected = [0.0, 0.0, 0.0]
            expected[[2, 0, 1][age % 3]] = 1.0
            assert row[1:] == expected
            assert label == age % 2
            ages.append(age)
    assert sorted(ages) == list(range(60))


@pytest.mark.parametrize("target", ["kind", 2, -1])
def test_target_by_name_and_number(table, target):
    assert data.load("csv", path=table, target=target).classes == ("no", "yes")


@pytest.mark.parametrize("target", ["price", 3, -4, 1.0, None, True])
def test_target_is_checked(table, target):
    with pytest.raises(ValueError, match=r"target must be a column of .*\(age, colour, kind\)"):
        data.load("csv", path=table, target=target)


def test_another_column_as_target(table):
    dataset = data.load("csv", path=table, target="colour")
    assert dataset.classes == ("blue", "green", "red")
    assert dataset.encoder.features == ("age", "kind=no", "kind=yes")


def test_numeric_classes_are_in_numeric_order(tmp_path):
    path = write(tmp_path / "t.csv", [f"{i},{i % 11}" for i in range(44)], "x,y")
    assert data.load("csv", path=path).classes == tuple(str(i) for i in range(11))


def test_missing_and_unknown_values(tmp_path, table):
    test = write(tmp_path / "test.csv", ["?,red,yes", ",violet,no", "NA, blue ,no"])
    dataset = data.load("csv", path=table, test_path=test)
    assert len(dataset.train) == 54
    mean = float(rows_of(dataset.train)[:, 0].mean())
    expected = torch.tensor([[mean, 0, 0, 1], [mean, 0, 0, 0], [mean, 1, 0, 0]])
    assert rows_of(dataset.test).allclose(expected)
    assert dataset.test.labels.tolist() == [1, 0, 0]


def test_the_encoder_learns_from_training_rows_alone(tmp_path):
    rows = [f"{i},c{i},{i % 2}" for i in range(40)]
    dataset = data.load("csv", path=write(tmp_path / "t.csv", rows))
    train = {f"colour=c{int(age)}" for age in rows_of(dataset.train)[:, 0]}
    assert set(dataset.encoder.features) == train | {"age"}
    assert rows_of(dataset.test)[:, 1:].sum() == 0
    assert dataset.mean[0] == pytest.approx(float(rows_of(dataset.train)[:, 0].mean()))


def test_the_encoder_survives_json_and_reads_other_files(tmp_path, table):
    encoder = data.load("csv", path=table).encoder
    again = data.encoder_from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    # other columns, another order, no target
    other = write(tmp_path / "other.csv", ["green,x,7"], "colour,more,age")
    assert again.encode(data.read_csv(other)).tolist() == [[7, 0, 1, 0]]
    short = write(tmp_path / "short.csv", ["7"], "age")
    with pytest.raises(data.DataError, match=r"short.csv has no column 'colour'; it has age"):
        again.encode(data.read_csv(short))
    wrong = write(tmp_path / "wrong.csv", ["old,red"], "age,colour")
    with pytest.raises(data.DataError, match=r"wrong.csv has 'old' in column 'age'"):
        again.encode(data.read_csv(wrong))


def test_other_spellings(tmp_path):
    text = '"1";"a, b";"x"\r\n"2";"c";"y"\r\n' * 10
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    dataset = data.load("csv", path=path, header=False, delimiter=";")
    assert dataset.classes == ("x", "y")
    assert dataset.encoder.features == ("0", "1=a, b", "1=c")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no rows of data"),
        ("a,b\n", "no rows of data"),
        ("a,a\n1,2\n", "two columns of the same name"),
        ("a,b\n1,2\n3\n", "1 fields in row 2, not 2"),
        ("a,b\n1,x\n2,x\n", "two classes at least"),
        ("a,b\n1,x\n2,?\n3,x\n", "no class in row 2"),
        ("b\nx\ny\nx\ny\n", "no column beside the target"),
        ("a,b\ninf,x\n2,y\n3,x\n4,y\n", "'inf' in column 'a' of finite numbers"),
        ("a,b\n\xff,x\n", "not a CSV file in UTF-8"),
    ],
)
def test_damaged_tables_are_named(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(data.DataError, match=f"bad.csv .*{message}"):
        data.load("csv", path=path, validation=0)


def test_missing_arguments_and_files(tmp_path, table):
    with pytest.raises(ValueError, match="csv needs path=FILE"):
        data.load("csv")
    with pytest.raises(data.DataError, match="there is no file"):
        data.load("csv", path=tmp_path / "none.csv")
    other = write(tmp_path / "test.csv", ["1,red,maybe"])
    dataset = data.load("csv", path=table, test_path=other)
    with pytest.raises(data.DataError, match=r"test.csv has the class 'maybe'"):
        _ = dataset.test
