"""Measured figures of the docs: all come from validation/results/cited.json."""

import json
from pathlib import Path

import pytest

from validation import cited

ROOT = Path(__file__).parents[1]
ENTRIES = cited.entries()
PAGES = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}


def name_of(entry):
    return entry.name


def test_names_are_unique():
    assert len({each.name for each in ENTRIES}) == len(ENTRIES) > 0


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_every_entry_is_cited_by_its_page(entry):
    assert entry.command
    assert entry.date
    assert entry.machine
    assert entry.rows or entry.sentences
    assert all(len(row) == len(entry.header) for row in entry.rows)
    page = PAGES[entry.page]
    if entry.rows:
        assert entry.name in cited.blocks(page)
    assert cited.missing_sentences(entry, cited.without_blocks(page)) == []
    assert cited.unsupported(entry) == []


@pytest.mark.parametrize("name", PAGES)
def test_blocks_are_written_from_the_file(name):
    assert cited.fill(PAGES[name], {each.name: each for each in ENTRIES}) == PAGES[name]
    opened = PAGES[name].count("<!-- cited:")
    assert opened == PAGES[name].count("<!-- end -->") == len(cited.blocks(PAGES[name]))


def test_results_are_one_small_file():
    assert [path.name for path in cited.FILE.parent.iterdir()] == [cited.FILE.name]
    text = cited.FILE.read_text(encoding="utf-8")
    assert text == cited.dump(ENTRIES)
    assert len(text.splitlines()) < 2000
    assert len(text.encode()) < 150_000


def entry(**fields):
    known = {"name": "speed", "page": "p.md", "title": "Speed", "command": "run", "commit": "abc"}
    return cited.Entry(**{**known, "date": "2026-01-01", "machine": "one", **fields})


def test_a_changed_cell_is_noticed():
    stored = entry(header=["d", "|error|"], rows=[[3, -2.5], ["four", None]])
    page = cited.fill("a\n<!-- cited: speed -->\n<!-- end -->\nb", {"speed": stored})
    assert "| 3 | \N{MINUS SIGN}2.5 |" in page
    assert r"| d | \|error\| |" in page
    assert "| four |  |" in page
    assert "`run`, commit abc, 2026-01-01" in page
    changed = entry(header=["d", "|error|"], rows=[[3, -2.6], ["four", None]])
    assert cited.fill(page, {"speed": stored}) == page
    assert cited.fill(page, {"speed": changed}) != page
    with pytest.raises(ValueError, match="speed"):
        cited.fill(page, {})


def test_sentences_are_looked_for_in_the_page_and_the_table():
    stored = entry(header=["a"], rows=[["12.25 times"]], sentences=["12.3 times as\nfast"])
    assert cited.missing_sentences(stored, "It is 12.3 times as fast.") == []
    assert cited.missing_sentences(stored, "It is 12.4 times as fast.") == list(stored.sentences)
    assert cited.unsupported(stored) == []
    assert cited.unsupported(entry(rows=[["12.4"]], sentences=["12.3 times"])) == ["12.3 times"]
    assert cited.unsupported(entry(rows=[["1e-3"]], sentences=["2e-3"])) == ["2e-3"]


def test_a_report_replaces_its_entries(tmp_path):
    report = {
        "run": {"scale": "full", "date": "2026-02-02", "machine and versions": "m", "commit": "d"},
        "reports": {
            "speed": {
                "tables": {
                    "a.csv": {"title": "A", "header": ["x"], "rows": [[2]], "cite": "speed"},
                    "b.csv": {"title": "B", "header": ["x"], "rows": [[2]], "cite": ""},
                    "c.csv": {
                        "title": "C",
                        "header": ["x"],
                        "rows": [[3]],
                        "cite": "new",
                        "commits": ["e", "f"],
                    },
                }
            }
        },
    }
    old = entry(header=["x"], rows=[[1]], sentences=["one"]), entry(name="other", sentences=["z"])
    first, second, third = cited.update(report, old)
    assert (first.name, first.rows, first.page, first.sentences) == (
        "speed",
        [[2]],
        "p.md",
        ["one"],
    )
    assert (first.commit, first.date) == ("d", "2026-02-02")
    assert first.command == "python -m validation --full"
    assert second == old[1]
    assert (third.name, third.page, third.commit) == ("new", "validation.md", "e, f")
    file = tmp_path / "cited.json"
    file.write_text(cited.dump([first, second, third]))
    assert cited.entries(file) == json_round([first, second, third])


def json_round(stored):
    """Entries as JSON returns them: lists in place of tuples, and no empty fields."""
    return [
        cited.Entry(**{k: v for k, v in json.loads(json.dumps(vars(each))).items() if v})
        for each in stored
    ]
