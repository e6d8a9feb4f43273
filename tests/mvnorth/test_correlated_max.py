"""Expected maximum, loss and improvement of correlated arms, against closed forms and counting."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicHermiteSpline
from scipy.special import log_ndtr, ndtr

import mvnorth
from mvnorth import (
    Factors,
    OneFactor,
    expected_improvement,
    expected_improvement_grad,
    expected_loss,
    expected_max,
    expected_max_grad,
    prob_argmax,
)
from mvnorth._cpu.largest_excess import FARTHEST
from mvnorth._size_biased import excess_tables


def random_cov(rng, classes, own=0.1):
    a = rng.normal(size=(classes, classes))
    return a @ a.T / classes + own * np.eye(classes)


def density(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)


def clark(mu, cov):
    """E[max] of two correlated scores, Clark's formula."""
    spread = np.sqrt(cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1])
    d = (mu[0] - mu[1]) / spread
    return mu[0] * ndtr(d) + mu[1] * ndtr(-d) + spread * density(d)


def hermite(mu, c, v, n=200):
    """E[max] with one common factor: Gauss-Hermite over it, scipy's quadrature given it."""
    z, w = np.polynomial.hermite_e.hermegauss(n)
    keep = w > 1e-18
    z, w = z[keep], w[keep] / np.sqrt(2.0 * np.pi)
    deviation = np.sqrt(c)
    low, high = (
        (mu - 12.0 * np.abs(v) - 12.0 * deviation).max(),
        (mu + 12.0 * np.abs(v)).max() + 12.0,
    )

    def below(t):
        x = (t - mu - v * z[:, None]) / deviation
        return w @ np.exp(log_ndtr(x).sum(axis=1))

    # E[max] = high - int of its distribution function up to high
    edges = np.linspace(low, high, 40)
    total = sum(quad(below, a, b, epsabs=1e-12)[0] for a, b in itertools.pairwise(edges))
    return high - total


def test_two_scores_have_clarks_formula():
    rng = np.random.default_rng(0)
    for _ in range(20):
        mu, cov = rng.normal(size=2), random_cov(rng, 2)
        value, error = expected_max(mu, cov=cov, errors=True)
        assert abs(value - clark(mu, cov)) <= error + 1e-14
        assert error < 1e-12


@pytest.mark.parametrize("classes", [3, 4])
def test_equal_correlations_of_three_and_four_scores(classes):
    """E[max] = sqrt(1 - rho) times that of independent scores: closed forms for both."""
    closed = {3: 1.5 / np.sqrt(np.pi), 4: 3.0 / np.sqrt(np.pi) * (0.5 + np.arcsin(1 / 3) / np.pi)}
    for rho in (-0.3, 0.2, 0.9):
        cov = np.full((classes, classes), rho) + (1.0 - rho) * np.eye(classes)
        value, error = expected_max(np.zeros(classes), cov=cov, rtol=1e-9, errors=True)
        assert abs(value - np.sqrt(1.0 - rho) * closed[classes]) <= error
        assert error <= 1e-9


def test_one_factor_against_gauss_hermite():
    rng = np.random.default_rng(1)
    for scale in (0.3, 1.0):
        mu, c, v = rng.normal(size=5), rng.uniform(0.3, 1.0, 5), scale * rng.normal(size=5)
        value, error = expected_max(mu, cov=OneFactor(c, v), rtol=1e-10, errors=True)
        assert error <= 1e-10 * (value - mu.max()) + 1e-15
        assert abs(value - hermite(mu, c, v)) < 1e-9


def test_a_factor_that_all_share_cancels():
    rng = np.random.default_rng(2)
    mu, c = rng.normal(size=7), rng.uniform(0.3, 1.0, 7)
    expected = expected_loss(mu, np.sqrt(c))
    for cov in (OneFactor(c, np.full(7, 5.0)), Factors(c, np.ones((7, 4)))):
        got, error = expected_loss(mu, cov=cov, rtol=1e-12, errors=True)
        np.testing.assert_allclose(got, expected, rtol=1e-12)
        assert error.max() < 1e-11
    got, error = expected_loss(mu, cov=np.diag(c) + 3.0, errors=True)
    assert (np.abs(got - expected) <= error).all()
    assert error.max() <= 1.1e-3 * expected.min() + 1e-14


