"""Complements: the probability that at least one limit is exceeded, with relative accuracy.

Judges: a one-dimensional integral in mpmath for a common factor, inclusion and exclusion with
scipy's integrals, scipy's studentised range, Ditlevsen's bounds, sums over both kinds of results.
"""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import studentized_range
from support.unions import one_factor, one_factor_truth, random_correlation

import mvnorth


def one_factor_mpmath(upper, v):
    """The same in 30 digits."""
    with mpmath.workdps(30):
        upper, v = ([mpmath.mpf(float(x)) for x in a] for a in (upper, v))

        def integrand(z):
            product = mpmath.mpf(1)
            for u, w in zip(upper, v, strict=True):
                product *= mpmath.ncdf((u - w * z) / mpmath.sqrt(1 - w * w))
            return mpmath.npdf(z) * (1 - product)

        with mpmath.workdps(45):
            return mpmath.quad(integrand, np.arange(-14.0, 15.0, 2.0).tolist())


def assert_within_claim(result, truth, largest=1e-4, slack=1e-11):
    off = abs(math.expm1(result.log_prob - truth))
    assert off <= result.rel_error + slack
    assert result.rel_error <= largest


@pytest.mark.parametrize("d", [2, 3, 5, 20, 100])
@pytest.mark.parametrize("height", [1.0, 3.0, 6.0, 12.0, 36.5])
def test_one_factor(d, height):
    """Q from 0.9 to 1e-300."""
    rng = np.random.default_rng(d)
    v, cov = one_factor(rng, d)
    upper = height + rng.uniform(0.0, 0.5, d)
    truth = one_factor_truth(upper, v)
    for covariance in (cov, mvnorth.OneFactor(1.0 - v * v, v)):
        result = mvnorth.box(-np.inf, upper, 0.0, covariance, complement=True)
        assert_within_claim(result, truth, 1e-9)


def test_the_judge_against_mpmath():
    rng = np.random.default_rng(1)
    v, cov = one_factor(rng, 3)
    upper = np.array([4.0, 4.5, 7.0])
    truth = float(mpmath.log(one_factor_mpmath(upper, v)))
    assert abs(one_factor_truth(upper, v) - truth) < 1e-11
    assert abs(mvnorth.box_logprob(-np.inf, upper, 0.0, cov, complement=True) - truth) < 1e-11


