import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from exact_torch import exact_loss
from exact_torch.train.config import Config
from validation.reports.criticism.noisy_training import NoisyLoss, train

SCORES = torch.tensor([[1.0, -0.5, 0.3], [0.2, 0.1, -2.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2])
ONE = math.pi / math.sqrt(6.0)  # the deviation of Gumbel noise whose scale is 1


def test_gumbel_noise_is_softmax():
    p = torch.softmax(SCORES, 1).gather(1, LABELS[:, None])
    assert NoisyLoss("Gumbel", "-log P", ONE, False)(SCORES, LABELS).item() == pytest.approx(
        cross_entropy(SCORES, LABELS).item()
    )
    assert NoisyLoss("Gumbel", "1 - P", ONE, False)(SCORES, LABELS).item() == pytest.approx(
        1.0 - p.mean().item()
    )
    found = NoisyLoss("Gumbel", "-log of the mean P", ONE, False)(SCORES, LABELS)
    assert found.item() == pytest.approx(-math.log(p.mean().item()))


def test_normal_noise_is_exact():
    for objective, kind in (("-log P", "nll"), ("1 - P", "error")):
        found = NoisyLoss("normal", objective, 0.7, True)(SCORES, LABELS)
        right = exact_loss(SCORES, LABELS, sigma=0.7, objective=kind, normalize=True)
        assert found.item() == pytest.approx(right.item())


def test_sigma_follows_progress():
    loss = NoisyLoss("Gumbel", "-log P", lambda progress: ONE * (1.0 + progress), False)
    loss.set_progress(1.0)
    assert loss(SCORES, LABELS).item() == pytest.approx(cross_entropy(SCORES / 2, LABELS).item())


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match="no loss has noise 'Cauchy'"):
        NoisyLoss("Cauchy", "-log P", 1.0, False)


def test_training_learns_and_repeats_itself(one_thread):
    config = Config(
        model="linear", loss="ce", validation=0.2, epochs=2, epoch_steps=20, device="cpu"
    )
    first = train(config)
    assert first.validation > 0.8
    assert first.right.shape == (359,)
    assert first.right.mean() > 0.8
    replaced = train(config, NoisyLoss("Gumbel", "-log P", ONE, False))
    assert abs(replaced.validation - first.validation) < 0.02
    assert (train(config).right == first.right).all()
    assert train(config, examples=60).validation < first.validation
