"""The page of the reports: one file, right in a browser, and the same numbers beside it."""

import csv
import json
import re

import pytest
from support import browser

from validation.page import (
    Check,
    Finding,
    NotRun,
    Origin,
    Page,
    Picture,
    Section,
    Table,
    Text,
    axes,
)
from validation.page.files import write
from validation.page.html import write_page
from validation.page.opening import SHOWN

FACTS = {"date": "2030-01-02", "commit": "abc1234", "machine": "a very " + "long " * 40 + "name"}
needs_browser = pytest.mark.skipif(browser.PROGRAM is None, reason="chromium is not installed")


def picture(title):
    figure, ax = axes(log="xy", xlabel="points", ylabel="error", title="a title")
    ax.errorbar([1, 10, 100], [1.0, 0.1, 0.02], yerr=0.01, fmt="o-", label="genz")
    ax.plot([1, 10, 100], [1.0, 0.2, 0.04], "k--", label="fitted")
    ax.legend()
    return Picture(title, figure, Table("", ["n", "error"], [[1, 1.0], [10, 0.1]]), "A caption.")


def long_table(rows=30):
    cells = [[f"name {n}", (7 * n) % rows, 10.0 ** -(n % 5)] for n in range(rows)]
    return Table("A long table", ["name", "number", "size"], [*cells, ["nothing", None, None]])


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
        cite="words",
    )
    return {
        "first": Section(
            "First",
            [
                Text("Some `code`, a [link](https://example.org) and x < y."),
                Finding("Water is wet.", "wet (table 1)", "-3.1 (-4 to -2.2)", "holds"),
                picture("One picture"),
                picture("Another picture"),
                wide,
                Check("The claim holds.", True, "found 1"),
                NotRun("ImageNet", "no files", "exact-torch train x"),
                Section(
                    "Inside",
                    [
                        numbers,
                        picture("Third picture"),
                        Finding("Fire is cold.", "", "900 degrees (± 20)", "does not hold"),
                        Section("Deep inside", [long_table()]),
                    ],
                    "What came out of it.",
                ),
                Section("Inside", [Finding("Both.", "x", "y", "not decided")]),
            ],
            "The first answer.",
            [Origin("abc1234", "2030-01-01", 12, 90.0), Origin("def5678", "2030-01-02", 1, 3.0)],
        ),
        "second": Section("Second", [Check("This fails.", False, "found 7")]),
    }


@pytest.fixture
def made(sections):
    return Page("A title", ["What it is.", "How much."], sections, FACTS, ["first", "second"])


def test_everything_is_in_the_page(made):
    text = write_page(made)
    for part in ("Some <code>code</code>", 'href="https://example.org"', "x &lt; y", "a &lt; b"):
        assert part in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "1 of 2 checks passed, 1 failed" in text
    assert text.count("<svg") == 3
    assert "exact-torch train x" in text
    assert "−1.5" in text  # noqa: RUF001
    assert "What came out of it." in text
    assert text.count("The first answer.") == 2  # on the first screen and above the section


def test_checks_come_after_the_answers_and_before_the_findings(made):
    text = write_page(made)
    order = [text.index(f"<{tag}") for tag in ("dl class=answers", "details class=status", "table")]
    assert order == sorted(order)
    assert "interval lies above 0" in text


def test_the_page_names_the_commits(made):
    text = write_page(made)
    first = "commit <code>abc1234</code> on <span class=date>2030-01-01</span>"
    assert f"Computed at {first} (12 tasks, 1.5 core-minutes)" in text
    assert (
        "commit <code>def5678</code> on <span class=date>2030-01-02</span> (1 task, 3.0 s)" in text
    )
    assert "not committed" not in text
    foot = text[text.index('id="run"') :]
    written = "written at commit <code>abc1234</code> on <span class=date>2030-01-02</span>"
    assert written in foot


def test_the_page_says_if_a_commit_is_not_all():
    section = Section("A", [], "", [Origin("abc1234+", "2030-01-01", 1, 3.0)])
    assert "changes that were not committed" in write_page(
        Page("A title", [], {"a": section}, FACTS)
    )


def test_nothing_is_fetched(made):
    text = write_page(made)
    assert not re.findall(r'(?:src|href)="(?!#|data:|https://example\.org)[^"]*"', text)
    script, style = (
        re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1] for tag in ("script", "style")
    )
    assert not re.search(r"@import|url\(", style)
    assert not re.search(r"\b(?:fetch|import|XMLHttpRequest|WebSocket|http)", script)


