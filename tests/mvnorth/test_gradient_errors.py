"""Derivatives are within their errors: all methods agree, and what no point saw is not claimed."""

import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from support.gradients import LIMITS, compare, covariance, random_limits

import mvnorth
from validation.problems import problems, reference_gradient

INF = math.inf


def gradient(problem, names, method, **options):
    limits = (problem.lower, problem.upper, 0.0, problem.cov)
    return mvnorth.box_grad(*limits, wrt=names, method=method, log=True, **options)


def agreement(most, names, methods, **options):
    """Share of the entries, over the table, in which a method leaves the errors of "auto"."""
    outside = entries = 0
    worst = []
    for problem in problems():
        if len(problem.lower) > most:
            continue
        auto = gradient(problem, names, "auto", **options)
        for method in methods:
            found = gradient(problem, names, method, **options)
            beyond, count = compare(found, auto, names)
            outside, entries = outside + beyond, entries + count
            if beyond:
                worst.append((problem.name, method, int(beyond), count))
    return outside / entries, worst


@pytest.mark.slow
def test_methods_agree_on_the_table_in_limits():
    share, worst = agreement(20, LIMITS, ("pathwise", "tilting"), n=4096)
    assert share <= 0.01, worst


def test_conditional_agrees_on_the_table_in_limits():
    share, worst = agreement(9, LIMITS, ("conditional", "pinned"), n=4096)
    assert share <= 0.01, worst


def test_methods_agree_on_the_table_in_the_covariance():
    share, worst = agreement(9, ("mean", "cov"), ("pathwise", "tilting"), n=4096)
    assert share <= 0.01, worst
    share, worst = agreement(5, ("cov",), ("conditional",), n=4096)
    assert share <= 0.01, worst


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_methods_agree_on_the_whole_table(seed):
    share, worst = agreement(100, (*LIMITS, "cov"), ("pathwise", "tilting"), n=8192, seed=seed)
    assert share <= 0.01, worst
    share, worst = agreement(20, LIMITS, ("conditional", "pinned"), n=8192, seed=seed)
    assert share <= 0.01, worst


@pytest.mark.parametrize("name", ["a_exch_d9", "a_exch_d99", "e_orth_d99", "f_onefac_d50"])
def test_stored_gradients(name):
    """Gradients of log P from 40 digits."""
    (problem,) = (p for p in problems() if p.name == name)
    truth = reference_gradient(name)
    found = gradient(problem, ("upper",), "auto")
    np.testing.assert_allclose(found.grad_upper, truth, rtol=1e-10)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_all_ways_agree_for_random_covariances(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 13))
    problem = (*random_limits(rng, d), rng.normal(size=d) / 3, covariance(rng, d))
    log = bool(rng.integers(2))
    options = {"n": 4096, "seed": seed, "log": log}
    tilted = mvnorth.box_grad(*problem, wrt=(*LIMITS, "cov"), method="tilting", **options)
    for method, names in (
        ("auto", (*LIMITS, "cov")),
        ("pathwise", (*LIMITS, "cov")),
        ("conditional", (*LIMITS, "cov") if d <= 5 else LIMITS),
        ("pinned", LIMITS),
    ):
        found = mvnorth.box_grad(*problem, wrt=names, method=method, **options)
        # Each of the errors holds in 99 of 100 cases; doubled, in all of these.
        assert compare(tilted, found, names, 2.0)[0] == 0, (method, seed)


def test_errors_between_blocks_are_those_of_the_means():
    """Half the product of two means' derivatives, each with its error."""
    rng = np.random.default_rng(14)
    cov = np.zeros((8, 8))
    cov[:4, :4], cov[4:, 4:] = covariance(rng, 4), covariance(rng, 4)
    found = mvnorth.cdf_grad(rng.normal(size=8), cov=cov, wrt=("mean", "cov"), log=True)
    assert found.method == "gauss"
    g, error = np.abs(found.grad_mean), found.grad_mean_error
    expected = 0.5 * (np.outer(g, error) + np.outer(error, g) + np.outer(error, error))
    np.testing.assert_allclose(found.grad_cov_error[:4, 4:], expected[:4, 4:], rtol=1e-6)
    np.testing.assert_allclose(found.grad_cov[:4, 4:], 0.5 * np.outer(g, g)[:4, 4:], rtol=1e-12)


@pytest.mark.parametrize("n", [8, 16, 32])
def test_few_points_claim_nothing(n):
    cov = covariance(np.random.default_rng(15), 4)
    for method in ("pathwise", "tilting", "pinned"):
        found = mvnorth.cdf_grad(np.full(4, 0.5), cov=cov, method=method, maxpts=n, log=True)
        assert found.n < 64
        assert (found.grad_x_error >= np.abs(found.grad_x)).all(), method


