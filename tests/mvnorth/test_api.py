"""What the public functions promise: shapes, results, errors, limits, singular covariances."""

import dataclasses
import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special
from scipy.stats import multivariate_normal, norm

import mvnorth
from mvnorth import OrthantResult, Status

INF = np.inf


def _exchangeable(d, rho):
    return rho + (1.0 - rho) * np.eye(d)


def _random_cov(rng, d):
    loadings = rng.normal(size=(d, d))
    return loadings @ loadings.T + 0.5 * np.eye(d)


def _triangular(loadings):
    """Lower triangular L, diagonal >= 0, with L L^T = loadings loadings^T; perhaps singular."""
    d, width = loadings.shape
    L = np.zeros((d, max(d, width)))
    L[:, : min(d, width)] = np.linalg.qr(loadings.T)[1].T
    L = np.tril(L[:, :d])
    return L * np.where(np.diag(L) < 0.0, -1.0, 1.0)


def _count(lower, upper, mean, loadings, samples=200_000):
    """Share of samples of mean + loadings y inside the box, and its standard error."""
    y = np.random.default_rng(99).normal(size=(samples, loadings.shape[1]))
    x = mean + y @ loadings.T
    share = float(np.mean(((x >= lower) & (x <= upper)).all(axis=1)))
    return share, math.sqrt(share * (1.0 - share) / samples)


# ---------------------------------------------------------------- shapes


def test_one_problem_gives_numbers():
    result = mvnorth.orthant(np.zeros(4), np.eye(4), method="genz")
    for name in ("prob", "log_prob", "error", "rel_error"):
        assert type(getattr(result, name)) is float
    assert type(result.n) is int
    assert type(result.method) is str
    assert isinstance(result.status, Status)
    args = (-1.0, 1.0, 0.0, _exchangeable(4, 0.5))
    assert type(mvnorth.orthant_prob(np.zeros(4), np.eye(4))) is float
    assert type(mvnorth.orthant_logprob(np.zeros(4), np.eye(4))) is float
    assert type(mvnorth.box_prob(*args)) is float
    assert type(mvnorth.cdf(np.zeros(4), cov=args[3])) is float
    assert type(mvnorth.logcdf(np.zeros(4), cov=args[3])) is float


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("m_batch", "L_batch", "batch"),
    [
        ((3,), (), (3,)),
        ((1,), (), (1,)),
        ((2, 3), (), (2, 3)),
        ((), (3,), (3,)),
        ((3,), (3,), (3,)),
        ((2, 1), (3,), (2, 3)),
        ((2, 3), (2, 1), (2, 3)),
        ((3,), (2, 1), (2, 3)),
        ((2, 3), (1,), (2, 3)),
    ],
)
def test_batches_broadcast(d, m_batch, L_batch, batch):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(*m_batch, d))
    L = np.tril(rng.normal(size=(*L_batch, d, d)))
    index = np.arange(d)
    L[..., index, index] = np.abs(L[..., index, index]) + 0.1
    result = mvnorth.orthant(m, L, 512)
    ms, Ls = np.broadcast_to(m, (*batch, d)), np.broadcast_to(L, (*batch, d, d))
    for name in ("prob", "log_prob", "error", "rel_error", "n", "method", "status"):
        column = getattr(result, name)
        assert column.shape == batch
        for k in np.ndindex(*batch):
            single = mvnorth.orthant(ms[k], Ls[k], 512)
            assert column[k] == getattr(single, name), name


def test_boxes_broadcast():
    rng = np.random.default_rng(1)
    lower, upper, mean = -1.0, rng.uniform(0.0, 2.0, (3, 1, 4)), rng.normal(size=(2, 4))
    cov = _random_cov(rng, 4)
    result = mvnorth.box(lower, upper, mean, cov, 512)
    assert result.prob.shape == (3, 2)
    for j, k in np.ndindex(3, 2):
        single = mvnorth.box_prob(np.full(4, lower), upper[j, 0], mean[k], cov, 512)
        assert result.prob[j, k] == single
    covs = np.stack([cov, 2.0 * cov])
    batch = mvnorth.box(lower, upper, mean, covs, 512)
    assert batch.prob[2, 1] == mvnorth.box_prob(lower, upper[2, 0], mean[1], covs[1], 512)


def test_orthant_is_a_box_of_the_same_normal():
    rng = np.random.default_rng(2)
    for d in (1, 2, 3, 5):
        cov, m = _random_cov(rng, d), rng.normal(size=d)
        orthant = mvnorth.orthant(m, np.linalg.cholesky(cov))
        box = mvnorth.box(0.0, INF, m, cov)
        cdf = mvnorth.cdf(np.zeros(d), -m, cov)
        slack = orthant.error + box.error
        assert box.prob == pytest.approx(orthant.prob, rel=0, abs=slack)
        assert cdf == pytest.approx(orthant.prob, rel=0, abs=slack)


