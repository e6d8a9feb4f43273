"""Derivatives by pinned variables: the estimate's own points, within the stated errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr, ndtri
from support.boxes import boxes, fixed_points, one_factor, within

from mvnorth._cpu.pinned import pinned_sums
from mvnorth._methods import conditional, genz, one_factor_rule, pinned
from mvnorth._solve import solve

INF = math.inf
NAMES = ("lower", "upper", "mean")
EPS = np.finfo(float).eps


def derivatives(problems, n):
    """Return derivatives as a plan gives them: exactly zero in limits that are infinite."""
    return solve(problems, fixed_points(n, wrt=NAMES), "pinned")[0].derivatives


def random_boxes(rng, size, d):
    """Limits of all kinds, none at all among them; a factor each."""
    lower = np.where(rng.random((size, d)) < 0.4, -INF, rng.normal(-1.0, 0.7, (size, d)))
    upper = np.where(rng.random((size, d)) < 0.2, INF, rng.normal(1.0, 0.7, (size, d)))
    upper = np.maximum(upper, np.where(np.isfinite(lower), lower + 0.1, upper))
    return boxes(lower, upper, rng.normal(size=(size, d, d)) + np.eye(d))


@pytest.mark.parametrize(
    "request_",
    [*(fixed_points(n, 9, NAMES) for n in (5, 64, 3000)), within(1e-3, 2**15, 9, NAMES)],
)
@pytest.mark.parametrize("d", [1, 3, 18])
def test_the_estimate_is_that_of_the_value(request_, d):
    problems = random_boxes(np.random.default_rng(d), 4, d)
    found = pinned.solve(problems, request_)
    expected = genz.solve(problems, request_)
    assert found.log_prob.tobytes() == expected.log_prob.tobytes()
    assert found.rel_error.tobytes() == expected.rel_error.tobytes()
    assert found.n.tolist() == expected.n.tolist()


def naive_faces(T, lower, upper, u):
    """Sums of weights with every variable pinned to its limits (d, 2), one sample at a time."""
    d = lower.size
    sums = np.zeros((d, 2))
    for point in u:
        for i in range(d):
            for side, limit in enumerate((lower[i], upper[i])):
                y, weight = np.zeros(d), float(np.isfinite(limit))
                for k in range(d if weight else 0):
                    a, b = (x[k] - T[k, :k] @ y[:k] for x in (lower, upper))
                    if k == i:
                        y[k] = limit - T[k, :k] @ y[:k]
                        weight *= math.exp(-0.5 * y[k] ** 2) / math.sqrt(2.0 * math.pi)
                    else:
                        weight *= ndtr(b) - ndtr(a)
                        mirrored = -INF < -b < a  # u counts from the smaller tail
                        end = ndtr(-b if mirrored else a)
                        y[k] = ndtri(end + point[k] * (ndtr(b) - ndtr(a)))
                        y[k] *= -1.0 if mirrored else 1.0
                sums[i, side] += weight
    return sums


def test_sums_are_those_of_the_naive_recursion():
    rng = np.random.default_rng(1)
    d, points = 21, 5  # more than one panel of rows, with tiles in them
    T = np.zeros((1, 32, 32))
    T[0, :d, :d] = np.tril(rng.normal(0.0, 0.5, (d, d)), -1)
    upper = rng.normal(0.5, 1.0, (1, d))
    lower = np.where(rng.random(d) < 0.5, -INF, upper - 1.0)
    z, shifts = rng.random(d), rng.random((1, d))
    nothing, attached = np.zeros((1, d)), np.zeros((1, d), dtype=np.int64)
    faces, out = np.empty((1, d, 2, 2)), np.empty((1, 2))
    pinned_sums(
        T, lower, upper, np.array([d]), attached, nothing, nothing, faces, np.array([0]), z, shifts,
        np.array([0]), 1, points, out, 0, 1,
    )  # fmt: skip
    x = (np.arange(points)[:, None] * z + shifts) % 1.0
    expected = naive_faces(T[0, :d, :d], lower[0], upper[0], 1.0 - np.abs(2.0 * x - 1.0))
    np.testing.assert_allclose(np.exp(faces[0, :, :, 0]), expected, rtol=1e-9)


def random_one_factor(rng, kind):
    d = int(rng.integers(1, 10))
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d) * np.exp(rng.normal(0.0, 0.7))
    m = rng.normal(rng.normal(0.5, 2.0), 1.5, size=d)
    if kind == "tail":
        m -= rng.uniform(2.0, 5.0)
    if kind == "sure":
        m = np.abs(m) + rng.uniform(2.0, 5.0)
    if kind == "steep":
        c *= 0.01
    return one_factor(-INF, m, c, v)


def share_outside(kind, problems, n):
    rng = np.random.default_rng(len(kind))
    outside = entries = 0
    for seed in range(problems):
        problem = random_one_factor(rng, kind)
        truth = one_factor_rule.derivatives(problem, ("m",)).derivatives
        dense = problem.dense()
        mirror = rng.random(problem.d) < 0.3  # coordinates with lower limits instead
        sign = np.where(mirror, -1.0, 1.0)
        lower = np.where(mirror, -problem.upper, -INF)
        upper = np.where(mirror, INF, problem.upper)
        mirrored = boxes(lower, upper, sign[:, None] * dense.covariance.factor[0])
        found = pinned.solve(mirrored, fixed_points(n, seed, NAMES)).derivatives
        expected = {
            "mean": -sign * truth.value["m"],
            "lower": np.where(mirror, -truth.value["m"], 0),
        }
        expected["upper"] = np.where(mirror, 0, truth.value["m"])
        for name in NAMES:
            gap = np.abs(found.value[name] - expected[name])
            outside += np.sum(gap > found.error[name] + truth.error["m"])
            entries += problem.d
    return outside / entries


@pytest.mark.parametrize("kind", ["ordinary", "tail", "sure", "steep"])
def test_sample_is_inside_the_stated_errors(kind):
    assert share_outside(kind, 40, 1024) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 8192])
def test_inside_the_stated_errors(n):
    shares = [share_outside(kind, 300, n) for kind in ("ordinary", "tail", "sure", "steep")]
    assert np.mean(shares) <= 0.01


def test_errors_shrink_with_points():
    d = 9
    problems = boxes(np.full(d, -INF), np.linspace(-0.5, 1.5, d), np.linalg.cholesky(np.eye(d) + 1))
    few, many = (
        pinned.solve(problems, fixed_points(n, wrt=NAMES)).derivatives for n in (256, 2**15)
    )
    assert np.all(many.error["upper"] < 0.1 * few.error["upper"])
    assert np.all(many.error["upper"] < 1e-2 * many.value["upper"])


@pytest.mark.parametrize("d", [4, 6, 8])
def test_agrees_with_conditional_derivatives(d):
    problems = random_boxes(np.random.default_rng(d), 3, d)
    request = within(1e-5, 2**16, 1)

    def run(p):
        return solve(p, request, "auto")[0]

    first = conditional.differentiate(problems, NAMES, run(problems), run)
    second = pinned.solve(problems, fixed_points(2**15, wrt=NAMES)).derivatives
    outside = 0
    for name in NAMES:
        gap = np.abs(first.value[name] - second.value[name])
        error = first.error[name] + second.error[name]
        outside += np.sum(gap > error)
        assert np.all(gap <= 1.5 * error)
        # Of a face that hardly a point saw nothing is known; of others, enough to tell.
        assert np.mean(second.error[name] <= 0.01 * np.abs(second.value[name]).max()) > 0.9
    assert outside <= 1  # errors are those of 99 %


def test_the_mirror_image_has_the_mirrored_derivatives():
    rng = np.random.default_rng(2)
    upper, A = rng.normal(0.5, 1.0, 5), rng.normal(size=(5, 5)) + 3.0 * np.eye(5)
    found = derivatives(boxes(np.full(5, -INF), upper, A), 2048)
    image = derivatives(boxes(-upper, np.full(5, INF), A), 2048)
    assert np.isfinite(found.error["upper"]).all()
    np.testing.assert_allclose(image.value["lower"], -found.value["upper"], rtol=1e-12)
    np.testing.assert_allclose(image.error["lower"], found.error["upper"], rtol=1e-6)
    np.testing.assert_array_equal(image.value["mean"], -image.value["lower"])
    for one in (image.value["upper"], image.error["upper"], found.value["lower"]):
        assert not one.any()


def test_independent_coordinates_are_exact():
    upper = np.linspace(-3.0, 3.0, 20)
    found = pinned.solve(
        boxes(np.full(20, -INF), upper, np.diag(np.full(20, 2.0))), fixed_points(64, wrt=NAMES)
    )
    log_density = -0.5 * (upper / 2.0) ** 2 - 0.5 * math.log(2.0 * math.pi)
    expected = np.exp(log_density - log_ndtr(upper / 2.0)) / 2.0
    np.testing.assert_allclose(found.derivatives.value["upper"][0], expected, rtol=1e-13)
    assert np.all(found.derivatives.error["upper"] < 1e-11)


def test_where_the_probability_underflows():
    rng = np.random.default_rng(0)
    m, c, v = rng.normal(-30.0, 5.0, 20), np.exp(rng.normal(size=20)), rng.normal(size=20)
    problem = one_factor(-INF, m, c, v)
    found = pinned.solve(problem.dense(), fixed_points(8192, wrt=("upper",)))
    assert found.log_prob[0] < -1000.0
    truth = one_factor_rule.derivatives(problem, ("m",)).derivatives
    value, error = found.derivatives.value["upper"], found.derivatives.error["upper"]
    assert np.isfinite(value).all()
    assert np.all(np.abs(value - truth.value["m"]) <= error + truth.error["m"])


def test_what_is_not_known_is_not_claimed():
    A = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    tied = derivatives(boxes([-INF, -1.0, -INF], [0.5, INF, 1.0], A), 1024)
    assert np.isinf(tied.error["mean"]).all()
    assert tied.error["lower"][0].tolist() == [0.0, INF, 0.0]
    assert not tied.value["mean"].any()
    few = derivatives(boxes([-INF] * 2, [0.5, -0.3], np.eye(2) + 0.2), 7)
    assert np.isinf(few.error["mean"]).all()
    assert np.isfinite(few.value["mean"]).all()


def test_adaptive_derivatives_are_those_of_all_points_used():
    problems = random_boxes(np.random.default_rng(6), 3, 5)
    found = pinned.solve(problems, within(1e-3, 2**16, 2, NAMES))
    assert len(set(found.n.tolist())) > 1  # some rows were done before others
    for k, n in enumerate(found.n.tolist()):
        again = pinned.solve(problems.take(slice(k, k + 1)), fixed_points(n, 2, NAMES)).derivatives
        for name in NAMES:
            np.testing.assert_allclose(
                found.derivatives.value[name][k], again.value[name][0], rtol=1e-12
            )
            np.testing.assert_allclose(
                found.derivatives.error[name][k], again.error[name][0], rtol=1e-6
            )


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    coordinates=st.lists(
        st.tuples(st.floats(-4.0, 4.0), st.floats(0.1, 5.0), st.floats(-3.0, 3.0)),
        min_size=1,
        max_size=6,
    )
)
def test_any_small_orthant(coordinates):
    m, c, v = (np.array([a]) for a in zip(*coordinates, strict=True))
    problem = one_factor(-INF, m, c, v)
    truth = one_factor_rule.derivatives(problem, ("m",)).derivatives
    found = pinned.solve(problem.dense(), fixed_points(4096, wrt=("upper",))).derivatives
    gap = np.abs(found.value["upper"] - truth.value["m"])
    assert np.all(gap <= found.error["upper"] + truth.error["m"])
