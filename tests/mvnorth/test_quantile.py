"""Equicoordinate quantiles, against closed forms, published tables, quadrature, scipy and R."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from scipy import special, stats

import mvnorth
from mvnorth import Factors, OneFactor, Status, quantile

TAILS = ("lower", "upper", "both")


def one_factor_excess(q, p, cov, mean, tail, df=None):
    """Pr of the event less p, by Gauss-Legendre rules over the common factor and the chi variable.

    Above p = 1/2 it is 1 - p less the probability of the complement.
    """
    nodes, weights = np.polynomial.legendre.leggauss(300)
    z, wz = 9.0 * nodes, 9.0 * weights * stats.norm.pdf(9.0 * nodes)
    if df is None:
        r, wr = np.ones(1), np.ones(1)
    else:
        low, high = stats.chi.ppf(1e-18, df), stats.chi.isf(1e-18, df)
        s = low + (high - low) * 0.5 * (1.0 + nodes)
        r, wr = s / np.sqrt(df), 0.5 * (high - low) * weights * stats.chi.pdf(s, df)
    mean = np.broadcast_to(mean, cov.c.shape)
    total = np.ones((r.size, z.size))
    for m, c, v in zip(mean, cov.c, cov.v, strict=True):
        above = (r[:, None] * (q - m) - v * z) / np.sqrt(c)
        below = (r[:, None] * (-q - m) - v * z) / np.sqrt(c)
        total *= {
            "lower": special.ndtr(above),
            "upper": special.ndtr(-above),
            "both": special.ndtr(above) - special.ndtr(below),
        }[tail]
    return wr @ total @ wz - p if p < 0.5 else (1.0 - p) - wr @ (1.0 - total) @ wz


def assert_root(result, excess):
    """The probability less p changes its sign within the claimed error."""
    q, error = result.quantile, result.error
    low, high = sorted((excess(q - error), excess(q + error)))
    assert low - 2e-15 <= 0.0 <= high + 2e-15, (q, error, low, high)


# Closed forms


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("p", [1e-9, 0.03, 0.5, 0.95, 1.0 - 1e-10])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_independent_coordinates(tail, p, d):
    log_each = np.log(p) / d if p < 0.5 else np.log1p(p - 1.0) / d
    each, rest = np.exp(log_each), -np.expm1(log_each)
    lower = special.ndtri(each) if each < 0.5 else -special.ndtri(rest)
    expected = {
        "lower": lower,
        "upper": -lower,
        "both": np.sqrt(2.0) * (special.erfinv(each) if each < 0.5 else special.erfcinv(rest)),
    }[tail]
    result = quantile(p, 4.0 * np.eye(d), mean=0.0, tail=tail, rtol=1e-10)
    assert result.status == Status.CONVERGED
    assert abs(result.quantile - 2.0 * expected) <= min(result.error, 4e-10 * abs(expected) + 1e-12)


@pytest.mark.parametrize("df", [0.7, 1.0, 3.0, 40.0, 1e20])
def test_one_coordinate_is_student(df):
    p = np.array([1e-5, 0.2, 0.5, 0.9, 1 - 1e-6])
    result = quantile(p, [[9.0]], mean=2.0, df=df)
    np.testing.assert_allclose(result.quantile, 2.0 + 3.0 * stats.t.ppf(p, df), rtol=1e-9)
    both = quantile(p, [[9.0]], df=df, tail="both")
    np.testing.assert_allclose(both.quantile, 3.0 * stats.t.ppf(0.5 + 0.5 * p, df), rtol=1e-9)
    assert result.method.tolist() == ["closed_form"] * 5


def test_perfect_correlation_is_one_coordinate():
    result = quantile(0.9, np.ones((4, 4)), rtol=1e-9)
    assert abs(result.quantile - special.ndtri(0.9)) <= result.error <= 1e-6


def test_folded_coordinate():
    """|X| of N(mean, 1), as R's qmvnorm(tail = "both.tails") has it."""
    result = quantile(0.8, [[1.0]], mean=1.3, tail="both", rtol=1e-10)
    assert abs(result.quantile - stats.foldnorm.ppf(0.8, 1.3)) < 1e-9


def test_coordinates_without_variance():
    cov = np.diag([1.0, 0.0])
    assert quantile(0.5, cov, mean=[0.0, 3.0]).quantile == pytest.approx(3.0, abs=1e-12)
    assert quantile(0.9999, cov, mean=[0.0, 3.0], rtol=1e-9).quantile == pytest.approx(
        special.ndtri(0.9999), abs=1e-8
    )
    assert quantile(0.3, np.zeros((2, 2)), mean=[1.0, 4.0]).quantile == pytest.approx(4.0)


def test_complement_takes_tiny_probabilities():
    result = quantile(1e-60, np.eye(3), complement=True, rtol=1e-10)
    each = -np.expm1(np.log1p(-1e-60) / 3.0)
    assert result.quantile == pytest.approx(-special.ndtri(each), rel=1e-9)
    assert quantile(0.05, np.eye(3), complement=True).quantile == pytest.approx(
        quantile(0.95, np.eye(3)).quantile, rel=1e-8
    )


