"""The command line, against mvnorth's functions and closed forms."""

import io
import json
import logging
import math
import re
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import mvnorth
from mvnorth import _environment, cli
from mvnorth.cli import main

ROOT = Path(__file__).parents[2]
COV = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]])
MEANS = np.array([[0.1, -0.2, 0.3], [1.0, 2.0, 0.5]])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("cov.csv", COV, delimiter=",", header="a,b,c", comments="")
    np.savetxt("means.txt", MEANS)
    np.save("cov.npy", COV)
    return tmp_path


def run(capsys, *arguments):
    """Exit code, and what was printed on standard output and error."""
    try:
        code = main([str(word) for word in arguments])
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


def results(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["results"]


def forbid(constant):
    raise AssertionError(constant)


class Stdin:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


# Probabilities


def test_default_is_the_orthant(folder, capsys):
    pairs = math.asin(0.5) + math.asin(0.2) + math.asin(0.3)
    (found,) = results(capsys, "prob", "--cov", "cov.csv")
    assert found["prob"] == pytest.approx(1 / 8 + pairs / (4 * math.pi), rel=1e-12)
    assert found["status"] == "converged"
    (shifted,) = results(capsys, "prob", "--cov", "cov.csv", "--mean", "1,2,.5")
    expected = mvnorth.orthant_prob([1.0, 2.0, 0.5], np.linalg.cholesky(COV))
    assert shifted["prob"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("words", "lower", "upper", "event"),
    [
        (["--upper", "0.4"], -np.inf, 0.4, "X <= upper"),
        (["--lower", "-0.4"], -0.4, np.inf, "X >= lower"),
        (["--lower", "-1,-inf,0", "--upper", "1"], [-1, -np.inf, 0], 1, "lower <= X <= upper"),
        (["--upper", "-inf"], -np.inf, -np.inf, "X <= upper"),
    ],
)
def test_limits(folder, capsys, words, lower, upper, event):
    code, out, _ = run(capsys, "prob", "--cov", "cov.csv", "--mean", "0.1", *words, "--json")
    assert code == 0
    answer = json.loads(out, parse_constant=forbid)
    assert (answer["event"], answer["d"]) == (event, 3)
    expected = mvnorth.box(lower, upper, 0.1, COV)
    assert answer["results"][0]["prob"] == expected.prob
    assert float(answer["results"][0]["log_prob"]) == expected.log_prob


def test_rows_are_a_batch_in_the_order_of_the_file(folder, capsys):
    found = results(capsys, "prob", "--cov", "cov.npy", "--mean", "means.txt", "--upper", "0,1,2")
    expected = mvnorth.box(-np.inf, [0.0, 1.0, 2.0], MEANS, COV)
    assert [row["prob"] for row in found] == expected.prob.tolist()
    assert [row["row"] for row in found] == [1, 2]


def test_one_coordinate_takes_a_list_of_limits(capsys):
    found = results(capsys, "prob", "--cov", "4", "--upper", "-2,0,2")
    expected = [0.5 * math.erfc(z / math.sqrt(2)) for z in (1.0, 0.0, -1.0)]
    assert [row["prob"] for row in found] == pytest.approx(expected, rel=1e-13)


def test_batch_of_covariances_from_npy(folder, capsys):
    covs = np.stack([COV, np.eye(3)])
    np.save("covs.npy", covs)
    found = results(capsys, "prob", "--cov", "covs.npy")
    assert found[1]["prob"] == pytest.approx(1 / 8, rel=1e-13)
    assert found[0]["prob"] == mvnorth.box_prob(0.0, np.inf, 0.0, COV)


def test_settings_reach_the_computation(folder, capsys):
    words = ["--n", "500", "--method", "genz", "--seed", "3"]
    (found,) = results(capsys, "prob", "--cov", "cov.csv", *words)
    expected = mvnorth.box(0.0, np.inf, 0.0, COV, 500, method="genz", seed=3)
    assert found["prob"] == expected.prob
    assert (found["n"], found["method"], found["status"]) == (expected.n, "genz", "fixed")
    (other,) = results(capsys, "prob", "--cov", "cov.csv", *words[:-1], "4")
    assert other["prob"] != found["prob"]


@pytest.mark.parametrize("log", [False, True])
def test_derivatives(folder, capsys, log):
    words = ["prob", "--cov", "cov.csv", "--mean", "means.txt", "--upper", "1"] + ["--log"] * log
    expected = mvnorth.box_grad(-np.inf, 1.0, MEANS, COV, wrt=("mean", "upper", "cov"), log=log)
    usual = results(capsys, *words, "--grad")
    assert set(usual[0]["grad"]) == {"mean", "mean_error", "upper", "upper_error"}
    np.testing.assert_allclose(usual[1]["grad"]["mean"], expected.grad_mean[1], rtol=1e-12)
    chosen = results(capsys, *words, "--grad", "cov")
    assert np.shape(chosen[0]["grad"]["cov"]) == (3, 3)
    np.testing.assert_allclose(chosen[0]["grad"]["cov"], expected.grad_cov[0], rtol=1e-12)
    code, out, _ = run(capsys, *words, "--grad", "cov,upper")
    assert code == 0
    assert f"derivatives of the {'logarithm' if log else 'probability'}" in out
    line = next(line for line in out.splitlines() if line.split()[:2] == ["2", "cov[3,1]"])
    assert float(line.split()[2]) == pytest.approx(expected.grad_cov[1, 2, 0], rel=1e-9)


def test_tables_for_people(folder, capsys):
    code, out, err = run(capsys, "prob", "--cov", "cov.csv", "--upper", "0")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["event"] == "Pr(X <= upper), 3 coordinates"
    assert float(lines["probability"].split()[0]) == pytest.approx(mvnorth.cdf([0] * 3, cov=COV))
    Path("named.csv").write_text("site,x,y,z\nnorth,0,0,0\nsouth,1,1,1\n")
    code, out, _ = run(capsys, "prob", "--cov", "cov.csv", "--mean", "named.csv", "--log")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["row", "north", "south"]
    assert rows[0][1:3] == ["log_prob", "rel_error"]
    expected = mvnorth.box_logprob(0.0, np.inf, np.array([[0.0] * 3, [1.0] * 3]), COV)
    np.testing.assert_allclose([float(row[1]) for row in rows[1:]], expected, rtol=1e-9)


def test_too_little_accuracy_is_code_1_with_the_result(folder, capsys):
    words = ["prob", "--cov", "cov.csv", "--method", "genz", "--n", "100", "--rtol", "1e-9"]
    code, out, err = run(capsys, *words)
    assert code == 1
    assert "probability     0.2" in out
    assert "limit" in out
    assert "less accurate than asked" in err
    code, out, err = run(capsys, *words, "--mean", "means.txt", "--json")
    assert (code, len(json.loads(out)["results"])) == (1, 2)
    assert "2 of 2" in err


# Reading


@pytest.mark.parametrize(
    "text",
    [
        "1,0.5,0.2\n0.5,1,0.3\n0.2,0.3,1\n",
        "1, 0.5, 0.2\r\n\r\n0.5, 1, 0.3\r\n0.2, 0.3, 1",
        "# made by hand\n1 0.5   0.2\n 0.5 1 0.3\n0.2 0.3 1\n",
        "a\tb\tc\n1\t0.5\t0.2\n0.5\t1\t0.3\n0.2\t0.3\t1\n",
        "1,0;0,5;0,2\n0,5;1;0,3\n0,2;0,3;1\n",
        '"","V1","V2","V3"\n"1",1,0.5,0.2\n"2",0.5,1,0.3\n"3",0.2,0.3,1\n',
        '"V1" "V2" "V3"\n"r 1" 1 0.5 0.2\n"r 2" 0.5 1 0.3\n"r 3" 0.2 0.3 1\n',
        ",0,1,2\n0,1,0.5,0.2\n1,0.5,1,0.3\n2,0.2,0.3,1\n",
        "name,a,b,c\nx,1,0.5,0.2\ny,0.5,1,0.3\nz,0.2,0.3,1\n",
        "\ufeffa,b,c\n1,0.5,0.2\n0.5,1,0.3\n0.2,0.3,1\n",
    ],
    ids=[
        "plain",
        "spaces",
        "text",
        "tabs",
        "decimal comma",
        "R",
        "R table",
        "pandas",
        "names",
        "BOM",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_forms_of_text(folder, capsys, monkeypatch, text, encoding):
    Path("given").write_bytes(text.encode(encoding))
    expected = results(capsys, "prob", "--cov", "cov.npy")
    assert results(capsys, "prob", "--cov", "given") == expected
    monkeypatch.setattr(sys, "stdin", Stdin(text.encode(encoding)))
    assert results(capsys, "prob", "--cov", "-") == expected


def test_npy_on_standard_input(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Stdin(Path("cov.npy").read_bytes()))
    assert results(capsys, "prob", "--cov", "-") == results(capsys, "prob", "--cov", "cov.npy")


def test_single_precision_says_how_exact_a_covariance_is(folder, capsys):
    v = np.array([0.1, 0.7, 0.9, 0.3])
    singular = np.outer(v, v).astype(np.float32)
    np.save("single.npy", singular)
    (found,) = results(capsys, "prob", "--cov", "single.npy", "--rtol", "0.1")
    assert found["prob"] == mvnorth.box_prob(0.0, np.inf, 0.0, singular, rtol=0.1)
    assert found["rel_error"] > 1e-5
    np.save("whole.npy", np.eye(2, dtype=">i2"))
    assert results(capsys, "prob", "--cov", "whole.npy")[0]["prob"] == pytest.approx(0.25)


def test_a_column_is_a_vector(folder, capsys):
    Path("column.csv").write_text("mean\n0.1\n-0.2\n0.3\n")
    found = results(capsys, "prob", "--cov", "cov.csv", "--mean", "column.csv")
    assert found == results(capsys, "prob", "--cov", "cov.csv", "--mean", "0.1 -0.2 0.3")
    assert len(found) == 1


WRONG = [
    (["--cov", "none.csv"], "--cov none.csv: there is no such file"),
    (["--cov", "."], "--cov . cannot be read: Is a directory"),
    (["--cov", "a\0b"], "cannot be read"),
    (["--cov", "1,2;3"], "rows must have equally many numbers, these have 2, 1"),
    (["--cov", "1,2;2,1"], "--cov 1,2;2,1 must be positive semi-definite"),
    (["--cov", "1,2;0,1"], "--cov 1,2;0,1 must be symmetric"),
    (["--cov", "-1"], "--cov -1 must have a diagonal >= 0"),
    (["--cov", "nan"], "--cov nan, row 1, column 1: NaN is not a number"),
    (["--cov", "inf"], "--cov inf must be finite"),
    (["--cov", "1,2,3"], "--cov 1,2,3 must be a square matrix, it has 1 row and 3 columns"),
    (["--mean", "inf"], "--mean inf must be finite"),
    (["--upper", "0,1"], "--upper 0,1 has 1 row and 2 columns; to go with --cov cov.csv"),
    (["--upper", "0,1,x"], "--upper 0,1,x: there is no such file, nor are these numbers"),
    (
        ["--lower", "0,2,0", "--upper", "1"],
        "column 2: the lower limit 2 is above the upper",
    ),
    (["--mean", "1,2,3;4,5,6", "--upper", "1,2,3;4,5,6;7,8,9"], "numbers of rows differ"),
    (["--cov", "-", "--mean", "-"], "can be given once only"),
    (["--rtol", "-1"], "--rtol must be a number >= 0, got -1.0"),
    (["--rtol", "x"], "argument --rtol: invalid float value"),
    (["--n", "0"], "--n must be at least 1, got 0"),
    (["--n", "1.5"], "argument --n: must be a whole number, got '1.5'"),
    (["--n", "inf"], "argument --n: must be a whole number"),
    (["--seed", "-1"], "--seed must be at least 0, got -1"),
    (["--method", "foo"], "--method must be one of 'auto'"),
    (["--method", "markov", "--cov", "1,.5,.2;.5,1,.9;.2,.9,1"], "--method='markov' needs"),
    (["--grad", "foo"], "--grad must name some of 'lower', 'upper', 'mean', 'cov'"),
    (["--nonsense"], "unrecognized arguments: --nonsense"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[" ".join(w) for w, _ in WRONG])
def test_wrong_arguments(folder, capsys, words, message):
    given = words if "--cov" in words else ["--cov", "cov.csv", *words]
    code, out, err = run(capsys, "prob", *given)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: rows of numbers are expected"),
        (b"\n# nothing\n", "is empty"),
        (b"hello\n", "line 1: 'hello' has no numbers in it"),
        (b"1,2\n3\n", "line 2: 1 entries, where line 1 has 2"),
        (b"a,b\n\n1,2\n3,NA\n", "line 4, column 2: 'NA' is not a number"),
        (b"NA,1\nNA,2\n", "line 1, column 1: 'NA' is not a number"),
        (b"1,\n2,3\n", "line 1, column 2: an empty entry is not a number"),
        (b"a,b\n1,nan\n2,3\n", "line 2, column 2: 'nan' is not a number"),
        (b"1,5 2,5\n", "line 1, column 2: '5 2' is not a number"),
        (b"a,b,c,d\n1,2\n3,4\n", "line 1: 4 names, where line 2 has 2 entries"),
        (b"\xff\x00\x81", "is neither text in UTF-8 nor an array in NPY format"),
        (b"PK\x03\x04....", "is an archive"),
        (b"\x93NUMPY\x01\x00", "is a damaged NPY file"),
    ],
)
def test_wrong_files(folder, capsys, content, message):
    Path("given.csv").write_bytes(content)
    code, out, err = run(capsys, "prob", "--cov", "given.csv")
    assert (code, out) == (2, "")
    assert err.startswith("mvnorth: --cov given.csv")
    assert message in err


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["a"]), "must have real numbers in it, it has the type <U1"),
        (np.array([[1j]]), "must have real numbers"),
        (np.array([{}]), "has objects in it"),
        (np.zeros((0, 3)), "is empty, it has 0 rows and 3 columns"),
        (np.array([1.0, np.nan]), "entry 2: NaN is not a number"),
        (np.zeros((2, 2, 3)), "must be a square matrix, it has the shape (2, 2, 3)"),
    ],
)
def test_wrong_arrays(folder, capsys, array, message):
    np.save("given.npy", array)
    code, out, err = run(capsys, "prob", "--cov", "given.npy")
    assert (code, out) == (2, "")
    assert message in err


