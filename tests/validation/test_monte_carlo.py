"""Brute force against closed forms."""

import math

import numpy as np
import pytest

from validation.oracles import monte_carlo


def test_agrees_with_a_product_and_with_an_angle():
    value, error = monte_carlo.prob([-np.inf, -1.0], [0.0, 1.0], np.eye(2), draws=200_000)
    truth = 0.5 * math.erf(1 / math.sqrt(2))
    assert abs(value - truth) < 4 * error
    assert error == pytest.approx(math.sqrt(truth * (1 - truth) / 200_000), rel=0.02)
    rho = -0.6
    value, error = monte_carlo.prob([0.0, 0.0], [np.inf, np.inf], [[4.0, 2 * rho], [2 * rho, 1.0]])
    assert abs(value - (0.25 + math.asin(rho) / (2 * math.pi))) < 4 * error


def test_errors_are_those_of_repetitions():
    runs = [monte_carlo.prob([0.0], [1.0], [[1.0]], draws=1000, seed=seed) for seed in range(200)]
    spread = np.std([run.value for run in runs], ddof=1)
    assert spread == pytest.approx(runs[0].error, rel=0.2)


def test_singular_covariance():
    """Two copies of one coordinate: the tighter limit counts."""
    value, error = monte_carlo.prob([-np.inf] * 2, [1.0, 0.0], np.ones((2, 2)))
    assert abs(value - 0.5) < 4 * error


def test_chunks_do_not_lose_draws(monkeypatch):
    monkeypatch.setattr(monte_carlo, "CHUNK", 64)
    assert monte_carlo.prob([-np.inf] * 3, [np.inf] * 3, np.eye(3), draws=1001).value == 1.0


def test_none_inside_is_no_certainty():
    value, error = monte_carlo.prob([9.0], [np.inf], [[1.0]], draws=10_000)
    assert value == 0.0
    assert 0.5e-4 < error < 2e-4


def test_refuses_no_draws():
    with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
        monte_carlo.prob([0.0], [1.0], [[1.0]], draws=0)
