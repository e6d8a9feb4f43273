"""Expected maximum, loss and improvement of independent arms, against 40 digits and identities."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import mvnorth
from mvnorth import (
    expected_improvement,
    expected_improvement_grad,
    expected_loss,
    expected_max,
    expected_max_grad,
    prob_argmax,
)


def clark(mu, sigma):
    """E[(X_2 - X_1)^+] of two arms in 40 digits, Clark's formula."""
    with mpmath.workdps(40):
        spread = mpmath.sqrt(sum(mpmath.mpf(float(s)) ** 2 for s in sigma))
        d = (mpmath.mpf(float(mu[0])) - mpmath.mpf(float(mu[1]))) / spread
        return spread * (mpmath.npdf(d) - d * mpmath.erfc(d / mpmath.sqrt(2)) / 2)


def reference(mu, sigma):
    """``(largest mean, loss of the leader, P, dE/dsigma)``, in 40 digits.

    Gauss-Legendre on pieces of the line, cut at constants.
    """
    with mpmath.workdps(40):
        mu = [mpmath.mpf(float(m)) for m in mu]
        sigma = [mpmath.mpf(float(s)) for s in np.broadcast_to(sigma, len(mu))]
        constants = [m for m, s in zip(mu, sigma, strict=True) if s == 0]
        floor = max(constants, default=-mpmath.inf)
        live = [i for i in range(len(mu)) if sigma[i] > 0]
        leader = max(live, key=lambda i: mu[i])
        start = max(mu[leader], floor)
        steps = [-38, -30, -24, -18, -14, -11, -9, -7, -5.5, -4, -3, -2, -1, 0]
        steps += [-t for t in steps[:-1]]
        edges = {mu[i] + sigma[i] * t for i in live for t in steps} | set(constants)
        nodes = mpmath.calculus.quadrature.GaussLegendre(mpmath.mp).calc_nodes(4, 140)
        loss, P, slope = mpmath.mpf(0), [mpmath.mpf(0)] * len(mu), [mpmath.mpf(0)] * len(mu)
        for a, b in itertools.pairwise(sorted(edges)):
            for x, w in nodes:
                t, weight = (a + b) / 2 + x * (b - a) / 2, w * (b - a) / 2
                tails = {i: mpmath.ncdf((mu[i] - t) / sigma[i]) for i in live}
                union = mpmath.mpf(0)
                for i in live:
                    union += (1 - union) * tails[i] if i != leader else 0
                if floor >= mu[leader]:  # E[max] - floor
                    union += (1 - union) * tails[leader]
                    loss += weight * union if t > floor else 0
                else:
                    below = mpmath.ncdf((t - mu[leader]) / sigma[leader])
                    loss += weight * below * (union if t > floor else 1)
                if t > floor:
                    for i in live:
                        others = mpmath.fprod(1 - tails[j] for j in live if j != i)
                        density = mpmath.npdf(t, mu[i], sigma[i]) * others * weight
                        P[i] += density
                        slope[i] += density * (t - mu[i]) / sigma[i]
        for i, (m, s) in enumerate(zip(mu, sigma, strict=True)):
            if s == 0 and m == floor:
                wins = mpmath.fprod(mpmath.ncdf((floor - mu[j]) / sigma[j]) for j in live)
                P[i] = wins / constants.count(floor)
        return start, loss, np.array(P, dtype=float), np.array(slope, dtype=float)


@pytest.mark.parametrize("distance", [0.0, 0.3, 2.0, 8.0, 20.0, 30.0, 36.0])
@pytest.mark.parametrize("sigma", [(1.0, 1.0), (0.01, 2.0), (2.0, 1e-9), (0.0, 1.0), (1.0, 0.0)])
def test_two_arms_have_clarks_formula(distance, sigma):
    mu = [distance * np.hypot(*sigma), 0.0]
    expected = clark(mu, sigma)
    loss = expected_loss(mu, sigma)
    assert abs(loss[0] / expected - 1) < 1e-12
    np.testing.assert_allclose(loss[1], loss[0] + mu[0], rtol=1e-15)
    np.testing.assert_allclose(expected_max(mu, sigma), mu[0] + loss[0], rtol=1e-15)


