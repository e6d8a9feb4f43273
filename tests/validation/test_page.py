"""The page of the reports: one file, right in a browser, and the same numbers beside it."""

import csv
import json
import re

import pytest
from support import browser

from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.page.files import write
from validation.page.html import page

FACTS = {"date": "2030-01-02", "machine": "a very " + "long " * 40 + "name"}


def picture(title):
    figure, ax = axes(log="xy", xlabel="points", ylabel="error", title="a title")
    ax.plot([1, 10, 100], [1.0, 0.1, 0.02], "o-", label="genz")
    ax.plot([1, 10, 100], [1.0, 0.2, 0.04], "k--", label="fitted")
    ax.legend()
    return Picture(title, figure, Table("", ["n", "error"], [[1, 1.0], [10, 0.1]]), "A caption.")


@pytest.fixture
def sections():
    wide = Table(
        "A wide table",
        [f"column {n}" for n in range(30)],
        [[1.23456789e-7 * n for n in range(30)]],
        "With a note.",
    )
    numbers = Table(
        "Numbers & words",
        ["name", "value", "whether"],
        [["a < b", float("inf"), True], ["none", None, False], ["minus", -1.5, True]],
    )
    return {
        "first": Section(
            "First",
            [
                Text("Some `code`, a [link](https://example.org) and x < y."),
                picture("One picture"),
                picture("Another picture"),
                wide,
                Check("The claim holds.", True, "found 1"),
                NotRun("ImageNet", "no files", "exact-torch train x"),
                Section("Inside", [numbers, picture("Third picture")]),
            ],
        ),
        "second": Section("Second", [Check("This fails.", False, "found 7")]),
    }


def test_everything_is_in_the_page(sections):
    text = page("A title", FACTS, sections)
    for part in ("Some <code>code</code>", 'href="https://example.org"', "x &lt; y", "a &lt; b"):
        assert part in text
    assert "1 of 2 checks do not hold" in text
    assert text.count("<svg") == 3
    assert "does not hold</b> <span>This fails." in text
    assert "exact-torch train x" in text
    assert "−1.5" in text  # noqa: RUF001


def test_nothing_is_fetched(sections):
    text = page("A title", FACTS, sections)
    assert not re.findall(r'(?:src|href)="(?!#|data:|https://example\.org)[^"]*"', text)
    assert "@import" not in text
    assert "<script" not in text


def test_ids_of_figures_are_kept_apart(sections):
    text = page("A title", FACTS, sections)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for used in re.findall(r'(?:href="#|url\(#)([^")]+)', text):
        assert used in ids


def test_all_checks_hold(sections):
    del sections["second"]
    assert "All 1 checks hold" in page("A title", FACTS, sections)


def test_files_have_the_same_numbers(sections, tmp_path):
    written = write(tmp_path, "index", "A title", FACTS, sections)
    assert written == tmp_path / "index.html"
    with (tmp_path / "first" / "numbers-words.csv").open() as file:
        assert list(csv.reader(file))[1:] == [
            ["a < b", "inf", "True"],
            ["none", "", "False"],
            ["minus", "-1.5", "True"],
        ]
    told = json.loads((tmp_path / "index.json").read_text())
    assert told["run"] == FACTS
    first = told["reports"]["first"]
    assert first["tables"]["numbers-words.csv"]["rows"][2] == ["minus", -1.5, True]
    assert first["tables"]["one-picture.csv"]["header"] == ["n", "error"]
    assert first["not_run"][0]["command"] == "exact-torch train x"
    assert told["reports"]["second"]["checks"][0]["holds"] is False


def test_tables_of_one_title_have_files_of_their_own(tmp_path):
    table = Table("Same", ["x"], [[1]])
    write(tmp_path, "index", "A title", FACTS, {"a": Section("A", [table, table])})
    write(tmp_path, "index", "A title", FACTS, {"a": Section("A", [table, table])})
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["same-2.csv", "same.csv"]


@pytest.mark.skipif(browser.PROGRAM is None, reason="chromium is not installed")
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser(sections, tmp_path, dark):
    found = browser.look(write(tmp_path, "index", "A title", FACTS, sections), dark=dark)
    assert found["console"] == []
    assert found["scroll"] <= found["width"] == 390
    assert len(found["figures"]) == 3
    assert all(200 < width < 390 and height > 100 for width, height in found["figures"])
    assert found["missing"] == found["links"] == 0
    light, deep = "rgb(255, 255, 255)", "rgb(15, 20, 25)"
    assert found["paper"] == (deep if dark else light)


def test_a_page_without_checks_says_so():
    assert "No check was run" in page("A title", FACTS, {"a": Section("A", [Text("x")])})


def test_only_tables_are_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine.py").touch()
    write(tmp_path, "index", "A title", FACTS, {"a": Section("A", [])})
    assert (tmp_path / "a" / "mine.py").exists()
