"""Phi, its inverse, log Phi and phi/Phi against 40-digit arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mvnorth import _threads
from mvnorth._cpu import special as kernels
from mvnorth.special import log_ndtr, mills, ndtr, ndtri

SMALLEST = mpmath.mpf(2) ** -1074
FUNCTIONS = (ndtr, log_ndtr, mills, ndtri)


def _exact_ndtr(x):
    return mpmath.ncdf(x)


def _exact_log_ndtr(x):
    return mpmath.log(mpmath.ncdf(x)) if x < 0 else mpmath.log1p(-mpmath.ncdf(-x))


def _exact_mills(x):
    return mpmath.npdf(x) / mpmath.ncdf(x)


EXACT = {ndtr: _exact_ndtr, log_ndtr: _exact_log_ndtr, mills: _exact_mills}


def _claimed(function, x):
    return 1e-15 if function is log_ndtr or abs(x) <= 8.0 else 1e-14


def _assert_accurate(function, xs):
    """``function`` is as accurate as ``mvnorth.special`` says, at each of ``xs``."""
    with mpmath.workdps(40):
        for x, value in zip(xs.tolist(), function(xs).tolist(), strict=True):
            exact = EXACT[function](mpmath.mpf(x))
            off = abs(mpmath.mpf(value) - exact)
            allowed = abs(exact) * _claimed(function, x)
            if abs(exact) < np.finfo(float).tiny:  # log_ndtr rounds more than once there
                allowed += SMALLEST * (2 if function is log_ndtr else 0.5)
            assert off <= allowed, f"{function.__name__}({x!r}) = {value!r}, off by {float(off)}"


def _inverse_error(p, y):
    """Relative error of y as the quantile of p: one Newton step from y, in 40 digits."""
    with mpmath.workdps(40):
        p, y = mpmath.mpf(p), mpmath.mpf(y)
        return float(abs((mpmath.ncdf(y) - p) / mpmath.npdf(y) / y))


def _assert_inverse_accurate(ps):
    for p, y in zip(ps.tolist(), ndtri(ps).tolist(), strict=True):
        error = _inverse_error(p, y)
        assert error <= (1e-15 if abs(y) <= 8.0 else 1e-14), f"ndtri({p!r}) = {y!r}, off {error}"


@pytest.mark.parametrize("function", EXACT)
@pytest.mark.parametrize(("low", "high"), [(-8.0, 8.0), (-38.6, -8.0), (8.0, 37.0), (-0.01, 0.01)])
def test_accuracy_over_the_range(function, low, high):
    rng = np.random.default_rng(1)
    _assert_accurate(function, np.r_[low, rng.uniform(low, high, 600), high])


@pytest.mark.parametrize("function", EXACT)
def test_accuracy_at_special_points(function):
    magnitudes = [5e-324, 1e-300, 2.0**-60, 1e-9, 0.5, 1.0, 4.0, 8.0, 1 / 256, 3.5 / 256, 36.0]
    magnitudes += [np.nextafter(8.0, 9.0), 0.674489750196082, 37.5, 38.0, 38.4]
    xs = np.array([0.0, *magnitudes])
    _assert_accurate(function, np.r_[xs, -xs])


@pytest.mark.parametrize("function", [log_ndtr, mills])
def test_accuracy_far_out(function):
    rng = np.random.default_rng(2)
    xs = -(10.0 ** np.r_[rng.uniform(1.5, 8.0, 200), 2.0, 4.0, 8.0, 12.0])
    _assert_accurate(function, np.r_[xs, -40.0, -4e7, np.nextafter(-4e7, -1e8)])


@pytest.mark.parametrize("x", [-1e100, -1e150, -1e200, -8e307, -1.7e308])
def test_asymptotes_at_the_edge_of_the_numbers(x):
    half_square = 0.5 * x * x  # overflows quietly: these are Python numbers
    assert log_ndtr(x) == pytest.approx(-half_square, rel=1e-15, abs=0.0)
    assert mills(x) == pytest.approx(-x, rel=1e-14, abs=0.0)


@pytest.mark.parametrize("function", EXACT)
@settings(deadline=None, derandomize=True, max_examples=100)
@given(x=st.floats(-38.0, 37.0))
def test_accuracy_at_adversarial_points(function, x):
    _assert_accurate(function, np.array([x]))


def test_subnormal_probabilities():
    xs = -np.linspace(37.52, 38.6, 400)
    _assert_accurate(ndtr, xs)
    _assert_accurate(log_ndtr, -xs)
    _assert_accurate(mills, -xs)
    assert ndtr(-39.0) == 0.0
    assert ndtr(-38.4) > 0.0


@pytest.mark.parametrize("span", [(-324, -290), (-300, -17), (-17, -3), (-4, 0)])
def test_quantiles_of_small_probabilities(span):
    rng = np.random.default_rng(3)
    ps = 10.0 ** rng.uniform(*span, 400)
    _assert_inverse_accurate(ps[(ps > 0.0) & (ps < 1.0) & (ps != 0.5)])


def test_quantiles_in_the_middle():
    _assert_inverse_accurate(np.random.default_rng(4).uniform(0.0, 1.0, 500))


def test_quantiles_near_one_half():
    steps = 10.0 ** -np.linspace(0.5, 15.9, 150)
    ps = np.r_[0.5 + steps, 0.5 - steps, np.nextafter(0.5, 0), np.nextafter(0.5, 1)]
    _assert_inverse_accurate(ps)
    assert ndtri(0.5) == 0.0


def test_quantiles_near_one():
    ps = 1.0 - 10.0 ** -np.linspace(0.4, 15.9, 200)
    _assert_inverse_accurate(np.r_[ps, np.nextafter(1.0, 0.0), 1.0 - 1e-16])


def test_quantiles_of_the_smallest_numbers():
    _assert_inverse_accurate(np.array([5e-324, 1e-323, 2.3e-308, 1e-290, 9.9e-291, 1e-17, 9e-18]))


@settings(deadline=None, derandomize=True, max_examples=200)
@given(p=st.floats(0.0, 1.0, exclude_min=True, exclude_max=True).filter(lambda p: p != 0.5))
def test_quantiles_of_adversarial_probabilities(p):
    _assert_inverse_accurate(np.array([p]))


@pytest.mark.parametrize(
    ("function", "at_minus_infinity", "at_infinity"),
    [(ndtr, 0.0, 1.0), (log_ndtr, -math.inf, 0.0), (mills, math.inf, 0.0)],
)
def test_limits(function, at_minus_infinity, at_infinity):
    assert function(-np.inf) == at_minus_infinity
    assert function(np.inf) == at_infinity
    assert function(1e308) == at_infinity


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nan_gives_nan_and_leaves_its_neighbours_alone(function):
    values = function(np.array([0.25, np.nan, 0.75]))
    assert np.isnan(values).tolist() == [False, True, False]
    assert values[0] == function(0.25)
    assert values[2] == function(0.75)


def test_quantiles_at_and_outside_the_ends():
    assert ndtri([0.0, -0.0, 1.0]).tolist() == [-np.inf, -np.inf, np.inf]
    outside = [-1e-300, -1.0, np.nextafter(1.0, 2.0), 2.0, np.inf, -np.inf]
    assert np.isnan(ndtri(outside)).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_scalars_and_zero_dimensions_give_numbers(function):
    for x in (0.25, np.float64(0.25), np.array(0.25)):
        value = function(x)
        assert isinstance(value, float)
        assert np.ndim(value) == 0
        assert value == function([0.25])[0]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3), (2, 3, 4), (0,), (3, 0)])
def test_shapes_are_kept(function, shape):
    x = np.linspace(0.01, 0.99, max(1, math.prod(shape)))[: math.prod(shape)].reshape(shape)
    values = function(x)
    assert values.shape == shape
    assert values.dtype == np.float64
    assert values.tolist() == [function(row).tolist() for row in x]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_strided_input_is_read_in_order_and_not_written(function):
    grid = np.linspace(0.01, 0.99, 60).reshape(6, 10)
    before = grid.copy()
    for view in (grid[::2, ::3], grid.T, grid[::-1], np.asfortranarray(grid)):
        expected = [[float(function(x)) for x in row] for row in view]
        assert function(view).tolist() == expected
    assert (grid == before).all()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float32, bool])
def test_other_types_of_numbers(function, kind):
    assert function(np.array([0, 1], dtype=kind)).tolist() == function([0.0, 1.0]).tolist()
    assert function(1) == function(1.0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_do_not_depend_on_the_position_in_the_array(function):
    """Vector code and its remainder loop agree to the bit."""
    x = np.random.default_rng(5).uniform(1e-6, 1.0, 101)
    whole = function(x)
    assert [float(function(v)) for v in x] == whole.tolist()
    assert function(x[3:]).tolist() == whole[3:].tolist()


def test_monotone():
    xs = np.arange(-39 * 1024, 39 * 1024) / 1024.0
    left, right = xs[xs < 6.0], xs[xs > -6.0]
    assert (np.diff(ndtr(xs)) >= 0.0).all()
    assert (np.diff(ndtr(left[left > -38.0])) > 0.0).all()
    assert (np.diff(log_ndtr(left)) > 0.0).all()
    assert (np.diff(log_ndtr(right)) >= 0.0).all()
    assert (np.diff(mills(left)) < 0.0).all()
    assert (np.diff(mills(right)) <= 0.0).all()
    ps = np.r_[10.0 ** np.linspace(-323, -1, 20000), np.linspace(0.1001, 1.0, 20001)]
    assert (np.diff(ndtri(np.unique(ps))) > 0.0).all()


def test_monotone_where_one_formula_takes_over_from_another():
    for edge in (1e-290, 1e-17, 0.25, 0.75, 8.4e-18, 1.2e-17):
        ps = edge * (1.0 + np.arange(-300, 300) * 1e-11)
        assert (np.diff(ndtri(ps)) > 0.0).all(), edge
    for edge in (0.0, 0.6744897501960817, -0.6744897501960817, 8.0, -8.0, -36.5):
        xs = edge + np.arange(-300, 300) * 1e-12
        assert (np.diff(log_ndtr(xs)) > 0.0).all(), edge
        assert (np.diff(ndtr(xs)) >= 0.0).all(), edge


@settings(deadline=None, derandomize=True, max_examples=200)
@given(x=st.floats(-37.5, 5.0))
def test_quantile_inverts_ndtr(x):
    p = ndtr(x)
    # p is off by its own rounding, which moves the quantile by dp / phi(x).
    moved = 2e-15 * max(abs(x), 1e-3) + 2e-15 / mills(x)
    assert abs(ndtri(p) - x) <= moved


@settings(deadline=None, derandomize=True, max_examples=200)
@given(p=st.floats(1e-300, 1.0 - 1e-15))
def test_ndtr_inverts_quantile(p):
    x = ndtri(p)
    assert ndtr(x) == pytest.approx(p, rel=3e-15 * max(1.0, x * x), abs=0.0)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(x=st.floats(-30.0, 30.0))
def test_both_tails_are_one(x):
    assert ndtr(x) + ndtr(-x) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("x", [-1e6, -50.0, -8.5, -1.0, 0.0, 0.3, 3.0, 20.0])
def test_mills_is_the_derivative_of_log_ndtr(x):
    with mpmath.workdps(60):
        slope = mpmath.diff(_exact_log_ndtr, mpmath.mpf(x), h=mpmath.mpf(10) ** -20)
        assert float(abs(mpmath.mpf(float(mills(x))) / slope - 1)) <= _claimed(mills, x)


def test_mills_continues_log_ndtr_and_ndtr():
    """phi / Phi through the other two functions: a check of their common tail."""
    xs = np.linspace(-37.0, 8.0, 500)
    log_density = -0.5 * xs * xs - 0.5 * math.log(2.0 * math.pi)
    assert np.allclose(np.log(mills(xs)), log_density - log_ndtr(xs), rtol=0, atol=5e-13)
    assert np.allclose(np.exp(log_ndtr(xs)), ndtr(xs), rtol=5e-13, atol=0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_large_arrays_are_cut_without_changing_a_bit(function, monkeypatch):
    x = np.random.default_rng(0).uniform(0.0, 1.0, size=200_001)
    whole = np.empty_like(x)
    getattr(kernels, function.__name__)(x, whole)
    for threads in (1, 3):
        monkeypatch.setattr(_threads, "_threads", threads)
        monkeypatch.setattr(_threads, "_pool", None)
        monkeypatch.setattr(_threads, "_SHORT", 0.0)
        assert function(x).tobytes() == whole.tobytes()