def test_ids_are_unique_and_links_have_a_target(made):
    text = write_page(made)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for used in re.findall(r'(?:href="#|url\(#)([^")]+)', text):
        assert used in ids
    assert {"first", "first-inside", "first-inside-2", "first-deep-inside", "second"} <= set(ids)


def test_every_finding_is_on_the_first_screen(made):
    text = write_page(made)
    table = text[text.index("<table class=findings>") : text.index("</table>")]
    claims = re.findall(r'<td class=claim><a href="#([^"]+)">([^<]+)', table)
    assert claims == [
        ("first", "Water is wet."),
        ("first-inside", "Fire is cold."),
        ("first-inside-2", "Both."),
    ]
    for sign, verdict in (("✓", "holds"), ("✗", "does not hold"), ("?", "not decided")):
        assert f">{sign}</span> {verdict}</span>" in table
    assert "−3.1 (−4 to −2.2)" in table  # noqa: RUF001
    assert "1 holds, 1 does not hold, 1 not decided" in text


def test_the_first_findings_of_each_report_are_shown_and_others_folded():
    def section(name, count):
        return Section(name, [Finding(f"{name} {n}.", "", "1", "holds") for n in range(count)])

    reports = {
        name: section(name.upper(), count) for name, count in zip("abcd", (5, 2, 5, 1), strict=True)
    }
    text = write_page(Page("A title", [], reports, FACTS))
    shown, folded = text[: text.index('id="a"')].split("<details class=more>")
    claims = [re.findall(r">([A-D] \d)\.", part) for part in (shown, folded)]
    assert claims == [
        ["A 0", "A 1", "A 2", "B 0", "B 1", "C 0", "C 1", "C 2"],
        ["A 3", "A 4", "C 3", "C 4", "D 0"],
    ]
    assert "5 more findings <span class=count>5 hold" in folded


def test_few_findings_are_all_shown():
    findings = [Finding(f"Claim {n}.", "", "1", "holds") for n in range(SHOWN + 1)]
    text = write_page(Page("A title", [], {"a": Section("A", findings)}, FACTS))
    assert "<details class=more>" not in text
    assert text[: text.index('id="a"')].count("Claim ") == SHOWN + 1


def test_checks_that_fail_are_named_first(made, sections):
    text = write_page(made)
    assert '<a href="#second">Second</a>: This fails.' in text[: text.index('id="first"')]
    del sections["second"]
    sections["first"] = Section("First", [Check("It holds.", True, "")] * 5)
    text = write_page(made)
    assert "All 5 checks passed" in text
    assert "5 checks passed</summary>" in text  # folded


def test_long_tables_are_folded():
    text = write_page(
        Page("A title", [], {"a": Section("A", [long_table(), long_table(5)])}, FACTS)
    )
    assert text.count("<details class=rows>") == 1
    assert "<b>A long table</b> <span class=count>31 rows</span>" in text


def test_files_have_the_same_numbers(made, tmp_path):
    written = write(tmp_path, "index", made)
    assert written == tmp_path / "index.html"
    with (tmp_path / "first" / "numbers-words.csv").open() as file:
        assert list(csv.reader(file))[1:] == [
            ["a < b", "inf", "True"],
            ["none", "", "False"],
            ["minus", "-1.5", "True"],
        ]
    content = json.loads((tmp_path / "index.json").read_text())
    assert content["run"] == FACTS
    first = content["reports"]["first"]
    assert first["tables"]["numbers-words.csv"]["rows"][2] == ["minus", -1.5, True]
    assert first["tables"]["numbers-words.csv"]["cite"] == "words"
    assert first["tables"]["one-picture.csv"]["header"] == ["n", "error"]
    assert first["tables"]["one-picture.csv"]["title"] == "One picture"
    assert first["not_run"][0]["command"] == "exact-torch train x"
    assert content["reports"]["second"]["checks"][0]["holds"] is False


def test_files_have_findings_answers_and_commits(made, tmp_path):
    write(tmp_path, "index", made)
    content = json.loads((tmp_path / "index.json").read_text())
    assert [each["section"] for each in content["findings"]] == [
        "first",
        "first-inside",
        "first-inside-2",
    ]
    assert content["findings"][0]["verdict"] == "holds"
    assert content["findings"][0]["report"] == "first"
    first = content["reports"]["first"]
    assert first["answer"] == "The first answer."
    assert first["sections"]["first-inside"]["answer"] == "What came out of it."
    assert first["commits"] == ["abc1234", "def5678"]
    assert first["computed"][0] == {
        "commit": "abc1234",
        "date": "2030-01-01",
        "tasks": 12,
        "seconds": 90.0,
    }


