"""Mean and covariance of truncated normals: truth from mpmath, scipy, quadrature and draws."""

import math

import mpmath
import numpy as np
import pytest
from support.truncated import correlation, interval_moments, one_factor_moments, within

import mvnorth
from mvnorth import OneFactor, _checks
from mvnorth._methods import weighted_moments
from mvnorth._problem import Request, Tolerance
from mvnorth._status import Status

INF = math.inf


def mpmath_interval(a, b):
    """Mean and variance of a standard normal between a < b, to 40 digits."""
    with mpmath.workdps(60):
        a, b = mpmath.mpf(a), mpmath.mpf(b)
        mode = min(max(mpmath.mpf(0), a), b)
        reach = mpmath.mpf(100) / (1 + abs(mode))
        low, high = max(a, mode - reach), min(b, mode + reach)
        ends = [low + (high - low) * k / 8 for k in range(9)]

        def integral(f):
            return mpmath.quad(lambda x: f(x) * mpmath.exp((mode - x) * (mode + x) / 2), ends)

        total = integral(lambda x: 1)
        mean = integral(lambda x: x - mode) / total
        variance = integral(lambda x: (x - mode - mean) ** 2) / total
        return float(mode + mean), float(variance)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-INF, INF), (0.0, INF), (-INF, 0.7), (-3.0, 7.0), (1.0, 2.0), (30.0, INF), (-INF, -300.0),
        (1000.0, 1001.0), (-1e-8, 1e-8), (5.0, 5.0 + 1e-8), (-40.0, -40.0 + 1e-5), (1e5, INF),
    ],
)  # fmt: skip
def test_one_coordinate_to_rounding(a, b):
    mean, variance = (0.0, 1.0) if a == -INF and b == INF else mpmath_interval(a, b)
    found = mvnorth.box_moments([a], [b], 0.0, [[1.0]])
    assert within(found, mean, variance)
    assert found.mean[0] == pytest.approx(mean, rel=1e-13, abs=1e-16)
    assert found.cov[0, 0] == pytest.approx(variance, rel=1e-7 if b - a < 1e-3 else 1e-12)
    assert found.cov_error[0, 0] <= 1e-6 * variance
    scaled = mvnorth.box_moments([3.0 * a + 1.0], [3.0 * b + 1.0], 1.0, [[9.0]])
    np.testing.assert_allclose(scaled.cov, 9.0 * found.cov, rtol=1e-6)


