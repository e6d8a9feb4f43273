"""Gauss-Markov chains: against closed forms, 40 digits, extended precision, and identities."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.stats import norm
from support.boxes import boxes, within
from support.chains import extended_logprob, factor, random_chain

import mvnorth
from mvnorth._cpu.markov import markov
from mvnorth._linalg.markov import chains, recognise
from mvnorth._linalg.structure import possible_structures
from mvnorth._methods.markov import solve
from validation.oracles import exact
from validation.oracles.one_dimension import markov_logprob
from validation.problems import problems

INF = np.inf
EPS = np.finfo(float).eps


def chain(lower, upper, rho, L=None):
    """A result of method="markov" for a triangular factor and any box."""
    L = factor(rho) if L is None else L
    found = solve(boxes(lower, upper, L, 8 * len(L) * EPS), within(0.0))
    return float(found.log_prob[0]), float(found.rel_error[0])


def sparre_andersen(n):
    """log Pr(S_1 > 0, ..., S_n > 0) of any walk with symmetric steps that has no ties."""
    with mpmath.workdps(40):
        return mpmath.log(mpmath.binomial(2 * n, n)) - n * mpmath.log(4)


def off(found, truth):
    return float(abs(mpf(found) - truth))


# Closed forms


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 1000])
def test_walks_that_stay_positive(n):
    L = np.tril(np.ones((n, n)))
    found = mvnorth.orthant(np.zeros(n), L, method="markov")
    error = off(found.log_prob, sparre_andersen(n))
    assert error <= found.rel_error < 1e-10
    assert error < 1e-12


def test_ten_thousand_steps():
    steps = np.arange(1.0, 10_000)
    rho, noise = np.sqrt(steps / (steps + 1)), 1 / np.sqrt(steps + 1)
    log_prob, rel_error = np.empty(1), np.empty(1)
    limits = np.zeros((1, 10_000)), np.full((1, 10_000), INF)
    results = log_prob, np.empty(1), rel_error, np.empty(1, dtype=np.int64)
    links = rho[None], noise[None], np.zeros(1)
    markov(*limits, *links, *results, np.empty((0, 5, 10_000)), 0, 1)
    assert off(log_prob[0], sparre_andersen(10_000)) < 1e-11
    assert rel_error[0] < 1e-11


@pytest.mark.parametrize("rho", [-0.999, -0.5, 0.0, 0.3, 0.99])
def test_orthants_of_two_and_three(rho):
    other = 0.7
    found, error = chain(0.0, INF, [rho])
    assert abs(math.exp(found) - (0.25 + math.asin(rho) / (2 * math.pi))) <= error + 1e-16
    found, error = chain(0.0, INF, [rho, other])
    angles = math.asin(rho) + math.asin(other) + math.asin(rho * other)
    assert abs(math.exp(found) - (0.125 + angles / (4 * math.pi))) <= error + 1e-16
    assert error < 1e-11


@pytest.mark.parametrize(
    ("upper", "rho"),
    [
        ((-20.0, -21.0), 0.6),
        ((-9.0, 8.0), -0.99),
        ((-300.0, 100.0), -0.9),
        ((-1e4, -1e4), 0.5),
        ((-1e6, -5e5), 0.999),
        ((-1e6, 2e6), -0.3),
        ((0.01, -0.01), 1 - 2e-7),
        ((-3.0, 3.0), -1 + 1e-5),
    ],
)
def test_two_far_out(upper, rho):
    truth = mpmath.log(exact.bivariate_prob(*upper, rho))
    found, error = chain(-INF, upper, [rho])
    assert off(found, truth) <= error
    assert off(found, truth) <= 1e-15 * abs(float(truth)) + 1e-12


@pytest.mark.parametrize(
    ("upper", "rho"),
    [
        ((-3.0, -2.0, -4.0), (0.5, 0.6)),
        ((1.0, -3.0, 2.0), (0.9, -0.4)),
    ],
)
def test_three(upper, rho):
    L = factor(rho)
    with mpmath.workdps(40):
        far = mpf(rho[0]) * mpf(rho[1])
        corr = [[1, mpf(rho[0]), far], [mpf(rho[0]), 1, mpf(rho[1])], [far, mpf(rho[1]), 1]]
        truth = mpmath.log(exact.trivariate_prob(upper, corr))
    found, error = chain(-INF, upper, rho, L)
    assert off(found, truth) <= error < 1e-12 * (1 + abs(found))


def transfer_40_digits(edges, rho):
    """The transfer operator in 40 digits, for one list of panel edges for all coordinates."""
    with mpmath.workdps(40):
        nodes, weights = [], []
        rule = mpmath.calculus.quadrature.GaussLegendre(mpmath.mp).calc_nodes(4, 140)
        for a, b in itertools.pairwise(edges):
            a, b = mpf(a), mpf(b)
            nodes += [(a + b) / 2 + (b - a) / 2 * x for x, _ in rule]
            weights += [(b - a) / 2 * w for _, w in rule]
        values = [mpmath.npdf(x) for x in nodes]
        for r in rho:
            noise = mpmath.sqrt((1 - mpf(r)) * (1 + mpf(r)))
            terms = [(r * x, v * w) for x, v, w in zip(nodes, values, weights, strict=True)]
            values = [
                mpmath.fsum(f * mpmath.npdf((y - mean) / noise) / noise for mean, f in terms)
                for y in nodes
            ]
        return mpmath.log(mpmath.fsum(v * w for v, w in zip(values, weights, strict=True)))


@pytest.mark.parametrize(
    ("edges", "upper", "rho"),
    [
        ((-1.0, 1.0), 1.0, (0.6, -0.5, 0.9, 0.3)),
        ((2.0, 2.01), 2.01, (0.6, 0.99, -0.3)),
        ((30.0, 31.5, 34.0, 40.0), INF, (0.6, 0.5, 0.7)),
        ((150.0, 150.4, 151.5), INF, (0.5, 0.4, 0.3)),
    ],
)
def test_forty_digits(edges, upper, rho):
    truth = transfer_40_digits(edges, rho)
    found, error = chain(edges[0], upper, rho)
    assert off(found, truth) <= error
    assert off(found, truth) <= 2e-15 * abs(float(truth)) + 1e-14


@pytest.mark.parametrize("level", [-1e6, -40.0, 0.0, 3.0])
def test_independent_coordinates(level):
    truth = 5 * exact.log_ndtr(level)
    found, error = chain(-INF, level, np.zeros(4))
    assert off(found, truth) <= error <= 1e-13 * (1 + abs(float(truth)))


# Other computations


def count_dishonest(seeds):
    """How many of random chains are off by more than they say, and the errors that they say."""
    outside, claimed = 0, []
    for seed in seeds:
        lower, upper, rho = random_chain(np.random.default_rng(seed))
        truth = extended_logprob(lower, upper, rho)
        found, error = chain(lower, upper, rho)
        own = 1e-17 * (10 + abs(float(truth)))  # of the reference
        outside += bool(abs(found - truth) > error + own)
        claimed.append(error / (1 + 1e-3 * abs(found)))
    return outside, np.array(claimed)


def test_errors_are_honest():
    outside, claimed = count_dishonest(range(100))
    assert outside <= 1
    assert claimed.max() < 1e-10


@pytest.mark.slow
def test_errors_are_honest_in_many_more():
    outside, claimed = count_dishonest(range(1000, 11_000))
    assert outside <= 10
    assert claimed.max() < 1e-9


@pytest.mark.parametrize("d", [30, 200])
@pytest.mark.parametrize("level", [-4.0, 0.5])
def test_against_a_plain_transfer_operator(d, level):
    rng = np.random.default_rng(d)
    rho = rng.uniform(-0.9, 0.95, d - 1)
    lower = level + 0.5 * rng.normal(size=d)
    upper = np.where(rng.random(d) < 0.3, lower + 2, INF)
    truth, own = markov_logprob(lower, upper, rho)
    found, error = chain(lower, upper, rho)
    assert abs(found - truth) <= error + own
    assert error < 1e-10


def test_table_of_problems():
    table = [p for p in problems("markov") if 3 < p.upper.size <= 200]
    assert len(table) >= 12
    for p in table:
        found = mvnorth.box(p.lower, p.upper, 0.0, p.cov)
        assert found.method == "markov", p.name
        assert abs(found.log_prob - p.log_prob) <= found.rel_error + p.log_error, p.name
        assert found.rel_error < 1e-7, p.name


# Identities


def test_neither_order_nor_signs_nor_units_matter():
    rng = np.random.default_rng(7)
    rho = rng.uniform(-0.95, 0.95, 11)
    lower = rng.normal(size=12) - 1
    upper = np.where(rng.random(12) < 0.5, lower + 3, INF)
    truth, own = chain(lower, upper, rho)
    cov = factor(rho) @ factor(rho).T
    signs, units = rng.choice([-1.0, 1.0], 12), 2.0 ** rng.integers(-300, 300, 12)
    cov = cov * np.outer(signs, signs)
    turned = np.sort(np.stack([lower * signs, upper * signs]), axis=0)
    for order in (np.arange(12), np.arange(12)[::-1], rng.permutation(12), rng.permutation(12)):
        L = units[order, None] * np.linalg.cholesky(cov[np.ix_(order, order)])
        limits = turned[:, order] * units[order]
        found, error = chain(*limits, None, L)
        assert abs(found - truth) <= error + own


def test_cutting_an_interval_in_two():
    rho = [0.8, -0.6, 0.95, 0.2, 0.7]
    lower = np.array([12.0, -INF, 9.0, -1.0, 3.0, -INF])
    upper = np.array([INF, 0.0, 9.5, INF, 4.0, 2.0])
    whole, error = chain(lower, upper, rho)
    for k, cut in enumerate((12.2, -5.0, 9.1, 0.5, 3.001, 1.9)):
        below, above = upper.copy(), lower.copy()
        below[k] = above[k] = cut
        parts = [chain(lower, below, rho)[0], chain(above, upper, rho)[0]]
        assert abs(np.logaddexp(*parts) - whole) <= 3 * error


def test_coordinates_without_limits_are_links():
    rng = np.random.default_rng(3)
    rho = rng.uniform(0.3, 0.99, 39)
    L = factor(rho)
    kept = np.sort(rng.permutation(40)[:15])
    lower = np.full(40, -INF)
    lower[kept] = rng.normal(size=15)
    inside, error = chain(lower, INF, rho)
    dropped, own = chain(lower[kept], INF, None, L[kept])  # 15 rows of 40 columns
    products = [np.prod(rho[a:b]) for a, b in itertools.pairwise(kept)]
    shorter, its = chain(lower[kept], INF, products)
    assert abs(inside - dropped) <= error + own < 1e-11
    assert abs(inside - shorter) <= error + its < 1e-11
    for order in (np.arange(40), rng.permutation(40)):
        api = mvnorth.box(lower[order], INF, 0.0, (L @ L.T)[np.ix_(order, order)])
        assert api.method == "markov"
        assert abs(api.log_prob - inside) <= api.rel_error + error


def test_independent_pieces_multiply():
    rng = np.random.default_rng(4)
    rho = rng.uniform(-0.9, 0.9, 19)
    rho[[4, 11]] = 0.0
    lower = rng.normal(size=20)
    whole, error = chain(lower, INF, rho)
    parts = [chain(lower[a:b], INF, rho[a : b - 1]) for a, b in ((0, 5), (5, 12), (12, 20))]
    assert abs(whole - sum(p[0] for p in parts)) <= error + sum(p[1] for p in parts) < 1e-11
    api = mvnorth.orthant(-lower, factor(rho), method="markov")
    assert abs(api.log_prob - whole) <= api.rel_error + error


def test_one_coordinate():
    for low, high in ((-INF, -2.0), (1.0, 1.5), (1e3, INF), (-0.1, 0.1)):
        found, error = chain(low, high, [])
        truth = (
            exact.log_ndtr(-low) if high == INF else mpmath.log(exact.ndtr(high) - exact.ndtr(low))
        )
        assert off(found, truth) <= error < 1e-8


def test_reference_of_a_tail_that_scipy_cannot_see():
    rho = np.full(99, 0.9)
    found, error = chain(10.0, INF, rho)
    mode = np.linalg.solve(factor(rho), np.full(100, 10.0))
    assert found < -0.5 * mode @ mode  # the density at the mode bounds it
    assert found > norm.logsf(10.0) + 99 * norm.logsf(10.0 * 0.1 / math.sqrt(0.19))  # Slepian-like
    assert error < 1e-10


# Recognition


@pytest.mark.parametrize("d", [2, 3, 8, 50])
@pytest.mark.parametrize("largest", [0.02, 0.6, 0.999])
def test_chains_are_recognised_in_any_order(d, largest):
    rng = np.random.default_rng(d)
    rho = rng.uniform(-largest, largest, d - 1)
    units = rng.lognormal(sigma=3, size=d)
    cov = units[:, None] * (factor(rho) @ factor(rho).T) * units
    for order in (np.arange(d), np.arange(d)[::-1], rng.permutation(d)):
        L = np.linalg.cholesky(cov[np.ix_(order, order)])
        place, corr, noise, deviation, error = (a[0] for a in recognise(L[None]))
        assert error < 1e-11
        np.testing.assert_allclose(deviation, units[order], rtol=1e-13)
        found = order[place]
        forwards = found[0] < found[-1]
        np.testing.assert_array_equal(found if forwards else found[::-1], np.arange(d))
        np.testing.assert_allclose(corr if forwards else corr[::-1], rho, atol=1e-13)
        exactly = np.sqrt((1 - rho) * (1 + rho))
        np.testing.assert_allclose(noise if forwards else noise[::-1], exactly, rtol=1e-11)


@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-12])
def test_noises_are_as_accurate_as_the_factor(gap):
    rho = np.array([1 - gap, 0.5, -1 + gap])
    noise = recognise(factor(rho)[None])[2][0]
    np.testing.assert_allclose(noise, np.sqrt((1 - rho) * (1 + rho)), rtol=1e-14)


def test_long_weak_chains_are_recognised():
    d = 400
    k = np.arange(d)
    cov = 0.1 ** np.abs(k[:, None] - k)
    order = np.random.default_rng(0).permutation(d)
    L = np.linalg.cholesky(cov[np.ix_(order, order)])
    assert recognise(L[None])[4][0] < 1e-12
    assert (np.abs(np.diff(order[recognise(L[None])[0][0]])) == 1).all()


@pytest.mark.parametrize("change", [1e-2, -1e-6, 1e-10])
@pytest.mark.parametrize("place", [(0, 2), (1, 4), (0, 4)])
def test_what_is_no_chain_is_not_recognised(change, place):
    cov = factor([0.5, 0.7, -0.3, 0.6]) @ factor([0.5, 0.7, -0.3, 0.6]).T
    cov[place] += change
    cov[place[::-1]] += change
    L = np.linalg.cholesky(cov)
    assert recognise(L[None])[4][0] == INF
    with pytest.raises(ValueError, match="method='markov' needs a covariance whose inverse"):
        mvnorth.orthant(np.ones(5), L, method="markov")
    assert mvnorth.orthant(np.ones(5), L, 1000).method == "gauss"


def search(L):
    """Which of the factors (B, d, d) the search finds to be chains, whatever the test before it."""
    size, d, _ = L.shape
    order, error = np.zeros((size, d), dtype=np.int64), np.empty(size)
    rho, noise, deviation = np.empty((size, d - 1)), np.empty((size, d - 1)), np.empty((size, d))
    chains(L, order, rho, noise, deviation, error, 0, size)
    return np.isfinite(error)


@pytest.mark.parametrize("d", [3, 4, 5, 8, 13, 30])
def test_no_chain_fails_the_first_test(d):
    rng = np.random.default_rng(d)
    size = 400
    gap = 10.0 ** rng.uniform(-12.0, 0.0, (size, d - 1))  # nearly singular links
    rho = rng.choice([-1.0, 1.0], (size, d - 1)) * np.sqrt(1.0 - gap)
    rho[:100] = rng.uniform(-1.0, 1.0, (100, 1))  # AR(1)
    rho[100:200] = np.sqrt(np.arange(1.0, d) / np.arange(2.0, d + 1.0))  # random walks
    rho[200:300] = rng.uniform(-1.0, 1.0, (100, d - 1))
    rho[rng.random(rho.shape) < 0.1] = 0.0  # independent pieces
    L = np.zeros((size, d, d))
    L[:, 0, 0] = 1.0
    for i in range(1, d):
        L[:, i] = rho[:, i - 1, None] * L[:, i - 1]
        L[:, i, i] = np.sqrt(1.0 - rho[:, i - 1] ** 2)
    L *= 10.0 ** rng.uniform(-3.0, 3.0, (size, d, 1))
    orders = np.argsort(rng.random((size, d)), axis=1)
    permuted = np.take_along_axis(L, orders[:, :, None], axis=1)
    upper = np.swapaxes(np.linalg.qr(np.swapaxes(permuted, 1, 2), mode="r"), 1, 2)
    permuted = np.ascontiguousarray(upper * np.sign(np.diagonal(upper, axis1=1, axis2=2))[:, None])
    for factors in (L, permuted):
        found = search(factors)
        assert np.mean(found) > 0.7
        assert may_be_chain(factors)[found].all()


def may_be_chain(factors):
    one_factor, found = np.empty((2, len(factors)), dtype=bool)
    possible_structures(factors, one_factor, found)
    return found


def test_generic_covariances_fail_the_first_test():
    rng = np.random.default_rng(0)
    for d in (3, 5, 20):
        A = rng.standard_normal((200, d, 2 * d))
        L = np.linalg.cholesky(A @ np.swapaxes(A, 1, 2))
        assert np.mean(may_be_chain(L)) < 0.01


def test_trees_and_rings_are_no_chains():
    star = np.eye(4)
    star[0, 1:] = star[1:, 0] = -0.4
    ring = np.eye(5) + np.roll(np.eye(5), 1, axis=0) * -0.3 + np.roll(np.eye(5), 1, axis=1) * -0.3
    for inverse in (star, ring):
        for order in (slice(None), slice(None, None, -1)):
            L = np.linalg.cholesky(np.linalg.inv(inverse)[order, order])
            assert recognise(L[None])[4][0] == INF


def test_rows_of_what_is_no_chain():
    A = np.random.default_rng(6).normal(size=(12, 12))
    L = np.linalg.cholesky(A @ A.T)
    assert recognise(L[None, [0, 2, 3, 6, 7]])[4][0] == INF
    assert recognise(L[None, 1:])[4][0] == INF
    chained = factor(np.full(11, 0.5))
    chained[9:] = L[9:]  # which the first eight rows do not tell
    assert recognise(chained[None, [2, 1, 5, 4, 3, 8, 7, 6, 9, 10, 11]])[4][0] == INF


def test_small_misfits_are_counted():
    rho = np.full(7, 0.7)
    truth, _ = chain(1.0, INF, rho)
    L = factor(rho)
    rng = np.random.default_rng(2)
    L += 2e-15 * np.tril(rng.normal(size=L.shape), -2)
    found, error = chain(1.0, INF, None, L)
    assert abs(found - truth) <= error
    assert 1e-14 < error < 1e-11


def test_singular_factors_are_left_to_others():
    L = factor([0.5, 0.5, 0.5])
    L[2, 2] = 0.0
    assert recognise(L[None])[4][0] == INF
    assert chain(0.0, INF, [0.5, 1 - 1e-15, 0.5])[1] == INF  # more nodes than there may be
    found = mvnorth.orthant(np.zeros(4), factor([0.5, 1 - 1e-15, 0.5]))
    truth = chain(0.0, INF, [0.5, 0.5])[0]
    assert abs(found.log_prob - truth) <= found.rel_error + 1e-6


def test_one_factor_of_two_is_a_chain():
    cov = mvnorth.OneFactor([1.0, 2.0], [1.0, -0.5])
    by_chain = mvnorth.box(0.3, 2.0, 0.0, cov, method="markov")
    by_factor = mvnorth.box(0.3, 2.0, 0.0, cov)
    assert by_chain.method == "markov"
    assert by_chain.log_prob == pytest.approx(by_factor.log_prob, abs=1e-13)
    with pytest.raises(ValueError, match="method='markov' needs a covariance whose inverse"):
        mvnorth.orthant(np.zeros(3), mvnorth.OneFactor(np.ones(3), 1.0), method="markov")


def test_rows_do_not_depend_on_their_batch():
    rng = np.random.default_rng(9)
    rho = rng.uniform(-0.9, 0.9, (6, 5))
    L = np.stack([factor(r) for r in rho])
    L[3, 5, 1] += 0.1  # no chain
    m = rng.normal(size=(6, 6))
    together = mvnorth.orthant(m, L, 500)
    assert together.method.tolist() == ["markov"] * 3 + ["gauss"] + ["markov"] * 2
    for k in range(6):
        alone = mvnorth.orthant(m[k], L[k], 500)
        assert alone.log_prob == together.log_prob[k]
        assert alone.rel_error == together.rel_error[k]
    shared = mvnorth.orthant(m, L[0], method="markov")
    assert shared.log_prob[0] == together.log_prob[0]