# One common factor: quadrature


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("df", [None, 5.0])
@pytest.mark.parametrize("p", [0.02, 0.6, 0.95, 0.9999])
def test_one_factor(tail, df, p):
    cov = OneFactor([1.0, 0.5, 2.0, 0.7], [0.5, -0.8, 1.0, 0.3])
    mean = np.array([0.3, -0.4, 0.0, 1.0])
    result = quantile(p, cov, mean=mean, tail=tail, df=df, rtol=1e-9)
    assert result.status == Status.CONVERGED
    assert result.error <= 1e-9 * max(abs(result.quantile), np.sqrt(3.0))
    assert_root(result, lambda q: one_factor_excess(q, p, cov, mean, tail, df))


# Published tables


DEGREES = (5.0, 10.0, 20.0, np.inf)
# C. W. Dunnett (1955), JASA 50, Table 1: one-sided 5 %, for 2, 3, ..., 9 treatments.
ONE_SIDED = [
    [2.44, 2.68, 2.85, 2.98, 3.08, 3.16, 3.24, 3.30],
    [2.15, 2.34, 2.47, 2.56, 2.64, 2.70, 2.76, 2.81],
    [2.03, 2.19, 2.30, 2.39, 2.46, 2.51, 2.56, 2.60],
    [1.92, 2.06, 2.16, 2.23, 2.29, 2.34, 2.38, 2.42],
]
# C. W. Dunnett (1964), Biometrics 20, Table II: two-sided 5 %.
TWO_SIDED = [
    [3.03, 3.29, 3.48, 3.62, 3.73, 3.82, 3.90, 3.97],
    [2.57, 2.76, 2.89, 2.99, 3.07, 3.14, 3.19, 3.24],
    [2.38, 2.54, 2.65, 2.73, 2.80, 2.86, 2.90, 2.95],
    [2.21, 2.35, 2.44, 2.51, 2.57, 2.61, 2.65, 2.69],
]
# M. R. Stoline & H. K. Ury (1979), Technometrics 21: studentised maximum modulus, 5 %, for 2 to 5.
MODULUS = [
    [3.09, 3.40, 3.62, 3.79],
    [2.61, 2.83, 2.98, 3.10],
    [2.41, 2.59, 2.72, 2.82],
    [2.24, 2.39, 2.49, 2.57],
]


@pytest.mark.parametrize(("tail", "table"), [("lower", ONE_SIDED), ("both", TWO_SIDED)])
def test_dunnetts_tables(tail, table):
    for k, column in enumerate(np.transpose(table), start=2):
        cov = OneFactor.exchangeable(k, 0.5)
        result = quantile(0.95, cov, tail=tail, df=DEGREES, rtol=1e-6)
        assert np.abs(result.quantile - column).max() <= 0.005 + 1e-5


def test_studentised_maximum_modulus():
    for k, column in enumerate(np.transpose(MODULUS), start=2):
        result = quantile(0.95, np.eye(k), tail="both", df=DEGREES, rtol=1e-6)
        assert np.abs(result.quantile - column).max() <= 0.005 + 1e-5


def test_studentised_range():
    """Differences of three means have a singular covariance; scipy has their range."""
    pairs = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    result = quantile(0.95, 0.5 * pairs @ pairs.T, tail="both", df=12.0, rtol=2e-4)
    expected = stats.studentized_range.ppf(0.95, 3, 12) / np.sqrt(2.0)
    assert abs(result.quantile - expected) <= result.error < 1e-3


# Any covariance: R, and honesty


RANDOM = np.random.default_rng(5)


def random_problem(d):
    loadings = RANDOM.normal(size=(d, d))
    deviation = np.exp(RANDOM.normal(size=d) * 0.3)
    cov = loadings @ loadings.T + np.eye(d)
    scale = deviation / np.sqrt(np.diag(cov))
    return scale[:, None] * cov * scale, RANDOM.normal(size=d) * 0.3


def test_errors_are_honest():
    """scipy's distribution function of two coordinates is exact to rounding."""
    for _ in range(40):
        cov, mean = random_problem(2)
        p = RANDOM.uniform(0.01, 0.99)
        result = quantile(p, cov, mean=mean, rtol=10.0 ** -RANDOM.integers(3, 8))
        normal = stats.multivariate_normal(mean, cov)
        assert_root(result, lambda q, normal=normal, p=p: float(normal.cdf(np.full(2, q))) - p)


