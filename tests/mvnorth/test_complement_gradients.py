"""Derivatives of complements, and of probabilities close to 1.

Judge: differences of a one-dimensional integral, without cancellation, and closed forms.
"""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm
from support.unions import one_factor, one_factor_truth, random_correlation

import mvnorth

STEP = 1e-4


def difference(function, x, i):
    """Return the derivative of a function in x_i to about 1e-7, of fourth order in the step."""
    moved = [x.copy() for _ in range(4)]
    for k, of in zip((-2, -1, 1, 2), moved, strict=True):
        of[i] += k * STEP
    a, b, c, d = (function(of) for of in moved)
    return (a - 8.0 * b + 8.0 * c - d) / (12.0 * STEP)


def assert_close(value, error, truth, tolerance=1e-3):
    """Within the claimed errors, which are small, and 1e-6 for the differences."""
    truth = np.asarray(truth)
    largest = np.abs(truth).max()
    assert (np.abs(value - truth) <= error + 1e-6 * largest).all()
    assert (error <= tolerance * largest).all()


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("height", [1.0, 3.0, 7.0, 20.0, 36.5])
def test_one_factor(d, height):
    rng = np.random.default_rng(d)
    v, cov = one_factor(rng, d)
    c, upper = 1.0 - v * v, height + rng.uniform(0.0, 0.3, d)
    in_upper = [difference(lambda x: one_factor_truth(x, v, c), upper, i) for i in range(d)]
    in_v = [difference(lambda x: one_factor_truth(upper, x, c), v, i) for i in range(d)]
    in_c = [difference(lambda x: one_factor_truth(upper, v, x), c, i) for i in range(d)]
    given = mvnorth.box_grad(
        -np.inf, upper, 0.0, mvnorth.OneFactor(c, v), wrt=("upper", "mean", "c", "v"),
        log=True, complement=True,
    )  # fmt: skip
    assert_close(given.grad_upper, given.grad_upper_error, in_upper)
    assert_close(-given.grad_mean, given.grad_mean_error, in_upper)
    assert_close(given.grad_c, given.grad_c_error, in_c)
    assert_close(given.grad_v, given.grad_v_error, in_v)
    dense = mvnorth.box_grad(
        -np.inf, upper, 0.0, cov, wrt=("upper", "cov"), log=True, complement=True
    )
    assert_close(dense.grad_upper, dense.grad_upper_error, in_upper)
    assert_close(np.diag(dense.grad_cov), np.diag(dense.grad_cov_error), in_c)
    assert_close(2.0 * dense.grad_cov @ v, 2.0 * dense.grad_cov_error @ np.abs(v), in_v)


@pytest.mark.parametrize("height", [2.5, 5.0, 10.0])
def test_sampled(height):
    """General methods, which do not see the common factor: a little of another one hides it."""
    rng = np.random.default_rng(0)
    v, cov = one_factor(rng, 10)
    upper = height + rng.uniform(0.0, 0.3, 10)
    truth = [difference(lambda x: one_factor_truth(x, v), upper, i) for i in range(10)]
    hidden = cov + 1e-9 * random_correlation(rng, 10)
    result = mvnorth.box_grad(-np.inf, upper, 0.0, hidden, log=True, complement=True)
    assert result.method != "quadrature"
    assert_close(result.grad_upper, result.grad_upper_error, truth)


def test_far_beyond_underflow():
    """log Q = -1252 in two independent coordinates: nearly all of it is the first one."""
    result = mvnorth.box_grad(-np.inf, [50.0, 60.0], 0.0, np.eye(2), log=True, complement=True)
    assert abs(result.log_prob - log_ndtr(-50.0)) < 1e-9
    ratio = math.exp(norm.logpdf(50.0) - log_ndtr(-50.0))
    assert abs(result.grad_upper[0] / -ratio - 1.0) < 1e-9


def test_not_of_the_logarithm():
    """The derivatives of 1 - P are minus those of P."""
    rng = np.random.default_rng(1)
    cov = random_correlation(rng, 3)
    names = ("lower", "upper", "mean", "cov")
    p = mvnorth.box_grad(-3.0, 2.0, 0.1, cov, wrt=names)
    q = mvnorth.box_grad(-3.0, 2.0, 0.1, cov, wrt=names, complement=True)
    for name in names:
        of_p, of_q = getattr(p, f"grad_{name}"), getattr(q, f"grad_{name}")
        assert np.abs(of_p + of_q).max() <= 1e-9 * np.abs(of_p).max()


@pytest.mark.parametrize("d", [9, 14])
@pytest.mark.parametrize("height", [4.0, 6.0])
def test_probabilities_close_to_one(d, height):
    """Without the complement: "auto" has derivatives right where hardly any limit is exceeded."""
    rng = np.random.default_rng(d)
    v, cov = one_factor(rng, d)
    upper = height + rng.uniform(0.0, 0.3, d)
    hidden = cov + 1e-9 * random_correlation(rng, d)
    log_q = one_factor_truth(upper, v)
    truth = [
        -math.exp(log_q) * difference(lambda x: one_factor_truth(x, v), upper, i) for i in range(d)
    ]
    result = mvnorth.box_grad(-np.inf, upper, 0.0, hidden, wrt=("upper",))
    assert result.method in ("gauss", "tilting")
    assert_close(result.grad_upper, result.grad_upper_error, truth)


def test_covariance_close_to_one():
    """Exchangeable, in the common correlation: Plackett's identity for each pair."""
    d, height = 10, 5.0
    rng = np.random.default_rng(0)
    hidden = 0.5 * np.eye(d) + 0.5 + 1e-9 * random_correlation(rng, d)
    result = mvnorth.box_grad(-np.inf, height, 0.0, hidden, wrt=("cov",))
    exact = mvnorth.box_grad(-np.inf, height, 0.0, 0.5 * np.eye(d) + 0.5, wrt=("cov",))
    assert exact.method == "quadrature"
    assert_close(result.grad_cov, result.grad_cov_error, exact.grad_cov)
    density = math.exp(-(height**2) / 1.5) / (2.0 * math.pi * math.sqrt(0.75))
    assert 0.0 < result.grad_cov[0, 1] < 0.5 * density
    assert ndtr(-height) * d > 1.0 - result.prob
