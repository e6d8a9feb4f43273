"""Genz's method for diag(c) + v v^T: against quadrature over the factor, and the same bits."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr
from support.boxes import fixed_points, one_factor, within

from mvnorth._covariance.dense import Dense
from mvnorth._linalg.one_factor import cholesky, dense_cholesky
from mvnorth._methods import genz, structured
from mvnorth._problem import Problems
from validation.oracles.one_dimension import one_factor_logprob

INF = math.inf


def integrate(problems, request):
    return structured.integrate(problems, request, tilted=False)


def bits(estimate):
    return [a.view(np.int64).tolist() for a in (estimate.log_prob, estimate.rel_error, estimate.n)]


def is_inside(estimate, log_prob, reference_error=0.0):
    """The estimate of a single problem is as close as it says."""
    if np.isinf(estimate.rel_error[0]):
        return True
    ratio = min(log_prob - estimate.log_prob[0], 700.0)
    return abs(math.expm1(ratio)) <= estimate.rel_error[0] + reference_error


def random_case(rng, kind):
    """(lower, upper, c, v), each (d,)."""
    d = int(rng.integers(1, 31))
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d) * np.exp(rng.normal(0.0, 0.7))
    upper = rng.normal(rng.normal(1.0, 2.0), 1.5, size=d)
    lower = np.full(d, -INF)
    if kind == "exact":
        c, v = np.ones(d), np.ones(d)
    if kind == "box":
        lower = upper - np.exp(rng.normal(0.5, 1.0, size=d))
    if kind == "mixed":
        which = rng.random(d)
        lower = np.where(which < 0.4, -INF, upper - np.exp(rng.normal(0.5, 1.0, size=d)))
        upper[(which < 0.1) | (which > 0.8)] = INF
    if kind == "zeros":
        v[rng.random(d) < 0.5] = 0.0
    if kind == "tail":
        upper -= rng.uniform(3.0, 9.0)
    return lower, upper, c, v


KINDS = ("orthant", "exact", "box", "mixed", "zeros", "tail")


@pytest.mark.parametrize("zeros", [False, True])
def test_cholesky_is_that_of_the_matrix(zeros):
    rng = np.random.default_rng(0)
    c, v = np.exp(rng.normal(size=(3, 7))), rng.normal(size=(3, 7))
    if zeros:
        v[:, ::2] = 0.0
    matrix = v[:, :, None] * v[:, None, :] + c[:, :, None] * np.eye(7)
    dense = dense_cholesky(*cholesky(c, v), v)
    np.testing.assert_allclose(dense, np.linalg.cholesky(matrix), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_inside_the_stated_error(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    outside = 0
    for k in range(60):
        case = random_case(rng, kind)
        truth, reference_error = one_factor_logprob(*case)
        estimate = integrate(one_factor(*case), fixed_points(1024, k))
        assert np.isfinite(estimate.log_prob[0])
        outside += not is_inside(estimate, truth, reference_error)
    assert outside <= 1


@pytest.mark.parametrize("d", [1, 9, 99])
def test_one_of_d_plus_one_equal_scores_is_largest(d):
    problems = one_factor(-INF, np.zeros(d), np.ones(d), np.ones(d))
    estimate = integrate(problems, fixed_points(2**15))
    assert estimate.rel_error[0] < 0.05
    assert is_inside(estimate, -math.log(d + 1))


def test_a_hundred_thousand_coordinates():
    d = 100_000
    z, weights = np.polynomial.hermite_e.hermegauss(60)
    one = log_ndtr((5.0 + 0.1 * z) / math.sqrt(0.99))
    truth = math.log(np.sum(weights * np.exp(d * one)) / math.sqrt(2.0 * math.pi))
    problems = one_factor(-INF, np.full(d, 5.0), np.full(d, 0.99), np.full(d, 0.1))
    estimate = integrate(problems, fixed_points(256))
    assert estimate.rel_error[0] < 0.05
    assert is_inside(estimate, truth)


def test_agrees_with_the_dense_method():
    rng = np.random.default_rng(5)
    lower, upper, c, v = random_case(rng, "mixed")
    factor = np.linalg.cholesky(np.diag(c) + np.outer(v, v))
    limited = np.isfinite(lower) | np.isfinite(upper)
    limits = lower[None, limited], upper[None, limited]
    scale = np.ones((1, limited.sum()))
    dense = Problems(*limits, Dense(factor[None, limited], 1e-15, scale), np.zeros(1))
    other = genz.integrate(dense, fixed_points(2**14, 1), tilted=False)
    estimate = integrate(one_factor(lower, upper, c, v), fixed_points(2**14))
    assert estimate.rel_error[0] < 0.05
    gap = abs(math.expm1(other.log_prob[0] - estimate.log_prob[0]))
    assert gap <= estimate.rel_error[0] + other.rel_error[0]


@pytest.mark.parametrize("depth", [3.0, 10.0, 40.0, 1e3, 1e6])
def test_deep_tails_are_finite_and_never_too_sure(depth):
    case = (np.full(12, -INF), np.full(12, -depth), np.ones(12), np.ones(12))
    truth, reference_error = one_factor_logprob(*case)
    estimate = integrate(one_factor(*case), fixed_points(1024))
    assert estimate.log_prob[0] == pytest.approx(truth, rel=0.05)
    assert is_inside(estimate, truth, reference_error)


def test_beyond_reach_nothing_is_claimed():
    upper = np.array([-1e9, 1.0])
    estimate = integrate(one_factor(-INF, upper, np.ones(2), np.ones(2)), fixed_points(64))
    assert np.isinf(estimate.rel_error[0])


def test_tolerance_decides_the_number_of_points():
    lower, upper, c, v = random_case(np.random.default_rng(8), "exact")
    problems = one_factor(lower, upper, c, v)
    truth, _ = one_factor_logprob(lower, upper, c, v)
    used = []
    for relative in (1e-1, 1e-2, 1e-3):
        estimate = integrate(problems, within(relative))
        assert estimate.rel_error[0] <= relative
        assert is_inside(estimate, truth)
        used.append(int(estimate.n[0]))
    assert used == sorted(used)
    assert used[0] < used[-1]


def test_coordinates_without_limits_do_not_count():
    rng = np.random.default_rng(2)
    lower, upper, c, v = random_case(rng, "orthant")
    more = [np.append(a, [x, x]) for a, x in ((lower, -INF), (upper, INF), (c, 1.0), (v, 2.0))]
    one = integrate(one_factor(lower, upper, c, v), fixed_points(512))
    other = integrate(one_factor(*more), fixed_points(512))
    truth, _ = one_factor_logprob(lower, upper, c, v)
    assert is_inside(one, truth)
    assert is_inside(other, truth)
    nothing = one_factor(-INF, np.full(3, INF), np.ones(3), np.ones(3))
    assert integrate(nothing, fixed_points(64)).log_prob[0] == 0.0


def test_lower_limits_are_mirrored_upper_ones():
    lower, upper, c, v = random_case(np.random.default_rng(3), "orthant")
    one = integrate(one_factor(lower, upper, c, v), fixed_points(512))
    mirrored = one_factor(-upper, -lower, c, v)
    assert bits(integrate(mirrored, fixed_points(512))) == bits(one)
