"""Derivatives of the Genz estimate for any covariance: exact ones of it, and honest ones of P."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri
from support.boxes import fixed_points, within
from support.gradients import covariance, random_limits

import mvnorth
from mvnorth import OneFactor, _checks, qmc
from mvnorth._methods import genz, pathwise, tilt

INF = math.inf
ALL = ("lower", "upper", "mean", "cov", "factor")


def derivative_along(function, step):
    """Derivative at 0 of a function of a number: differences of fourth order."""
    f = [function(k * step) for k in (-2, -1, 1, 2)]
    return (f[0] - 8.0 * f[1] + 8.0 * f[2] - f[3]) / (12.0 * step)


@pytest.mark.parametrize("d", [1, 2, 5, 16, 17, 33])
def test_orthant_gradient_is_that_of_the_estimate(d):
    rng = np.random.default_rng(d)
    L, m = np.linalg.cholesky(covariance(rng, d)), rng.normal(0.5, 1.0, d)
    found = mvnorth.orthant_grad(m, L, 2000, wrt=("m", "L", "cov"), method="pathwise", log=True)

    def value(m, L):
        return mvnorth.orthant(m, L, 2000, method="genz").log_prob

    assert found.log_prob == value(m, L)
    for i in rng.permutation(d)[:5]:
        unit = np.eye(d)[i]
        expected = derivative_along(lambda h, unit=unit: value(m + h * unit, L), 1e-4)
        assert found.grad_m[i] == pytest.approx(expected, abs=1e-8)
    for _ in range(4):
        direction = np.tril(rng.normal(size=(d, d))) / d
        expected = derivative_along(lambda h, way=direction: value(m, L + h * way), 1e-4)
        assert np.sum(found.grad_L * direction) == pytest.approx(expected, abs=1e-8)
        direction = direction @ L.T + L @ direction.T
        expected = derivative_along(
            lambda h, way=direction: value(m, np.linalg.cholesky(L @ L.T + h * way)), 1e-4
        )
        assert np.sum(found.grad_cov * direction) == pytest.approx(expected, abs=2e-8)
    np.testing.assert_array_equal(found.grad_L, np.tril(found.grad_L))
    np.testing.assert_allclose(found.grad_cov, found.grad_cov.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.tril(2.0 * found.grad_cov @ L), found.grad_L, atol=1e-10)
    plain = mvnorth.orthant_grad(m, L, 2000, wrt=("m", "L"), method="pathwise")
    np.testing.assert_allclose(plain.grad_m, found.grad_m * plain.prob, rtol=1e-14)
    np.testing.assert_allclose(plain.grad_L, found.grad_L * plain.prob, rtol=1e-14)


@pytest.mark.parametrize("d", [1, 3, 9, 20])
def test_box_gradient_is_that_of_the_estimate(d):
    rng = np.random.default_rng(d)
    cov, (lower, upper), mean = covariance(rng, d), random_limits(rng, d), rng.normal(size=d) / 3
    names = ("lower", "upper", "mean", "cov")
    found = mvnorth.box_grad(lower, upper, mean, cov, 1500, wrt=names, method="pathwise", log=True)

    def value(lower, upper, mean, cov):
        return mvnorth.box(lower, upper, mean, cov, 1500, method="genz").log_prob

    for name in names:
        for _ in range(4):
            shape = (d, d) if name == "cov" else (d,)
            direction = rng.normal(size=shape) / d
            direction = direction + direction.T if name == "cov" else direction

            def along(h, name=name, direction=direction):
                point = {"lower": lower, "upper": upper, "mean": mean, "cov": cov}
                return value(**(point | {name: point[name] + h * direction}))

            expected = derivative_along(along, 1e-4)
            along_it = np.sum(getattr(found, f"grad_{name}") * direction)
            assert along_it == pytest.approx(expected, abs=2e-8), name
    assert (found.grad_lower[np.isinf(lower)] == 0.0).all()
    assert (found.grad_upper[np.isinf(upper)] == 0.0).all()


def held_estimate(base, system, log_scale, u):
    """log mean weight as a function of T and its limits, with the draws' distribution held.

    In numpy, variable by variable: y is a linear function of z that does not depend on T.
    """
    d = base.order.shape[1]
    T0, Tt = base.T[0, :d, :d], system.T[0, :d, :d]
    stretch, shift, slope, curve = (
        a[0] for a in (system.stretch, system.shift, system.slope, system.curve)
    )

    def value(T, lower, upper):
        z, y = np.zeros((2, len(u), d))
        log_weight = np.full(len(u), log_scale)
        for i in range(d):
            a = -y[:, :i] @ Tt[i, :i]
            moved = z[:, :i] @ (T - T0)[i, :i]
            low, high = (stretch[i] * (limit[i] - moved) + shift[i] + a for limit in (lower, upper))
            below = ndtr(low)
            e = ndtr(high) - below
            y[:, i] = ndtri(below + u[:, i] * e)
            log_weight += np.log(e) + slope[i] * a + curve[i] * a**2
            z[:, i] = (y[:, i] - a - shift[i]) / stretch[i] - z[:, :i] @ T0[i, :i]
        return logsumexp(log_weight) - math.log(len(u))

    return value


@pytest.mark.parametrize("box", [False, True])
def test_tilted_gradient_is_that_with_the_tilt_held(box):
    rng = np.random.default_rng(3)
    d, n = 7, 1024
    cov = covariance(rng, d)
    upper = rng.normal(-0.5, 0.5, d)
    lower = upper - 2.0 if box else np.full(d, -INF)
    problems, _ = _checks.box_problems(lower, upper, np.zeros(d), cov)
    found = pathwise.differentiate(problems, fixed_points(n, wrt=ALL), tilted=True)
    base = genz.System.of(problems)
    system, tilted = base.tilted(problems.covariance.singular)
    assert (system.curve != 0.0).any()  # it is of second order
    points = np.arange(n // 8)[:, None] * qmc.lattice_vector(d) / (n // 8)
    x = (points + qmc.random_shifts(0, 8, d)[:, None]).reshape(-1, d)
    u = 1.0 - np.abs(2.0 * (x - np.floor(x)) - 1.0)
    # ``interval_parts`` counts shares from the side of the smaller tail, which is the lower one
    # for upper limits alone; boxes are compared within what points decide otherwise.
    value = held_estimate(base, system, tilted.log_scale[0], u)
    order, unit = base.order[0], base.unit[0]

    def along(h, way):
        moved = np.linalg.cholesky((cov + h * way["cov"])[np.ix_(order, order)])
        scale = np.diagonal(moved) * np.sign(unit)
        T = np.sign(unit)[:, None] * moved / scale[:, None] * np.sign(unit)
        limits = (
            (upper + h * way["upper"])[order] / scale,
            (lower + h * way["lower"])[order] / scale,
        )
        low, high = np.minimum(*limits), np.maximum(*limits)
        return value(np.tril(T, -1), low, high)

    zero = {"upper": np.zeros(d), "lower": np.zeros(d), "cov": np.zeros((d, d))}
    exact = not box
    assert along(0.0, zero) == pytest.approx(found.log_prob[0], abs=1e-11 if exact else 1e-3)
    scale = problems.covariance.scale[0]
    for name in ("upper", "cov") if exact else ("lower", "upper", "cov"):
        units = np.outer(scale, scale) if name == "cov" else scale
        for _ in range(3):
            way = rng.normal(size=(d, d) if name == "cov" else d) / d
            way = way + way.T if name == "cov" else way
            expected = derivative_along(
                lambda h, name=name, way=way: along(h, zero | {name: way}), 1e-4
            )
            along_it = np.sum(found.derivatives.value[name][0] / units * way)
            assert along_it == pytest.approx(expected, abs=1e-8 if exact else 5e-3), name


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_scaling_changes_nothing(seed):
    """P does not depend on the units of a coordinate: exact for the estimate as well."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 13))
    cov, (lower, upper) = covariance(rng, d), random_limits(rng, d)
    way = str(rng.choice(["pathwise", "tilting"]))
    names = ("lower", "upper", "mean", "cov")
    found = mvnorth.box_grad(lower, upper, 0.0, cov, 512, wrt=names, method=way, log=True)
    limits = sum(
        np.where(np.isfinite(limit), limit, 0.0) * grad
        for limit, grad in ((lower, found.grad_lower), (upper, found.grad_upper))
    )
    size = 1.0 + np.abs(limits).max() + np.abs(found.grad_cov * cov).max()
    spread = 0.0 if way == "pathwise" else np.sum(found.grad_cov_error * np.abs(cov), axis=1)
    rest = np.abs(limits + 2.0 * np.sum(found.grad_cov * cov, axis=1))
    assert (rest <= 1e-10 * size + spread).all()
    np.testing.assert_allclose(
        found.grad_mean, -(found.grad_lower + found.grad_upper), atol=1e-11 * size
    )


