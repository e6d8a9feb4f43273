"""Derivatives for diag(c) + v v^T: exact ones of the estimate, and within their stated errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr
from support.boxes import KINDS, random_case

import mvnorth
from mvnorth import OneFactor
from validation.oracles.one_dimension import one_factor_logprob

INF = math.inf
NAMES = ("m", "c", "v")


def pathwise(case, n, seed=0, log=True):
    m, c, v = case
    options = {"wrt": NAMES, "method": "pathwise", "log": log, "seed": seed}
    return mvnorth.orthant_grad(m, OneFactor(c, v), n, **options)


def estimate(case, n, seed=0):
    m, c, v = case
    return mvnorth.orthant(m, OneFactor(c, v), n, method="genz", seed=seed)


def grad(found):
    return {name: getattr(found, f"grad_{name}") for name in NAMES}


def error(found):
    return {name: getattr(found, f"grad_{name}_error") for name in NAMES}


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
    found = grad(pathwise(case, n, 3))
    for k, name in enumerate(NAMES):
        expected = differences(lambda *moved: estimate(moved, n, 3).log_prob, case, k)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6 * scale)


def test_pathwise_where_the_probability_underflows():
    rng = np.random.default_rng(0)
    case = rng.normal(-30.0, 5.0, size=20), np.exp(rng.normal(size=20)), rng.normal(size=20)
    found = pathwise(case, 512)
    assert found.log_prob < -1000.0
    for k, name in enumerate(NAMES):
        expected = differences(lambda *moved: estimate(moved, 512).log_prob, case, k, 1e-4)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(grad(found)[name], expected, rtol=1e-6, atol=1e-6 * scale)
    plain = pathwise(case, 512, log=False)
    for name in NAMES:
        assert np.all(grad(plain)[name] == 0.0)


@pytest.mark.parametrize("n", [None, 5, 64, 3000])
def test_the_estimate_is_that_of_the_value(n):
    case = random_case(np.random.default_rng(2), "ordinary")
    found, expected = pathwise(case, n, 9), estimate(case, n, 9)
    assert found.log_prob == expected.log_prob
    assert found.n == expected.n
    assert found.status == expected.status


def count_outside(log, case, n, seed):
    """How many entries are further off than they say, and how many there are."""
    truth = judge(*case)
    scale = 1.0 if log else math.exp(log_prob(*case))
    found = pathwise(case, n, seed, log)
    outside = entries = 0
    for name in NAMES:
        value, bound, expected = grad(found)[name], error(found)[name], truth[name] * scale
        assert np.isfinite(value).all()
        assert (bound > 0.0).all()
        reference_error = 1e-10 * np.abs(expected) + 1e-13 * truth["m"] * scale
        outside += np.sum(np.abs(value - expected) > bound + reference_error)
        entries += value.size
    return outside, entries


def share_outside(log, kind, problems, n):
    rng = np.random.default_rng(KINDS.index(kind))
    counts = [count_outside(log, random_case(rng, kind), n, k) for k in range(problems)]
    outside, entries = np.sum(counts, axis=0)
    return outside / entries


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("log", [True, False])
def test_sample_is_inside_the_stated_errors(log, kind):
    # Entries of one problem share their points and so their luck: a sample may have 2 %.
    assert share_outside(log, kind, 30, 1024) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 8192])
@pytest.mark.parametrize("log", [True, False])
def test_inside_the_stated_errors(log, n):
    assert np.mean([share_outside(log, kind, 200, n) for kind in KINDS]) <= 0.01


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    coordinates=st.lists(
        st.tuples(st.floats(-4.0, 4.0), st.floats(0.1, 5.0), st.floats(-3.0, 3.0)),
        min_size=1,
        max_size=6,
    )
)
def test_agrees_with_quadrature(coordinates):
    case = tuple(np.array(a) for a in zip(*coordinates, strict=True))
    outside, _ = count_outside(True, case, 4096, 0)
    assert outside == 0


def test_errors_shrink_with_points():
    case = np.linspace(-0.5, 1.5, 9), np.ones(9), np.ones(9)
    few, many = (pathwise(case, n) for n in (256, 2**15))
    for name in NAMES:
        assert np.all(error(many)[name] < 0.1 * error(few)[name])
        assert np.all(error(many)[name] < 0.02 * np.abs(many.grad_m).max())


def test_one_coordinate():
    found = pathwise(([0.5], [3.0], [1.0]), 64, log=False)
    density = math.exp(-(0.25**2) / 2) / math.sqrt(2 * math.pi)
    assert found.grad_m[0] == pytest.approx(density / 2, rel=1e-13)
    assert found.grad_c[0] == pytest.approx(-density * 0.5 / 16, rel=1e-13)
    assert found.grad_v[0] == pytest.approx(-density * 0.5 / 8, rel=1e-13)


@pytest.mark.parametrize("log", [True, False])
def test_without_a_limit_there_is_no_derivative(log):
    with_more = pathwise(([0.5, INF, -0.3], np.ones(3), np.ones(3)), 2**13, log=log)
    without = pathwise(([0.5, -0.3], np.ones(2), np.ones(2)), 2**13, log=log)
    for name in NAMES:
        assert grad(with_more)[name][1] == 0.0
        gap = np.abs(grad(with_more)[name][[0, 2]] - grad(without)[name])
        assert np.all(gap <= error(with_more)[name][[0, 2]] + error(without)[name])


def test_few_replicates_claim_nothing():
    found = pathwise(([0.5, -0.3], np.ones(2), np.ones(2)), 7)
    for name in NAMES:
        assert np.isinf(error(found)[name]).all()
        assert np.isfinite(grad(found)[name]).all()
