"""Derivatives by conditional Gaussians are within their stated errors, whatever solves them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.boxes import (
    ALL,
    INF,
    KINDS,
    boxes,
    derivatives,
    estimate,
    fixed_points,
    judge,
    one_factor,
    random_case,
    random_one_factor,
)

from mvnorth import _threads
from mvnorth._methods import conditional, one_factor_rule, structured
from validation.oracles.one_factor import one_factor_derivatives


def random_batch(rng, size=3, d=4):
    A = rng.normal(size=(size, d, d))
    lower = rng.normal(-1.0, 0.5, (size, d))
    lower[rng.random((size, d)) < 0.5] = -INF
    return boxes(lower, rng.normal(1.0, 0.5, (size, d)), A)


def numbers(found):
    parts = [of[name] for of in (found.value, found.error) for name in ALL if name in of]
    return np.concatenate([a.reshape(len(a), -1) for a in parts], axis=1)


def test_same_bits_for_any_threads_and_cuts_of_a_batch(monkeypatch):
    rng = np.random.default_rng(4)
    d = 4
    shared = boxes(np.full((3, d), -INF), rng.normal(size=(3, d)), rng.normal(size=(d, d)))
    factored = one_factor(rng.normal(-1, 1, (3, d)), np.full((3, d), 1.5), np.ones(d), np.ones(d))
    for problems in (random_batch(rng), shared, factored):
        found = numbers(derivatives(problems))
        for k in range(problems.size):
            alone = numbers(derivatives(problems.take(slice(k, k + 1))))
            assert alone[0].tobytes() == found[k].tobytes()
        with monkeypatch.context() as patch:
            patch.setattr(conditional, "_CHUNK", 1)
            assert numbers(derivatives(problems)).tobytes() == found.tobytes()
        with monkeypatch.context() as patch:
            patch.setattr(_threads, "_threads", 3)
            patch.setattr(_threads, "_pool", None)
            assert numbers(derivatives(problems)).tobytes() == found.tobytes()


def test_one_call_for_all_items():
    calls = []

    def counted(problems):
        calls.append((problems.size, problems.d))
        return estimate(problems)

    problems = boxes(np.full((5, 4), -INF), np.ones((5, 4)), np.linalg.cholesky(np.eye(4) + 1.0))
    conditional.differentiate(problems, ("cov",), estimate(problems), counted)
    assert calls == [(20, 3), (30, 2)]


def test_the_structured_method_may_solve():
    upper, c, v = random_one_factor(np.random.default_rng(7), 6, "ordinary")
    problems = one_factor(np.full(6, -INF), upper, c, v)
    request = fixed_points(8192, 1)

    def solve(p):
        return structured.integrate(p, request, tilted=False)

    found = conditional.differentiate(problems, ("upper", "cov"), solve(problems), solve)
    truth = one_factor_derivatives(upper, c, v, hessian=True)
    m = np.array(truth.m, dtype=float)
    judge(found, "upper", m)
    judge(found, "cov", 0.5 * (np.array(truth.hessian, dtype=float) + np.outer(m, m)))
    assert found.error["upper"].max() < 0.01 * m.max()


def random_orthant(rng, kind):
    m, c, v = random_case(rng, kind)
    return one_factor(np.full(m.size, -INF), m, c, v)


def by_structured_genz(problems, n, seed):
    def solve(p):
        return structured.integrate(p, fixed_points(n, seed), tilted=False)

    return conditional.differentiate(problems, ("upper",), solve(problems), solve)


def share_outside(kind, count, n):
    """Share of entries that are further off than they say."""
    rng = np.random.default_rng(KINDS.index(kind))
    outside = entries = 0
    for seed in range(count):
        problems = random_orthant(rng, kind)
        found = by_structured_genz(problems, n, seed)
        truth = one_factor_rule.derivatives(problems, ("m",)).derivatives
        gap = np.abs(found.value["upper"] - truth.value["m"])
        assert (found.error["upper"] > 0.0).all()
        outside += np.sum(gap > found.error["upper"] + truth.error["m"])
        entries += gap.size
    return outside / entries


@pytest.mark.parametrize("kind", KINDS)
def test_sample_is_inside_the_stated_errors(kind):
    # Entries of one problem share their points and so their luck: a sample may have 2 %.
    assert share_outside(kind, 30, 1024) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 8192])
def test_inside_the_stated_errors(n):
    assert np.mean([share_outside(kind, 200, n) for kind in KINDS]) <= 0.01


def test_errors_shrink_with_points():
    problems = one_factor(np.full(9, -INF), np.linspace(-0.5, 1.5, 9), np.ones(9), np.ones(9))
    few, many, too_few = (by_structured_genz(problems, n, 0) for n in (256, 2**15, 7))
    assert np.all(many.error["upper"] < 0.1 * few.error["upper"])
    assert np.all(many.error["upper"] < 0.02 * many.value["upper"].max())
    assert np.isinf(too_few.error["upper"]).all()
    assert np.isfinite(too_few.value["upper"]).all()


limit = st.floats(-3.0, 3.0)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    coordinates=st.lists(
        st.tuples(limit, st.floats(0.0, 3.0), st.booleans(), st.booleans()), min_size=1, max_size=6
    ),
    seed=st.integers(0, 100),
)
@example(coordinates=[(2.5, 0.001953125, False, False)], seed=0)  # narrow
def test_any_small_box(coordinates, seed):
    """With one factor: the two types of problems agree, and both with the scale of all."""
    d = len(coordinates)
    rng = np.random.default_rng(seed)
    c, v = rng.uniform(0.2, 3.0, d), rng.normal(size=d)
    lower = np.array([-INF if open_ else a for a, _, open_, _ in coordinates])
    upper = np.array([INF if open_ else a + w for a, w, _, open_ in coordinates])
    problems = one_factor(lower, upper, c, v)
    turn = np.linalg.qr(rng.normal(size=(d + 1, d + 1)))[0]
    dense = problems.dense()
    turned = boxes(lower, upper, dense.covariance.factor[0] @ turn)
    first, second = derivatives(problems, rtol=1e-4), derivatives(turned, rtol=1e-4)
    for name in first.value:
        bound = first.error[name] + second.error[name]
        assert np.all(np.abs(first.value[name] - second.value[name]) <= bound)
    cov = dense.covariance.matrix()[0]
    if np.isfinite(first.error["cov"]).all():
        # P is the same for any unit of length.
        ends = [np.where(np.isfinite(a), a, 0.0) for a in (lower, upper)]
        total = 2.0 * np.sum(first.value["cov"][0] * cov)
        total += ends[0] @ first.value["lower"][0] + ends[1] @ first.value["upper"][0]
        assert abs(total) <= 1e-12 + 2.0 * np.sum(first.error["cov"][0] * np.abs(cov))