def test_tables_of_one_title_have_files_of_their_own(tmp_path):
    table = Table("Same", ["x"], [[1]])
    page = Page("A title", [], {"a": Section("A", [table, table])}, FACTS)
    write(tmp_path, "index", page)
    write(tmp_path, "index", page)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["same-2.csv", "same.csv"]


def test_a_page_without_checks_says_so():
    page = Page("A title", [], {"a": Section("A", [Text("x")])}, FACTS)
    assert "No check was run" in write_page(page)


def test_only_tables_are_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "mine.py").touch()
    write(tmp_path, "index", Page("A title", [], {"a": Section("A", [])}, FACTS))
    assert (tmp_path / "a" / "mine.py").exists()


# Colours as a browser has them, and the ratio of luminances that WCAG 2 asks to be at least 4.5.
CONTRAST = """
  const channel = c => (c /= 255, c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = x => inside.defaultView.getComputedStyle(x);
  const solid = x => /, 0\\)$/.test(style(x).backgroundColor) && x.parentElement
    ? solid(x.parentElement) : style(x).backgroundColor;
  const contrast = x => {
    const [a, b] = [light(style(x).color), light(solid(x))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const samples = ["p", ".soft", ".verdict.good", ".verdict.bad", ".verdict.wait", ".note", "dd",
    ".findings .claim a", ".findings th", ".origin", ".words p", ".count", "nav.side a", "code"];
  const contrasts = Object.fromEntries(samples.map(x => [x, contrast(one(x))]));
"""


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_in_a_browser(made, tmp_path, width, dark):
    steps = f"""{CONTRAST}
      const folded = {{ side: shown("nav.side"), menu: shown("details.menu"),
        answer: shown("#first > summary .answer"), figures: shown("figure svg") }};
      one("[data-fold=open]").click();
      for (const each of all("details.rows")) each.open = true;
      await pause();
      return {{ contrasts, folded, page: inside.documentElement.scrollWidth,
        boxes: all(".scroll").map(box => [box.getBoundingClientRect().right, box.scrollWidth >
          box.clientWidth + 1, box.previousElementSibling.matches(".hint.needed")]),
        figures: all("figure").map(x => x.getBoundingClientRect())
          .map(x => [x.left, x.top, x.width, x.height]),
        drawn: all("figure svg").map(x => x.getBoundingClientRect().width),
        text: Math.min(...all("figure svg text").map(x => x.getBoundingClientRect().height)) }};
    """
    found = browser.look(write(tmp_path, "index", made), width, dark, steps)
    assert found["console"] == []
    assert found["missing"] == found["links"] == 0
    assert found["paper"] == ("rgb(15, 20, 25)" if dark else "rgb(255, 255, 255)")
    seen = found["steps"]
    assert seen["folded"] == {
        "side": width >= 1100,
        "menu": width < 1100,
        "answer": True,
        "figures": False,
    }
    assert min(seen["contrasts"].values()) >= 4.5, seen["contrasts"]
    assert found["scroll"] <= found["width"] == width
    assert seen["page"] <= width  # with everything open
    for right, scrolls, hinted in seen["boxes"]:
        assert right <= width
        assert scrolls == hinted
    assert any(hinted for _, _, hinted in seen["boxes"])
    first, second, third = seen["figures"]
    if width == 390:
        assert all(drawn >= 340 for drawn in seen["drawn"])
    else:
        assert first[1] == second[1]  # beside each other
        assert first[2] == second[2] > 0.3 * width
        assert third[2] > 1.9 * first[2]  # the odd one has the row, its caption at its side
    assert seen["text"] >= 8