# Scores


def test_argmax(folder, capsys):
    Path("scores.csv").write_text("arm,red,green,blue\nmon,1.2,0.7,0.9\ntue,0,0,0\n")
    scores = [[1.2, 0.7, 0.9], [0.0, 0.0, 0.0]]
    code, out, _ = run(capsys, "argmax", "scores.csv", "--sigma", "1.5", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["classes"] == ["red", "green", "blue"]
    assert [row["row"] for row in answer["results"]] == ["mon", "tue"]
    found = [row["prob"] for row in answer["results"]]
    np.testing.assert_array_equal(found, mvnorth.prob_argmax(scores, 1.5))
    np.testing.assert_allclose(found[1], 1 / 3, rtol=1e-14)
    code, out, _ = run(capsys, "argmax", "scores.csv", "--sigma", "1,2,0", "--topk", "2")
    assert (code, out.splitlines()[0]) == (0, "probability to be among the 2 largest")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows[0] == ["row", "red", "green", "blue"]
    expected = mvnorth.prob_topk(scores, [1.0, 2.0, 0.0], 2)
    np.testing.assert_allclose([[float(x) for x in r[1:]] for r in rows[1:]], expected, atol=1e-8)


def test_argmax_with_expected_losses(folder, capsys):
    scores, sigma = [[1.2, 0.7, -20.0], [0.0, 0.0, 0.0]], [1.0, 2.0, 0.5]
    expected = mvnorth.expected_loss(scores, sigma)
    words = ["argmax", "1.2,0.7,-20;0,0,0", "--sigma", "1,2,0.5", "--loss"]
    found = results(capsys, *words)
    np.testing.assert_array_equal([row["loss"] for row in found], expected)
    np.testing.assert_array_equal(
        [row["prob"] for row in found], mvnorth.prob_argmax(scores, sigma)
    )
    code, out, _ = run(capsys, *words)
    lines = out.splitlines()
    place = lines.index("expected loss of choosing it")
    assert code == 0
    figures = [[float(x) for x in line.split()[1:]] for line in lines[place + 2 :]]
    np.testing.assert_allclose(figures, expected, rtol=1e-7)
    _, out, _ = run(capsys, "argmax", "0,-30", "--sigma", "1", "--loss")
    column = [float(line.split()[2]) for line in out.splitlines()[2:]]
    np.testing.assert_allclose(column, mvnorth.expected_loss([0.0, -30.0], 1.0), rtol=1e-7)
    assert 0.0 < column[0] < 1e-90
    assert "loss" not in results(capsys, "argmax", "0,-30", "--sigma", "1")[0]


def test_argmax_of_a_column_and_deviations_of_rows(folder, capsys):
    Path("column.csv").write_text("who,score\nann,1\nbob,2\ncid,0\n")
    expected = mvnorth.prob_argmax([1.0, 2.0, 0.0], [0.5, 1.0, 2.0])
    code, out, _ = run(capsys, "argmax", "column.csv", "--sigma", "0.5;1;2")
    assert code == 0
    lines = [line.split() for line in out.splitlines()[2:]]
    assert [line[0] for line in lines] == ["ann", "bob", "cid"]
    np.testing.assert_allclose([float(line[1]) for line in lines], expected, atol=1e-8)
    found = results(capsys, "argmax", "-1,2;0,0", "--sigma", "1;2")
    expected = mvnorth.prob_argmax([[-1.0, 2.0], [0.0, 0.0]], [[1.0], [2.0]])
    np.testing.assert_array_equal([row["prob"] for row in found], expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv", "--sigma", "1"], "SCORES none.csv: there is no such file"),
        (["1,2", "--sigma", "-1"], "--sigma -1 must be >= 0"),
        (["1,2", "--sigma", "1,2,3"], "it must be one number, 2 in a row, or a table"),
        (["1,2", "--sigma", "1", "--topk", "0"], "--topk must be at least 1, got 0"),
        (["inf,2", "--sigma", "1"], "SCORES inf,2 must be below infinity"),
        (["-", "--sigma", "-"], "can be given once only"),
        (["1,2"], "required: --sigma"),
    ],
)
def test_argmax_wrong(capsys, words, message):
    code, out, err = run(capsys, "argmax", *words)
    assert (code, out) == (2, "")
    assert message in err


