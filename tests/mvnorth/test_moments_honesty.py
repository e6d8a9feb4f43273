"""Claimed errors of truncated moments hold, and the methods that compute them agree."""

import math

import numpy as np
import pytest
from support.truncated import (
    correlation,
    one_factor_moments,
    random_problem,
    two_factor_moments,
    within,
)

import mvnorth
from mvnorth import Factors, OneFactor, _checks
from mvnorth._methods import factor_moments, factors_moments, gauss, weighted_moments
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._problem import Request, Tolerance

INF = math.inf


def count_misses(count, seed, n):
    """Entries whose claimed error does not hold, and all entries, of points and Gauss rules."""
    rng = np.random.default_rng(seed)
    misses, entries, lowest = 0, 0, 0.0
    for k in range(count):
        d = int(rng.choice([2, 3, 4, 5, 8, 12, 20]))
        lower, upper, c, v = random_problem(rng, d, two_sided=bool(rng.integers(2)))
        log_prob, mean, cov = one_factor_moments(lower, upper, c, v)
        lowest = min(lowest, log_prob)
        problems, _ = _checks.box_problems(lower, upper, 0.0, np.diag(c) + np.outer(v, v))
        request = Request(Tolerance(0.02, 0.0), n, 2**17, seed=k)
        found = weighted_moments.integrate(problems, request)
        unit = problems.covariance.unit[0]
        below = np.tril_indices(d)
        gap = np.abs(found.cov[0] * np.outer(unit, unit) - cov)[below]
        bad = gap > (found.cov_error[0] * np.outer(unit, unit))[below]
        bad_mean = np.abs(found.mean[0] * unit - mean) > found.mean_error[0] * unit
        misses += int(bad.sum() + bad_mean.sum())
        entries += bad.size + d
    return misses, entries, lowest


@pytest.mark.parametrize("n", [2**11, None])
def test_claimed_errors_hold(n):
    misses, entries, lowest = count_misses(60, 11, n)
    assert lowest < -50.0
    assert misses <= 0.01 * entries


@pytest.mark.slow
@pytest.mark.parametrize("n", [2**10, 2**13, None])
def test_claimed_errors_hold_on_many_problems(n):
    misses, entries, lowest = count_misses(400, 12, n)
    assert lowest < -150.0
    assert misses <= 0.01 * entries


def test_claimed_errors_of_all_methods_hold():
    """What ``box_moments`` returns for factors, Gauss rules, closed forms and chains."""
    rng = np.random.default_rng(13)
    misses = entries = 0
    methods = set()
    for _ in range(80):
        d = int(rng.choice([2, 3, 4, 5, 8]))
        lower, upper, c, v = random_problem(rng, d, two_sided=bool(rng.integers(2)))
        _, mean, cov = one_factor_moments(lower, upper, c, v)
        for given in (OneFactor(c, v), Factors(c, np.stack([0.6 * v, 0.8 * v], axis=1))):
            found = mvnorth.box_moments(lower, upper, 0.0, given)
            methods.add(str(found.method))
            below = np.tril_indices(d)
            bad = (np.abs(found.cov - cov) > found.cov_error + 1e-12 * np.abs(cov))[below]
            misses += int(bad.sum())
            misses += int((np.abs(found.mean - mean) > found.mean_error + 1e-13).sum())
            entries += bad.size + d
    assert {"closed_form", "quadrature", "factors"} <= methods
    assert misses <= 0.01 * entries


def test_steep_factors_agree_with_closed_forms():
    """Walls: coordinates that nearly equal the common factor, up to its scale."""
    rng = np.random.default_rng(15)
    for _ in range(20):
        c, v = 10.0 ** rng.uniform(-6.0, 0.0, 3), rng.normal(size=3)
        lower = np.sqrt(c + v * v) * rng.normal(-1.0, 0.5, 3)
        upper = np.where(rng.random(3) < 0.5, INF, lower + rng.uniform(0.5, 2.0, 3))
        problems, _ = _checks.box_problems(lower, upper, 0.0, OneFactor(c, v))
        nodes = factor_moments.integrate(problems)
        exact = mvnorth.box_moments(lower, upper, 0.0, np.diag(c) + np.outer(v, v), rtol=1e-4)
        assert np.all(np.abs(nodes.mean[0] - exact.mean) <= nodes.mean_error[0] + exact.mean_error)
        assert np.all(np.abs(nodes.cov[0] - exact.cov) <= nodes.cov_error[0] + exact.cov_error)


