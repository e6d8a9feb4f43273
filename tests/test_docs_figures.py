"""Measured figures of the docs: all come from validation/results/cited.json."""

import json
import re
from pathlib import Path

import pytest

from validation import cited, reports

ROOT = Path(__file__).parents[1]
ENTRIES = cited.entries()
PAGES = {
    page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))
}


# Times, rates, ratios, means with an error, counts of runs, and gains: what only a run can tell.
MEASURED = re.compile(
    r"\d ?(?:ns|µs|ms|seconds|minutes|MB|kB)\b|\d(?: \w+)?/s\b|± ?\d"
    r"|\btimes as (?:fast|long|accurate)"
    r"|\b\d[\d,]* of (?:the )?[\d,]+ (?:claims|runs|problems|sets|entries|pairs|examples)"
    r"|\bnone of [\d,]+|\d points (?:ahead|behind|of accuracy)|\b(?:gain|lose|lost)\w* [\d.]+"
)
NOT_MEASURED = {
    "exact.md": ["Scores to ±1e6"],
    "gauss.md": ["The table has 570 kB"],
    "losses.md": ["logits up to ±1e4"],
    "one_factor.md": ["mixtures of ±30"],
}
COMPUTED = {"gpu.md": "counted in machine code", "probit.md": "printed by the code of the page"}
NUMBER = re.compile(
    r"[<>+\N{MINUS SIGN}-]? ?\d[\d.,\u202f ]*(?:e[-\N{MINUS SIGN}]?\d+)?(?: ?\S{1,2})?"
)


def without_code(page):
    return re.sub(r"```.*?```", "", cited.without_blocks(page), flags=re.DOTALL)


@pytest.mark.parametrize("name", sorted(PAGES.keys() - COMPUTED.keys()))
def test_measured_sentences_are_in_the_file(name):
    text = " ".join(without_code(PAGES[name]).split())
    for each in ENTRIES:
        for sentence in each.sentences if each.page == name else ():
            text = text.replace(" ".join(sentence.split()), "")
    for fragment in NOT_MEASURED.get(name, ()):
        assert fragment in text
        text = text.replace(fragment, "")
    found = [text[max(0, m.start() - 60) : m.end() + 20] for m in MEASURED.finditer(text)]
    assert found == []


@pytest.mark.parametrize("name", sorted(PAGES.keys() - COMPUTED.keys()))
def test_tables_of_numbers_are_in_the_file(name):
    for table in re.findall(r"(?:^\|.*\n)+", without_code(PAGES[name]), flags=re.MULTILINE):
        header, _, *rows = table.splitlines()
        cells = [cell.strip(" *") for row in rows for cell in row.strip("|").split("|")]
        numbers = sum(NUMBER.fullmatch(cell) is not None for cell in cells)
        assert numbers < 0.5 * len(cells), header


@pytest.mark.parametrize(
    "sentence",
    ["It takes 3 ms.", "It is 2 times as fast.", "98.1 ± 0.2 %", "2 of 30 runs", "700/s"],
)
def test_a_measured_sentence_is_recognised(sentence):
    assert MEASURED.search(sentence)


def name_of(entry):
    return entry.name


def test_names_are_unique():
    assert len({each.name for each in ENTRIES}) == len(ENTRIES) > 0


@pytest.mark.parametrize("entry", ENTRIES, ids=name_of)
def test_every_entry_is_cited_by_its_page(entry):
    assert entry.command
    assert entry.date
    assert entry.machine
    assert entry.rows or entry.text or entry.sentences
    assert all(len(row) == len(entry.header) for row in entry.rows)
    page = PAGES[entry.page]
    if entry.rows or entry.text:
        assert entry.name in cited.blocks(page)
    assert cited.missing_sentences(entry, cited.without_blocks(page)) == []
    assert cited.unsupported(entry) == []


@pytest.mark.parametrize("name", PAGES)
def test_blocks_are_written_from_the_file(name):
    assert cited.fill(PAGES[name], {each.name: each for each in ENTRIES}) == PAGES[name]
    lines = PAGES[name].splitlines()
    opened = sum(line.startswith("<!-- cited:") for line in lines)
    assert opened == lines.count("<!-- end -->") == len(cited.blocks(PAGES[name]))


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
    stored = entry(header=["d", "|error|"], rows=[[3, -2.5], ["four", None], [2.1e-16, 12.5]])
    page = cited.fill("a\n<!-- cited: speed -->\n<!-- end -->\nb", {"speed": stored})
    assert "| 3 | \N{MINUS SIGN}2.5 |" in page
    assert r"| d | \|error\| |" in page
    assert "| four |  |" in page
    assert "| 2.1e\N{MINUS SIGN}16 | 12.5 |" in page
    assert "`run`, commit abc, 2026-01-01" in page
    changed = entry(header=["d", "|error|"], rows=[[3, -2.6], ["four", None]])
    assert cited.fill(page, {"speed": stored}) == page
    assert cited.fill(page, {"speed": changed}) != page
    assert cited.fill(page, {}) == "a\n<!-- cited: speed -->\n<!-- end -->\nb"


