"""The single-precision kernel of EXACT, against the one in double precision and 40 digits."""

import mpmath
import numpy as np
import pytest

from mvnorth import _interface

DONE, GENERAL, NO_LABEL = 0, 1, 2


def by_kernel(scores, labels, sigma=1.0, margin=np.inf, threads=1):
    """Return log P, its derivatives in scores and sigma, and the states of rows."""
    grad_scores = np.full_like(scores, np.nan)
    grad_sigma = np.full(len(scores), np.nan, np.float32)
    deviations = np.atleast_1d(np.float32(sigma))
    log_prob, state = _interface.label_best(
        scores, labels, deviations, margin, grad_scores, grad_sigma, threads
    )
    return log_prob, grad_scores, grad_sigma, state


def in_double(scores, labels, sigma=1.0, margin=np.inf):
    """Return the same from the kernel in double precision."""
    size, classes = scores.shape
    rows = np.arange(size)
    sigma = np.atleast_1d(np.float32(sigma)).astype(float)[:, None]
    gap = scores[rows, labels].astype(float)[:, None] - scores
    a = np.minimum(gap, margin) / sigma
    a[rows, labels] = 1e30
    in_a = np.empty(a.shape)
    one = np.ones((1, classes))
    log_prob = _interface.integrate_one_factor(a, one, one, {"m": in_a}, 1)
    a[rows, labels] = 0.0
    grad_sigma = -(a * in_a).sum(1) / sigma[:, 0]
    grad = np.where(gap > margin, 0.0, -in_a / sigma)
    grad[rows, labels] = 0.0
    grad[rows, labels] = -grad.sum(1)
    return log_prob, grad, grad_sigma


def agree(found, true, sigma, accuracy=2e-6):
    """Hold log P to 1e-6, and derivatives to this accuracy, relative to the largest of a row."""
    log_prob, grad_scores, grad_sigma, state = found
    done = state == DONE
    assert done.mean() > 0.9
    log_true, scores_true, sigma_true = (array[done] for array in true)
    assert (np.abs(log_prob[done] - log_true) <= 1e-6 * (1 + np.abs(log_true))).all()
    least = 1e-11 * scores_true.shape[1] / np.min(sigma)  # of classes that are left out
    largest = np.abs(scores_true).max(axis=1)
    error = np.abs(grad_scores[done] - scores_true).max(axis=1)
    assert (error <= accuracy * largest + least).all()
    size = np.abs(sigma_true) + largest
    assert (np.abs(grad_sigma[done] - sigma_true) <= 1e-5 * size + 100.0 * least).all()


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
@pytest.mark.parametrize("classes", [2, 3, 10, 33, 100, 1000, 3000])
def test_agrees_with_double_precision(classes, spread, sigma):
    rng = np.random.default_rng([classes, int(spread), int(100 * sigma)])
    size = max(3, 1500 // classes)
    scores = (spread * rng.standard_normal((size, classes))).astype(np.float32)
    labels = rng.integers(0, classes, size)
    agree(by_kernel(scores, labels, sigma), in_double(scores, labels, sigma), sigma)


@pytest.mark.parametrize("margin", [0.0, 0.5, 3.0])
def test_margin_and_a_deviation_for_each_row(margin):
    rng = np.random.default_rng(5)
    scores = (2.0 * rng.standard_normal((200, 17))).astype(np.float32)
    labels, sigma = rng.integers(0, 17, 200), rng.uniform(0.2, 3.0, 200)
    true = in_double(scores, labels, sigma, margin)
    agree(by_kernel(scores, labels, sigma, margin), true, sigma)


def test_one_favourite_and_one_laggard_among_many():
    scores = np.zeros((4, 500), np.float32)
    scores[:, 7] = [3.0, 9.0, -5.0, 40.0]
    scores[:, 9] = [-30.0, 2.0, 8.0, 38.0]
    for label in (7, 9, 0):
        labels = np.full(4, label)
        agree(by_kernel(scores, labels, 0.8), in_double(scores, labels, 0.8), 0.8)


@pytest.mark.parametrize("classes", [500, 3000])
def test_two_groups_of_equal_scores(classes):
    rng = np.random.default_rng(classes)
    rows = np.arange(20)
    distance = rng.choice([-60.0, -12.0, -4.0, 0.5, 6.0, 9.5, 20.0], (20, 1))
    scores = np.where(rng.random((20, classes)) < 0.5, distance, 0.0).astype(np.float32)
    labels = rng.integers(0, classes, 20)
    scores[rows, labels] = rng.normal(0.0, 30.0, 20)
    agree(by_kernel(scores, labels, 1.0), in_double(scores, labels, 1.0), 1.0, 1e-5)


@pytest.mark.parametrize("classes", [5, 64, 20_000])
def test_equal_scores_share_the_probability(classes):
    found = by_kernel(np.full((1, classes), 2.5, np.float32), np.array([3]), 0.7)
    assert found[3] == [DONE]
    assert found[0][0] == pytest.approx(-np.log(classes), rel=3e-7)
    assert found[1][0].sum(dtype=float) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("label", [0, 2, 5])
def test_forty_digits(label):
    scores = np.array([[0.5, -1.25, 2.0, 0.0, 1.5, -3.0]], np.float32)
    sigma = 0.75
    with mpmath.workdps(40):
        gaps = [
            (mpmath.mpf(float(scores[0, label])) - mpmath.mpf(float(score))) / mpmath.mpf(sigma)
            for j, score in enumerate(scores[0])
            if j != label
        ]
        value = mpmath.quad(
            lambda z: mpmath.npdf(z) * mpmath.fprod(mpmath.ncdf(gap + z) for gap in gaps),
            [-12, -6, -3, 0, 3, 6, 12],
        )
        expected = float(mpmath.log(value))
    log_prob, *_ = by_kernel(scores, np.array([label]), sigma)
    assert log_prob[0] == pytest.approx(expected, rel=3e-7)


def test_a_sure_label_has_no_derivatives():
    scores = np.array([[30.0, 0.0, -np.inf], [0.0, -20.0, -25.0]], np.float32)
    log_prob, grad_scores, grad_sigma, state = by_kernel(scores, np.array([0, 0]))
    assert (state == DONE).all()
    assert not log_prob.any()
    assert not grad_scores.any()
    assert not grad_sigma.any()


def test_rows_that_are_left_to_other_kernels():
    scores = np.zeros((6, 4), np.float32)
    scores[0, 1] = np.nan
    scores[1, 1] = np.inf
    scores[2, 0] = -np.inf
    scores[3, 1] = 1e5  # deviations ahead
    labels = np.array([0, 0, 0, 0, -1, 4])
    state = by_kernel(scores, labels)[3]
    assert state.tolist() == [GENERAL] * 4 + [NO_LABEL] * 2


def test_bits_do_not_depend_on_the_batch_or_the_threads():
    rng = np.random.default_rng(0)
    scores = (3.0 * rng.standard_normal((300, 130))).astype(np.float32)
    labels = rng.integers(0, 130, 300)
    whole = by_kernel(scores, labels, 0.5, threads=2)
    parts = [by_kernel(scores[k : k + 7], labels[k : k + 7], 0.5) for k in range(0, 300, 7)]
    for array, pieces in zip(
        whole[:3], zip(*(part[:3] for part in parts), strict=True), strict=True
    ):
        np.testing.assert_array_equal(array, np.concatenate(pieces))
