"""Identities that probabilities of normals satisfy, whatever computes them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mvnorth

INF = np.inf
SEEDS = st.integers(0, 2**32 - 1)
EXAMPLES = settings(deadline=None, derandomize=True, max_examples=25)


def _random_cov(rng, d):
    """Random correlations, from nearly independent to nearly singular, and random scales."""
    loadings = rng.normal(size=(d, d)) + rng.normal() * np.ones(d)
    cov = loadings @ loadings.T + 10.0 ** rng.uniform(-2.0, 1.0) * np.eye(d)
    scale = np.exp(rng.normal(0.0, 0.5, size=d)) / np.sqrt(np.diag(cov))
    return cov * np.outer(scale, scale)


def _random_problem(seed, d):
    """(mean, cov) in units of about one deviation."""
    rng = np.random.default_rng(seed)
    cov = _random_cov(rng, d)
    return rng.normal(0.5, 1.0, size=d) * np.sqrt(np.diag(cov)), cov


def _slack(*results):
    """How far a sum of results may be off.

    Errors hold at 99 % each, and there are a thousand of them here: three times is never. How
    often they hold is counted in test_api.
    """
    return 3.0 * sum(float(np.sum(result.error)) for result in results) + 1e-13


def _assert_equal(one, other):
    assert abs(one.prob - other.prob) <= _slack(one, other), f"{one}\n{other}"


# ---------------------------------------------------------------- zero mean


@pytest.mark.parametrize("method", ["auto", "genz"])
@pytest.mark.parametrize("rho", [-1.0, -0.999, -0.9, -0.5, 0.0, 1e-9, 0.3, 0.8, 0.95, 0.99999, 1.0])
def test_two_coordinates(rho, method):
    exact = 0.25 + math.asin(rho) / (2.0 * math.pi)
    result = mvnorth.orthant([0.0, 0.0], [[1.0, 0.0], [rho, math.sqrt(1.0 - rho * rho)]])
    assert result.prob == pytest.approx(exact, rel=1e-12, abs=1e-15 if exact else 1e-14)
    assert abs(result.prob - exact) <= max(result.error, 1e-15)
    result = mvnorth.box(0.0, INF, 0.0, [[4.0, 2.0 * rho], [2.0 * rho, 1.0]], method=method)
    assert abs(result.prob - exact) <= max(result.error, 1e-15)


@pytest.mark.parametrize("method", ["auto", "genz"])
@pytest.mark.parametrize("tiny", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14])
def test_two_coordinates_by_a_factor_with_a_small_diagonal(tiny, method):
    """Correlations +-1 but for rounding: only the factor knows the angle between the two rows."""
    wedge = math.atan(tiny) / (2.0 * math.pi)
    apart = mvnorth.orthant([0.0, 0.0], [[1.0, 0.0], [-1.0, tiny]], method=method)
    assert apart.prob == pytest.approx(wedge, rel=apart.rel_error, abs=0.0)
    together = mvnorth.orthant([0.0, 0.0], [[1.0, 0.0], [1.0, tiny]], method=method)
    assert together.prob == pytest.approx(0.5 - wedge, rel=together.rel_error, abs=0.0)


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS)
def test_three_coordinates(method, seed):
    rng = np.random.default_rng(seed)
    cov = _random_cov(rng, 3)
    deviation = np.sqrt(np.diag(cov))
    corr = cov / np.outer(deviation, deviation)
    angles = math.fsum(math.asin(corr[i, j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    exact = 0.125 + angles / (4.0 * math.pi)
    result = mvnorth.orthant(np.zeros(3), np.linalg.cholesky(cov), method=method)
    assert abs(result.prob - exact) <= _slack(result)
    assert result.rel_error < 1e-3


@pytest.mark.parametrize("method", ["auto", "genz"])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 12, 20])
def test_exchangeable_one_half(d, method):
    result = mvnorth.orthant(np.zeros(d), np.linalg.cholesky(np.eye(d) + 1.0), method=method)
    assert result.prob == pytest.approx(1.0 / (d + 1), abs=result.error)
    assert result.rel_error <= 1e-3


@pytest.mark.parametrize("d", [2, 3, 4, 7])
def test_ordered_normals(d):
    """x_1 <= x_2 <= ... of d + 1 normals: one of (d + 1)! orders."""
    differences = np.diff(np.eye(d + 1), axis=0)
    result = mvnorth.box(0.0, INF, 0.0, differences @ differences.T)
    assert result.prob == pytest.approx(1.0 / math.factorial(d + 1), abs=result.error)
    assert result.rel_error <= 1e-2


# ---------------------------------------------------------------- sums of probabilities


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_all_orthants_sum_to_one(d):
    mean, cov = _random_problem(d, d)
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
    covs = cov * signs[:, :, None] * signs[:, None, :]
    result = mvnorth.orthant(signs * mean, np.linalg.cholesky(covs))
    assert abs(math.fsum(result.prob) - 1.0) <= _slack(result)
    assert math.fsum(result.error) < 1e-3


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(2, 5))
def test_complement_of_one_coordinate(method, seed, d):
    """P(x_1 <= b, rest) + P(x_1 >= b, rest) = P(rest)."""
    mean, cov = _random_problem(seed, d)
    below, above = np.zeros((2, 2, d))
    below[1] = above[1] = INF
    below[:, 0] = -INF, 0.0
    above[:, 0] = 0.0, INF
    parts = [mvnorth.box(*limits, mean, cov, method=method) for limits in (below, above)]
    rest = mvnorth.box(0.0, INF, mean[1:], cov[1:, 1:], method=method)
    total = parts[0].prob + parts[1].prob
    assert abs(total - rest.prob) <= _slack(*parts, rest)


@EXAMPLES
@given(seed=SEEDS)
def test_box_by_inclusion_and_exclusion(seed):
    """Pr(box) of 4 coordinates as an alternating sum of 16 distribution functions."""
    mean, cov = _random_problem(seed, 4)
    rng = np.random.default_rng(seed)
    deviation = np.sqrt(np.diag(cov))
    lower = mean - rng.uniform(0.0, 2.0, 4) * deviation
    upper = mean + rng.uniform(0.0, 2.0, 4) * deviation
    choices = np.array(list(itertools.product([0, 1], repeat=4)))
    corners = mvnorth.box(-INF, np.where(choices == 1, lower, upper), mean, cov)
    alternating = math.fsum(corners.prob * (-1.0) ** choices.sum(axis=1))
    box = mvnorth.box(lower, upper, mean, cov)
    assert abs(box.prob - alternating) <= _slack(box, corners)


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(1, 5))
def test_a_box_cut_in_two(method, seed, d):
    mean, cov = _random_problem(seed, d)
    lower, upper = np.full(d, -1.0), np.full(d, 1.0)
    cut_upper, cut_lower = upper.copy(), lower.copy()
    cut_upper[0] = cut_lower[0] = 0.25
    whole = mvnorth.box(lower, upper, mean, cov, method=method)
    left = mvnorth.box(lower, cut_upper, mean, cov, method=method)
    right = mvnorth.box(cut_lower, upper, mean, cov, method=method)
    assert abs(left.prob + right.prob - whole.prob) <= _slack(whole, left, right)


# ---------------------------------------------------------------- invariance


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(2, 7))
def test_an_infinite_limit_drops_a_coordinate(method, seed, d):
    mean, cov = _random_problem(seed, d)
    rng = np.random.default_rng(seed)
    dropped = int(rng.integers(d))
    kept = np.delete(np.arange(d), dropped)
    lower = np.zeros(d)
    lower[dropped] = -INF
    whole = mvnorth.box(lower, INF, mean, cov, method=method)
    part = mvnorth.box(0.0, INF, mean[kept], cov[np.ix_(kept, kept)], method=method)
    _assert_equal(whole, part)
    certain = mean.copy()
    certain[dropped] = INF
    _assert_equal(mvnorth.orthant(certain, np.linalg.cholesky(cov), method=method), part)


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(2, 7))
def test_permutations(method, seed, d):
    mean, cov = _random_problem(seed, d)
    order = np.random.default_rng(seed).permutation(d)
    one = mvnorth.orthant(mean, np.linalg.cholesky(cov), method=method)
    permuted = np.linalg.cholesky(cov[np.ix_(order, order)])
    other = mvnorth.orthant(mean[order], permuted, method=method)
    _assert_equal(one, other)
    _assert_equal(one, mvnorth.box(0.0, INF, mean[order], cov[np.ix_(order, order)], method=method))


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(1, 6), power=st.integers(-200, 200))
def test_powers_of_two_as_scales(method, seed, d, power):
    """A power of two as the scale of a coordinate loses no bit of the problem."""
    mean, cov = _random_problem(seed, d)
    scale = np.ones(d)
    scale[seed % d] = 2.0**power
    L = np.linalg.cholesky(cov)
    one = mvnorth.orthant(mean, L, method=method)
    other = mvnorth.orthant(mean * scale, L * scale[:, None], method=method)
    assert one.prob == pytest.approx(other.prob, rel=1e-13, abs=0.0)
    assert one.n == other.n


@pytest.mark.parametrize("method", ["auto", "genz"])
@pytest.mark.parametrize("power", [-1000, 1000])
@pytest.mark.parametrize("d", [1, 3, 4])
def test_scales_whose_squares_are_no_numbers(d, power, method):
    mean, cov = _random_problem(d, d)
    L = np.linalg.cholesky(cov)
    scale = np.ones(d)
    scale[-1] = 2.0**power
    one = mvnorth.orthant(mean, L, 256, method=method)
    other = mvnorth.orthant(mean * scale, L * scale[:, None], 256, method=method)
    assert one.prob == pytest.approx(other.prob, rel=1e-13, abs=0.0)


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(1, 6))
def test_scales(method, seed, d):
    mean, cov = _random_problem(seed, d)
    scale = np.exp(np.random.default_rng(seed).normal(0.0, 3.0, size=d))
    one = mvnorth.box(-1.0, 2.0, mean, cov, method=method)
    cov = cov * np.outer(scale, scale)
    other = mvnorth.box(-scale, 2.0 * scale, mean * scale, cov, method=method)
    _assert_equal(one, other)


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(1, 6))
def test_reflection_and_shift(method, seed, d):
    mean, cov = _random_problem(seed, d)
    one = mvnorth.box(-1.0, 2.0, mean, cov, method=method)
    _assert_equal(one, mvnorth.box(-2.0, 1.0, -mean, cov, method=method))
    _assert_equal(one, mvnorth.box(-1.0 - mean, 2.0 - mean, 0.0, cov, method=method))
    signs = np.where(np.arange(d) % 2 == 0, -1.0, 1.0)
    lower, upper = np.where(signs > 0, -1.0, -2.0), np.where(signs > 0, 2.0, 1.0)
    cov = cov * np.outer(signs, signs)
    _assert_equal(one, mvnorth.box(lower, upper, mean * signs, cov, method=method))


# ---------------------------------------------------------------- inequalities


@pytest.mark.parametrize("method", ["auto", "genz"])
@EXAMPLES
@given(seed=SEEDS, d=st.integers(1, 6))
def test_monotone_in_the_mean(method, seed, d):
    mean, cov = _random_problem(seed, d)
    steps = np.linspace(-2.0, 2.0, 9)
    m = np.repeat(mean[None], 9, axis=0)
    m[:, seed % d] += steps
    result = mvnorth.orthant(m, np.linalg.cholesky(cov), method=method)
    assert (np.diff(result.prob) >= -3.0 * (result.error[1:] + result.error[:-1])).all()


@EXAMPLES
@given(seed=SEEDS, d=st.integers(2, 6))
def test_frechet_bounds(seed, d):
    """max(0, sum p_i - d + 1) <= P <= min p_i."""
    mean, cov = _random_problem(seed, d)
    single = mvnorth.special.ndtr(mean / np.sqrt(np.diag(cov)))
    result = mvnorth.orthant(mean, np.linalg.cholesky(cov))
    slack = _slack(result)
    assert single.sum() - d + 1.0 - slack <= result.prob <= single.min() + slack


@EXAMPLES
@given(seed=SEEDS, d=st.integers(2, 6))
def test_slepians_inequality(seed, d):
    """Larger correlations make an orthant more probable."""
    mean, cov = _random_problem(seed, d)
    more = 0.5 * cov + 0.5 * np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    one, other = (mvnorth.box(0.0, INF, mean, matrix) for matrix in (cov, more))
    assert other.prob >= one.prob - _slack(one, other)