# What the page in docs shows


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def same_text(found, shown):
    """Equal but for spaces, and numbers within what another machine may round differently."""
    assert NUMBER.sub("#", found).split() == NUMBER.sub("#", shown).split()
    figures = ([float(x) for x in NUMBER.findall(text)] for text in (found, shown))
    np.testing.assert_allclose(*figures, rtol=1e-6, atol=1e-9)


def test_outputs_on_the_page_are_real(folder, capsys, monkeypatch):
    page = (ROOT / "docs/command_line.md").read_text()
    blocks = re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)
    shown = [part for block in blocks for part in re.findall(r"\$ (.*)\n((?:[^$].*\n|\n)*)", block)]
    count = 0
    for command, output in shown:
        words = shlex.split(command)
        if words[0] == "cat" and "|" not in words:
            Path(words[1]).write_text(output)
            continue
        if "|" in words:
            monkeypatch.setattr(sys, "stdin", Stdin(Path(words[1]).read_bytes()))
            words = words[words.index("|") + 1 :]
        _, out, err = run(capsys, *words[1:])
        same_text(out + err, output)
        count += 1
    assert count == 16


# Student's t, quantiles and comparisons


def test_prob_of_student(folder, capsys):
    (found,) = results(capsys, "prob", "--cov", "cov.csv", "--upper", "0.5", "--df", "7")
    assert found["prob"] == mvnorth.box_prob(-np.inf, 0.5, 0.0, COV, df=7)
    words = ("prob", "--cov", "cov.csv", "--upper", "30", "--df", "7", "--complement")
    (found,) = results(capsys, *words)
    assert found["prob"] == mvnorth.box_prob(-np.inf, 30.0, 0.0, COV, df=7, complement=True)
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert out.startswith("event           Pr(not X <= upper), 3 coordinates")


