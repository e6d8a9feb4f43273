"""The figures of docs/when_to_use_exact.md are those of the stored run."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORED = json.loads((ROOT / "validation" / "results" / "when.json").read_text())
PAGE = (ROOT / "docs" / "when_to_use_exact.md").read_text().replace("\N{MINUS SIGN}", "-")
COMPARED = [
    dict(zip(STORED["comparisons_header"], row, strict=True)) for row in STORED["comparisons"]
]
SHOWN = ("hinge", "GCE", "1 - softmax", "nll", "robust", "CE then robust")

HARD = ("symmetric 40 %", "one-sided 40 %", "outliers")


def cell(compared):
    """A difference, bold if it is one after correction."""
    text = f"{compared['mean']:+.1f}"
    return f"**{text}**" if compared["adjusted"] < 0.05 else text


def interval(compared):
    return f"{compared['mean']:+.1f} ({compared['low']:+.1f} to {compared['high']:+.1f})"


def rows_of_losses():
    for row in STORED["tables"]:
        model, condition, _, entropy = row[:4]
        own = {
            each["loss"]: each
            for each in COMPARED
            if (each["model"], each["condition"], each["other"]) == (model, condition, "CE")
        }
        cells = " | ".join(cell(own[loss]) for loss in SHOWN)
        yield f"| {condition} | {model} | {entropy:.1f} | {cells} |"


def rows_of_robust():
    for each in COMPARED:
        if each["loss"] == "robust" and each["other"] == "CE":
            yield (
                f"| {each['condition']} | {each['model']} | {interval(each)} | "
                f"{each['wins']}:{each['losses']} | {each['p']:.2g} | {each['adjusted']:.2g} |"
            )


def rows_of_rivals():
    for each in COMPARED:
        if each["other"] != "CE" and each["condition"] in HARD:
            yield (
                f"| {each['condition']} | {each['model']} | {each['other']} | {interval(each)} | "
                f"{each['adjusted']:.2g} |"
            )


def rows_of_images():
    places = [STORED["images_header"].index(name) for name in ("CE", *SHOWN)]
    for row in STORED["images"]:
        cells = " | ".join(f"{row[place]:.1f}" for place in places)
        yield f"| {row[0]} | {row[1]} | {row[2]} | {cells} | {row[-2]:+.1f} ± {row[-1]:.1f} |"


@pytest.mark.parametrize(
    "rows",
    [rows_of_losses, rows_of_robust, rows_of_rivals, rows_of_images],
    ids=lambda f: f.__name__,
)
def test_every_row_is_in_the_page(rows):
    listed = list(rows())
    assert listed
    for row in listed:
        assert row in PAGE


def test_the_page_says_how_it_was_made():
    assert STORED["command"] in PAGE
    assert len(STORED["commit"]) >= 7
    assert STORED["machine"]
