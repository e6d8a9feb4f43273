"""One to three variables: 40-digit arithmetic, closed forms, and sums over parts of a box."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numba import njit
from support.boxes import boxes, within

from mvnorth._compile import for_python
from mvnorth._cpu import closed_form as kernels
from mvnorth._methods import closed_form
from mvnorth._precompute import quadrature
from mvnorth._scalar.bivariate import (
    bivariate_interval_parts,
    bivariate_parts,
    interval_probability,
    log_with_error,
)
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.normal import ndtr_parts
from mvnorth._scalar.plackett import trivariate_plackett, trivariate_plackett_box
from mvnorth._scalar.trivariate import (
    determinant,
    integral_parts,
    trivariate_box_parts,
    trivariate_parts,
)
from mvnorth._tables import quadrature as tables
from validation.oracles.exact import one_factor_logprob, trivariate_prob

INF = math.inf
EXACT_DIGITS = 40


@njit(cache=True, error_model="numpy")
def _solve_rows(lower, upper, corr, log_prob, rel_error):
    """What kernels do with standardised rows, correlations taken as exact."""
    d = lower.shape[1]
    for i in range(log_prob.size):
        a, b, r = lower[i], upper[i], corr[i]
        one_sided = True
        for j in range(d):
            one_sided &= a[j] == -np.inf
        error = power = 0.0
        if d == 1 and one_sided:
            f, power = ndtr_parts(b[0])
        elif d == 1:
            f, power = interval_probability(a[0], b[0], b[0] - a[0])
        elif d == 2 and one_sided:
            f, power = bivariate_parts(b[0], b[1], r[0], math.sqrt((1.0 - r[0]) * (1.0 + r[0])))
        elif d == 2:
            f, power, error = bivariate_interval_parts(a[0], b[0], a[1], b[1], r[0])
        elif not one_sided:
            det = determinant(r[0], r[1], r[2])
            f, error = trivariate_plackett_box(
                a[0], b[0], a[1], b[1], a[2], b[2], r[0], r[1], r[2], det
            )
            if math.isnan(error):
                f, power, error = trivariate_box_parts(
                    a[0], b[0], a[1], b[1], a[2], b[2], r[0], r[1], r[2]
                )
        else:
            det = determinant(r[0], r[1], r[2])
            f, error = trivariate_plackett(b[0], b[1], b[2], r[0], r[1], r[2], det)
            if math.isnan(error):
                f, power, error = trivariate_parts(
                    a[0], b[0], a[1], b[1], a[2], b[2], r[0], r[1], r[2]
                )
        log_prob[i], rel_error[i] = log_with_error(f, power, error, float(d), np.inf)


def solve(lower, upper, corr):
    """``(log_prob, rel_error)`` of a batch: limits (B, d), correlations (B, d(d-1)/2)."""
    upper = np.atleast_2d(np.asarray(upper, dtype=float))
    size, d = upper.shape
    lower = np.array(np.broadcast_to(np.asarray(lower, dtype=float), upper.shape))
    corr = np.array(np.broadcast_to(np.asarray(corr, dtype=float), (size, d * (d - 1) // 2)))
    reflect = (upper == INF) & (lower > -INF)
    lower, upper = np.where(reflect, -INF, lower), np.where(reflect, -lower, upper)
    sign = np.where(reflect, -1.0, 1.0)
    first, second = np.triu_indices(d, 1)
    log_prob, rel_error = np.full(size, np.nan), np.full(size, np.nan)
    _solve_rows(lower, upper, corr * sign[:, first] * sign[:, second], log_prob, rel_error)
    assert (rel_error >= 1e-15).all()
    return log_prob, rel_error


def off_by(log_prob, exact):
    """Relative error of exp(log_prob), without rounding the exact value."""
    with mpmath.workdps(EXACT_DIGITS):
        return float(abs(mpmath.exp(mpf(float(log_prob)) - mpmath.log(exact)) - 1))


def exact_bivariate(h, k, rho, digits=EXACT_DIGITS):
    """Pr(X <= h, Y <= k) from d Phi2 / d rho = phi2 (Plackett), starting at rho = 1 or -1."""
    working = digits
    while True:
        with mpmath.workdps(working):
            h, k, sign = mpf(h), mpf(k), (1 if rho > 0 else -1)
            if sign > 0:
                prob = start = mpmath.ncdf(min(h, k))
            else:
                prob = start = max(mpmath.ncdf(h) - mpmath.ncdf(-k), mpf(0))
            end = 2 * mpmath.asin(mpmath.sqrt((1 - abs(mpf(rho))) / 2))  # |rho| = cos(end)
            if end > 0 and max(h, k) < INF:
                prob -= sign * _change(h, sign * k, end)
            if prob >= start * mpf(10) ** (digits // 2 - working):
                return prob
        working *= 2


def _change(h, k, end):
    """Integral of phi2(h, k; rho) over rho = cos(u), 0 < u < end."""

    def log_density(u):
        return -((h - k) ** 2 + 4 * h * k * mpmath.sin(u / 2) ** 2) / (2 * mpmath.sin(u) ** 2)

    points = [mpf(0)]
    u = abs(h - k) / 16  # the density rises from 0 at this scale
    while 0 < u < end:
        points.append(u)
        u *= 3
    points.append(end)
    top = max(log_density(u) for u in points[1:])
    total = mpmath.quad(lambda u: mpmath.exp(log_density(u) - top), points)
    return total * mpmath.exp(top) / (2 * mpmath.pi)


def exact_box(lower, upper, rho):
    """Pr(lower < (X, Y) < upper) by inclusion and exclusion, with digits to spare."""
    with mpmath.workdps(2 * EXACT_DIGITS):
        return mpmath.fsum(
            s * t * exact_bivariate(x, y, rho, 2 * EXACT_DIGITS)
            for x, s in ((upper[0], 1), (lower[0], -1))
            for y, t in ((upper[1], 1), (lower[1], -1))
            if x > -INF and y > -INF
        )


def random_correlations(rng, size, close):
    """(size, 3) correlations of regular matrices; ``close`` pushes them towards singular ones."""
    rows = []
    while len(rows) < size:
        factor = rng.standard_normal((3, 3))
        kind = rng.integers(4) if close else 3
        small = 10.0 ** -rng.uniform(0, 6)
        if kind == 0:
            factor[:, 2] *= small
        elif kind == 1:
            factor[1] = factor[0] * rng.choice((-1, 1)) + small * factor[1]
        elif kind == 2:
            factor[:, 1:] *= small
        factor /= np.linalg.norm(factor, axis=1)[:, None]
        corr = (factor @ factor.T)[np.triu_indices(3, 1)]
        if np.abs(corr).max() < 1 and det(corr) > 1e-15:
            rows.append(corr)
    return np.array(rows)


def det(corr):
    r_12, r_13, r_23 = corr
    return 1 - r_12**2 - r_13**2 - r_23**2 + 2 * r_12 * r_13 * r_23


NEAR = [1 - 10.0**-e for e in (1, 3, 6, 9, 12, 15)]


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.7, 1.0, -1.0, *NEAR, *(-r for r in NEAR)])
def test_bivariate_has_absolute_and_relative_accuracy(rho):
    rng = np.random.default_rng(round(1e6 * rho) % 1000)
    h, k = rng.normal(scale=2.0, size=(2, 8))
    k[0] = h[0]
    k[1] = -h[1]
    k[2] = h[2] + 1e-7
    k[3] = -h[3] + 1e-7
    k[4] = rho * h[4] + math.sqrt(1 - rho * rho)
    log_prob, rel_error = solve(-INF, np.stack([h, k], axis=1), rho)
    for i in range(h.size):
        exact = exact_bivariate(h[i], k[i], rho)
        if exact == 0:
            assert log_prob[i] == -INF
            continue
        assert abs(mpmath.exp(mpf(float(log_prob[i]))) - exact) <= 1e-15
        assert off_by(log_prob[i], exact) <= rel_error[i] <= 1e-15 * (2.1 - mpmath.log(exact))


@pytest.mark.parametrize(
    ("h", "k", "rho"),
    [
        (-8.0, -8.0, 0.5),
        (-12.0, -3.0, -0.2),
        (-30.0, 2.0, -0.6),
        (-20.0, -35.0, 0.8),
        (-5.0, -5.0, -0.9),
        (-90.0, -90.0, 0.999),
        (-60.0, -61.0, -0.3),
        (-1.0, 0.2, -0.9999),
        (6.0, -6.01, -0.999999),
        (-4.8, -4.81, 0.965),  # two scales, unless the tail is split off
        (-32.4, -32.4, 0.9993),
        (-2.5, -2.5, 0.9),
    ],
)
def test_bivariate_tails_have_relative_accuracy(h, k, rho):
    log_prob, rel_error = solve(-INF, [[h, k], [k, h]], rho)
    exact = exact_bivariate(h, k, rho)
    for value, claim in zip(log_prob, rel_error, strict=True):
        assert off_by(value, exact) <= claim <= 1e-15 * (2.1 - mpmath.log(exact))


def test_bivariate_quadrants_add_to_one_and_zero_has_a_closed_form():
    rng = np.random.default_rng(1)
    h, k = rng.normal(scale=2.0, size=(2, 4000))
    rho = np.tanh(rng.normal(scale=4.0, size=4000))
    quadrants = [
        np.exp(solve(-INF, np.stack([s * h, t * k], axis=1), (s * t * rho)[:, None])[0])
        for s in (-1, 1)
        for t in (-1, 1)
    ]
    np.testing.assert_allclose(np.sum(quadrants, axis=0), 1.0, rtol=0, atol=1e-15)
    log_prob, _ = solve(-INF, np.zeros((4000, 2)), rho[:, None])
    expected = 0.25 + np.arcsin(rho) / (2 * np.pi)
    np.testing.assert_allclose(np.exp(log_prob), expected, rtol=0, atol=3e-16)


@pytest.mark.parametrize(
    ("lower", "upper", "rho"),
    [
        ((-1.0, -0.5), (0.3, 2.0), 0.4),
        ((-1.0, -INF), (0.3, 2.0), -0.8),
        ((1.5, 1.0), (INF, 1.2), -0.9),
        ((-4.0, 3.0), (-3.0, 4.0), 0.7),
        ((0.5, 0.5), (0.5 + 1e-6, 0.5 + 1e-5), 0.6),
        ((-1.0, -1.0), (1.0, 1.0), 1 - 1e-9),
        ((-1.0, 0.2), (0.1, 0.9), 1 - 1e-4),
        ((-1.0, 0.2), (0.1, 0.9), -1 + 1e-12),
        ((7.0, -9.0), (7.1, -6.0), -0.5),
    ],
)
def test_bivariate_boxes(lower, upper, rho):
    log_prob, rel_error = solve([lower, lower[::-1]], [upper, upper[::-1]], rho)
    exact = exact_box(lower, upper, rho)
    for value, claim in zip(log_prob, rel_error, strict=True):
        assert off_by(value, exact) <= claim <= 1e-12


def test_bivariate_boxes_of_a_singular_pair_are_intervals():
    upper = np.array([[0.7, 1.1], [0.7, 1.1], [0.7, 1.1]])
    lower = np.array([[-0.2, 0.1], [-0.2, -0.9], [-0.2, 0.8]])
    log_prob, _ = solve(lower, upper, [[1.0], [-1.0], [1.0]])
    interval, _ = solve([[0.1], [-0.2]], [[0.7], [0.7]], np.empty((2, 0)))
    assert log_prob.tolist() == [*interval.tolist(), -INF]


@pytest.mark.parametrize("low", [-INF, -40.0, -9.0, -1.0, 0.25])
@pytest.mark.parametrize("width", [1e-9, 1e-3, 0.02, 0.4, 3.0, INF])
def test_univariate_intervals(low, width):
    high = low + width if low > -INF else min(width, 1.7)
    log_prob, rel_error = solve([[low]], [[high]], np.empty((1, 0)))
    with mpmath.workdps(2 * EXACT_DIGITS):
        tail = mpmath.ncdf(-mpf(low)) - mpmath.ncdf(-mpf(high))
        exact = tail if low > 0 else mpmath.ncdf(mpf(high)) - mpmath.ncdf(mpf(low))
    assert off_by(log_prob[0], exact) <= rel_error[0]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_narrow_intervals_of_any_deviation(d):
    """Limits are rounded in units of the deviation: the error knows."""
    rng = np.random.default_rng(d)
    lower = rng.uniform(-4.0, 4.0, (100, d))
    upper = lower + 10.0 ** rng.uniform(-14.0, 0.3, (100, d))
    deviation = rng.uniform(0.2, 3.0, (100, d))
    factor = deviation[:, :, None] * np.eye(d)
    found = closed_form.solve(boxes(lower, upper, factor, singular=0.0), within(0.0))
    with mpmath.workdps(8 * EXACT_DIGITS):
        for i in range(100):
            exact = mpmath.fprod(
                mpmath.ncdf(mpf(b) / mpf(s)) - mpmath.ncdf(mpf(a) / mpf(s))
                for a, b, s in zip(lower[i], upper[i], deviation[i], strict=True)
            )
            # Of the estimate, which is what the error is relative to.
            true = float(exact / mpmath.exp(mpf(float(found.log_prob[i]))))
            assert abs(true - 1.0) <= found.rel_error[i]
    assert np.median(found.rel_error) < 1e-4


@pytest.mark.parametrize("close", [False, True])
def test_trivariate_has_a_closed_form_at_zero(close):
    corr = random_correlations(np.random.default_rng(2), 500, close)
    log_prob, rel_error = solve(-INF, np.zeros((500, 3)), corr)
    with mpmath.workdps(EXACT_DIGITS):
        for i in range(500):
            angles = mpmath.fsum(mpmath.asin(mpf(float(r))) for r in corr[i])
            assert off_by(log_prob[i], mpf(1) / 8 + angles / (4 * mpmath.pi)) <= rel_error[i]
    assert close or rel_error.max() < 1e-13


@pytest.mark.parametrize(
    ("upper", "corr"),
    [
        ((-1.0, 0.5, -0.7), (0.3, -0.5, 0.4)),
        ((2.5, 2.0, 3.0), (-0.6, 0.2, 0.55)),
        ((-5.0, -4.0, 1.0), (0.7, -0.3, -0.2)),
        ((-3.0, -2.0, -2.5), (-0.4, -0.45, -0.4)),
        ((0.4, 0.41, -0.9), (0.999, -0.5, -0.52)),
    ],
)
def test_trivariate_of_any_matrix(upper, corr):
    log_prob, rel_error = solve(-INF, upper, corr)
    matrix = np.eye(3)
    matrix[np.triu_indices(3, 1)] = matrix.T[np.triu_indices(3, 1)] = corr
    assert off_by(log_prob[0], trivariate_prob(upper, matrix)) <= rel_error[0] <= 1e-12


@pytest.mark.parametrize(
    ("lower", "upper", "c", "v"),
    [
        ((-INF,) * 3, (-8.0,) * 3, (0.5,) * 3, (1.0, 1.0, 1.0)),
        ((-INF,) * 3, (-9.0,) * 3, (0.5,) * 3, (1.0, 1.0, 1.0)),
        ((-INF,) * 3, (-50.0, -30.0, 3.0), (0.3, 1.0, 2.0), (1.0, 0.5, -1.0)),
        ((-INF,) * 3, (-0.5, 0.1, 0.2), (1e-4, 1e-3, 0.1), (1.0, -1.0, 1.0)),
        ((-INF,) * 3, (4.0, 5.0, 4.5), (0.1, 0.2, 0.3), (1.0, 1.0, -1.0)),
        ((-1.0, -INF, -INF), (0.5, 1.0, -0.7), (0.5, 0.6, 0.7), (1.0, 1.0, -1.0)),
        ((-1.0, 0.2, -2.0), (0.5, 1.0, -0.7), (0.5, 0.6, 0.7), (1.0, 1.0, -1.0)),
        ((3.0, 4.0, -7.0), (3.1, INF, -6.0), (0.5, 0.6, 0.7), (1.0, 1.0, -1.0)),
        ((0.3, -0.6, -1.0), (0.3001, -0.5, 1.0), (1e-3, 1e-2, 1.0), (1.0, -1.0, 1.0)),
    ],
)
def test_trivariate_with_one_common_factor(lower, upper, c, v):
    with mpmath.workdps(EXACT_DIGITS):
        # the limits and correlations that the kernel gets are rounded: take the exact ones of those
        c, v = np.array(c), np.array(v)
        loading = v / np.sqrt(c + v * v)
        own = [1 - mpf(float(x)) ** 2 for x in loading]
        corr = [float(loading[i] * loading[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    log_prob, rel_error = solve(lower, upper, corr)
    exact = one_factor_logprob(lower, upper, [float(x) for x in own], loading.tolist())
    # rounding of the correlations, which near a singular matrix counts more
    rounding = 1e-15 * (1 - float(exact)) / det(corr)
    assert off_by(log_prob[0], mpmath.exp(exact)) <= rel_error[0] + rounding
    assert rel_error[0] <= 1e-11


def test_variables_without_limits_and_independent_variables_drop_out():
    rng = np.random.default_rng(3)
    size = 200
    corr = random_correlations(rng, size, close=False)
    upper = rng.normal(scale=3.0, size=(size, 3))
    lower = upper - rng.exponential(size=(size, 3))
    lower[rng.random((size, 3)) < 0.4] = -INF
    upper[rng.random((size, 3)) < 0.2] = INF
    for free, (i, j), pair in ((0, (1, 2), 2), (1, (0, 2), 1), (2, (0, 1), 0)):
        a, b = lower.copy(), upper.copy()
        a[:, free], b[:, free] = -INF, INF
        three, error_three = solve(a, b, corr)
        two, error_two = solve(a[:, [i, j]], b[:, [i, j]], corr[:, [pair]])
        assert (np.abs(three - two) <= error_three + error_two).all()

        alone = np.zeros_like(corr)
        alone[:, pair] = corr[:, pair]
        three, error_three = solve(lower, upper, alone)
        two, error_two = solve(lower[:, [i, j]], upper[:, [i, j]], corr[:, [pair]])
        one, error_one = solve(lower[:, [free]], upper[:, [free]], np.empty((size, 0)))
        assert (np.abs(three - two - one) <= error_three + error_two + error_one).all()
    no_limits, _ = solve(-INF, [[INF, INF, INF]], corr[0])
    assert abs(no_limits[0]) <= 1e-15


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_parts_add_up_within_the_claimed_errors(d, close, scale):
    """Pr(box) is the sum over its two halves, whatever they are; also deep in the tails."""
    rng = np.random.default_rng(4)
    size = 1000 if d == 2 else 250
    corr = random_correlations(rng, size, close)[:, : d * (d - 1) // 2]
    if d == 2 and close:
        corr[::2] = np.sign(corr[::2]) * (1 - 10.0 ** -rng.uniform(0, 14, size=corr[::2].shape))
    upper = rng.normal(scale=scale, size=(size, d))
    lower = upper - rng.exponential(size=(size, d)) * 10.0 ** -rng.integers(0, 4, size=(size, 1))
    lower[rng.random((size, d)) < 0.5] = -INF
    inside = np.where(lower[:, 0] > -INF, 0.4 * lower[:, 0] + 0.6 * upper[:, 0], upper[:, 0] - 0.7)
    left, right = upper.copy(), lower.copy()
    left[:, 0] = right[:, 0] = inside
    whole, error = solve(lower, upper, corr)
    one, error_one = solve(lower, left, corr)
    two, error_two = solve(right, upper, corr)
    claimed = np.isfinite(error + error_one + error_two)
    assert claimed.mean() > (0.85 if close else 0.999)
    share_one = np.exp(one[claimed] - whole[claimed])
    share_two = np.exp(two[claimed] - whole[claimed])
    allowed = error[claimed] + error_one[claimed] * share_one + error_two[claimed] * share_two
    assert (np.abs(share_one + share_two - 1.0) <= allowed).all()
    if not close:
        assert np.median(error) < 1e-12


@njit(cache=True)
def _over_each_variable(upper, corr, log_prob, rel_error):
    """Three computations of the same one-sided probability."""
    for i in range(len(corr)):
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            f, power, error = integral_parts(
                -np.inf, upper[i, j], -np.inf, upper[i, k], -np.inf, upper[i, m],
                corr[i, j + k - 1], corr[i, j + m - 1], corr[i, k + m - 1],
            )  # fmt: skip
            log_prob[j, i], rel_error[j, i] = log_with_error(f, power, error, 3.0, np.inf)


@pytest.mark.parametrize("close", [False, True])
def test_trivariate_does_not_depend_on_the_variable_integrated_over(close):
    rng = np.random.default_rng(5)
    size = 1500
    corr = random_correlations(rng, size, close)
    upper = rng.normal(size=(size, 3)) * rng.choice((0.5, 2.0, 8.0), size=(size, 1))
    gap = 10.0 ** -rng.uniform(0, 6, size=(size // 2, 1))  # limits that almost agree
    upper[::2] = upper[::2, :1] + gap * rng.normal(size=(size // 2, 3))
    log_prob, rel_error = np.empty((2, 3, size))
    _over_each_variable(upper, corr, log_prob, rel_error)
    assert np.isfinite(rel_error).mean() > (0.95 if close else 0.999)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        both = np.isfinite(rel_error[i] + rel_error[j])
        off = np.abs(np.expm1(log_prob[i] - log_prob[j]))
        assert (off <= rel_error[i] + rel_error[j])[both].all()


@pytest.mark.parametrize(
    "corr",
    [(1.0, 1.0, 1.0), (-0.5, -0.5, -0.5), (0.6, 0.8, 0.0), (1.0, 0.3, 0.3), (0.9, 0.9, -0.9)],
)
def test_singular_matrices_are_not_claimed(corr):
    _, rel_error = solve(-INF, [[0.5, -0.2, 0.1]], corr)
    assert rel_error[0] == INF


@pytest.mark.parametrize("limit", [1e5, 1e8, 1e300])
def test_limits_too_far_out_are_not_claimed(limit):
    for lower, upper in (((-INF,) * 3, (-limit, 1.0, 2.0)), ((limit,) * 3, (2 * limit,) * 3)):
        for d in (2, 3):
            log_prob, rel_error = solve(lower[:d], upper[:d], np.full(d * (d - 1) // 2, 0.3))
            assert log_prob[0] < -1e9
            assert rel_error[0] > 1e-7
            assert limit < 1e6 or rel_error[0] == INF


@pytest.mark.parametrize(("width", "share"), [(0.3, 0.05), (1.0, 0.4), (3.0, 0.85)])
def test_both_methods_for_boxes_of_three_variables_agree(width, share):
    rng = np.random.default_rng(7)
    size = 2000
    factor = rng.normal(size=(size, 3, 3))
    factor /= np.linalg.norm(factor, axis=2, keepdims=True)
    centre, widths = rng.normal(size=(size, 3)), width * np.exp(rng.normal(size=(size, 3)) / 2)
    lower, upper = centre - widths / 2, centre + widths / 2
    lower[::5, 0] = -INF
    results = []
    for kernel in (kernels.trivariate_box, kernels.trivariate_box_adaptive):
        log_prob, rel_error = np.empty(size), np.full(size, np.nan)
        kernel(lower, upper, factor, log_prob, rel_error, 0, size)
        results.append((log_prob, rel_error))
    (first, first_error), (second, second_error) = results
    taken = ~np.isnan(first_error)
    assert taken.mean() > share
    off = np.abs(np.expm1(first[taken] - second[taken]))
    assert (off <= (first_error + second_error)[taken]).all()
    assert np.median(first_error[taken]) < 2e-13


def random_problems(rng, size, d, shared):
    """One-sided and two-sided rows, some coordinates reflected or without limits."""
    factor = rng.normal(size=(1 if shared else size, d, d + 1))
    upper = 2.0 * rng.normal(size=(size, d))
    lower = upper - rng.exponential(size=(size, d))
    one_sided = rng.random((size, d)) < 0.8
    lower[one_sided] = -INF
    reflected = one_sided & (rng.random((size, d)) < 0.5)
    lower[reflected], upper[reflected] = -upper[reflected], INF
    lower[rng.random((size, d)) < 0.1], upper[rng.random((size, d)) < 0.1] = -INF, INF
    return boxes(lower, upper, factor, singular=1e-15)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_a_row_does_not_depend_on_its_batch(d, shared):
    problems = random_problems(np.random.default_rng(d), 60, d, shared)
    whole = closed_form.solve(problems, within(0.0))
    assert np.isfinite(whole.rel_error).all()
    for i in range(problems.size):
        row = problems.take(slice(i, i + 1))
        for sides in (None, 2) if row.two_sided[0] else (None, 1):
            alone = closed_form.solve(replace(row, sides=sides), within(0.0))
            assert alone.log_prob[0] == whole.log_prob[i]
            assert alone.rel_error[0] == whole.rel_error[i]


def test_arrays_of_any_kind():
    problems = random_problems(np.random.default_rng(0), 7, 2, shared=False)
    expected = closed_form.solve(problems, within(0.0))
    factor = problems.covariance.factor
    read_only = replace(problems.covariance, factor=np.broadcast_to(factor, factor.shape))
    columns = np.asfortranarray(problems.upper)
    found = closed_form.solve(replace(problems, covariance=read_only, upper=columns), within(0.0))
    np.testing.assert_array_equal(found.log_prob, expected.log_prob)
    np.testing.assert_array_equal(found.rel_error, expected.rel_error)


def test_one_sided_rows_compile_nothing_two_sided(tmp_path):
    program = """