def test_quantile(folder, capsys):
    words = ("quantile", "--cov", "cov.csv", "--p", "0.5,0.9", "--tail", "both", "--df", "9")
    found = results(capsys, *words)
    expected = mvnorth.quantile([0.5, 0.9], COV, tail="both", df=9)
    assert [row["quantile"] for row in found] == expected.quantile.tolist()
    assert [row["p"] for row in found] == [0.5, 0.9]
    assert run(capsys, *words)[0] == 0
    several = results(capsys, "quantile", "--cov", "cov.csv", "--p", "0.9", "--mean", "means.txt")
    assert [row["quantile"] for row in several] == pytest.approx(
        mvnorth.quantile(0.9, COV, mean=MEANS).quantile.tolist()
    )
    (tiny,) = results(capsys, "quantile", "--cov", "1", "--p", "1e-30", "--complement")
    assert tiny["quantile"] == pytest.approx(11.4640246)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--p", "1.5"), "--p 1.5 must be greater than 0 and less than 1"),
        (("--p", "0.5", "--df", "0"), "--df must be > 0"),
        (("--p", "0.1,0.2,0.3", "--mean", "means.txt"), "the numbers of problems differ"),
        (("--p", "0.5", "--cov", "1,2;2,1"), "must be positive semi-definite"),
        (("--p", "0.5", "--tail", "left"), "invalid choice: 'left'"),
    ],
)
def test_quantile_refuses(folder, capsys, words, message):
    code, out, err = run(capsys, "quantile", "--cov", "cov.csv", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_compare(folder, capsys):
    lines = ["dose;y;note", "0;1,5;a", "0;2,0;b", "10;3,5;c", "10;3,0;d", "20;2,5;e"]
    Path("doses.csv").write_text("\n".join(lines))
    words = ("compare", "doses.csv", "--group", "dose", "--value", "y", "--control", "10")
    code, out, _ = run(capsys, *words, "--json")
    found = json.loads(out, parse_constant=forbid)
    assert code == 0
    samples = {"0": [1.5, 2.0], "10": [3.5, 3.0], "20": [2.5]}
    expected = mvnorth.max_t(mvnorth.sample_contrasts(samples, control="10"))
    assert found["names"] == ["0 - 10", "20 - 10"]
    assert found["counts"] == {"0": 2, "10": 2, "20": 1}
    assert found["p_values"] == expected.p_values.tolist()
    Path("plain.txt").write_text("a 1\na 2\nb 4\nb 3\n")  # no names of columns
    code, out, _ = run(capsys, "compare", "plain.txt", "--kind", "sequence", "--json")
    assert json.loads(out)["estimates"] == [2.0]
    code, out, _ = run(capsys, "compare", "plain.txt", "--alternative", "less", "--json")
    assert json.loads(out)["lower"] == ["-Infinity"]


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("group,value\na,1\na,x\n", (), "line 3, column 2: 'x' is not a finite number"),
        ("group,value\na,1\na\n", (), "line 3: 1 entries, where line 1 has 2"),
        ("a\nb\n", (), "two columns are expected, group and value"),
        ("a,1\nb,2\n", (), "FILE must have a group with two observations"),
        ("a,1\na,2\n", (), "FILE must have shape (k,) with k >= 2 groups"),
        ("g,v\na,1\nb,2\n", ("--value", "w"), "--value w: FILE data.csv has no such column"),
        ("a,1\na,2\nb,2\n", ("--control", "c"), "--control must be one of a, b, got 'c'"),
        ("a,1\na,2\nb,2\n", ("--level", "95"), "--level must be greater than 0 and less than 1"),
        ("", (), "is empty"),
    ],
)
def test_compare_refuses(folder, capsys, text, words, message):
    Path("data.csv").write_text(text)
    code, out, err = run(capsys, "compare", "data.csv", *words)
    assert (code, out) == (2, "")
    assert message in err