@pytest.mark.parametrize("upper", [1.5, INF])
@pytest.mark.parametrize("d", [6, 40])
def test_two_factors_are_exact(d, upper):
    """Derivatives do not give this: the integral over the factors does, without sampling."""
    rng = np.random.default_rng(d)
    c, V = rng.uniform(0.5, 1.0, d), rng.normal(0.0, 0.5, (d, 2))
    found = mvnorth.box_moments(-0.5, upper, 0.0, Factors(c, V), rtol=1e-4)
    assert found.method == "factors"
    assert found.cov_error.max() < 1e-5
    truth = two_factor_moments(np.full(d, -0.5), np.full(d, upper), c, V)
    assert within(found, *truth, slack=1e-10)
    np.testing.assert_allclose(found.mean, truth[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.cov, truth[1], rtol=1e-8, atol=1e-9)


def test_two_steep_factors():
    """Walls: coordinates that nearly are a combination of the factors."""
    rng = np.random.default_rng(16)
    for _ in range(6):
        c, V = 10.0 ** rng.uniform(-6.0, 0.0, 3), rng.normal(size=(3, 2))
        lower = np.sqrt(c + np.sum(V * V, axis=1)) * rng.normal(-1.0, 0.5, 3)
        upper = np.where(rng.random(3) < 0.5, INF, lower + rng.uniform(0.5, 2.0, 3))
        problems, _ = _checks.box_problems(lower, upper, 0.0, Factors(c, V))
        nodes = MomentEstimate.unknown(1, 3)
        nodes.rel_error[:] = 0.0
        factors_moments.integrate(problems, nodes)
        exact = mvnorth.box_moments(lower, upper, 0.0, np.diag(c) + V @ V.T, rtol=1e-3)
        assert np.all(np.abs(nodes.mean[0] - exact.mean) <= nodes.mean_error[0] + exact.mean_error)
        assert np.all(np.abs(nodes.cov[0] - exact.cov) <= nodes.cov_error[0] + exact.cov_error)


@pytest.mark.parametrize("k", [2, 3])
def test_factors_agree_with_their_matrix(k):
    rng = np.random.default_rng(k)
    c, V = rng.uniform(0.4, 1.0, 8), rng.normal(size=(8, k))
    factors = mvnorth.box_moments(-1.0, 2.0, 0.0, Factors(c, V))
    dense = np.diag(c) + V @ V.T
    problems, _ = _checks.box_problems(-1.0, 2.0, 0.0, dense)
    points = weighted_moments.integrate(problems, Request(Tolerance(1e-2, 0.0), 2**16))
    unit = problems.covariance.unit[0]
    gap = np.abs(points.cov[0] * np.outer(unit, unit) - factors.cov)
    assert np.all(gap <= points.cov_error[0] * np.outer(unit, unit) + factors.cov_error)


def test_gauss_rules_agree_with_points():
    rng = np.random.default_rng(14)
    for two_sided in (False, True):
        cov, lower = correlation(rng, 5), rng.normal(size=5)
        upper = lower + 2.0 if two_sided else INF
        found = mvnorth.box_moments(lower, upper, 0.0, cov)
        assert found.method == "gauss"
        problems, _ = _checks.box_problems(lower, upper, 0.0, cov)
        points = weighted_moments.integrate(problems, Request(Tolerance(0.01, 0.0), 2**18))
        unit = problems.covariance.unit[0]
        gap = np.abs(points.cov[0] * np.outer(unit, unit) - found.cov)
        assert np.all(gap <= points.cov_error[0] * np.outer(unit, unit) + found.cov_error)
        assert gauss.preference(problems) == 5.0