def one_factor_case(rng, kind):
    d = int(rng.integers(2, 13))
    m = rng.normal(rng.normal(0.5, 1.5), 1.0, d)
    c, v = rng.lognormal(size=d), rng.normal(size=d)
    if kind == "tail":
        m -= rng.uniform(3.0, 40.0)
    if kind == "sure":
        m = np.abs(m) + rng.uniform(2.0, 4.0)
    return m, c, v


def count_outside(method, kind, problems, n):
    """Of the entries of all gradients: how many are further off than they say, and how many."""
    rng = np.random.default_rng(17)
    outside = entries = 0
    for seed in range(problems):
        m, c, v = one_factor_case(rng, kind)
        cov = OneFactor(c, v)
        L = np.linalg.cholesky(cov.dense())
        exactly = mvnorth.orthant_grad(m, cov, log=True).grad_m
        hessian = mvnorth.orthant_hessian(m, cov, log=True)
        by_cov = 0.5 * (hessian + np.outer(exactly, exactly))
        truth = {"m": exactly, "cov": by_cov, "L": np.tril(2.0 * by_cov @ L)}
        found = mvnorth.orthant_grad(
            m, L, n, wrt=("m", "cov", "L"), method=method, log=True, seed=seed
        )
        for name, true in truth.items():
            size = np.abs(true)
            wrong = np.abs(getattr(found, f"grad_{name}") - true)
            bound = getattr(found, f"grad_{name}_error") + 1e-10 * size + 1e-12 * size.max()
            outside += np.sum(wrong > bound)
            entries += true.size
    return outside, entries


