"""Gauss rules of the normal distribution below a limit, and integration by them."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy.special import ndtr

import mvnorth
from mvnorth._cpu import gauss
from mvnorth._methods.gauss import _tables
from mvnorth._precompute.gauss import FAR_PIECES, RULES, TABLE, fit, pieces, rules
from validation.oracles import common_factors


@njit
def _rule(table, first, n, b, values):
    return gauss.rule_below(table, first, n, b, values)


def rule(n, b):
    """Return nodes and weights as kernels see them."""
    table, starts, _ = _tables()
    values = np.empty(2 * RULES)
    high, scale = _rule(table, starts[n], n, b, values)
    return high - scale * values[:n], values[n : 2 * n]


def random_correlation(rng, d, more):
    a = rng.normal(size=(d, d + more))
    cov = a @ a.T
    deviation = np.sqrt(np.diag(cov))
    return cov / np.outer(deviation, deviation)


def nested_legendre(upper, cov, nodes):
    """Return Pr(X <= upper) by Gauss and Legendre's rule in each variable but the last one."""
    factor, d = np.linalg.cholesky(cov), len(upper)
    x, w = np.polynomial.legendre.leggauss(nodes)
    y, weight = np.zeros((1, 0)), np.ones(1)
    for i in range(d):
        limit = (upper[i] - y @ factor[i, :i]) / factor[i, i]
        if i == d - 1:
            return weight @ ndtr(limit)
        high = np.clip(limit, -9.0, 9.0)
        half = 0.5 * (high + 9.5)
        node = half[:, None] * (1.0 + x) - 9.5
        density = np.exp(-0.5 * node**2) / np.sqrt(2.0 * np.pi)
        weight = (weight[:, None] * half[:, None] * w * density).reshape(-1)
        y = np.column_stack([np.repeat(y, nodes, axis=0), node.reshape(-1)])
    raise AssertionError


class TestRules:
    @pytest.mark.parametrize("b", [-1e4, -40.3, -6.01, -5.99, -1.2, 0.3, 2.24, 4.4, 6.3, 8.98])
    def test_agree_with_40_digits(self, b):
        for n, pairs in enumerate(rules(mp.mpf(b)), start=1):
            y, weight = rule(n, b)
            distance = np.array([float(distance) for distance, _ in pairs])
            # The nodes of large rules far out, which have tiny weights, are known to fewer digits.
            np.testing.assert_allclose(b - y, distance, rtol=2e-12, atol=1e-14 * (1.0 + abs(b)))
            np.testing.assert_allclose(weight, [float(w) for _, w in pairs], rtol=0.0, atol=2e-14)

    @pytest.mark.parametrize("n", [1, 2, 3, 4])
    def test_without_a_limit_are_those_of_hermite(self, n):
        y, weight = rule(n, 50.0)
        nodes, weights = np.polynomial.hermite_e.hermegauss(n)
        np.testing.assert_allclose(y, nodes, atol=1e-13)
        np.testing.assert_allclose(weight, weights / np.sqrt(2.0 * np.pi), atol=1e-13)

    @pytest.mark.parametrize("n", [8, RULES])
    def test_a_limit_that_does_not_matter(self, n):
        y, weight = rule(n, 50.0)
        assert abs(weight @ ndtr(0.4 * y + 0.7) - ndtr(0.7 / np.hypot(1.0, 0.4))) < 1e-9

    @pytest.mark.parametrize("n", range(1, RULES + 1))
    def test_far_out_are_those_of_laguerre(self, n):
        y, weight = rule(n, -1e5)
        nodes, weights = np.polynomial.laguerre.laggauss(n)
        np.testing.assert_allclose((-1e5 - y) * 1e5, nodes[::-1], rtol=1e-4)  # y is rounded
        np.testing.assert_allclose(weight, weights[::-1], atol=1e-12)

    def test_table_is_the_one_that_is_generated(self):
        table = np.load(TABLE)
        for piece in (0, FAR_PIECES + 17):
            np.testing.assert_allclose(fit(pieces()[piece]), table[piece], rtol=1e-15, atol=1e-25)