# Information, and what surrounds the commands


def test_info(capsys, monkeypatch):
    monkeypatch.setenv("MVNORTH_NUM_THREADS", "3")
    monkeypatch.setattr(mvnorth._threads, "_threads", None)
    run(capsys, "argmax", "1,2", "--sigma", "1")  # compiles what is then in the cache
    code, out, _ = run(capsys, "info", "--json")
    found = json.loads(out, parse_constant=forbid)
    assert code == 0
    assert found["mvnorth"] == mvnorth.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert (found["threads"], found["threads_from"]) == (3, "MVNORTH_NUM_THREADS")
    assert found["cuda"]["available"] == mvnorth.device_info().available
    assert found["cache"]["kernels"] > 0
    assert all(Path(place).is_dir() for place in found["cache"]["folders"])
    code, out, _ = run(capsys, "info")
    assert code == 0
    assert "3 (from MVNORTH_NUM_THREADS)" in out
    assert found["cache"]["folders"][0] in out


def test_info_where_nothing_is_compiled(capsys, monkeypatch):
    empty = {"folders": ["/nowhere"], "kernels": 0, "bytes": 0}
    monkeypatch.setattr(_environment, "_cache", lambda: empty)
    assert "no kernel is compiled yet" in run(capsys, "info")[1]


