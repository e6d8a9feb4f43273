"""Bad input: an exception whose message names the argument and what it got."""

import numpy as np
import pytest

import mvnorth
from mvnorth._plan import NotApplicable

ZERO = np.zeros(4)
COV = 0.5 * np.eye(4) + 0.5
FACTOR = np.linalg.cholesky(COV)


def _changed(array, index, value):
    copy = np.array(array)
    copy[index] = value
    return copy


def _assert_raises(kind, words, function, *args, **kwargs):
    """``function`` raises ``kind`` and its message holds all ``words``."""
    with pytest.raises(kind) as caught:
        function(*args, **kwargs)
    message = str(caught.value)
    assert type(caught.value) is kind
    for word in words:
        assert word in message, f"{word!r} is missing from: {message}"


NOT_NUMBERS = {
    "strings": ["a", "b", "c", "d"],
    "numbers in strings": ["1", "2", "3", "4"],
    "dates": np.full(4, "2020-01-01", dtype="datetime64[D]"),
    "durations": np.full(4, 1, dtype="timedelta64[s]"),
    "complex": np.full(4, 1j),
    "ragged": [[0.0, 0.0], [0.0]],
    "dictionary": {"m": 0.0},
    "objects": [object()] * 4,
}


@pytest.mark.parametrize("value", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
@pytest.mark.parametrize("name", ["m", "L", "lower", "upper", "mean", "cov", "x", "lower_limit"])
def test_not_numbers(name, value):
    words = (f"{name} must be an array of real numbers",)
    if name in ("m", "L"):
        arguments = {"m": ZERO, "L": FACTOR, name: value}
        _assert_raises(TypeError, words, mvnorth.orthant, **arguments)
    elif name in ("x", "lower_limit"):
        arguments = {"x": ZERO, "cov": COV, name: value}
        _assert_raises(TypeError, words, mvnorth.cdf, **arguments)
    else:
        arguments = {"lower": -1.0, "upper": 1.0, "mean": 0.0, "cov": COV, name: value}
        _assert_raises(TypeError, words, mvnorth.box, **arguments)


CALLS = {  # a call with (d,) numbers for an argument, for every place where arrays are read
    "m": lambda m: mvnorth.orthant_prob(m, np.eye(2)),
    "lower": lambda a: mvnorth.box_prob(a, np.inf, 0.0, np.eye(2)),
    "upper": lambda a: mvnorth.sample_box(-np.inf, a, 0.0, np.eye(2), 1),
    "mean": lambda a: mvnorth.box_prob(0.0, np.inf, a, np.eye(2)),
    "cov": lambda a: mvnorth.cdf([0.0, 0.0], cov=a),
    "c": lambda a: mvnorth.OneFactor(a, 1.0),
    "v": lambda a: mvnorth.OneFactor(1.0, a),
    "mu": lambda a: mvnorth.prob_argmax(a, 1.0),
    "sigma": lambda a: mvnorth.prob_topk([0.0, 0.0], a, 1),
    "x": mvnorth.special.log_ndtr,
    "p": mvnorth.special.ndtri,
}


@pytest.mark.parametrize("name", CALLS)
def test_masked_entries(name):
    whole = np.ma.masked_array([0.25, 0.5], mask=[False, False])
    CALLS[name](whole)
    whole[1] = np.ma.masked
    words = (f"{name} must not have masked entries", "found 1", ".filled()")
    _assert_raises(ValueError, words, CALLS[name], whole)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]", "U3"])
def test_dates_and_text_are_not_numbers(name, dtype):
    value = np.array([1, 2]).astype(dtype)
    words = (f"{name} must be an array of real numbers: it is of type {value.dtype}",)
    _assert_raises(TypeError, words, CALLS[name], value)


@pytest.mark.parametrize("name", CALLS)
def test_integers_beyond_double_precision(name):
    words = (f"{name} has a number that is too large for double precision",)
    _assert_raises(ValueError, words, CALLS[name], [1, 10**400])
    _assert_raises(ValueError, words, CALLS[name], [1, -(10**400)])


