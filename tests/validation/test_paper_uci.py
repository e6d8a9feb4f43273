"""The tables on UCI sets: what is trained side by side, what the pages say, and what they flag."""

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from exact_torch import data, recipes  # noqa: E402
from exact_torch.data import MemorySplit  # noqa: E402
from exact_torch.data.dataset import assemble  # noqa: E402
from validation import data_sets  # noqa: E402
from validation.page import Check, NotRun, Picture, Table  # noqa: E402
from validation.paper import side_by_side, uci_linear, uci_mixing, uci_mixing_runs  # noqa: E402
from validation.paper.side_by_side import train_all  # noqa: E402


@pytest.fixture(autouse=True)
def own_sets(monkeypatch, one_thread):
    """Three clouds of points in place of every set of the small reports, no other set."""
    there = {"uci/wine", "uci/iris", "uci/seeds"}

    def load(name, *arguments, validation=0.1, download=True, **options):
        if name not in there:
            raise data.DataError(name)
        generator = torch.Generator().manual_seed(len(name))
        labels = torch.arange(180) % 3
        points = torch.randn(180, 4, generator=generator) + 4.0 * torch.eye(3, 4)[labels]
        test = MemorySplit(points[120:], labels[120:])
        return assemble(
            name, "table", ["0", "1", "2"], points[:120], labels[:120], validation, lambda: test
        )

    monkeypatch.setattr(data, "load", load)
    remembering = (data_sets.there, uci_mixing_runs.size_of)
    for each in remembering:
        each.cache_clear()
    yield
    for each in remembering:
        each.cache_clear()


def _done(report):
    outcomes = {task.name: task.perform() for task in report.tasks("small")}
    assert not [each.failure for each in outcomes.values() if each.failure]
    return report.section({name: each.value for name, each in outcomes.items()}, "small")


def _flagged(section):
    return [each.claim for each in section.walk() if isinstance(each, Check) and not each.holds]


def test_the_linear_table_has_all_losses_and_nothing_to_flag():
    section = _done(uci_linear)
    assert not _flagged(section)
    ours, published, details = (each for each in section.parts if isinstance(each, Table))
    assert [row[0] for row in ours.rows] == ["wine", "mean", "wins"]
    assert published.rows[0] == ["wine", *[100.0] * 7]
    assert all(len(row) == len(details.header) for row in details.rows)
    assert sum(isinstance(each, Picture) for each in section.walk()) == 1
    named = " ".join(each.what for each in section.walk() if isinstance(each, NotRun))
    assert all(name in named for name in uci_linear.PUBLISHED if name != "wine")


def test_the_mixing_table_has_all_losses_and_nothing_to_flag():
    section = _done(uci_mixing)
    assert not [claim for claim in _flagged(section) if "EL alone" not in claim]  # clouds are easy
    first = next(each for each in section.parts if isinstance(each, Table))
    assert [row[0] for row in first.rows] == list(uci_mixing.LOSSES.values())
    assert sum(row[-1] for row in first.rows) == pytest.approx(21)  # mean ranks of six
    assert sum(isinstance(each, Picture) for each in section.walk()) == 6


def test_exact_that_goes_uphill_is_flagged(monkeypatch):
    right = side_by_side.exact_loss
    monkeypatch.setattr(
        side_by_side, "exact_loss", lambda *each, **options: -right(*each, **options)
    )
    flagged = _flagged(_done(uci_linear))
    assert any("side by side" in claim for claim in flagged)
    assert any("wine" in claim for claim in flagged)


def test_an_expectation_loss_of_the_wrong_sign_is_flagged(monkeypatch):
    right = side_by_side.losses.expectation
    monkeypatch.setattr(
        side_by_side.losses, "expectation", lambda *each, **options: -right(*each, **options)
    )
    assert any("largest class" in claim for claim in _flagged(_done(uci_mixing)))


@pytest.mark.parametrize("loss", uci_linear.LOSSES)
def test_networks_side_by_side_are_those_trained_alone(loss):
    recipe = recipes.get(f"exact-v2-tabular/wine-{loss}")
    (variant,) = recipe.runs
    drawn = uci_linear.settings_of(recipe.search[variant], 3, seed=1)
    config = replace(recipe.runs[variant], epochs=2, epoch_steps=3, batch_size=32)
    configs = [
        replace(uci_linear._with(config, each), seed=seed) for seed, each in enumerate(drawn)
    ]
    dataset = data.load("uci/wine", validation=0.2)
    for each, result in zip(configs, train_all(configs, dataset), strict=True):
        assert uci_linear.distance(each, dataset, result.weights) < 1e-5


@pytest.mark.parametrize("model", uci_mixing.MODELS)
def test_the_best_epoch_is_the_one_train_selects(model, tmp_path):
    from exact_torch.train import train

    runs = recipes.get("mixing-table4").runs
    configs = [
        replace(runs[f"iris-{model}-{loss}"], epochs=3, epoch_steps=4, seed=1)
        for loss in ("ce", "f0-0.5", "focal")
    ]
    found = train_all(configs)
    for number, (config, result) in enumerate(zip(configs, found, strict=True)):
        summary = train(config, tmp_path / f"{number}", quiet=True)
        assert result.validation == pytest.approx(summary["validation_accuracy"])
        assert result.test == pytest.approx(summary["test_accuracy"])


def test_networks_that_diverge_have_no_accuracy_and_harm_no_other():
    config = replace(
        recipes.get("exact-v2-tabular/wine-ce").runs["wine-ce"], epochs=2, epoch_steps=200
    )
    good = replace(config, lr=0.1)
    wild = replace(config, lr=5.0, weight_decay=1.0)  # weights times -4 each step
    alone, (beside, lost) = train_all([good]), train_all([good, wild])
    assert lost.validation is None
    assert lost.test is None
    assert beside.test == alone[0].test
    assert beside.validation is not None


def test_configs_that_cannot_stand_side_by_side_are_refused():
    config = recipes.get("mixing-table4").runs["iris-linear-ce"]
    with pytest.raises(ValueError, match="alike but for"):
        train_all([config, replace(config, batch_size=16)])


def test_sets_are_chosen_by_size(monkeypatch):
    sizes = {"wine": (100, 5), "iris": (50, 2), "car": (400, 3), "bank": (2000, 9), "zoo": (120, 8)}
    sizes = {name: uci_mixing_runs.Size(*size) for name, size in sizes.items()}
    monkeypatch.setattr(uci_mixing_runs, "size_of", sizes.get)
    effort = uci_mixing_runs.Effort(50, 500, least=60, total=700)
    monkeypatch.setitem(uci_mixing_runs.EFFORTS, "quick", effort)
    assert uci_mixing.chosen("quick") == ("wine", "zoo", "car")


def test_published_numbers_are_complete():
    means = np.mean(list(uci_linear.PUBLISHED.values()), axis=0)
    assert means.shape == (7,)
    assert means.argmax() == uci_linear.LOSSES.index("exact")  # as the paper has it
    for model in uci_mixing.MODELS:
        assert uci_mixing.PUBLISHED[model].keys() == uci_mixing.LOSSES.keys()
    assert math.isclose(sum(each[2] for each in uci_mixing.PUBLISHED["linear"].values()), 15.78)
