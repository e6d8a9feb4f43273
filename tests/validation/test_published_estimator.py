import numpy as np
import pytest
from scipy.stats import multivariate_normal

from validation.benchmarks.one_factor import truth
from validation.reports.exact import published_estimator as published

M = np.array([1.2, -0.3, 0.8, 2.0])


def test_draws_average_to_the_probability():
    found = published.draws(M, 20_000, 1)
    assert found.slopes is None
    mean, error = published.mean_and_error(found.value)
    right = multivariate_normal(np.zeros(4), np.eye(4) + 1.0).cdf(M, rng=np.random.default_rng(0))
    assert abs(mean - right) < 4 * error + 1e-4
    assert error < 0.005


def test_slopes_average_to_the_gradient():
    found = published.draws(M, 20_000, 2, slopes=True)
    log_prob, grad = truth(M)
    error = found.slopes.std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(found.slopes.mean(axis=0) - np.exp(log_prob) * grad) < 4 * error)
    np.testing.assert_array_equal(found.value, published.draws(M, 20_000, 2).value)


def test_the_order_of_limits_is_not_seen():
    turn = np.array([2, 0, 3, 1])
    found = published.draws(M, 50, 3, slopes=True)
    turned = published.draws(M[turn], 50, 3, slopes=True)
    np.testing.assert_allclose(turned.value, found.value, rtol=1e-12)
    np.testing.assert_allclose(turned.slopes, found.slopes[:, turn], rtol=1e-12)


def test_estimates_are_means_of_groups():
    np.testing.assert_array_equal(published.estimates(np.arange(7.0), 2), [0.5, 2.5, 4.5])


def test_value_noise_by_hand():
    found = published.value_noise(np.array([0.2, 0.4]), 1, 0.3)
    assert found["relative_std"] == pytest.approx(np.sqrt(0.02) / 0.3)
    assert found["bias"] == pytest.approx(np.log(0.3) - (np.log(0.2) + np.log(0.4)) / 2)


def test_the_bias_is_half_the_squared_deviation():
    pool = 0.3 + 0.01 * np.random.default_rng(0).standard_normal(400_000)
    found = published.value_noise(pool, 1, 0.3)
    assert found["bias"] == pytest.approx((0.01 / 0.3) ** 2 / 2, abs=4 * found["bias_error"])


def test_gradients_without_noise_are_perfect():
    grad = np.array([0.2, 0.1])
    pool = published.Draws(np.full(8, 0.5), np.tile(0.5 * grad, (8, 1)))
    found = published.gradient_noise(pool, 2, 0.5, grad)
    assert found["cosine"] == pytest.approx(1.0)
    assert found["cosine_others"] == pytest.approx(1.0)
    for name in ("prob_error", "log_error", "prob_bias", "log_bias"):
        assert found[name] == pytest.approx(0.0, abs=1e-12)


def test_a_gradient_twice_as_long_is_off_by_one():
    grad = np.array([0.2, 0.1])
    pool = published.Draws(np.full(8, 0.25), np.tile(0.5 * grad, (8, 1)))
    found = published.gradient_noise(pool, 1, 0.5, grad)
    assert found["log_bias"] == pytest.approx(1.0)
    assert found["log_error"] == pytest.approx(1.0)
    assert found["prob_bias"] == pytest.approx(0.0, abs=1e-12)
