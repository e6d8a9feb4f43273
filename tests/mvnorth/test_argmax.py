"""Probability to be best, against integrals in 30 digits, closed forms and counting."""

import functools
import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import mvnorth
from mvnorth import prob_argmax, prob_topk


def fewer_than(k, events):
    """Pr(fewer than k of independent events), by going through all sets of fewer than k.

    Events are pairs of probabilities: not to happen, and to happen.
    """
    total = mpmath.mpf(0)
    for size in range(min(k, len(events) + 1)):
        for those in itertools.combinations(range(len(events)), size):
            total += mpmath.fprod(pair[j in those] for j, pair in enumerate(events))
    return total


@functools.cache
def legendre():
    return mpmath.calculus.quadrature.GaussLegendre(mpmath.mp).calc_nodes(4, 110)


def compare(s, mu, sigma):
    return mpmath.ncdf((s - mu) / sigma), mpmath.ncdf((mu - s) / sigma)


def thinned(edges, apart):
    """Edges that are not much closer to each other than the smallest deviation."""
    kept = []
    for edge in sorted(edges):
        if not kept or edge - kept[-1] > 0.9 * apart or edge == max(edges):
            kept.append(edge)
    return set(kept)


def reference(mu, sigma, k=1, reach=12, digits=40):
    """Probabilities of being among the k largest: Gauss-Legendre on short pieces of the line."""
    with mpmath.workdps(digits):
        mu = [mpmath.mpf(float(m)) for m in mu]
        sigma = [mpmath.mpf(float(s)) for s in np.broadcast_to(sigma, len(mu))]
        live = [i for i, s in enumerate(sigma) if s > 0]
        constants = [m for m, s in zip(mu, sigma, strict=True) if s == 0]
        low = sorted(mu[i] - reach * sigma[i] for i in range(len(mu)))[-k]
        steps = np.arange(-reach, reach + 1, 1.5)
        edges = {mu[i] + sigma[i] * mpmath.mpf(float(t)) for i in live for t in steps}
        edges = thinned(edges, min((sigma[i] for i in live), default=1))
        edges = sorted(e for e in edges | set(constants) | {low} if e >= low)
        p = [mpmath.mpf(0)] * len(mu)
        for a, b in itertools.pairwise(edges):
            above = sum(c >= b for c in constants)
            if above >= k:
                continue
            for x, w in legendre():
                s = (a + b) / 2 + x * (b - a) / 2
                events = {i: compare(s, mu[i], sigma[i]) for i in live}
                for i in live:
                    others = fewer_than(k - above, [events[j] for j in live if j != i])
                    p[i] += w * (b - a) / 2 * mpmath.npdf(s, mu[i], sigma[i]) * others
        for value in set(constants):
            above = sum(c > value for c in constants)
            tied = constants.count(value)
            events = [compare(value, mu[i], sigma[i]) for i in live]
            # Places left to the tied constants, min(tied, k - above - N) or 0, summed by levels.
            levels = range(max(k - above - tied, 0) + 1, k - above + 1)
            share = sum(fewer_than(level, events) for level in levels) / tied
            for i in range(len(mu)):
                if sigma[i] == 0 and mu[i] == value:
                    p[i] = share
        return p