ROWS = [
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    ([1.0, 0.3, -0.5, 0.2], [0.5, 2.0, 1.0, 0.1]),
    ([0.0, -9.0, -10.0, 1.0], [1.0, 1.0, 1.5, 0.3]),
    ([0.0, 0.5, 0.2], [1.0, 0.0, 3.0]),
    ([0.0, 0.5, 0.5, -1.0], [1.0, 0.0, 0.0, 0.7]),
    ([0.3, -2.0, 0.0], [0.02, 1.0, 0.0]),
    ([30.0, 0.0, 1.0], [1.0, 1.0, 2.0]),
]


@pytest.mark.parametrize(("mu", "sigma"), ROWS)
def test_rows_and_gradients_against_40_digits(mu, sigma):
    start, loss, P, slope = reference(mu, sigma)
    result = expected_max_grad(mu, sigma)
    got = expected_loss(mu, sigma).min()
    assert abs(got / loss - 1) < 2e-13
    assert abs(result.value - (start + loss)) < 1e-14 * max(abs(start), 1.0)
    np.testing.assert_allclose(result.grad_mu, P, atol=1e-14)
    np.testing.assert_allclose(result.grad_sigma, slope, atol=1e-14)
    small = result.grad_mu < 0.5
    np.testing.assert_allclose(
        result.grad_mu[small], P[small], rtol=1e-12, atol=1e-16 * float(loss)
    )


def test_three_equal_arms_and_the_means_of_order_statistics():
    np.testing.assert_allclose(expected_max(np.zeros(3), 2.0), 3.0 / np.sqrt(np.pi), rtol=1e-14)
    # Harter (1961), expected values of normal order statistics.
    for n, value in ((10, 1.53875), (50, 2.24907), (100, 2.50759)):
        assert abs(expected_max(np.zeros(n), 1.0) - value) < 6e-6


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([0.1, 1.0, 10.0]))
def test_identities(seed, classes, spread):
    rng = np.random.default_rng(seed)
    mu, sigma = spread * rng.normal(size=classes), np.exp(2.0 * rng.normal(size=classes))
    sigma[rng.random(classes) < 0.2] = 0.0
    result = expected_max_grad(mu, sigma)
    scale = np.abs(mu).max() + sigma.max()
    np.testing.assert_allclose(result.grad_mu, prob_argmax(mu, sigma), atol=2e-13)
    np.testing.assert_allclose(result.grad_mu.sum(), 1.0, rtol=1e-13)
    # E[max] is homogeneous of degree 1 in means and deviations.
    euler = result.grad_mu @ mu + result.grad_sigma @ sigma
    np.testing.assert_allclose(result.value, euler, atol=1e-12 * scale)
    np.testing.assert_allclose(
        expected_max(mu + 3.0, sigma), result.value + 3.0, atol=1e-13 * scale
    )
    plain = expected_max(mu, sigma)
    np.testing.assert_allclose(plain, result.value, atol=1e-13 * scale)
    np.testing.assert_array_equal(expected_max(8.0 * mu, 8.0 * sigma), 8.0 * plain)
    order = rng.permutation(classes)
    np.testing.assert_allclose(
        expected_max(mu[order], sigma[order]), result.value, atol=1e-13 * scale
    )
    losses = expected_loss(mu, sigma)
    np.testing.assert_allclose(losses, result.value - mu, atol=1e-13 * scale)
    best = rng.normal()
    improvement = expected_improvement(mu, sigma, best=best)
    with_best = expected_max(np.append(mu, best), np.append(sigma, 0.0))
    np.testing.assert_allclose(improvement, with_best - best, atol=1e-13 * scale)


def test_many_rows_with_constants():
    """Rows whose leader is an arm and rows whose leader is a constant, in the tails too."""
    rng = np.random.default_rng(2)
    mu = rng.normal(size=(4000, 5)) * rng.choice([0.1, 1.0, 4.0], size=(4000, 1))
    sigma = np.exp(rng.normal(size=(4000, 5)))
    sigma[:, -1] = 0.0
    mu[:, -1] = mu[:, :-1].max(axis=1) + rng.uniform(-2.0, 6.0, size=4000)
    result = expected_max_grad(mu, sigma)
    np.testing.assert_allclose(result.grad_mu, prob_argmax(mu, sigma), atol=1e-13)
    euler = (result.grad_mu * mu + result.grad_sigma * sigma).sum(axis=1)
    np.testing.assert_allclose(result.value, euler, atol=1e-12)
    improvement = expected_improvement(mu[:, :-1], sigma[:, :-1], best=mu[:, -1])
    distance = (mu[:, -1:] - mu[:, :-1]) / sigma[:, :-1]
    each = sigma[:, :-1] * (norm.pdf(distance) - distance * norm.sf(distance))
    known = distance.min(axis=1) < 5.0  # the formula cancels
    assert (improvement >= each.max(axis=1) * (1.0 - 1e-12))[known].all()
    assert (improvement <= each.sum(axis=1) * (1.0 + 1e-12))[known].all()
    gradient = expected_improvement_grad(mu[:, :-1], sigma[:, :-1], best=mu[:, -1])
    np.testing.assert_allclose(gradient.value, improvement, rtol=1e-11)