def test_nested_lists_and_integers_are_arrays():
    expected = mvnorth.orthant_prob(np.zeros(4), np.eye(4))
    assert mvnorth.orthant_prob([0, 0, 0, 0], np.eye(4, dtype=int).tolist()) == expected


# ---------------------------------------------------------------- scipy's calls

_COV3 = [[2.0, 0.3, -0.2], [0.3, 1.0, 0.5], [-0.2, 0.5, 1.5]]
_COV5 = _random_cov(np.random.default_rng(3), 5)
SCIPY_CALLS = {
    "number": {"x": 0.3},
    "number, mean and variance": {"x": 0.3, "mean": 1.0, "cov": 2.0},
    "one dimension, vector": {"x": [0.1, -2.0, 3.0]},
    "one dimension, column": {"x": [[0.1], [-2.0]], "mean": [0.5], "cov": [[2.0]]},
    "one dimension, lower limit": {"x": [0.1, 2.0], "mean": 0.5, "cov": 2.0, "lower_limit": -1.0},
    "scalar cov": {"x": [0.1, 0.2, -0.3], "mean": [0.0, 1.0, 0.5], "cov": 2.0},
    "vector cov": {"x": [0.1, 0.2, -0.3], "mean": [0.0, 1.0, 0.5], "cov": [1.0, 2.0, 3.0]},
    "nested list": {"x": [0.1, 0.2, -0.3], "cov": _COV3},
    "two dimensions": {"x": [0.1, 0.2], "mean": [0.5, 0.0], "cov": [[1.0, -0.7], [-0.7, 2.0]]},
    "batch": {"x": np.random.default_rng(4).normal(size=(6, 3)), "cov": _COV3},
    "batch of two axes": {"x": np.random.default_rng(5).normal(size=(2, 3, 3)), "cov": _COV3},
    "lower limit": {"x": [1.0, 0.7, 2.0], "cov": _COV3, "lower_limit": [-1.0, -INF, 0.0]},
    "scalar lower limit": {"x": [1.0, 0.7, 2.0], "cov": _COV3, "lower_limit": -1.0},
    "batch of lower limits": {"x": [1.0, 0.7], "cov": np.eye(2), "lower_limit": [[-1, -2], [0, 0]]},
    "infinite x": {"x": [INF, 0.7, 2.0], "cov": _COV3},
    "five dimensions": {"x": np.full(5, 1.0), "mean": np.linspace(-1.0, 1.0, 5), "cov": _COV5},
    "five dimensions, lower limit": {"x": np.full(5, 1.0), "cov": _COV5, "lower_limit": [-3.0] * 5},
    "positional": {"x": np.full(5, 1.0), "mean": np.zeros(5), "cov": _COV5, "maxpts": 100_000},
}


@pytest.mark.parametrize("call", SCIPY_CALLS.values(), ids=SCIPY_CALLS)
def test_cdf_is_called_like_scipys(call):
    expected = multivariate_normal.cdf(**call, rng=np.random.default_rng(0))
    value, log_value = mvnorth.cdf(**call), mvnorth.logcdf(**call)
    assert np.shape(value) == np.shape(log_value) == np.shape(expected)
    assert np.allclose(value, expected, rtol=2e-4, atol=3e-5)
    assert np.allclose(np.exp(log_value), value, rtol=1e-13, atol=0.0)


def test_cdf_takes_scipys_positions():
    args = (np.full(5, 1.0), np.zeros(5), _COV5, True, 4096, 1e-9, 1e-9)
    value = mvnorth.cdf(*args)
    assert value == mvnorth.box_prob(-INF, 1.0, 0.0, _COV5, 4096, rtol=1e-9, atol=1e-9)
    assert value == pytest.approx(multivariate_normal.cdf(*args[:4]), rel=1e-3, abs=0.0)


# ---------------------------------------------------------------- results


def test_fields_of_a_result():
    fields = [field.name for field in dataclasses.fields(OrthantResult)]
    assert fields == [
        "prob",
        "log_prob",
        "error",
        "rel_error",
        "log_bound",
        "n",
        "method",
        "status",
        "tolerance",
    ]
    result = mvnorth.orthant(np.zeros(5), np.linalg.cholesky(_exchangeable(5, 0.5)), method="genz")
    assert result.prob == pytest.approx(1.0 / 6.0, rel=result.rel_error, abs=0.0)
    assert result.log_prob == pytest.approx(math.log(result.prob), rel=1e-14, abs=0.0)
    assert result.error == pytest.approx(result.prob * result.rel_error, rel=1e-12, abs=0.0)
    assert 0.0 < result.rel_error <= 1e-4
    assert result.tolerance == (1e-4, 0.0)
    assert result.method == "genz"
    assert result.status is Status.CONVERGED
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.prob = 0.0


