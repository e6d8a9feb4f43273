"""Numbers of a page: columns that line up, and texts with the same signs."""

import math

import pytest

from validation.page.content import Table
from validation.page.inline import inline, slug
from validation.page.numbers import MINUS, NOTHING, format_column, tidy
from validation.page.tables import write_table

TIMES = "\N{MULTIPLICATION SIGN}10"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([98.3333, 7.5, None], ["98.33", "7.50", NOTHING]),
        ([92.00000000000001, 88.2], ["92.0", "88.2"]),  # no digit that was not given
        ([3, 25000, -4], ["3", "25,000", f"{MINUS}4"]),
        ([9999, 12], ["9999", "12"]),
        ([123456.78, 1234.5], ["123,457", "1,234"]),
        ([0.05, 0.2, 1.0], ["0.05", "0.20", "1.00"]),
        ([-8.0, 0.0031, 1.2, -0.00001], [f"{MINUS}8.000", "0.003", "1.200", "0.000"]),
        ([1.0, 2.0], ["1", "2"]),
        ([math.inf, -math.inf, 1.5], ["\N{INFINITY}", f"{MINUS}\N{INFINITY}", "1.5"]),
        ([math.nan, None], [NOTHING, NOTHING]),
        ([True, False], ["yes", "no"]),
        (["words", 1.25], ["words", "1.25"]),
        ([0.0, 0.0], ["0", "0"]),
        ([], []),
    ],
)
def test_columns(values, expected):
    assert format_column(values) == expected


def test_columns_of_many_sizes_are_scientific_throughout():
    cells = format_column([0.25, 1.23456e-12, 0.0, -3e-5])
    assert cells[0] == f"2.50{TIMES}<sup>{MINUS}1\N{FIGURE SPACE}</sup>"  # as wide as the next
    assert cells[1] == f"1.23{TIMES}<sup>{MINUS}12</sup>"
    assert cells[2] == "0"
    assert cells[3].startswith(f"{MINUS}3.00{TIMES}")


def test_one_tiny_number_among_many_is_not_zero():
    cells = format_column([0.9] * 20 + [1e-9])
    assert cells[0] == "0.9000"
    assert cells[-1] == f"1.0{TIMES}<sup>{MINUS}9</sup>"


@pytest.mark.parametrize("scale", [0.1, 1.0, 37.0, 4e3])
def test_decimal_points_are_in_one_place(scale):
    cells = format_column([scale * x for x in (1.0, 0.31415, 0.07, 2.71828)])
    assert len({len(cell.partition(".")[2]) for cell in cells}) == 1
    for cell, x in zip(cells, (1.0, 0.31415, 0.07, 2.71828), strict=True):
        assert float(cell.replace(",", "")) == pytest.approx(scale * x, rel=0.05)


def test_texts_have_the_same_signs():
    assert tidy("-4.1 (-5 to .3)") == f"{MINUS}4.1 ({MINUS}5 to .3)"
    assert tidy("3.2e-09 and 2e+05") == f"3.2{TIMES}<sup>{MINUS}9</sup> and 2{TIMES}<sup>5</sup>"
    assert (
        tidy("20 % or 1 ± 2") == "20\N{NO-BREAK SPACE}% or 1\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}2"
    )
    assert tidy("C - 1 and 0.0e+00") == f"C {MINUS} 1 and 0"
    assert tidy("N^-0.5 C^2.10.") == f"N<sup>{MINUS}0.5</sup> C<sup>2.10</sup>."
    assert tidy("N = 16") == "N\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}16"
    assert tidy("1 - P, -log P") == f"1 {MINUS} P, {MINUS}log P"
    for kept in ("0-0.5", "2030-01-02", "one-hot", "within ±0.5", "float-64", "a1e-3"):
        assert tidy(kept) == kept


def test_code_and_links_are_kept():
    assert inline("`-3 < 1e-9`") == "<code>-3 &lt; 1e-9</code>"
    assert inline("**-1**, 2**3") == f"<b>{MINUS}1</b>, 2**3"
    assert inline("[a -1](x-1&y)") == f'<a href="x-1&amp;y">a {MINUS}1</a>'
    assert slug("Table 4: Δ & more!") == "table-4-more"


def test_words_are_left_and_numbers_right():
    rows = [["a", "3.1 ± 0.2", 1.0, "-1 (-2 to 0)"], ["b", "12.0 ± 3", None, "4"]]
    text = write_table(Table("T", ["name", "mean", "x", "interval"], rows))
    assert text.count("class=text") == 3  # a header and two cells
    assert (
        "<td class=text>a</td><td>3.1\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.2</td><td>1</td>"
        in text
    )


def test_long_words_wrap_and_marked_numbers_are_numbers():
    rows = [["a name that is long", "**+3.0**"], ["b", "+1.0"]]
    text = write_table(Table("T", ["name", "x"], rows))
    assert '<td class="text long">b</td><td>+1.0</td>' in text
    assert "<td><b>+3.0</b></td>" in text


def test_a_table_without_rows_says_so():
    assert "No rows." in write_table(Table("T", ["name"], []))
