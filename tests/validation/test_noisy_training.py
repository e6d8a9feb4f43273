import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from exact_torch import ExactLoss, exact_loss
from validation.reports.criticism import late_runs, stacked, trainings
from validation.reports.criticism.noise import NoisyLoss
from validation.reports.criticism.stacked import Setting, Stack
from validation.reports.when.problems import problem

SCORES = torch.tensor([[1.0, -0.5, 0.3], [0.2, 0.1, -2.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2])
UNIT = trainings.UNIT


def value(loss, scores=SCORES, labels=LABELS, progress=0.0):
    return loss(scores[None], labels[None], progress).item()


def test_gumbel_noise_is_softmax():
    p = torch.softmax(SCORES, 1).gather(1, LABELS[:, None])
    for objective, right in (
        ("-log P", cross_entropy(SCORES, LABELS).item()),
        ("1 - P", 1.0 - p.mean().item()),
        ("-log of the mean P", -math.log(p.mean().item())),
    ):
        loss = NoisyLoss("Gumbel", objective, (UNIT, UNIT), False)
        assert value(loss) == pytest.approx(right)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("objective", "kind"), [("-log P", "nll"), ("1 - P", "error")])
def test_normal_noise_is_exact(classes, objective, kind):
    scores, labels = SCORES[:, :classes], LABELS % classes
    loss = NoisyLoss("normal", objective, (0.7, 0.7), True, 0.5)
    options = {"sigma": 0.7, "objective": kind, "normalize": True, "margin": 0.5}
    assert value(loss, scores, labels) == pytest.approx(
        exact_loss(scores, labels, **options).item()
    )


def test_the_preset_of_the_library_is_the_tuned_one():
    preset = ExactLoss.robust()
    preset.set_progress(0.3)
    loss = trainings.tuned_loss("EXACT, robust", "linear")
    assert value(loss, progress=0.3) == pytest.approx(preset(SCORES, LABELS).item())


def test_losses_of_networks_are_added():
    loss = NoisyLoss("normal", "-log P", (1.0, 1.0), True)
    both = loss(torch.stack([SCORES, SCORES.flip(1)]), torch.stack([LABELS, LABELS]), 0.0).item()
    assert both == pytest.approx(value(loss) + value(loss, SCORES.flip(1)))


def test_sigma_follows_progress():
    loss = NoisyLoss("Gumbel", "-log P", (UNIT, 4 * UNIT), False)
    right = cross_entropy(SCORES / 2, LABELS).item()
    assert value(loss, progress=0.5) == pytest.approx(right)


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match="noise must be one of normal, Gumbel, got 'Cauchy'"):
        value(NoisyLoss("Cauchy", "-log P", (1.0, 1.0), False))
    with pytest.raises(ValueError, match="loss must be one of"):
        trainings.tuned_loss("square", "linear")


def test_draws_are_settings_of_the_axes_without_repetition():
    drawn = trainings.draws(32, 0)
    assert len(set(drawn)) == 32
    for setting in drawn:
        for name, values in trainings.AXES.items():
            assert getattr(setting, name) in values
    assert trainings.draws(32, 0) == drawn
    assert trainings.draws(32, 1) != drawn


def test_training_learns_and_repeats_itself(one_thread):
    posed = problem("digits", "clean", 2)
    settings = [[Setting(0.2, 0.0, "none"), Setting(0.2, 0.0, "normalise")]] * 2
    loss = trainings.tuned_loss("cross-entropy", "linear")
    first, again = (
        Stack(posed, "linear", settings, loss, 60).run().right("test") for _ in range(2)
    )
    for one, other in zip(first, again, strict=True):
        assert (one == other).all()
        assert (one.double().mean(1) > 0.85).all()


def test_a_network_that_diverges_does_not_stop_others(one_thread):
    posed = problem("digits", "clean", 1)
    settings = [[Setting(0.2, 0.0, "none"), Setting(1e30, 1.0, "none")]]
    loss = trainings.tuned_loss("EXACT, -log P", "linear")
    (right,) = Stack(posed, "linear", settings, loss, 30).run().right("test")
    assert right[0].double().mean() > 0.85
    assert not right[1].any()


@pytest.mark.parametrize("name", ["rate_at", "MOMENTUM", "_KEPT"])
def test_stacked_training_that_is_broken_is_noticed(name, monkeypatch, one_thread):
    right = getattr(stacked, name)
    changed = (lambda *told: 0.99 * right(*told)) if callable(right) else 0.99 * right
    posed = problem("digits", "clean", 1)
    setting = Setting(0.1, 1e-2, "normalise")
    loss = trainings.tuned_loss("EXACT, 1 - P", "linear")
    alone = stacked.train_alone(posed, "linear", setting, loss, 10)
    inputs = posed.splits[0].test.inputs

    def distance():
        stack = Stack(posed, "linear", [[setting]], loss, 10).run()
        return (stack.of_split(0, inputs)[0] - alone(inputs)).abs().max().item()

    assert distance() < 1e-4
    monkeypatch.setattr(stacked, name, changed)
    assert distance() > 1e-3


def test_late_gradients_agree_with_finite_softmax(one_thread):
    (first, *_, last) = late_runs.late_of("digits", "linear", 30, 1)
    assert (first["step"], last["step"]) == (0, 30)
    # of -log p the gradient is that of 1 - p over p: with p near 1 / C they point the same way
    assert np.min(first["cosine"]) > 0.7
    assert np.max(first["ratio"]) < 0.3
    assert np.all(np.array(last["minus_log"]) > np.array(last["error"]))
    assert np.mean(last["accuracy"]) > 0.85
    assert np.min(last["score_cosine"]) > 0.5


def test_examples_stay_behind_where_the_gradient_vanishes(one_thread):
    stuck = late_runs.stuck_of("digits", "linear", 150, 1)
    exact, entropy = (np.mean(stuck[name]) for name in ("EXACT", "cross-entropy"))
    assert exact > 0.1
    assert entropy < 0.05
