"""One-factor derivatives in the whole covariance: 40 digits, closed forms, identities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import workdps

import mvnorth
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._methods import one_factor_rule
from mvnorth._methods.quadrature import hessian, integrate
from mvnorth._problem import Problems
from validation.oracles.one_factor import one_factor_derivatives

NAMES = ("lower", "upper", "mean", "cov")


def boxes(lower, upper, c, v):
    upper = np.atleast_2d(upper)
    lower = np.broadcast_to(np.asarray(lower, dtype=float), upper.shape)
    c, v = (np.atleast_2d(np.asarray(a, dtype=float)) for a in (c, v))
    return Problems(lower, upper, OneFactorRows(c, v), np.zeros(upper.shape[0]))


def orthants(m, c, v):
    return boxes(-np.inf, np.asarray(m), c, v)


def truth(m, c, v):
    """G and the Hessian from the oracle."""
    with workdps(60):
        found = one_factor_derivatives(m, c, v, hessian=True)
        index = range(len(m))
        g = [[(found.hessian[i][j] + found.m[i] * found.m[j]) / 2 for j in index] for i in index]
        return np.array(g, dtype=float), np.array(found.hessian, dtype=float)


# Limits, own variances, loadings; and how accurate the matrix must be, to its largest entry.
REGIMES = {
    "moderate": ([0.3, -1.1, 0.8], [1.0, 0.4, 2.0], [1.2, -0.7, 0.5], 1e-14),
    "a zero loading": ([0.3, -1.1, 0.8], [1.0, 0.4, 2.0], [1.2, 0.0, 0.5], 1e-14),
    "deep tail": ([-30.0, -28.0, -33.0], [1.0, 0.5, 2.0], [1.0, -0.8, 0.3], 1e-13),
    "deeper tail": ([-400.0, -350.0], [1.0, 0.5], [1.0, 0.8], 1e-13),
    "nearly certain": ([5.0, 6.0, 7.0], [1.0, 1.0, 2.0], [1.0, 0.5, 2.0], 1e-13),
    "walls": ([0.5, -0.2, 0.3], [1e-8, 1e-4, 1e-6], [1.0, 0.5, -0.7], 1e-12),
    "walls that meet": ([0.7, 1.4, 0.3], [1e-8, 1e-8, 1.0], [-0.5, -1.0, 0.4], 1e-12),
    "walls face to face": ([-0.5, -0.2], [1e-4, 1e-6], [1.0, -0.7], 1e-12),
    "scales": ([1e-3, -200.0, 0.1], [1e-6, 4e4, 0.01], [2e-3, 100.0, -0.2], 1e-13),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_references(regime):
    m, c, v, accuracy = REGIMES[regime]
    true, second = truth(m, c, v)
    found = integrate(orthants(m, c, v), ("cov",)).derivatives
    wrong = np.abs(found.value["cov"][0] - true)
    assert (wrong <= found.error["cov"][0]).all()
    assert wrong.max() <= accuracy * np.abs(true).max()
    assert found.error["cov"].max() <= 1e-7 * np.abs(true).max()
    np.testing.assert_array_equal(found.value["cov"][0], found.value["cov"][0].T)
    wrong = np.abs(hessian(orthants(m, c, v))[0] - second)
    assert wrong.max() <= 1e-9 * np.abs(second).max()
    if "wall" not in regime:
        assert wrong.max() <= 1e-11 * np.abs(second).max()


def test_two_coordinates_have_the_bivariate_density():
    """G_12 = phi_2(m; Sigma) / (2 P), with limits on either side."""
    rng = np.random.default_rng(1)
    shape = (3000, 2)
    v = rng.normal(size=shape)
    c = v**2 * 10.0 ** rng.uniform(-6.0, 2.0, shape)
    deviation = np.sqrt(c + v**2)
    limit = rng.choice([1.0, 5.0, 20.0], (3000, 1)) * rng.normal(size=shape) * deviation
    below = rng.random(shape) < 0.5
    problems = boxes(np.where(below, limit, -np.inf), np.where(below, np.inf, limit), c, v)
    found = integrate(problems, ("cov",))
    # (x - y)**2 form of the quadratic: nothing cancels where the correlation is close to one.
    det = c[:, 0] * c[:, 1] + c[:, 0] * v[:, 1] ** 2 + c[:, 1] * v[:, 0] ** 2
    crossed = limit[:, 0] * v[:, 1] - limit[:, 1] * v[:, 0]
    quadratic = (limit[:, 0] ** 2 * c[:, 1] + limit[:, 1] ** 2 * c[:, 0] + crossed**2) / det
    log_density = -0.5 * quadratic - np.log(2.0 * np.pi) - 0.5 * np.log(det)
    true = 0.5 * np.exp(log_density - found.log_prob)
    true *= np.where(below[:, 0] == below[:, 1], 1.0, -1.0)
    inherent = 2e-15 * (np.abs(limit[:, 0] * v[:, 1]) + np.abs(limit[:, 1] * v[:, 0]))
    inherent *= np.abs(crossed) / det
    inherent += found.rel_error + 1e-15 * quadratic + 1e-14
    value, bound = (a["cov"][:, 0, 1] for a in (found.derivatives.value, found.derivatives.error))
    sure = (inherent < 1e-6) & np.isfinite(bound)
    assert sure.mean() > 0.95
    wrong = np.abs(value - true) - inherent * np.abs(true)
    assert (wrong <= bound)[sure].all()
    seen = sure & (found.log_prob < -1e-3)
    largest = np.abs(found.derivatives.value["cov"]).max(axis=(1, 2))
    assert (wrong <= 1e-12 * largest)[seen].mean() > 0.998
    assert (wrong <= 1e-9 * largest)[seen].all()


def test_three_coordinates_have_the_arcsine_law():
    """P = 1/8 + sum_ij asin(rho_ij) / (4 pi) at zero limits, for any Sigma."""
    rng = np.random.default_rng(2)
    c, v = rng.lognormal(size=(200, 3)), rng.normal(size=(200, 3))
    found = integrate(orthants(np.zeros((200, 3)), c, v), ("cov", "upper"))
    sigma = orthants(np.zeros((200, 3)), c, v).covariance.matrix()
    deviation = np.sqrt(np.einsum("bii->bi", sigma))
    product = deviation[:, :, None] * deviation[:, None, :]
    rho = sigma / product
    off = ~np.eye(3, dtype=bool)
    prob = 0.125 + np.where(off, np.arcsin(np.where(off, rho, 0.0)), 0.0).sum(axis=(1, 2)) / (
        8.0 * math.pi
    )
    own, common = (a[:, :, None] * b[:, None, :] for a, b in ((c, c), (c, v**2)))
    det = own + common + np.swapaxes(common, 1, 2)  # product**2 (1 - rho**2)
    true = np.where(off, 1.0 / (8.0 * math.pi * np.sqrt(det) * prob[:, None, None]), 0.0)
    # P depends on Sigma_ii through the correlations alone.
    diagonal = -np.einsum("bij,bij->bi", true, sigma) / deviation**2
    true[:, np.arange(3), np.arange(3)] = diagonal
    np.testing.assert_allclose(np.exp(found.log_prob), prob, rtol=1e-13)
    gap = np.abs(found.derivatives.value["cov"] - true)
    assert (gap <= found.derivatives.error["cov"] + 1e-14 * np.abs(true)).all()
    assert (gap.max(axis=(1, 2)) <= 1e-12 * np.abs(true).max(axis=(1, 2))).all()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_identities(seed):
    """Scaling a coordinate with its limit changes nothing; v v^T and c are special directions."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 40))
    m = rng.normal(rng.choice([0.0, 3.0, -30.0]), rng.choice([1.0, 5.0]), d)
    v = rng.normal(size=d) * (rng.random(d) < 0.9)
    c = rng.lognormal(size=d) * 10.0 ** -rng.choice([0.0, 2.0, 5.0], d)
    problems = orthants(m, c, v)
    found = integrate(problems, ("upper", "cov")).derivatives
    other = one_factor_rule.derivatives(problems, ("c", "v")).derivatives
    (sigma,) = problems.covariance.matrix()
    g, g_error = found.value["upper"][0], found.error["upper"][0]
    matrix, error = found.value["cov"][0], found.error["cov"][0]
    left = 2.0 * (matrix * sigma).sum(axis=1) + m * g
    slack = 1e-14 * (2.0 * (np.abs(matrix) * np.abs(sigma)).sum(axis=1) + np.abs(m) * g)
    bound = 2.0 * (error * np.abs(sigma)).sum(axis=1) + np.abs(m) * g_error
    assert (np.abs(left) <= bound + slack).all()
    gap = np.abs(np.diag(matrix) - other.value["c"][0])
    assert (gap <= np.diag(error) + other.error["c"][0]).all()
    along = 2.0 * matrix @ v - other.value["v"][0]
    slack = 1e-14 * 2.0 * np.abs(matrix) @ np.abs(v)
    assert (np.abs(along) <= 2.0 * error @ np.abs(v) + other.error["v"][0] + slack).all()