def test_factors_agree_with_their_matrix_and_with_draws():
    rng = np.random.default_rng(3)
    for k in (1, 2, 3):
        mu, V = rng.normal(size=6), 0.7 * rng.normal(size=(6, k))
        cov = Factors(rng.uniform(0.3, 1.0, 6), V)
        exact, error = expected_max(mu, cov=cov, rtol=1e-7 if k < 3 else 1e-3, errors=True)
        dense, dense_error = expected_max(mu, cov=cov.dense(), errors=True)
        assert abs(dense - exact) <= error + dense_error
        draws = rng.multivariate_normal(mu, cov.dense(), size=200_000).max(axis=1)
        assert abs(exact - draws.mean()) <= error + 4.0 * draws.std() / np.sqrt(200_000)


def test_small_losses_keep_relative_accuracy():
    rng = np.random.default_rng(4)
    mu, cov = rng.normal(size=5), Factors(rng.uniform(0.3, 1.0, 5), rng.normal(size=(5, 1)))
    for ahead in (5.0, 15.0, 30.0):
        mu[2] = ahead
        exact, error = expected_loss(mu, cov=cov, rtol=1e-9, errors=True)
        assert 0.0 < error[2] <= 1e-9 * exact[2]
        sampled, bound = expected_loss(mu, cov=cov.dense(), rtol=1e-3, seed=3, errors=True)
        assert bound[2] <= 1e-3 * sampled[2]
        assert abs(sampled[2] - exact[2]) <= bound[2] + error[2]
    assert exact[2] < 1e-50


@pytest.mark.parametrize(("seed", "ahead"), [(2, 6.5), (6, 10.5), (19, 13.5), (37, 11.5)])
def test_rounded_loadings_do_not_exceed_small_losses(seed, ahead):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    mu, c = np.append(ahead, rng.uniform(-1.0, 0.0, n - 1)), rng.uniform(0.05, 0.5, n)
    cov = Factors(c, 0.1 * rng.normal(size=(n, 2)))
    rough, bound = expected_loss(mu, cov=cov, rtol=1e-3, errors=True)
    fine, error = expected_loss(mu, cov=cov, rtol=1e-8, errors=True)
    sampled, width = expected_loss(mu, cov=cov.dense(), rtol=1e-3, errors=True)
    assert error[0] <= 1e-8 * fine[0]
    assert abs(rough[0] - fine[0]) <= bound[0] + error[0]
    assert abs(sampled[0] - fine[0]) <= width[0] + error[0]


def test_honest_errors():
    """Errors hold in 99 % of random problems, sampled ones and small ones included."""
    rng = np.random.default_rng(5)
    misses = total = 0
    for _ in range(120):
        classes, scale = int(rng.integers(5, 9)), rng.choice([0.3, 1.0, 6.0])
        V = rng.normal(size=(classes, int(rng.integers(1, 3))))
        cov = Factors(rng.uniform(0.2, 1.0, classes), V)
        mu = scale * rng.normal(size=classes)
        exact, error = expected_loss(mu, cov=cov, rtol=1e-9, errors=True)
        for rtol in (1e-2, 1e-3):
            seed = int(rng.integers(1000))
            got, bound = expected_loss(mu, cov=cov.dense(), rtol=rtol, seed=seed, errors=True)
            misses += abs(got.min() - exact.min()) > bound.min() + error.min()
            total += 1
    assert misses <= 0.02 * total