def test_sampled_quantiles_are_honest():
    """Eight coordinates without structure are sampled; with two factors they are not."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        V = rng.normal(size=(8, 2)) * 0.7
        known = Factors(rng.uniform(0.3, 1.0, size=8), V)
        p = rng.uniform(0.05, 0.99)
        exact = quantile(p, known, tail="both", rtol=1e-6)
        scrambled = known.dense() + np.diag(rng.uniform(0.0, 1e-9, size=8))
        rough = quantile(p, scrambled, tail="both", rtol=1e-3)
        assert "tilting" in rough.method
        assert abs(rough.quantile - exact.quantile) <= rough.error + exact.error + 1e-8


R_PROBLEMS = """
library(mvtnorm)
set.seed(1)
cov <- matrix(c(1, 0.4, 0.2, -0.1, 0.4, 2, 0.5, 0.3, 0.2, 0.5, 1.5, 0.6, -0.1, 0.3, 0.6, 1), 4)
q <- function(...) qmvnorm(sigma = cov, ...)$quantile
t <- function(...) qmvt(sigma = cov, df = 7, ...)$quantile
cat(sprintf("[%.8f, %.8f, %.8f, %.8f]", q(0.9), q(0.9, tail = "upper.tail"),
            q(0.9, tail = "both.tails", mean = c(1, 0, -0.5, 0)), t(0.9, tail = "both.tails")))
"""


def test_against_r():
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    ran = subprocess.run(["Rscript", "-e", R_PROBLEMS], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        pytest.skip("R has no package mvtnorm")
    expected = json.loads(ran.stdout)
    cov = [[1, 0.4, 0.2, -0.1], [0.4, 2, 0.5, 0.3], [0.2, 0.5, 1.5, 0.6], [-0.1, 0.3, 0.6, 1]]
    found = [
        quantile(0.9, cov, rtol=1e-6),
        quantile(0.9, cov, tail="upper", rtol=1e-6),
        quantile(0.9, cov, mean=[1.0, 0.0, -0.5, 0.0], tail="both", rtol=1e-6),
        quantile(0.9, cov, df=7, tail="both", rtol=1e-6),
    ]
    np.testing.assert_allclose([float(each) for each in found], expected, atol=1e-2)


# The result, batches, wrong input


def test_result():
    cov = OneFactor.exchangeable(4, 0.3)
    result = quantile(0.9, cov)
    assert float(result) == result.quantile == np.asarray(result)[()]
    assert repr(result).startswith("quantile  ")
    assert "converged (rtol=0.0001)" in repr(result)
    batch = quantile([0.5, 0.9], cov)
    assert np.asarray(batch).shape == (2,)
    assert batch.quantile[1] == result.quantile  # to the last bit
    assert repr(batch).startswith("2 quantiles from ")
    with pytest.raises(TypeError, match="only the result of one problem is a number"):
        float(batch)
    assert repr(quantile(np.empty(0), cov)) == "0 quantiles (an empty batch)"


def test_batches_broadcast():
    one = OneFactor(np.array([[1.0, 2.0], [0.5, 1.0], [1.0, 1.0]]), np.ones((3, 2)))
    mean = np.array([[0.0, 1.0], [0.5, 0.5], [-1.0, 0.0]])
    p, df = np.array([[0.3], [0.95]]), np.array([4.0, 9.0, np.inf])
    for cov in (one, one.dense()):
        result = quantile(p, cov, mean=mean, tail="both", df=df, rtol=1e-8)
        assert result.quantile.shape == result.error.shape == (2, 3)
        for k in range(3):
            single = OneFactor(one.c[k], one.v[k])
            for row in range(2):
                q = quantile(p[row, 0], single, mean=mean[k], tail="both", df=df[k], rtol=1e-8)
                assert abs(q.quantile - result.quantile[row, k]) <= q.error + result.error[row, k]
    two = Factors(np.ones((2, 3)), np.linspace(-1, 1, 12).reshape(2, 3, 2))
    result = quantile(0.9, two, rtol=1e-8)
    assert (
        abs(quantile(0.9, Factors(two.c[1], two.V[1]), rtol=1e-8).quantile - result.quantile[1])
        < 1e-7
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 0.0}, "p must be greater than 0 and less than 1, got 0"),
        ({"p": [0.5, 1.0]}, "p must be greater than 0 and less than 1, got 1"),
        ({"p": np.nan}, "p must not contain NaN"),
        ({"tail": "left"}, "tail must be one of 'lower', 'upper', 'both', got 'left'"),
        ({"df": 0.0}, "df must be > 0"),
        ({"df": [3.0, -2.0]}, "df must be > 0, .* got -2"),
        ({"cov": [[1.0, 2.0], [2.0, 1.0]]}, "cov must be positive semi-definite"),
        ({"cov": [[1.0, 0.5], [0.2, 1.0]]}, "cov must be symmetric"),
        ({"cov": [1.0, 1.0]}, r"cov must have shape \(..., d, d\)"),
        ({"mean": [0.0, 1.0, 2.0]}, r"mean must have shape \(..., 2\)"),
        ({"p": [0.1, 0.2, 0.3], "df": [1.0, 2.0]}, "batch shapes do not broadcast: p"),
        ({"rtol": -1.0}, "rtol must be a number >= 0"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    given = {"p": 0.5, "cov": np.eye(2)} | arguments
    with pytest.raises(ValueError, match=message):
        quantile(given.pop("p"), given.pop("cov"), **given)


def test_a_covariance_that_cannot_be_cut():
    class Fixed(mvnorth.covariance.Covariance):
        shape = (2, 3)

    with pytest.raises(NotImplementedError, match="Fixed cannot be cut into rows"):
        Fixed().take((2,), [0])