def test_equal_coordinates_share_equally():
    """Of d equal coordinates all pairs have one derivative, which the scale identity gives."""
    for d in (2, 10, 300):
        problems = orthants(np.full(d, 0.7), np.full(d, 0.5), np.full(d, 1.2))
        found = integrate(problems, ("upper", "cov")).derivatives
        matrix, g = found.value["cov"][0], found.value["upper"][0, 0]
        off = matrix[~np.eye(d, dtype=bool)]
        assert np.ptp(off) <= 1e-14 * off.max()
        expected = -(0.7 * g / 2.0 + matrix[0, 0] * (0.5 + 1.44)) / (1.44 * (d - 1))
        assert abs(off[0] - expected) <= 1e-12 * np.abs(matrix).max()


def random_sides(rng, size, d):
    limit, kind = rng.normal(size=(size, d)), rng.integers(0, 3, (size, d))
    lower = np.where(kind == 0, limit, -np.inf)
    upper = np.where(kind == 1, limit, np.inf)
    return boxes(lower, upper, rng.lognormal(size=(size, d)), rng.normal(size=(size, d)))


def test_limits_on_either_side():
    rng = np.random.default_rng(3)
    problems = random_sides(rng, 200, 4)
    found = integrate(problems, NAMES).derivatives
    sign = np.where(np.isfinite(problems.lower), -1.0, 1.0)
    limit = np.where(np.isfinite(problems.lower), -problems.lower, problems.upper)
    mirror = integrate(
        orthants(limit, problems.covariance.c, sign * problems.covariance.v), NAMES
    ).derivatives
    pairs = sign[:, :, None] * sign[:, None, :]
    np.testing.assert_array_equal(found.value["cov"], pairs * mirror.value["cov"])
    np.testing.assert_array_equal(found.value["mean"], sign * mirror.value["mean"])
    total = found.value["lower"] + found.value["upper"]
    np.testing.assert_array_equal(found.value["mean"], -total)
    assert (found.value["lower"] <= 0.0).all()
    assert (found.value["upper"] >= 0.0).all()
    # Where there is no limit there is nothing to differentiate, which is known exactly.
    for name, side in (("lower", problems.lower), ("upper", problems.upper)):
        assert (found.value[name][np.isinf(side)] == 0.0).all()
        assert (found.error[name][np.isinf(side)] == 0.0).all()
    free = np.isinf(problems.lower) & np.isinf(problems.upper)
    assert (found.value["cov"][free] == 0.0).all()
    assert (found.error["cov"][free] == 0.0).all()


