"""Batches: order, reproducibility, and the global generator left alone."""

import pytest
import torch

from exact_torch import data
from exact_torch.data.loader import _mixed

SPLIT = data.MemorySplit(torch.arange(30.0)[:, None], torch.arange(30))
ORDER = torch.randperm(30, generator=torch.Generator().manual_seed(0)).split(7)


def noisy(row):
    return row + torch.rand(1)


def made(**options):
    return list(data.batches(SPLIT, ORDER, **options))


def same(first, second):
    return all(a.equal(c) and b.equal(d) for (a, b), (c, d) in zip(first, second, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(workers):
    batches = made(workers=workers)
    assert len(batches) == len(ORDER)
    for (inputs, labels), indices in zip(batches, ORDER, strict=True):
        assert inputs.flatten().tolist() == indices.tolist()
        assert labels.equal(indices)


def test_workers_change_nothing():
    here = made(transform=noisy, seed=3)
    assert same(here, made(transform=noisy, seed=3, workers=1))
    assert same(here, made(transform=noisy, seed=3, workers=2))
    assert not same(here, made(transform=noisy, seed=4))


def test_an_example_does_not_depend_on_its_batch():
    ((whole, _),) = data.batches(SPLIT, [torch.arange(30)], noisy, seed=5)
    for inputs, labels in made(transform=noisy, seed=5):
        assert inputs.equal(whole[labels])


@pytest.mark.parametrize("workers", [0, 1])
def test_the_global_generator_is_left_alone(workers):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    for _ in data.batches(SPLIT, ORDER, noisy, workers=workers):
        pass
    assert torch.rand(3).equal(expected)


def test_the_generator_is_left_alone_by_a_transform_that_fails():
    def failing(row):
        raise RuntimeError(str(torch.rand(1)))

    state = torch.get_rng_state()
    with pytest.raises(RuntimeError):
        made(transform=failing)
    assert torch.get_rng_state().equal(state)


def test_random_numbers_of_neighbours_are_not_related():
    draws = torch.tensor([_mixed(seed, index) for seed in range(30) for index in range(100)])
    assert len(draws.unique()) == 3000
    noise = torch.stack(
        [
            torch.cat([inputs - inputs.floor() for inputs, _ in made(transform=noisy, seed=seed)])
            for seed in range(40)
        ]
    ).flatten()
    # 1,200 uniform numbers: their mean and lag-one correlation within four standard errors
    assert abs(noise.mean() - 0.5) < 4 / (12 * 1200) ** 0.5
    centred = noise - noise.mean()
    assert abs((centred[1:] * centred[:-1]).mean() * 12) < 4 / 1200**0.5


def test_no_batches():
    assert list(data.batches(SPLIT, [], workers=2)) == []


@pytest.mark.parametrize("options", [{"seed": -1}, {"workers": -1}])
def test_arguments_are_checked(options):
    with pytest.raises(ValueError, match="must be at least 0"):
        data.batches(SPLIT, ORDER, **options)
