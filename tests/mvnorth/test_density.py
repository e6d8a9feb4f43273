"""Marginal densities of truncated normals against scipy, quadrature and each other."""

import math

import numpy as np
import pytest
from scipy import stats

import mvnorth
from mvnorth import OneFactor

INF = math.inf
COV = np.array([[1.0, 0.6, -0.2], [0.6, 2.0, 0.3], [-0.2, 0.3, 0.7]])


def legendre(a, b, nodes=40):
    x, w = np.polynomial.legendre.leggauss(nodes)
    return 0.5 * (b - a) * x + 0.5 * (a + b), 0.5 * (b - a) * w


@pytest.mark.parametrize(("a", "b"), [(0.0, 2.0), (-INF, 0.3), (5.0, INF), (20.0, 21.0)])
def test_one_coordinate_is_scipys(a, b):
    x = np.linspace(max(a, -4.0), min(b, max(a, -4.0) + 3.0), 11)
    found = mvnorth.box_density(x, [a], [b], 0.5, [[2.0]], coordinates=0)
    s = math.sqrt(2.0)
    truth = stats.truncnorm((a - 0.5) / s, (b - 0.5) / s, 0.5, s)
    np.testing.assert_allclose(found.density, truth.pdf(x), rtol=1e-11)
    np.testing.assert_allclose(found.log_density, truth.logpdf(x), rtol=1e-11, atol=1e-12)
    outside = mvnorth.box_density(np.array([a - 1.0, b + 1.0]), [a], [b], 0.5, [[2.0]], 0)
    np.testing.assert_array_equal(outside.density, 0.0)


def test_all_coordinates_are_the_normal_density_over_p():
    cov, lower = COV[:2, :2], [-1.0, 0.2]
    x = np.array([[0.1, 0.4], [-0.9, 1.0]])
    expected = stats.multivariate_normal([0.1, 0.2], cov).pdf(x)
    expected /= mvnorth.box_prob(lower, 2.0, [0.1, 0.2], cov)
    for order in ((0, 1), (1, 0)):
        found = mvnorth.box_density(x[:, list(order)], lower, 2.0, [0.1, 0.2], cov, order)
        np.testing.assert_allclose(found.density, expected, rtol=1e-12)


def test_densities_integrate_to_one_and_to_moments():
    lower, upper = np.array([-0.5, -INF, 0.1]), np.array([1.0, 1.5, 2.0])
    moments = mvnorth.box_moments(lower, upper, 0.1, COV)
    for i in (0, 2):
        x, w = legendre(lower[i], upper[i])
        found = mvnorth.box_density(x, lower, upper, 0.1, COV, i)
        assert w @ found.density == pytest.approx(1.0, abs=1e-11)
        assert w @ (x * found.density) == pytest.approx(moments.mean[i], abs=1e-11)
        assert found.rel_error.max() < 1e-10
    (x, wx), (z, wz) = (legendre(lower[i], upper[i], 24) for i in (0, 2))
    grid = np.stack(np.meshgrid(z, x, indexing="ij"), axis=-1)
    pair = mvnorth.box_density(grid, lower, upper, 0.1, COV, (2, 0)).density
    assert wz @ pair @ wx == pytest.approx(1.0, abs=1e-11)
    one = mvnorth.box_density(z, lower, upper, 0.1, COV, 2).density
    np.testing.assert_allclose(pair @ wx, one, rtol=1e-10)
    mean = moments.mean
    covariance = wz @ (pair * np.outer(z - mean[2], x - mean[0])) @ wx
    assert covariance == pytest.approx(moments.cov[2, 0], abs=1e-11)


def test_many_coordinates_and_a_tail():
    rng = np.random.default_rng(0)
    c, v = rng.uniform(0.3, 1.0, 30), rng.uniform(0.2, 1.0, 30)
    cov = OneFactor(c, v)
    for lower in (0.0, 6.0):
        x, w = legendre(lower, lower + (14.0 if lower == 0.0 else 9.0), 80)
        found = mvnorth.box_density(x, lower, INF, 0.0, cov, 4)
        assert w @ found.density == pytest.approx(1.0, abs=1e-5)
        mean = mvnorth.box_moments(lower, INF, 0.0, cov).mean[4]
        assert w @ (x * found.density) == pytest.approx(mean, rel=1e-5)
    assert mvnorth.box_logprob(6.0, INF, 0.0, cov) < -100.0


def test_sampled_densities_have_honest_errors():
    d = 7
    A = np.random.default_rng(1).normal(size=(d, d))
    cov = A @ A.T / d + 0.3 * np.eye(d)
    x = np.linspace(0.1, 1.5, 4)
    rough = mvnorth.box_density(x, 0.0, 2.0, 0.0, cov, 3, rtol=1e-2)
    fine = mvnorth.box_density(x, 0.0, 2.0, 0.0, cov, 3, rtol=1e-5, seed=1)
    assert np.all(np.abs(rough.density - fine.density) <= rough.error + fine.error)
    np.testing.assert_array_equal(rough.error, rough.density * rough.rel_error)


def test_batches_broadcast():
    x = np.linspace(0.1, 0.9, 5)
    upper = np.array([[1.0, 1.0], [2.0, INF]])
    found = mvnorth.box_density(x[:, None], 0.0, upper, 0.0, COV[:2, :2], 1)
    assert found.density.shape == (5, 2)
    for b in range(2):
        alone = mvnorth.box_density(x, 0.0, upper[b], 0.0, COV[:2, :2], 1)
        np.testing.assert_array_equal(found.density[:, b], alone.density)
    number = mvnorth.box_density(0.5, 0.0, 1.0, 0.0, COV, 0)
    assert isinstance(number.density, float)


def test_where_there_is_no_density():
    singular = [[1.0, 1.0], [1.0, 1.0]]
    pair = mvnorth.box_density([0.5, 0.5], 0.0, 1.0, 0.0, singular, (0, 1))
    assert math.isinf(pair.rel_error)
    zero = mvnorth.box_density(0.5, [0.0, 1.0], [1.0, 1.0], 0.0, np.eye(2), 0)
    assert math.isnan(zero.density)
    assert math.isinf(zero.error)
    assert mvnorth.box_density(INF, 0.0, INF, 0.0, np.eye(2), 0).density == 0.0


@pytest.mark.parametrize("coordinates", [3, -1, (0, 1, 2), (0, 0), (), "a", 1.5])
def test_wrong_coordinates(coordinates):
    with pytest.raises(ValueError, match="coordinates must be"):
        mvnorth.box_density([0.5], 0.0, 1.0, 0.0, COV, coordinates)


def test_wrong_points():
    with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., 2\)"):
        mvnorth.box_density([0.5], 0.0, 1.0, 0.0, COV, (0, 1))
    with pytest.raises(ValueError, match="x must not contain NaN"):
        mvnorth.box_density(math.nan, 0.0, 1.0, 0.0, COV, 0)