@pytest.mark.parametrize("log", [False, True])
def test_improvement_derivatives_against_differences(log):
    rng = np.random.default_rng(6)
    mu, cov, best, h = rng.normal(size=3), random_cov(rng, 3), 0.7, 1e-5

    def improvement(in_mu=0.0, in_cov=0.0, in_best=0.0):
        options = {"best": best + in_best, "log": log, "rtol": 1e-10}
        return expected_improvement(mu + in_mu, cov=cov + in_cov, **options)

    def slope(name, change):
        return (improvement(**{name: h * change}) - improvement(**{name: -h * change})) / (2 * h)

    result = expected_improvement_grad(mu, cov=cov, best=best, log=log)
    unit = np.eye(3)
    for i in range(3):
        difference = abs(result.grad_mu[i] - slope("in_mu", unit[i]))
        assert difference <= result.grad_mu_error[i] + 1e-8
        for j in range(3):
            change = 0.5 * (np.outer(unit[i], unit[j]) + np.outer(unit[j], unit[i]))
            difference = abs(result.grad_cov[i, j] - slope("in_cov", change))
            assert difference <= result.grad_cov_error[i, j] + 1e-8
    difference = abs(result.grad_best - slope("in_best", 1.0))
    assert difference <= result.grad_best_error + 1e-8


def test_honest_errors_of_improvements():
    """Independent candidates given as a matrix, against the integral."""
    rng = np.random.default_rng(11)
    misses = 0
    for seed in range(150):
        q = int(rng.integers(4, 12))
        mu, sigma = rng.choice([0.1, 1.0, 4.0]) * rng.normal(size=q), rng.uniform(0.2, 1.5, q)
        best = mu.max() + rng.uniform(-1.0, 6.0)
        options = {"best": best, "log": True}
        exact = expected_improvement(mu, sigma, **options)
        rtol = float(rng.choice([1e-2, 1e-3]))
        got, error = expected_improvement(
            mu, cov=np.diag(sigma**2), rtol=rtol, seed=seed, errors=True, **options
        )
        misses += abs(got - exact) > error + 1e-12
        assert error <= 1.1 * rtol
    assert misses <= 3


def test_strong_loadings_are_resolved():
    """Coarse rules over a factor may agree by chance before they resolve its loadings."""
    rng = np.random.default_rng(10)
    for _ in range(60):
        mu, v = rng.normal(size=6), rng.uniform(3.0, 30.0) * rng.normal(size=6)
        cov = OneFactor(rng.uniform(0.2, 1.0, 6), v)
        rough, bound = expected_max(mu, cov=cov, rtol=1e-2, errors=True)
        fine, error = expected_max(mu, cov=cov, rtol=1e-10, errors=True)
        assert abs(rough - fine) <= bound + error
        assert error <= 1e-10 * (fine - mu.max()) + 1e-15


def test_tables_of_draws():
    """Between the nodes of a table too the share of draws above e is exp(-w**2 / 2)."""
    distance = np.array([0.0, 0.5, 3.0, 12.0])
    tables = excess_tables(distance)
    grid = np.linspace(0.0, FARTHEST, tables.shape[1])
    w = 0.5 * (grid[1:] + grid[:-1])
    for d, table in zip(distance, tables, strict=True):
        e = CubicHermiteSpline(grid, table[:, 0], table[:, 1])(w)
        for k in range(0, w.size, 16):
            with mpmath.workdps(40):
                y, D = mpmath.mpf(float(d + e[k])), mpmath.mpf(float(d))
                above, whole = (
                    mpmath.npdf(t) - D * mpmath.erfc(t / mpmath.sqrt(2)) / 2 for t in (y, D)
                )
                share = float(mpmath.log(above / whole))
            assert abs(share + 0.5 * w[k] ** 2) < 1e-7


def test_derivatives_of_the_maximum():
    rng = np.random.default_rng(6)
    mu, cov = rng.normal(size=4), random_cov(rng, 4)
    result = expected_max_grad(mu, cov=cov, rtol=1e-10)
    np.testing.assert_allclose(result.grad_mu.sum(), 1.0, atol=1e-9)
    np.testing.assert_allclose(result.grad_cov.sum(axis=1), 0.0, atol=1e-9)
    # Homogeneity: E[max] of (t mu, t**2 cov) is t E[max].
    euler = result.grad_mu @ mu + 2.0 * np.sum(result.grad_cov * cov)
    np.testing.assert_allclose(result.value, euler, atol=1e-9)
    np.testing.assert_allclose(result.grad_mu, prob_argmax(mu, cov=cov, atol=1e-10), atol=1e-9)