@pytest.mark.parametrize("kind", ["ordinary", "tail", "sure"])
@pytest.mark.parametrize("method", ["pathwise", "tilting"])
def test_sample_is_inside_the_stated_errors(method, kind):
    outside, entries = count_outside(method, kind, 30, 1024)
    assert outside <= 0.02 * entries


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 8192])
@pytest.mark.parametrize("method", ["pathwise", "tilting"])
def test_inside_the_stated_errors(method, n):
    counts = [count_outside(method, kind, 200, n) for kind in ("ordinary", "tail", "sure")]
    assert np.mean([outside / entries for outside, entries in counts]) <= 0.01


def test_errors_are_of_use():
    rng = np.random.default_rng(0)
    for kind in ("ordinary", "tail"):
        m, c, v = one_factor_case(rng, kind)
        L = np.linalg.cholesky(OneFactor(c, v).dense())
        few, many = (
            mvnorth.orthant_grad(m, L, n, wrt=("m", "cov"), method="tilting", log=True)
            for n in (1024, 2**16)
        )
        for name in ("m", "cov"):
            size = np.abs(getattr(many, f"grad_{name}")).max()
            assert getattr(many, f"grad_{name}_error").max() < 2e-3 * size
            error = getattr(few, f"grad_{name}_error").max()
            assert getattr(many, f"grad_{name}_error").max() < 0.2 * error


@pytest.mark.parametrize("method", ["pathwise", "tilting"])
@pytest.mark.parametrize("n", [5, 64, 3000, None])
def test_the_value_is_that_of_orthant(method, n):
    rng = np.random.default_rng(1)
    L, m = np.linalg.cholesky(covariance(rng, 6)), rng.normal(size=(3, 6))
    found = mvnorth.orthant_grad(m, L, n, wrt=("m", "L"), method=method, seed=4)
    value = mvnorth.orthant(m, L, n, method="genz" if method == "pathwise" else method, seed=4)
    for name in ("prob", "log_prob", "error", "rel_error", "n", "status", "log_bound"):
        np.testing.assert_array_equal(getattr(found, name), getattr(value, name))
    assert (found.method == method).all()
    if n == 5:
        assert np.isinf(found.grad_m_error).all()
        assert np.isfinite(found.grad_m).all()


def test_a_singular_covariance_has_derivatives_in_the_means():
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(6, 3))
    cov, x = factor @ factor.T, rng.normal(1.0, 0.5, 6)
    names = ("lower", "upper", "mean", "cov")
    found = mvnorth.box_grad(-3.0, x, 0.0, cov, 4096, wrt=names, method="pathwise", log=True)

    def value(x, mean):
        return mvnorth.box(-3.0, x, mean, cov, 4096, method="genz").log_prob

    for i in range(6):
        unit = np.eye(6)[i]
        # Which of the tied limits binds changes with the limits at single points.
        expected = derivative_along(lambda h, unit=unit: value(x + h * unit, 0.0), 1e-6)
        assert found.grad_upper[i] == pytest.approx(expected, abs=1e-3)
        expected = derivative_along(lambda h, unit=unit: value(x, h * unit), 1e-6)
        assert found.grad_mean[i] == pytest.approx(expected, abs=1e-3)
    assert np.isinf(found.grad_cov_error).all()
    assert np.isfinite(found.grad_upper_error).all()


