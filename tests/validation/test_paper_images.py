"""Image tables and single logits of the papers, on digits: what they say and what they flag."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from exact_torch import metrics, recipes
from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text
from validation.paper import (
    image_grid,
    image_runs,
    images,
    images_published,
    in_memory,
    over_seeds,
    single_logit,
    single_logit_published,
    single_logit_runs,
    single_logit_speed,
    single_logit_speed_runs,
)

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


def judged_tasks(*losses):
    names = [f"judged again, {loss}" for loss in losses]
    return [task for task in image_runs.tasks("small") if task.name in names]


@pytest.fixture
def short(monkeypatch):
    plan = image_runs.Plan(("digits",), ("ce", "exact_v1", "exact"), ("sgd",), 2, 20, 10)
    monkeypatch.setitem(image_runs.PLANS, "small", plan)


@pytest.mark.usefixtures("short")
def test_images():
    section = section_of(images, images.tasks("small"))
    assert isinstance(section, Section)
    assert flagged(section) == []
    titles = [table.title for table in parts(section, Table)]
    assert titles[0] == "Test accuracy on digits by optimiser and loss, %"
    assert len(parts(section, Picture)) == 1
    assert [finding.verdict for finding in parts(section, Finding)] == ["not decided"] * 2
    assert "1 comparisons" in section.answer
    assert section.answer.startswith("With equal tuning of the learning rate, ")
    commands = " ".join(part.command for part in parts(section, NotRun))
    for name in ("exact-v1-table1", "exact-v1-table2", "exact-v2-images"):
        assert f"train {name}" in commands


def cell(accuracies, rate=0.1):
    return {"rate": rate, "pilot": {}, "accuracy": accuracies, "sigma": [None] * len(accuracies)}


def full_results(exact, ce=(0.9, 0.91, 0.92)):
    """Made-up results of all cells: EXACT's differences from cross-entropy are given."""
    results = {"linear, mnist": 0.85, "linear, cifar10": 0.85}
    for data, optimizer, loss in image_runs.cells("full"):
        change = exact if loss.startswith("exact") else (0.0,) * len(ce)
        values = [a + b for a, b in zip(ce, change, strict=True)]
        results[image_runs.name(data, optimizer, loss)] = cell(values)
    return results


@pytest.mark.parametrize(
    ("exact", "verdict"),
    [
        ((0.01, 0.011, 0.012), "holds"),
        ((-0.01, -0.011, -0.012), "does not hold"),
        ((0.01, -0.011, 0.012), "not decided"),
    ],
)
def test_verdicts_follow_the_results(exact, verdict, monkeypatch):
    monkeypatch.setattr(image_runs, "there", lambda data: True)
    section = images.section(full_results(exact), "full")
    findings = parts(section, Finding)
    assert [finding.verdict for finding in findings] == [verdict] * 3
    assert flagged(section) == []
    assert [len(table.rows) for table in parts(section, Table)[:2]] == [24, 24]
    assert "equal tuning" not in section.answer  # these have no pilots
    assert findings[0].published.startswith("9 of 12 comparisons (table 2), 10 of 16 (table 1)")


def test_losses_done_on_other_rows_leave_the_best_of_seven(monkeypatch):
    monkeypatch.setattr(image_runs, "there", lambda data: True)
    results = full_results((0.01, 0.011, 0.012))
    results = {
        name: each for name, each in results.items() if "exact_v1" not in name or "asam" in name
    }
    results = {
        name: each for name, each in results.items() if "asam" not in name or "exact" in name
    }
    findings = parts(images.section(results, "full"), Finding)
    assert "EXACT is the most accurate of seven" in findings[-1].claim


def test_a_network_below_a_linear_classifier_is_flagged(monkeypatch):
    monkeypatch.setattr(image_runs, "there", lambda data: True)
    results = full_results((0.0,) * 3) | {"linear, mnist": 0.905}
    claims = flagged(images.section(results, "full"))
    assert len(claims) == 1
    assert claims[0].startswith("MNIST: with cross-entropy")


def test_losses_below_a_linear_classifier_are_named(monkeypatch):
    monkeypatch.setattr(image_runs, "there", lambda data: True)
    section = images.section(full_results((-0.1,) * 3), "full")
    assert flagged(section) == []
    (told,) = [part.text for part in parts(section, Text) if part.text.startswith("MNIST: sci")]
    assert "EXACT (first version) with ASAM (81.0 %)" in told
    assert "hinge" not in told


def test_differences_are_paired_and_intervals_students():
    ce, exact = [0.9, 0.92, 0.95], [0.91, 0.94, 0.955]
    cells = [
        image_grid.Cell("mnist", "sgd", loss, 0.1, {}, values)
        for loss, values in (("ce", ce), ("exact", exact))
    ]
    mean, half = image_grid.Grid(cells).difference(("mnist", "sgd"), "exact", "ce")
    low, high = stats.ttest_rel(exact, ce).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((low, high), rel=1e-9)


