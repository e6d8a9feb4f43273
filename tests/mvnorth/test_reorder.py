"""Reordering: the rows of T are the rows of the problem, in the order of Gibson et al."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from mvnorth._linalg.reorder import reorder
from mvnorth._linalg.reorder_large import reorder_large

EPS = np.finfo(float).eps
INF = np.inf


both = pytest.mark.parametrize("panels", [False, True], ids=["plain", "panels"])


def _reorder(factor, lower, upper, singular=None, padding=0, panels=False):
    """Output of ``reorder`` or ``reorder_large`` for one problem: T, limits, rank, attached."""
    d = len(lower)
    T = np.full((1, d + padding, d + padding), np.nan)
    low, high = lower[None].copy(), upper[None].copy()
    rank, attached = np.zeros(1, dtype=np.int64), np.zeros((1, d), dtype=np.int64)
    tied = 8 * d * EPS if singular is None else singular
    order, diagonal = np.zeros((1, d), dtype=np.int64), np.zeros((1, d))
    if panels:
        outputs = (T[0], low[0], high[0], attached[0], order[0], diagonal[0])
        rank[0] = reorder_large(factor, tied, *outputs)
    else:
        reorder(
            factor[None].copy(), tied, T, low, high, rank, attached, order, diagonal, True, 0, 1
        )
    _check_origin(factor, upper, T[0], attached[0], order[0], diagonal[0])
    return T[0], low[0], high[0], int(rank[0]), attached[0]


def _check_origin(factor, upper, T, attached, order, diagonal):
    """The rows of T are those of the factor, up to a rotation: products of any two agree."""
    d = len(order)
    assert sorted(order) == list(range(d))
    rows = factor / np.linalg.norm(factor, axis=1)[:, None]
    rows = np.where(upper == INF, -1.0, 1.0)[:, None] * rows
    triangle = T[:d, :d].copy()
    triangle[np.arange(d), attached] = 1.0
    triangle *= diagonal[:, None]
    assert np.allclose(triangle @ triangle.T, (rows @ rows.T)[np.ix_(order, order)], atol=1e-6)


def _check_form(T, rank, attached):
    """T is what ``genz_sums`` reads: strictly below each row's own variable, zero elsewhere."""
    d = len(attached)
    assert 1 <= rank <= d
    assert attached[:rank].tolist() == list(range(rank))
    assert (np.diff(attached[rank:]) >= 0).all()
    assert (attached[rank:] < rank).all()
    for i in range(T.shape[0]):
        last = attached[i] if i < d else 0
        assert (T[i, last:] == 0.0).all()
    assert np.isfinite(T).all()


def _normalised(T, low, high, attached):
    """Rows of unit length, and their limits in units of their deviation."""
    d = len(low)
    rows = T[:d, :d].copy()
    rows[np.arange(d), attached] = 1.0  # left out of T
    length = np.sqrt(np.sum(rows**2, axis=1))
    return rows / length[:, None], low / length, high / length


def _match(low, high, old_low, old_high):
    """(order, sign): row k of the output is sign[k] times row order[k] of the input."""
    order, sign, free = [], [], set(range(len(low)))
    for a, b in zip(low, high, strict=True):
        candidates = [
            (i, s)
            for i in sorted(free)
            for s, c, e in ((1.0, old_low[i], old_high[i]), (-1.0, -old_high[i], -old_low[i]))
            if np.allclose([a, b], [c, e], rtol=1e-12, atol=0.0)
        ]
        assert candidates, f"no row of the input has the limits {a}, {b}"
        order.append(candidates[0][0])
        sign.append(candidates[0][1])
        free.remove(candidates[0][0])
    return np.array(order), np.array(sign)


def _random_limits(rng, deviation):
    """Limits of all kinds, all different: below, above, and on both sides."""
    d = len(deviation)
    kind = rng.integers(3, size=d)
    lower = np.where(kind == 0, -INF, rng.uniform(-2.0, 0.5, size=d)) * deviation
    upper = np.where(kind == 1, INF, rng.uniform(0.6, 2.5, size=d)) * deviation
    return lower, upper