@pytest.mark.parametrize("d", [5, 9, 15])
@pytest.mark.parametrize("height", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("method", ["tilting", "genz"])
def test_sampled_terms(d, height, method):
    """The general methods on problems with a common factor, which they do not see."""
    rng = np.random.default_rng(d)
    v, cov = one_factor(rng, d)
    upper = height + rng.uniform(0.0, 0.5, d)
    result = mvnorth.box(-np.inf, upper, 0.0, cov, complement=True, method=method)
    assert_within_claim(result, one_factor_truth(upper, v), 2e-4 if method == "tilting" else 1e-2)


@pytest.mark.parametrize("height", [1.5, 3.0, 5.0])
def test_inclusion_and_exclusion(height):
    """General covariances of four: 15 probabilities of events that all happen."""
    rng = np.random.default_rng(3)
    for _ in range(5):
        cov = random_correlation(rng, 4)
        upper = height + rng.uniform(0.0, 1.0, 4)
        total = 0.0
        for k in range(1, 5):
            for some in itertools.combinations(range(4), k):
                part = np.ix_(some, some)
                p = mvnorth.box_prob(upper[list(some)], np.inf, 0.0, cov[part], rtol=1e-9)
                total -= (-1) ** k * p
        result = mvnorth.box(-np.inf, upper, 0.0, cov, complement=True)
        assert abs(result.prob / total - 1.0) <= result.rel_error + 1e-7
        assert result.rel_error <= 1e-4


@pytest.mark.parametrize("d", [6, 30])
@pytest.mark.parametrize("height", [3.0, 5.0, 9.0])
def test_ditlevsen_bounds(d, height):
    rng = np.random.default_rng(d)
    cov = random_correlation(rng, d)
    upper = np.sort(height + rng.uniform(0.0, 0.7, d))
    p = ndtr(-upper)
    pairs = np.zeros((d, d))
    for i, j in itertools.combinations(range(d), 2):
        part = np.ix_((i, j), (i, j))
        pairs[j, i] = mvnorth.box_prob(upper[[i, j]], np.inf, 0.0, cov[part])
    low = np.maximum(p - pairs.sum(axis=1), 0.0).sum()
    high = p.sum() - pairs.max(axis=1).sum()
    result = mvnorth.box(-np.inf, upper, 0.0, cov, complement=True)
    assert low * (1.0 - result.rel_error - 1e-9) <= result.prob
    assert result.prob <= high * (1.0 + result.rel_error + 1e-9)
    assert result.rel_error <= 1e-4
    assert result.log_bound <= math.log(high) + 1e-6


@pytest.mark.parametrize("d", [2, 4, 7, 12])
def test_complement_adds_up_to_one(d):
    rng = np.random.default_rng(d)
    for _ in range(4):
        cov = random_correlation(rng, d)
        lower, upper = -rng.uniform(0.0, 3.0, d), rng.uniform(0.0, 3.0, d)
        lower[rng.random(d) < 0.3] = -np.inf
        p = mvnorth.box(lower, upper, 0.2, cov)
        q = mvnorth.box(lower, upper, 0.2, cov, complement=True)
        assert abs(p.prob + q.prob - 1.0) <= p.error + q.error
        assert q.rel_error <= 1e-4


@pytest.mark.parametrize("q", [2.0, 4.0, 7.0, 12.0])
def test_singular_covariance_of_all_differences(q):
    """The range of four normals: Pr(range > q) as one integral over the largest of them."""
    contrasts = (np.eye(4)[:, None] - np.eye(4)[None])[np.triu_indices(4, 1)] / math.sqrt(2.0)
    limit = q / math.sqrt(2.0)
    result = mvnorth.box(-limit, limit, 0.0, contrasts @ contrasts.T, complement=True)
    z = np.linspace(-20.0, 20.0, 20_001)
    whole, below = ndtr(z), ndtr(z - q)  # Phi(z)^3 - (Phi(z) - Phi(z - q))^3, without cancellation
    integrand = below * (3.0 * whole**2 - 3.0 * whole * below + below**2)
    truth = 4.0 * np.sum(np.exp(-0.5 * z * z) * integrand) * 2e-3 / math.sqrt(2.0 * math.pi)
    if q < 5.0:
        assert abs(studentized_range.sf(q, 4, np.inf) / truth - 1.0) < 1e-5
    assert abs(result.prob - truth) <= result.error + 1e-12 * truth
    assert result.rel_error <= 1e-4


def test_identical_and_opposite_coordinates():
    signs = np.array([1.0, 1.0, -1.0])
    result = mvnorth.box(-np.inf, 5.0, 0.0, np.outer(signs, signs), complement=True)
    assert abs(result.prob / (2.0 * ndtr(-5.0)) - 1.0) <= result.rel_error <= 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_two_sided_symmetric_boxes(seed):
    """Mirrored events share one computation; limits that differ by a little do not."""
    rng = np.random.default_rng(seed)
    cov = random_correlation(rng, 6)
    upper = rng.uniform(2.0, 4.0, 6)
    same = mvnorth.box(-upper, upper, 0.0, cov, complement=True)
    other = mvnorth.box(-upper, upper * (1.0 + 1e-9), 0.0, cov, complement=True)
    assert abs(same.prob / other.prob - 1.0) <= same.rel_error + other.rel_error + 1e-7


def test_nothing_to_exceed_and_always_exceeded():
    cov = np.eye(2) + 0.5
    none = mvnorth.box(-np.inf, np.inf, 0.0, cov, complement=True)
    assert none.log_prob == -np.inf
    assert none.rel_error == 0.0
    empty = mvnorth.box(1.0, 1.0, 0.0, cov, complement=True)
    assert (empty.prob, empty.rel_error) == (1.0, 0.0)
    constant = [[0.0, 0.0], [0.0, 1.0]]
    inside = mvnorth.box([-1.0, -np.inf], 5.0, 0.0, constant, complement=True)
    assert abs(inside.prob / ndtr(-5.0) - 1.0) < 1e-13
    outside = mvnorth.box([0.5, -np.inf], 5.0, 0.0, constant, complement=True)
    assert outside.prob == 1.0
    assert mvnorth.box_prob(np.zeros((0, 3)), 1.0, 0.0, np.eye(3), complement=True).shape == (0,)


def test_batches_do_not_change_bits():
    rng = np.random.default_rng(0)
    upper = np.linspace(0.5, 9.0, 12)[:, None] + rng.uniform(0.0, 0.5, (12, 9))
    covs = np.stack([random_correlation(rng, 9) for _ in range(12)])
    covs[3] = 0.5 * np.eye(9) + 0.5
    for cov in (covs, covs[0]):
        whole = mvnorth.box_logprob(-2.0 * upper, upper, 0.0, cov, complement=True)
        each = np.broadcast_to(cov, covs.shape)
        for k in range(12):
            alone = mvnorth.box_logprob(-2.0 * upper[k], upper[k], 0.0, each[k], complement=True)
            assert whole[k] == alone


def test_orthant_and_cdf_take_it():
    rng = np.random.default_rng(5)
    cov = random_correlation(rng, 5)
    m = rng.uniform(4.0, 5.0, 5)
    expected = mvnorth.box_logprob(-np.inf, m, 0.0, cov, complement=True)
    L = np.linalg.cholesky(cov)
    assert abs(mvnorth.orthant_logprob(m, L, complement=True) - expected) < 1e-4
    assert abs(math.log(mvnorth.orthant_prob(m, L, complement=True)) - expected) < 1e-4
    assert abs(mvnorth.logcdf(m, cov=cov, complement=True) - expected) < 1e-4
    assert abs(math.log(mvnorth.cdf(m, cov=cov, complement=True)) - expected) < 1e-4


def test_tolerances_are_those_of_the_complement():
    cov = random_correlation(np.random.default_rng(6), 10)
    result = mvnorth.box(-np.inf, 3.0, 0.0, cov, complement=True, rtol=1e-2)
    tight = mvnorth.box(-np.inf, 3.0, 0.0, cov, complement=True, rtol=1e-5)
    assert tight.rel_error <= 1e-5 < result.rel_error <= 1e-2
    assert abs(result.prob / tight.prob - 1.0) <= result.rel_error + 1e-5
    loose = mvnorth.box(-np.inf, 3.0, 0.0, cov, complement=True, atol=1e-3)
    assert abs(loose.prob - tight.prob) <= loose.error <= 1e-3


@pytest.mark.parametrize("complement", ["yes", 1, None])
def test_complement_must_be_true_or_false(complement):
    with pytest.raises(TypeError, match="complement must be True or False"):
        mvnorth.box(-1.0, 1.0, 0.0, [[1.0]], complement=complement)