def test_independent_scores_as_a_matrix():
    """Derivatives in variances are those in deviations over twice the deviation."""
    mu, sigma = np.array([0.0, 0.4, -0.3, 0.2]), np.array([1.0, 0.5, 1.5, 0.8])
    exact = expected_max_grad(mu, sigma)
    for cov in (np.diag(sigma**2), Factors(sigma**2, np.zeros((4, 1)))):
        result = expected_max_grad(mu, cov=cov, rtol=1e-8)
        assert abs(result.value - exact.value) <= result.error
        assert (np.abs(result.grad_mu - exact.grad_mu) <= result.grad_mu_error + 1e-14).all()
        off = np.abs(np.diagonal(result.grad_cov) - exact.grad_sigma / (2.0 * sigma))
        assert (off <= np.diagonal(result.grad_cov_error) + 1e-14).all()
    improvement = expected_improvement(mu, sigma, best=1.5)
    for cov in (np.diag(sigma**2), Factors(sigma**2, np.zeros((4, 1)))):
        got, error = expected_improvement(mu, cov=cov, best=1.5, rtol=1e-5, errors=True)
        assert abs(got - improvement) <= error
        assert error <= 1e-4 * improvement


def test_arms_left_out_are_within_the_errors():
    rng = np.random.default_rng(7)
    mu, cov = np.array([2.0, 1.5, -4.0, -5.0, 1.0]), random_cov(rng, 5)
    rough, bound = expected_max(mu, cov=cov, rtol=1e-2, errors=True)
    fine, error = expected_max(mu, cov=cov, rtol=1e-6, errors=True)
    assert abs(rough - fine) <= bound + error
    rough, fine = (expected_max_grad(mu, cov=cov, rtol=rtol) for rtol in (1e-2, 1e-6))
    for name in ("grad_mu", "grad_cov"):
        difference = np.abs(getattr(rough, name) - getattr(fine, name))
        allowed = getattr(rough, f"{name}_error") + getattr(fine, f"{name}_error")
        assert (difference <= allowed + 1e-15).all()
    assert rough.grad_mu[3] == 0.0 < rough.grad_mu_error[3]  # left out at this tolerance


def test_ties_constants_and_singular_covariances():
    assert expected_max([1.0, 0.0, 2.0], cov=np.zeros((3, 3))) == 2.0
    np.testing.assert_array_equal(expected_loss([1.0, 2.0], cov=np.zeros((2, 2))), [1.0, 0.0])
    assert expected_max([0.3], cov=[[2.0]]) == 0.3
    same = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    mu = np.array([0.0, 0.0, 1.0])
    two = expected_max(mu[1:], cov=same[1:, 1:])
    np.testing.assert_allclose(expected_max(mu, cov=same), two, rtol=1e-12)
    result = expected_max_grad(mu, cov=same)
    np.testing.assert_allclose(result.grad_mu, prob_argmax(mu, cov=same), atol=1e-10)
    assert np.isinf(result.grad_cov_error[0, 1])
    assert np.isfinite(result.grad_cov_error[0, 2])
    # An arm that is another one minus a constant never wins.
    lower = expected_max([0.0, -0.5, 1.0], cov=same)
    np.testing.assert_allclose(lower, two, rtol=1e-12)
    # Rank 1: E[max of a_i Z] is the width of the segment.
    loadings = np.array([-1.0, 0.5, 2.0])
    value = expected_max(np.zeros(3), cov=np.outer(loadings, loadings), errors=True)
    np.testing.assert_allclose(value[0], 3.0 * density(0.0), atol=1e-3)
    for cov in (np.eye(3), Factors(1.0, np.ones((3, 2)))):
        got = expected_max([0.0, -np.inf, 1.0], cov=cov)
        np.testing.assert_allclose(got, clark([0.0, 1.0], np.eye(2)), rtol=1e-12)
        assert expected_loss([0.0, -np.inf, 1.0], cov=cov)[1] == np.inf