@pytest.mark.parametrize("name", ["m", "L"])
def test_nan_in_an_orthant(name):
    arguments = {"m": ZERO, "L": FACTOR}
    arguments[name] = _changed(arguments[name], 1, np.nan)
    count = f"found {np.isnan(arguments[name]).sum()}"
    _assert_raises(
        ValueError, (f"{name} must not contain NaN", count), mvnorth.orthant, **arguments
    )


@pytest.mark.parametrize("name", ["lower", "upper", "mean", "cov"])
def test_nan_in_a_box(name):
    arguments = {"lower": ZERO - 1.0, "upper": ZERO + 1.0, "mean": ZERO, "cov": COV}
    arguments[name] = _changed(arguments[name], 1, np.nan)
    count = f"found {np.isnan(arguments[name]).sum()}"
    _assert_raises(ValueError, (f"{name} must not contain NaN", count), mvnorth.box, **arguments)


@pytest.mark.parametrize("name", ["x", "mean", "cov", "lower_limit"])
def test_nan_in_a_cdf(name):
    arguments = {"x": ZERO, "mean": ZERO, "cov": COV, "lower_limit": ZERO - 1.0}
    arguments[name] = _changed(arguments[name], 1, np.nan)
    _assert_raises(ValueError, (f"{name} must not contain NaN",), mvnorth.cdf, **arguments)


def test_infinities_where_they_mean_nothing():
    bad_cov, bad_factor = _changed(COV, (2, 2), np.inf), _changed(FACTOR, (3, 0), -np.inf)
    _assert_raises(ValueError, ("L must be finite",), mvnorth.orthant, ZERO, bad_factor)
    _assert_raises(ValueError, ("cov must be finite",), mvnorth.box, 0.0, 1.0, 0.0, bad_cov)
    _assert_raises(ValueError, ("mean must be finite",), mvnorth.box, 0.0, 1.0, np.inf, COV)
    _assert_raises(ValueError, ("mean must be finite",), mvnorth.cdf, ZERO, ZERO - np.inf, COV)


@pytest.mark.parametrize("m", [0.0, np.zeros(0), np.zeros((3, 0))])
def test_shape_of_m(m):
    _assert_raises(
        ValueError, ("m must have shape (..., d)", f"got {np.shape(m)}"), mvnorth.orthant, m, FACTOR
    )


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (3, 4), (0, 0), (5, 4, 3), (2, 0, 0)])
def test_shape_of_the_matrix(shape):
    matrix = np.ones(shape)
    _assert_raises(
        ValueError,
        ("L must have shape (..., d, d)", f"got {shape}"),
        mvnorth.orthant,
        ZERO,
        matrix,
    )
    words = ("cov must have shape (..., d, d)", f"got {shape}")
    _assert_raises(ValueError, words, mvnorth.box, -1.0, 1.0, 0.0, matrix)


def test_dimensions_that_differ():
    words = ("m and L differ", "(3,)", "(4, 4)")
    _assert_raises(ValueError, words, mvnorth.orthant, np.zeros(3), FACTOR)
    for name in ("lower", "upper", "mean"):
        arguments = {"lower": -1.0, "upper": 1.0, "mean": 0.0, "cov": COV, name: np.zeros((2, 3))}
        words = (f"{name} must have shape (..., 4)", "got (2, 3)")
        _assert_raises(ValueError, words, mvnorth.box, **arguments)


@pytest.mark.parametrize("name", ["x", "mean", "lower_limit"])
def test_dimensions_that_differ_in_cdf(name):
    arguments = {"x": ZERO, "mean": ZERO, "cov": COV, "lower_limit": ZERO - 1.0, name: np.zeros(3)}
    _assert_raises(ValueError, (f"{name} ", "(3,)", "(4, 4)"), mvnorth.cdf, **arguments)