@needs_browser
def test_links_open_what_is_folded(made, tmp_path):
    steps = """
      const open = () => all("details.section[open]").map(x => x.id).sort();
      const before = open();
      inside.defaultView.location.hash = "#first-deep-inside";
      await pause();
      const deep = open();
      const table = shown("#first-deep-inside .rows");
      one("[data-fold=close]").click();
      const closed = open();
      one(".findings a[href='#first-inside-2']").click();
      await pause();
      const linked = open();
      one("[data-fold=open]").click();
      return { before, deep, table, closed, linked, all: open().length,
        current: all(".side li.current > a").map(x => x.textContent) };
    """
    seen = browser.look(write(tmp_path, "index", made), 1280, steps=steps)["steps"]
    assert seen["before"] == seen["closed"] == []
    assert seen["deep"] == ["first", "first-deep-inside", "first-inside"]
    assert seen["table"]
    assert seen["linked"] == ["first", "first-inside-2"]
    assert seen["all"] == 5


@needs_browser
def test_tables_are_sorted_and_filtered(made, tmp_path):
    steps = """
      one("[data-fold=open]").click();
      const table = one("table.long");
      table.closest("details").open = true;
      const column = n => [...table.tBodies[0].rows].filter(row => row.getClientRects().length)
        .map(row => row.cells[n].textContent);
      const press = n => table.tHead.rows[0].cells[n].querySelector("button").click();
      press(1);
      const up = column(1);
      press(1);
      const down = column(1);
      press(2);
      const sizes = column(2);
      const sorted = table.tHead.rows[0].cells[2].getAttribute("aria-sort");
      const input = table.closest(".table").querySelector("input");
      input.value = "NOTH";
      input.dispatchEvent(new Event("input"));
      const names = column(0);
      const count = input.nextElementSibling.textContent;
      input.value = "";
      input.dispatchEvent(new Event("input"));
      return { up, down, sizes, sorted, names, count, back: column(0).length };
    """
    found = browser.look(write(tmp_path, "index", made), 1280, steps=steps)
    seen = found["steps"]
    assert found["console"] == []
    assert seen["up"] == [*map(str, range(30)), "–"]  # noqa: RUF001
    assert seen["down"] == [*map(str, reversed(range(30))), "–"]  # noqa: RUF001
    assert seen["sizes"][:6] == ["0.0001"] * 6
    assert seen["sizes"][-2:] == ["1.0000", "–"]  # noqa: RUF001
    assert seen["sorted"] == "ascending"
    assert seen["names"] == ["nothing"]
    assert seen["count"] == "1 of 31 rows"
    assert seen["back"] == 31


@needs_browser
def test_numbers_with_powers_of_ten_are_sorted(tmp_path):
    table = Table("Powers", ["x"], [[3e-12], [-2.0], [0.0], [5e7], [1e-9]])
    path = write(tmp_path, "index", Page("A title", [], {"a": Section("A", [table])}, FACTS))
    steps = """
      one(".scroll th button").click();
      return all(".scroll td").map(x => x.innerHTML);
    """
    seen = browser.look(path, 768, steps=steps)["steps"]
    assert [cell.split("<")[0] for cell in seen] == ["−2×10", "0", "3×10", "1×10", "5×10"]  # noqa: RUF001


@needs_browser
def test_marks_show_their_values(made, tmp_path):
    steps = """
      one("[data-fold=open]").click();
      const marks = [...one("#first .marks").children];
      const point = (x, type) => x.dispatchEvent(new PointerEvent(type, { bubbles: true }));
      point(marks[1], "pointerover");
      const tip = one("#tip");
      const text = tip.textContent, visible = !tip.hidden;
      const box = tip.getBoundingClientRect(), mark = marks[1].getBoundingClientRect();
      point(one("h1"), "pointerover");
      return { text, visible, gone: tip.hidden, count: marks.length,
        near: Math.abs(box.bottom - mark.top) < 20, right: box.right };
    """
    seen = browser.look(write(tmp_path, "index", made), 390, steps=steps)["steps"]
    assert seen["text"] == "genz\npoints: 10\nerror: 0.1"
    assert seen["visible"]
    assert seen["gone"]
    assert seen["near"]
    assert seen["right"] <= 390
    assert seen["count"] == 6


@needs_browser
def test_the_page_can_be_read_without_its_script(made, tmp_path):
    steps = """
      for (const each of all("details")) each.open = true;
      await pause();
      return { tools: shown(".tools"), table: shown("table.long"), buttons: all("th button").length,
        titles: all(".marks title").length, page: inside.documentElement.scrollWidth };
    """
    seen = browser.look(write(tmp_path, "index", made), steps=steps, script=False)["steps"]
    assert seen == {"tools": False, "table": True, "buttons": 0, "titles": 18, "page": 390}