def product_moments(lower, upper, mean, cov, nodes):
    """Moments in a bounded box by a product of Gauss-Legendre rules."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    axes = [0.5 * (b - a) * x + 0.5 * (a + b) for a, b in zip(lower, upper, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(lower))
    weight = w
    for _ in lower[1:]:
        weight = np.multiply.outer(weight, w)
    apart = grid - mean
    log = -0.5 * np.einsum("ki,ij,kj->k", apart, np.linalg.inv(cov), apart)
    share = weight.ravel() * np.exp(log - log.max())
    share /= share.sum()
    first = share @ grid
    return first, np.einsum("k,ki,kj->ij", share, grid - first, grid - first)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ([-1.0, 0.2], [0.5, 1.7]),
        ([3.0, 2.0], [3.5, 4.0]),
        ([-0.3, 0.5, -1.0], [1.0, 1.5, 2.0]),
        ([1.0, 1.5, -2.0], [2.5, 2.6, -1.0]),
    ],
)
def test_two_and_three_coordinates(lower, upper):
    d = len(lower)
    cov = np.array([[1.0, 0.6, -0.2], [0.6, 2.0, 0.3], [-0.2, 0.3, 0.7]])[:d, :d]
    mean = np.array([0.1, -0.2, 0.3])[:d]
    truth = product_moments(lower, upper, mean, cov, 60 if d == 2 else 36)
    found = mvnorth.box_moments(lower, upper, mean, cov)
    assert found.method == "closed_form"
    assert within(found, *truth, slack=1e-13)
    np.testing.assert_allclose(found.cov, truth[1], rtol=1e-8, atol=1e-10)
    points = mvnorth.box_moments([*lower, -INF], [*upper, 30.0], [*mean, 0.0], pad(cov), 2**14)
    np.testing.assert_allclose(points.mean[:d], truth[0], atol=1e-3)


def pad(cov):
    """The covariance with one more, nearly independent coordinate."""
    d = len(cov)
    out = np.eye(d + 1)
    out[:d, :d] = cov
    out[d, 0] = out[0, d] = 1e-12
    return out


def test_against_tmvtnorm():
    """What ``mtmvnorm`` of the R package tmvtnorm 1.6 computes, with ``options(digits = 10)``.

    mtmvnorm(c(0.5, 0.5), matrix(c(1, 1.2, 1.2, 2), 2), lower = c(-1, -Inf), upper = c(0.5, 1))
    """
    cov = [[1.0, 1.2], [1.2, 2.0]]
    found = mvnorth.box_moments([-1.0, -INF], [0.5, 1.0], 0.5, cov)
    np.testing.assert_allclose(found.mean, [-0.1516342629, -0.3881151019], atol=1e-9)
    theirs = [[0.1630439465, 0.1613370775], [0.1613370775, 0.6062505413]]
    np.testing.assert_allclose(found.cov, theirs, atol=1e-9)


@pytest.mark.parametrize(("d", "shift"), [(5, 0.0), (5, -2.0), (20, 0.5), (20, 1.0), (100, 2.0)])
@pytest.mark.parametrize("two_sided", [False, True])
def test_exact_draws(d, shift, two_sided):
    rng = np.random.default_rng(d)
    cov = correlation(rng, d, own=2.0 if d == 100 else 0.5)
    lower, upper = np.full(d, -shift), np.full(d, 3.0 - shift if two_sided else INF)
    size = 20_000
    draws = np.asarray(mvnorth.sample_box(lower, upper, 0.2, cov, size))
    found = mvnorth.box_moments(lower, upper, 0.2, cov, rtol=0.02)
    s = draws.std(axis=0)
    assert np.all(np.abs(found.mean - draws.mean(axis=0)) < 5.0 * s / math.sqrt(size) + 0.01 * s)
    apart = draws - draws.mean(axis=0)
    products = apart[:, :, None] * apart[:, None] if d < 100 else None
    error = 3.0 * np.outer(s, s) if products is None else products.std(axis=0)
    gap = np.abs(found.cov - np.cov(draws.T))
    assert np.all(gap < 5.5 * error / math.sqrt(size) + 0.01 * np.outer(s, s))
    assert np.all(np.linalg.eigvalsh(found.cov) > 0.0)


@pytest.mark.parametrize(("d", "far"), [(4, 8.0), (10, 6.0), (30, 5.0), (100, 3.0)])
def test_tails_keep_their_relative_accuracy(d, far):
    rng = np.random.default_rng(d)
    c, v = rng.uniform(0.3, 1.0, d), rng.uniform(-0.5, 1.0, d)
    lower = far * np.sqrt(c + v * v) * rng.uniform(0.8, 1.2, d)
    upper = np.full(d, INF)
    log_prob, mean, cov = one_factor_moments(lower, upper, c, v)
    s = np.sqrt(np.diag(cov))
    assert log_prob < -150.0 if d < 100 else log_prob < -500.0
    found = mvnorth.box_moments(lower, upper, 0.0, OneFactor(c, v))
    assert within(found, mean, cov, slack=1e-11)
    assert np.max(found.cov_error / np.outer(s, s)) < 0.01
    dense = np.diag(c) + np.outer(v, v)
    problems, _ = _checks.box_problems(lower, upper, 0.0, dense)
    request = Request(Tolerance(0.02, 0.0), None, 2**18)
    points = weighted_moments.integrate(problems, request)  # the matrix hides the factor from it
    unit = problems.covariance.unit
    assert points.log_prob[0] == pytest.approx(log_prob, abs=1e-3)
    np.testing.assert_allclose(points.cov[0] * unit.T * unit, cov, atol=0.02 * s.max() ** 2)
    np.testing.assert_array_less(np.abs(points.mean[0] * unit[0] - mean), 0.01 * s)


@pytest.mark.parametrize("far", [50.0, 1000.0, 30000.0])
def test_two_coordinates_far_out(far):
    """Derivatives give less and less there; the integral over the common factor does not."""
    c, v = np.array([0.4, 0.5]), np.array([0.6, 0.3])
    lower = far * np.sqrt(c + v * v)
    found = mvnorth.box_moments(lower, INF, 0.0, np.diag(c) + np.outer(v, v))
    # Far out the distances from the limits are exponential with rates precision @ lower.
    rate = np.linalg.solve(np.diag(c) + np.outer(v, v), lower)
    s = np.sqrt(np.diag(found.cov))
    np.testing.assert_allclose(s * rate, 1.0, rtol=5.0 / far**2 + 1e-4)
    assert np.max(found.cov_error / np.outer(s, s)) < 1e-4
    assert abs(found.cov[0, 1]) < 2.0 / far**2 * s[0] * s[1] + found.cov_error[0, 1]


def test_narrow_boxes():
    """A box of width 1e-8 is nearly uniform: its variance is width**2 / 12."""
    for d in (1, 3, 6):
        cov = correlation(np.random.default_rng(d), d)
        lower = np.linspace(-1.0, 1.0, d)
        found = mvnorth.box_moments(lower, lower + 1e-8, 0.0, cov)
        np.testing.assert_allclose(found.mean, lower + 5e-9, rtol=0, atol=1e-10)
        variance = np.diag(found.cov)
        np.testing.assert_allclose(variance, (1e-8) ** 2 / 12.0, rtol=1e-2)
        assert np.all(np.abs(variance - 1e-16 / 12.0) <= np.diag(found.cov_error) + 1e-6 * variance)


def test_no_limits_give_the_normal_back():
    cov = correlation(np.random.default_rng(1), 6)
    mean = np.arange(6.0)
    found = mvnorth.box_moments(-INF, INF, mean, cov)
    np.testing.assert_allclose(found.mean, mean, rtol=0, atol=0)
    np.testing.assert_allclose(found.cov, cov, atol=1e-14)
    assert found.prob == 1.0
    far = mvnorth.box_moments(-40.0, 40.0, 0.0, cov)
    np.testing.assert_array_less(np.abs(far.mean), far.mean_error + 1e-12)
    np.testing.assert_array_less(np.abs(far.cov - cov), far.cov_error + 1e-12)


@pytest.mark.parametrize("limited", [1, 2, 4, 7])
def test_coordinates_without_limits(limited):
    """They follow the others by regression: E[X_u] = K E[X_l], K = S_ul S_ll^-1."""
    rng = np.random.default_rng(limited)
    d = 9
    cov = correlation(rng, d)
    mean = rng.normal(size=d)
    lower, upper = np.full(d, -INF), np.full(d, INF)
    some = rng.permutation(d)[:limited]
    lower[some] = 0.5
    found = mvnorth.box_moments(lower, upper, mean, cov, rtol=3e-3)
    alone = mvnorth.box_moments(0.5, INF, mean[some], cov[np.ix_(some, some)], rtol=3e-3)
    K = cov[:, some] @ np.linalg.inv(cov[np.ix_(some, some)])
    expected = mean + K @ (alone.mean - mean[some])
    np.testing.assert_allclose(found.mean, expected, atol=1e-11)
    left = cov - K @ cov[some]
    np.testing.assert_allclose(found.cov, left + K @ alone.cov @ K.T, atol=1e-11)
    np.testing.assert_array_equal(found.cov, found.cov.T)


def test_independent_coordinates_are_intervals():
    lower, upper = np.array([-1.0, 0.5, 2.0, -INF]), np.array([1.0, INF, 2.5, -1.0])
    deviation = np.array([1.0, 2.0, 0.5, 3.0])
    found = mvnorth.box_moments(lower, upper, 0.0, np.diag(deviation**2))
    mean, variance = interval_moments(lower / deviation, upper / deviation)
    np.testing.assert_allclose(found.mean, mean * deviation, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.cov, np.diag(variance * deviation**2), rtol=1e-11)


def test_scale_and_permutation():
    rng = np.random.default_rng(3)
    d = 7
    cov, lower = correlation(rng, d), rng.normal(size=d)
    order, scale = rng.permutation(d), np.exp2(rng.integers(-5, 5, d).astype(float))
    found = mvnorth.box_moments(lower, lower + 2.0, 0.0, cov)
    scaled = mvnorth.box_moments(
        lower * scale, (lower + 2.0) * scale, 0.0, cov * np.outer(scale, scale)
    )
    np.testing.assert_allclose(scaled.mean, found.mean * scale, rtol=1e-9)
    np.testing.assert_allclose(
        scaled.cov, found.cov * np.outer(scale, scale), rtol=1e-7, atol=1e-12
    )
    turned = mvnorth.box_moments(
        lower[order], lower[order] + 2.0, 0.0, cov[np.ix_(order, order)], seed=5
    )
    assert np.all(
        np.abs(turned.mean - found.mean[order]) <= turned.mean_error + found.mean_error[order]
    )
    mirrored = mvnorth.box_moments(-lower - 2.0, -lower, 0.0, cov)
    gap = np.abs(mirrored.mean + found.mean)
    assert np.all(gap <= mirrored.mean_error + found.mean_error)


def test_orthants_are_boxes():
    rng = np.random.default_rng(4)
    for d in (2, 6, 12):
        cov, m = correlation(rng, d), rng.normal(size=(3, d))
        L = np.linalg.cholesky(cov)
        orthant = mvnorth.orthant_moments(m, L, seed=1)
        box = mvnorth.box_moments(0.0, INF, m, cov, seed=2)
        assert orthant.mean.shape == (3, d)
        assert np.all(np.abs(orthant.mean - box.mean) <= orthant.mean_error + box.mean_error)
        assert np.all(np.abs(orthant.cov - box.cov) <= orthant.cov_error + box.cov_error)
        assert np.all(orthant.mean > 0.0)


def test_singular_covariances():
    """X_3 = X_1 + X_2 between limits: draws, and the exact relation of the moments."""
    A = np.array([[1.0, 0.0], [0.6, 0.8], [1.6, 0.8]])
    cov = A @ A.T
    lower, upper = [-1.0, -0.5, 0.0], [2.0, 1.0, 2.0]
    found = mvnorth.box_moments(lower, upper, 0.0, cov, rtol=1e-3)
    draws = np.asarray(mvnorth.sample_box(lower, upper, 0.0, cov, 200_000))
    np.testing.assert_allclose(found.mean, draws.mean(axis=0), atol=4e-3)
    np.testing.assert_allclose(found.cov, np.cov(draws.T), atol=4e-3)
    assert abs(found.mean[0] + found.mean[1] - found.mean[2]) < 2.0 * found.mean_error.sum()
    unlimited = mvnorth.box_moments([*lower[:2], -INF], [*upper[:2], INF], 0.0, cov)
    assert unlimited.mean[2] == pytest.approx(unlimited.mean[0] + unlimited.mean[1], abs=1e-7)
    constant = mvnorth.box_moments(-1.0, 1.0, [0.5, 0.0], [[0.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(constant.mean, [0.5, 0.0], atol=1e-15)
    assert constant.cov[0, 0] == 0.0


def test_zero_probability_has_no_moments():
    for lower, upper in ((1.0, 1.0), ([0.0, 3.0], [1.0, 3.0])):
        found = mvnorth.box_moments(lower, upper, 0.0, np.eye(2))
        assert found.prob == 0.0
        assert np.isnan(found.mean).all()
        assert np.isinf(found.mean_error).all()
        assert np.isinf(found.cov_error).all()
        assert found.status == Status.LIMIT
    batch = mvnorth.box_moments([[0.0, 0.0], [1.0, 0.0]], 1.0, 0.0, np.eye(2))
    assert np.isfinite(batch.mean[0]).all()
    assert np.isnan(batch.mean[1]).all()


def test_lattices_converge_in_boxes():
    """Coordinates between two limits are continuous functions of the points, without jumps."""
    cov = correlation(np.random.default_rng(6), 12)
    found = mvnorth.box_moments(-1.0, 1.0, 0.0, cov, 2**14)
    assert found.method == "tilting"
    assert found.mean_error.max() < 1e-4
    assert np.abs(found.mean).max() < 1e-4


def test_tolerances_and_points():
    rng = np.random.default_rng(8)
    cov = correlation(rng, 12)
    for rtol in (0.05, 0.01):
        found = mvnorth.box_moments(0.0, INF, 0.0, cov, rtol=rtol)
        s = np.sqrt(np.diag(found.cov))
        assert found.status == Status.CONVERGED
        assert np.max(found.cov_error / np.outer(s, s)) <= rtol
        assert np.max(found.mean_error / s) <= rtol
    absolute = mvnorth.box_moments(0.0, INF, 0.0, cov, atol=3e-3)
    assert max(absolute.mean_error.max(), absolute.cov_error.max()) <= 3e-3
    fixed = mvnorth.box_moments(0.0, INF, 0.0, cov, 5000)
    assert fixed.n == 4608 or fixed.n <= 5000
    assert fixed.status == Status.FIXED
    few = mvnorth.box_moments(0.0, INF, 0.0, cov, 4)
    assert np.isinf(few.cov_error).all()


@pytest.mark.parametrize("unit", [2.0**-10, 2.0**10])
def test_absolute_tolerances_are_in_the_users_units(unit):
    cov = correlation(np.random.default_rng(8), 8)
    plain = mvnorth.box_moments(0.0, INF, 0.0, cov, atol=3e-3)
    atol = 3e-3 * max(unit, unit**2)  # of means with a small unit, of covariances with a large one
    found = mvnorth.box_moments(0.0, INF, 0.0, cov * unit**2, atol=atol)
    assert found.status == Status.CONVERGED
    assert found.n <= plain.n


@pytest.mark.parametrize("far", [1e150, 1e200])
def test_limits_that_are_too_far_out(far):
    """Their squares overflow: unknown, without a warning."""
    for cov in (np.eye(1), [[1.0, 0.5], [0.5, 1.0]], 0.5 + 0.5 * np.eye(3)):
        found = mvnorth.box_moments(far, INF, 0.0, cov)
        assert found.status == Status.LIMIT
        assert np.isinf(found.cov_error).all()


def test_bits_do_not_depend_on_threads_or_batches():
    rng = np.random.default_rng(9)
    d = 6
    cov = np.stack([correlation(rng, d) for _ in range(5)])
    lower = rng.normal(size=(5, d))
    lower[2, 1] = -INF
    upper = np.where(rng.random((5, d)) < 0.5, INF, lower + 2.0)
    upper[3] = INF
    before = mvnorth.get_num_threads()
    try:
        mvnorth.set_num_threads(1)
        whole = mvnorth.box_moments(lower, upper, 0.3, cov, rtol=0.05)
        mvnorth.set_num_threads(2)
        again = mvnorth.box_moments(lower, upper, 0.3, cov, rtol=0.05)
    finally:
        mvnorth.set_num_threads(before)
    for name in ("mean", "cov", "mean_error", "cov_error", "log_prob"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(again, name))
        for b in range(5):
            alone = mvnorth.box_moments(lower[b], upper[b], 0.3, cov[b], rtol=0.05)
            np.testing.assert_array_equal(getattr(whole, name)[b], getattr(alone, name))


def test_empty_batches():
    found = mvnorth.box_moments(np.zeros((0, 3)), 1.0, 0.0, np.eye(3))
    assert found.mean.shape == (0, 3)
    assert found.cov.shape == (0, 3, 3)
    assert "0 truncated distributions" in repr(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rtol": -1.0}, "rtol must be a number >= 0"),
        ({"n": 0}, "n must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        mvnorth.box_moments(0.0, 1.0, 0.0, np.eye(2), **arguments)


def test_wrong_problems():
    with pytest.raises(ValueError, match="m must be finite"):
        mvnorth.orthant_moments([0.0, INF], np.eye(2))
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        mvnorth.box_moments(1.0, 0.0, 0.0, np.eye(2))


def test_shapes_and_descriptions():
    found = mvnorth.box_moments(np.zeros((2, 1, 3)), 1.0, np.zeros((4, 3)), np.eye(3))
    assert found.mean.shape == found.mean_error.shape == (2, 4, 3)
    assert found.cov.shape == found.cov_error.shape == (2, 4, 3, 3)
    assert found.prob.shape == found.status.shape == (2, 4)
    assert "2x4 truncated distributions of 3 coordinates" in repr(found)
    one = mvnorth.box_moments(0.0, 1.0, 0.0, np.eye(8))
    assert "..." in repr(one)
    assert "deviations" in repr(one)