def test_every_method_says_something():
    """Errors that are infinite, or of the size of the derivatives, would make all others pass."""
    rng = np.random.default_rng(10)
    problem = (-1.5, rng.normal(0.7, 0.5, 5), 0.1, covariance(rng, 5))
    for method in ("pathwise", "tilting", "conditional", "pinned"):
        names = LIMITS if method == "pinned" else (*LIMITS, "cov")
        found = mvnorth.box_grad(*problem, 2**14, wrt=names, method=method, log=True)
        for name in names:
            size = np.abs(getattr(found, f"grad_{name}")).max()
            assert (getattr(found, f"grad_{name}_error") < 0.02 * size).all(), (method, name)


@pytest.mark.parametrize("x", [3.0, 4.0, 5.0, 7.0])
@pytest.mark.parametrize("method", ["pathwise", "tilting", "pinned"])
def test_faces_that_no_point_has_seen(x, method):
    """Far limits: a density of 1e-6 that all points miss must not be claimed to be zero."""
    cov = 0.9 ** np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    for lower in (-x, -INF):
        names = LIMITS if method == "pinned" else (*LIMITS, "cov")
        exactly = mvnorth.box_grad(lower, x, 0.0, cov, wrt=names)
        assert exactly.method == "markov"
        found = mvnorth.box_grad(lower, x, 0.0, cov, wrt=names, method=method)
        for name in names:
            gap = np.abs(getattr(found, f"grad_{name}") - getattr(exactly, f"grad_{name}"))
            bound = getattr(found, f"grad_{name}_error") + getattr(exactly, f"grad_{name}_error")
            assert (gap <= bound).all(), name
            assert np.isfinite(bound).all(), name


@pytest.mark.parametrize("gap", [1e-5, 1e-8, 1e-11, 1e-13])
def test_nearly_dependent_coordinates(gap):
    """Two coordinates that differ by 1e-6 share a face; one of them may hide behind the other."""
    cov = np.eye(4) * 0.6 + 0.4
    cov[0, 1] = cov[1, 0] = 1.0 - gap
    x = np.array([0.3, 0.3, 0.2, 0.1])
    names = ("x", "cov")
    judge = mvnorth.cdf_grad(x, cov=cov, wrt=names, log=True, method="conditional")
    assert (judge.grad_x_error < 1e-2).all()
    found = mvnorth.cdf_grad(x, cov=cov, wrt=names, log=True)
    assert compare(found, judge, names)[0] == 0


@pytest.mark.parametrize("gap", [1e-4, 1e-8, 1e-10, 1e-12, 1e-13])
@pytest.mark.parametrize("method", ["pathwise", "tilting", "pinned"])
def test_boxes_that_squeeze(gap, method):
    """A limit of one coordinate makes the density of its twin as high as the box is narrow."""
    cov = np.array([[1.0, 1.0 - gap], [1.0 - gap, 1.0]])
    names = LIMITS if method == "pinned" else (*LIMITS, "cov")
    for lower in (0.7, 0.9, 1.0):
        problem = ([0.46, lower], [1.03, 2.97], 0.0, cov)
        exactly = mvnorth.box_grad(*problem, wrt=names, log=True)
        assert exactly.grad_upper_error[0] < 1e-2 * exactly.grad_upper[0]
        for seed in range(3):
            found = mvnorth.box_grad(*problem, 1024, wrt=names, method=method, log=True, seed=seed)
            assert compare(found, exactly, names)[0] == 0, (lower, seed)


def test_faces_far_out_have_no_part_in_the_rounding_of_others():
    """Derivatives in covariances of 1e-22 beside others of 0.6."""
    rng = np.random.default_rng(16)
    for _ in range(20):
        cov = covariance(rng, 3)
        upper = np.array([rng.normal(), 9.0 * np.sqrt(cov[1, 1]), rng.normal()])
        problem = (upper - [0.5, INF, 0.5], upper, 0.0, cov)
        exactly = mvnorth.box_grad(*problem, wrt="cov", log=True)
        for method in ("pathwise", "tilting"):
            found = mvnorth.box_grad(*problem, 1024, wrt="cov", method=method, log=True)
            assert compare(found, exactly, ("cov",))[0] == 0, method


