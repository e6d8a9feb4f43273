"""Derivatives for diag(c) + v v^T: exact ones of the estimate, and within their stated errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from mvnorth import _threads
from mvnorth._derivatives import conditional, pathwise
from mvnorth._methods import structured
from mvnorth._methods.lattice_rule import fixed_points
from mvnorth._problem import OneFactorProblems
from validation.oracles.one_dimension import one_factor_logprob

INF = math.inf
NAMES = ("m", "c", "v")
METHODS = [(pathwise.solve, NAMES), (conditional.solve, ("m",))]


def orthants(m, c, v):
    m, c, v = (np.atleast_2d(np.asarray(a, dtype=float)) for a in (m, c, v))
    return OneFactorProblems(np.full_like(m, -INF), m, c, v, np.zeros(len(m)))


def log_prob(m, c, v):
    return one_factor_logprob(np.full(len(m), -INF), m, c, v)[0]


def judge(m, c, v):
    """Derivatives of log P by quadrature over the factor z, each (d,).

    The derivative in m_i is the integral of phi(z) phi(x_i) prod_(j != i) Phi(x_j) over z, divided
    by sqrt(c_i) P, where x = (m + v z)/sqrt(c); those in v_i and c_i have a factor z or
    -x_i/(2 sqrt(c_i)) more.
    """
    root = np.sqrt(c)
    means = []
    for i in range(m.size):

        def log_integrand(z, i=i):
            x = (m + v * z[:, None]) / root
            log_f = log_ndtr(np.delete(x, i, axis=1)).sum(axis=1)
            return x[:, i], log_f - z**2 / 2 - x[:, i] ** 2 / 2 - math.log(2 * math.pi)

        low, high = -200.0, 200.0
        for _ in range(6):  # zoom in to where it is above exp(-50) of its peak
            z, step = np.linspace(low, high, 501, retstep=True)
            x, log_f = log_integrand(z)
            inside = z[log_f > log_f.max() - 50.0]
            low, high = inside[0] - step, inside[-1] + step
        peak = log_f.max()
        f = np.exp(log_f - peak)
        means.append([peak + math.log(f.sum() * step), f @ x / f.sum(), f @ z / f.sum()])
    log_face, x, z = np.transpose(means)
    m_bar = np.exp(log_face - log_prob(m, c, v)) / root
    return {"m": m_bar, "c": -m_bar * x / (2 * root), "v": m_bar * z}


def differences(function, arguments, k, h=1e-5):
    """Central differences of ``function(m, c, v)`` in argument k."""
    out = []
    for i in range(arguments[k].size):
        up, down = ([a.copy() for a in arguments] for _ in range(2))
        up[k][i] += h
        down[k][i] -= h
        out.append((function(*up) - function(*down)) / (2 * h))
    return np.array(out)


def random_case(rng, kind):
    """(m, c, v), each (d,)."""
    d = int(rng.integers(1, 16))
    m = rng.normal(rng.normal(0.5, 2.0), 1.5, size=d)
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d) * np.exp(rng.normal(0.0, 0.7))
    if kind == "exact":
        c, v = np.ones(d), np.ones(d)
    if kind == "zeros":
        v[rng.random(d) < 0.5] = 0.0
    if kind == "tail":
        m -= rng.uniform(3.0, 8.0)
    if kind == "sure":
        m = np.abs(m) + rng.uniform(2.0, 6.0)
    return m, c, v


KINDS = ("ordinary", "exact", "zeros", "tail", "sure")


@pytest.mark.parametrize("kind", KINDS)
def test_the_judge_agrees_with_differences_of_the_oracle(kind):
    case = random_case(np.random.default_rng(4), kind)
    truth = judge(*case)
    for k, name in enumerate(NAMES):
        expected = differences(log_prob, case, k, 1e-4)
        np.testing.assert_allclose(truth[name], expected, rtol=1e-5, atol=2e-9)


@pytest.mark.parametrize("n", [64, 5000])
@pytest.mark.parametrize("kind", KINDS)
def test_pathwise_is_the_gradient_of_the_estimate(kind, n):
    case = random_case(np.random.default_rng(6), kind)
    found = pathwise.solve(orthants(*case), n, 3, NAMES, True)

    def estimate(m, c, v):
        return structured.solve(orthants(m, c, v), fixed_points(n), 3).log_prob[0]

    for k, name in enumerate(NAMES):
        expected = differences(estimate, case, k)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found.grad[name][0], expected, rtol=1e-6, atol=1e-6 * scale)


def test_pathwise_where_the_probability_underflows():
    rng = np.random.default_rng(0)
    case = rng.normal(-30.0, 5.0, size=20), np.exp(rng.normal(size=20)), rng.normal(size=20)
    found = pathwise.solve(orthants(*case), 512, 0, NAMES, True)
    assert found.estimate.log_prob[0] < -1000.0

    def estimate(m, c, v):
        return structured.solve(orthants(m, c, v), fixed_points(512), 0).log_prob[0]

    for k, name in enumerate(NAMES):
        expected = differences(estimate, case, k, 1e-4)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found.grad[name][0], expected, rtol=1e-6, atol=1e-6 * scale)
    plain = pathwise.solve(orthants(*case), 512, 0, NAMES, False)
    for name in NAMES:
        assert np.all(plain.grad[name] == 0.0)
        assert np.all(plain.error[name] > 0.0)


@pytest.mark.parametrize(("solve", "wrt"), METHODS)
@pytest.mark.parametrize("n", [None, 5, 64, 3000])
def test_the_estimate_is_that_of_the_value(solve, wrt, n):
    problems = orthants(*random_case(np.random.default_rng(2), "ordinary"))
    found = solve(problems, n, 9, wrt, True).estimate
    expected = structured.solve(problems, fixed_points(n), 9)
    assert found.log_prob.tobytes() == expected.log_prob.tobytes()
    assert found.rel_error.tobytes() == expected.rel_error.tobytes()
    assert found.n.tolist() == expected.n.tolist()
    assert n is not None or found.n[0] == 8 * 1024


def count_outside(solve, wrt, log, case, n, seed):
    """How many entries are further off than they say, and how many there are."""
    truth = judge(*case)
    scale = 1.0 if log else math.exp(log_prob(*case))
    found = solve(orthants(*case), n, seed, wrt, log)
    outside = entries = 0
    for name in wrt:
        grad, error, expected = found.grad[name][0], found.error[name][0], truth[name] * scale
        assert np.isfinite(grad).all()
        assert (error > 0.0).all()
        reference_error = 1e-10 * np.abs(expected) + 1e-13 * truth["m"] * scale
        outside += np.sum(np.abs(grad - expected) > error + reference_error)
        entries += grad.size
    return outside, entries


def share_outside(solve, wrt, log, kind, problems, n):
    rng = np.random.default_rng(KINDS.index(kind))
    counts = [count_outside(solve, wrt, log, random_case(rng, kind), n, k) for k in range(problems)]
    outside, entries = np.sum(counts, axis=0)
    return outside / entries


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("solve", "wrt"), METHODS)
def test_sample_is_inside_the_stated_errors(solve, wrt, log, kind):
    # Entries of one problem share their points and so their luck: a sample may have 2 %.
    assert share_outside(solve, wrt, log, kind, 30, 1024) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 8192])
@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("solve", "wrt"), METHODS)
def test_inside_the_stated_errors(solve, wrt, log, n):
    shares = [share_outside(solve, wrt, log, kind, 200, n) for kind in KINDS]
    assert np.mean(shares) <= 0.01


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    coordinates=st.lists(
        st.tuples(st.floats(-4.0, 4.0), st.floats(0.1, 5.0), st.floats(-3.0, 3.0)),
        min_size=1,
        max_size=6,
    )
)
def test_both_ways_agree_with_quadrature(coordinates):
    case = tuple(np.array(a) for a in zip(*coordinates, strict=True))
    for solve, wrt in METHODS:
        outside, _ = count_outside(solve, wrt, True, case, 4096, 0)
        assert outside == 0


def test_errors_shrink_with_points():
    case = np.linspace(-0.5, 1.5, 9), np.ones(9), np.ones(9)
    for solve, wrt in METHODS:
        few, many = (solve(orthants(*case), n, 0, wrt, True) for n in (256, 2**15))
        for name in wrt:
            assert np.all(many.error[name] < 0.1 * few.error[name])
            assert np.all(many.error[name] < 0.02 * np.abs(many.grad["m"]).max())


def test_the_condition_leaves_a_one_factor_covariance():
    m, c, v = random_case(np.random.default_rng(1), "ordinary")
    d = m.size
    cov = np.diag(c) + np.outer(v, v)
    given_zero = conditional._given_zero(orthants(m, c, v), np.arange(d))
    for i in range(d):
        rest = np.delete(np.arange(d), i)
        slope = cov[rest, i] / cov[i, i]
        c_hat, v_hat = given_zero.c[i], given_zero.v[i]
        np.testing.assert_allclose(given_zero.upper[i], m[rest] - slope * m[i], rtol=1e-12)
        np.testing.assert_allclose(
            np.diag(c_hat) + np.outer(v_hat, v_hat),
            cov[np.ix_(rest, rest)] - np.outer(slope, cov[i, rest]),
            rtol=1e-12,
            atol=1e-14,
        )


def test_conditional_is_for_m_alone():
    with pytest.raises(ValueError, match="'m' alone"):
        conditional.solve(orthants([0.0], [1.0], [1.0]), 64, 0, ("m", "c"), True)


@pytest.mark.parametrize(("solve", "wrt"), METHODS)
def test_one_coordinate(solve, wrt):
    found = solve(orthants([0.5], [3.0], [1.0]), 64, 0, wrt, False)
    density = math.exp(-(0.25**2) / 2) / math.sqrt(2 * math.pi)
    assert found.grad["m"][0, 0] == pytest.approx(density / 2, rel=1e-13)
    if "c" in wrt:
        assert found.grad["c"][0, 0] == pytest.approx(-density * 0.5 / 16, rel=1e-13)
        assert found.grad["v"][0, 0] == pytest.approx(-density * 0.5 / 8, rel=1e-13)


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize(("solve", "wrt"), METHODS)
def test_without_a_limit_there_is_no_derivative(solve, wrt, log):
    with_more = solve(orthants([0.5, INF, -0.3], np.ones(3), np.ones(3)), 2**13, 0, wrt, log)
    without = solve(orthants([0.5, -0.3], np.ones(2), np.ones(2)), 2**13, 0, wrt, log)
    for name in wrt:
        assert with_more.grad[name][0, 1] == 0.0
        gap = np.abs(with_more.grad[name][:, [0, 2]] - without.grad[name])
        assert np.all(gap <= with_more.error[name][:, [0, 2]] + without.error[name])


@pytest.mark.parametrize(("solve", "wrt"), METHODS)
def test_few_replicates_claim_nothing(solve, wrt):
    found = solve(orthants([0.5, -0.3], np.ones(2), np.ones(2)), 7, 0, wrt, True)
    for name in wrt:
        assert np.isinf(found.error[name]).all()
        assert np.isfinite(found.grad[name]).all()


@pytest.mark.parametrize(("solve", "wrt"), METHODS)
@pytest.mark.parametrize("n", [700, 2**15])
def test_same_bits_for_any_threads_and_cuts_of_a_batch(monkeypatch, solve, wrt, n):
    rng = np.random.default_rng(1)
    problems = orthants(
        rng.normal(size=(4, 7)), np.exp(rng.normal(size=(4, 7))), rng.normal(size=(4, 7))
    )

    def numbers(found):
        values = [found.estimate.log_prob[:, None]]
        values += [part[name] for part in (found.grad, found.error) for name in wrt]
        return np.concatenate(values, axis=1)

    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(_threads, "_threads", threads)
        monkeypatch.setattr(_threads, "_pool", None)
        results.append(numbers(solve(problems, n, 7, wrt, True)))
    assert _threads._pool is not None  # the last ones did use threads
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    for k in range(problems.size):
        alone = numbers(solve(problems.take(slice(k, k + 1)), n, 7, wrt, True))
        assert alone[0].tobytes() == results[0][k].tobytes()
