"""Probability to be best among correlated scores, against independent ones and counting."""

import numpy as np
import pytest
from scipy.special import ndtr

import mvnorth
from mvnorth import Factors, OneFactor, prob_argmax


def scores(seed, classes, k):
    rng = np.random.default_rng(seed)
    cov = Factors(rng.uniform(0.2, 1.0, classes), 0.7 * rng.normal(size=(classes, k)))
    return rng.normal(size=classes), cov


def test_a_factor_that_all_share_cancels():
    mu, cov = scores(0, 7, 1)
    expected = prob_argmax(mu, np.sqrt(cov.c))
    for shared in (
        OneFactor(cov.c, np.full(7, 1.3)),
        Factors(cov.c, np.ones((7, 3)) * [1.0, 2.0, -1.0]),
    ):
        got, error = prob_argmax(mu, cov=shared, atol=1e-11, errors=True)
        assert (np.abs(got - expected) <= error + 1e-13).all()
        assert error.max() <= 1e-11
    got, error = prob_argmax(mu, cov=np.diag(cov.c), atol=1e-7, errors=True)
    assert (np.abs(got - expected) <= error + 1e-13).all()
    assert prob_argmax([0.3], cov=[[2.0]]) == 1.0
    assert prob_argmax(np.zeros((0, 3)), cov=np.zeros((0, 3, 3))).shape == (0, 3)


def test_two_scores():
    cov = np.array([[1.0, 0.6], [0.6, 2.0]])
    best = ndtr(0.5 / np.sqrt(1.0 + 2.0 - 1.2))
    np.testing.assert_allclose(prob_argmax([0.5, 0.0], cov=cov), [best, 1.0 - best], rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_factors_agree_with_their_matrix_and_add_up_to_one(k):
    mu, cov = scores(k, 6, k)
    atol = 1e-10 if k < 3 else 1e-7
    exact, error = prob_argmax(mu, cov=cov, atol=atol, errors=True)
    assert error.max() <= atol
    assert abs(exact.sum() - 1.0) <= error.sum()
    dense, dense_error = prob_argmax(mu, cov=cov.dense(), errors=True)
    assert dense_error.max() <= 1e-4
    assert (np.abs(dense - exact) <= error + dense_error).all()


def test_singular_covariance_of_a_process():
    """Values of a smooth process at points close to each other, given some of them."""
    x = np.linspace(0.0, 1.0, 25)[:, None]
    X = np.array([[0.1], [0.4], [0.45], [0.8]])

    def kernel(a, b):
        return np.exp(-0.5 * ((a - b.T) / 0.2) ** 2)

    gain = kernel(x, X) @ np.linalg.inv(kernel(X, X) + 1e-6 * np.eye(4))
    cov = kernel(x, x) - gain @ kernel(X, x)
    cov = 0.5 * (cov + cov.T)
    mu = gain @ np.sin(6.0 * X[:, 0])
    got, error = prob_argmax(mu, cov=cov, errors=True)
    assert error.max() <= 1e-4
    assert abs(got.sum() - 1.0) <= error.sum()
    values, vectors = np.linalg.eigh(cov)
    draws = (
        np.random.default_rng(0).normal(size=(10**6, 25))
        @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    )
    share = np.bincount((mu + draws).argmax(axis=1), minlength=25) / 10**6
    assert (np.abs(got - share) <= error + 4.0 * np.sqrt((got + 1e-6) / 10**6)).all()


def test_constants_and_ties():
    np.testing.assert_allclose(prob_argmax([1.0, 0.0, 2.0], cov=np.zeros((3, 3))), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(prob_argmax(np.zeros(3), cov=np.zeros((3, 3))), 1.0 / 3.0)
    same = [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    np.testing.assert_allclose(
        prob_argmax([0.0, 0.0, 1.0], cov=same), [ndtr(-1.0) / 2] * 2 + [ndtr(1.0)]
    )
    np.testing.assert_allclose(prob_argmax([0.5, 0.0, 1.0], cov=same)[1], 0.0)


def test_scores_that_never_win():
    for cov in (np.eye(3), Factors(1.0, np.ones((3, 2)))):
        got = prob_argmax([0.0, -np.inf, 1.0], cov=cov)
        np.testing.assert_allclose(got, [ndtr(-np.sqrt(0.5)), 0.0, ndtr(np.sqrt(0.5))], atol=1e-4)


def test_batches_and_precision():
    mu, cov = scores(4, 5, 2)
    rows = np.stack([mu, mu + np.arange(5.0), mu - 1.0])
    together = prob_argmax(rows, cov=cov)
    for b in range(3):
        np.testing.assert_array_equal(together[b], prob_argmax(rows[b], cov=cov))
    other = Factors(np.stack([cov.c, cov.c, 2.0 * cov.c]), cov.V)
    np.testing.assert_array_equal(prob_argmax(rows, cov=other)[1], together[1])
    assert prob_argmax(mu.astype(np.float32), cov=cov).dtype == np.float32
    assert prob_argmax(rows, cov=np.stack([cov.dense()] * 3)).shape == (3, 5)


def test_relative_tolerance():
    mu, cov = scores(5, 5, 1)
    mu[2] -= 12.0
    got, error = prob_argmax(mu, cov=cov, rtol=1e-8, errors=True)
    assert 0.0 < got[2] < 1e-10
    assert (error <= 1e-8 * got).all()
    others = np.delete(np.arange(5), 2)
    difference = np.eye(5)[2] - np.eye(5)[others]
    matrix = difference @ cov.dense() @ difference.T
    plain = mvnorth.box(-np.inf, mu[2] - mu[others], 0.0, matrix, rtol=1e-6)
    assert abs(got[2] - plain.prob) <= 2e-6 * plain.prob


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sigma": np.eye(3)}, "goes in cov="),
        ({"sigma": 1.0, "cov": np.eye(3)}, "either sigma or cov"),
        ({"cov": np.eye(3), "relative": True}, "rtol with cov"),
        ({"sigma": 1.0, "atol": 1e-3}, "go with cov"),
        ({"cov": np.eye(4)}, "for 3 scores"),
        ({"cov": -np.eye(3)}, "diagonal >= 0"),
        ({"cov": [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}, "semi-definite"),
    ],
)
def test_wrong_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        prob_argmax(np.zeros(3), **given)
    with pytest.raises(TypeError, match="sigma"):
        prob_argmax(np.zeros(3))