def test_boxes_that_squeeze_one_of_five():
    """The same where "auto" samples, against the box without the twin."""
    A = np.random.default_rng(0).normal(size=(4, 4))
    cov = A @ A.T + 0.3 * np.eye(4)
    deviation = np.sqrt(np.diag(cov))
    cov /= np.outer(deviation, deviation)
    lower, upper = np.array([-0.5, -0.5, -0.5, 0.7]), np.array([1.5, 1.5, 1.5, 1.03])
    judge = mvnorth.box_grad(lower, upper, 0.0, cov, 2**16, wrt="upper", log=True)
    assert judge.grad_upper_error[3] < 1e-2
    twins = cov[np.ix_([0, 1, 2, 3, 3], [0, 1, 2, 3, 3])]
    twins[3, 4] = twins[4, 3] = 1.0 - 1e-12
    problem = ([-0.5, -0.5, -0.5, 0.46, 0.7], [*upper, 2.97], 0.0, twins)
    for seed in range(4):
        found = mvnorth.box_grad(*problem, 8192, wrt="upper", log=True, seed=seed)
        wrong = abs(found.grad_upper[3] - judge.grad_upper[3])
        assert wrong <= found.grad_upper_error[3] + judge.grad_upper_error[3]


@pytest.mark.parametrize("method", ["pathwise", "tilting", "pinned"])
def test_one_face_does_not_spoil_the_others(method):
    """Limits that hardly any point comes near are known to matter little."""
    rng = np.random.default_rng(8)
    d = 20
    L = np.tril(rng.normal(0.0, 0.5, (d, d)), -1) + np.diag(rng.uniform(0.6, 1.4, d))
    mean = rng.normal(0.0, 0.3, d)
    lower, upper = mean - rng.uniform(0.5, 2.0, d), mean + rng.uniform(0.5, 2.0, d)
    lower[1], upper[2] = -INF, INF
    names = LIMITS if method == "pinned" else (*LIMITS, "cov")
    one, other = (
        mvnorth.box_grad(
            lower, upper, mean, L @ L.T, 2**14, wrt=names, method=method, log=True, seed=seed
        )
        for seed in range(2)
    )
    assert compare(one, other, names)[0] == 0
    assert max(getattr(one, f"grad_{name}_error").max() for name in LIMITS) < 0.1
    if "cov" in names:
        assert np.median(one.grad_cov_error) < 0.02
        assert one.grad_cov_error.max() < 2.0


def test_errors_in_the_covariance_are_numbers_where_p_underflows():
    """What is certain of a density over P is beyond all numbers, and what points say is not."""
    rng = np.random.default_rng(3)
    d = 6
    c, v, m = 10 ** rng.uniform(-8.0, -2.0, d), rng.normal(size=d), rng.normal(size=d)
    exactly = mvnorth.orthant_grad(m, mvnorth.OneFactor(c, v), wrt=("m", "cov"), log=True)
    assert exactly.log_prob < -1e4
    L = np.linalg.cholesky(np.diag(c) + np.outer(v, v))
    found = mvnorth.orthant_grad(m, L, 8192, wrt=("m", "cov"), method="tilting", log=True)
    assert compare(found, exactly, ("m", "cov"))[0] == 0
    assert found.grad_cov_error.max() < 0.01 * np.abs(exactly.grad_cov).max()


def test_points_without_weight_have_pinned_weight():
    """Where a part of the points has next to no weight, its pinned ones may have some."""
    cov = [[1.0, 0.9999], [0.9999, 1.0]]
    problem = ([-1.0, 0.5], [1.0, 3.0], 0.0, cov)
    exactly = mvnorth.box_grad(*problem, log=True)
    found = mvnorth.box_grad(*problem, 2**18, log=True, method="pinned")
    for name in ("lower", "upper"):
        value = getattr(exactly, f"grad_{name}")
        np.testing.assert_allclose(getattr(found, f"grad_{name}"), value, atol=1e-6)
        assert (getattr(found, f"grad_{name}_error") < 0.01).all()


def test_narrow_boxes_whose_limits_were_rounded():
    """What is lost when the mean is taken off a width of 1e-7 is in the errors."""
    rng = np.random.default_rng(11)
    for _ in range(50):
        lower, mean = rng.uniform(-3.0, 3.0, 2)
        upper = lower + 10 ** rng.uniform(-9.0, -6.0)
        found = mvnorth.box_grad([lower], [upper], [mean], [[1.0]], log=True)
        with mpmath.workdps(40):
            a, b = mpmath.mpf(lower) - mpmath.mpf(mean), mpmath.mpf(upper) - mpmath.mpf(mean)
            true = mpmath.npdf(b) / (mpmath.ncdf(b) - mpmath.ncdf(a))
            wrong = abs(float(found.grad_upper[0] - true))
        assert wrong <= found.grad_upper_error[0]
        assert found.grad_upper_error[0] <= 2e-5 * found.grad_upper[0]
    for method in ("pathwise", "tilting", "conditional"):
        cov = covariance(rng, 4)
        box = mvnorth.box_grad(1e-15, 2e-15, 0.1, cov, 1024, wrt="upper", method=method, log=True)
        assert (np.abs(box.grad_upper - 1e15) <= box.grad_upper_error).all()