RNG = np.random.default_rng(5)
CASES = {
    "two": ([0.3, -0.2], [1.0, 2.0]),
    "equal": ([1.0] * 4, 1.0),
    "ordinary": (RNG.normal(size=4), 1.0),
    "twenty": (RNG.normal(size=20) * 2, 1.0),
    "unlike": (RNG.normal(size=4), RNG.uniform(0.2, 3.0, 4)),
    "dominant": ([0.0, 9.0, 1.0], [1.0, 1.0, 2.0]),
    "narrow_among_wide": ([0.0, 0.1, -0.3], [1e-6, 1.0, 2.0]),
    "two_humps": ([-3.0, 2.0, 0.0], [5.0, 1e-3, 0.1]),
    "ratio_1e12": ([0.0, 0.0, 1e-12], [1.0, 1e-12, 2e-12]),
    "three_scales": ([1e6, 1e6, 1e6], [1.0, 1e-12, 1e-6]),
    "far_from_zero": ([1e6 + 0.7, 1e6 + 0.1, -1e6, 0.3], [1.0, 1.5, 2.0, 0.5]),
    "large_units": ([-1e6, 1e6, 9e5], [1e6, 1e-6, 1e5]),
    "constant": ([0.0, 0.5, 0.4], [1.0, 2.0, 0.0]),
    "tied_constants": ([0.0, 0.5, 0.5, 0.5, 0.1], [1.0, 0.0, 0.0, 2.0, 0.0]),
    "low_constant": ([0.0, 0.5, -30.0], [1.0, 2.0, 0.0]),
    "high_constant": ([0.0, 0.5, 30.0], [1.0, 1.5, 0.0]),
    "constant_and_narrow": ([0.0, 1.0, 1.0], [1.0, 1e-6, 0.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_absolute(name):
    mu, sigma = CASES[name]
    expected = np.array([float(x) for x in reference(mu, sigma)])
    assert prob_argmax(mu, sigma) == pytest.approx(expected, rel=0, abs=3e-15)


@pytest.mark.parametrize("name", [name for name in CASES if name != "twenty"])
def test_relative(name):
    mu, sigma = CASES[name]
    found = prob_argmax(mu, sigma, relative=True)
    for p, value in zip(found, reference(mu, sigma, reach=40), strict=True):
        if value < 1e-300:
            assert p == 0.0
        else:
            assert abs(p / value - 1) < 1e-12


@pytest.mark.parametrize("gap", [5.0, 36.0])
@pytest.mark.parametrize(
    "sigma",
    [1.0, [1e-3, 1.0, 0.5, 1.0], pytest.param([3.0, 1.0, 0.5, 1.0], marks=pytest.mark.slow)],
)
def test_small_probabilities(gap, sigma):
    mu = np.array([-gap, 0.0, 0.5, -1.0])
    found = prob_argmax(mu, sigma, relative=True)
    for p, value in zip(found, reference(mu, sigma, reach=60), strict=True):
        assert p == 0.0 if value < 1e-300 else abs(p / value - 1) < 1e-12


@given(st.floats(-1e6, 1e6), st.floats(-40, 40), st.floats(-6, 6), st.floats(-6, 6), st.booleans())
@settings(deadline=None, derandomize=True, max_examples=150)
def test_two_classes(at, gap, log_one, log_two, relative):
    one, two = 10.0**log_one, 10.0**log_two
    width = np.hypot(one, two)
    mu = [at, at + gap * width]
    z = (mu[0] - mu[1]) / width  # as rounding left it
    found = prob_argmax(mu, [one, two], relative=relative)
    expected = ndtr([z, -z])
    if relative:
        large = expected > 1e-300
        assert found[large] == pytest.approx(expected[large], rel=1e-12 + 4e-16 * z * z)
        assert (found[~large] <= 2e-300).all()
    else:
        assert found == pytest.approx(expected, rel=0, abs=2e-15)


@pytest.mark.parametrize("classes", [1, 2, 3, 17, 100, 1000, 20_000, 100_000])
def test_equal_classes(classes):
    p = prob_argmax(np.full(classes, 3.0), 0.7)
    assert p == pytest.approx(np.full(classes, 1 / classes), rel=1e-12)
    assert p.sum() == pytest.approx(1.0, abs=1e-14)
    if classes <= 100:
        p = prob_argmax(np.full(classes, 3.0), 0.7, relative=True)
        assert p == pytest.approx(np.full(classes, 1 / classes), rel=1e-12)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-12, 0)), min_size=1, max_size=12),
    st.integers(1, 12),
)
@settings(deadline=None, derandomize=True, max_examples=100)
def test_sums_and_permutations(classes, k):
    mu, log_sigma = (np.array(x) for x in zip(*classes, strict=True))
    sigma = 10.0**log_sigma
    order = np.random.default_rng(0).permutation(len(mu))
    p = prob_argmax(mu, sigma)
    assert p.sum() == pytest.approx(1.0, abs=1e-14)
    assert (p >= 0.0).all()
    assert prob_argmax(mu[order], sigma[order]) == pytest.approx(p[order], rel=0, abs=5e-15)
    assert prob_argmax(mu, sigma, relative=True) == pytest.approx(p, rel=0, abs=2e-14)
    q = prob_topk(mu, sigma, k)
    assert q.sum() == pytest.approx(min(k, len(mu)), abs=1e-13)
    assert ((q >= -1e-15) & (q <= 1.0)).all()
    assert prob_topk(mu[order], sigma[order], k) == pytest.approx(q[order], rel=0, abs=3e-14)
    assert (q >= p - 1e-14).all()


NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([-np.inf, 0.0, 1.0, 1e6])
DEVIATIONS = st.floats(-6, 6).map(lambda t: 10.0**t) | st.sampled_from([0.0, 1.0, 1e-6])


@given(st.lists(st.tuples(NUMBERS, DEVIATIONS), min_size=1, max_size=6), st.integers(1, 6))
@settings(deadline=None, derandomize=True, max_examples=100)
def test_all_regimes(classes, k):
    mu, sigma = (np.array(x) for x in zip(*classes, strict=True))
    if (mu == -np.inf).all():
        return
    p = prob_argmax(mu, sigma)
    assert p.sum() == pytest.approx(1.0, abs=1e-14)
    assert prob_argmax(mu, sigma, relative=True) == pytest.approx(p, rel=0, abs=2e-14)
    q = prob_topk(mu, sigma, k)
    assert q.sum() == pytest.approx(min(k, len(mu)), abs=1e-13)