def test_statuses():
    assert [(status.name, status.value) for status in Status] == [
        ("CONVERGED", 0),
        ("FIXED", 1),
        ("LIMIT", 2),
    ]
    m, L = np.zeros(5), np.linalg.cholesky(_exchangeable(5, 0.5))
    assert mvnorth.orthant(m, L, 256, method="genz").status is Status.FIXED
    assert mvnorth.orthant(m, L, 256, rtol=0.5, method="genz").status is Status.CONVERGED
    assert mvnorth.orthant(m, L, 256, rtol=1e-9, method="genz").status is Status.LIMIT
    assert mvnorth.orthant(m, L, rtol=1e-2, method="genz").status is Status.CONVERGED


def test_the_shortcuts_return_the_fields():
    m, L = np.full(5, 0.3), np.linalg.cholesky(_COV5)
    options = {"n": 300, "method": "genz", "seed": 7}
    result = mvnorth.orthant(m, L, **options)
    assert mvnorth.orthant_prob(m, L, **options) == result.prob
    assert mvnorth.orthant_logprob(m, L, **options) == result.log_prob
    box = mvnorth.box(-1.0, 2.0, 0.0, _COV5, **options)
    assert mvnorth.box_prob(-1.0, 2.0, 0.0, _COV5, **options) == box.prob


def test_repr_of_one_result():
    m, L = np.zeros(5), np.linalg.cholesky(_exchangeable(5, 0.5))
    lines = repr(mvnorth.orthant(m, L, 2048, method="genz")).splitlines()
    assert [line[:16].strip() for line in lines] == [
        "probability",
        "log",
        "relative error",
        "method",
        "status",
    ]
    assert lines[0].startswith("probability     0.16")
    assert " +- " in lines[0]
    assert lines[1].startswith("log             -1.79")
    assert lines[3] == "method          genz, 2048 points"
    assert lines[4] == "status          n points as given"
    assert "converged (rtol=0.01)" in repr(mvnorth.orthant(m, L, rtol=1e-2, method="genz"))
    assert "converged (atol=0.01)" in repr(mvnorth.orthant(m, L, atol=1e-2, method="genz"))
    assert "converged (rtol=0.5 or atol=0.5)" in repr(
        mvnorth.orthant(m, L, rtol=0.5, atol=0.5, method="genz")
    )


def test_repr_says_what_to_do_when_the_tolerance_is_not_met():
    m, L = np.zeros(5), np.linalg.cholesky(_exchangeable(5, 0.5))
    text = repr(mvnorth.orthant(m, L, 64, rtol=1e-9, method="genz"))
    for word in ("tolerance not met (rtol=1e-09)", "n=", "rtol=", "atol="):
        assert word in text


def test_repr_of_a_batch():
    m, L = np.zeros((2, 3, 5)), np.linalg.cholesky(_exchangeable(5, 0.5))
    text = repr(mvnorth.orthant(m, L, 128, method="genz"))
    for word in ("2x3 probabilities from 0.16", "methods         genz", "768 points in all"):
        assert word in text
    assert "6 as asked, 0 short" in text
    assert "tolerance not met" not in text
    m[0, 0] = -INF
    text = repr(mvnorth.orthant(m, L, 128, rtol=1e-9, method="genz"))
    assert "1 as asked, 5 short" in text
    assert "tolerance not met (rtol=1e-09)" in text


# ---------------------------------------------------------------- points and tolerances


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 127, 129, 1000, 1023, 5000, 9999])
def test_points_used_are_at_most_n(n):
    L = np.linalg.cholesky(_exchangeable(4, 0.5))
    used = mvnorth.orthant(np.zeros(4), L, n, method="genz").n
    assert used <= n
    assert used > 0.88 * n or n < 8
    assert n > 8 or used == n


def test_points_used_are_at_most_n_for_several_blocks():
    cov = np.kron(np.eye(2), _exchangeable(4, 0.5))
    assert mvnorth.box(-INF, 0.0, 0.0, cov, 1000).n <= 1000
    cov[0, 1] = cov[1, 0] = cov[4, 5] = cov[5, 4] = 0.4
    for method in ("gauss", "tilting"):
        result = mvnorth.box(-INF, 0.0, 0.0, cov, 1000, method=method)
        assert result.method == method
        assert result.n <= 1000


def test_points_beyond_the_largest_lattice():
    cov = _exchangeable(2, 0.5)
    result = mvnorth.box(-INF, 0.0, 0.0, cov, 2**23 + 2**20, method="genz")
    assert result.n == 2**23 + 2**20
    assert result.prob == pytest.approx(1.0 / 3.0, abs=1e-8)


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_one_point_says_nothing_about_its_error(method):
    result = mvnorth.orthant(np.zeros(5), np.linalg.cholesky(_COV5), 1, method=method)
    assert result.n == 1
    assert 0.0 < result.prob < 1.0
    assert result.rel_error == INF
    assert result.error == 1.0
    assert result.status is Status.FIXED


@pytest.mark.parametrize("n", [2, 3, 8, 100])
def test_errors_are_never_zero(n):
    """Also where all points agree: independent coordinates have one weight."""
    for L in (np.eye(4), np.linalg.cholesky(_exchangeable(4, 0.5))):
        result = mvnorth.orthant(np.zeros(4), L, n, method="genz")
        assert 0.0 < result.error <= 1.0
        assert result.rel_error > 0.0