def test_demo_prints_a_table(capsys):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.endswith("x")]
    assert len(lines) == 6
    assert "0.333333" in printed
    assert "1.70394e-24" in printed


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert (code, out) == (0, f"mvnorth {mvnorth.__version__}\n")


def test_warmup(capsys):
    code, out, err = run(capsys, "warmup", "special", "argmax")
    assert (code, out) == (0, "")
    groups = [line.split()[0] for line in err.splitlines()]
    assert groups == ["argmax", "special"]
    assert "functions compiled in" in err


def test_warmup_of_an_unknown_group(capsys):
    code, _, err = run(capsys, "warmup", "sepcial")
    assert code == 2
    assert err.startswith("mvnorth: GROUP must be among orthant, ")
    assert err.endswith("got 'sepcial'\n")


def test_warnings_are_lines_on_standard_error(capsys, monkeypatch):
    def warns(*args, **kwargs):
        warnings.warn("no cache", RuntimeWarning, stacklevel=1)
        return 0.5 * np.ones(2)

    monkeypatch.setattr(cli.mvnorth, "prob_topk", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = run(capsys, "argmax", "1,2", "--sigma", "1")
    assert (code, err) == (0, "mvnorth: no cache\n")


def test_compiling_is_said_on_a_terminal(capsys, monkeypatch):
    def compiles(*args, **kwargs):
        logging.getLogger("mvnorth").info("compiling kernels")
        return 0.5 * np.ones(2)

    monkeypatch.setattr(cli.mvnorth, "prob_topk", compiles)
    assert run(capsys, "argmax", "1,2", "--sigma", "1")[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(capsys, "argmax", "1,2", "--sigma", "1")[2] == "mvnorth: compiling kernels\n"


def test_unknown_command(capsys):
    code, _, err = run(capsys, "nonsense")
    assert code == 2
    assert "nonsense" in err


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "mvnorth: interrupted\n"),
        (MemoryError(), 2, "not enough memory"),
        (ZeroDivisionError(), 70, "Traceback"),
    ],
)
def test_exit_codes_of_failures(capsys, monkeypatch, raised, code, message):
    def fails(*args, **kwargs):
        raise raised

    monkeypatch.setattr(cli.mvnorth, "box", fails)
    found = run(capsys, "prob", "--cov", "1")
    assert found[0] == code
    assert message in found[2]


