"""Student t against scipy's distributions, sums in 30 digits, independent integrals and draws."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

import mvnorth
from mvnorth import Factors, OneFactor
from validation.oracles import r_mvtnorm

DF = (0.3, 1.0, 2.0, 5.0, 30.0, 1e3, 1e7)
ALL = ("m", "L", "cov", "df", "delta")


def random_covariance(seed, d):
    factor = np.random.default_rng(seed).normal(size=(d, d))
    return factor @ factor.T / d + 0.3 * np.eye(d)


def log_chi(w, df):
    """Return the logarithm of the density of w = log(chi_df / sqrt(df))."""
    constant = math.log(2.0) + 0.5 * df * math.log(0.5 * df) - special.gammaln(0.5 * df)
    return constant + df * (w - 0.5 * np.exp(2.0 * w))


def by_quad(log_prob, df):
    """Return the integral over the chi variable of a probability that is given as a function."""
    width = 1.0 / math.sqrt(2.0 * df)
    grid = np.linspace(-60.0 * width - 6.0, 12.0 * width + 1.0, 4000)
    values = np.array([log_chi(w, df) + log_prob(math.exp(w)) for w in grid])
    top, mode = values.max(), grid[values.argmax()]
    counts = grid[values > top - 60.0]
    value, _ = integrate.quad(
        lambda w: math.exp(log_chi(w, df) + log_prob(math.exp(w)) - top),
        counts[0], counts[-1], points=[mode], epsabs=0.0, epsrel=1e-12, limit=500,
    )  # fmt: skip
    return math.log(value) + top


@pytest.mark.parametrize("df", DF)
@pytest.mark.parametrize("x", [-1e6, -40.0, -3.0, -0.5, 0.0, 1.0, 8.0, 1e3])
def test_one_coordinate_is_scipys_t(df, x):
    got = mvnorth.box(-np.inf, x, 0.0, [[1.0]], df=df, rtol=1e-11)
    truth = stats.t.logcdf(x, df)
    if math.isfinite(truth):
        assert abs(got.log_prob - truth) <= 1e-10 + 1e-14 * abs(truth)
        assert abs(math.expm1(got.log_prob - truth)) <= got.rel_error + 1e-13 * (1 + abs(truth))


@pytest.mark.parametrize(("df", "delta"), [(1.5, 0.7), (5.0, -2.0), (40.0, 3.0)])
def test_one_coordinate_with_noncentrality_is_scipys_nct(df, delta):
    for x in (-2.0, 0.5, 4.0):
        got = mvnorth.cdf(x, cov=1.0, df=df, delta=[delta], releps=1e-11)
        assert got == pytest.approx(stats.nct.cdf(x, df, delta), rel=1e-9)
        orthant = mvnorth.orthant_prob([x], [[1.0]], df=df, delta=[delta], rtol=1e-11)
        assert orthant == pytest.approx(stats.nct.sf(-x, df, delta), rel=1e-9)


@pytest.mark.parametrize("df", [0.5, 3.0, 50.0])
def test_limits_of_zero_do_not_depend_on_df(df):
    rho = 0.4
    got = mvnorth.cdf([0.0, 0.0], cov=[[1.0, rho], [rho, 1.0]], df=df, releps=1e-12)
    assert got == pytest.approx(0.25 + math.asin(rho) / (2.0 * math.pi), rel=1e-11)


@pytest.mark.parametrize("df", [1.0, 4.0, 25.0])
@pytest.mark.parametrize("two_sided", [False, True])
def test_independent_coordinates_with_noncentrality(df, two_sided):
    """They depend on each other through the chi variable alone."""
    lower = np.array([-1.0, -0.5, -2.0]) if two_sided else np.full(3, -np.inf)
    upper, delta = np.array([0.7, 1.5, 0.2]), np.array([0.3, -0.4, 0.0])

    def log_prob(r):
        sides = special.ndtr(r * upper - delta) - special.ndtr(r * lower - delta)
        return float(np.sum(np.log(np.maximum(sides, 1e-300))))

    got = mvnorth.box(lower, upper, 0.0, np.eye(3), df=df, delta=delta, rtol=1e-11)
    assert got.method == "closed_form"
    truth = by_quad(log_prob, df)
    assert abs(math.expm1(got.log_prob - truth)) <= min(got.rel_error + 1e-11, 1e-10)


@pytest.mark.parametrize("df", [2.0, 7.0])
def test_one_factor_in_thirty_digits(df):
    c, v, upper = (0.5, 0.8, 0.3), (0.7, -0.4, 0.9), (1.2, 0.4, -0.6)
    with mpmath.workdps(30):
        step, total = mpmath.mpf(1) / 8, mpmath.mpf(0)
        nu = mpmath.mpf(df)
        constant = 2 * (nu / 2) ** (nu / 2) / mpmath.gamma(nu / 2)
        for k, j in itertools.product(range(-150, 20), range(-64, 65)):
            r, z = mpmath.exp(k * step), j * step
            weight = mpmath.exp(nu * k * step - nu * r * r / 2 - z * z / 2)
            if weight < mpmath.mpf(10) ** -22:
                continue
            for ci, vi, b in zip(c, v, upper, strict=True):
                weight *= mpmath.ncdf((b * r + vi * z) / mpmath.sqrt(ci))
            total += weight
        truth = float(mpmath.log(total * constant * step**2 / mpmath.sqrt(2 * mpmath.pi)))
    got = mvnorth.box(-np.inf, upper, 0.0, OneFactor(c, v), df=df, rtol=1e-12)
    assert got.method == "quadrature"
    assert abs(got.log_prob - truth) <= 1e-11
    assert got.rel_error <= 1e-12


def one_factor_by_quad(lower, upper, c, v, df):
    z, weight = np.polynomial.hermite_e.hermegauss(150)
    weight = weight / math.sqrt(2.0 * math.pi)

    def log_prob(r):
        low, high = (
            (r * a[:, None] - v[:, None] * z) / np.sqrt(c)[:, None] for a in (lower, upper)
        )
        return math.log(weight @ np.prod(special.ndtr(high) - special.ndtr(low), axis=0))

    return by_quad(log_prob, df)


@pytest.mark.parametrize(("d", "df"), [(3, 12.0), (10, 3.0), (40, 60.0)])
def test_boxes_with_one_factor(d, df):
    rng = np.random.default_rng(d)
    c, v = rng.uniform(0.4, 1.0, d), 0.6 * rng.normal(size=d)
    upper = rng.uniform(1.0, 3.0, d)
    lower = -upper
    truth = one_factor_by_quad(lower, upper, c, v, df)
    got = mvnorth.box(lower, upper, 0.0, OneFactor(c, v), df=df, rtol=1e-10)
    assert abs(math.expm1(got.log_prob - truth)) <= got.rel_error + 1e-11
    assert got.rel_error <= 1e-10
    assert abs(got.log_prob - truth) <= 1e-10


def test_two_factors_equal_a_one_factor_problem_with_a_turned_factor():
    rng = np.random.default_rng(5)
    v, c = rng.normal(size=12), rng.uniform(0.3, 1.0, 12)
    several = Factors(c, np.stack([0.6 * v, 0.8 * v], axis=1))
    upper = rng.normal(size=12) + 1.0
    got = mvnorth.box(-np.inf, upper, 0.0, several, df=6.0, rtol=1e-8)
    expected = mvnorth.box(-np.inf, upper, 0.0, OneFactor(c, v), df=6.0, rtol=1e-11)
    assert abs(math.expm1(got.log_prob - expected.log_prob)) <= got.rel_error <= 1e-8


@pytest.mark.parametrize(("d", "df"), [(2, 1.0), (3, 4.0), (4, 5.0), (5, 20.0)])
def test_any_covariance_beside_scipy(d, df):
    cov, x = random_covariance(d, d), np.linspace(-0.3, 1.2, d)
    mean = np.linspace(0.2, -0.2, d)
    truth = stats.multivariate_t.cdf(x, mean, cov, df, maxpts=400_000, random_state=1)
    got = mvnorth.cdf(x, mean, cov, df=df, releps=1e-6)
    assert got == pytest.approx(truth, rel=3e-4)
    lower = x - 1.5
    truth = stats.multivariate_t.cdf(
        x, mean, cov, df, lower_limit=lower, maxpts=400_000, random_state=1
    )
    got = mvnorth.cdf(x, mean, cov, df=df, lower_limit=lower, releps=1e-5)
    assert got == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("chain", [False, True])
def test_a_chain_and_a_sampled_covariance_agree_with_the_gauss_rules(chain):
    lag = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    cov = 0.6**lag if chain else random_covariance(9, 5)
    upper = np.array([0.5, 1.0, 0.2, 0.8, 1.5])
    exact = mvnorth.box(-np.inf, upper, 0.0, cov, df=4.0, rtol=1e-8)
    assert exact.method == ("markov" if chain else "gauss")
    sampled = mvnorth.box(-np.inf, upper, 0.0, cov, df=4.0, method="tilting", rtol=1e-4)
    assert sampled.method == "tilting"
    assert abs(sampled.prob - exact.prob) <= sampled.error + exact.error


@pytest.mark.skipif(not r_mvtnorm.available("pmvt"), reason="R's mvtnorm is not installed")
@pytest.mark.parametrize("shifted", [False, True])
def test_both_locations_are_those_of_mvtnorm(shifted):
    cov, delta = random_covariance(12, 4), np.array([0.4, -0.3, 0.8, 0.1])
    lower, upper = np.full(4, -2.0), np.array([1.5, 1.0, 2.5, 2.0])
    theirs = r_mvtnorm.pmvt(lower, upper, cov, 6, delta, shifted)
    where = {"mean": delta} if shifted else {"mean": 0.0, "delta": delta}
    ours = mvnorth.box(lower, upper, cov=cov, df=6.0, rtol=1e-6, **where)
    assert abs(ours.prob - theirs.value) <= ours.error + 3.0 * theirs.error


def test_infinite_degrees_of_freedom_are_the_normal():
    cov, upper = random_covariance(3, 4), np.array([0.1, 0.5, 1.0, -0.2])
    for df in (np.inf, None):
        got = mvnorth.box(-np.inf, upper, 0.0, cov, df=df)
        assert got.prob == mvnorth.box(-np.inf, upper, 0.0, cov).prob
    shifted = mvnorth.box(-np.inf, upper, 0.0, cov, delta=0.3)
    assert shifted.prob == pytest.approx(mvnorth.box_prob(-np.inf, upper - 0.3, 0.0, cov))
    large = mvnorth.box(-np.inf, upper, 0.0, cov, df=1e9, rtol=1e-8)
    normal = mvnorth.box(-np.inf, upper, 0.0, cov, rtol=1e-8)
    assert large.prob == pytest.approx(normal.prob, rel=3e-8)


@pytest.mark.parametrize("df", [1.5, 6.0])
@pytest.mark.parametrize("kind", ["one_factor", "dense"])
def test_derivatives_are_those_of_the_value(df, kind):
    rng = np.random.default_rng(2)
    d = 4
    m, delta = rng.normal(size=d) * 0.5, np.array([0.2, -0.1, 0.3, 0.0])
    cov = np.diag([0.5, 0.7, 0.4, 0.6]) + 0.4 if kind == "one_factor" else random_covariance(1, d)
    L = np.linalg.cholesky(cov)

    def value(m=m, L=L, df=df, delta=delta):
        return mvnorth.orthant_logprob(m, L, df=df, delta=delta, rtol=1e-10)

    got = mvnorth.orthant_grad(m, L, wrt=ALL, df=df, delta=delta, log=True, rtol=1e-8)
    step = 1e-4
    basis = step * np.eye(d)
    for k in range(d):
        plus, minus = value(m=m + basis[k]), value(m=m - basis[k])
        assert got.grad_m[k] == pytest.approx((plus - minus) / (2 * step), abs=1e-6)
        plus, minus = value(delta=delta + basis[k]), value(delta=delta - basis[k])
        assert got.grad_delta[k] == pytest.approx((plus - minus) / (2 * step), abs=1e-6)
    change = np.zeros((d, d))
    change[2, 1] = step
    expected = (value(L=L + change) - value(L=L - change)) / (2 * step)
    assert got.grad_L[2, 1] == pytest.approx(expected, abs=1e-6)
    expected = (value(df=df + step) - value(df=df - step)) / (2 * step)
    assert got.grad_df == pytest.approx(expected, abs=1e-6)
    assert got.grad_df_error <= 1e-6
    probability = mvnorth.orthant_grad(m, L, wrt=ALL, df=df, delta=delta, rtol=1e-8)
    np.testing.assert_allclose(probability.grad_m, got.prob * got.grad_m, rtol=1e-6)


def test_derivative_in_df_of_one_coordinate_in_forty_digits():
    for df, x in ((0.7, -2.0), (3.0, 1.0), (25.0, -4.0), (400.0, 1.5)):
        with mpmath.workdps(40):

            def cdf(nu, x=x):
                beta = mpmath.betainc(nu / 2, 0.5, 0, nu / (nu + x * x), regularized=True) / 2
                return mpmath.log(1 - beta if x > 0 else beta)

            truth = float(mpmath.diff(cdf, mpmath.mpf(df)))
        got = mvnorth.cdf_grad(x, cov=1.0, df=df, wrt=("df",), log=True, releps=1e-11)
        assert abs(got.grad_df - truth) <= got.grad_df_error + 1e-14
        assert got.grad_df_error <= 1e-10


def test_boxes_have_derivatives_in_limits_mean_and_noncentrality():
    cov, lower, upper = random_covariance(4, 3), np.array([-1.0, -2.0, -0.5]), np.ones(3)

    def value(lower=lower, upper=upper, mean=0.1, delta=0.2):
        return mvnorth.box_prob(lower, upper, mean, cov, df=3.0, delta=delta, rtol=1e-11)

    names = ("lower", "upper", "mean", "delta")
    got = mvnorth.box_grad(lower, upper, 0.1, cov, df=3.0, delta=0.2, wrt=names, rtol=1e-9)
    step = 1e-5
    for name, base in zip(names, (lower, upper, np.full(3, 0.1), np.full(3, 0.2)), strict=True):
        for k in range(3):
            change = step * np.eye(3)[k]
            difference = value(**{name: base + change}) - value(**{name: base - change})
            expected = difference / (2 * step)
            assert getattr(got, f"grad_{name}")[k] == pytest.approx(expected, abs=2e-8)


def test_batches_broadcast_and_give_the_bits_of_single_problems():
    cov = random_covariance(6, 4)
    upper = np.random.default_rng(0).normal(size=(3, 1, 4)) + 0.5
    df = np.array([1.0, 8.0, np.inf, 40.0])
    got = mvnorth.box(-np.inf, upper, 0.0, cov, df=df)
    assert got.prob.shape == (3, 4)
    for i, j in itertools.product(range(3), range(4)):
        single = mvnorth.box(-np.inf, upper[i, 0], 0.0, cov, df=df[j])
        assert single.prob == got.prob[i, j]
        assert single.rel_error == got.rel_error[i, j]
        assert single.method == got.method[i, j]
    gradient = mvnorth.box_grad(-np.inf, upper, 0.0, cov, df=df, wrt=("upper", "df"))
    assert gradient.grad_upper.shape == (3, 4, 4)
    assert gradient.grad_df.shape == (3, 4)
    assert (gradient.grad_df[:, 2] == 0.0).all()
    assert mvnorth.box(-np.inf, np.zeros((0, 4)), 0.0, cov, df=3.0).prob.shape == (0,)


def test_boxes_that_are_empty_or_unlimited():
    cov = random_covariance(7, 2)
    assert mvnorth.box_prob(1.0, 1.0, 0.0, cov, df=3.0) == 0.0
    assert mvnorth.box_prob(-np.inf, np.inf, 0.0, cov, df=3.0) == pytest.approx(1.0, rel=1e-9)
    singular = np.ones((3, 3))
    got = mvnorth.box_prob(-1.0, [1.0, 2.0, 3.0], 0.0, singular, df=4.0, rtol=1e-8)
    assert got == pytest.approx(stats.t.cdf(1.0, 4.0) - stats.t.cdf(-1.0, 4.0), rel=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"df": 0.0}, "df must be > 0"),
        ({"df": 1e-9}, "df must be at least 0.001"),
        ({"df": -1.0}, "df must be > 0"),
        ({"df": np.nan}, "df must be > 0"),
        ({"df": [1.0, 2.0, 3.0]}, "do not broadcast"),
        ({"delta": [1.0, 2.0, 3.0]}, r"delta must have shape \(..., 2\)"),
        ({"delta": np.inf}, "delta must be finite"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mvnorth.box(-1.0, np.ones((2, 2)), 0.0, np.eye(2), **arguments)
    with pytest.raises(TypeError, match="df must be an array of real numbers"):
        mvnorth.box(-1.0, 1.0, 0.0, np.eye(2), df="five")
    with pytest.raises(ValueError, match="wrt must name some of"):
        mvnorth.box_grad(-1.0, 1.0, 0.0, np.eye(2), wrt=("df",))
    with pytest.raises(TypeError, match="complement must be True or False"):
        mvnorth.box(-1.0, 1.0, 0.0, np.eye(2), complement="yes")


def random_problem(rng):
    """Return limits, c, v and df of a one-factor problem of few coordinates."""
    d = int(rng.integers(1, 7))
    c, v = rng.uniform(0.2, 1.0, d), rng.normal(size=d)
    centre = rng.normal(rng.choice([-2.0, 0.0, 2.0]), 1.0, d)
    upper = centre * math.exp(rng.uniform(-1.0, 2.0))
    lower = upper - rng.uniform(0.5, 4.0, d) if rng.random() < 0.4 else np.full(d, -np.inf)
    return lower, upper, c, v, math.exp(rng.uniform(math.log(0.5), math.log(200.0)))


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-9])
def test_claimed_errors_hold(rtol):
    """One in a hundred may be outside of its claim; none was on these."""
    rng = np.random.default_rng(11)
    outside = 0
    for _ in range(40):
        lower, upper, c, v, df = random_problem(rng)
        truth = mvnorth.box(lower, upper, 0.0, OneFactor(c, v), df=df, rtol=1e-11)
        got = mvnorth.box(lower, upper, 0.0, OneFactor(c, v), df=df, rtol=rtol)
        assert got.rel_error <= rtol
        outside += abs(math.expm1(got.log_prob - truth.log_prob)) > got.rel_error + truth.rel_error
    assert outside == 0


def noncentral_by_quad(x, df, delta):
    """Return Pr((X + delta) / R <= x) of one coordinate, piece by piece around its steep part."""

    def integrand(w):
        return math.exp(log_chi(w, df)) * special.ndtr(math.exp(w) * x - delta)

    steep, width = math.log(delta / x), 1.0 / abs(delta)
    ends = [-60.0 / df - 6.0, -15.0 / df - 3.0, -5.0 / df - 1.0, -0.5, 0.0, 0.5, 4.0 + 3.0 / df]
    ends += [steep + k * width for k in (-20.0, -5.0, 0.0, 5.0, 20.0)]
    pieces = itertools.pairwise(sorted(ends))
    return sum(
        integrate.quad(integrand, *ab, epsabs=0.0, epsrel=1e-12, limit=300)[0] for ab in pieces
    )


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_claimed_errors_hold_with_noncentrality():
    rng = np.random.default_rng(21)
    outside = 0
    for _ in range(100):
        df, size = np.exp(rng.uniform(np.log([0.5, 0.5]), np.log([200.0, 80.0])))
        delta = size * rng.choice([-1.0, 1.0])
        x = delta * math.exp(0.7 * rng.normal())
        truth = noncentral_by_quad(x, df, delta)
        got = mvnorth.box(-np.inf, x, 0.0, [[1.0]], df=df, delta=[delta], rtol=1e-6)
        if truth > 1e-250:
            outside += abs(got.prob / truth - 1.0) > got.rel_error + 1e-10
    assert outside <= 1


def test_draws_follow_the_conditional_distribution():
    df = 3.0
    sample = mvnorth.sample_box(1.0, np.inf, 0.5, [[4.0]], 1500, df=df, seed=3)
    draws = (sample.draws[:, 0] - 0.5) / 2.0
    assert sample.draws.min() >= 1.0
    share = (stats.t.cdf(draws, df) - stats.t.cdf(0.25, df)) / stats.t.sf(0.25, df)
    assert stats.kstest(share, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("orthant", [False, True])
def test_draws_of_several_coordinates_against_simulated_ones(orthant):
    cov, delta, df = random_covariance(8, 3), np.array([0.3, -0.2, 0.0]), 2.5
    mean = np.array([-0.2, 0.4, 0.3])
    lower, upper = (np.zeros(3), np.inf) if orthant else (-1.0, np.array([1.0, 2.0, np.inf]))
    rng = np.random.default_rng(0)
    normal = rng.multivariate_normal(delta, cov, 400_000)
    student = mean + normal / np.sqrt(rng.chisquare(df, 400_000) / df)[:, None]
    inside = student[((student >= lower) & (student <= upper)).all(axis=1)]
    if orthant:
        factor = np.linalg.cholesky(cov)
        draws = mvnorth.sample_orthant(mean, factor, 1500, df=df, delta=delta).draws
        fewer = mvnorth.sample_orthant(mean, factor, 3, df=df, delta=delta).draws
    else:
        draws = mvnorth.sample_box(lower, upper, mean, cov, 1500, df=df, delta=delta).draws
        fewer = mvnorth.sample_box(lower, upper, mean, cov, 3, df=df, delta=delta).draws
    assert ((draws >= lower) & (draws <= upper)).all()
    np.testing.assert_array_equal(fewer, draws[:3])
    for k in range(3):
        assert stats.ks_2samp(draws[:, k], inside[:, k]).pvalue > 1e-3


def test_draws_of_a_batch_differ_by_row_and_take_infinite_df():
    cov = random_covariance(8, 2)
    sample = mvnorth.sample_box(-1.0, 1.0, 0.0, cov, 4, df=[2.0, 2.0, np.inf])
    assert sample.draws.shape == (3, 4, 2)
    assert (np.abs(sample.draws) <= 1.0).all()
    assert not np.array_equal(sample.draws[0], sample.draws[1])