def test_the_same_rates_for_all_losses():
    rates = {}
    for task in image_runs.tasks("full"):
        if task.call is image_runs.compare:
            rates.setdefault(task.name.split(", ")[1], set()).add(task.arguments["rates"])
    assert all(len(each) == 1 for each in rates.values())


def test_the_rate_is_chosen_on_the_validation_set(monkeypatch):
    class Fake:
        def __init__(self, config):
            self.config = config

        def validation(self):
            right = self.config.lr == 0.03
            return in_memory.Outputs(np.eye(2), np.array([0, 1 if right else 0]), None)

        def test(self):
            assert self.config.seed != image_runs.PILOT_SEED
            return in_memory.Outputs(np.eye(2), np.array([0, 0]), None)

    monkeypatch.setattr(in_memory, "train", lambda config: Fake(config))
    config = image_runs.config("digits", "ce", "sgd", 10).to_json()
    found = image_runs.compare(config, [0.01, 0.03, 0.1], 10, 2)
    assert found["rate"] == 0.03
    assert found["accuracy"] == [0.5, 0.5]


def test_training_in_memory_repeats_itself_and_follows_the_seed():
    config = replace(image_runs.config("digits", "exact_v1", "adam", 10), lr=3e-3)
    first, again = (in_memory.train(config).test() for _ in range(2))
    other = in_memory.train(replace(config, seed=1)).test()
    assert (first.scores == again.scores).all()
    assert (first.scores != other.scores).any()
    assert first.sigma.shape == (359, 1)
    freed = in_memory.train(replace(config, lr=1e-30), sigma_max=1e6).test()
    start = in_memory.train(replace(config, lr=1e-30)).test()
    np.testing.assert_allclose(freed.sigma, start.sigma, rtol=1e-3)  # it starts the same


def test_scores_that_are_not_finite_are_wrong():
    scores = np.array([[1.0, 0.0], [np.nan, 0.0], [0.0, 1.0]])
    assert in_memory.Outputs(scores, np.array([0, 0, 1]), None).accuracy == pytest.approx(2 / 3)


def test_published_tables():
    assert images_published.published("cifar10", "asam", "exact_v1") == (96.40, None)
    assert images_published.published("digits", "sgd", "ce") == (None, None)
    best = sum(row.exact == max(row) for row in images_published.V2_TABLE.values())
    assert best == 8  # what the finding says


def test_commands_name_recipes():
    listed = [*images._not_run("quick"), *single_logit._not_run()]
    words = [word for part in listed for word in part.command.split()]
    named = [word for word in words if word.startswith(("exact-v", "mixing-", "pols-"))]
    assert len(named) > 6
    for name in named:
        recipes.get(name)


def test_wrong_accuracy_is_flagged(monkeypatch):
    right = metrics.accuracy
    monkeypatch.setattr(metrics, "accuracy", lambda *given: right(*given) - 0.01)
    claims = flagged(section_of(images, judged_tasks("ce")))
    assert len(claims) == 1
    assert "confusion matrix" in claims[0]


def test_wrong_expected_accuracy_is_flagged(monkeypatch):
    from exact_torch.train import judgement

    right = judgement.expected_accuracy
    monkeypatch.setattr(
        judgement, "expected_accuracy", lambda *given: right(given[0], given[1], 2.0 * given[2])
    )
    claims = flagged(section_of(images, judged_tasks("exact_v1")))
    assert len(claims) == 1
    assert claims[0].startswith("Expected accuracy")


def test_missing_set_is_named(monkeypatch):
    monkeypatch.setattr(image_runs, "there", lambda data: data == "digits")
    monkeypatch.setattr(single_logit_runs, "there", lambda data: data == "digits")
    assert all(task.name.startswith("judged") for task in images.tasks("full"))
    assert single_logit.tasks("full") == []
    for file in (images, single_logit):
        told = " ".join(part.what for part in parts(file.section({}, "full"), NotRun))
        assert "MNIST" in told
        assert "CIFAR-10" in told


def test_single_logit():
    section = section_of(single_logit, single_logit.tasks("small"))
    assert flagged(section) == []
    first, second = parts(section, Table)[0], parts(section, Table)[-1]
    names = [row[0].removesuffix(" *") for row in first.rows[:-1]]
    assert names == list(single_logit_runs.LOSSES.values())
    assert len(second.rows) == 4
    assert len(parts(section, Picture)) == 1
    assert "digits" in section.answer