def _assert_same_problem(factor, lower, upper, tolerance=1e-13, padding=0, panels=False):
    """The output describes the same box of the same normal; returns the order of its rows."""
    T, low, high, rank, attached = _reorder(factor, lower, upper, padding=padding, panels=panels)
    _check_form(T, rank, attached)
    assert (high[:rank] < INF).all()  # one-sided rows are turned to have an upper limit
    deviation = np.sqrt(np.sum(factor**2, axis=1))
    unit = factor / deviation[:, None]
    rows, low, high = _normalised(T, low, high, attached)
    order, sign = _match(low, high, lower / deviation, upper / deviation)
    expected = (unit @ unit.T)[np.ix_(order, order)] * np.outer(sign, sign)
    assert np.abs(rows @ rows.T - expected).max() <= tolerance
    return order, rank


@both
@settings(deadline=None, derandomize=True, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 12), padding=st.integers(0, 3))
def test_random_factors(panels, seed, d, padding):
    rng = np.random.default_rng(seed)
    L = np.tril(rng.normal(size=(d, d)))
    np.fill_diagonal(L, rng.uniform(0.3, 1.5, size=d))
    L *= np.exp(rng.normal(0.0, 3.0, size=d))[:, None]
    _, rank = _assert_same_problem(
        L, *_random_limits(rng, np.linalg.norm(L, axis=1)), 1e-13, padding, panels
    )
    assert rank == d