@pytest.mark.parametrize("wide", [30.0, 1e4, 1e8])
def test_narrow_arms_far_below_a_constant_beside_wide_ones(wide):
    """Improvements of tails hardly overlap: that of both is the sum of two closed forms."""
    mu, sigma = np.array([-18.8, -19.343 * wide]), np.array([1.0, wide])
    with mpmath.workdps(40):
        total = float(sum(clark([0.0, m], [0.0, s]) for m, s in zip(mu, sigma, strict=True)))
    result = expected_improvement_grad(mu, sigma, best=0.0)
    np.testing.assert_allclose(expected_improvement(mu, sigma, best=0.0), total, rtol=1e-12)
    np.testing.assert_allclose(result.value, total, rtol=1e-12)
    np.testing.assert_allclose(result.grad_mu, norm.cdf(mu / sigma), rtol=1e-12)


def test_many_arms_and_offsets():
    rng = np.random.default_rng(3)
    mu, sigma = rng.normal(size=5000), rng.uniform(0.1, 2.0, size=5000)
    result = expected_max_grad(mu, sigma)
    np.testing.assert_allclose(result.grad_mu, prob_argmax(mu, sigma), atol=1e-14)
    np.testing.assert_allclose(
        result.value, result.grad_mu @ mu + result.grad_sigma @ sigma, rtol=1e-12
    )
    near = expected_loss([1e9, 1e9 - 1.0], 1.0)
    np.testing.assert_allclose(near, expected_loss([1.0, 0.0], 1.0), rtol=1e-14)


def test_improvement_of_one_candidate_and_its_logarithm():
    for best in (-2.0, 0.0, 3.0, 20.0, 36.0, 39.0, 60.0, 1000.0):
        with mpmath.workdps(40):
            z = mpmath.mpf(best) / 2
            value = 2 * (mpmath.npdf(z) - z * mpmath.erfc(z / mpmath.sqrt(2)) / 2)
            log = mpmath.log(value)
        got = expected_improvement([0.0], 2.0, best=best, log=True)
        assert abs(got - log) < 2e-12 + 4e-16 * abs(log)
        if value > 1e-300:
            assert abs(expected_improvement([0.0], 2.0, best=best) / value - 1) < 1e-12


def test_the_logarithm_is_smooth_where_its_formula_changes():
    """The integral gives way to a sum over arms below 1e-290."""
    best = np.linspace(35.0, 38.5, 351)
    mu, sigma = np.array([0.0, -0.5, 0.1]), np.array([1.0, 1.01, 0.99])
    result = expected_improvement_grad(mu, sigma, best=best, log=True)
    assert result.value.min() < np.log(1e-290) < result.value.max()
    middle = (result.value[2:] - result.value[:-2]) / (best[2:] - best[:-2])
    np.testing.assert_allclose(result.grad_best[1:-1], middle, rtol=1e-6)
    euler = result.grad_mu @ mu + result.grad_sigma @ sigma + result.grad_best * best
    np.testing.assert_allclose(euler, 1.0, atol=1e-9)  # of the logarithm


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("best", [-1.0, 0.4, 6.0])
def test_improvement_gradients_against_differences(best, log):
    mu, sigma, h = np.array([0.0, 0.5, -1.0]), np.array([1.0, 0.3, 2.0]), 1e-5
    result = expected_improvement_grad(mu, sigma, best=best, log=log)
    step = h * np.eye(3)

    def central(low, high):
        return (high - low) / (2.0 * h)

    scale = {"rtol": 1e-7, "atol": 1e-9}
    call = lambda m, s, b: expected_improvement(m, s, best=b, log=log)  # noqa: E731
    in_mu = central(call(mu - step, sigma, best), call(mu + step, sigma, best))
    in_sigma = central(call(mu[None], sigma - step, best), call(mu[None], sigma + step, best))
    np.testing.assert_allclose(result.grad_mu, in_mu, **scale)
    np.testing.assert_allclose(result.grad_sigma, in_sigma, **scale)
    in_best = central(call(mu, sigma, best - h), call(mu, sigma, best + h))
    np.testing.assert_allclose(result.grad_best, in_best, **scale)