@pytest.mark.parametrize("n", [1, 2, 8, 64])
@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_an_estimate_of_zero_is_unknown(method, n):
    """x <= -1 and -x <= -1 exclude each other: either exactly 0, or nothing is known."""
    loadings = np.array([[1.0, 0.0], [-1.0, 0.0], [0.3, 0.4], [0.1, 1.0]])
    result = mvnorth.orthant([-1.0, -1.0, 0.0, 0.0], _triangular(loadings), n, method=method)
    assert result.prob == 0.0
    assert result.error == 1.0 or result.rel_error == 0.0


def test_tolerances():
    m, L = np.full(4, -1.5), np.linalg.cholesky(_exchangeable(4, 0.2))

    def genz(**tolerances):
        return mvnorth.orthant(m, L, method="genz", **tolerances)

    by_default = genz()
    rough = genz(rtol=1e-2)
    absolute = genz(atol=1e-6)
    fine = genz(rtol=3e-5)
    assert 1e-4 < by_default.prob < 1e-3
    assert rough.rel_error <= 1e-2
    assert absolute.error <= 1e-6
    assert absolute.rel_error > 1e-4
    assert fine.rel_error <= 3e-5
    assert rough.n < by_default.n < fine.n
    assert absolute.n < fine.n
    both = genz(rtol=1e-5, atol=1e-2)
    assert both.n == genz(atol=1e-2).n < fine.n
    assert both.tolerance == (1e-5, 1e-2)
    assert both.status is Status.CONVERGED
    for result in (rough, absolute, by_default, both):
        assert abs(result.prob - fine.prob) <= result.error + fine.error


def test_a_tolerance_out_of_reach_ends_and_says_so():
    L = np.linalg.cholesky(_exchangeable(4, 0.5))
    result = mvnorth.orthant(np.zeros(4), L, rtol=0.0, method="genz")
    assert result.status is Status.LIMIT
    assert result.n == 2**20
    assert result.prob == pytest.approx(0.2, abs=result.error)


def test_n_stays_fixed_under_a_tolerance():
    m, L = np.zeros(4), np.linalg.cholesky(_exchangeable(4, 0.5))
    result = mvnorth.orthant(m, L, 64, rtol=1e-9, method="genz")
    assert result.n == 64
    assert result.status is Status.LIMIT
    assert result.prob == mvnorth.orthant(m, L, 64, method="genz").prob


def test_rows_of_a_batch_stop_on_their_own():
    m = np.stack([np.full(4, -2.0), np.full(4, 3.0)])
    result = mvnorth.orthant(m, np.linalg.cholesky(_exchangeable(4, 0.5)), method="genz")
    assert (result.status == Status.CONVERGED).all()
    assert result.n[1] < result.n[0]


# ---------------------------------------------------------------- infinite limits


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_impossible_is_exactly_zero(d, method):
    cov = _exchangeable(d, 0.5)
    upper = np.full(d, 1.0)
    upper[-1] = -INF
    m = np.ones(d)
    m[0] = -INF
    empty = np.zeros(d)
    for result in (
        mvnorth.box(-INF, upper, 0.0, cov, method=method),
        mvnorth.box(-upper, INF, 0.0, cov, method=method),
        mvnorth.orthant(m, np.linalg.cholesky(cov), method=method),
        mvnorth.box(empty, empty, 0.0, cov, method=method),
        mvnorth.box(INF, INF, 0.0, cov, method=method),
    ):
        assert result.prob == 0.0
        assert result.log_prob == -INF
        assert result.error == 0.0
        assert result.status is Status.CONVERGED


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_certain_is_exactly_one(d, method):
    cov = _exchangeable(d, 0.5)
    for result in (
        mvnorth.box(-INF, INF, 0.0, cov, method=method),
        mvnorth.orthant(np.full(d, INF), np.linalg.cholesky(cov), method=method),
        mvnorth.box(-INF, INF, 0.0, np.zeros((d, d)), method=method),
    ):
        assert result.prob == 1.0
        assert result.log_prob == 0.0
        assert result.error <= 1e-14
        assert result.status is Status.CONVERGED


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_a_batch_with_different_infinite_limits(method):
    cov = _random_cov(np.random.default_rng(6), 4)
    upper = np.array(
        [[1.0, 0.0, 2.0, 0.5], [INF, 0.0, 2.0, 0.5], [INF, INF, 2.0, INF], [INF] * 4, [-INF] * 4]
    )
    lower = np.full((5, 4), -INF)
    lower[0, 2] = lower[1, 0] = -0.5
    result = mvnorth.box(lower, upper, 0.0, cov, method=method)
    for row in range(5):
        single = mvnorth.box(lower[row], upper[row], 0.0, cov, method=method)
        assert result.prob[row] == single.prob
        assert result.method[row] == single.method
    deviation = math.sqrt(cov[2, 2])
    assert result.prob[2] == pytest.approx(norm.cdf(2.0 / deviation), rel=1e-4, abs=0.0)
    assert result.prob[3:].tolist() == [1.0, 0.0]


