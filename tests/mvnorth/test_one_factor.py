"""diag(c) + v v^T by quadrature: against 40-digit references, identities, and the other methods."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mpf
from scipy.special import log_ndtr

import mvnorth
from mvnorth import OneFactor
from mvnorth._linalg.one_factor import recognise
from validation import reference
from validation.oracles import exact
from validation.oracles.one_factor import one_factor_derivatives

REFERENCES = json.loads((Path(reference.__file__).parent / "one_factor.json").read_text())
NAMES = ("m", "c", "v")


def inputs(entry):
    return [np.repeat(np.array(entry[name]), entry["counts"]) for name in NAMES]


def gradients(entry):
    return {name: np.repeat(np.array(entry[f"grad_{name}"]), entry["counts"]) for name in NAMES}


def entry_id(entry):
    return f"{entry['regime']}-{entry['d']}"


@pytest.mark.parametrize("entry", REFERENCES, ids=entry_id)
def test_references(entry):
    m, c, v = inputs(entry)
    found = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=NAMES, log=True)
    truth = mpf(entry["log_prob"])
    error = float(abs(mpf(found.log_prob) - truth))
    assert error <= 1e-13 * max(1.0, abs(float(truth)))
    value = mvnorth.orthant(m, OneFactor(c, v))
    assert value.log_prob == found.log_prob
    assert error <= value.rel_error
    for name, true in gradients(entry).items():
        wrong = np.abs(getattr(found, f"grad_{name}") - true)
        assert (wrong <= getattr(found, f"grad_{name}_error")).all(), name
        # At walls E[h x] is a small difference of large numbers; with v = 0 so is E[h z].
        if name == "m" or entry["regime"] not in ("walls", "noise", "no factor"):
            assert wrong.max() <= 1e-12 * np.abs(true).max() + 1e-14, name


@pytest.mark.parametrize("entry", REFERENCES, ids=entry_id)
def test_single_precision(entry):
    m, c, v = (a.astype(np.float32) for a in inputs(entry))
    cov = OneFactor(c, v)
    found = mvnorth.orthant_grad(m, cov, wrt=NAMES, log=True)
    truth = mvnorth.orthant_grad(m.astype(np.float64), cov, wrt=NAMES, log=True)
    assert found.grad_m.dtype == np.float32
    assert abs(found.log_prob - truth.log_prob) <= 2e-6 * max(1.0, abs(truth.log_prob))
    for name in NAMES:
        wrong = np.abs(getattr(found, f"grad_{name}") - getattr(truth, f"grad_{name}"))
        assert (wrong <= getattr(found, f"grad_{name}_error") + 1e-37).all(), name
    if truth.log_prob < -1e-3:
        assert np.abs(found.grad_m - truth.grad_m).max() <= 2e-5 * truth.grad_m.max()


LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).tiny)
singles = st.floats(-LARGEST, LARGEST, width=32)
triples = st.tuples(singles, st.floats(SMALLEST, LARGEST, width=32), singles)


@example(  # singular after rounding: the same guess with and without derivatives
    np.transpose([(0.0, 1.0, 0.0), (0.0, SMALLEST, 1.0), (4e15, SMALLEST, 5e7), (-3e38, 1.0, 5e15)])
)
@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.lists(triples, min_size=1, max_size=6).map(np.transpose))
def test_single_precision_stays_finite(arrays):
    m, c, v = (np.array(a, dtype=np.float32) for a in arrays)
    found = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=NAMES, log=True)
    assert found.log_prob == mvnorth.orthant(m, OneFactor(c, v)).log_prob
    assert np.isfinite(found.log_prob)
    for name in NAMES:
        assert np.isfinite(getattr(found, f"grad_{name}")).all(), name


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 1000, 20_000, 100_000])
def test_equal_scores(d):
    found = mvnorth.orthant(np.zeros(d), OneFactor.exact(d + 1))
    assert abs(found.log_prob + math.log(d + 1)) <= 1e-13 * max(1.0, math.log(d + 1))
    assert abs(found.log_prob + math.log(d + 1)) <= found.rel_error
    gradient = mvnorth.orthant_grad(np.zeros(d), OneFactor.exact(d + 1), log=True).grad_m
    assert np.ptp(gradient) == 0.0


@pytest.mark.parametrize("d", [1000, 20_000])
def test_derivatives_with_one_of_many_coordinates_far_out(d):
    m = np.full(d, 100.0)
    m[0] = -100.0
    found = mvnorth.orthant_grad(m, OneFactor(1.0, np.ones(d)), log=True)
    assert found.method == "quadrature"  # no other method has to help
    assert found.log_prob == pytest.approx(log_ndtr(-100.0 / math.sqrt(2.0)), rel=1e-13)
    assert found.grad_m[0] == pytest.approx(0.5 * 100.0, rel=1e-3)
    assert not found.grad_m[1:].any()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12))
def test_someone_wins(seed, classes):
    scores = np.random.default_rng(seed).normal(0.0, 3.0, classes)
    m = np.array([mvnorth.delta_matrix(classes, y) @ scores for y in range(classes)])
    shifted = np.array([mvnorth.delta_matrix(classes, y) @ (scores + 5.0) for y in range(classes)])
    p = mvnorth.orthant_prob(m, OneFactor.exact(classes))
    assert abs(p.sum() - 1.0) <= 1e-14
    np.testing.assert_allclose(mvnorth.orthant_prob(shifted, OneFactor.exact(classes)), p, 1e-13)


def test_one_and_two_coordinates_equal_the_closed_forms():
    rng = np.random.default_rng(0)
    for d in (1, 2):
        m = rng.normal(0.0, 5.0, (50, d))
        cov = OneFactor(rng.lognormal(size=(50, d)), rng.normal(size=(50, d)))
        exactly = mvnorth.orthant(m, cov, method="closed_form")
        found = mvnorth.orthant(m, cov)
        assert (found.method == "quadrature").all()
        bound = found.rel_error + exactly.rel_error
        assert (np.abs(found.log_prob - exactly.log_prob) <= bound).all()
        assert bound.max() < 1e-11


@pytest.mark.parametrize(("low", "high"), [(-30.0, 0.0), (-6.0, 6.0), (6.0, 12.0)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_walls_against_phi(low, high, dtype):
    """One coordinate, however small its own variance: Phi(m / sd), and walls at round places."""
    rng = np.random.default_rng(17)
    size = (4000, 1)
    v = rng.normal(size=size) * 10.0 ** rng.uniform(-1.0, 1.0, size)
    c = (v / 10.0 ** rng.uniform(0.0, 8.0, size)) ** 2
    deviation = np.hypot(np.sqrt(c), v)
    m = rng.uniform(low, high, size) * deviation
    m = np.where(rng.random(size) < 0.3, np.round(4.0 * m / v) / 4.0 * v, m).astype(dtype)
    x = m / deviation
    h = mvnorth.special.mills(x)
    found = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=NAMES, log=True)
    log_prob = mvnorth.special.log_ndtr(x[:, 0])
    assert (np.abs(found.log_prob - log_prob) <= found.rel_error + 1e-15 * np.abs(log_prob)).all()
    assert np.median(found.rel_error) < (1e-12 if dtype == np.float64 else 1e-4)
    by_c = -h * x / (2.0 * deviation**2)
    truth = {"m": h / deviation, "c": by_c, "v": 2.0 * v * by_c}
    for name, true in truth.items():
        wrong = np.abs(getattr(found, f"grad_{name}") - true)
        bound = getattr(found, f"grad_{name}_error") + 4e-15 * np.abs(true) + 1e-44
        assert np.mean(wrong > bound) <= 5e-4, name
    seen = truth["m"] > 1e-30
    assert np.max(np.abs(found.grad_m[seen] / truth["m"][seen] - 1.0)) < 1e-5


@pytest.mark.parametrize(
    ("m", "deviations"),
    [
        ([-1.0, -1.0, -2.0], [1e-9, 1e-10, 1e-2]),
        ([0.10769, 0.10769], [1e-11, 1e-19]),
        ([0.0, 0.0, 0.0], [1.0, 0.1, 1e-9]),
    ],
)
def test_walls_behind_walls(m, deviations):
    cov = OneFactor(np.square(deviations), np.ones(len(m)))
    found = mvnorth.orthant_grad(m, cov, wrt=NAMES, log=True)
    truth = one_factor_derivatives(m, cov.c, cov.v)
    assert float(abs(found.log_prob - truth.log_prob)) <= found.rel_error < 1e-12
    for name in NAMES:
        true = np.array([float(x) for x in getattr(truth, name)])
        wrong = np.abs(getattr(found, f"grad_{name}") - true)
        assert (wrong <= getattr(found, f"grad_{name}_error")).all(), name


def test_walls_against_the_bivariate_form():
    rng = np.random.default_rng(18)
    size = (5000, 2)
    deviation = 10.0 ** rng.uniform(-9.0, 2.0, size)
    v = rng.normal(size=size) * 10.0 ** rng.integers(-1, 2, (5000, 1))
    m = rng.normal(size=size) * rng.choice([0.01, 0.3, 1.0, 3.0, 8.0], (5000, 1))
    m = np.where(rng.random(size) < 0.3, -v * rng.normal(size=(5000, 1)), m)  # walls that meet
    found = mvnorth.orthant(m, OneFactor(deviation**2, v))
    other = mvnorth.orthant(m, OneFactor(deviation**2, v), method="closed_form")
    sure = other.rel_error < 1e-3
    assert sure.mean() > 0.5
    with np.errstate(over="ignore"):
        gap = np.abs(np.expm1(found.log_prob - other.log_prob))
    assert (gap <= 2.0 * (found.rel_error + other.rel_error))[sure].all()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_four_ways_to_the_gradient(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    m, c, v = rng.normal(0.5, 1.0, d), rng.lognormal(size=d), rng.normal(size=d)
    log = bool(rng.integers(2))
    exactly = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=NAMES, log=log)
    sampled = mvnorth.orthant_grad(
        m, OneFactor(c, v), wrt=NAMES, log=log, method="pathwise", seed=seed
    )
    conditional = mvnorth.orthant_grad(m, OneFactor(c, v), log=log, method="conditional", seed=seed)
    # The sampled errors hold in 99 of 100 cases; doubled, in all of these.
    for name in NAMES:
        wrong = np.abs(getattr(sampled, f"grad_{name}") - getattr(exactly, f"grad_{name}"))
        bound = 2.0 * getattr(sampled, f"grad_{name}_error")
        assert (wrong <= bound + getattr(exactly, f"grad_{name}_error")).all(), name
    bound = 2.0 * conditional.grad_m_error + exactly.grad_m_error
    assert (np.abs(conditional.grad_m - exactly.grad_m) <= bound).all()
    point = {"m": m, "c": c, "v": v}
    for name in NAMES:
        step = 1e-4 * (c if name == "c" else np.ones(d))
        for i in range(d):
            values = []
            for k in (-2, -1, 1, 2):
                moved = point | {name: point[name] + k * step * np.eye(d)[i]}
                result = mvnorth.orthant(moved["m"], OneFactor(moved["c"], moved["v"]))
                values.append(result.log_prob if log else result.prob)
            # Central difference of fourth order: error of rounding 1e-15/1e-4.
            difference = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step[i])
            scale = max(1.0, abs(exactly.log_prob) if log else 1.0) / min(1.0, step[i] / 1e-4)
            assert abs(difference - getattr(exactly, f"grad_{name}")[i]) <= 1e-9 * scale, name


@pytest.mark.parametrize("level", [0.0, -3.0, -30.0, -400.0])
def test_hessian(level):
    rng = np.random.default_rng(7)
    d = 4
    m, c, v = level + rng.normal(size=d), rng.lognormal(size=d), rng.normal(size=d)
    truth = one_factor_derivatives(m, c, v, hessian=True)
    true = np.array([[float(x) for x in row] for row in truth.hessian])
    found = mvnorth.orthant_hessian(m, OneFactor(c, v), log=True)
    np.testing.assert_allclose(found, true, rtol=0, atol=1e-11 * np.abs(true).max())
    vector = rng.normal(size=d)
    product = mvnorth.orthant_hessian(m, OneFactor(c, v), vector, log=True)
    np.testing.assert_allclose(product, true @ vector, rtol=0, atol=1e-11 * np.abs(true).max())
    if level > -10:
        gradient, p = np.array([float(x) for x in truth.m]), float(exact.mpmath.exp(truth.log_prob))
        plain = p * (true + np.outer(gradient, gradient))
        cov = OneFactor(c, v)
        np.testing.assert_allclose(mvnorth.orthant_hessian(m, cov), plain, rtol=0, atol=1e-13)
        np.testing.assert_allclose(
            mvnorth.orthant_hessian(m, cov, vector), plain @ vector, rtol=0, atol=1e-13
        )
        # Plackett: dP/dc_i is half the second derivative in m_i.
        by_c = mvnorth.orthant_grad(m, cov, wrt="c").grad_c
        np.testing.assert_allclose(by_c, np.diagonal(plain) / 2, rtol=0, atol=1e-13)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_symmetries_in_every_regime(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 30))
    c = 10.0 ** rng.uniform(-12, 12, d)
    m = rng.choice([1.0, np.sqrt(c).max(), 1e3, 1e6]) * rng.normal(size=d)
    v = rng.choice([0.0, 1.0, 1e3]) * rng.normal(size=d)
    first = mvnorth.orthant(m, OneFactor(c, v))
    assert np.isfinite(first.log_prob)
    # Where log P is huge the bound on P says nothing; log P itself is good to rounding.
    bound = min(2.0 * first.rel_error, 1e-9) + 1e-13 * max(1.0, abs(first.log_prob))
    order = rng.permutation(d)
    scale = 2.0 ** rng.integers(-20, 20)
    for other in (
        mvnorth.orthant(m, OneFactor(c, -v)),
        mvnorth.orthant(m[order], OneFactor(c[order], v[order])),
        mvnorth.orthant(scale * m, OneFactor(scale**2 * c, scale * v)),
    ):
        assert abs(other.log_prob - first.log_prob) <= bound


def test_infinite_means():
    cov = OneFactor([1.0, 2.0, 0.5], [1.0, -1.0, 2.0])
    sub = OneFactor([1.0, 0.5], [1.0, 2.0])
    free = mvnorth.orthant_grad([0.3, np.inf, -0.2], cov, wrt=NAMES)
    rest = mvnorth.orthant_grad([0.3, -0.2], sub, wrt=NAMES)
    assert free.prob == pytest.approx(rest.prob, rel=1e-14)
    for name in NAMES:
        gradient = getattr(free, f"grad_{name}")
        assert gradient[1] == 0.0
        np.testing.assert_allclose(gradient[[0, 2]], getattr(rest, f"grad_{name}"), rtol=1e-12)
    assert mvnorth.orthant_prob([0.3, -np.inf, 0.1], cov) == 0.0
    assert mvnorth.orthant_prob([np.inf] * 3, cov) == 1.0


@pytest.mark.parametrize("d", [3, 4, 10, 60])
def test_dense_factors_are_recognised(d):
    rng = np.random.default_rng(d)
    c, v = rng.lognormal(size=(20, d)), rng.normal(size=(20, d))
    m = rng.normal(size=(20, d))
    cov = OneFactor(c, v)
    given_as_factor = mvnorth.orthant(m, np.linalg.cholesky(cov.dense()))
    given_as_cov = mvnorth.box(-np.inf, m, 0.0, cov.dense())
    truth = mvnorth.orthant(m, cov)
    for found in (given_as_factor, given_as_cov):
        assert (found.method == ("closed_form" if d == 3 else "quadrature")).all()
        assert (np.abs(found.log_prob - truth.log_prob) <= found.rel_error).all()
        assert found.rel_error.max() < 1e-9
    gradient = mvnorth.orthant_grad(m, np.linalg.cholesky(cov.dense()), log=True)
    exactly = mvnorth.orthant_grad(m, cov, log=True)
    np.testing.assert_allclose(gradient.grad_m, exactly.grad_m, rtol=1e-9)


def test_recognised_c_and_v():
    rng = np.random.default_rng(1)
    for d in (2, 3, 8):
        c, v = rng.lognormal(size=(5, d)), rng.normal(size=(5, d))
        dense = OneFactor(c, v).dense()
        own, loadings, error = recognise(np.linalg.cholesky(dense))
        again = OneFactor(own, loadings).dense()
        np.testing.assert_allclose(again, dense, rtol=1e-13, atol=1e-14)
        assert error.max() < 1e-11


@pytest.mark.parametrize("change", [1e-3, 1e-9, -0.3])
def test_what_is_not_one_factor_is_not_recognised(change):
    cov = OneFactor([1.0, 2.0, 3.0, 1.5], [1.0, -0.5, 2.0, 1.0]).dense()
    cov[0, 3] += change
    cov[3, 0] += change
    L = np.linalg.cholesky(cov)
    assert not np.isfinite(recognise(L[None])[2]).any()
    assert mvnorth.orthant(np.ones(4), L, 100).method == "tilting"
    with pytest.raises(ValueError, match="method='quadrature' needs a covariance diag"):
        mvnorth.orthant(np.ones(4), L, method="quadrature")
    with pytest.raises(ValueError, match="method='quadrature' needs a covariance diag"):
        mvnorth.orthant_grad(np.ones(4), L, method="quadrature")
    with pytest.raises(ValueError, match="second derivatives need a covariance diag"):
        mvnorth.orthant_hessian(np.ones(4), L)


def test_negative_correlations_of_three_have_no_common_factor():
    cov = np.array([[1.0, -0.3, -0.3], [-0.3, 1.0, -0.3], [-0.3, -0.3, 1.0]])
    assert mvnorth.orthant(np.zeros(3), np.linalg.cholesky(cov)).method == "closed_form"


def test_a_batch_with_and_without_a_common_factor():
    rng = np.random.default_rng(5)
    one = OneFactor(np.ones(5), rng.normal(size=5)).dense()
    other = np.eye(5) + 0.3 * np.diag(np.ones(4), 1) + 0.3 * np.diag(np.ones(4), -1)
    L = np.linalg.cholesky(np.stack([one, other, one]))
    found = mvnorth.orthant(np.zeros((3, 5)), L)
    assert found.method.tolist() == ["quadrature", "gauss", "quadrature"]
    assert found.prob[0] == mvnorth.orthant_prob(np.zeros(5), L[0])
    assert found.prob[1] == mvnorth.orthant_prob(np.zeros(5), L[1])


def test_recognition_does_not_depend_on_the_rest_of_the_batch():
    one = OneFactor(np.ones(4), [1.0, -0.5, 2.0, 0.3]).dense()
    repeated = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    repeated[3], repeated[:, 3] = repeated[2], repeated[:, 2]
    repeated[3, 3] = repeated[2, 2]  # the last two coordinates are the same
    together = mvnorth.box(-np.inf, 0.3, 0.0, np.stack([one, repeated]))
    alone = mvnorth.box(-np.inf, 0.3, 0.0, one)
    assert together.method[0] == alone.method == "quadrature"
    assert together.log_prob[0] == alone.log_prob
    L = np.stack([np.diag([1.0, 2.0, 3.0, 4.0]), np.linalg.cholesky(one)])
    both = mvnorth.orthant_grad(np.ones((2, 4)), L)
    for row in range(2):
        single = mvnorth.orthant_grad(np.ones(4), L[row])
        np.testing.assert_array_equal(both.grad_m[row], single.grad_m)


def test_two_coordinates_by_quadrature():
    for rho in (-0.9, 0.0, 0.5):
        L = np.linalg.cholesky([[4.0, 2 * rho], [2 * rho, 1.0]])
        found = mvnorth.orthant([-30.0, -10.0], L, method="quadrature")
        exactly = mvnorth.orthant([-30.0, -10.0], L)
        assert exactly.method == "closed_form"
        assert found.log_prob == pytest.approx(exactly.log_prob, rel=1e-13)


def test_two_coordinates_close_to_singular_far_out():
    """Where the correlation says too little, the factor still knows the small variance."""
    c, v, m = [1e-6, 2e-6], [1.0, -0.5], [-3.0, -1.0]
    L = np.linalg.cholesky(OneFactor(c, v).dense())
    c_of_L, v_of_L, _ = recognise(L[None])
    truth = one_factor_derivatives(m, c_of_L[0], v_of_L[0]).log_prob
    found = mvnorth.orthant(m, L, rtol=1e-6)
    assert found.log_prob < -1e5
    assert float(abs(found.log_prob - truth)) <= max(found.rel_error, 1e-9)


def test_boxes():
    rng = np.random.default_rng(3)
    for d in (1, 2, 5):
        c, v = rng.lognormal(size=d), rng.normal(size=d)
        upper = rng.uniform(-2.0, 3.0, d)
        lower = upper - rng.lognormal(size=d)
        truth = exact.one_factor_logprob(lower, upper, c, v)
        found = mvnorth.box(lower, upper, 0.0, OneFactor(c, v))
        assert float(abs(mpf(found.log_prob) - truth)) <= found.rel_error < 1e-12
        lower[0] = -np.inf
        upper[-1] = np.inf
        mixed = mvnorth.box(lower, upper, 0.0, OneFactor(c, v))
        truth = exact.one_factor_logprob(lower, upper, c, v)
        assert float(abs(mpf(mixed.log_prob) - truth)) <= mixed.rel_error < 1e-12


def test_boxes_with_walls_fall_back():
    narrow = mvnorth.box(2.186, 3.942, 0.0, OneFactor([8.03e-20], [-1.0]))
    truth = mvnorth.box_prob(2.186, 3.942, 0.0, [[1.0 + 8.03e-20]])
    assert narrow.prob == pytest.approx(truth, rel=1e-9)
    assert narrow.rel_error < 1e-6


def test_limits_on_either_side_are_reflected():
    cov = OneFactor([1.0, 2.0, 0.5], [1.0, -1.0, 2.0])
    lower, upper = [-np.inf, -1.0, 0.2], [0.5, np.inf, np.inf]
    found = mvnorth.box(lower, upper, 0.0, cov)
    assert found.n > 0  # by the rule for one-sided limits
    truth = exact.one_factor_logprob(lower, upper, cov.c, cov.v)
    assert float(abs(mpf(found.log_prob) - truth)) <= found.rel_error < 1e-13


def test_cdf_takes_a_one_factor():
    cov = OneFactor.exchangeable(6, 0.3)
    x = np.linspace(-1.0, 2.0, 6)
    assert mvnorth.cdf(x, cov=cov) == pytest.approx(mvnorth.cdf(x, cov=cov.dense()), rel=1e-12)
    assert mvnorth.logcdf(x, np.full(6, 0.1), cov) == pytest.approx(
        mvnorth.orthant_logprob(x - 0.1, cov), rel=1e-14
    )


def test_batches_threads_and_order_do_not_matter():
    rng = np.random.default_rng(11)
    m = rng.normal(0.0, 4.0, (60, 40))
    shared = OneFactor(rng.lognormal(size=40), rng.normal(size=40))
    copies = OneFactor(np.tile(shared.c, (60, 1)), np.tile(shared.v, (60, 1)))
    try:
        results = []
        for threads in (1, 2, 5):
            mvnorth.set_num_threads(threads)
            results.append(mvnorth.orthant_grad(m, shared, wrt=NAMES, log=True))
            results.append(mvnorth.orthant_grad(m, copies, wrt=NAMES, log=True))
    finally:
        mvnorth.set_num_threads(1)
    single = [mvnorth.orthant_grad(row, shared, wrt=NAMES, log=True) for row in m]
    for result in results:
        np.testing.assert_array_equal(result.log_prob, [each.log_prob for each in single])
        for name in NAMES:
            rows = np.stack([getattr(each, f"grad_{name}") for each in single])
            np.testing.assert_array_equal(getattr(result, f"grad_{name}"), rows)


def test_broadcasting():
    m = np.zeros((4, 1, 3))
    cov = OneFactor(np.ones((5, 3)), 1.0)
    assert mvnorth.orthant_prob(m, cov).shape == (4, 5)
    found = mvnorth.orthant_grad(m, cov, wrt=("m", "v"))
    assert found.grad_m.shape == found.grad_v.shape == found.grad_v_error.shape == (4, 5, 3)
    assert found.grad_c is None
    assert mvnorth.orthant_hessian(m, cov).shape == (4, 5, 3, 3)
    assert mvnorth.orthant_hessian(m, cov, np.ones(3)).shape == (4, 5, 3)
    assert mvnorth.orthant_prob(np.zeros((0, 3)), cov.__class__(1.0, np.ones(3))).shape == (0,)


def test_independent_factors_have_derivatives():
    found = mvnorth.orthant_grad([0.5, -1.0, 2.0], np.diag([1.0, 2.0, 3.0]), log=True)
    x = np.array([0.5, -0.5, 2.0 / 3.0])
    np.testing.assert_allclose(found.grad_m, mvnorth.special.mills(x) / [1.0, 2.0, 3.0], rtol=1e-13)


@pytest.mark.parametrize("method", ["quadrature", "conditional", "pathwise"])
def test_empty_batches(method):
    empty = np.zeros((0, 3))
    assert mvnorth.orthant_grad(empty, OneFactor.exact(4), method=method).grad_m.shape == (0, 3)
    L = OneFactor.exact(4).cholesky().dense()
    assert mvnorth.orthant_grad(empty, L).grad_m.shape == (0, 3)
    assert mvnorth.orthant_hessian(empty, L).shape == (0, 3, 3)


def test_a_dense_factor_of_tiny_own_variances():
    """What recognition cannot know of c goes into the errors."""
    c = [1.1497578245815501e-07, 4.1944249333006353e-07, 8.410877915513513e-10]
    v = [-0.3287276850966989, -0.9549565172820178, 0.5039759994723839]
    m = [-0.4908779641180585, 0.0207552587660328, -0.6156981869109183]
    exactly = mvnorth.orthant_grad(m, OneFactor(c, v), log=True)
    L = np.linalg.cholesky(OneFactor(c, v).dense())
    value = mvnorth.orthant(m, L, method="quadrature")
    for found in (value, mvnorth.orthant_grad(m, L, log=True, method="quadrature")):
        assert abs(found.log_prob - exactly.log_prob) <= found.rel_error
    gap = np.abs(found.grad_m - exactly.grad_m)
    assert (gap <= found.grad_m_error).all()


def test_delta_matrix():
    for classes in (2, 5):
        for y in range(classes):
            D = mvnorth.delta_matrix(classes, y)
            np.testing.assert_array_equal(D @ D.T, OneFactor.exact(classes).dense())
            scores = np.arange(classes, dtype=float)
            assert sorted(D @ scores) == sorted(y - np.delete(scores, y))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OneFactor([1.0, 0.0], 1.0), "c must be > 0"),
        (lambda: OneFactor(1.0, 1.0), "must have shape"),
        (lambda: OneFactor([1.0, 2.0], [1.0, 2.0, 3.0]), "do not broadcast"),
        (lambda: OneFactor([1.0, np.nan], 1.0), "c must not contain NaN"),
        (lambda: OneFactor([1.0, 1.0], [np.inf, 1.0]), "v must be finite"),
        (lambda: OneFactor.exact(1), "classes must be at least 2"),
        (lambda: OneFactor.exact(2.5), "classes must be a whole number"),
        (lambda: OneFactor.exchangeable(3, 1.0), r"rho must be a number in \[0, 1\)"),
        (lambda: OneFactor.exchangeable(3, -0.1), r"rho must be a number in \[0, 1\)"),
        (lambda: OneFactor([1e-300, 1.0], [1e200, 1.0]), "must be at most 1e150"),
        (lambda: mvnorth.orthant_grad([0.0], OneFactor.exact(2), wrt=3), "wrt must name some of"),
        (lambda: mvnorth.delta_matrix(3, 3), "y must be below"),
        (lambda: mvnorth.orthant(np.zeros(2), OneFactor.exact(4)), "differ in dimension"),
        (lambda: mvnorth.box(0.0, 1.0, [0.0, 0.0], OneFactor.exact(4)), "must have shape"),
        (lambda: mvnorth.orthant_grad([-np.inf, 0.0], OneFactor.exact(3)), "m must be > -inf"),
        (lambda: mvnorth.orthant_grad([0.0], np.eye(1), wrt="c"), "wrt must name some of 'm', 'L'"),
        (lambda: mvnorth.orthant_grad([0.0, 0.0], OneFactor.exact(3), wrt=()), "wrt must name"),
        (lambda: mvnorth.orthant_grad([0.0], OneFactor.exact(2), method="genz"), "method must be"),
        (
            lambda: mvnorth.orthant_hessian([0.0, 0.0], OneFactor.exact(3), np.ones(3)),
            r"vector must have shape \(..., 2\)",
        ),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_boxes_say_how_many_nodes_they_took():
    cov = mvnorth.OneFactor(np.linspace(0.5, 1.0, 5), np.linspace(0.2, 1.0, 5))
    upper = np.stack([np.ones(5), np.full(5, np.inf), np.full(5, 1e-6)])
    both = mvnorth.box(-1.0, upper, 0.0, cov, method="quadrature")
    alone = [mvnorth.box(-1.0, row, 0.0, cov, method="quadrature").n for row in upper]
    assert both.n.tolist() == alone
    assert (both.n > 8).all()
    assert (both.n < 10_000).all()
    dense = mvnorth.box(-1.0, upper[0], 0.0, cov.dense())
    assert (dense.method, dense.n > 8) == ("quadrature", True)
