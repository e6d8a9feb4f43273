import pytest

from exact_torch import exact_loss
from validation import toy
from validation.page import Check, Picture, Table, Text
from validation.reports import criticism
from validation.reports.criticism import arms, tuned
from validation.reports.criticism.runs import START, gumbel_of, toy_of
from validation.reports.criticism.toy import section as section_of_toy


def flagged(section):
    return [part for part in section.walk() if isinstance(part, Check) and not part.holds]


def texts(section):
    return " ".join(part.text for part in section.walk() if isinstance(part, Text))


@pytest.fixture(scope="module")
def section():
    outcomes = {task.name: task.perform() for task in criticism.tasks("small")}
    failed = {name: each.failure for name, each in outcomes.items() if each.failure}
    assert not failed
    return criticism.section({name: each.value for name, each in outcomes.items()}, "small")


def test_no_claim_is_flagged(section):
    assert sum(isinstance(part, Check) for part in section.walk()) == 7
    assert flagged(section) == []


def test_tables_and_pictures(section):
    titles = [part.title for part in section.walk() if isinstance(part, Table | Picture)]
    assert len(titles) == len(set(titles))
    for title in (
        "Where the losses of the toy example end",
        "Best threshold against the slope",
        "Test accuracy by noise and objective, %",
        "Test accuracy after equal tuning, %",
    ):
        assert title in titles
    assert "The objection is right" in texts(section)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("cross-entropy", lambda scores, labels, sigma: 1.1 * scores[:, 1] * (1 - 2 * labels)),
        ("hinge", lambda scores, labels, sigma: toy.losses.hinge(scores, labels, gamma=0.9)),
        (
            "EXACT, -log P",
            lambda scores, labels, sigma: exact_loss(2 * scores, labels, sigma=sigma),
        ),
        (
            "EXACT, 1 - P",
            lambda scores, labels, sigma: (
                -exact_loss(scores, labels, sigma=sigma, objective="error", reduction="none")
            ),
        ),
    ],
)
def test_a_broken_loss_is_flagged(name, broken, monkeypatch):
    def each(scores, labels, sigma):
        return broken(scores, labels, sigma).expand(len(scores))

    monkeypatch.setitem(toy.LOSSES, name, each)
    monkeypatch.setattr(toy, "descent", arrived)
    assert flagged(section_of_toy(toy_of([START])))


def test_nothing_broken_is_not_flagged(monkeypatch):
    monkeypatch.setattr(toy, "descent", arrived)
    assert not flagged(section_of_toy(toy_of([START])))


def test_a_descent_that_goes_astray_is_flagged(monkeypatch):
    monkeypatch.setattr(toy, "descent", lambda name, **options: arrived(name, at=0.3))
    section = section_of_toy(toy_of([START]))
    assert len(flagged(section)) == 1
    assert "The objection is not confirmed" in texts(section)


def arrived(name, at=0.125, **options):
    """A descent that has nothing to do: the minima are what is looked at."""
    return toy.Path([at] * 301, [8.0] * 301, [0.0] * 301)


def test_a_broken_softmax_is_flagged(monkeypatch):
    cells, runs = trained(0.9)
    told = arms.Told(1, 10)
    assert not any(map(flagged, arms.sections(cells, runs, gumbel_of(2000, 1), told)))
    right = toy.losses.expectation
    monkeypatch.setattr(toy.losses, "expectation", lambda z, y: 1.2 * right(z, y) - 0.2)
    rows = gumbel_of(2000, 1)
    assert any(map(flagged, arms.sections(cells, runs, rows, told)))


def trained(accuracy, less=0.0):
    """Cells of six learning rates where -log P has ``less`` less than the others."""
    names = [f"{noise}, {objective}" for noise, objective in arms.ARMS]
    cells = {
        f"{recipe} {lr}": {"recipe": recipe, "data": "digits", "model": "linear", "lr": lr}
        for recipe in arms.RECIPES
        for lr in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    }
    runs = {
        cell: {
            name: [[0.9, accuracy - (less * (1 + own["lr"]) if "-log P" in name else 0.0)]]
            for name in names
        }
        for cell, own in cells.items()
    }
    return cells, runs


def test_what_is_said_of_the_objective_follows_the_results():
    told = arms.Told(1, 10)
    objective, noise = arms.sections(*trained(0.9, 0.02), gumbel_of(2000, 1), told)
    assert "-log P less 1 - P, normal noise: -2.70 ± " in texts(objective)
    assert "0 wins and 6 losses (worse)" in texts(objective)
    assert "(no difference shown)" in texts(noise)
    objective, _ = arms.sections(*trained(0.9, -0.02), gumbel_of(2000, 1), told)
    assert "6 wins and 0 losses (better)" in texts(objective)


def test_what_is_said_of_tuned_runs_follows_the_results():
    def runs(gain):
        loss = {"trials": [0.8, 0.9], "settings": {"lr": 0.1}, "validation": [0.9]}
        return {
            "EXACT": {**loss, "test": [0.9 + gain, 0.91 + gain]},
            "cross-entropy": {**loss, "test": [0.9, 0.91]},
            "examples_error": 0.001,
            "test_examples": 100,
        }

    found = {("digits", f"model{k}"): runs(-0.01 * (k + 1)) for k in range(6)}
    section = tuned.section(found, 2, 2)
    assert "EXACT is worse." in texts(section)
    assert "ahead on none; behind on digits (model0: -1.00)" in texts(section)
    assert flagged(section) == []
    found["digits", "model0"]["EXACT"]["test"] = [0.3, 0.3]
    assert flagged(tuned.section(found, 2, 2))
