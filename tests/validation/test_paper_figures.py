"""The figures of the EXACT papers: at their small scale nothing is flagged, and a break is."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats

from exact_torch import GaussianScores, exact_loss, recipes
from exact_torch.train import Config
from validation import toy
from validation.page import Check, Finding, NotRun, Picture, Section, Table
from validation.paper import (
    cost,
    plain_draws,
    sample_size,
    sample_size_runs,
    sampled_prediction,
    sigma_in_training,
    sigma_rates,
    toy_example,
    v2_gradient_norm,
    v2_margin,
    v2_sigma,
    variants,
)
from validation.paper.training import train_once
from validation.reports import paper
from validation.running import Task

FIGURES = (
    toy_example,
    sigma_in_training,
    sample_size,
    sampled_prediction,
    cost,
    v2_sigma,
    v2_margin,
    v2_gradient_norm,
)


TRAINED = (toy_example, sigma_in_training, sample_size)  # networks, for many seconds


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


def test_the_answer_counts_published_claims(monkeypatch):
    claims = [
        Finding("EXACT is more accurate than cross-entropy.", "p", "ours", "not decided"),
        Finding("EXACT has a better mean accuracy than cross-entropy.", "p", "ours", "not decided"),
        Finding("A margin makes training more accurate.", "p", "ours", "holds"),
        Finding("A claim of this project.", "", "ours", "holds"),
    ]

    class File:
        @staticmethod
        def section(results, scale):
            return Section("file", claims)

    monkeypatch.setattr(paper, "FILES", ("file",))
    monkeypatch.setattr(paper, "_file", lambda name: File)
    assert paper.section({}, "full").answer == (
        "Of 3 published claims tested, 1 holds, 0 do not hold and 2 are not decided. That EXACT is "
        "more accurate than cross-entropy is confirmed in none of the 2 claims of this kind."
    )
    claims[:] = []
    assert paper.section({}, "full").answer == ""


def test_only_a_missing_key_is_a_missing_result(monkeypatch):
    class File:
        error: Exception = KeyError("task")

        @staticmethod
        def tasks(scale):
            return [Task("task", len, {})]

        @classmethod
        def section(cls, results, scale):
            raise cls.error

    monkeypatch.setattr(paper, "FILES", ("file",))
    monkeypatch.setattr(paper, "_file", lambda name: File)
    (part,) = paper.section({}, "full").parts[0].parts
    assert isinstance(part, NotRun)
    assert part.why == "1 of its tasks are not done (KeyError('task'))."
    File.error = ValueError("no values")
    (part,) = paper.section({}, "full").parts[0].parts
    assert (part.holds, part.found) == (False, "ValueError('no values')")


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

    monkeypatch.setattr(sample_size_runs, "exact_loss", broken)
    results = performed(sample_size, only=lambda task: task.name.startswith("errors"))
    claims = flagged(sample_size.section(results, "small"))
    assert claims == ["The exact integral and its gradient are right to 1e-12."]


def scores_and_labels(rows=64, classes=10):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    sigma = torch.full((rows, 1), 1.3, dtype=torch.float64)
    labels = torch.randint(classes, (rows,), generator=generator)
    return scores.requires_grad_(), sigma.requires_grad_(), labels


def test_plain_draws_estimate_the_loss_and_its_gradient():
    scores, sigma, labels = scores_and_labels()
    outputs = GaussianScores(scores, sigma)
    torch.manual_seed(0)
    estimate = plain_draws.PlainDraws(2_000)(outputs, labels)
    exact = exact_loss(outputs, labels)
    assert estimate.item() == pytest.approx(exact.item(), rel=1e-2)
    for ours, theirs in zip(
        torch.autograd.grad(estimate, [scores, sigma]),
        torch.autograd.grad(exact, [scores, sigma]),
        strict=True,
    ):
        assert (ours - theirs).norm() < 0.05 * theirs.norm()


def test_plain_draws_are_drawn_anew():
    scores, sigma, labels = scores_and_labels(4)
    loss = plain_draws.PlainDraws(4)
    first, second = (loss(GaussianScores(scores, sigma), labels).item() for _ in range(2))
    assert first != second


def curve_results(change, failed=0):
    """Made-up accuracies by sample size: one sample differs from the exact integral."""
    results = {}
    for data in ("mnist", "cifar10"):
        for optimizer in ("adam", "asam"):
            for samples in (None, 1, 4, 16, 64):
                values = [0.9, 0.91, 0.92, 0.93]
                if samples == 1:
                    values = [value + change for value in values]
                    values[:failed] = [0.0] * failed
                results[sample_size_runs.name(data, optimizer, samples)] = values
    return results


@pytest.mark.parametrize(
    ("change", "failed", "verdict"),
    [(0.001, 0, "holds"), (-0.03, 0, "does not hold"), (0.001, 2, "does not hold")],
)
def test_verdict_on_one_sample(change, failed, verdict):
    section = sample_size.section(curve_results(change, failed), "full")
    (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
    assert finding.verdict == verdict
    assert len([part for part in section.walk() if isinstance(part, Picture)]) == 4
    assert ("runs fail" in section.answer) == bool(failed)


def test_a_wrong_expected_accuracy_is_flagged_by_sampling(monkeypatch):
    import exact_torch

    right = exact_torch.expected_accuracy
    monkeypatch.setattr(
        exact_torch,
        "expected_accuracy",
        lambda scores, labels, sigma, **options: right(scores, labels, 1.5 * sigma, **options),
    )
    claims = flagged(sampled_prediction.section(performed(sampled_prediction), "small"))
    assert len(claims) == 1
    assert "exact integral" in claims[0]


@pytest.mark.parametrize(
    ("spread", "verdict"), [(0.0001, "holds"), (0.02, "not decided"), (None, "does not hold")]
)
def test_verdict_on_sampling(spread, verdict):
    changes = [0.01] * 3 if spread is None else [spread, 0.0, -spread]
    runs = [
        {
            "mean": 0.9,
            "votes": {"1": 0.8 + 0.001 * seed, "3": 0.85, "9": 0.88, "33": 0.9 + change},
            "single": 0.8,
            "expected": 0.8,
            "error": 0.01,
        }
        for seed, change in enumerate(changes)
    ]
    section = sampled_prediction.section({"mnist": runs}, "full")
    (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
    assert finding.verdict == verdict


def test_votes_of_certain_scores_are_those_of_the_mean():
    rng = np.random.default_rng(0)
    scores, sigma = rng.normal(size=(50, 4)), np.full((50, 1), 1e-9)
    assert (sampled_prediction._vote(scores, sigma, 3, rng) == scores.argmax(axis=1)).all()
    wide = sampled_prediction._vote(0 * scores, sigma, 1, rng)
    assert len(set(wide.tolist())) == 4  # ties are broken at random


def test_runs_at_chance_are_counted():
    results = {
        sigma_rates.name(data, arm, rate): {
            "accuracy": [0.1, 0.9, 0.15, 0.8, 0.0] if arm == sigma_rates.PLAIN else [0.9] * 5,
            "sigma": [2.0, None, 1e6, 1.0, 3.0],
        }
        for data, arm, rate in sigma_rates.configs("full")
    }
    section = sigma_in_training.section(results, "full")
    (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
    assert finding.verdict == "does not hold"
    assert finding.ours.count(": 3 of 5 (") == 3  # by data set
    assert "cross-entropy 0 of 15" in section.answer


def test_a_sigma_that_grows_is_a_finding():
    metrics = [
        [{"train": {"sigma": s, "accuracy": 0.9, "expected_accuracy": 0.9 - s / 10}} for s in run]
        for run in ([1.0, 2.0], [1.0, 2.1], [1.1, 2.0])
    ]
    results = {f"digits, seed {seed}": {"metrics": each} for seed, each in enumerate(metrics)}
    section = sigma_in_training.section(results, "full")
    (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
    assert finding.verdict == "does not hold"


def small_sigma_results(small):
    summary = [{"summary": {"test_accuracy": value}} for value in (0.9, 0.91, 0.92)]
    results = {
        f"digits, sigma {name}, seed {seed}": summary[seed]
        for name in v2_sigma._SCHEDULES
        for seed in range(3)
    }
    for seed in range(3):
        accuracy = summary[seed]["summary"]["test_accuracy"] + small
        results[f"digits, sigma 0.1, seed {seed}"] = {"summary": {"test_accuracy": accuracy}}
    return results


@pytest.mark.parametrize(("small", "verdict"), [(-0.3, "holds"), (0.05, "does not hold")])
def test_verdict_on_a_small_sigma(small, verdict):
    for scale, expected in (("full", verdict), ("quick", "not decided")):
        section = v2_sigma.section(small_sigma_results(small), scale)
        (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
        assert finding.verdict == expected


@pytest.mark.parametrize(("judged", "verdict"), [(0.05, "holds"), (-0.05, "does not hold")])
def test_the_margin_that_is_judged_is_fixed(judged, verdict):
    changes = {"none": 0.0, "0.5": judged, "2": 0.08}  # the best is not judged
    results = {
        f"digits, margin {name}, seed {seed}": {
            "summary": {"test_accuracy": 0.8 + 0.01 * seed + change + 0.001 * seed * change}
        }
        for name, change in changes.items()
        for seed in range(3)
    }
    section = v2_margin.section(results, "full")
    (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
    assert finding.verdict == verdict
    assert "margin of 0.5" in finding.ours
    assert "toy example" not in section.answer  # which was not computed


def test_a_failed_exact_integral_decides_nothing():
    results = curve_results(0.001)
    results[sample_size_runs.name("mnist", "adam", None)] = [0.0, 0.91, 0.92, 0.93]
    section = sample_size.section(results, "full")
    (finding,) = [part for part in section.walk() if isinstance(part, Finding)]
    assert finding.verdict == "not decided"
    assert "1 of 4 runs with the exact integral fail" in finding.ours


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