def test_lower_limits_are_mirrored():
    cov = _random_cov(np.random.default_rng(7), 5)
    lower = np.array([0.3, -1.0, 0.0, -2.0, 0.1])
    up, down = mvnorth.box(lower, INF, 0.0, cov), mvnorth.box(-INF, -lower, 0.0, cov)
    assert up.prob == pytest.approx(down.prob, rel=1e-12, abs=0.0)
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    limits = (np.where(signs > 0, lower, -INF), np.where(signs > 0, INF, -lower))
    mixed = mvnorth.box(*limits, 0.0, cov * np.outer(signs, signs))
    assert mixed.prob == pytest.approx(up.prob, rel=1e-12, abs=0.0)


# ---------------------------------------------------------------- singular covariances


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_constant_coordinates(method):
    cov = np.zeros((5, 5))
    cov[np.ix_([0, 2, 4], [0, 2, 4])] = _exchangeable(3, 0.5)
    mean = np.array([0.0, 1.0, 0.0, -1.0, 0.0])
    inside = mvnorth.box(-INF, [0.0, 2.0, 0.0, -1.0, 0.0], mean, cov, method=method)
    assert inside.prob == pytest.approx(0.25, abs=inside.error)
    assert mvnorth.box_prob(-INF, [0.0, 0.5, 0.0, 0.0, 0.0], mean, cov, method=method) == 0.0
    assert mvnorth.box_prob([-1, 1, -1, -0.9, -1], 1.0, mean, cov, method=method) == 0.0
    assert mvnorth.box_prob([0, 1, 0, -1, 0], [INF, 1, INF, -1, INF], mean, cov, method=method) > 0
    assert mvnorth.box(0.0, 1.0, 0.5, np.zeros((4, 4)), method=method).prob == 1.0
    assert mvnorth.box(0.0, 1.0, 1.5, np.zeros((4, 4)), method=method).prob == 0.0


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_constant_coordinates_of_an_orthant(method):
    L = np.linalg.cholesky(_exchangeable(4, 0.5))
    L[3] = 0.0
    for constant, expected in [(1.0, 0.25), (0.0, 0.25), (-1e-300, 0.0), (INF, 0.25), (-INF, 0.0)]:
        result = mvnorth.orthant([0.0, 0.0, 0.0, constant], L, method=method)
        assert result.prob == pytest.approx(expected, abs=max(result.error, 1e-300))
    assert mvnorth.orthant_prob(np.zeros(4), np.zeros((4, 4)), method=method) == 1.0


@pytest.mark.parametrize("method", ["auto", "genz", "closed_form"])
@pytest.mark.parametrize(
    ("a", "b"), [(0.3, 1.0), (1.0, 0.3), (-2.0, 3.0), (-7.0, -6.0), (0.0, 0.0)]
)
def test_perfect_correlation(a, b, method):
    together = [[1.0, 1.0], [1.0, 1.0]]
    result = mvnorth.box(-INF, [a, b], 0.0, together, method=method)
    assert result.prob == pytest.approx(
        special.ndtr(min(a, b)), rel=max(1e-12, result.rel_error), abs=0.0
    )
    apart = [[4.0, -2.0], [-2.0, 1.0]]
    result = mvnorth.box(-INF, [2.0 * a, b], 0.0, apart, method=method)
    expected = max(0.0, special.ndtr(a) - special.ndtr(-b))
    # A point has probability 0; that it is no interval is known up to rounding.
    least = min(result.error, 1e-14) if (a, b) == (0.0, 0.0) else 0.0
    assert result.prob == pytest.approx(
        expected, rel=max(1e-12, min(result.rel_error, 1.0)), abs=least
    )
    assert result.rel_error < 1e-3 or expected == 0.0


@pytest.mark.parametrize("d", [2, 3, 4, 6])
@pytest.mark.parametrize("rho", [1.0, -1.0])
def test_copies_of_one_variable(d, rho):
    """x and its copies, every other one with sign rho; widths that bind from different rows."""
    signs = np.where(np.arange(d) % 2 == 1, rho, 1.0)
    upper, lower = np.linspace(0.5, 1.5, d), -np.linspace(2.0, 0.25, d)
    result = mvnorth.box(lower, upper, 0.0, np.outer(signs, signs))
    low = np.where(signs > 0, lower, -upper).max()
    high = np.where(signs > 0, upper, -lower).min()
    expected = special.ndtr(high) - special.ndtr(low)
    assert result.prob == pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("d", [2, 3])