def spawn(*arguments, **options):
    command = [sys.executable, "-m", "mvnorth", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT}
    return subprocess.Popen(command, **{**pipes, **options})


def test_a_pipe_that_is_closed_is_no_error():
    process = spawn("info", "--json")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said():
    with open("/dev/full", "w") as full:
        process = spawn("prob", "--cov", "1", stdout=full)
        _, err = process.communicate()
    assert process.returncode == 2
    assert err == b"mvnorth: No space left on device\n"


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_interrupt_may_end_a_kernel_at_work(capsys, monkeypatch, before):
    """Python acts on signals between its own steps only; background jobs ignore this one."""
    seen = []

    def looks(*args, **kwargs):
        seen.append(signal.getsignal(signal.SIGINT))
        raise ValueError("cov is looked at")

    monkeypatch.setattr(cli.mvnorth, "box", looks)
    kept = signal.signal(signal.SIGINT, before)
    try:
        assert run(capsys, "prob", "--cov", "1")[2] == "mvnorth: --cov 1 is looked at\n"
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, kept)
    assert seen == [signal.SIG_IGN if before is signal.SIG_IGN else signal.SIG_DFL]


def test_help_imports_neither_numba_nor_scipy_stats():
    code = (
        "import sys\nfrom mvnorth.cli import main\ntry:\n    main(['prob', '--help'])\n"
        "except SystemExit:\n    pass\nsys.exit('numba' in sys.modules or 'scipy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True)
    assert run.returncode == 0
