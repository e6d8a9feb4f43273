"""Draws with several common factors: means against derivatives, accepted shares against P."""

import numpy as np
import pytest

import mvnorth
from mvnorth import Factors

SIZE = 20_000


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("box", [False, True])
def test_means_and_probability(k, box):
    rng = np.random.default_rng(k)
    cov = Factors(rng.uniform(0.3, 1.0, 6), 0.7 * rng.normal(size=(6, k)))
    m = rng.normal(size=6) + 0.3
    if box:
        sample = mvnorth.sample_box(-1.0, m + 1.5, 0.0, cov, SIZE)
        truth = mvnorth.box_grad(-1.0, m + 1.5, 0.0, cov, wrt=("mean",), log=True, rtol=1e-8)
        mean = cov.dense() @ truth.grad_mean
        assert ((sample.draws >= -1.0) & (sample.draws <= m + 1.5)).all()
    else:
        sample = mvnorth.sample_orthant(m, cov, SIZE)
        truth = mvnorth.orthant_grad(m, cov, wrt=("m",), log=True, rtol=1e-8)
        mean = m + cov.dense() @ truth.grad_m
        assert (sample.draws >= 0.0).all()
    assert sample.acceptance > 0.75
    estimate = np.log(sample.acceptance) + sample.log_bound
    assert abs(estimate - truth.log_prob) < 5.0 / np.sqrt(sample.proposals)
    spread = sample.draws.std(axis=0) / np.sqrt(SIZE)
    assert (np.abs(sample.draws.mean(axis=0) - mean) < 4.5 * spread).all()


def test_many_coordinates_and_tails():
    rng = np.random.default_rng(0)
    cov = Factors(rng.uniform(0.3, 1.0, 300), 0.5 * rng.normal(size=(300, 2)))
    sample = mvnorth.sample_orthant(rng.normal(size=300) - 3.0, cov, 100)
    assert sample.acceptance > 0.9
    assert (sample.draws >= 0.0).all()


def test_walls_are_drawn_too():
    rng = np.random.default_rng(1)
    cov = Factors(1e-6, rng.normal(size=(6, 3)))
    sample = mvnorth.sample_orthant(np.full(6, 0.5), cov, 200)
    assert (sample.draws >= 0.0).all()


def test_more_than_four_factors():
    rng = np.random.default_rng(2)
    cov = Factors(0.5, rng.normal(size=(8, 6)))
    assert (mvnorth.sample_orthant(np.ones(8), cov, 50).draws >= 0.0).all()


def test_steep_walls_are_not_cut_off():
    """A cube of factors may have most of its mass far from its centre."""
    cov = Factors([1e-4, 1.0, 1.0], [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    upper = np.array([0.4, 3.0, 3.0])
    drawn = mvnorth.sample_box(-np.inf, upper, 0.0, cov, 20_000, seed=1).draws
    whole = mvnorth.box_prob(-np.inf, upper, 0.0, cov)
    inside = mvnorth.box_prob([0.3, -np.inf, -np.inf], upper, 0.0, cov)
    share = inside / whole
    assert abs(np.mean(drawn[:, 0] > 0.3) - share) <= 5.0 * np.sqrt(share / 20_000)