def test_a_step_in_every_limit():
    """The signs of the derivatives in limits and mean, by differences of log P."""
    problems = random_sides(np.random.default_rng(4), 30, 3)
    found = integrate(problems, ("lower", "upper", "mean")).derivatives
    h = 1e-4
    for i in range(3):
        step = h * np.eye(3)[i]
        for name, low, high in (("lower", 1, 0), ("upper", 0, 1), ("mean", -1, -1)):
            up, down = (
                one_factor_rule.solve(
                    boxes(
                        problems.lower + s * low * step,
                        problems.upper + s * high * step,
                        problems.covariance.c,
                        problems.covariance.v,
                    )
                ).log_prob
                for s in (1.0, -1.0)
            )
            np.testing.assert_allclose(found.value[name][:, i], (up - down) / (2.0 * h), atol=1e-6)


def test_values_are_those_without_derivatives():
    rng = np.random.default_rng(5)
    for dtype in (np.float64, np.float32):
        problems = random_sides(rng, 100, 5)
        upper = problems.upper.astype(dtype)
        lower = problems.lower.copy()
        two_sided = np.arange(100) % 3 == 0
        lower[two_sided], upper[two_sided] = -1.0, 1.5
        problems = Problems(lower, upper, problems.covariance, problems.rounding)
        found, plain = integrate(problems, NAMES), one_factor_rule.solve(problems)
        np.testing.assert_array_equal(found.log_prob, plain.log_prob)
        np.testing.assert_array_equal(found.rel_error, plain.rel_error)
        np.testing.assert_array_equal(found.n, plain.n)
        for name in NAMES:
            assert np.isfinite(found.derivatives.error[name]).all()