def test_sentences_are_looked_for_in_the_page_and_the_table():
    stored = entry(header=["a"], rows=[["12.25 times"]], sentences=["12.3 times as\nfast"])
    assert cited.missing_sentences(stored, "It is 12.3 times as fast.") == []
    assert cited.missing_sentences(stored, "It is 12.4 times as fast.") == list(stored.sentences)
    assert cited.unsupported(stored) == []
    assert cited.unsupported(entry(rows=[["12.4"]], sentences=["12.3 times"])) == ["12.3 times"]
    assert cited.unsupported(entry(rows=[["1e-3"]], sentences=["2e-3"])) == ["2e-3"]


REPORT = {
    "run": {"scale": "full", "date": "2026-02-02", "machine and versions": "m", "commit": "d"},
    "findings": [
        {"report": "r", "section": "r", "claim": "c", "published": "1", "ours": "2", "verdict": "v"}
    ],
    "reports": {
        "r": {
            "title": "Report",
            "answer": "It is 2.",
            "commits": ["e", "f"],
            "computed": [
                {"commit": "e", "date": "2026-01-31"},
                {"commit": "f", "date": "2026-02-01"},
            ],
            "sections": {
                "r-part": {"title": "Part", "answer": "It is 3."},
                "r-open": {"title": "Open", "answer": "Not computed yet."},
            },
            "not_run": [{"what": "1 of 2 tasks.", "why": "Not stored."}],
            "tables": {
                "a.csv": {"title": "A", "header": ["x"], "rows": [[2]], "cite": "speed"},
                "b.csv": {"title": "B", "header": ["x"], "rows": [[2]]},
                "c.csv": {"title": "C", "header": ["x"], "rows": [[3.123456789]], "cite": "new"},
                "d.csv": {"title": "D", "header": ["x"], "rows": [[3]], "cite": "nobody"},
            },
        }
    },
}


def page_with(*names):
    return "".join(f"<!-- cited: {name} -->\n<!-- end -->\n" for name in names)


def test_a_report_replaces_what_pages_cite(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "REPORTS", {"r": None})
    old = [
        entry(header=["x"], rows=[[1]], sentences=["one"]),
        entry(name="other", sentences=["z"]),
        entry(name="left", header=["x"], rows=[[1]]),
    ]
    pages = {
        "q.md": page_with("speed"),
        "p.md": page_with("new", "findings", "answer-r-part", "answer-r-open"),
    }
    file = tmp_path / "index.json"
    file.write_text(json.dumps(REPORT))
    found = {each.name: each for each in cited.update(cited.read(file), old, pages)}
    assert set(found) == {"speed", "other", "new", "findings", "answer-r-part"}
    speed = found["speed"]
    assert (speed.rows, speed.page, speed.sentences) == ([[2]], "q.md", ["one"])
    assert (speed.commit, speed.date) == ("e, f", "2026-02-01")
    assert speed.command == "python -m validation --full"
    assert found["other"] == old[1]
    assert (found["new"].page, found["new"].rows) == ("p.md", [[3.1235]])
    assert found["findings"].rows == [["c", "1", "2", "v"]]
    page = cited.fill(pages["p.md"], found)
    assert "It is 3. <small>" in page
    assert "<!-- cited: answer-r-open -->\n<!-- end -->" in page
    assert cited._incomplete(file) == ["r is incomplete, without 1 of 2 tasks."]
    file.write_text(cited.dump(list(found.values())))
    assert cited.entries(file) == [through_json(each) for each in found.values()]


def test_some_reports_do_not_replace_the_findings(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "REPORTS", {"r": None, "s": None})
    file = tmp_path / "r.json"
    file.write_text(json.dumps(REPORT))
    found = {each.name: each for each in cited.read(file)}
    assert "findings" not in found
    assert found["speed"].command == "python -m validation r --full"


def test_numbers_have_the_format_of_the_page():
    text = cited.render(
        entry(
            header=["1 - P", "p", "x"],
            rows=[["`a - 1`: -log P", 2.5e-5, 98.333], ["a|b", 0.5, 7.5], ["c", None, -1.25]],
        )
    )
    rows = [
        "| 1 \N{MINUS SIGN} P | p | x |",
        "|---|---|---|",
        "| `a - 1`: \N{MINUS SIGN}log P | 2.5e\N{MINUS SIGN}5 | 98.33 |",
        "| a\\|b | 0.5 | 7.50 |",
        "| c |  | \N{MINUS SIGN}1.25 |",
    ]
    assert text.splitlines()[:5] == rows


def test_a_benchmark_replaces_its_entries(tmp_path):
    table = {"cite": "speed", "header": ["x"], "rows": [["2"]]}
    run = {"benchmark": "calls", "time": "2026-03-03T10:00:00", "machine": "m", "results": []}
    file = tmp_path / "runs.json"
    lines = [run, {**run, "commit": "abc", "tables": [table]}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    old = [entry(header=["x"], rows=[["1"]])]
    (found,) = cited.update(cited.read(file), old, {"p.md": page_with("speed")})
    assert found.rows == [["2"]]
    assert (found.page, found.commit, found.date) == ("p.md", "abc", "2026-03-03")
    assert found.command == "python -m validation.benchmarks.calls"


def through_json(stored):
    """Return an entry as JSON returns it: lists in place of tuples, and no empty fields."""
    return cited.Entry(**{k: v for k, v in json.loads(json.dumps(vars(stored))).items() if v})