def test_upper_triangle_of_L():
    words = ("L must be lower triangular", "cdf, box_prob or sample_box")
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, COV)
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, FACTOR.T)
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, np.stack([FACTOR, COV]))


def test_negative_diagonal_of_L():
    bad = _changed(FACTOR, (2, 2), -0.25)
    words = ("L must have a diagonal >= 0", "-0.25")
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, bad)
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, np.stack([FACTOR, bad]))


def test_negative_variance():
    words = ("cov must have a diagonal >= 0", "-2")
    _assert_raises(ValueError, words, mvnorth.box, 0.0, 1.0, 0.0, _changed(COV, (1, 1), -2.0))


def test_asymmetric_covariance():
    bad = _changed(COV, (3, 1), 0.25)
    for cov in (bad, np.stack([COV, bad])):
        words = ("cov must be symmetric", "2.5e-01")
        _assert_raises(ValueError, words, mvnorth.box, 0.0, 1.0, 0.0, cov)
        _assert_raises(ValueError, words, mvnorth.cdf, ZERO, cov=cov)


def test_asymmetry_by_rounding_is_accepted():
    cov = _changed(COV, (3, 1), 0.5 + 1e-14)
    assert mvnorth.cdf(ZERO, cov=cov) == pytest.approx(0.2, rel=1e-3, abs=0.0)


def test_indefinite_covariance():
    bad = 1.5 * np.eye(4) - 0.5  # eigenvalues 1.5 and -0.5
    for cov in (bad, 1e8 * bad, 1e-8 * bad, np.stack([COV, bad])):
        words = ("cov must be positive semi-definite", "-0.5")
        _assert_raises(ValueError, words, mvnorth.box, 0.0, 1.0, 0.0, cov)


def test_covariance_with_a_constant():
    bad = _changed(COV, (2, 2), 0.0)
    _assert_raises(ValueError, ("positive semi-definite",), mvnorth.box, 0.0, 1.0, 0.0, bad)


def test_lower_above_upper():
    lower, upper = ZERO - 1.0, _changed(ZERO + 1.0, 2, -1.5)
    words = ("lower must not exceed upper", "coordinate 2", "-1 ", "-1.5")
    _assert_raises(ValueError, words, mvnorth.box, lower, upper, 0.0, COV)
    batch = np.stack([ZERO + 1.0, upper])
    _assert_raises(ValueError, words, mvnorth.box, lower, batch, 0.0, COV)
    _assert_raises(ValueError, ("lower", "upper"), mvnorth.box, np.inf, -np.inf, 0.0, COV)


def test_lower_limit_above_x():
    words = ("lower_limit must not exceed x", "coordinate 0")
    _assert_raises(ValueError, words, mvnorth.cdf, ZERO, cov=COV, lower_limit=ZERO + 1.0)


def test_batch_shapes_that_do_not_broadcast():
    words = ("batch shapes do not broadcast", "m (2,)", "L (3,)")
    factors = np.stack([FACTOR] * 3)
    _assert_raises(ValueError, words, mvnorth.orthant, np.zeros((2, 4)), factors)
    words = ("batch shapes do not broadcast", "lower (2,)", "upper (5, 3)", "mean ()", "cov ()")
    lower, upper = np.zeros((2, 4)), np.ones((5, 3, 4))
    _assert_raises(ValueError, words, mvnorth.box, lower, upper, 0.0, COV)


@pytest.mark.parametrize(
    ("n", "kind"),
    [
        (0, ValueError), (-8, ValueError), (1.5, TypeError), (64.5, TypeError), ("64", TypeError),
        (True, TypeError), (np.True_, TypeError),
    ],
)  # fmt: skip
def test_number_of_points(n, kind):
    words = ("n must be", f"got {n!r}")
    _assert_raises(kind, words, mvnorth.orthant, ZERO, FACTOR, n)
    _assert_raises(kind, words, mvnorth.box_prob, -1.0, 1.0, 0.0, COV, n=n)


