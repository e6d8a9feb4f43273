"""The float64 oracle of derivatives, closed forms and differences, against 40 digits and scipy."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from validation.oracles import slopes
from validation.oracles.one_dimension import one_factor_logprob
from validation.oracles.one_factor import one_factor_derivatives

INF = np.inf


def test_one_factor_is_that_of_forty_digits():
    m, c, v = [0.4, -1.0, 2.0], [1.0, 0.3, 2.0], [1.0, -0.7, 0.2]
    truth = one_factor_derivatives(m, c, v, hessian=True)
    gradient, hessian = np.array(truth.m, float), np.array(truth.hessian, float)
    found = slopes.one_factor([-INF] * 3, m, c, v)
    np.testing.assert_allclose(found.upper, gradient, rtol=1e-12)
    np.testing.assert_allclose(found.cov, (hessian + np.outer(gradient, gradient)) / 2, rtol=1e-11)
    np.testing.assert_array_equal(found.lower, 0.0)
    np.testing.assert_allclose(np.diag(found.cov), np.array(truth.c, float), rtol=1e-11)


def test_one_factor_boxes_are_differences_of_the_value():
    lower, upper = np.array([-1.0, -INF, -0.5, -2.0]), np.array([1.0, 0.5, INF, 0.3])
    c, v = np.array([1.0, 0.5, 2.0, 0.7]), np.array([0.8, -1.0, 0.4, 1.2])
    found = slopes.one_factor(lower, upper, c, v)

    def close(value, x, truth):
        np.testing.assert_allclose(slopes.differences(value, x, 3e-3), truth, rtol=1e-8, atol=1e-9)

    close(lambda x: one_factor_logprob(x, upper, c, v)[0], lower, found.lower)
    close(lambda x: one_factor_logprob(lower, x, c, v)[0], upper, found.upper)
    close(lambda x: one_factor_logprob(lower, upper, x, v)[0], c, np.diag(found.cov))
    close(lambda x: one_factor_logprob(lower, upper, c, x)[0], v, 2 * found.cov @ v)


@pytest.mark.parametrize("rho", [-0.6, 0.3])
def test_two_coordinates_are_scipys_densities(rho):
    x, cov = np.array([0.3, -0.5]), np.array([[4.0, 2 * rho], [2 * rho, 1.0]])
    found = slopes.few(x, cov)
    prob = multivariate_normal(cov=cov).cdf(x)
    assert 2 * found.cov[0, 1] * prob == pytest.approx(
        multivariate_normal(cov=cov).pdf(x), rel=1e-6
    )
    u = x / [2.0, 1.0]
    given = norm.cdf((u[::-1] - rho * u) / np.sqrt(1 - rho**2))
    np.testing.assert_allclose(found.upper * prob, norm.pdf(u) / [2.0, 1.0] * given, rtol=1e-6)


def test_three_coordinates_are_those_with_one_factor():
    c, v, b = np.array([1.0, 0.5, 2.0]), np.array([0.8, 1.0, -0.4]), np.array([0.2, -0.7, 1.0])
    found = slopes.few(b, np.diag(c) + np.outer(v, v))
    truth = slopes.one_factor([-INF] * 3, b, c, v)
    np.testing.assert_allclose(found.upper, truth.upper, rtol=1e-12)
    np.testing.assert_allclose(found.cov, truth.cov, rtol=1e-11)


def test_differences_are_exact_for_quartics():
    found = slopes.differences(lambda x: x[0] ** 4 + 3 * x[1], [2.0, 1.0], [0.5, 0.1])
    np.testing.assert_allclose(found, [32.0, 3.0], rtol=1e-13)
    assert slopes.differences(lambda x: 1.0, [INF], 1.0) == [0.0]
