"""Derivatives by problems given a coordinate: within their stated errors."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf
from support.boxes import (
    ALL,
    INF,
    LIMITS,
    boxes,
    derivatives,
    estimate,
    judge,
    one_factor,
    random_one_factor,
)

from mvnorth import _checks
from mvnorth._estimate import Estimate
from mvnorth._methods import conditional
from validation.oracles import exact
from validation.oracles.one_dimension import one_factor_logprob, two_factor_logprob
from validation.oracles.one_factor import one_factor_derivatives


@pytest.mark.parametrize("upper", [26.7, 3.0, 0.0, -2.0, -40.0, -3000.0])
def test_one_coordinate(upper):
    deviation = mpf(3) / 4
    with mpmath.workdps(40):
        z = mpf(upper) / deviation
        slope = exact.mills(z) / deviation
        expected = {"lower": 0.0, "upper": slope, "mean": -slope}
        expected["cov"] = -mpf(upper) * slope / (2 * deviation**2)
        expected["factor"] = 2 * expected["cov"] * deviation
    for problems in (
        boxes([-INF], [upper], [[0.75]]),
        one_factor([-INF], [upper], [0.3125], [0.5]),
    ):
        found = derivatives(problems)
        for name in found.value:
            judge(found, name, expected[name])
            assert found.error[name].max() <= 1e-13 * (1 + upper**2) * abs(found.value[name]).max()


def bivariate_truth(lower, upper, cov):
    """Derivatives of log P in 40 digits from integrals of one variable, and their own.

    The derivative in a variance is half the second one in its mean.
    """
    with mpmath.workdps(40):
        cov = [[mpf(x) for x in row] for row in cov]
        low, high = ([mpf(x) for x in a] for a in (lower, upper))

        def face(i, x, shift=0):
            """Density at X_i = x times the probability of the other, whose mean moves along."""
            j = 1 - i
            slope = cov[i][j] / cov[i][i]
            noise = mpmath.sqrt(cov[j][j] - slope * cov[i][j])
            ends = [(a[j] - slope * (x - shift)) / noise for a in (low, high)]
            inside = mpmath.ncdf(ends[1]) - mpmath.ncdf(ends[0])
            deviation = mpmath.sqrt(cov[i][i])
            return mpmath.npdf((x - shift) / deviation) / deviation * inside

        def both_faces(i, shift=0):
            ends = [(-1, low[i]), (1, high[i])]
            return sum(sign * face(i, x, shift) for sign, x in ends if mpmath.isfinite(x))

        # mpmath stops on an absolute tolerance, so the integrand is divided by its size.
        reach = 16 * mpmath.sqrt(cov[0][0])
        last = min(high[0], reach)
        edges = mpmath.linspace(max(low[0], last - 2 * reach), last, 16)
        size = max(face(0, x) for x in edges)
        prob = mpmath.quad(lambda x: face(0, x) / size, edges) * size
        corner = mpf(0)
        det = cov[0][0] * cov[1][1] - cov[0][1] ** 2
        for sign_0, x in ((-1, low[0]), (1, high[0])):
            for sign_1, y in ((-1, low[1]), (1, high[1])):
                if mpmath.isfinite(x) and mpmath.isfinite(y):
                    form = cov[1][1] * x * x - 2 * cov[0][1] * x * y + cov[0][0] * y * y
                    density = mpmath.exp(-form / det / 2) / (2 * mpmath.pi * mpmath.sqrt(det))
                    corner += sign_0 * sign_1 * density
        G = [[corner / 2, corner / 2], [corner / 2, corner / 2]]
        for i in range(2):
            G[i][i] = mpmath.diff(lambda t, i=i: -both_faces(i, t), 0) / 2
        return {
            "lower": [-face(i, low[i]) / prob if low[i] > -mpmath.inf else 0 for i in range(2)],
            "upper": [face(i, high[i]) / prob if high[i] < mpmath.inf else 0 for i in range(2)],
            "mean": [-both_faces(i) / prob for i in range(2)],
            "cov": [[x / prob for x in row] for row in G],
        }


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ([-INF, -INF], [0.3, -0.8]),
        ([-1.0, -0.5], [0.7, 2.0]),
        ([-INF, 0.4], [1.0, INF]),
        ([-0.1, -0.2], [0.1, 0.05]),
        ([-INF, -INF], [-9.0, -7.0]),
    ],
)
@pytest.mark.parametrize("rho", [0.5, -0.9, 0.999, 0.0])
def test_two_coordinates(lower, upper, rho):
    factor = np.array([[1.5, 0.0], [0.5 * rho, 0.5 * math.sqrt(1.0 - rho**2)]])
    with mpmath.workdps(40):
        A = mpmath.matrix(factor.tolist())
        cov = (A * A.T).tolist()
    truth = bivariate_truth(lower, upper, cov)
    found = derivatives(boxes(lower, upper, factor))
    for name, expected in truth.items():
        judge(found, name, expected)
        largest = np.abs(found.value[name]).max()
        assert np.all(found.error[name] <= 1e-9 * largest)
    expected = 2.0 * np.array(truth["cov"], dtype=float) @ factor
    judge(found, "factor", expected, 1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("apart", [1e-4, 1e-7, 1e-10, 1e-12])
@pytest.mark.parametrize(("sign", "far"), [(-1.0, 1.6), (1.0, 1.6), (1.0, -20.0)])
def test_a_nearly_singular_covariance(apart, sign, far):
    """Errors grow as 1 - rho**2 loses digits, and no more; the truth is of the numbers given."""
    rho = sign * (1.0 - apart)
    cov = np.array([[2.25, 1.2 * rho], [1.2 * rho, 0.64]])
    upper = 0.4 * np.array([1.5, 0.8 * sign]) + [0.0, far * math.sqrt(apart)]
    problems, _ = _checks.box_problems([-INF, -INF], upper, 0.0, cov)
    found = derivatives(problems)
    scale = problems.covariance.scale[0]
    for name, expected in bivariate_truth([-INF, -INF], upper, cov.tolist()).items():
        expected = np.array(expected, dtype=float)
        expected *= np.outer(scale, scale) if name == "cov" else scale
        judge(found, name, expected, 1e-15 * np.abs(expected))
        assert np.all(found.error[name] <= 1e-13 / apart * np.abs(expected).max())


def test_three_coordinates_at_the_origin():
    corr = np.array([[1.0, 0.4, -0.3], [0.4, 1.0, 0.6], [-0.3, 0.6, 1.0]])
    prob = 0.125 + np.arcsin(corr[np.triu_indices(3, 1)]).sum() / (4 * math.pi)
    face, pair = np.empty(3), np.zeros((3, 3))
    for i in range(3):
        j, k = np.delete(np.arange(3), i)
        others = (1 - corr[i, j] ** 2) * (1 - corr[i, k] ** 2)
        partial = (corr[j, k] - corr[i, j] * corr[i, k]) / math.sqrt(others)
        face[i] = (0.25 + math.asin(partial) / (2 * math.pi)) / math.sqrt(2 * math.pi) / prob
        pair[j, k] = pair[k, j] = 0.125 / math.pi / math.sqrt(1 - corr[j, k] ** 2) / prob
    pair[np.arange(3), np.arange(3)] = -np.sum(pair * corr, axis=1)
    found = derivatives(boxes([-INF] * 3, [0.0] * 3, np.linalg.cholesky(corr)))
    judge(found, "upper", face, 1e-14)
    judge(found, "cov", pair, 1e-14)
    assert found.error["cov"].max() < 1e-9


def test_three_coordinates_in_forty_digits():
    rng = np.random.default_rng(8)
    corr = np.array([[1.0, 0.3, 0.5], [0.3, 1.0, -0.2], [0.5, -0.2, 1.0]])
    b = rng.normal(size=3)
    with mpmath.workdps(40):
        prob = exact.trivariate_prob(b, corr)
        face, pair = [], np.zeros((3, 3))
        for i in range(3):
            j, k = np.delete(np.arange(3), i)
            r = [[mpf(x) for x in row] for row in corr]
            noise = [mpmath.sqrt(1 - r[i][n] ** 2) for n in (j, k)]
            ends = [
                (mpf(b[n]) - r[i][n] * mpf(b[i])) / s for n, s in zip((j, k), noise, strict=True)
            ]
            partial = (r[j][k] - r[i][j] * r[i][k]) / noise[0] / noise[1]
            face.append(mpmath.npdf(mpf(b[i])) * exact.bivariate_prob(*ends, partial) / prob)
            x, y, rho = mpf(b[j]), mpf(b[k]), r[j][k]
            det = 1 - rho**2
            density = mpmath.exp(-(x * x - 2 * rho * x * y + y * y) / det / 2)
            density /= 2 * mpmath.pi * mpmath.sqrt(det)
            weight = [(r[i][j] - rho * r[i][k]) / det, (r[i][k] - rho * r[i][j]) / det]
            variance = 1 - weight[0] * r[i][j] - weight[1] * r[i][k]
            z = (mpf(b[i]) - weight[0] * x - weight[1] * y) / mpmath.sqrt(variance)
            pair[j, k] = pair[k, j] = float(density * exact.ndtr(z) / prob / 2)
    found = derivatives(boxes([-INF] * 3, b, np.linalg.cholesky(corr)))
    judge(found, "upper", face, 1e-15)
    off = pair != 0.0
    assert np.all(np.abs(found.value["cov"][0] - pair)[off] <= (found.error["cov"][0] + 1e-15)[off])
    assert found.error["upper"].max() < 1e-12


# Derivatives against other ways


@pytest.mark.parametrize("kind", ["ordinary", "tail", "sure"])
@pytest.mark.parametrize("dense", [False, True])
def test_one_factor_derivatives_in_forty_digits(kind, dense):
    rng = np.random.default_rng(["ordinary", "tail", "sure"].index(kind))
    for d in (4, 5):
        upper, c, v = random_one_factor(rng, d, kind)
        truth = one_factor_derivatives(upper, c, v, hessian=True)
        m = np.array(truth.m, dtype=float)
        G = 0.5 * (np.array(truth.hessian, dtype=float) + np.outer(m, m))
        problems = one_factor(np.full(d, -INF), upper, c, v)
        if dense:  # to be recognised as one factor again
            L = np.linalg.cholesky(np.diag(c) + np.outer(v, v))
            problems = boxes(problems.lower, upper, L)
        found = derivatives(problems)
        assert kind != "tail" or estimate(problems).log_prob[0] < -500.0
        # The Cholesky factor and what cancels in G are known to rounding.
        rounding = 1e-14 * (1.0 + abs(estimate(problems).log_prob[0]))
        judge(found, "upper", m, rounding * m)
        judge(found, "cov", G, rounding * np.outer(m, m) + 1e-13 * np.abs(G).max())
        judge(found, "mean", -m, rounding * m)
        assert not found.value["lower"].any()
        assert not found.error["lower"].any()
        assert np.all(found.error["upper"] <= 1e-8 * m)
        assert found.error["cov"].max() <= 1e-7 * np.abs(G).max()


def differences(function, x, h=2e-3):
    """Central differences of fourth order in every entry."""
    out = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = h
        near, far = (function(x + k * step) - function(x - k * step) for k in (1, 2))
        out[place] = (8.0 * near - far) / (12.0 * h)
    return out


def test_boxes_with_one_factor_by_differences():
    rng = np.random.default_rng(12)
    d = 5
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d)
    lower, upper = rng.normal(-1.0, 0.5, d), rng.normal(1.0, 0.5, d)
    expected = {
        "lower": differences(lambda x: one_factor_logprob(x, upper, c, v)[0], lower),
        "upper": differences(lambda x: one_factor_logprob(lower, x, c, v)[0], upper),
    }
    expected["mean"] = -expected["lower"] - expected["upper"]
    in_v = differences(lambda x: one_factor_logprob(lower, upper, c, x)[0], v)
    in_c = differences(lambda x: one_factor_logprob(lower, upper, x, v)[0], c, 1e-3)
    for problems in (one_factor(lower, upper, c, v), one_factor(lower, upper, c, v).dense()):
        found = derivatives(problems, rtol=1e-7)
        for name, truth in expected.items():
            judge(found, name, truth, 1e-9)
        G, error = found.value["cov"][0], found.error["cov"][0]
        assert np.all(np.abs(np.diagonal(G) - in_c) <= np.diagonal(error) + 1e-8)
        assert np.all(np.abs(2.0 * G @ v - in_v) <= 2.0 * error @ np.abs(v) + 1e-8)
        assert error.max() < 1e-5


@pytest.mark.parametrize("d", [4, 6])
def test_sampled_covariances_by_differences(d):
    rng = np.random.default_rng(d)
    c, V = np.exp(rng.normal(0.0, 0.5, d)), rng.normal(size=(d, 2))
    lower, upper = np.full(d, -INF), rng.normal(0.7, 0.7, d)
    lower[0], lower[1], upper[1] = upper[0] - 1.5, -0.6, INF

    def log_prob(lower=lower, upper=upper, c=c, V=V):
        return two_factor_logprob(lower, upper, c, V)[0]

    factor = np.concatenate([np.diag(np.sqrt(c)), V], axis=1)
    found = derivatives(boxes(lower, upper, factor), rtol=1e-5)
    below, above = np.isfinite(lower), np.isfinite(upper)
    in_lower, in_upper = np.zeros((2, d))

    def moved(a, where, x):
        a = a.copy()
        a[where] = x
        return a

    in_lower[below] = differences(lambda x: log_prob(lower=moved(lower, below, x)), lower[below])
    in_upper[above] = differences(lambda x: log_prob(upper=moved(upper, above, x)), upper[above])
    judge(found, "lower", in_lower, 1e-8)
    judge(found, "upper", in_upper, 1e-8)
    judge(found, "mean", -in_lower - in_upper, 1e-8)
    in_root = differences(lambda x: log_prob(c=x**2), np.sqrt(c))
    in_V = differences(lambda x: log_prob(V=x), V)
    value, error = found.value["factor"][0], found.error["factor"][0]
    assert np.all(np.abs(np.diagonal(value) - in_root) <= np.diagonal(error) + 1e-7)
    assert np.all(np.abs(value[:, d:] - in_V) <= error[:, d:] + 1e-7)
    assert error.max() < 2e-3
    assert found.error["upper"].max() < 1e-4


def test_far_out_a_sampled_covariance_has_relative_errors():
    rng = np.random.default_rng(5)
    d = 5
    c, V = np.exp(rng.normal(0.0, 0.5, d)), rng.normal(size=(d, 2))
    upper = rng.normal(-30.0, 3.0, d)
    factor = np.concatenate([np.diag(np.sqrt(c)), V], axis=1)
    problems = boxes(np.full(d, -INF), upper, factor)
    assert estimate(problems).log_prob[0] < -1000.0
    found = derivatives(problems, ("upper",), rtol=1e-5)
    expected = differences(lambda x: two_factor_logprob(np.full(d, -INF), x, c, V)[0], upper, 0.05)
    judge(found, "upper", expected, 1e-6 * np.abs(expected).max())
    assert found.error["upper"].max() < 1e-3 * np.abs(expected).max()


# What is not differentiable, or not there


def test_without_limits_there_are_no_derivatives():
    rng = np.random.default_rng(3)
    factor = np.linalg.cholesky(np.cov(rng.normal(size=(4, 20))))
    lower, upper = np.array([-INF, -INF, -1.0, -INF]), np.array([0.5, INF, 1.0, -0.2])
    for problems in (boxes(lower, upper, factor), one_factor(lower, upper, np.ones(4), np.ones(4))):
        found = derivatives(problems)
        kept = np.array([0, 2, 3])
        without = derivatives(problems.take(slice(None), kept))
        for name in LIMITS:
            assert found.value[name][0, 1] == found.error[name][0, 1] == 0.0
            judge(found, name, np.insert(without.value[name][0], 1, 0.0), 1e-12)
        assert not found.value["cov"][0, 1].any()
        assert not found.error["cov"][0, 1].any()
        inner = found.value["cov"][0][np.ix_(kept, kept)]
        np.testing.assert_allclose(inner, without.value["cov"][0], atol=1e-10)
        assert np.isfinite(found.error["cov"]).all()


@pytest.mark.parametrize("limit", [0.4, 1.3, 3.0])
def test_a_coordinate_that_is_the_sum_of_others(limit):
    a, b = 0.6, 0.9
    with mpmath.workdps(30):

        def density(x):
            return mpmath.npdf(x) * mpmath.ncdf(min(b, limit - x))

        prob = mpmath.quad(density, [-mpmath.inf, min(a, limit - b), a])
        face = mpmath.npdf(limit / mpmath.sqrt(2)) / mpmath.sqrt(2)
        ends = [(x - mpf(limit) / 2) * mpmath.sqrt(2) for x in (limit - b, a)]
        inside = mpmath.ncdf(ends[1]) - mpmath.ncdf(ends[0])
        truth = [
            mpmath.npdf(a) * mpmath.ncdf(min(b, limit - a)) / prob,
            mpmath.npdf(b) * mpmath.ncdf(min(a, limit - b)) / prob,
            face * max(inside, 0) / prob,
        ]
    A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for problems in (
        boxes([-INF] * 3, [a, b, limit], A),
        _checks.box_problems([-INF] * 3, [a, b, limit], 0.0, A @ A.T)[0],
    ):
        found = derivatives(problems, rtol=1e-4)
        scale = problems.covariance.scale[0]
        # That nothing is left of an interval between ties, sampling cannot say for sure.
        reached = np.array([True, True, limit < a + b])
        assert found.error["upper"][0, reached].max() < 1e-3
        judge(found, "upper", np.array(truth, dtype=float) * scale, 1e-14)
        assert np.isinf(found.error["cov"]).all()
        assert np.isinf(found.error["factor"]).any()


def test_coordinates_that_are_the_same():
    a = [0.5, 1.0]
    for gap, known in ((0.3, True), (-0.3, True), (0.0, False)):
        found = derivatives(boxes([-INF] * 2, [0.4, 0.4 + gap], [a, a]), LIMITS)
        if known:
            binding = 0 if gap > 0 else 1
            z = min(0.4, 0.4 + gap) / math.sqrt(1.25)
            assert found.value["upper"][0, binding] == pytest.approx(
                float(exact.mills(z)) / math.sqrt(1.25), rel=1e-12
            )
            assert found.value["upper"][0, 1 - binding] == 0.0
            assert found.error["upper"].max() < 1e-7
        else:
            assert np.isinf(found.error["upper"]).all()


def test_a_constant_coordinate():
    factor = [[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]]
    found = derivatives(boxes([-INF, -1.0, -INF], [0.2, 2.0, 0.3], factor))
    without = derivatives(boxes([-INF, -INF], [0.2, 0.3], [factor[0], factor[2]]))
    for name in LIMITS:
        assert found.value[name][0, 1] == found.error[name][0, 1] == 0.0
        np.testing.assert_allclose(found.value[name][0, [0, 2]], without.value[name][0], rtol=1e-13)
    np.testing.assert_allclose(
        found.value["cov"][0][np.ix_([0, 2], [0, 2])], without.value["cov"][0], rtol=1e-12
    )
    step = derivatives(boxes([-INF, 0.0, -INF], [0.2, 2.0, 0.3], factor))
    assert np.isinf(step.error["lower"][0, 1])
    assert step.error["upper"][0, 1] == 0.0
    assert np.isinf(step.error["cov"][0, 1]).all()
    assert np.isfinite(step.error["cov"][0, 0, 2])


def test_of_an_impossible_box_nothing_is_known():
    for problems in (
        boxes([-INF, 0.5], [1.0, 0.5], np.eye(2)),
        one_factor([-INF, 0.5], [1.0, 0.5], np.ones(2), np.ones(2)),
    ):
        found = derivatives(problems)
        for name in found.value:
            assert np.isfinite(found.value[name]).all()
            assert np.isinf(found.error[name]).all()


def test_errors_of_the_probabilities_are_passed_on():
    problems = boxes([-INF] * 3, [0.1, 0.2, 0.3], np.linalg.cholesky(np.eye(3) + 1.0))
    true = estimate(problems)

    def with_error(exact, error):
        return Estimate.exact(exact.log_prob, np.full(exact.log_prob.size, error))

    for own, conditionals in (
        (0.1, 0.05),
        (0.0, 0.2),
        (0.5, 0.0),
        (1.0, 0.0),
        (0.0, INF),
        (INF, 0),
    ):
        found = conditional.differentiate(
            problems,
            ALL,
            with_error(true, own),
            lambda p, e=conditionals: with_error(estimate(p), e),
        )
        total = (conditionals + own) / (1.0 - own) if own < 1.0 else INF
        for name in ("upper", "mean"):
            size = np.abs(found.value[name])
            np.testing.assert_allclose(found.error[name], total * size, rtol=1e-9, atol=1e-13)
        pair = found.value["cov"][0, 0, 1]
        assert found.error["cov"][0, 0, 1] == pytest.approx(total * pair, rel=1e-9, abs=1e-13)


any_limit = st.sampled_from([0.0, 1.0, 1e-300, 1e300, 1e8, 40.0, 1e17, 5.0, 1e155, INF])


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    coordinates=st.lists(st.tuples(any_limit, any_limit, st.booleans()), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_numbers_of_any_size(coordinates, seed):
    rng = np.random.default_rng(seed)
    d = len(coordinates)
    lower = np.array([-a for a, _, _ in coordinates])
    upper = np.array([-b if below and b < a else b for a, b, below in coordinates])
    factor = rng.integers(-2, 3, size=(d, 3)) * 10.0 ** rng.integers(-8, 8, size=(d, 1))
    c, v = 10.0 ** rng.integers(-12, 8, size=d), factor[:, 0]
    for problems in (boxes(lower, upper, factor), one_factor(lower, upper, c, v)):
        with np.errstate(over="ignore", invalid="ignore"):
            found = derivatives(problems, rtol=1e-2)
        for name in found.value:
            assert np.isfinite(found.value[name]).all()
            assert (found.error[name] >= 0.0).all()