def test_neither_threads_nor_batches_matter():
    rng = np.random.default_rng(6)
    problems = orthants(rng.normal(size=(60, 30)), np.ones((1, 30)), rng.normal(size=(1, 30)))
    try:
        results = []
        for threads in (1, 2, 5):
            mvnorth.set_num_threads(threads)
            results.append((integrate(problems, ("cov",)).derivatives, hessian(problems)))
    finally:
        mvnorth.set_num_threads(1)
    single = [integrate(problems.take([b]), ("cov",)).derivatives for b in range(60)]
    for found, second in results:
        for b in range(60):
            np.testing.assert_array_equal(found.value["cov"][b], single[b].value["cov"][0])
            np.testing.assert_array_equal(found.error["cov"][b], single[b].error["cov"][0])
        np.testing.assert_array_equal(second, results[0][1])


def test_single_precision():
    rng = np.random.default_rng(7)
    m = rng.normal(0.0, 2.0, (300, 5)).astype(np.float32)
    c, v = rng.lognormal(size=(300, 5)), rng.normal(size=(300, 5))
    found = integrate(boxes(-np.inf, m, c, v), ("cov",)).derivatives
    true = integrate(orthants(m.astype(np.float64), c, v), ("cov",)).derivatives
    assert found.value["cov"].dtype == np.float32
    gap = np.abs(found.value["cov"] - true.value["cov"])
    assert (gap <= found.error["cov"]).all()
    largest = np.abs(true.value["cov"]).max(axis=(1, 2))
    assert (gap.max(axis=(1, 2)) <= 1e-4 * largest).all()


def test_the_hessian_is_that_of_products():
    rng = np.random.default_rng(8)
    problems = orthants(rng.normal(size=(20, 6)), rng.lognormal(size=(20, 6)), np.ones((20, 6)))
    vectors = rng.normal(size=(20, 6))
    expected = one_factor_rule.hessian_products(problems, vectors)
    np.testing.assert_allclose(
        np.einsum("bij,bj->bi", hessian(problems), vectors), expected, rtol=1e-10, atol=1e-12
    )


def test_nodes_beyond_the_last_count_for_nothing():
    """x_3 is -49 at the mode, and below -64 at nodes that only fill up a block."""
    m = [-2.1878105551248526, -3.572403774375281, -5.7906635137880205, -1.4024901298503036]
    c = [1.1272147544554778e-3, 1.264926338997192e-3, 9.531555921858152e-8, 3.160151766209942e-8]
    v = [0.05624806142574166, 0.37043459725965544, -0.0679685099124672, -1.1823130431982354]
    found = integrate(orthants(m, c, v), ("cov",)).derivatives
    assert found.error["cov"].max() <= 1e-9 * np.abs(found.value["cov"]).max()


def test_numbers_too_large_are_not_known():
    problems = orthants([[-1e150, 1.0], [-1e145, -1e145]], [[1.0, 1.0]], [[1.0, 1.0]])
    found = integrate(problems, NAMES).derivatives
    for name in NAMES:
        assert np.isfinite(found.value[name]).all()
        assert not np.isnan(found.error[name]).any()
    assert np.isinf(found.error["cov"]).all()
