"""The public functions for derivatives: values, blocks, parameters, batches, wrong input."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from support.gradients import LIMITS, compare, covariance, random_limits

import mvnorth
from mvnorth import Factors, OneFactor
from mvnorth._methods import derivative_methods
from validation.problems import problems

INF = math.inf


def test_values_are_those_without_derivatives():
    for problem in problems():
        if len(problem.lower) > 30:
            continue
        limits = (problem.lower, problem.upper, 0.0, problem.cov)
        value = mvnorth.box(*limits, seed=3, rtol=1e-3)
        found = mvnorth.box_grad(*limits, seed=3, rtol=1e-3)
        for name in ("log_prob", "rel_error", "n", "method", "status", "log_bound"):
            assert getattr(found, name) == getattr(value, name), (problem.name, name)


def test_independent_blocks():
    """A covariance between blocks changes P by the product of what means do."""
    found = mvnorth.orthant_grad([0.3, -0.4], np.diag([1.0, 2.0]), wrt=("m", "L", "cov"))
    x = np.array([0.3, -0.2])
    first = norm.pdf(x) / [1.0, 2.0]
    np.testing.assert_allclose(found.grad_m, first * norm.cdf(x)[::-1], rtol=1e-12)
    second = np.diag(-0.5 * norm.pdf(x) * x / [1.0, 4.0] * norm.cdf(x)[::-1])
    second[0, 1] = second[1, 0] = 0.5 * first[0] * first[1]
    np.testing.assert_allclose(found.grad_cov, second, rtol=1e-12)
    np.testing.assert_allclose(
        found.grad_L, np.tril(2.0 * second @ np.diag([1.0, 2.0])), rtol=1e-12
    )


@pytest.mark.parametrize("sizes", [(2, 1, 3), (4, 5), (1, 1, 1, 2)])
def test_blocks_are_put_together(sizes):
    """Against the tilted estimate, which takes nothing apart, and differences of the value."""
    rng = np.random.default_rng(len(sizes))
    d = sum(sizes)
    cov = np.zeros((d, d))
    start = 0
    for size in sizes:
        cov[start : start + size, start : start + size] = covariance(rng, size)
        start += size
    order = rng.permutation(d)
    cov = cov[np.ix_(order, order)]
    lower, upper = random_limits(rng, d)
    names = (*LIMITS, "cov")
    auto = mvnorth.box_grad(lower, upper, 0.1, cov, wrt=names, rtol=1e-6, log=True)
    tilted = mvnorth.box_grad(
        lower, upper, 0.1, cov, 2**14, wrt=names, method="tilting", log=True
    )  # fmt: skip
    assert compare(auto, tilted, names, 1.5, useful=True)[0] == 0
    m, L = rng.normal(0.5, 1.0, d), np.linalg.cholesky(cov)
    auto = mvnorth.orthant_grad(m, L, wrt=("m", "L", "cov"), rtol=1e-6)
    np.testing.assert_allclose(np.tril(2.0 * auto.grad_cov @ L), auto.grad_L, atol=1e-5)
    tilted = mvnorth.orthant_grad(m, L, 2**14, wrt=("m", "L", "cov"), method="tilting")
    assert compare(auto, tilted, ("m", "L", "cov"), 1.5, useful=True)[0] == 0


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.4])
def test_plackett_in_two_dimensions(rho):
    """dP/drho is the density at the corner (Plackett 1954)."""
    x, cov = np.array([0.3, -0.5]), np.array([[1.0, rho], [rho, 1.0]])
    found = mvnorth.cdf_grad(x, cov=cov, wrt=("x", "mean", "cov"))
    density = multivariate_normal(cov=cov).pdf(x)
    assert 2.0 * found.grad_cov[0, 1] == pytest.approx(density, rel=1e-12)
    given = norm.cdf((x[::-1] - rho * x) / math.sqrt(1 - rho**2))
    np.testing.assert_allclose(found.grad_x, norm.pdf(x) * given, rtol=1e-12)
    np.testing.assert_allclose(found.grad_mean, -found.grad_x, rtol=1e-12)
    np.testing.assert_allclose(
        np.diagonal(found.grad_cov), -0.5 * (x * found.grad_x + rho * density), rtol=1e-11
    )


def test_second_derivatives_of_the_exact_kind():
    """grad_cov is half the Hessian in the mean, here by differences of exact gradients."""
    rng = np.random.default_rng(5)
    d = 5
    chain = 0.7 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    cases = (
        chain,
        OneFactor(rng.lognormal(size=d), rng.normal(size=d)).dense(),
        covariance(rng, 3),
    )
    for cov in cases:
        x = rng.normal(0.5, 1.0, len(cov))
        found = mvnorth.cdf_grad(x, cov=cov, wrt=("cov",))
        h = 1e-4
        hessian = [
            (mvnorth.cdf_grad(x + e, cov=cov).grad_x - mvnorth.cdf_grad(x - e, cov=cov).grad_x)
            / (2 * h)
            for e in h * np.eye(len(cov))
        ]
        np.testing.assert_allclose(found.grad_cov, 0.5 * np.array(hessian), atol=1e-8)


@pytest.mark.parametrize("method", ["auto", "conditional", "tilting", "pathwise"])
def test_one_factor_parameters(method):
    rng = np.random.default_rng(6)
    c, v, m = rng.lognormal(size=4), rng.normal(size=4), rng.normal(0.5, 1.0, 4)
    cov = OneFactor(c, v)
    exactly = mvnorth.orthant_grad(m, cov, wrt=("m", "c", "v"), log=True)
    options = {"wrt": ("m", "cov", "c", "v"), "log": True, "method": method, "n": 4096}
    found = mvnorth.orthant_grad(m, cov, **options)
    assert compare(found, exactly, ("m", "c", "v"), 1.5, useful=True)[0] == 0
    exact = mvnorth.orthant_hessian(m, cov, log=True) + np.outer(exactly.grad_m, exactly.grad_m)
    assert (np.abs(found.grad_cov - 0.5 * exact) <= 1.5 * found.grad_cov_error + 1e-11).all()
    names = (*LIMITS, "c", "v", "cov")
    box = mvnorth.box_grad(-1.0, m + 1.5, 0.2, cov, 4096, wrt=names, method=method, log=True)
    dense = mvnorth.box_grad(
        -1.0, m + 1.5, 0.2, cov.dense(), 4096, wrt=(*LIMITS, "cov"), method="tilting", log=True
    )
    assert compare(box, dense, (*LIMITS, "cov"), 1.5)[0] == 0
    np.testing.assert_allclose(box.grad_c, np.diagonal(box.grad_cov))
    np.testing.assert_allclose(box.grad_v, 2.0 * box.grad_cov @ v)


def test_units_are_the_callers():
    """Rows scaled by powers of two inside, and by a power of ten outside."""
    rng = np.random.default_rng(7)
    cov, x = covariance(rng, 4), rng.normal(size=4)
    units = np.array([1e-3, 1.0, 1e5, 30.0])
    names = ("x", "mean", "cov")
    plain = mvnorth.cdf_grad(x, cov=cov, wrt=names, log=True, releps=1e-5)
    scaled = mvnorth.cdf_grad(
        x * units, cov=cov * np.outer(units, units), wrt=names, log=True, releps=1e-5
    )
    np.testing.assert_allclose(scaled.grad_x * units, plain.grad_x, rtol=2e-3)
    np.testing.assert_allclose(
        scaled.grad_cov * np.outer(units, units), plain.grad_cov, rtol=5e-3, atol=1e-3
    )


def test_batches_broadcast():
    rng = np.random.default_rng(8)
    L = np.linalg.cholesky(np.stack([covariance(rng, 3) for _ in range(2)]))[:, None]
    m = rng.normal(size=(4, 3))
    found = mvnorth.orthant_grad(m, L, wrt=("m", "L", "cov"), log=True)
    assert found.prob.shape == (2, 4)
    assert found.grad_m.shape == found.grad_m_error.shape == (2, 4, 3)
    assert found.grad_L.shape == found.grad_cov_error.shape == (2, 4, 3, 3)
    single = mvnorth.orthant_grad(m[2], L[1, 0], wrt=("m", "L", "cov"), log=True)
    for name in ("grad_m", "grad_L", "grad_cov"):
        np.testing.assert_array_equal(getattr(found, name)[1, 2], getattr(single, name))
    empty = mvnorth.orthant_grad(np.empty((0, 3)), L[0, 0], wrt=("m", "cov"))
    assert empty.grad_m.shape == (0, 3)
    assert empty.grad_cov.shape == (0, 3, 3)
    assert "in m, L, cov" in repr(found)
    assert "derivatives     of log in m, L, cov" in repr(single)


def test_advice_names_the_arguments_of_the_function():
    cov = covariance(np.random.default_rng(9), 5)
    short = mvnorth.cdf_grad(np.zeros(5), cov=cov, maxpts=64, releps=1e-9, method="tilting")
    assert "(releps=1e-09)" in repr(short)
    assert "more points with maxpts=; else accept a larger releps= or abseps=" in repr(short)


def test_what_cannot_happen_has_no_derivative():
    found = mvnorth.box_grad([0.0, 1.0], [0.0, 2.0], 0.0, np.eye(2), wrt=("upper", "cov"))
    assert found.prob == 0.0
    assert np.isinf(found.grad_upper_error).all()
    assert np.isinf(found.grad_cov_error).all()
    with pytest.raises(ValueError, match="m must be > -inf"):
        mvnorth.orthant_grad([0.0, -INF], np.eye(2))


def test_coordinates_without_limits():
    rng = np.random.default_rng(9)
    cov = covariance(rng, 5)
    x = np.array([0.3, INF, -0.2, 0.5, 1.0])
    found = mvnorth.cdf_grad(x, cov=cov, wrt=("x", "cov"), releps=1e-5)
    keep = np.isfinite(x)
    rest = mvnorth.cdf_grad(x[keep], cov=cov[np.ix_(keep, keep)], wrt=("x", "cov"), releps=1e-5)
    assert found.grad_x[1] == 0.0
    assert (found.grad_cov[1] == 0.0).all()
    gap = np.abs(found.grad_x[keep] - rest.grad_x)
    assert (gap <= 1.5 * (found.grad_x_error[keep] + rest.grad_x_error)).all()
    gap = np.abs(found.grad_cov[np.ix_(keep, keep)] - rest.grad_cov)
    assert (gap <= 1.5 * (found.grad_cov_error[np.ix_(keep, keep)] + rest.grad_cov_error)).all()


@pytest.mark.parametrize("method", ["auto", "pathwise", "tilting"])
def test_lower_limits_alone_are_upper_ones_mirrored(method):
    """A box with one limit a coordinate, against the orthant of the mirrored loadings."""
    rng = np.random.default_rng(16)
    c, v, m = rng.lognormal(size=5), rng.normal(size=5), rng.normal(0.5, 1.0, 5)
    sign = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
    lower, upper = np.where(sign < 0.0, -m, -INF), np.where(sign > 0.0, m, INF)
    options = {"method": method, "log": True, "n": 1024}
    box = mvnorth.box_grad(
        lower, upper, 0.0, OneFactor(c, sign * v), wrt=(*LIMITS, "c", "v"), **options
    )
    orthant = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=("m", "c", "v"), **options)
    assert box.log_prob == orthant.log_prob
    np.testing.assert_allclose(box.grad_lower + box.grad_upper, sign * orthant.grad_m, rtol=1e-12)
    np.testing.assert_allclose(box.grad_mean, -sign * orthant.grad_m, rtol=1e-12)
    np.testing.assert_allclose(box.grad_c, orthant.grad_c, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(box.grad_v, sign * orthant.grad_v, rtol=1e-12, atol=1e-14)


def test_no_matrix_for_limits_c_and_v():
    """A hundred thousand coordinates with one limit each: their matrix would take 80 GB."""
    d = 100_000
    cov, names = OneFactor(np.ones(d), np.ones(d)), ("lower", "mean", "c", "v")
    found = mvnorth.box_grad(0.0, INF, 0.0, cov, wrt=names, log=True)
    exactly = mvnorth.orthant_grad(np.zeros(d), cov, wrt=("m", "c", "v"), log=True)
    assert found.log_prob == pytest.approx(-math.log(d + 1), rel=1e-12)
    np.testing.assert_allclose(found.grad_lower, -exactly.grad_m, rtol=1e-12)
    np.testing.assert_allclose(found.grad_c, exactly.grad_c, rtol=1e-12)
    np.testing.assert_allclose(found.grad_v, exactly.grad_v, rtol=1e-12)
    for method in ("pathwise", "tilting"):
        sampled = mvnorth.box_grad(0.0, INF, 0.0, cov, 8, wrt=names, method=method, log=True)
        assert sampled.grad_v.shape == (d,)


# Polygons are given by matrices, for which results are in double precision.
@pytest.mark.parametrize("method", [name for name in derivative_methods() if name != "polygon"])
@pytest.mark.parametrize("log", [True, False])
def test_single_precision_in_and_out(method, log):
    """Every derivative is in the precision of the means, and within its error all the same."""
    rng = np.random.default_rng(17)
    d = 2 if method in ("closed_form", "markov") else 4
    m = rng.normal(size=(3, d)).astype(np.float32)
    cov = OneFactor(rng.lognormal(size=d), rng.normal(size=d))
    names = ("m",) if method == "pinned" else ("m", "c", "v", "cov")
    if method == "factors":
        cov, names = Factors(cov.c, rng.normal(size=(d, 2))), ("m", "c", "V", "cov")
    options = {"wrt": names, "method": method, "log": log, "n": 1024}
    if method == "factors":  # so many that those in double precision are exact
        options["n"] = 4096
    single = mvnorth.orthant_grad(m, cov, **options)
    double = mvnorth.orthant_grad(m.astype(np.float64), cov, **options)
    for name in names:
        value, error = (getattr(single, f"grad_{name}{end}") for end in ("", "_error"))
        assert value.dtype == np.float32
        assert error.dtype == np.float64
        exactly = getattr(double, f"grad_{name}")
        assert exactly.dtype == np.float64
        if method not in ("auto", "quadrature", "factors"):  # the same points: rounding alone
            assert (np.abs(value - exactly) <= 2e-7 * np.abs(exactly)).all()
        assert (np.abs(value - exactly) <= error).all()
        assert (error >= 1e-7 * np.abs(value)).all()


def test_called_like_cdf():
    x, mean, cov = [0.3, -0.2], [0.1, 0.0], [[1.0, 0.4], [0.4, 2.0]]
    for arguments, keywords in (
        ((x, mean, cov, True, 1000, 1e-5, 1e-5), {}),
        ((x, mean, cov), {"lower_limit": [-1.0, -2.0], "rng": np.random.default_rng(0), "seed": 3}),
    ):
        found = mvnorth.cdf_grad(*arguments, **keywords, wrt=("x", "lower_limit"))
        assert found.prob == mvnorth.cdf(*arguments, **keywords)


def test_one_dimension_like_scipy():
    x = np.array([-1.0, 0.0, 2.0])
    found = mvnorth.cdf_grad(x, 0.5, 4.0, wrt=("x", "mean", "cov"))
    density = norm.pdf(x, 0.5, 2.0)
    np.testing.assert_allclose(found.grad_x[:, 0], density, rtol=1e-12)
    np.testing.assert_allclose(found.grad_mean[:, 0], -density, rtol=1e-12)
    np.testing.assert_allclose(found.grad_cov[:, 0, 0], -density * (x - 0.5) / 8.0, rtol=1e-12)


def test_infinite_limits_on_the_wrong_side():
    """Nothing can be above plus infinity, with a common factor or without."""
    for cov in (OneFactor(np.ones(3), np.ones(3)), np.eye(3) + 1.0):
        for lower, upper in (([INF, -INF, -INF], [INF, 1.0, 1.0]), (-INF, [-INF, 1.0, 1.0])):
            found = mvnorth.box_grad(lower, upper, 0.0, cov, wrt="upper")
            assert found.prob == mvnorth.box_prob(lower, upper, 0.0, cov) == 0.0
            assert np.isinf(found.grad_upper_error).all()


def test_derivatives_do_not_depend_on_what_else_is_asked_for():
    rng = np.random.default_rng(12)
    m = rng.normal(size=4).astype(np.float32)
    cov = OneFactor(rng.lognormal(size=4), 1e-9 * rng.normal(size=4))
    for method in ("auto", "pathwise"):
        alone = mvnorth.orthant_grad(m, cov, 512, wrt=("m", "c", "v"), method=method, log=True)
        both = mvnorth.orthant_grad(
            m, cov, 512, wrt=("m", "c", "v", "cov"), method=method, log=True
        )
        for name in ("m", "c", "v"):
            np.testing.assert_array_equal(
                getattr(alone, f"grad_{name}"), getattr(both, f"grad_{name}")
            )
            assert getattr(alone, f"grad_{name}").dtype == getattr(both, f"grad_{name}").dtype
        value = mvnorth.orthant(m, cov, 512, method="auto" if method == "auto" else "genz")
        assert alone.log_prob == value.log_prob
        if method == "auto":
            assert alone.rel_error == value.rel_error


def test_exact_methods_by_name():
    k = np.arange(5.0)
    chain = 0.6 ** np.abs(np.subtract.outer(k, k))
    auto = mvnorth.cdf_grad(k / 4, cov=chain, wrt=("x", "cov"))
    found = mvnorth.cdf_grad(k / 4, cov=chain, wrt=("x", "cov"), method="markov")
    np.testing.assert_array_equal(auto.grad_cov, found.grad_cov)
    two = mvnorth.orthant_grad([0.1, 0.2], OneFactor([1.0, 2.0], [1.0, 1.0]), method="markov")
    exactly = mvnorth.orthant_grad([0.1, 0.2], OneFactor([1.0, 2.0], [1.0, 1.0]))
    np.testing.assert_allclose(two.grad_m, exactly.grad_m, rtol=1e-10)
    with pytest.raises(ValueError, match="inverse is tridiagonal"):
        mvnorth.orthant_grad(np.zeros(5), OneFactor(np.ones(5), np.ones(5)), method="markov")
    box = mvnorth.box_grad(-1.0, 1.0, 0.0, np.eye(4) + 0.5, wrt="upper", method="quadrature")
    other = mvnorth.box_grad(-1.0, 1.0, 0.0, np.eye(4) + 0.5, 2**14, wrt="upper", method="tilting")
    assert compare(box, other, ("upper",))[0] == 0


def test_dropped_columns_and_unequal_zeros():
    """Blocks that leave columns of L out, and a batch whose rows fall apart differently."""
    rng = np.random.default_rng(13)
    apart = np.linalg.cholesky(
        np.block([[covariance(rng, 2), np.zeros((2, 3))], [np.zeros((3, 2)), covariance(rng, 3)]])
    )
    whole = np.linalg.cholesky(covariance(rng, 5))
    L, m = np.stack([apart, whole, apart]), rng.normal(0.5, 1.0, (3, 5))
    batch = mvnorth.orthant_grad(m, L, 2048, wrt=("m", "L"), log=True)
    for row in range(3):
        single = mvnorth.orthant_grad(m[row], L[row], 2048, wrt=("m", "L"), log=True)
        np.testing.assert_allclose(batch.grad_L[row], single.grad_L, rtol=1e-12, atol=1e-14)
        tilted = mvnorth.orthant_grad(
            m[row], L[row], 2**14, wrt=("m", "L"), method="tilting", log=True
        )
        assert compare(single, tilted, ("m", "L"), 1.5)[0] == 0


def test_errors_of_use():
    with pytest.raises(ValueError, match="wrt must name some of 'm', 'L', 'cov'"):
        mvnorth.orthant_grad(np.zeros(2), np.eye(2), wrt=("c",))
    with pytest.raises(ValueError, match="wrt must name some of 'm', 'c', 'v', 'V', 'cov'"):
        mvnorth.orthant_grad(np.zeros(2), OneFactor.exact(3), wrt=("L",))
    with pytest.raises(ValueError, match="'lower', 'upper', 'mean', 'cov'"):
        mvnorth.box_grad(0.0, 1.0, 0.0, np.eye(2), wrt="x")
    with pytest.raises(ValueError, match="'lower_limit', 'x', 'mean', 'cov'"):
        mvnorth.cdf_grad(np.zeros(2), cov=np.eye(2), wrt="upper")
    with pytest.raises(ValueError, match="pinned' differentiates in limits and means only"):
        mvnorth.orthant_grad(np.zeros(2), np.eye(2), wrt=("m", "cov"), method="pinned")
    with pytest.raises(ValueError, match="method must be one of"):
        mvnorth.orthant_grad(np.zeros(2), np.eye(2), method="genz")
    L = np.linalg.cholesky(covariance(np.random.default_rng(0), 4))
    with pytest.raises(ValueError, match="at most 3"):
        mvnorth.orthant_grad(np.zeros(4), L, method="closed_form")
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        mvnorth.box_grad(1.0, 0.0, 0.0, np.eye(2))
