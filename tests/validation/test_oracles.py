"""The oracles against closed forms, against each other and against scipy."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats
from support import naive

import mvnorth
from validation.oracles import common_factors, exact, r_mvtnorm, scipy_mvn, student
from validation.oracles.one_dimension import (
    log_interval,
    markov_logprob,
    minus_factor_logprob,
    one_factor_logprob,
    two_factor_logprob,
)

INF = np.inf


@pytest.fixture(autouse=True)
def forty_digits():
    """Differences of 40-digit numbers are taken in 40 digits."""
    with mpmath.workdps(40):
        yield


# 40 digits: one number


@pytest.mark.parametrize("x", [-300.0, -37.5, -8.0, -1.0, -1e-9, 0.0, 0.5, 3.0, 9.0])
def test_exact_functions_agree_with_scipy(x):
    assert float(exact.log_ndtr(x)) == pytest.approx(special.log_ndtr(x), rel=1e-13)
    if x > -38:
        assert float(exact.ndtr(x)) == pytest.approx(special.ndtr(x), rel=1e-13)
        log_mills = -(x**2) / 2 - math.log(2 * math.pi) / 2 - special.log_ndtr(x)
        assert float(exact.mills(x)) == pytest.approx(math.exp(log_mills), rel=1e-12)


def test_exact_functions_have_forty_digits():
    # Phi(1), to 40 digits, by the series of the error function at 80.
    with mpmath.workdps(80):
        truth = (1 + mpmath.erf(1 / mpmath.sqrt(2))) / 2
    assert abs(exact.ndtr(1) - truth) < mpmath.mpf(10) ** -39


@pytest.mark.parametrize("p", [1e-300, 1e-20, 0.01, 0.5, 0.7, 1 - 1e-12])
def test_exact_ndtri_inverts_ndtr(p):
    x = exact.ndtri(p)
    assert abs(exact.ndtr(x) / p - 1) < mpmath.mpf(10) ** -35
    assert float(x) == pytest.approx(special.ndtri(p), rel=1e-13, abs=1e-16)


# 40 digits: two, three and more coordinates


@pytest.mark.parametrize("rho", [-0.99, -0.3, 0.0, 0.5, 0.9999])
def test_exact_bivariate_at_zero(rho):
    truth = mpmath.mpf(1) / 4 + mpmath.asin(rho) / (2 * mpmath.pi)
    assert abs(exact.bivariate_prob(0, 0, rho) / truth - 1) < mpmath.mpf(10) ** -37


def test_exact_bivariate_at_the_ends():
    assert abs(exact.bivariate_prob(0.3, -0.4, 1) - exact.ndtr(-0.4)) < 1e-39
    assert float(exact.bivariate_prob(0.3, 0.4, -1)) == pytest.approx(
        special.ndtr(0.3) - special.ndtr(-0.4), rel=1e-14
    )
    assert exact.bivariate_prob(-0.3, -0.4, -1) == 0
    assert abs(exact.bivariate_prob(INF, -0.4, 0.3) - exact.ndtr(-0.4)) < 1e-39


@pytest.mark.parametrize(("h", "k"), [(-26.0, -27.0), (-26.0, 5.0), (5.0, -37.0)])
def test_exact_bivariate_is_relatively_accurate_far_out(h, k):
    # Independent coordinates multiply, down to 1e-300.
    truth = exact.ndtr(h) * exact.ndtr(k)
    assert truth < 1e-140
    assert abs(exact.bivariate_prob(h, k, 0) / truth - 1) < mpmath.mpf(10) ** -36


def test_exact_trivariate_at_zero():
    corr = [[1, 0.3, -0.2], [0.3, 1, 0.5], [-0.2, 0.5, 1]]
    angles = mpmath.asin(0.3) + mpmath.asin(-0.2) + mpmath.asin(0.5)
    truth = mpmath.mpf(1) / 8 + angles / (4 * mpmath.pi)
    assert abs(exact.trivariate_prob([0, 0, 0], corr) / truth - 1) < mpmath.mpf(10) ** -37


def test_exact_trivariate_is_relatively_accurate_far_out():
    # A block of two and an independent coordinate; then negative correlations, where almost
    # all of the independent start cancels, against the integral over two factors.
    corr = np.array([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    truth = exact.bivariate_prob(-20, -21, 0.5) * exact.ndtr(-15)
    assert abs(exact.trivariate_prob([-20, -21, -15], corr) / truth - 1) < mpmath.mpf(10) ** -37

    corr = np.array([[1, -0.6, -0.3], [-0.6, 1, 0.2], [-0.3, 0.2, 1]])
    b = np.array([-5.0, -4.0, -5.0])
    values, vectors = np.linalg.eigh(corr)
    v = vectors[:, 1:] * np.sqrt(values[1:] - values[0])
    found, _ = two_factor_logprob(np.full(3, -INF), b, np.full(3, values[0]), v)
    assert found < -50
    assert float(mpmath.log(exact.trivariate_prob(b, corr))) == pytest.approx(found, abs=1e-11)


def test_exact_one_factor_at_zero():
    d = 4
    found = exact.one_factor_logprob([-INF] * d, [0.0] * d, [0.5] * d, [mpmath.sqrt(0.5)] * d)
    assert abs(found + mpmath.log(d + 1)) < mpmath.mpf(10) ** -37


# float64 against 40 digits


def one_factor_cases():
    rng = np.random.default_rng(5)
    for name, d, level, noise, box in (
        ("plain", 5, 0.5, 1.0, False),
        ("box", 4, 1.0, 1.0, True),
        ("tail", 4, -6.0, 1.0, False),
        ("deep tail", 3, -45.0, 1.0, False),
        ("box in the tail", 3, -12.0, 1.0, True),
        ("near-singular", 4, 1.0, 2.0**-24, False),
    ):
        v = rng.normal(size=d)
        c = noise * rng.lognormal(size=d)
        upper = rng.normal(level, 0.3, d) * np.sqrt(c + v**2)
        lower = upper - rng.uniform(0.5, 2.0, d) if box else np.full(d, -INF)
        yield pytest.param(lower, upper, c, v, id=name)


@pytest.mark.parametrize(("lower", "upper", "c", "v"), list(one_factor_cases()))
def test_one_factor_is_right_within_its_error(lower, upper, c, v):
    found, error = one_factor_logprob(lower, upper, c, v)
    truth = exact.one_factor_logprob(lower, upper, c, v)
    assert abs(float(found - truth)) <= error
    assert error < 1e-13 * (1 + abs(found)) + 1e-11


def test_one_factor_with_coordinates_that_have_no_noise():
    # Both coordinates are multiples of z: -2 <= z <= 1 and -1.5 <= -z / 2 <= 0.5.
    found, _ = one_factor_logprob([-2.0, -1.5], [1.0, 0.5], [0.0, 0.0], [1.0, -0.5])
    assert found == pytest.approx(math.log(special.ndtr(1) - special.ndtr(-1)), abs=1e-14)
    impossible, _ = one_factor_logprob([1.0, -INF], [2.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    assert impossible == -INF


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-INF, INF),
        (-INF, 1.5),
        (-3.0, INF),
        (-1e-9, 1e-9),
        (-1.0, 2.0),
        (3.0, 4.0),
        (-4.0, -3.0),
        (30.0, 30.01),
        (-60.0, -59.0),
        (200.0, INF),
    ],
)
def test_log_interval(a, b):
    with mpmath.workdps(60):
        left, right = (-b, -a) if a + b > 0 else (a, b)
        root2 = mpmath.sqrt(2)
        truth = mpmath.log((mpmath.erfc(-right / root2) - mpmath.erfc(-left / root2)) / 2)
    assert float(log_interval(a, b)) == pytest.approx(float(truth), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("rho", [-0.3, -0.9])
def test_minus_factor_in_two_dimensions(rho):
    c, v = np.full(2, 1 - rho), np.full(2, math.sqrt(-rho))
    found, error = minus_factor_logprob([-INF, -INF], [0.3, -0.2], c, v)
    truth = mpmath.log(exact.bivariate_prob(0.3, -0.2, rho))
    assert abs(float(found - truth)) < min(error, 1e-12)


def test_three_dimensions_three_ways():
    b, rho = np.array([0.5, -0.3, 1.0]), -0.25
    corr = np.full((3, 3), rho) + (1 - rho) * np.eye(3)
    truth = float(mpmath.log(exact.trivariate_prob(b, corr)))
    by_minus, _ = minus_factor_logprob(
        np.full(3, -INF), b, np.full(3, 1 - rho), np.full(3, math.sqrt(-rho))
    )
    assert by_minus == pytest.approx(truth, abs=1e-12)
    values, vectors = np.linalg.eigh(corr)
    v = vectors[:, 1:] * np.sqrt(values[1:] - values[0])
    by_two, _ = two_factor_logprob(np.full(3, -INF), b, np.full(3, values[0]), v)
    assert by_two == pytest.approx(truth, abs=1e-12)
    assert naive.nested_quad(np.full(3, -INF), b, corr) == pytest.approx(math.exp(truth), abs=1e-8)


def test_two_factor_reduces_to_one_factor_and_ignores_rotation():
    rng = np.random.default_rng(3)
    d = 7
    c, v = rng.lognormal(size=d), rng.normal(size=d)
    lower, upper = rng.normal(-2, 0.5, d), rng.normal(1, 0.5, d)
    truth, _ = one_factor_logprob(lower, upper, c, v)
    rotated = np.outer(v, [math.cos(0.7), math.sin(0.7)])
    found, error = two_factor_logprob(lower, upper, c, rotated)
    assert abs(found - truth) < error + 1e-14
    assert error < 1e-11


@pytest.mark.parametrize("shift", [0.0, -3.0, -12.0])
def test_several_factors_agree_with_two(shift):
    rng = np.random.default_rng(5)
    d = 7
    c = rng.uniform(0.1, 0.7, d)
    V, _ = common_factors.random_factors(rng, c, 2)
    upper = rng.normal(shift, 0.5, d)
    lower = np.where(np.arange(d) < 3, -INF, upper - rng.uniform(0.3, 3.0, d))
    for low in (lower, np.full(d, -INF)):
        truth, error = two_factor_logprob(low, upper, c, V)
        found = common_factors.log_prob(upper, c, V, lower=low)
        assert abs(found - truth) < error + 1e-13 * abs(truth) + 1e-12
    rotated = V @ np.linalg.qr(rng.normal(size=(4, 4)))[0][:2]  # four factors that are two
    found = common_factors.log_prob(upper, c, rotated, 0.6, negligible=16.0)
    assert found == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize(("k", "step"), [(2, 0.125), (3, 0.22)])
@pytest.mark.parametrize("is_box", [False, True])
def test_common_factors_of_turned_blocks(k, step, is_box):
    """Blocks with a factor each are independent, whichever way the factors are turned."""
    rng = np.random.default_rng(k)
    d = 5
    c = rng.uniform(0.3, 0.8, d)
    v, upper = np.sqrt(1.0 - c), rng.normal(-1.0, 0.7, d)
    lower = upper - rng.uniform(0.5, 4.0, d) if is_box else np.full(d, -INF)
    rotation = np.linalg.qr(rng.normal(size=(k, k)))[0]
    blocks = [np.arange(d) % k == j for j in range(k)]
    truth = sum(one_factor_logprob(lower[b], upper[b], c[b], v[b])[0] for b in blocks)
    found = common_factors.log_prob(upper, c, v[:, None] * rotation[np.arange(d) % k], step, lower)
    assert abs(found - truth) < 1e-12


@pytest.mark.parametrize("df", [0.5, 3.0, 200.0])
def test_student_of_one_coordinate_is_scipys(df):
    c, v = np.array([0.4]), np.array([math.sqrt(0.6)])
    for x in (-30.0, -3.0, 0.0, 2.0):
        found, error = student.log_prob(np.array([-INF]), np.array([x]), c, v, df)
        assert abs(found - stats.t.logcdf(x, df)) < error < 1e-12
    found, error = student.log_prob(np.array([-2.0]), np.array([0.5]), c, v, df)
    truth = math.log(stats.t.cdf(0.5, df) - stats.t.cdf(-2.0, df))
    assert abs(found - truth) < error + 1e-14


@pytest.mark.parametrize("df", [2.0, 8.0, 150.0])
def test_student_is_the_integral_of_one_factor_problems(df):
    c, v = np.array([0.3, 0.8, 0.5]), np.array([0.9, -0.4, 1.5])
    lower, upper = np.array([-2.0, -INF, -9.0]), np.array([1.0, 0.5, -4.0])

    def integrand(w):
        r = math.exp(w)
        inner, _ = one_factor_logprob(r * lower, r * upper, c, v)
        return math.exp(inner) * stats.chi2.pdf(df * r * r, df) * 2.0 * df * r * r

    reach = 8.0 / math.sqrt(2.0 * df)
    truth, _ = integrate.quad(
        integrand, -30.0 / df - 1.0, reach, points=[-reach, -0.5 * reach, 0.0], epsabs=0.0,
        epsrel=1e-9,
    )  # fmt: skip
    found, error = student.log_prob(lower, upper, c, v, df)
    assert found == pytest.approx(math.log(truth), abs=1e-8)
    assert error < 1e-11


@pytest.mark.parametrize("d", [2, 10, 60])
def test_markov_finds_sparre_andersen(d):
    steps = np.arange(1.0, d)
    found, error = markov_logprob(np.full(d, -INF), np.zeros(d), np.sqrt(steps / (steps + 1)))
    truth = math.log(math.comb(2 * d, d) / 4**d)
    assert abs(found - truth) < 1e-12
    assert error < 1e-11


@pytest.mark.parametrize(
    ("upper", "rho"), [((-20.0, -21.0), 0.6), ((-9.0, 8.0), -0.99), ((INF, -20.0), -0.9)]
)
def test_markov_far_out(upper, rho):
    found, _ = markov_logprob([-INF, -INF], upper, [rho])
    truth = mpmath.log(exact.bivariate_prob(upper[0], upper[1], rho))
    assert found == pytest.approx(float(truth), abs=1e-11)


# Other people's software


def test_scipy_is_called_rightly():
    cov = (np.eye(6) + 1) / 2
    found = scipy_mvn.cdf([-INF] * 6, [0.0] * 6, cov, abseps=1e-6, repeat=2)
    assert found.value == pytest.approx(1 / 7, abs=1e-4)
    assert 0 < found.seconds < 10
    box = scipy_mvn.cdf([-1.0, -2.0], [0.5, INF], [[4.0, 0.0], [0.0, 1.0]])
    truth = (special.ndtr(0.25) - special.ndtr(-0.5)) * special.ndtr(2.0)
    assert box.value == pytest.approx(truth, abs=1e-5)


class TestMvtnorm:
    @pytest.fixture(autouse=True)
    def needs_r(self):
        if not r_mvtnorm.available():
            pytest.skip("R or mvtnorm is not installed")

    def test_orthant(self):
        cov = (np.eye(6) + 1) / 2
        found = r_mvtnorm.pmvnorm([-INF] * 6, [0.0] * 6, cov, repeat=2)
        assert found.value == pytest.approx(1 / 7, abs=5 * found.error)
        assert 0 < found.error < 1e-3
        assert 0 < found.seconds < 10

    def test_box_with_unequal_variances(self):
        cov = [[4.0, 1.2, 0.0], [1.2, 1.0, 0.0], [0.0, 0.0, 1.0]]
        lower, upper = [-1.0, -2.0, -INF], [0.5, INF, 0.3]
        found = r_mvtnorm.pmvnorm(lower, upper, cov, maxpts=100_000, abseps=1e-6)
        truth = naive.nested_quad(lower, upper, cov)
        assert found.value == pytest.approx(truth, abs=1e-5)

    def test_errors_of_r_are_passed_on(self):
        with pytest.raises(RuntimeError, match="Rscript failed"):
            r_mvtnorm.pmvnorm([1.0, 1.0], [0.0, 0.0], np.eye(2))


@pytest.mark.skipif(
    not r_mvtnorm.available("slpmvnorm"), reason="R's mvtnorm >= 1.2 (slpmvnorm) is not installed"
)
def test_scores_of_mvtnorm_are_ours():
    rng = np.random.default_rng(8)
    d = 5
    L = np.tril(rng.normal(0.0, 0.5, (d, d)), -1) + np.diag(rng.uniform(0.6, 1.4, d))
    mean = rng.normal(0.0, 0.3, d)
    lower, upper = mean - rng.uniform(0.5, 2.0, d), mean + rng.uniform(0.5, 2.0, d)
    lower[1], upper[2] = -INF, INF
    theirs = r_mvtnorm.slpmvnorm(lower, upper, mean, L)
    wrt = ("lower", "upper", "mean", "cov")
    ours = mvnorth.box_grad(lower, upper, mean, L @ L.T, 2**14, wrt=wrt, log=True)
    # Their points are as many as ours, in an order of coordinates that is not chosen.
    assert theirs.log_prob == pytest.approx(ours.log_prob, abs=1e-4)
    for name in ("lower", "upper", "mean"):
        theirs_in, ours_in = getattr(theirs, name), getattr(ours, f"grad_{name}")
        np.testing.assert_allclose(theirs_in, ours_in, atol=5e-4, err_msg=name)
    # cov = L L^T, so dcov = dL L^T + L dL^T.
    np.testing.assert_allclose(theirs.factor, np.tril(2 * ours.grad_cov @ L), atol=5e-4)