class TestProbabilities:
    @pytest.mark.parametrize("seed", range(6))
    def test_agree_with_legendre(self, seed):
        rng = np.random.default_rng(seed)
        d = 4 + seed % 2
        cov, upper = random_correlation(rng, d, 4 + seed), 0.7 * rng.normal(size=d) + 0.5
        truth = nested_legendre(upper, cov, 44 if d == 4 else 26)
        got = mvnorth.orthant(upper, np.linalg.cholesky(cov), rtol=1e-8)
        assert got.method == "gauss"
        assert got.rel_error <= 1e-8
        assert abs(got.prob / truth - 1.0) <= got.rel_error + 1e-9

    @pytest.mark.parametrize("seed", [1, 8, 10, 11])
    def test_strong_correlations_take_large_rules(self, seed):
        """Twelve nodes a variable are not enough, which would be 6084 points in all."""
        rng = np.random.default_rng(seed)
        loading = rng.normal(size=(4, 2))
        loading *= np.sqrt(0.94) / np.linalg.norm(loading, axis=1)[:, None]
        cov = 0.06 * np.eye(4) + loading @ loading.T
        upper = 0.5 * rng.normal(size=4)
        got = mvnorth.box(-np.inf, upper, 0.0, cov, rtol=1e-8)
        assert got.method == "gauss"
        assert got.n > 6084
        assert got.rel_error <= 1e-8
        order = np.argsort(upper)  # the order does not matter to the rule that judges
        truth = nested_legendre(upper[order], cov[np.ix_(order, order)], 90)
        assert abs(got.prob / truth - 1.0) <= got.rel_error + 1e-12

    @pytest.mark.parametrize("d", range(4, 13))
    def test_equal_correlations_of_one_half(self, d):
        factor = np.linalg.cholesky(np.eye(d) + 1.0)
        got = mvnorth.orthant(np.zeros(d), factor, rtol=1e-5, method="gauss")
        assert abs(got.prob * (d + 1) - 1.0) <= got.rel_error

    @pytest.mark.parametrize("d", [4, 5, 6])
    def test_all_orthants_together_are_everything(self, d):
        rng = np.random.default_rng(d)
        cov, mean = random_correlation(rng, d, 3), rng.normal(size=d)
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
        covs = cov * signs[:, :, None] * signs[:, None, :]
        got = mvnorth.orthant(signs * mean, np.linalg.cholesky(covs), rtol=1e-7, method="gauss")
        assert abs(got.prob.sum() - 1.0) <= (got.prob * got.rel_error).sum()

    @pytest.mark.parametrize("width", [0.3, 2.0, 6.0, 14.0])
    def test_parts_of_a_box_add_up(self, width):
        rng = np.random.default_rng(3)
        cov, middle = random_correlation(rng, 5, 6), 0.3 * rng.normal(size=5)
        low, high, cut = middle - 0.4 * width, middle + 0.6 * width, middle[2] + 0.1 * width
        lower, upper = np.stack([low] * 3), np.stack([high] * 3)
        upper[1, 2] = lower[2, 2] = cut
        got = mvnorth.box(lower, upper, 0.0, cov, rtol=1e-6, method="gauss")
        whole, left, right = got.prob
        assert abs(left + right - whole) <= (got.prob * got.rel_error).sum()
        assert (got.rel_error < 1e-4).all()

    @pytest.mark.parametrize("d", [8, 10, 20])
    def test_tails_need_few_points(self, d):
        rng = np.random.default_rng(d)
        cov = random_correlation(rng, d, 3 * d)
        upper = 0.5 * rng.normal(size=d) - 2.5
        got = mvnorth.orthant(upper, np.linalg.cholesky(cov), rtol=1e-3)
        sampled = mvnorth.orthant(upper, np.linalg.cholesky(cov), 2**16, method="tilting")
        assert got.method == "gauss"
        assert got.n < 20_000
        assert abs(got.log_prob - sampled.log_prob) <= got.rel_error + sampled.rel_error

    @pytest.mark.parametrize(("d", "rtol"), [(9, 1e-5), (10, 1e-4)])
    def test_products_of_more_coordinates(self, d, rtol):
        rng = np.random.default_rng(d)
        c, b = rng.uniform(0.3, 0.7, d), rng.normal(0.8, 0.5, d)
        V, cov = common_factors.random_factors(rng, c, 2)
        got = mvnorth.box(-np.inf, b, 0.0, cov, rtol=rtol, method="gauss")
        truth = common_factors.log_prob(b, c, V)
        assert got.rel_error <= rtol
        assert abs(np.expm1(got.log_prob - truth)) <= got.rel_error

    def test_a_change_that_is_small_by_accident(self):
        # A third node of the third variable alone changes the result by 2e-6, but is worth 1e-4.
        rng = np.random.default_rng(202)
        for d in (9, 10, 9):
            c = np.exp(rng.uniform(np.log(0.02), np.log(0.8), d))
            V, cov = common_factors.random_factors(rng, c, 2)
            b = rng.normal(rng.choice([1.0, -0.5, -3.0]), 0.7, d)
        got = mvnorth.box(-np.inf, b, 0.0, cov, rtol=1e-4, method="gauss")
        assert abs(np.expm1(got.log_prob - common_factors.log_prob(b, c, V))) <= got.rel_error

    def test_lower_limits_are_mirrored(self):
        rng = np.random.default_rng(0)
        cov, limit = random_correlation(rng, 5, 6), rng.normal(size=5)
        above = mvnorth.box(limit, np.inf, 0.0, cov, method="gauss", rtol=1e-8)
        below = mvnorth.box(-np.inf, -limit, 0.0, cov, method="gauss", rtol=1e-8)
        np.testing.assert_allclose(above.prob, below.prob, rtol=1e-12)


