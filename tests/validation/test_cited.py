"""The file of cited figures: what ``update`` writes can be read again."""

import json

from validation import cited


def test_a_new_table_of_a_benchmark_can_be_loaded_again(tmp_path, monkeypatch):
    run = {
        "benchmark": "expected_max",
        "commit": "abc1234",
        "time": "2026-01-02T03:04:05",
        "machine": "one",
        "tables": [{"cite": "new-table", "header": ["d", "a second"], "rows": [[3, 1.5]]}],
    }
    measured, file, pages = tmp_path / "run.json", tmp_path / "cited.json", tmp_path / "docs"
    measured.write_text(json.dumps(run) + "\n")
    file.write_text("[]\n")
    pages.mkdir()
    (pages / "page.md").write_text("<!-- cited: new-table -->\n<!-- end -->\n")
    monkeypatch.setattr(cited, "FILE", file)
    monkeypatch.setattr(cited, "PAGES", pages)
    monkeypatch.setattr(cited.write_pages, "__defaults__", (pages,))
    monkeypatch.setattr(cited.entries, "__defaults__", (file,))
    assert cited.main(["update", str(measured)]) == 0
    (entry,) = cited.entries(file)
    assert (entry.name, entry.page, entry.title) == ("new-table", "page.md", "")
    assert "1.5" in (pages / "page.md").read_text()
    assert cited.main(["write"]) == 0