def test_kinks_and_steps_have_no_derivative():
    """Two equal coordinates with the same limit; a constant at its limit."""
    for method in ("auto", "pathwise", "tilting", "conditional"):
        ones = np.ones((2, 2))
        found = mvnorth.box_grad(-1.0, 1.0, 0.0, ones, 512, wrt=(*LIMITS, "cov"), method=method)
        for name in (*LIMITS, "cov"):
            assert np.isinf(getattr(found, f"grad_{name}_error")).all(), (method, name)
        apart = mvnorth.box_grad(-1.0, [1.0, 1.5], 0.0, ones, 512, wrt="upper", method=method)
        np.testing.assert_allclose(apart.grad_upper, [norm.pdf(1.0), 0.0], atol=1e-12)
        assert np.isfinite(apart.grad_upper_error).all()
        step = mvnorth.box_grad(
            -INF, [1.0, 0.0], 0.0, np.diag([1.0, 0.0]), wrt="upper", method=method
        )
        assert np.isinf(step.grad_upper_error[1]), method
        assert step.grad_upper_error[0] < 1e-3
    L = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert np.isinf(
        mvnorth.orthant_grad([0.3, 0.3], L, wrt="L").grad_L_error[np.tril_indices(2)]
    ).all()


def test_constants_at_one_of_their_limits():
    cov = np.diag([1.0, 0.0])
    for method in ("auto", "tilting", "conditional"):
        for lower, upper, unknown in ((0.0, 2.0, "lower"), (-2.0, 0.0, "upper")):
            found = mvnorth.box_grad(
                [-1.0, lower], [1.0, upper], 0.0, cov, wrt=LIMITS, method=method
            )
            assert np.isinf(found.grad_mean_error[1])
            assert np.isinf(found.grad_lower_error[1]) == (unknown == "lower"), method
            assert np.isinf(found.grad_upper_error[1]) == (unknown == "upper"), method


@pytest.mark.parametrize("method", ["auto", "pathwise", "tilting", "conditional"])
def test_opposite_coordinates_that_bind_both_sides(method):
    """Limits on X and -X are the two of an interval: neither is at the other's."""
    m = np.array([0.3, 3.0])
    found = mvnorth.orthant_grad(m, [[1.0, 0.0], [-1.0, 0.0]], 1024, method=method)
    np.testing.assert_allclose(found.grad_m, norm.pdf(m), rtol=1e-10)
    assert (found.grad_m_error < 1e-7).all()


@pytest.mark.parametrize("m", [-40.0, -1e3, -1e4, -1e6])
def test_closed_forms_far_out(m):
    """Quotients of numbers whose logarithms are rounded are not the last word on derivatives."""
    with mpmath.workdps(40):
        true = float(mpmath.npdf(m) / mpmath.ncdf(m))
    one = mvnorth.orthant_grad([m], [[1.0]], wrt=("m", "cov"), log=True)
    assert one.log_prob == mvnorth.orthant([m], [[1.0]]).log_prob
    assert abs(one.grad_m[0] - true) <= one.grad_m_error[0] <= 1e-12 * true
    # Scaling both by s is scaling the unit by 1/s.
    np.testing.assert_allclose(one.grad_cov, -0.5 * m * true, rtol=1e-12)
    L = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    two = mvnorth.orthant_grad([m, m], L, log=True)
    assert two.log_prob == mvnorth.orthant([m, m], L).log_prob
    # P is about exp(-m**2 / (1 + rho)) / m**2.
    np.testing.assert_allclose(two.grad_m, -m / 1.5 - 1.0 / m, rtol=3.0 / m**2)
    assert two.grad_m_error.max() <= 1e-13 * m**2 * abs(m)


def test_scales_beyond_all_numbers():
    for scale in (1e-170, 1e-155, 1e150):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = mvnorth.orthant_grad(
                np.full(3, 0.3 * scale), scale * np.eye(3), wrt=("m", "L", "cov"), log=True
            )
        for name in ("m", "L", "cov"):
            value, error = getattr(found, f"grad_{name}"), getattr(found, f"grad_{name}_error")
            assert np.isfinite(value).all()
            assert not np.isnan(error).any()
        assert np.isinf(found.grad_cov_error).all() == (scale < 1.0)