@pytest.mark.parametrize("n", [16, np.int32(16), np.uint8(16)])
def test_whole_numbers_of_any_type_are_numbers_of_points(n):
    assert mvnorth.orthant(ZERO, FACTOR, n, method="genz").n == 16


@pytest.mark.parametrize("method", ["Genz", "", "monte carlo", None, 3])
def test_unknown_method(method):
    words = ("method must be one of", "'auto'", "'closed_form'", "'genz'", f"got {method!r}")
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, FACTOR, method=method)


@pytest.mark.parametrize(
    ("seed", "kind"), [(-1, ValueError), (0.5, TypeError), ("0", TypeError), (None, TypeError)]
)
def test_seed(seed, kind):
    words = ("seed must be", f"got {seed!r}")
    _assert_raises(kind, words, mvnorth.orthant, ZERO, FACTOR, seed=seed)


@pytest.mark.parametrize(
    "value", [-1e-9, np.nan, -np.inf, "small", [1e-3], 1j, np.complex128(1), True]
)
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerance(name, value):
    words = (f"{name} must be a number >= 0", f"got {value!r}")
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, FACTOR, **{name: value})
    _assert_raises(ValueError, words, mvnorth.box, 0.0, 1.0, 0.0, COV, n=64, **{name: value})


def test_a_tolerance_beyond_double_precision():
    words = ("rtol must be at most 1.8e+308",)
    _assert_raises(ValueError, words, mvnorth.orthant, ZERO, FACTOR, rtol=10**400)


@pytest.mark.parametrize("name", ["maxpts", "abseps", "releps"])
def test_messages_of_cdf_use_the_names_of_its_arguments(name):
    words = (f"{name} must be", "got -1")
    _assert_raises(ValueError, words, mvnorth.cdf, ZERO, cov=COV, **{name: -1})


def test_closed_form_of_a_large_block():
    words = ("method='closed_form'", "at most 3", "has 4 coordinates", "'auto'")
    _assert_raises(NotApplicable, words, mvnorth.orthant, ZERO, FACTOR, method="closed_form")
    pair = np.kron(np.eye(2), 0.5 * np.eye(2) + 0.5)
    result = mvnorth.box(-np.inf, 0.0, 0.0, pair, method="closed_form")
    assert result.prob == pytest.approx(1.0 / 9.0, rel=1e-14, abs=0.0)


def test_arguments_are_not_written():
    rng = np.random.default_rng(0)
    m, lower, upper = rng.normal(size=(5, 4)), ZERO - 1.0, ZERO + 1.0
    arrays = [m, FACTOR, lower, upper, COV]
    before = [array.copy() for array in arrays]
    mvnorth.orthant(m, FACTOR, 64)
    mvnorth.box(lower, upper, ZERO, COV, 64, method="genz")
    assert all((a == b).all() for a, b in zip(arrays, before, strict=True))


@pytest.mark.parametrize("method", ["auto", "genz"])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
@pytest.mark.parametrize("d", [1, 3, 4])
def test_empty_batches(d, shape, method):
    cov = 0.5 * np.eye(d) + 0.5
    limits, factor = np.zeros((*shape, d)), np.linalg.cholesky(cov)
    covs = np.broadcast_to(cov, (*shape, d, d))
    results = [
        mvnorth.orthant(limits, factor, method=method),
        mvnorth.orthant(limits, factor, 64, method=method),
        mvnorth.orthant(limits[0] if shape[0] else np.zeros(d), covs * np.eye(d), method=method),
        mvnorth.box(limits, limits + 1.0, 0.0, cov, method=method),
        mvnorth.box(0.0, 1.0, 0.0, covs, method=method),
    ]
    for result in results:
        columns = (result.prob, result.log_prob, result.error, result.rel_error, result.n)
        assert all(column.shape == shape for column in (*columns, result.method, result.status))
        assert "empty" in repr(result)
    assert mvnorth.cdf(limits, np.zeros(d), cov, method=method).shape == shape
    assert mvnorth.logcdf(limits, np.zeros(d), cov, method=method).shape == shape