@given(
    st.lists(
        st.tuples(st.floats(-1e300, 1e300) | st.just(-np.inf), st.floats(0, 1e300)),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 6),
)
@settings(deadline=None, derandomize=True, max_examples=100)
def test_any_numbers(classes, k):
    mu, sigma = (np.array(x) for x in zip(*classes, strict=True))
    if (mu == -np.inf).all():
        return
    for p in (
        prob_argmax(mu, sigma),
        prob_topk(mu, sigma, k),
        prob_argmax(mu, sigma, relative=True),
    ):
        assert ((p >= 0.0) & (p <= 1.0)).all()


@pytest.mark.parametrize("sigma", [1.0, 1e-8, 1e-20, 1e-100, 1e-107])
def test_scores_many_deviations_apart(sigma):
    """Ranks that are certain, however small deviations are against the gaps."""
    mu = np.array([0.0, 300.0, -np.inf, 200.0, 200.0])
    deviations = sigma * np.array([1.0, 1e-5, 0.0, 1.0, 1.0])
    for k, expected in [
        (1, [0, 1, 0, 0, 0]),
        (2, [0, 1, 0, 0.5, 0.5]),
        (3, [0, 1, 0, 1, 1]),
        (4, [1, 1, 0, 1, 1]),
    ]:
        found = prob_topk(mu, deviations, k)
        assert found == pytest.approx(np.array(expected, dtype=float), abs=1e-14)


def test_shift_and_scale():
    mu, sigma = RNG.normal(size=(5, 30)), RNG.uniform(0.5, 2.0, (5, 30))
    p, q = prob_argmax(mu, sigma), prob_topk(mu, sigma, 4)
    assert prob_argmax(mu * 2.0**40, sigma * 2.0**40) == pytest.approx(p, rel=0, abs=2e-15)
    shifted = (mu + 1024.0) - 1024.0  # so that the shift is not rounded
    assert prob_argmax(shifted + 1024.0, sigma) == pytest.approx(
        prob_argmax(shifted, sigma), rel=0, abs=2e-15
    )
    assert prob_topk(mu * 0.125, sigma * 0.125, 4) == pytest.approx(q, rel=0, abs=1e-14)


TOPK = ["ordinary", "unlike", "two_humps", "three_scales", "constant", "tied_constants"]


@pytest.mark.parametrize("name", [*TOPK, "far_from_zero", "large_units", "constant_and_narrow"])
def test_topk(name):
    mu, sigma = CASES[name]
    for k in range(1, len(mu)):
        expected = np.array([float(x) for x in reference(mu, sigma, k)])
        assert expected.sum() == pytest.approx(k)  # of the reference
        assert prob_topk(mu, sigma, k) == pytest.approx(expected, rel=0, abs=4e-15 * k)


@pytest.mark.parametrize(("classes", "k"), [(7, 3), (100, 5), (300, 2), (40, 33)])
def test_topk_counts(classes, k):
    rng = np.random.default_rng(classes)
    mu, sigma = rng.normal(size=classes), rng.uniform(0.3, 2.0, classes)
    n = 20_000
    draws = mu + sigma * rng.standard_normal((n, classes))
    best = np.argpartition(draws, -k, axis=1)[:, -k:]
    share = np.bincount(best.ravel(), minlength=classes) / n
    p = prob_topk(mu, sigma, k)
    assert p.sum() == pytest.approx(k, abs=1e-13)
    assert (np.abs(share - p) < 5.0 * np.sqrt(p * (1.0 - p) / n) + 1e-3).all()


def test_topk_ends():
    mu = RNG.normal(size=(3, 5))
    assert (prob_topk(mu, 1.0, 5) == 1.0).all()
    assert (prob_topk(mu, 1.0, 9) == 1.0).all()
    assert (prob_topk(mu, 1.0, 1) == prob_argmax(mu, 1.0)).all()
    last = 1.0 - prob_argmax(-mu, 1.0)
    assert prob_topk(mu, 1.0, 4) == pytest.approx(last, rel=0, abs=1e-15)
    assert prob_topk(np.zeros((600,)), 2.0, 30) == pytest.approx(np.full(600, 0.05), rel=1e-12)


def test_constants():
    assert prob_argmax([1.0, 3.0, 3.0], 0.0).tolist() == [0.0, 0.5, 0.5]
    assert prob_argmax([1.0, 3.0, 3.0], 0.0, relative=True).tolist() == [0.0, 0.5, 0.5]
    assert prob_topk([1.0, 3.0, 3.0, 1.0, 0.0], 0.0, 3).tolist() == [0.5, 1.0, 1.0, 0.5, 0.0]
    for relative in (False, True):
        p = prob_argmax([0.0, 1.0, 1.0], [2.0, 0.0, 0.0], relative=relative)
        assert p == pytest.approx([ndtr(-0.5), ndtr(0.5) / 2, ndtr(0.5) / 2], rel=1e-14)
    assert prob_argmax([7.0], 0.0).tolist() == [1.0]
    assert prob_argmax([7.0], 2.0).tolist() == [1.0]


