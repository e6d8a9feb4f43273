"""The figures of the EXACT papers: at their small scale nothing is flagged, and a break is."""

import re
from functools import partial

import numpy as np
import pytest
from scipy import optimize, special, stats

from exact_torch import exact_loss, recipes
from exact_torch.train import Config
from validation import toy
from validation.page import Check, NotRun, Picture, Table
from validation.paper import (
    cost,
    sample_size,
    sigma_in_training,
    toy_example,
    v2_gradient_norm,
    v2_margin,
    v2_sigma,
    variants,
)
from validation.paper.training import train_once
from validation.reports import paper

FIGURES = (
    toy_example,
    sigma_in_training,
    sample_size,
    cost,
    v2_sigma,
    v2_margin,
    v2_gradient_norm,
)


TRAINED = (toy_example, sigma_in_training)  # networks, for many seconds


def figure_id(figure):
    """Return a figure as a parameter of a test."""
    marks = pytest.mark.slow if figure in TRAINED else ()
    return pytest.param(figure, id=figure.__name__.split(".")[-1], marks=marks)


def performed(figure, scale="small", only=lambda task: True):
    outcomes = {task.name: task.perform() for task in figure.tasks(scale) if only(task)}
    assert [each.failure for each in outcomes.values() if each.failure] == []
    return {name: outcome.value for name, outcome in outcomes.items()}


def flagged(section):
    parts = [part for part in section.walk() if isinstance(part, Check)]
    assert parts, "nothing is checked"
    return [part.claim for part in parts if not part.holds]


@pytest.mark.parametrize("figure", [*map(figure_id, FIGURES)])
def test_at_small_scale_nothing_is_flagged(figure):
    results = performed(figure)
    section = figure.section(results, "small")
    assert flagged(section) == []
    kinds = [type(part) for part in section.walk()]
    assert Table in kinds or figure is v2_gradient_norm
    assert Picture in kinds
    assert NotRun in kinds or figure is toy_example
    titles = [part.title for part in section.walk() if isinstance(part, Table | Picture)]
    assert len(set(titles)) == len(titles)


def test_all_are_in_the_report():
    names = [figure.__name__.split(".")[-1] for figure in FIGURES]
    assert list(paper.FILES[: len(names)]) == names


@pytest.mark.parametrize("figure", FIGURES[1:], ids=lambda figure: figure.TITLE)
def test_commands_name_runs_that_there_are(figure):
    commands = [part.command for part in figure.section({}, "small").walk() if type(part) is NotRun]
    for recipe in re.findall(r"exact-torch train (\S+)", " ".join(commands)):
        assert recipes.get(recipe.replace("$loss;", "ce")).runs


def test_a_failed_task_does_not_silence_the_others():
    results = performed(v2_sigma, only=lambda task: task.name == "landscape")
    section = v2_sigma.section(results, "small")
    assert flagged(section) == []


def test_a_broken_loss_is_flagged_in_the_toy_example(monkeypatch):
    def broken(scores, labels, sigma):
        return exact_loss(scores, labels, sigma=8 * sigma, reduction="none")

    monkeypatch.setitem(toy.LOSSES, "EXACT, -log P", broken)
    claims = flagged(toy_example.section(performed(toy_example), "small"))
    assert any("closed forms" in claim for claim in claims)
    assert any("EXACT, -log P" in claim for claim in claims)


def test_a_margin_that_does_nothing_is_flagged(monkeypatch):
    def broken(scores, labels, sigma, *, margin, **options):
        return exact_loss(scores, labels, sigma=sigma, **options)

    monkeypatch.setattr(v2_margin, "exact_loss", broken)
    results = performed(v2_margin, only=lambda task: task.name.startswith("landscape"))
    claims = flagged(v2_margin.section(results, "small"))
    assert any("closed form" in claim for claim in claims)
    assert any("moves the smallest loss" in claim for claim in claims)


def test_a_wrong_gradient_of_the_exact_integral_is_flagged(monkeypatch):
    def broken(scores, labels, **options):
        if "method" in options:
            return exact_loss(scores, labels, **options)
        return exact_loss(scores * (1 + 1e-9), labels, **options)

    monkeypatch.setattr(sample_size, "exact_loss", broken)
    results = performed(sample_size, only=lambda task: task.name.startswith("errors"))
    claims = flagged(sample_size.section(results, "small"))
    assert claims == ["The exact integral and its gradient are right to 1e-12."]


def test_guessing_is_flagged():
    found = {"a": [0.101, 0.95], "b": [0.95, 0.96]}
    assert not variants.learns(found, ["a", "b"], "digits").holds
    assert variants.learns(found, ["b"], "digits").holds


@pytest.mark.parametrize("name", ["cross-entropy", "EXACT, -log P", "EXACT, 1 - P"])
def test_optimum_minimises(name):
    def loss(b):
        margins = np.array([b + 0.25, b, 0.25 - b])
        t = margins / (np.sqrt(2) * toy.SIGMA)
        return {
            "cross-entropy": np.logaddexp(0, -margins).sum(),
            "EXACT, -log P": -special.log_ndtr(t).sum(),
            "EXACT, 1 - P": special.ndtr(-t).sum(),
        }[name]

    found = optimize.minimize_scalar(loss, bounds=(0.05, 1.0), method="bounded")
    if name != "EXACT, 1 - P":  # which is flat far away
        assert toy_example.optimum(name) == pytest.approx(found.x, abs=1e-4)
    near = np.linspace(-1e-3, 1e-3, 5) + toy_example.optimum(name)
    assert np.argmin([loss(b) for b in near]) == 2


def test_difference_is_students():
    a, b = [0.91, 0.95, 0.97, 0.92], [0.9, 0.91, 0.96, 0.93]
    mean, half = variants.difference({"a": a, "b": b}, "a", "b")
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((low, high), rel=1e-12)
    assert variants.difference({"a": a[:1], "b": b[:1]}, "a", "b")[1] is None


def test_verdict_names_those_that_differ():
    found = {"a": [0.9, 0.91, 0.92], "b": [0.5, 0.52, 0.51], "c": [0.9, 0.92, 0.91]}
    assert "b (-40.0 points)" in variants.verdict(found, "a")
    assert "c (" not in variants.verdict(found, "a")
    assert "No run" in variants.verdict({"a": found["a"], "c": found["c"]}, "a")


def test_seeds_that_failed_are_left_out_of_pairs():
    done = {"summary": {"test_accuracy": 0.5}}
    results = {"a, seed 0": done, "a, seed 1": done, "b, seed 1": done}
    assert variants.accuracies(results, ["a", "b"], 2) == {"a": [0.5], "b": [0.5]}


def test_a_run_is_of_its_seed():
    config = partial(Config, model="linear", loss="ce", epochs=1, epoch_steps=2)
    first, other = (train_once(config(seed=seed).to_json()) for seed in (0, 1))
    assert first["metrics"] != other["metrics"]
    assert [each["epoch"] for each in first["metrics"]] == [1]
    assert "seconds" not in first["summary"]
    assert 0 <= first["summary"]["test_accuracy"] <= 1
