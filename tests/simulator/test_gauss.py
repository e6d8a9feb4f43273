"""Gauss rules on a device against the CPU's, by the public functions and by ``gauss_rows``.

Both call the same functions of one number and decide alike.  Sums are added in another order, and
errors are made of differences of sums: these agree less well than what is claimed with them.
"""

import math

import numpy as np
import pytest

import mvnorth
from mvnorth._cuda import gauss

pytestmark = pytest.mark.usefixtures("quick_turns")
LONG = pytest.mark.slow


def problem(d, size=1):
    rng = np.random.default_rng(d)
    A = rng.normal(size=(size, d, d))
    cov = A @ A.swapaxes(1, 2) / d + 0.5 * np.eye(d)
    return rng.normal(0.3, 0.8, (size, d)), cov


def check(function, *arguments, within=1e-13, **options):
    """Compare the results of a public function on a device with those on the CPU.

    within : difference of the logarithms of probabilities that rounding may make
    """
    here = function(*arguments, method="gauss", **options)
    there = function(*arguments, method="gauss", device="cuda", **options)
    assert np.all(np.isfinite(here.log_prob))
    np.testing.assert_array_equal(there.n, here.n)
    np.testing.assert_array_equal(there.status, here.status)
    np.testing.assert_allclose(there.log_prob, here.log_prob, rtol=1e-14, atol=within)
    np.testing.assert_allclose(there.rel_error, here.rel_error, rtol=1e-9, atol=100 * within)
    return there


@pytest.mark.parametrize(
    ("d", "tolerance"),
    [(2, 1e-6), (3, 1e-4), (4, 1e-4), (5, 1e-2), pytest.param(6, 1e-2, marks=LONG)],
)
def test_orthants(d, tolerance):
    m, cov = problem(d)
    found = check(mvnorth.orthant, m[0], np.linalg.cholesky(cov[0]), rtol=tolerance)
    assert found.rel_error <= tolerance


@pytest.mark.parametrize("d", [4, pytest.param(5, marks=LONG), pytest.param(6, marks=LONG)])
def test_boxes(d):
    """Limits of which both matter, or one or the other, or which are equal but for little."""
    m, cov = problem(d)
    lower = np.concatenate([[-1.0, -0.5, -15.0, -np.inf], np.full(d - 4, -1.0)])
    upper = np.concatenate([[1.5, 20.0, 0.7, 1.0], np.full(d - 4, -0.99)])
    check(mvnorth.box, lower, upper, 0.2 * m[0], cov[0], rtol=1e-2 if d == 4 else 0.3)


def test_rows_that_differ():
    """More rows than blocks, of which each is done with another number of nodes."""
    m, cov = problem(4, 17)
    cov[:, range(4), range(4)] += np.geomspace(0.01, 10.0, 17)[:, None]
    found = check(mvnorth.orthant, m, np.linalg.cholesky(cov), rtol=1e-4)
    assert np.unique(found.n).size > 1


@pytest.mark.parametrize(
    ("d", "accuracy", "products"),
    [(6, {"rtol": 0.1}, False), (9, {"rtol": 0.1}, False), (6, {"n": 200}, True)],
)
def test_sparse_grids(d, accuracy, products):
    """By themselves, or followed by products of rules."""
    m, cov = problem(d)
    found = check(mvnorth.orthant, m[0], np.linalg.cholesky(cov[0]), **accuracy)
    # Levels 1 to 4 have C(2 (d - 1) + level, level) points.
    sizes = np.cumsum([math.comb(2 * (d - 1) + level, level) for level in range(1, 5)])
    assert (found.n not in sizes) == products


def test_sparse_grids_with_limits_on_either_side():
    """And a row with two limits, for which there are neither grids nor, with nine, products."""
    _, cov = problem(9)
    lower, upper = np.full((2, 9), -np.inf), np.full((2, 9), 1.0)
    lower[:, 1], upper[:, 1] = -0.5, np.inf
    lower[1, 2] = -2.0
    cov = np.eye(9) + 0.2 * cov[0]
    options = {"method": "gauss", "rtol": 1e-1}
    here = mvnorth.box(lower, upper, 0.0, cov, **options)
    there = mvnorth.box(lower, upper, 0.0, cov, **options, device="cuda")
    np.testing.assert_allclose(there.log_prob, here.log_prob, rtol=1e-13)
    np.testing.assert_allclose(there.rel_error, here.rel_error, rtol=1e-9)
    np.testing.assert_array_equal(there.n, here.n)
    assert here.rel_error[0] < 0.1
    assert here.rel_error[1] == np.inf


@pytest.mark.parametrize("n", [1, 2, 30, 100])
def test_points_given(n):
    m, cov = problem(4)
    found = check(mvnorth.orthant, m[0], np.linalg.cholesky(cov[0]), n=n)
    assert found.n <= n or found.n == 1


def test_variables_that_matter_less():
    """The last variables are nearly independent of the others and have two nodes."""
    m, cov = problem(5)
    links = np.array([1.0, 1.0, 1.0, 1e-3, 1e-4])
    scaled = cov[0] * np.outer(links, links)
    scaled[range(5), range(5)] = np.diag(cov[0])
    check(mvnorth.orthant, m[0], np.linalg.cholesky(scaled), rtol=1e-4)


@pytest.mark.parametrize("shift", [-8.0, -100.0, -1e4])
def test_tails(shift):
    m, cov = problem(4)
    # A limit is rounded, and the derivative of log Phi there is about the limit itself.
    within = 1e-13 + 1e-15 * shift**2
    factor = np.linalg.cholesky(cov[0])
    found = check(mvnorth.orthant, m[0] + shift, factor, rtol=1e-2, within=within)
    assert found.log_prob < -30.0


def test_absolute_tolerance():
    m, cov = problem(4)
    check(mvnorth.orthant, m[0] - 4.0, np.linalg.cholesky(cov[0]), atol=1e-8)
    check(mvnorth.orthant, m[0] - 100.0, np.linalg.cholesky(cov[0]), atol=1e-8, within=1e-11)


def test_single_precision_is_computed_in_double():
    m, cov = problem(4)
    m, factor = m.astype(np.float32), np.linalg.cholesky(cov).astype(np.float32)
    check(mvnorth.orthant, m[0], factor[0], rtol=1e-2)


def test_derivatives():
    """On a device from conditional problems, on the CPU from moments."""
    m, cov = problem(5)
    options = {"method": "gauss", "wrt": ("m",), "rtol": 0.1}
    here = mvnorth.orthant_grad(m[0], np.linalg.cholesky(cov[0]), **options)
    there = mvnorth.orthant_grad(m[0], np.linalg.cholesky(cov[0]), device="cuda", **options)
    gap = np.abs(there.grad_m - here.grad_m)
    assert (gap <= here.grad_m_error + there.grad_m_error).all()
    assert (gap <= 1e-2 * np.abs(here.grad_m)).all()


def test_no_rows(queue):
    tables = (np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros((1, 2, 1)))
    rows = np.zeros((0, 4))
    system = (np.zeros((0, 4, 4)), rows, rows, rows, rows, np.zeros(0))
    for found in gauss.integrate(queue, *system, *tables, 0.1, 0.0, 100.0):
        assert found.shape == (0,)