def test_far_limits_and_certain_ones():
    L = np.linalg.cholesky(np.eye(4) + 0.5)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        found = mvnorth.orthant_grad(
            [40.0, 1.0, 1e12, 0.0], L, 512, wrt=("m", "L"), method="tilting"
        )
    assert found.grad_m[0] < 1e-200
    assert found.grad_m[2] == 0.0
    assert np.isfinite(found.grad_L).all()
    far = mvnorth.orthant_grad(
        np.full(4, -300.0), L, 512, wrt=("m", "L"), method="tilting", log=True
    )
    exactly = mvnorth.orthant_grad(
        np.full(4, -300.0), OneFactor(np.ones(4), np.full(4, 0.5**0.5)), log=True
    )
    assert (np.abs(far.grad_m - exactly.grad_m) <= far.grad_m_error).all()
    assert (far.grad_m_error < 1e-3 * far.grad_m).all()


def test_adaptive_derivatives_are_those_of_all_points_used():
    """Rows of a batch that need different numbers of points, and more of them than a few parts."""
    rng = np.random.default_rng(4)
    covs = np.stack([covariance(rng, 4) for _ in range(3)])
    x = np.array([[2.0] * 4, [-1.5] * 4, [0.2] * 4])
    problems, _ = _checks.box_problems(-INF, x, 0.0, covs)
    found = pathwise.solve(problems, within(2e-5, 2**17, 1, ALL))
    assert len(set(found.n.tolist())) > 1
    for k in range(3):
        fixed = fixed_points(int(found.n[k]), 1, ALL)
        alone = pathwise.solve(problems.take(slice(k, k + 1)), fixed)
        for name in ALL:
            np.testing.assert_allclose(
                found.derivatives.value[name][k],
                alone.derivatives.value[name][0],
                rtol=1e-9,
                atol=1e-12,
            )


def test_sums_over_many_parts(monkeypatch):
    rng = np.random.default_rng(5)
    problems, _ = _checks.box_problems(-INF, rng.normal(size=3), 0.0, covariance(rng, 3))
    found = pathwise.solve(problems, fixed_points(2**18, wrt=ALL))
    monkeypatch.setattr(pathwise, "_PARTS", 1000)
    whole = pathwise.solve(problems, fixed_points(2**18, wrt=ALL))
    for name in ALL:
        np.testing.assert_allclose(
            found.derivatives.value[name], whole.derivatives.value[name], rtol=1e-11, atol=1e-13
        )


def test_large_problems_are_tilted_alike(monkeypatch):
    rng = np.random.default_rng(6)
    problems, _ = _checks.box_problems(-INF, rng.normal(-0.5, 1.0, 6), 0.0, covariance(rng, 6))
    small = pathwise.differentiate(problems, fixed_points(1024, wrt=ALL), tilted=True)
    monkeypatch.setattr(tilt, "_LARGE", 4)
    large = pathwise.differentiate(problems, fixed_points(1024, wrt=ALL), tilted=True)
    for name in ALL:
        gap = np.abs(small.derivatives.value[name] - large.derivatives.value[name])
        assert (gap <= 1e-8 + 1e-2 * small.derivatives.error[name]).all(), name


def test_singular_covariances_with_a_tilt():
    rng = np.random.default_rng(7)
    factor = rng.normal(size=(6, 3))
    cov, x = factor @ factor.T, rng.normal(1.0, 0.5, 6)
    judge = mvnorth.box_grad(-3.0, x, 0.0, cov, method="conditional", log=True)
    found = mvnorth.box_grad(-3.0, x, 0.0, cov, 2**15, method="tilting", log=True)
    for name in ("lower", "upper"):
        gap = np.abs(getattr(found, f"grad_{name}") - getattr(judge, f"grad_{name}"))
        errors = getattr(found, f"grad_{name}_error") + getattr(judge, f"grad_{name}_error")
        assert (gap <= errors).all()
        assert np.isfinite(getattr(found, f"grad_{name}_error")).all()


def test_one_coordinate():
    found = mvnorth.orthant_grad(
        [0.5], [[2.0]], 64, wrt=("m", "L", "cov"), method="pathwise", log=True
    )
    h = math.exp(-(0.25**2) / 2 - log_ndtr(0.25)) / math.sqrt(2 * math.pi)
    assert found.grad_m[0] == pytest.approx(h / 2, rel=1e-13)
    assert found.grad_L[0, 0] == pytest.approx(-h * 0.25 / 2, rel=1e-13)
    assert found.grad_cov[0, 0] == pytest.approx(-h * 0.25 / 8, rel=1e-13)