def test_closed_forms_of_singular_covariances_say_so_or_hold(d):
    result = mvnorth.box(-1.0, 0.5, 0.0, np.ones((d, d)), method="closed_form")
    exact = special.ndtr(0.5) - special.ndtr(-1.0)
    assert result.error == 1.0 or abs(result.prob - exact) <= result.error


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
@pytest.mark.parametrize("d", [2, 3, 5])
def test_duplicated_coordinates_change_nothing(d, method):
    rng = np.random.default_rng(d)
    cov, m = _random_cov(rng, d), rng.normal(0.5, 1.0, size=d)
    once = mvnorth.box(0.0, INF, m, cov, method=method)
    copies = np.r_[np.arange(d), 0, d - 1, 0]
    scale = np.r_[np.ones(d), 2.0, 0.5, 1.0]  # positive multiples of coordinates
    loadings = np.linalg.cholesky(cov)[copies] * scale[:, None]
    twice = mvnorth.box(0.0, INF, m[copies] * scale, loadings @ loadings.T, method=method)
    assert twice.prob == pytest.approx(once.prob, abs=once.error + twice.error)
    L = _triangular(loadings)
    assert (np.diag(L) <= 1e-12).sum() >= 3
    by_factor = mvnorth.orthant(m[copies] * scale, L, method=method)
    assert by_factor.prob == pytest.approx(once.prob, abs=once.error + by_factor.error)
    assert by_factor.rel_error < 1e-3


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_zeros_on_the_diagonal(method):
    """t = (x, x + y, y, x - y) with independent x, y: Pr(t >= 0) = Pr(x >= y >= 0) = 1/8."""
    L = np.zeros((4, 4))
    L[:, :2] = [[1, 0], [1, 1], [0, 1], [1, -1]]
    result = mvnorth.orthant(np.zeros(4), L, method=method)
    assert result.prob == pytest.approx(0.125, abs=result.error)
    assert result.rel_error <= 1e-4
    L = np.zeros((3, 3))
    L[:, 0], L[2, 2] = [0, 1, 1], 1  # first row constant; the second lives in a column before it
    result = mvnorth.orthant([0.0, 0.0, 0.0], L, method=method)
    assert result.prob == pytest.approx(0.375, abs=result.error)


@pytest.mark.parametrize("q", [1.0, 2.5, 4.0])
@pytest.mark.parametrize("groups", [3, 4, 5])
def test_all_pairwise_differences(groups, q):
    """Tukey: k (k - 1) / 2 differences of rank k - 1; the range of k normals is an integral."""
    pairs = list(itertools.combinations(range(groups), 2))
    contrasts = np.array([np.eye(groups)[i] - np.eye(groups)[j] for i, j in pairs])

    def density(z):
        return norm.pdf(z) * (norm.cdf(z) - norm.cdf(z - q)) ** (groups - 1)

    expected = groups * integrate.quad(density, -9.0, 9.0 + q, epsabs=1e-12, epsrel=1e-11)[0]
    result = mvnorth.box(-q, q, 0.0, contrasts @ contrasts.T, rtol=1e-3)
    assert result.prob == pytest.approx(expected, abs=result.error)
    assert result.rel_error <= 1e-3


@pytest.mark.parametrize(("d", "rank"), [(3, 1), (3, 2), (4, 1), (5, 2), (6, 3), (8, 5)])
def test_rank_deficient_covariances(d, rank):
    rng = np.random.default_rng(10 * d + rank)
    loadings, m = rng.normal(size=(d, rank)), rng.uniform(0.2, 1.5, size=d)
    share, standard_error = _count(0.0, INF, m, loadings)
    orthant = mvnorth.orthant(m, _triangular(loadings), rtol=1e-3)
    box = mvnorth.box(0.0, INF, m, loadings @ loadings.T, rtol=1e-3)
    genz = mvnorth.orthant(m, _triangular(loadings), rtol=1e-3, method="genz")
    for result in (orthant, box, genz):
        assert abs(result.prob - share) <= 5.0 * standard_error + result.error
        assert result.rel_error < 1e-2
    lower, upper = -rng.uniform(0.5, 2.0, size=d), rng.uniform(0.5, 2.0, size=d)
    share, standard_error = _count(lower, upper, 0.0, loadings)
    two_sided = mvnorth.box(lower, upper, 0.0, loadings @ loadings.T, rtol=1e-3)
    assert abs(two_sided.prob - share) <= 5.0 * standard_error + two_sided.error


def test_the_orthant_of_a_singular_normal_through_the_origin():
    """Residuals sum to zero: t_i = y_i - mean(y) >= 0 for all i only if all are equal."""
    cov = np.eye(4) - 0.25
    result = mvnorth.box(0.0, INF, 0.0, cov, n=4096)
    assert result.prob <= 1e-6 or result.error > result.prob
    assert mvnorth.box(-1.0, INF, 0.0, cov, rtol=1e-3).prob == pytest.approx(
        _count(-1.0, INF, 0.0, cov)[0], abs=5e-3
    )


# ---------------------------------------------------------------- independent blocks