def test_no_improvement_at_all():
    for options in ({"sigma": 0.0}, {"cov": np.zeros((2, 2))}):
        assert expected_improvement([0.0, 1.0], best=2.5, **options) == 0.0
        result = expected_improvement_grad([0.0, 1.0], best=2.5, log=True, **options)
        assert result.value == -np.inf
        np.testing.assert_array_equal(result.grad_mu, 0.0)
    value = expected_improvement([0.0, 1.0], cov=np.zeros((2, 2)), best=2.5, log=True, errors=True)
    assert value == (-np.inf, 0.0)


@pytest.mark.parametrize("cov", [None, np.eye(3), Factors(1.0, np.full((3, 1), 0.3))])
def test_improvements_whose_logarithm_overflows(cov):
    """They are zero, with derivatives of zero, and no warning."""
    mu, best = [0.0, 1.0, 2.0], 1e200
    options = {"sigma": 1.0} if cov is None else {"cov": cov}
    assert expected_improvement(mu, best=best, **options) == 0.0
    assert expected_improvement(mu, best=best, log=True, **options) == -np.inf
    result = expected_improvement_grad(mu, best=best, log=True, **options)
    np.testing.assert_array_equal(result.grad_mu, 0.0)
    assert result.grad_best == 0.0
    if cov is not None:
        np.testing.assert_array_equal(result.grad_cov, 0.0)
        assert result.error == 0.0
    loss = expected_loss([0.0, -best, 1.0], **options)
    np.testing.assert_allclose(loss[2], expected_loss([0.0, 1.0], np.ones(2))[1], rtol=1e-12)


def test_improvement_in_the_far_tail():
    """Where the improvement underflows its logarithm and its gradient do not."""
    mu, sigma = np.array([0.0, -0.1, 0.05]), np.array([1.0, 0.99, 0.98])
    exact = expected_improvement_grad(mu, sigma, best=45.0, log=True)
    got = expected_improvement_grad(mu, cov=np.diag(sigma**2), best=45.0, log=True)
    assert abs(got.value - exact.value) <= got.error
    assert got.error < 2e-3
    assert (np.abs(got.grad_mu - exact.grad_mu) <= got.grad_mu_error + 1e-6).all()
    value, error = expected_improvement(mu, cov=np.diag(sigma**2), best=45.0, log=True, errors=True)
    assert abs(value - exact.value) <= error < 2e-3


def test_batches_precision_and_seeds():
    rng = np.random.default_rng(8)
    mu, cov = rng.normal(size=(3, 6)), np.stack([random_cov(rng, 6) for _ in range(3)])
    together = expected_loss(mu, cov=cov)
    assert together.shape == (3, 6)
    for b in range(3):
        np.testing.assert_array_equal(together[b], expected_loss(mu[b], cov=cov[b]))
    assert expected_max(mu.astype(np.float32), cov=cov[0]).dtype == np.float32
    improvement = expected_improvement(mu, cov=cov[0], best=np.array([[0.0], [1.0]]))
    assert improvement.shape == (2, 3)
    assert improvement[1, 2] == expected_improvement(mu[2], cov=cov[0], best=1.0)
    first, second = (expected_max(mu[0], cov=cov[0], seed=seed) for seed in (0, 1))
    assert first != second
    assert first == expected_max(mu[0], cov=cov[0], seed=0)
    assert expected_max(np.zeros((0, 3)), cov=np.eye(3)).shape == (0,)
    result = expected_max_grad(mu[:2, :3], cov=cov[:2, :3, :3])
    assert result.grad_cov.shape == (2, 3, 3)
    shift = expected_max(mu[0] + 7.0, cov=cov[0])
    np.testing.assert_allclose(shift, first + 7.0, rtol=1e-12)


def test_tolerances():
    rng = np.random.default_rng(9)
    mu, cov = rng.normal(size=6), random_cov(rng, 6)
    for options in ({"rtol": 1e-2}, {"atol": 0.05}, {"rtol": 1e-9, "atol": 1e-3}):
        value, error = expected_max(mu, cov=cov, errors=True, **options)
        allowed = max(options.get("rtol", 0.0) * (value - mu.max()), options.get("atol", 0.0))
        assert error <= 1.01 * allowed + 1e-14
    with pytest.raises(ValueError, match="rtol"):
        mvnorth.expected_max_grad(mu, cov=cov, rtol="x")