def test_minus_infinity():
    mu = np.array([0.3, -np.inf, 0.0, -np.inf, 1.0])
    some = np.isfinite(mu)
    for relative in (False, True):
        p = prob_argmax(mu, 1.5, relative=relative)
        assert (p[~some] == 0.0).all()
        assert p[some] == pytest.approx(prob_argmax(mu[some], 1.5), rel=0, abs=1e-15)
    assert prob_topk(mu, 1.5, 2)[some] == pytest.approx(prob_topk(mu[some], 1.5, 2), abs=4e-15)
    assert prob_topk(mu, 1.5, 4) == pytest.approx([1.0, 0.5, 1.0, 0.5, 1.0], rel=0, abs=1e-14)


def test_single_precision():
    mu = RNG.normal(size=(20, 30)).astype(np.float32)
    for sigma in (1.0, RNG.uniform(0.1, 2.0, 30)):
        double = mu.astype(np.float64)
        for found, expected in (
            (prob_argmax(mu, sigma), prob_argmax(double, sigma)),
            (prob_argmax(mu, sigma, relative=True), prob_argmax(double, sigma)),
            (prob_topk(mu, sigma, 3), prob_topk(double, sigma, 3)),
        ):
            assert found.dtype == np.float32
            assert found == pytest.approx(expected, rel=0, abs=1e-6)
    assert prob_topk(mu, 1.0, 30).dtype == np.float32
    assert prob_argmax([0, 1], 1).dtype == np.float64


@pytest.mark.parametrize("shape", [(), (1,), (7,), (4, 1), (1, 7), (4, 7), (3, 1, 1), (3, 4, 7)])
def test_broadcasting(shape):
    mu = RNG.normal(size=(4, 7))
    sigma = RNG.uniform(0.5, 2.0, shape)
    for function in (
        prob_argmax,
        lambda m, s: prob_argmax(m, s, relative=True),
        lambda m, s: prob_topk(m, s, 3),
    ):
        found = function(mu, sigma)
        full_mu, full_sigma = np.broadcast_arrays(mu, sigma)
        assert found.shape == full_mu.shape
        for index in np.ndindex(full_mu.shape[:-1]):
            assert (found[index] == function(full_mu[index], full_sigma[index])).all()


def test_empty_batch():
    assert prob_argmax(np.empty((0, 3)), 1.0).shape == (0, 3)
    assert prob_topk(np.empty((2, 0, 3)), 1.0, 2).shape == (2, 0, 3)


def test_threads():
    mu, sigma = RNG.normal(size=(200, 40)), RNG.uniform(1e-3, 2.0, 40)
    before = mvnorth.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            mvnorth.set_num_threads(threads)
            results.append(
                (
                    prob_argmax(mu, sigma),
                    prob_argmax(mu[:20], sigma, relative=True),
                    prob_topk(mu[:40], sigma, 4),
                )
            )
    finally:
        mvnorth.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        assert (one == three).all()


@pytest.mark.parametrize(
    ("mu", "sigma", "message"),
    [
        (1.0, 1.0, r"mu must have shape \(\.\.\., C\)"),
        (np.empty((2, 0)), 1.0, r"mu must have shape \(\.\.\., C\)"),
        ([0.0, np.nan], 1.0, "mu must not contain NaN"),
        ([0.0, np.inf], 1.0, "mu must be below infinity"),
        ([-np.inf, -np.inf], 1.0, "mu must not be minus infinity for all"),
        ([0.0, 1.0], -1.0, "sigma must be >= 0"),
        ([0.0, 1.0], np.inf, "sigma must be finite"),
        ([0.0, 1.0], [np.nan, 1.0], "sigma must not contain NaN"),
        ([0.0, 1.0], [1.0, 1.0, 1.0], "do not broadcast"),
    ],
)
def test_wrong_input(mu, sigma, message):
    for function in (prob_argmax, lambda m, s: prob_topk(m, s, 1)):
        with pytest.raises(ValueError, match=message):
            function(mu, sigma)


def test_wrong_k():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        prob_topk([0.0, 1.0], 1.0, 0)
    with pytest.raises(TypeError, match="k must be a whole number"):
        prob_topk([0.0, 1.0], 1.0, 1.5)
    with pytest.raises(TypeError, match="mu must be an array of real numbers"):
        prob_argmax([0.0, 1.0j], 1.0)