class TestWhereItStops:
    def test_number_of_points(self):
        factor = np.linalg.cholesky(random_correlation(np.random.default_rng(1), 6, 6))
        results = [
            mvnorth.orthant(np.zeros(6), factor, n, method="gauss") for n in (50, 2000, 50000)
        ]
        for n, got in zip((50, 2000, 50000), results, strict=True):
            assert got.n <= n
        assert results[1].rel_error < results[0].rel_error
        assert results[2].rel_error < 1e-3 * results[1].rel_error

    def test_more_accuracy_takes_more_points(self):
        factor = np.linalg.cholesky(random_correlation(np.random.default_rng(1), 5, 6))
        results = [mvnorth.orthant(np.zeros(5), factor, rtol=10.0**-k) for k in (3, 6, 9)]
        assert results[0].n < results[1].n < results[2].n
        for k, got in zip((3, 6, 9), results, strict=True):
            assert got.rel_error <= 10.0**-k

    def test_singular_covariances_are_left_to_others(self):
        rng = np.random.default_rng(2)
        factor = rng.normal(size=(5, 3))
        cov = factor @ factor.T
        assert mvnorth.box(-1.0, 1.0, 0.0, cov, method="gauss").rel_error == np.inf
        assert mvnorth.box(-1.0, 1.0, 0.0, cov).method == "tilting"

    def test_slow_convergence_is_left_to_others(self):
        place = np.random.default_rng(3).uniform(size=7)
        cov = np.exp(-((place[:, None] - place) ** 2)) + 1e-4 * np.eye(7)
        got = mvnorth.orthant(np.zeros(7), np.linalg.cholesky(cov))
        assert got.rel_error <= 1e-4
        assert got.method == "tilting"

    def test_too_many_coordinates(self):
        factor = np.linalg.cholesky(random_correlation(np.random.default_rng(1), 51, 60))
        with pytest.raises(ValueError, match="needs blocks of at most 50"):
            mvnorth.orthant(np.zeros(51), factor, method="gauss")