def test_independent_coordinates_multiply_exactly():
    rng = np.random.default_rng(11)
    variance, mean = rng.uniform(0.5, 2.0, 7), rng.normal(size=7)
    lower, upper = mean - rng.uniform(0.0, 2.0, 7), mean + rng.uniform(0.0, 2.0, 7)
    lower[2], upper[4] = -INF, INF
    deviation = np.sqrt(variance)
    expected = np.prod(norm.cdf((upper - mean) / deviation) - norm.cdf((lower - mean) / deviation))
    result = mvnorth.box(lower, upper, mean, np.diag(variance))
    assert result.prob == pytest.approx(expected, rel=1e-14, abs=0.0)
    assert result.n == 0
    assert result.method == "closed_form"
    assert result.rel_error <= 1e-12
    assert mvnorth.orthant_prob(np.zeros(7), np.eye(7)) == pytest.approx(
        2.0**-7, rel=1e-14, abs=0.0
    )
    assert mvnorth.orthant_prob(np.zeros(7), np.eye(7), 8, method="genz") == pytest.approx(
        2.0**-7, rel=1e-14, abs=0.0
    )


def test_blocks_multiply():
    rng = np.random.default_rng(12)
    for sizes in ([1, 2, 3, 4], [5, 4], [1, 1, 6], [2, 2, 2, 2]):
        edges = np.cumsum([0, *sizes])
        d = edges[-1]
        cov, m = np.zeros((d, d)), rng.normal(0.5, 1.0, size=d)
        parts = []
        for a, b in itertools.pairwise(edges):
            cov[a:b, a:b] = _random_cov(rng, b - a)
            parts.append(mvnorth.box(0.0, INF, m[a:b], cov[a:b, a:b], rtol=1e-5))
        expected = math.prod(part.prob for part in parts)
        relative = sum(part.rel_error for part in parts)
        shuffle = rng.permutation(d)
        cov, m = cov[np.ix_(shuffle, shuffle)], m[shuffle]
        whole = mvnorth.box(0.0, INF, m, cov)
        factor = mvnorth.orthant(m, np.linalg.cholesky(cov))
        genz = mvnorth.box(0.0, INF, m, cov, method="genz")
        for result in (whole, factor, genz):
            assert result.status is Status.CONVERGED
            assert abs(result.prob / expected - 1.0) <= result.rel_error + relative
        names = {part.method for part in parts}
        assert names >= ({"gauss"} if max(sizes) > 3 else {"closed_form"})
        assert set(whole.method.split("+")) == set(factor.method.split("+")) == names
        assert genz.method == "genz"


def test_errors_of_blocks_add_up():
    cov = _exchangeable(4, 0.5)
    single = mvnorth.box(-INF, 0.0, 0.0, cov, 1024)
    pair = mvnorth.box(-INF, 0.0, 0.0, np.kron(np.eye(2), cov), 2048)
    assert pair.rel_error >= 1.9 * single.rel_error
    assert pair.rel_error <= 20.0 * single.rel_error  # the points are shared out


def test_a_batch_whose_rows_have_different_blocks():
    rng = np.random.default_rng(13)
    dense = _random_cov(rng, 5)
    split = dense.copy()
    split[:2, 2:] = split[2:, :2] = 0.0
    covs = np.stack([dense, split, np.diag(np.diag(dense)), dense, split])
    result = mvnorth.box(-1.0, 1.5, 0.0, covs)
    for row, cov in enumerate(covs):
        single = mvnorth.box(-1.0, 1.5, 0.0, cov)
        assert result.prob[row] == single.prob
        assert result.method[row] == single.method
    assert result.method.tolist() == [
        "gauss",
        "closed_form",
        "closed_form",
        "gauss",
        "closed_form",
    ]


def test_an_unlimited_coordinate_may_take_a_block_apart():
    """0 and 3 are dependent only through 1, which has no limits."""
    L = np.eye(4)
    L[1, 0] = L[3, 1] = 0.5  # coordinate 3 shares a column with 1 alone
    result = mvnorth.orthant([0.0, INF, 0.0, 0.0], L)
    assert result.prob == pytest.approx(0.125, rel=1e-14, abs=0.0)
    assert result.n == 0


# ---------------------------------------------------------------- far out


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_logarithms_of_independent_coordinates_far_out(d):
    m = -40.0 - np.arange(d)
    expected = math.fsum(special.log_ndtr(m))
    for method in ("auto", "genz"):
        result = mvnorth.orthant(m, np.eye(d), method=method)
        assert result.log_prob == pytest.approx(expected, rel=1e-13, abs=0.0)
        assert result.prob == 0.0
        assert result.rel_error < 1e-9
        assert result.status is Status.CONVERGED
    both_tails = np.r_[-INF, 40.0 + np.arange(1, d)], np.r_[-40.0, np.full(d - 1, INF)]
    assert mvnorth.box(*both_tails, 0.0, np.eye(d)).log_prob == pytest.approx(
        expected, rel=1e-13, abs=0.0
    )


