"""Several common factors, against sums in 30 digits, products of Gauss rules, and one factor."""

from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr
from support.boxes import fixed_points, within

import mvnorth
from mvnorth import Factors, OneFactor, _threads
from mvnorth._covariance.factors import FactorsRows
from mvnorth._methods import factors as method
from mvnorth._problem import Problems, Tolerance
from mvnorth._solve import solve
from validation.oracles.one_dimension import two_factor_logprob


def random_problem(seed, d, k, loading=0.7):
    rng = np.random.default_rng(seed)
    V = loading * rng.normal(size=(d, k))
    return rng.normal(size=d) + 0.5, rng.uniform(0.3, 1.0, d), V


@cache
def in_thirty_digits(seed, d, shift):
    """log P of two factors, and its derivatives in m, c and V, by the trapezoidal rule.

    The step of 1/4 leaves an error of exp(-(8 pi)**2 / 2) for a normal density.
    """
    m, c, V = random_problem(seed, d, 2)
    m = m + shift
    with mpmath.workdps(30):
        mpf = np.vectorize(mpmath.mpf, otypes=[object])
        root = np.array([mpmath.sqrt(x) for x in mpf(c)])
        total, first, in_c, in_V = mpmath.mpf(0), mpf(np.zeros(d)), mpf(np.zeros(d)), mpf(V * 0.0)
        step = mpmath.mpf(1) / 4
        for z in product(range(-36, 37), repeat=2):
            z = np.array([step * x for x in z])
            x = (mpf(m) + mpf(V) @ z) / root
            prob = np.array([mpmath.ncdf(y) for y in x])
            h = np.array([mpmath.npdf(y) for y in x]) / prob
            weight = mpmath.exp(-(z @ z) / 2) * mpmath.fprod(prob)
            total += weight
            first += weight * h / root
            in_c -= weight * h * x / (2 * mpf(c))
            in_V += weight * np.outer(h / root, z)
        log_prob = mpmath.log(total * step**2 / (2 * mpmath.pi))
        as_floats = [np.asarray(a / total, dtype=float) for a in (first, in_c, in_V)]
        return float(log_prob), *as_floats


@pytest.mark.parametrize("shift", [0.0, -3.0])
def test_two_factors_and_derivatives_in_thirty_digits(shift):
    m, c, V = random_problem(1, 4, 2)
    truth, in_m, in_c, in_V = in_thirty_digits(1, 4, shift)
    got = mvnorth.orthant_grad(m + shift, Factors(c, V), wrt=("m", "c", "V"), rtol=1e-13, log=True)
    assert got.method == "factors"
    assert abs(got.log_prob - truth) <= 1e-12
    for name, expected in (("m", in_m), ("c", in_c), ("V", in_V)):
        value, error = getattr(got, f"grad_{name}"), getattr(got, f"grad_{name}_error")
        np.testing.assert_allclose(value, expected, atol=1e-11 * np.abs(expected).max())
        assert (np.abs(value - expected) <= error).all()


