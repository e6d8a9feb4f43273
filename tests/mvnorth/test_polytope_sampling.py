"""Draws from polytopes."""

import numpy as np
import pytest
from scipy.stats import kstest, truncnorm
from support.polytopes import random_polytope

from mvnorth import OneFactor, polytope_logprob, sample_polytope


@pytest.fixture
def rng():
    return np.random.default_rng(25)


@pytest.mark.parametrize(("d", "r"), [(2, 3), (2, 8), (3, 2), (3, 9), (6, 14)])
def test_draws_are_inside_and_have_the_moments_of_plain_ones(rng, d, r):
    A, b, mean, cov = random_polytope(rng, d, r)
    sample = sample_polytope(A, b, mean, cov, 20_000)
    X = np.asarray(sample)
    assert X.shape == (20_000, d)
    assert (b + 1e-12 * (np.abs(X) @ np.abs(A).T + np.abs(b)) >= X @ A.T).all()
    plain = rng.multivariate_normal(mean, cov, size=1_500_000 // d, method="cholesky")
    plain = plain[(plain @ A.T <= b).all(axis=1)]
    for power in (1, 2):
        ours, others = X**power, plain**power
        spread = np.sqrt(ours.var(axis=0) / len(ours) + others.var(axis=0) / len(others))
        assert (np.abs(ours.mean(axis=0) - others.mean(axis=0)) < 4.5 * spread).all()
    product = X[:, :1] * X[:, 1:] if d > 1 else X
    other = plain[:, :1] * plain[:, 1:] if d > 1 else plain
    spread = np.sqrt(product.var(axis=0) / len(X) + other.var(axis=0) / len(plain))
    assert (np.abs(product.mean(axis=0) - other.mean(axis=0)) < 4.5 * spread).all()


def test_acceptance_estimates_the_probability(rng):
    A, b, mean, cov = random_polytope(rng, 3, 7)
    sample = sample_polytope(A, b, mean, cov, 50_000)
    estimate = np.log(sample.acceptance) + sample.log_bound
    assert abs(estimate - polytope_logprob(A, b, mean, cov)) < 0.03


def test_one_slab_has_the_distribution_that_is_known():
    """Along the row a truncated normal, and the rest as without it."""
    a = np.array([3.0, -1.0, 2.0])
    X = sample_polytope([a, -a], [4.0, -2.0], 0.0, np.eye(3), 5000).draws
    length = np.linalg.norm(a)
    along = X @ a / length
    assert kstest(along, truncnorm(2.0 / length, 4.0 / length).cdf).pvalue > 1e-3
    across = X @ np.array([1.0, 3.0, 0.0]) / np.sqrt(10.0)
    assert kstest(across, "norm").pvalue > 1e-3


def test_the_tails():
    A, b = -np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), -np.array([30.0, 30.0, 80.0])
    X = sample_polytope(A, b, 0.0, np.eye(2), 2000).draws
    assert (b + 1e-12 >= X @ A.T).all()
    assert abs(X.sum(axis=1).mean() - 80.0 - 2.0 / 80.0) < 2e-3  # the mean excess of N(0, 2)


def test_boxes_keep_their_structure_and_limits():
    A = np.concatenate([np.eye(40), -np.eye(40)])
    cov = OneFactor(1.0, np.ones(40))
    sample = sample_polytope(A, 1.0, 0.0, cov, 500)
    assert np.abs(sample.draws).max() <= 1.0
    assert sample.acceptance > 0.9  # the common factor first
    assert (sample_polytope(A, 1.0, 0.0, cov, 20).draws == sample.draws[:20]).all()


def test_batches_seeds_and_no_limits(rng):
    A, b = rng.normal(size=(3, 1, 5, 2)), rng.uniform(0.5, 2.0, size=(4, 5))
    whole = sample_polytope(A, b, 0.0, np.eye(2), 10)
    assert whole.draws.shape == (3, 4, 10, 2)
    assert (whole.draws != sample_polytope(A, b, 0.0, np.eye(2), 10, seed=1).draws).all()
    assert np.unique(whole.draws).size == whole.draws.size
    free = sample_polytope([[1.0, 1.0], [0.0, 0.0]], [np.inf, 1.0], 3.0, np.eye(2), 4000).draws
    assert kstest(free.ravel() - 3.0, "norm").pvalue > 1e-3
    singular = sample_polytope([[1.0, 0.5]], [0.2], 0.0, np.ones((2, 2)), 50).draws
    assert np.abs(singular[:, 0] - singular[:, 1]).max() < 1e-12


def test_empty_polytopes_are_refused():
    simplex = [[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]]
    with pytest.raises(ValueError, match="nothing to draw: A X <= b has probability zero"):
        sample_polytope(simplex, [0.0, 0.0, -1.0], 0.0, np.eye(2), 5)
    with pytest.raises(ValueError, match="in row 1 of the batch"):
        sample_polytope(simplex, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]], 0.0, np.eye(2), 5)
    with pytest.raises(ValueError, match="size must be at least 1"):
        sample_polytope(simplex, 1.0, 0.0, np.eye(2), 0)