@both
@settings(deadline=None, derandomize=True, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 10), width=st.integers(1, 14))
def test_rectangular_factors(panels, seed, d, width):
    """Fewer columns than rows make it rank-deficient, more do not matter."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, width))
    _, rank = _assert_same_problem(
        A, *_random_limits(rng, np.linalg.norm(A, axis=1)), panels=panels
    )
    assert rank == min(d, width)


@both
@settings(deadline=None, derandomize=True, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(2, 9), rank=st.integers(1, 8))
def test_rank_deficient_square_factors(panels, seed, d, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, min(rank, d))) @ rng.normal(size=(min(rank, d), d))
    _, found = _assert_same_problem(
        A, *_random_limits(rng, np.linalg.norm(A, axis=1)), 1e-12, panels=panels
    )
    assert found == min(rank, d)


def test_copies_and_opposites_are_tied_to_the_same_variable():
    A = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -3.0]])
    lower, upper = np.full(5, -INF), np.array([0.1, 0.4, 0.6, 0.7, 0.9])
    order, rank = _assert_same_problem(A, lower, upper)
    assert rank == 2
    _, _, _, _, attached = _reorder(A, lower, upper)
    groups = [{0, 1, 3}, {2, 4}]
    for variable in (0, 1):
        members = {int(order[k]) for k in range(5) if attached[k] == variable}
        assert members in groups


@both
@pytest.mark.parametrize("tiny", [1e-3, 1e-6, 1e-9, 1e-12])
def test_small_diagonals_keep_their_accuracy(tiny, panels):
    """det of the factor of the correlations: the product of what is left of each deviation."""
    rng = np.random.default_rng(1)
    d = 6
    for _ in range(20):
        L = np.tril(rng.normal(size=(d, d)))
        np.fill_diagonal(L, np.where(np.arange(d) == 3, tiny, 1.0))
        deviation = np.linalg.norm(L, axis=1)
        lower, upper = _random_limits(rng, deviation)
        _, rank = _assert_same_problem(L, lower, upper, panels=panels)
        T, _, _, _, attached = _reorder(L, lower, upper, panels=panels)
        rows, _, _ = _normalised(T, lower, upper, attached)
        assert rank == d
        left = np.sum(np.log(np.abs(np.diag(rows))))
        exact = np.sum(np.log(np.diag(L) / deviation))
        assert math.expm1(abs(left - exact)) <= 100.0 * EPS / tiny


@both
def test_small_diagonals_below_the_threshold_are_ties(panels):
    L = np.array([[1.0, 0.0], [1.0, 1e-6]])
    lower, upper = np.full(2, -INF), np.array([0.0, 1.0])
    assert _reorder(L, lower, upper, singular=1e-7, panels=panels)[3] == 2
    assert _reorder(L, lower, upper, singular=1e-5, panels=panels)[3] == 1


def test_scales_do_not_matter():
    rng = np.random.default_rng(2)
    L = np.linalg.cholesky(np.eye(5) + 0.7)
    lower, upper = _random_limits(rng, np.ones(5))
    one = _reorder(L, lower, upper)
    scale = 2.0 ** np.array([200.0, -300.0, 0.0, 7.0, -1.0])
    other = _reorder(L * scale[:, None], lower * scale, upper * scale)
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)


# ---------------------------------------------------------------- order


def _log_interval(low, high):
    """log(Phi(high) - Phi(low)) for moderate limits."""
    return log_ndtr(high) if low == -INF else np.log(ndtr(high) - ndtr(low))


def _greedy_order(corr, lower, upper):
    """Gibson, Glasbey & Elston (1994) on the covariance itself, by conditional distributions."""
    d = len(lower)
    cov, mean = corr.copy(), np.zeros(d)
    rest, order, gaps = list(range(d)), [], []
    while rest:
        sd = {k: math.sqrt(cov[k, k]) for k in rest}
        logs = {
            k: _log_interval((lower[k] - mean[k]) / sd[k], (upper[k] - mean[k]) / sd[k])
            for k in rest
        }
        ranked = sorted(logs.values())
        gaps.append(ranked[1] - ranked[0] if len(ranked) > 1 else 1.0)
        best = min(rest, key=logs.__getitem__)
        a, b = (lower[best] - mean[best]) / sd[best], (upper[best] - mean[best]) / sd[best]
        phi_a, phi_b = (math.exp(-0.5 * c * c) / math.sqrt(2.0 * math.pi) for c in (a, b))
        truncated = (phi_a - phi_b) / math.exp(logs[best])
        slope = cov[:, best] / sd[best]
        mean = mean + slope * truncated
        cov = cov - np.outer(slope, slope)
        rest.remove(best)
        order.append(best)
    return order, min(gaps)


@both
@settings(deadline=None, derandomize=True, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 8))
def test_smallest_conditional_probability_comes_next(panels, seed, d):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(d, d))
    cov = loadings @ loadings.T + 0.3 * np.eye(d)
    deviation = np.sqrt(np.diag(cov))
    corr = cov / np.outer(deviation, deviation)
    lower, upper = _random_limits(rng, np.ones(d))
    expected, gap = _greedy_order(corr, lower, upper)
    order, _ = _assert_same_problem(
        np.linalg.cholesky(cov), lower * deviation, upper * deviation, panels=panels
    )
    if gap > 1e-9:  # else rounding decides
        assert order.tolist() == expected


def test_smallest_marginal_probability_comes_first():
    rng = np.random.default_rng(3)
    for _ in range(50):
        L = np.linalg.cholesky(np.eye(6) + rng.uniform(0.0, 3.0))
        deviation = np.linalg.norm(L, axis=1)
        lower, upper = _random_limits(rng, deviation)
        order, _ = _assert_same_problem(L, lower, upper)
        assert order[0] == np.argmin(ndtr(upper / deviation) - ndtr(lower / deviation))


@both
def test_order_far_out(panels):
    """Marginal probabilities that underflow are still told apart."""
    upper = np.array([-50.0, -300.0, -40.0, -1e5])
    order, _ = _assert_same_problem(np.eye(4), np.full(4, -INF), upper, panels=panels)
    assert order.tolist() == [3, 1, 0, 2]


def test_rows_of_a_batch_do_not_touch_each_other():
    rng = np.random.default_rng(4)
    factors = np.tril(rng.normal(size=(5, 4, 4))) + np.eye(4)
    limits = [_random_limits(rng, np.linalg.norm(factor, axis=1)) for factor in factors]
    lower, upper = (np.stack(side) for side in zip(*limits, strict=True))
    low, high = lower.copy(), upper.copy()
    T, rank = np.full((5, 4, 4), np.nan), np.zeros(5, dtype=np.int64)
    attached = np.zeros((5, 4), dtype=np.int64)
    origin = (np.zeros_like(attached), np.zeros_like(low))
    reorder(factors, 32 * EPS, T, low, high, rank, attached, *origin, True, 1, 4)
    assert np.isnan(T[[0, 4]]).all()
    assert np.array_equal(low[[0, 4]], lower[[0, 4]])
    for b in (1, 2, 3):
        single = _reorder(factors[b], lower[b], upper[b])
        for a, c in zip((T[b], low[b], high[b], rank[b], attached[b]), single, strict=True):
            assert np.array_equal(a, c)
    before = factors.copy()
    assert (factors == before).all()


def test_a_shared_factor():
    L = np.linalg.cholesky(np.eye(4) + 1.0)
    upper = np.random.default_rng(5).normal(size=(3, 4))
    lower = np.full((3, 4), -INF)
    high, low, T = upper.copy(), lower.copy(), np.empty((3, 4, 4))
    rank, attached = np.zeros(3, dtype=np.int64), np.zeros((3, 4), dtype=np.int64)
    origin = (np.zeros_like(attached), np.zeros_like(low))
    reorder(L[None], 32 * EPS, T, low, high, rank, attached, *origin, True, 0, 3)
    for b in range(3):
        assert np.array_equal(T[b], _reorder(L, lower[b], upper[b])[0])
        assert np.array_equal(high[b], _reorder(L, lower[b], upper[b])[2])


# ---------------------------------------------------------------- panels


def _factors(d):
    """Several panels; of the last two so little is left that rounding decides their order."""
    rng = np.random.default_rng(0)
    distance = np.abs(np.subtract.outer(np.linspace(0.0, 1.0, d), np.linspace(0.0, 1.0, d)))
    loadings = rng.normal(size=(d, 2 * d))
    yield "random", np.linalg.cholesky(loadings @ loadings.T)
    yield "wide", loadings
    yield "low rank", rng.normal(size=(d, d // 2))
    yield "rough", np.linalg.cholesky(np.exp(-distance))
    small = np.tril(rng.normal(size=(d, d)))
    np.fill_diagonal(small, np.where(np.arange(d) % 3 == 0, 1e-9, 1.0))
    yield "small diagonals", small
    values, vectors = np.linalg.eigh(np.exp(-8.0 * distance**2))
    yield "smooth", vectors * np.sqrt(np.maximum(values, 0.0))


FACTORS = dict(_factors(150))


@pytest.mark.parametrize("boxes", [False, True], ids=["orthants", "boxes"])
@pytest.mark.parametrize("name", FACTORS)
def test_panels_agree_with_plain_reordering(name, boxes):
    factor = FACTORS[name]
    rng = np.random.default_rng(boxes)
    d = len(factor)
    deviation = np.linalg.norm(factor, axis=1)
    upper = rng.normal(1.0, 0.5, size=d) * deviation
    lower = upper - rng.uniform(0.5, 3.0, size=d) * deviation if boxes else np.full(d, -INF)
    order, rank = _assert_same_problem(factor, lower, upper, panels=True)
    if name in ("small diagonals", "smooth"):
        return
    expected, expected_rank = _assert_same_problem(factor, lower, upper)
    assert rank == expected_rank
    assert np.array_equal(order, expected)
    T, plain = _reorder(factor, lower, upper, panels=True)[0], _reorder(factor, lower, upper)[0]
    assert np.abs(T - plain).max() <= 1e-8 * np.abs(plain).max()
