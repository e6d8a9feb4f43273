"""Mixup and cutmix: what is mixed, in which shares, and what a run makes of it."""

import pytest
import torch
from torch.nn import functional as F

from exact_torch import data
from exact_torch.train import Config, train
from exact_torch.train.distributed import Processes
from exact_torch.train.mixing_inputs import mix
from exact_torch.train.training import Training


def generator(seed):
    return torch.Generator().manual_seed(seed)


def test_mixup_averages_pairs():
    inputs = torch.randint(256, (6, 1, 4, 4), dtype=torch.uint8)
    mixed = mix(inputs, "mixup", 0.4, generator(0))
    expected = mixed.share * inputs + (1 - mixed.share) * inputs[mixed.partners]
    torch.testing.assert_close(mixed.inputs, expected)


def test_cutmix_puts_a_rectangle_of_the_share():
    inputs = torch.arange(8.0)[:, None, None, None].expand(8, 3, 10, 12).contiguous()
    for seed in range(20):
        mixed = mix(inputs, "cutmix", 1.0, generator(seed))
        own = (mixed.inputs == inputs).float().mean((1, 2, 3))
        moved = mixed.partners != torch.arange(8)
        torch.testing.assert_close(own[moved], torch.full_like(own[moved], mixed.share))
        other = torch.where(mixed.inputs == inputs, inputs[mixed.partners], mixed.inputs)
        assert torch.equal(other, inputs[mixed.partners])
        assert 0.5 <= mixed.share <= 1.0


def test_shares_are_those_of_a_beta_distribution():
    shares = torch.tensor(
        [mix(torch.zeros(2, 1), "mixup", 0.5, generator(s)).share for s in range(2000)]
    )
    # max(x, 1 - x) of Beta(1/2, 1/2), the arcsine law: its mean is 1/2 + 1/pi.
    assert shares.mean().item() == pytest.approx(0.5 + 1 / torch.pi, abs=0.015)


@pytest.mark.parametrize("kind", ["mixup", "cutmix"])
def test_the_loss_is_the_average_of_both_labels(kind):
    """A step on cross-entropy is that on class probabilities, as torch computes it."""
    config = Config(model="linear", loss="ce", mix=kind, batch_size=8, seed=3)
    training = Training(config, data.load("digits"), torch.device("cpu"), Processes())
    inputs, labels = next(training.batches())
    mixed = training._mixed(inputs, 0)
    one_hot = F.one_hot(labels, 10).float()
    targets = mixed.share * one_hot + (1 - mixed.share) * one_hot[mixed.partners]
    expected = F.cross_entropy(training.network(mixed.inputs), targets)
    gradients = torch.autograd.grad(expected, list(training.network.parameters()))
    training.loss.set_progress(0.0)
    training._gradient(training.loss, inputs, labels)
    for parameter, gradient in zip(training.network.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_a_run_with_mixup(tmp_path):
    config = Config(mix="mixup", mix_alpha=0.2, epochs=2, model_options={"width": 4})
    assert train(config, tmp_path, quiet=True, pictures=False)["test_accuracy"] > 0.7
