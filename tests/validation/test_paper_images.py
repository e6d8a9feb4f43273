"""Image tables and single logits of the papers, on digits: what they say and what they flag."""

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from exact_torch import metrics, recipes
from validation import data_sets
from validation.page import Check, NotRun, Picture, Section, Table
from validation.paper import images, over_seeds, single_logit, single_logit_speed

pytestmark = pytest.mark.usefixtures("one_thread")


def section_of(file, tasks):
    outcomes = {task.name: task.perform() for task in tasks}
    assert not [outcome.failure for outcome in outcomes.values() if outcome.failure]
    results = {name: outcome.value for name, outcome in outcomes.items()}
    return file.section(results, "small")


def flagged(section):
    return [part.claim for part in section.walk() if isinstance(part, Check) and not part.holds]


def parts(section, kind):
    return [part for part in section.walk() if isinstance(part, kind)]


@pytest.fixture
def two_losses(monkeypatch):
    """Cross-entropy and EXACT's first version on digits, narrow."""
    plan = images.Plan(("exact_v1", "ce"), 1, 2, None, 0.5)
    monkeypatch.setitem(images.PLANS, "small", {"digits": plan})


@pytest.fixture
def short(monkeypatch):
    fewer = replace(single_logit.SETTINGS["small"], steps=60)
    monkeypatch.setitem(single_logit.SETTINGS, "small", fewer)


@pytest.mark.usefixtures("two_losses")
def test_images():
    section = section_of(images, images.tasks("small"))
    assert isinstance(section, Section)
    assert flagged(section) == []
    assert [table.title for table in parts(section, Table)] == ["Test accuracy on digits, percent"]
    assert len(parts(section, Picture)) == 1
    commands = " ".join(part.command for part in parts(section, NotRun))
    for name in ("exact-v1-table1", "exact-v1-table2", "exact-v2-images"):
        assert f"train {name}" in commands
    for number in (1, 2, 5, 6):
        assert f"train mixing-table{number}" in commands


def test_commands_name_recipes():
    listed = [*images._not_run("quick"), *single_logit._not_run()]
    words = [word for part in listed for word in part.command.split()]
    named = [word for word in words if word.startswith(("exact-v", "mixing-", "pols-"))]
    assert len(named) > 10
    for name in named:
        recipes.get(name)


@pytest.mark.usefixtures("two_losses")
def test_wrong_accuracy_is_flagged(monkeypatch):
    right = metrics.accuracy
    monkeypatch.setattr(metrics, "accuracy", lambda *given: right(*given) - 0.01)
    claims = flagged(section_of(images, images.tasks("small")))
    assert len(claims) == 1
    assert "confusion matrix" in claims[0]


def test_wrong_expected_accuracy_is_flagged(monkeypatch):
    from exact_torch.train import judgement

    plan = images.Plan(("exact_v1",), 1, 2, None, 0.5)
    monkeypatch.setitem(images.PLANS, "small", {"digits": plan})
    right = judgement.expected_accuracy
    monkeypatch.setattr(
        judgement, "expected_accuracy", lambda *given: right(given[0], given[1], 2.0 * given[2])
    )
    claims = flagged(section_of(images, images.tasks("small")))
    assert len(claims) == 1
    assert claims[0].startswith("Expected accuracy")


def test_missing_set_is_named(monkeypatch):
    monkeypatch.setattr(images, "there", lambda data: False)
    monkeypatch.setattr(data_sets, "there", lambda name, **options: name == "digits")
    assert images.tasks("full") == []
    section = images.section({}, "full")
    told = " ".join(part.what for part in parts(section, NotRun))
    assert "MNIST" in told
    assert "CIFAR-10" in told
    assert single_logit.settings("full").data == "digits"


@pytest.mark.usefixtures("short")
def test_single_logit():
    section = section_of(single_logit, single_logit.tasks("small"))
    assert flagged(section) == []
    first, second = parts(section, Table)
    assert [row[0] for row in first.rows[:-1]] == list(single_logit.NAMES.values())
    assert [row[4] for row in first.rows] == [0.008, 0.012, *[0.002] * 3, 0.001, 0.002, 0.82]
    assert len(second.rows) == 4
    assert len(parts(section, Picture)) == 1


@pytest.mark.usefixtures("short")
def test_wrong_metric_is_flagged(monkeypatch):
    right = metrics.single_logit

    def wrong(*given):  # the area of the largest class alone
        return right(*given) | {"auprc": metrics.average_precision(*given[:2]).max().item()}

    monkeypatch.setattr(metrics, "single_logit", wrong)
    claims = flagged(section_of(single_logit, single_logit.tasks("small")[:2]))
    assert any("scikit-learn" in claim for claim in claims)


def test_measures_of_a_small_case():
    # As in the example of metrics.single_logit: class 1 is higher in the example of class 0.
    scores, labels = np.array([[8.0, 4.0], [-8.0, -4.0]]), np.array([0, 1])
    assert single_logit._measures(scores, labels) == [0.75, 0.75, 0.75]


def test_published_improvement_is_that_of_the_published_values():
    means = {
        loss: [over_seeds.Mean(value, None) for value in values]
        for loss, values in single_logit.TABLE1.items()
    }
    found = single_logit._improvement(means)
    assert found == pytest.approx(single_logit.IMPROVEMENT, abs=0.006)  # of rounded values


def test_speed():
    section = section_of(single_logit_speed, single_logit_speed.tasks("small"))
    assert flagged(section) == []
    rows = parts(section, Table)[0].rows
    assert [row[1] for row in rows] == ["2^10", "2^14"]
    # (784 + 500 + k) 500 multiplications over (784 + 500 + 1) 500
    assert rows[0][5] == pytest.approx((1284 + 1024) / 1285)
    assert all(task.alone for task in single_logit_speed.tasks("full")[1:])


@pytest.mark.parametrize("name", single_logit_speed.MEASURED["full"])
def test_networks_without_their_last_layer(name):
    import torch

    body, shape, width = single_logit_speed.network(name)
    with torch.inference_mode():
        assert body.eval()(torch.zeros(1, *shape)).shape == (1, width)


def test_speed_that_does_not_grow_is_flagged():
    line = {"classes": 1024, "one": 1.0, "all": 2.0, "ratio": 2.0, "work": 1.8}
    names = [task.name for task in single_logit_speed.tasks("small")]
    section = single_logit_speed.section(dict.fromkeys(names[1:], line) | {names[0]: 0.1}, "small")
    assert len(flagged(section)) == 2


def test_over_seeds():
    mean = over_seeds.over([1.0, 2.0, 4.0])
    assert mean.mean == pytest.approx(7 / 3)
    assert mean.error == pytest.approx(math.sqrt((16 + 1 + 25) / 9 / 2 / 3))
    assert over_seeds.over([0.5]) == (0.5, None)
    means = {"a": over_seeds.Mean(0.3, 0.01), "b": over_seeds.Mean(0.1, 0.01)}
    assert over_seeds.ahead(means, least=True).startswith("b has the best mean, 0.1 ± 0.01")
    assert over_seeds.ahead(means).endswith("none")