import numpy as np
import mvnorth
from mvnorth._cpu import closed_form as kernels
from mvnorth._scalar import bivariate

L = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
found = mvnorth.orthant(np.zeros(2), L)
assert abs(found.prob - 1.0 / 3.0) < found.error < 1e-14
assert kernels.bivariate.signatures
assert not kernels.bivariate_box.signatures
assert not bivariate.interval_probability.signatures
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@njit(error_model="numpy")
def _tent(p, t):
    """exp(-slope |t - kink|), from ``wall`` on falling ``steep``."""
    kink, slope, wall, steep = p
    x = -slope * abs(min(t, wall) - kink) - steep * max(t - wall, 0.0)
    k = np.floor(x / np.log(2.0))
    return np.exp(x - k * np.log(2.0)), k, 3e-16 * (1.0 + abs(x) + slope * (abs(t) + abs(kink)))


_integrate_tent = for_python(log_concave_integrator(_tent))


def test_integrator_is_honest_about_kinks_and_walls():
    """What smooth functions hide: a kink anywhere, a wall beyond the last node of a panel."""
    rng = np.random.default_rng(6)
    resolved = 0
    for _ in range(300):
        slope, steep = 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(3, 9)
        kink, wall = rng.normal(), rng.normal() + 1.0 / slope
        kink = min(kink, wall)
        p, start = (kink, slope, wall, steep), kink + rng.normal() / slope
        f, k, error, _, _ = _integrate_tent(p, -INF, INF, start, 1.0 / slope)
        edge = math.exp(-slope * (wall - kink))
        exact = (2.0 - edge) / slope + edge / steep
        assert abs(f * 2.0**k / exact - 1.0) <= error + 2e-15
        resolved += error < 1e-9
    assert resolved > 200


def test_tables_are_those_of_the_generator():
    for size, nodes, weights in (
        (quadrature.SIZE, tables.NODES, tables.WEIGHTS),
        (quadrature.PANEL_SIZE, tables.PANEL_NODES, tables.PANEL_WEIGHTS),
    ):
        x, w = quadrature.rule(size)
        assert nodes == tuple(float((1 + xi) / 2) for xi in x)
        assert weights == tuple(float(wi / 2) for wi in w)
    series = quadrature.series(x, w)
    assert tuple(tuple(float(c) for c in row) for row in series) == tables.PANEL_SERIES