def single_results(aligned, others=0.1, every=0.05):
    """Made-up results of both sets: 1 - AUPRC of losses with separation and of the two others."""
    results = {}
    for data in ("mnist", "cifar10"):
        for loss in single_logit_runs.LOSSES:
            level = others if loss in single_logit_published.NOT_ALIGNED else aligned
            runs = [
                {
                    "accuracy": 0.9,
                    "single": [1 - level * share] * 3,
                    "all": [1 - every * share] * 3,
                    "sklearn": None,
                }
                for share in (0.9, 1.0, 1.05)
            ]
            name = single_logit_runs.name(data, loss)
            results[name] = {"search": {}, "rate": 0.1, "runs": runs}
    return results


def test_single_logit_verdicts(monkeypatch):
    monkeypatch.setattr(single_logit_runs, "there", lambda data: True)
    for aligned, verdicts in ((0.04, ["holds", "holds"]), (0.2, ["does not hold"] * 2)):
        found = parts(single_logit.section(single_results(aligned), "full"), Finding)
        assert [finding.verdict for finding in found] == verdicts * 2
    assert "82 %" in found[0].published
    assert "27 %" in found[2].published


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
    assert single_logit_runs.measures(scores, labels) == [0.75, 0.75, 0.75]


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_published_improvement_is_that_of_the_published_values(data):
    single = {loss: [values] for loss, values in single_logit_published.TABLE1[data].items()}
    found = [single_logit.improvement(single, which)[0] for which in range(3)]
    assert found == pytest.approx(
        single_logit_published.IMPROVEMENT[data], abs=0.006
    )  # of rounded values


def test_speed():
    tasks = single_logit_speed.tasks("small")
    results = {task.name: task.perform().value for task in tasks}
    section = single_logit_speed.section(results, "small")
    assert [claim for claim in flagged(section) if "same number" in claim] == []
    rows = parts(section, Table)[0].rows
    assert [row[1] for row in rows] == ["2^10", "2^14"]
    # (784 + 500 + k) 500 multiplications over (784 + 500 + 1) 500
    assert rows[0][4] == pytest.approx((1284 + 1024) / 1285)
    assert all(task.alone for task in single_logit_speed.tasks("full")[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", single_logit_speed_runs.WIDTHS)
def test_networks_without_their_last_layer(name):
    import torch

    body, shape = single_logit_speed_runs.network(name)
    with torch.inference_mode():
        outputs = body.eval()(torch.zeros(1, *shape))
    assert outputs.shape == (1, single_logit_speed_runs.WIDTHS[name])


def speed_results(factor=1.0):
    results = {"same logit": 0.0, "whole, 2^10": 2.0}
    for name, width in single_logit_speed_runs.WIDTHS.items():
        results[f"below, {name}"] = {"seconds": 1.0, "operations": 1e9}
        for exponent in single_logit_speed_runs.EXPONENTS:
            seconds = factor * 2**exponent / 1e4
            results[f"last layer, {width}, 2^{exponent:g}"] = {"one": 0.0, "all": seconds}
    return results


def test_speed_of_all_published_networks():
    section = single_logit_speed.section(speed_results(), "full")
    (finding,) = parts(section, Finding)
    assert finding.verdict == "holds"
    assert len(parts(section, Table)[0].rows) == 6 * 5
    # Parts give x1.1 for the perceptron, the whole x2.
    assert [claim for claim in flagged(section) if claim.startswith("Sums")]
    too_little = single_logit_speed.section(speed_results(1e-3), "full")
    assert parts(too_little, Finding)[0].verdict == "does not hold"


def test_speed_that_falls_is_flagged():
    section = single_logit_speed.section(speed_results(-1e-4), "full")
    assert [claim for claim in flagged(section) if "grows" in claim]


def test_over_seeds():
    mean = over_seeds.over([1.0, 2.0, 4.0])
    assert mean.mean == pytest.approx(7 / 3)
    assert mean.error == pytest.approx(math.sqrt((16 + 1 + 25) / 9 / 2 / 3))
    assert over_seeds.over([0.5]) == (0.5, None)
    means = {"a": over_seeds.Mean(0.3, 0.01), "b": over_seeds.Mean(0.1, 0.01)}
    assert over_seeds.ahead(means, least=True).startswith("b has the best mean, 0.1 ± 0.01")
    assert over_seeds.ahead(means).endswith("none")


def test_one_value_decides_nothing():
    single = over_seeds.interval([3.0])
    assert single == (3.0, None)
    assert single.verdict() == "not decided"
    assert over_seeds.interval([3.0, 3.1, 3.2]).verdict() == "holds"
    assert over_seeds.interval([-3.0, -3.1, -3.2]).verdict() == "does not hold"


def test_the_rate_falls_within_a_run():
    config = image_runs.config("digits", "ce", "sgd", 300)
    assert (config.epochs, config.schedule) == (image_runs.EPOCHS, "cosine")
    assert config.epochs > 1  # the rate changes at the end of an epoch
    assert config.epochs * config.epoch_steps == 300
