"""Problems given the value of one coordinate: conditional normals, as accurate as they can be."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from support.boxes import (
    EPS,
    INF,
    boxes,
    estimate,
    item,
    one_factor,
)

from mvnorth import _checks
from mvnorth._linalg.condition import given_the_others
from mvnorth._methods.quadrature import one_factor_problems
from validation.oracles import exact


@pytest.mark.parametrize("width", [1, 2, 4, 5, 7])
def test_given_is_the_conditional_normal(width):
    rng = np.random.default_rng(width)
    d = 5
    problems = boxes(
        rng.normal(-1.0, 1.0, (3, d)), rng.normal(1.5, 1.0, (3, d)), rng.normal(size=(3, d, width))
    )
    problems.lower[0, 1] = -INF
    problems.upper[1, 2] = INF
    rows, coordinates = np.repeat(np.arange(3), d), np.tile(np.arange(d), 3)
    values = rng.normal(size=rows.size)
    found = problems.covariance.given_value(problems, rows, coordinates, values)
    assert found.covariance.factor.shape == (15, 4, max(width - 1, 1))
    cov, left = problems.covariance.matrix(), found.covariance.matrix()
    for k, (row, i) in enumerate(zip(rows, coordinates, strict=True)):
        rest = np.delete(np.arange(d), i)
        slope = cov[row][rest, i] / cov[row][i, i]
        expected = cov[row][np.ix_(rest, rest)] - np.outer(slope, cov[row][i, rest])
        np.testing.assert_allclose(left[k], expected, atol=1e-13)
        for limits, before in ((found.lower, problems.lower), (found.upper, problems.upper)):
            np.testing.assert_allclose(limits[k], before[row, rest] - slope * values[k], atol=1e-13)
    if width == 1:  # nothing is left
        assert not found.covariance.factor.any()


def test_a_triangular_factor_stays_one_and_independence_stays_visible():
    rng = np.random.default_rng(0)
    d = 6
    L = np.tril(rng.normal(size=(d, d)))
    L[np.arange(d), np.arange(d)] = rng.uniform(0.1, 1.0, d)
    L[2:4, :2] = 0.0
    L[4:, :4] = 0.0  # blocks (0, 1), (2, 3), (4, 5)
    problems = boxes(np.full(d, -INF), np.ones(d), L)
    for i in range(d):
        left = item(problems, i, 0.7).covariance.factor[0]
        assert np.array_equal(left, np.tril(left))
        assert (np.diagonal(left) > 0.0).all()
        block = np.delete(np.arange(d) // 2, i)
        cov = left @ left.T
        assert not cov[block[:, None] != block].any()
        own = np.delete(L, i, axis=0)
        untouched = block != i // 2
        np.testing.assert_array_equal(
            cov[untouched][:, untouched], (own @ own.T)[untouched][:, untouched]
        )


def test_one_factor_stays_one_and_is_recognised():
    rng = np.random.default_rng(1)
    d = 7
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d)
    L = np.linalg.cholesky(np.diag(c) + np.outer(v, v))
    factored = one_factor(np.full(d, -INF), np.ones(d), c, v)
    for i in range(d):
        structured_given = item(factored, i, -0.4)
        for other in (factored.dense(), boxes(np.full(d, -INF), np.ones(d), L)):
            dense = item(other, i, -0.4)
            np.testing.assert_allclose(
                structured_given.covariance.matrix(),
                dense.covariance.matrix(),
                atol=1e-13,
                rtol=1e-12,
            )
            np.testing.assert_allclose(structured_given.upper, dense.upper, atol=1e-13)
        assert one_factor_problems(dense)[0].all()


@pytest.mark.parametrize("apart", [1e-2, 1e-5, 1e-8, 1e-11])
def test_what_little_is_left_of_a_row_is_accurate(apart):
    # Row 1 is a multiple of row 0 but for ``apart`` of it, which Sigma would not show.
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 4))
    problems = boxes([-INF, -INF], [0.3, 1.7 * 0.3 + 2 * apart], [a, 1.7 * a + apart * b])
    found = item(problems, 0, 0.3)
    with mpmath.workdps(60):
        A = mpmath.matrix(problems.covariance.factor[0].tolist())
        cov = A * A.T
        variance = cov[1, 1] - cov[0, 1] ** 2 / cov[0, 0]
        limit = mpf(problems.upper[0, 1]) - cov[0, 1] / cov[0, 0] * mpf(0.3)
        log_prob = exact.log_ndtr(limit / mpmath.sqrt(variance))
    assert np.linalg.norm(found.covariance.factor[0, 0]) == pytest.approx(
        float(mpmath.sqrt(variance)), rel=20 * EPS / apart
    )
    prob = estimate(found)
    inherited = found.rounding[0] * (1.0 + 2.0 * abs(prob.log_prob[0]))
    assert abs(prob.log_prob[0] - log_prob) <= prob.rel_error[0] + inherited
    assert found.rounding[0] < 100 * EPS / apart


def test_rounding_of_a_given_covariance_counts_by_its_variances():
    rho = 1.0 - 1e-8
    problems, _ = _checks.box_problems([-INF] * 2, [0.0, 1e-4], 0.0, [[1.0, rho], [rho, 1.0]])
    found = item(problems, 0, 0.0)
    assert 1e-9 < found.rounding[0] < 1e-6  # eps / (1 - rho**2), and some


def test_a_determined_coordinate_is_a_constant_and_its_limit_not_to_be_decided_by_rounding():
    a = np.array([0.3, -1.2])
    for gap, rounding in ((0.5, 0.0), (0.0, INF), (1e-16, INF), (-0.5, 0.0)):
        problems = boxes([-INF] * 3, [1.0, 3.0 + gap, 2.0], [a, 3.0 * a, [1.0, 1.0]])
        found = item(problems, 0, 1.0)
        assert not found.covariance.factor[0, 0].any()
        assert found.covariance.factor[0, 1].any()
        assert found.rounding[0] == rounding or (rounding == 0.0 and found.rounding[0] < 1e-13)
        if gap == -0.5:
            assert estimate(found).log_prob[0] == -INF


def test_a_width_that_is_rounded_away_is_unknown():
    lower, upper = [-INF, 0.0], [1e17, 1.0]
    for problems in (
        boxes(lower, upper, [[1.0, 0.0], [0.5, 0.5]]),
        one_factor(lower, upper, [1.0, 1.0], [1.0, 1.0]),
    ):
        assert item(problems, 0, 1e17).rounding[0] > 0.1
    lower, upper = [-INF, 0.0], [1.0, 1e-9]
    for problems in (
        boxes(lower, upper, [[1.0, 0.0], [0.5, 0.5]]),
        one_factor(lower, upper, [1.0, 1.0], [1.0, 1.0]),
    ):
        assert 1e-8 < item(problems, 0, 1.0).rounding[0] < 1e-5


@pytest.mark.parametrize("singular", [1e-14, 1e-7])
def test_precisions_whatever_is_determined(singular):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 6))
    root, determined = given_the_others(A[None], singular)
    np.testing.assert_allclose(root[0] ** 2, np.diagonal(np.linalg.inv(A @ A.T)), rtol=1e-11)
    assert not determined.any()
    zeros, copies = A[:, :4].copy(), A[:, :4].copy()
    zeros[[1, 3]] = 0.0  # rows 0, 2, 4 and 5 are left, and four columns for them
    copies[1], copies[3] = 2.0 * copies[0], copies[2] - copies[0]
    kept = [0, 2, 4, 5]
    expected = np.diagonal(np.linalg.inv(zeros[kept] @ zeros[kept].T))
    root, determined = given_the_others(np.stack([zeros, copies]), singular)
    np.testing.assert_allclose(root[:, kept] ** 2, [expected, expected], rtol=1e-9)
    assert determined.tolist() == [[False] * 6, [False, True, False, True, False, False]]