def test_a_thousand_independent_coordinates():
    m = np.linspace(-5.0, 2.0, 1000)
    result = mvnorth.orthant(m, np.eye(1000), 64, method="genz")
    assert result.log_prob == pytest.approx(math.fsum(special.log_ndtr(m)), rel=1e-13, abs=0.0)
    assert result.prob == 0.0
    auto = mvnorth.orthant(m, np.eye(1000))
    assert auto.log_prob == pytest.approx(result.log_prob, rel=1e-13, abs=0.0)
    assert auto.n == 0


def _exchangeable_half_log_cdf(d, level):
    """log Pr(all X_i <= level) at correlation 1/2: an integral over the common part."""
    grid = np.linspace(min(3.0 * level, -10.0), 10.0, 200_001)
    exponent = d * special.log_ndtr(math.sqrt(2.0) * level - grid) - 0.5 * grid * grid
    peak = exponent.max()
    total = integrate.simpson(np.exp(exponent - peak), x=grid) / math.sqrt(2.0 * math.pi)
    return float(peak + np.log(total))


@pytest.mark.parametrize("d", [2, 3, 4, 8])
@pytest.mark.parametrize("level", [-10.0, -40.0, -300.0])
def test_logarithms_of_dependent_coordinates_far_out(d, level):
    expected = _exchangeable_half_log_cdf(d, level)
    cov = _exchangeable(d, 0.5)
    result = mvnorth.box(-INF, level, 0.0, cov)
    assert mvnorth.logcdf(np.full(d, level), cov=cov) == result.log_prob
    assert abs(result.log_prob - expected) <= result.rel_error + 1e-12 * abs(expected)
    met = result.rel_error <= 1e-4
    assert result.status is (Status.CONVERGED if met else Status.LIMIT)
    assert met or result.n == 2**20


@pytest.mark.parametrize("level", [1.0, 0.0, -3.0, -10.0, -40.0])
def test_errors_hold_at_the_confidence_they_claim(level):
    """99 % each: that 5 or more of 100 seeds exceed their error happens once in 300 times."""
    cov, expected = _exchangeable(4, 0.5), _exchangeable_half_log_cdf(4, level)
    exceeded = 0
    for seed in range(100):
        result = mvnorth.box(-INF, level, 0.0, cov, 4096, seed=seed)
        exceeded += abs(math.expm1(result.log_prob - expected)) > result.rel_error
    assert exceeded <= 4


def test_errors_hold_where_few_points_see_a_corner():
    """Pr(t_1 < 0 | the others >= 0) is 7e-5: most runs of 1024 points have no point there."""
    corr = np.array(
        [[1.0, 0.83, 0.725, 0.805], [0.83, 1.0, 0.42, 0.465], [0.725, 0.42, 1.0, 0.74],
         [0.805, 0.465, 0.74, 1.0]]
    )  # fmt: skip
    mean = np.array([0.94, 1.985, 1.065, -1.19])
    exact = mvnorth.box(0.0, INF, mean, corr, 2**21, seed=1000)
    assert exact.rel_error < 1e-6
    exceeded = 0
    for seed in range(100):
        result = mvnorth.box(0.0, INF, mean, corr, seed=seed)
        exceeded += abs(result.prob - exact.prob) > result.error
    assert exceeded <= 4


def test_underflow_is_not_convergence():
    cov = _exchangeable(4, 0.5)
    for n in (64, None):
        result = mvnorth.box(-INF, -40.0, 0.0, cov, n, rtol=1e-9, method="genz")
        assert result.prob == 0.0
        assert result.rel_error > 1e-9
        assert result.status is Status.LIMIT


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
def test_limits_millions_of_deviations_away(method):
    m = np.full(4, -1e8)
    result = mvnorth.orthant(m, np.eye(4), 64, method=method)
    exact = math.fsum(special.log_ndtr(m))
    assert result.log_prob == pytest.approx(exact, rel=1e-13, abs=0.0) or result.rel_error == INF


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_what_centring_rounds_off_is_in_the_error(sign):
    rng = np.random.default_rng(3)
    lower = rng.uniform(1.0, 3.0, (300, 1))
    upper = lower + 10.0 ** rng.uniform(-12.0, -6.0, (300, 1))
    mean = sign * rng.uniform(1.0, 3.0, (300, 1))
    found = mvnorth.box(lower, upper, mean, [[1.0]])
    with mpmath.workdps(60):
        for i in range(300):
            a, b = (mpmath.mpf(x[i, 0]) - mpmath.mpf(mean[i, 0]) for x in (lower, upper))
            true = (mpmath.ncdf(-a) - mpmath.ncdf(-b)) / mpmath.exp(mpmath.mpf(found.log_prob[i]))
            assert abs(float(true - 1)) <= found.rel_error[i]


def test_narrow_boxes_keep_their_relative_accuracy():
    cov = _exchangeable(4, 0.5)
    centre, width = np.full(4, 6.0), 1e-9
    density = multivariate_normal.pdf(centre, cov=cov)
    result = mvnorth.box(centre, centre + width, 0.0, cov)
    assert result.prob == pytest.approx(density * width**4, rel=1e-6, abs=0.0)