class TestDerivatives:
    @pytest.mark.parametrize("d", [4, 5])
    def test_agree_with_differences(self, d):
        rng = np.random.default_rng(d)
        cov, m = random_correlation(rng, d, 5), 0.5 * rng.normal(size=d)
        got = mvnorth.orthant_grad(
            m, np.linalg.cholesky(cov), rtol=1e-9, wrt=("m", "cov"), log=True
        )
        step = 1e-3

        def log_prob(mean, covariance):
            factor = np.linalg.cholesky(covariance)
            return mvnorth.orthant(mean, factor, rtol=1e-11, method="gauss").log_prob

        for i in range(d):
            move = step * np.eye(d)[i]
            slopes = [
                (log_prob(m + k * move, cov) - log_prob(m - k * move, cov)) / (2.0 * k * step)
                for k in (1, 2)
            ]
            difference = (4.0 * slopes[0] - slopes[1]) / 3.0
            assert abs(got.grad_m[i] - difference) <= got.grad_m_error[i] + 1e-7
        move = np.zeros((d, d))
        move[0, 1] = move[1, 0] = step
        difference = (log_prob(m, cov + move) - log_prob(m, cov - move)) / (2.0 * step)
        assert abs(2.0 * got.grad_cov[0, 1] - difference) <= got.grad_cov_error[0, 1] + 1e-5
        assert np.max(got.grad_m_error) < 1e-6

    @pytest.mark.parametrize("level", [-4.0, 0.3, 3.0])
    @pytest.mark.parametrize("d", [4, 6, 9, 15])
    def test_agree_with_those_of_one_factor(self, d, level):
        """In tails, at ordinary probabilities, and near 1 where differences of moments vanish."""
        rng = np.random.default_rng(d)
        c, v, m = rng.uniform(0.5, 1.5, d), 0.6 * rng.normal(size=d), level + rng.normal(size=d)
        cov = mvnorth.OneFactor(c, v)
        truth = mvnorth.orthant_grad(m, cov, log=True, wrt=("m", "c", "v"))
        options = {"log": True, "method": "gauss", "rtol": 1e-5}
        got = mvnorth.orthant_grad(m, np.linalg.cholesky(cov.dense()), wrt=("m", "cov"), **options)
        gap = np.abs(got.grad_m - truth.grad_m)
        assert (gap <= got.grad_m_error + truth.grad_m_error).all()
        assert got.grad_m_error.max() <= 1e-2 * np.abs(truth.grad_m).max()
        by_cov = np.diag(got.grad_cov), 2.0 * got.grad_cov @ v
        bound = np.diag(got.grad_cov_error), 2.0 * got.grad_cov_error @ np.abs(v)
        for ours, error, name in zip(by_cov, bound, ("c", "v"), strict=True):
            exact, known = (getattr(truth, f"grad_{name}{end}") for end in ("", "_error"))
            assert (np.abs(ours - exact) <= error + known).all()
            assert error.max() <= 0.1 * np.abs(exact).max()

    @pytest.mark.parametrize("width", [0.01, 1.0, 5.0, 9.0])
    def test_of_boxes_agree_with_conditional_ones(self, width):
        rng = np.random.default_rng(2)
        d = 5
        cov = random_correlation(rng, d, 5) * np.outer(*[np.linspace(0.5, 2.0, d)] * 2)
        lower = rng.normal(size=d) - 0.4 * width
        upper = lower + width * rng.uniform(0.5, 1.5, d)
        lower[1], upper[3] = -np.inf, np.inf
        options = {"log": True, "wrt": ("lower", "upper", "mean", "cov")}
        got = mvnorth.box_grad(lower, upper, 0.2, cov, rtol=1e-6, method="gauss", **options)
        truth = mvnorth.box_grad(lower, upper, 0.2, cov, rtol=1e-9, method="conditional", **options)
        for name in options["wrt"]:
            ours, error = (getattr(got, f"grad_{name}{end}") for end in ("", "_error"))
            exact, known = (getattr(truth, f"grad_{name}{end}") for end in ("", "_error"))
            assert (np.abs(ours - exact) <= error + known).all()
            assert error.max() <= 50.0 * max(1e-6, got.rel_error) * np.abs(exact).max()

    def test_rows_that_miss_the_tolerance_have_some(self):
        """With few points none may be met, and the best estimate must not come without them."""
        rng = np.random.default_rng(8)
        cov = np.stack([random_correlation(rng, 5, 2) for _ in range(20)])
        m = 0.5 * rng.normal(size=(20, 5))
        got = mvnorth.orthant_grad(m, np.linalg.cholesky(cov), 300, log=True)
        assert {"gauss", "tilting"} >= set(got.method) >= {"gauss"}
        by_gauss = got.method == "gauss"
        assert (got.rel_error[by_gauss] > 1e-3).any()
        assert np.isfinite(got.grad_m_error[by_gauss]).all()
        better = mvnorth.orthant_grad(m, np.linalg.cholesky(cov), rtol=1e-5, log=True)
        gap = np.abs(got.grad_m - better.grad_m)
        assert np.mean(gap <= got.grad_m_error + better.grad_m_error) >= 0.98


def test_few_points_leave_no_variable_unmeasured():
    """With too few points to measure variables one by one, large rules must not agree by chance."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(60):
        cov = random_correlation(rng, 6, 4)
        lower = rng.normal(size=6) - 1.5
        upper = lower + rng.uniform(0.5, 4.0, 6)
        options = {"lower_limit": lower, "maxpts": 40_000, "releps": 1e-6, "abseps": 0.0}
        got = mvnorth.cdf_grad(upper, np.zeros(6), cov, **options, method="gauss")
        truth = mvnorth.box(lower, upper, 0.0, cov, rtol=1e-8)
        gap = abs(np.expm1(got.log_prob - truth.log_prob))
        worst = max(worst, gap / (got.rel_error + truth.rel_error))
    assert worst <= 3.0