def by_gauss_hermite(m, c, V, nodes):
    """log P by a product of Gauss-Hermite rules."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    k = V.shape[1]
    points = np.stack(np.meshgrid(*[z] * k, indexing="ij"), axis=-1).reshape(-1, k)
    weights = np.prod(np.stack(np.meshgrid(*[w] * k, indexing="ij"), axis=-1), axis=-1).reshape(-1)
    logs = np.zeros(len(points))
    for i in range(len(m)):
        logs += log_ndtr((m[i] + points @ V[i]) / np.sqrt(c[i]))
    return float(np.log(np.sum(weights * np.exp(logs))) - 0.5 * k * np.log(2.0 * np.pi))


@pytest.mark.parametrize(
    ("k", "d", "nodes", "accuracy"), [(2, 30, 150, 1e-12), (3, 6, 70, 1e-12), (4, 6, 34, 1e-9)]
)
def test_products_of_gauss_rules(k, d, nodes, accuracy):
    m, c, V = random_problem(k, d, k, loading=0.35)
    truth = by_gauss_hermite(m, c, V, nodes)
    assert abs(by_gauss_hermite(m, c, V, nodes - 6) - truth) < 0.1 * accuracy
    got = mvnorth.orthant(m, Factors(c, V), rtol=0.1 * accuracy)
    assert got.method == "factors"
    assert abs(got.log_prob - truth) <= accuracy
    assert got.rel_error <= accuracy


REGIMES = {
    "ordinary": (30, 2.0, 0.7, 1.0),
    "equal limits at zero": (500, 0.0, 0.5, 0.0),
    "far out": (20, -30.0, 0.7, 1.0),
    "log P = -1e5": (20, -110.0, 0.4, 1.0),
    "a wall": (8, 1.0, 30.0, 1.0),
    "almost certain": (10, 9.0, 0.7, 0.1),
    "many coordinates": (20_000, 4.5, 0.5, 0.1),
}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("regime", REGIMES)
def test_parallel_loadings_are_one_factor(regime, k):
    d, mean, loading, spread = REGIMES[regime]
    if k == 3 and d > 1000:
        pytest.skip("takes long")
    rng = np.random.default_rng(d)
    m = mean + spread * rng.normal(size=d)
    c, v = rng.uniform(0.5, 1.0, d), loading * (1.0 + 0.2 * rng.normal(size=d))
    exact = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=("m", "c", "v"), log=True)
    direction = np.array([0.6, -0.8, 0.0])[:k] if k == 2 else np.array([2.0, -1.0, 2.0]) / 3.0
    rtol = 1e-12 if k == 2 else 1e-9
    cov = Factors(c, v[:, None] * direction)
    got = mvnorth.orthant_grad(m, cov, wrt=("m", "c", "V"), rtol=rtol, log=True)
    assert got.method == "factors"
    size = 1.0 + abs(exact.log_prob)
    assert abs(got.log_prob - exact.log_prob) <= 2.0 * rtol * size
    assert abs(got.log_prob - exact.log_prob) <= got.rel_error + exact.rel_error
    for name, expected in (
        ("m", exact.grad_m),
        ("c", exact.grad_c),
        ("V", exact.grad_v[:, None] * direction),
    ):
        value, error = getattr(got, f"grad_{name}"), getattr(got, f"grad_{name}_error")
        bound = error + 1e-12 * size * np.abs(expected).max()
        assert (np.abs(value - expected) <= bound).all(), name


@pytest.mark.parametrize("limits", ["upper", "lower", "mixed", "two", "narrow"])
def test_boxes(limits):
    m, c, V = random_problem(3, 7, 2)
    lower, upper = m - 1.5, m + 1.0
    if limits == "upper":
        lower[:] = -np.inf
    elif limits == "lower":
        upper[:] = np.inf
    elif limits == "mixed":
        lower[:3], upper[3:6] = -np.inf, np.inf
    elif limits == "narrow":
        upper = lower + np.geomspace(1e-7, 1.0, 7)
    truth, error = two_factor_logprob(lower, upper, c, V)
    rtol = 1e-6 if limits == "narrow" else 1e-12  # limits less the mean are rounded
    got = mvnorth.box(lower, upper, 0.0, Factors(c, V), rtol=rtol)
    assert got.method == "factors"
    assert abs(got.log_prob - truth) <= got.rel_error + error
    assert got.rel_error < 10.0 * rtol


def test_errors_are_honest():
    """Tight tolerances judge loose ones, over problems of many kinds."""
    rng = np.random.default_rng(5)
    wrong = wrong_entries = count = entries = 0
    for _ in range(120):
        k, d = int(rng.choice([2, 2, 3])), int(rng.choice([2, 4, 8, 25]))
        V = rng.normal(size=(d, k)) * np.exp(0.7 * rng.normal(size=(1, k)))
        c = np.exp(rng.normal(size=d)) * 10.0 ** -rng.choice([0.0, 0.0, 1.0, 2.0])
        deviation = np.sqrt(c + np.sum(V * V, axis=1))
        m = deviation * (rng.normal(size=d) + rng.choice([-5.0, -1.0, 0.0, 2.0, 4.0]))
        problem = (m[None], np.empty((0, d)), c[None], V[None])
        best = method.make_results(problem[0], 0, k, False)
        truth, known, _ = method.run(*problem, Tolerance(1e-11, 0.0), 2**18, best)
        if known[0] > 1e-9 * (1.0 + abs(truth[0])):
            continue
        for rtol in (1e-2, 1e-4, 1e-6):
            grad = method.make_results(problem[0], 0, k, False)
            log_prob, error, _ = method.run(*problem, Tolerance(rtol, 0.0), 2**18, grad)
            wrong += abs(np.expm1(log_prob[0] - truth[0])) > error[0] + known[0]
            count += 1
            for j in (0, 2, 3):
                outside = np.abs(grad[j] - best[j]) > grad[5][0, j] + best[5][0, j]
                wrong_entries, entries = wrong_entries + outside.sum(), entries + outside.size
    assert count > 250
    assert wrong <= 0.01 * count
    assert wrong_entries <= 0.01 * entries


def test_walls_beyond_the_points_allowed_are_left_to_others():
    m, c, V = random_problem(2, 6, 3)
    rows = FactorsRows(1e-12 * c[None], V[None])
    problems = Problems(np.full((1, 6), -np.inf), m[None], rows, np.zeros(1), sides=0)
    alone = method.solve(problems, within(1e-6))
    assert alone.rel_error[0] > 1e-6
    estimate, names = solve(problems, within(1e-3), "auto")
    assert names[0] != "factors"
    assert estimate.rel_error[0] <= 1e-3


def test_matrices_that_do_not_fit_are_not_made():
    d = 50_000
    rows = FactorsRows(np.ones((1, d)), np.ones((1, d, 6)))
    problems = Problems(np.full((1, d), -np.inf), np.zeros((1, d)), rows, np.zeros(1), sides=0)
    for wrt in ((), ("upper", "V")):
        estimate, _ = solve(problems, within(1e-3, wrt=wrt), "auto")
        assert np.isinf(estimate.rel_error[0])


def test_single_precision():
    m, c, V = random_problem(4, 12, 2)
    exact = mvnorth.orthant_grad(m, Factors(c, V), wrt=("m", "V"), rtol=1e-12, log=True)
    got = mvnorth.orthant_grad(m.astype(np.float32), Factors(c, V), wrt=("m", "V"), log=True)
    assert got.grad_V.dtype == np.float32
    assert abs(got.log_prob - exact.log_prob) <= got.rel_error
    assert (np.abs(got.grad_V - exact.grad_V) <= got.grad_V_error).all()


def test_number_of_points_is_kept():
    m, c, V = random_problem(4, 12, 2)
    rows = FactorsRows(c[None], V[None])
    problems = Problems(np.full((1, 12), -np.inf), m[None], rows, np.zeros(1), sides=0)
    errors = []
    for n in (200, 500, 2000):
        estimate = method.solve(problems, fixed_points(n))
        assert 0 < estimate.n[0] <= n
        errors.append(estimate.rel_error[0])
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-10


def test_rows_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    m, V = rng.normal(size=(40, 6)), rng.normal(size=(40, 6, 3))
    results = []
    before = _threads._threads, _threads._pool
    try:
        for threads in (1, 3):
            _threads._threads, _threads._pool = threads, None
            results.append(mvnorth.orthant_grad(m, Factors(1.0, V), wrt=("m", "V")))
    finally:
        _threads._threads, _threads._pool = before
    one, three = results
    np.testing.assert_array_equal(one.log_prob, three.log_prob)
    np.testing.assert_array_equal(one.grad_V, three.grad_V)
    alone = mvnorth.orthant_grad(m[7], Factors(1.0, V[7]), wrt=("m", "V"))
    np.testing.assert_array_equal(alone.grad_V, one.grad_V[7])


def test_many_factors_in_blocks_are_exact():
    V = np.zeros((40, 8))
    V[np.arange(40), np.arange(40) // 5] = np.linspace(0.3, 1.5, 40)
    m = np.linspace(-0.5, 2.0, 40)
    got = mvnorth.orthant_grad(m, Factors(0.7, V), wrt=("m", "c", "V"), log=True)
    assert got.method == "quadrature"
    parts = []
    for b in range(0, 40, 5):
        cov = OneFactor(0.7, V[b : b + 5, b // 5])
        parts.append(mvnorth.orthant_grad(m[b : b + 5], cov, wrt=("m", "v"), log=True))
    assert abs(got.log_prob - sum(part.log_prob for part in parts)) < 1e-12
    np.testing.assert_allclose(got.grad_V[:5, 0], parts[0].grad_v, rtol=1e-9, atol=1e-12)
    # Of two coordinates in different blocks: half the product of the derivatives in the means.
    across = parts[0].grad_m[2] * (parts[1].grad_m @ V[5:10, 1])
    np.testing.assert_allclose(got.grad_V[2, 1], across, rtol=1e-9)


def test_more_than_four_factors_are_sampled():
    rng = np.random.default_rng(0)
    m, V = rng.normal(size=30) + 1.0, rng.normal(size=(30, 6))
    cov = Factors(1.0, V)
    assert mvnorth.explain(m, cov).steps[0].methods[-1] == "tilting"
    assert "factors" not in mvnorth.explain(m, cov).steps[0].methods
    assert "6 common factors are not used" in mvnorth.explain(m, cov).steps[0].reason
    got = mvnorth.orthant(m, cov, rtol=1e-2)
    dense = mvnorth.orthant(m, np.linalg.cholesky(cov.dense()), rtol=1e-2)
    assert abs(np.expm1(got.log_prob - dense.log_prob)) <= got.rel_error + dense.rel_error
    with pytest.raises(ValueError, match="two to four columns"):
        mvnorth.orthant(m, cov, method="factors")


def test_few_points_are_honest():
    """A lattice without one to compare it with says nothing, and a coarse one little."""
    rng = np.random.default_rng(3)
    outside = claims = 0
    for n in (5, 20, 40, 80, 160):
        for _ in range(20):
            m, V = rng.normal(size=6) + 0.5, rng.normal(size=(6, 2))
            c = 10.0 ** rng.uniform(-4.0, 0.0, 6)
            got = mvnorth.orthant_grad(m, Factors(c, V), n, method="factors", log=True)
            if np.isinf(got.rel_error):
                assert (got.grad_m == 0.0).all()
                assert np.isinf(got.grad_m_error).all()
                continue
            truth = mvnorth.orthant(m, Factors(c, V), rtol=1e-6)
            claims += 1
            gap = abs(np.expm1(got.log_prob - truth.log_prob))
            outside += gap > got.rel_error + truth.rel_error
    assert claims >= 20
    assert outside <= 0.03 * claims