def test_constants_ties_and_minus_infinity():
    assert expected_max([1.0, 2.0, 2.0], 0.0) == 2.0
    np.testing.assert_array_equal(expected_loss([1.0, 2.0, 2.0], 0.0), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(expected_max_grad([1.0, 2.0, 2.0], 0.0).grad_mu, [0, 0.5, 0.5])
    assert expected_max([0.3], 2.0) == 0.3
    np.testing.assert_array_equal(expected_loss([0.3], 2.0), [0.0])
    gone = expected_loss([0.0, -np.inf, 1.0], 1.0)
    np.testing.assert_array_equal(gone[[0, 2]], expected_loss([0.0, 1.0], 1.0))
    assert gone[1] == np.inf
    assert expected_improvement([1.0], 0.0, best=0.25) == 0.75
    assert expected_improvement([1.0], 0.0, best=1.5) == 0.0
    assert expected_improvement([1.0], 0.0, best=1.5, log=True) == -np.inf


def test_shapes_batches_and_precision():
    rng = np.random.default_rng(0)
    mu, sigma = rng.normal(size=(2, 3, 5)), rng.uniform(0.5, 1.0, size=(3, 1))
    whole = expected_loss(mu, sigma)
    assert whole.shape == (2, 3, 5)
    assert expected_max(mu, sigma).shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(whole[i, j], expected_loss(mu[i, j], sigma[j]))
    best = np.array([[0.0], [1.0]])
    improvement = expected_improvement(mu[0], sigma, best=best)
    assert improvement.shape == (2, 3)
    assert improvement[1, 2] == expected_improvement(mu[0, 2], sigma[2], best=1.0)
    assert type(expected_max([0.0, 1.0], 1.0)) is float
    single = mu.astype(np.float32)
    assert expected_loss(single, sigma).dtype == np.float32
    assert expected_max_grad(single, sigma).grad_sigma.dtype == np.float32
    np.testing.assert_allclose(expected_max(single, sigma), expected_max(mu, sigma), atol=1e-6)
    assert expected_loss(np.zeros((0, 3)), 1.0).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: expected_max([0.0]), TypeError, "expected_max needs sigma"),
        (lambda: expected_loss([0.0], 1.0, cov=[[1.0]]), ValueError, "not both"),
        (lambda: expected_max([0.0, np.nan], 1.0), ValueError, "mu must not contain NaN"),
        (lambda: expected_max([0.0, 1.0], -1.0), ValueError, "sigma must be >= 0"),
        (lambda: expected_max([-np.inf], 1.0), ValueError, "for all classes"),
        (lambda: expected_max([0.0, 1.0], 1.0, rtol=1e-3), ValueError, "go with cov"),
        (lambda: expected_loss([0.0, 1.0], 1.0, errors=True), ValueError, "go with cov"),
        (lambda: expected_improvement([0.0], 1.0, best=np.inf), ValueError, "best must be finite"),
        (
            lambda: expected_improvement([0.0], 1.0, best=np.nan),
            ValueError,
            "best must not contain",
        ),
        (lambda: expected_improvement([0.0], 1.0, best=None), ValueError, "best must not contain"),
        (lambda: expected_improvement([0.0], 1.0, best="x"), TypeError, "best must be an array"),
        (
            lambda: expected_improvement(np.zeros((3, 2)), 1.0, best=np.zeros(2)),
            ValueError,
            "batch shapes do not broadcast: mu",
        ),
        (lambda: expected_max([0.0, 1.0], cov=np.eye(3)), ValueError, "cov must be for 2 scores"),
        (lambda: expected_max([0.0, 1.0], cov=np.eye(2), seed=-1), ValueError, "seed"),
        (lambda: expected_max([0.0, 1.0], cov=np.eye(2), rtol=-1.0), ValueError, "rtol"),
        (lambda: expected_max([0.0, 1.0], cov=-np.eye(2)), ValueError, "diagonal"),
    ],
)
def test_wrong_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(1)
    mu = rng.normal(size=(5000, 6))
    before = mvnorth.get_num_threads()
    try:
        mvnorth.set_num_threads(1)
        one = expected_loss(mu, 0.7)
        mvnorth.set_num_threads(2)
        np.testing.assert_array_equal(expected_loss(mu, 0.7), one)
    finally:
        mvnorth.set_num_threads(before)
