"""Polytopes: Pr(A X <= b)."""

import numpy as np
import pytest
from support.polytopes import product_of_polygons, random_polytope, three_by_slices, whitened

import mvnorth
from mvnorth import Factors, Status, polytope, polytope_logprob, polytope_prob


@pytest.fixture
def rng():
    return np.random.default_rng(20261118)


def monte_carlo(rng, A, b, mean, cov, n=400_000):
    X = rng.multivariate_normal(mean, cov, size=n, method="cholesky")
    hits = (b >= X @ A.T).all(axis=1).mean()
    return hits, np.sqrt(max(hits * (1.0 - hits), 1.0 / n) / n)


@pytest.mark.parametrize("d", [2, 3, 4, 6, 10])
def test_monte_carlo_agrees(rng, d):
    for r in (1, d, 2 * d, 40 if d < 10 else 30):
        A, b, mean, cov = random_polytope(rng, d, r, depth=2.5)
        result = polytope(A, b, mean, cov, rtol=1e-3)
        hits, spread = monte_carlo(rng, A, b, mean, cov)
        assert abs(result.prob - hits) <= 4.5 * spread + result.error


def count_outside(rng, trials, n):
    outside = 0
    for trial in range(trials):
        A, b, mean, cov = random_polytope(rng, 3, rng.integers(4, 13))
        truth = three_by_slices(*whitened(A, b, mean, cov))
        result = polytope(A, b, mean, cov, n, seed=trial)
        assert result.method == "tilting"
        outside += abs(result.prob - truth) > result.error + 1e-10
    return outside


def test_errors_hold_in_three_dimensions(rng):
    assert count_outside(rng, 60, None) <= 2
    assert count_outside(rng, 40, 500) <= 2


@pytest.mark.parametrize("n", [500, 5000])
def test_errors_hold_for_products_of_polygons(rng, n):
    outside, claimed = 0, []
    for trial in range(60):
        A, b, prob = product_of_polygons(rng, 2 + trial % 2)
        result = polytope(A, b, 0.0, np.eye(A.shape[1]), n, seed=trial)
        outside += abs(result.prob - prob) > result.error + 1e-13
        claimed.append(result.rel_error)
    assert outside <= 2
    assert np.median(claimed) < 25.0 / n


@pytest.mark.slow
def test_errors_hold_in_99_percent(rng):
    assert count_outside(rng, 400, None) <= 9
    assert count_outside(rng, 400, 1000) <= 9


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_box_is_computed_as_that_box(rng, d):
    root = rng.normal(size=(d, d)) + np.eye(d)
    cov, mean = root @ root.T, rng.normal(size=d)
    lower, upper = mean - rng.uniform(0.2, 2.0, d), mean + rng.uniform(0.2, 2.0, d)
    A, b = np.concatenate([np.eye(d), -np.eye(d)]), np.concatenate([upper, -lower])
    box = mvnorth.box(lower, upper, mean, cov)
    assert polytope_prob(A, b, mean, cov) == box.prob
    order, scale = rng.permutation(2 * d), np.exp(rng.normal(size=2 * d))
    again = polytope(scale[:, None] * A[order], scale * b[order], mean, cov)
    assert abs(again.prob - box.prob) < 1e-14
    orthant = mvnorth.orthant_prob(mean, np.linalg.cholesky(cov))
    assert abs(polytope_prob(-np.eye(d), 0.0, mean, cov) - orthant) < 1e-14 + 2e-4 * (d > 3)


def test_common_factors_are_kept_for_rows_of_one_entry(rng):
    cov = Factors(0.5, rng.normal(size=(12, 2)))
    A, b = np.concatenate([2.0 * np.eye(12), -np.eye(12)]), np.repeat([3.0, 5.0], 12)
    result = polytope(A, b, 0.0, cov, rtol=1e-9)
    assert result.method == "factors"
    assert result.prob == mvnorth.box_prob(-5.0, 1.5, 0.0, cov, rtol=1e-9)
    mixed = rng.normal(size=(3, 12))
    dense = mvnorth.box_prob(-np.inf, 1.0, 0.0, mixed @ cov.dense() @ mixed.T)
    assert abs(polytope_prob(mixed, 1.0, 0.0, cov) - dense) < 1e-13


def test_rows_may_be_scaled_permuted_and_repeated(rng):
    A, b, mean, cov = random_polytope(rng, 3, 7)
    plain = polytope(A, b, mean, cov)
    scale, order = np.exp(3.0 * rng.normal(size=7)), rng.permutation(7)
    other = polytope((scale[:, None] * A)[order], (scale * b)[order], mean, cov)
    assert abs(other.prob - plain.prob) <= other.error + plain.error
    repeated = polytope(np.concatenate([A, 3.0 * A]), np.concatenate([b, 3.0 * b + 1.0]), mean, cov)
    assert repeated.prob == plain.prob
    more = np.concatenate([A, np.zeros((2, 3)), A[:1]])
    loose = polytope(more, np.concatenate([b, [0.0, 2.0], [np.inf]]), mean, cov)
    assert loose.prob == plain.prob


def test_redundant_rows_change_nothing(rng):
    A, b, mean, cov = random_polytope(rng, 4, 8)
    plain = polytope(A, b, mean, cov)
    weights = rng.uniform(size=(5, 8))
    more = polytope(np.concatenate([A, weights @ A]), np.concatenate([b, weights @ b]), mean, cov)
    assert abs(more.prob - plain.prob) <= more.error + plain.error


def test_extreme_units(rng):
    A, b, _, _ = random_polytope(rng, 3, 6)
    plain = polytope_prob(A, b, 0.0, np.eye(3))
    for unit in (1e140, 1e-140):
        assert abs(polytope_prob(unit * A, unit * b, 0.0, np.eye(3)) - plain) < 1e-4
    assert polytope_prob(A, b + 1.0, 0.0, np.zeros((3, 3))) == float((b >= -1.0).all())
    assert polytope(np.zeros((0, 4, 3)), 1.0, 0.0, np.eye(3)).prob.shape == (0,)


def test_units_of_x_do_not_matter(rng):
    A, b, mean, cov = random_polytope(rng, 3, 6)
    unit = np.array([1e-8, 1.0, 1e7])
    plain = polytope(A, b, mean, cov)
    other = polytope(A / unit, b, mean * unit, cov * np.outer(unit, unit))
    assert abs(other.prob - plain.prob) <= other.error + plain.error


EYE = np.eye(2)


def test_rows_of_zeros_are_decided_by_b():
    half = [1.0, 0.0]
    assert polytope_prob([[0.0, 0.0], half], [0.0, 0.0], 0.0, EYE) == 0.5
    assert polytope_prob([[0.0, 0.0], half], [1.0, 0.0], 0.0, EYE) == 0.5
    never = polytope([[0.0, 0.0], half], [-1e-300, 0.0], 0.0, EYE)
    assert (never.prob, never.error, never.log_prob) == (0.0, 0.0, -np.inf)
    assert polytope_prob([[0.0, 0.0]], [1.0], 0.0, EYE) == 1.0
    assert polytope_prob([[0.0, 0.0]], [-1.0], 0.0, EYE) == 0.0
    assert polytope_prob([half, half], [np.inf, np.inf], 0.0, EYE) == 1.0
    assert polytope_prob([half, [1.0, 1.0]], [-np.inf, 1.0], 0.0, EYE) == 0.0


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_empty_polytopes_are_zero_with_certainty(rng, d):
    simplex = np.concatenate([-np.eye(d), np.ones((1, d))])
    root = rng.normal(size=(d, d)) + 2.0 * np.eye(d)
    for b, empty in (([0.0] * d + [-0.1], True), ([0.0] * d + [0.1], False)):
        result = polytope(simplex, b, 0.3, root @ root.T)
        assert (result.prob == 0.0) == empty
        assert result.error <= 0.05 * result.prob
        assert result.status == Status.CONVERGED or d > 3
    row = np.arange(1.0, d + 1)
    slab = polytope([row, -row], [1.0, -1.0], 0.0, np.eye(d))
    assert slab.prob == 0.0
    assert slab.error == 0.0


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 1e-8])
def test_small_contradictions_are_certain(rng, gap):
    A = rng.normal(size=(4, 4))
    weights, b = rng.uniform(0.2, 1.0, 4), rng.normal(size=4)
    A, b = np.concatenate([A, [-weights @ A]]), np.append(b, -weights @ b - gap)
    empty = polytope(A, b, 0.0, np.eye(4))
    assert (empty.prob, empty.error) == (0.0, 0.0)
    assert polytope(A, b + 2.0, 0.0, np.eye(4)).prob > 0.0
    # a wedge of angle 1e-3, with its tip 500 deviations away, is not empty
    wedge = [[-1.0, 0.0, 0.0], [1.0, 1e-3, 0.0], [0.0, 0.0, -1.0], [0.0, 0.3, -1.0]]
    assert polytope_logprob(wedge, [-1.0, 0.5, 0.0, 0.0], 0.0, np.eye(3)) > -2e5


def test_a_point_is_zero_up_to_rounding():
    result = polytope([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], 0.0, 0.0, EYE, atol=1e-20)
    assert result.prob < 1e-28
    assert result.status == Status.CONVERGED


def test_the_tails(rng):
    """A simplex far out, against a product that is known, and relative to log P = -100 and less."""
    root = np.linalg.cholesky(0.4 * np.eye(3) + 0.6)
    inverse = np.linalg.inv(root)  # X = root y: rows of the inverse give independent coordinates
    A = -np.concatenate([inverse, [[0.0, 0.0, 0.0]], 2.0 * inverse[:1]])
    b = np.array([-7.0, -8.0, -9.0, 1.0, -10.0])
    result = polytope(A, b, 0.0, root @ root.T)
    exact = mvnorth.special.log_ndtr(np.array([-7.0, -8.0, -9.0])).sum()
    assert abs(result.log_prob - exact) < 1e-9
    # x >= 7 in a corner that x + y + z >= 25 cuts off
    A = -np.concatenate([np.eye(3), np.ones((1, 3))])
    found = polytope(A, [-7.0, -7.0, -7.0, -25.0], 0.0, np.eye(3), rtol=1e-5)
    assert found.log_prob < -100.0
    assert found.rel_error < 2e-5
    grid, width = np.linspace(7.0, 16.0, 3001, retstep=True)
    tail = mvnorth.special.log_ndtr(-np.maximum(7.0, 25.0 - grid[:, None] - grid))
    log = tail - 0.5 * (grid[:, None] ** 2 + grid**2) - np.log(2.0 * np.pi)
    half = np.where((grid == 7.0) | (grid == 16.0), 0.5, 1.0)
    top = log.max()
    truth = top + np.log(half @ np.exp(log - top) @ half * width**2)
    assert abs(found.log_prob - truth) < 2e-5 + 1e-5


def test_batches_broadcast(rng):
    A = rng.normal(size=(4, 1, 6, 3))
    A[1, 0, 5] = -2.0 * A[1, 0, 0]  # fewer coordinates than the others
    A[2] = np.concatenate([np.eye(3), -np.eye(3)])  # a box
    b, mean = rng.uniform(0.5, 2.0, size=(5, 6)), 0.1 * rng.normal(size=(5, 3))
    cov = np.eye(3) + np.linspace(0.0, 1.0, 5)[:, None, None]
    whole = polytope(A, b, mean, cov)
    assert whole.prob.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        alone = polytope(A[i, 0], b[j], mean[j], cov[j])
        assert whole.prob[i, j] == alone.prob
        assert whole.method[i, j] == alone.method
    many = polytope(A[0, 0], b, mean, cov, df=np.array([[3.0], [np.inf]]), rtol=1e-3)
    assert many.prob.shape == (2, 5)
    assert np.abs(many.prob[1] - whole.prob[0]).max() < 2e-3
    factors = Factors(np.ones((5, 3)), rng.normal(size=(5, 3, 2)))
    some = polytope(A[2, 0], b, mean, factors)
    assert some.prob[3] == polytope_prob(A[2, 0], b[3], mean[3], Factors(1.0, factors.V[3]))


def test_complements_and_student(rng):
    A, b, mean, cov = random_polytope(rng, 2, 5)
    plain = polytope(A, b, mean, cov)
    other = polytope(A, b, mean, cov, complement=True, rtol=1e-6)
    assert abs(plain.prob + other.prob - 1.0) <= plain.error + other.error + 1e-15
    far = polytope(A, b + 12.0 * np.linalg.norm(A @ np.linalg.cholesky(cov), axis=1), mean, cov,
                   complement=True)  # fmt: skip
    assert 0.0 < far.prob < 1e-20
    assert far.rel_error <= 1e-4
    t = polytope(A, b, mean, cov, df=4.0)
    rows = rng.standard_normal((400_000, 2)) @ np.linalg.cholesky(cov).T
    X = mean + rows / np.sqrt(rng.chisquare(4.0, size=(400_000, 1)) / 4.0)
    hits = (b >= X @ A.T).all(axis=1).mean()
    assert abs(t.prob - hits) < 4.5 * np.sqrt(hits * (1.0 - hits) / 400_000)


def test_singular_covariances(rng):
    B = rng.normal(size=(4, 2))
    A = rng.normal(size=(6, 4))
    result = polytope(A, 1.0, 0.0, B @ B.T)
    y = rng.standard_normal((400_000, 2))
    hits = (y @ (A @ B).T <= 1.0).all(axis=1).mean()
    assert abs(result.prob - hits) < 4.5 * np.sqrt(hits / 400_000)
    assert result.rel_error < 1e-6
    # a combination without variance is decided by its mean
    null = np.linalg.svd(B.T)[2][-1]
    for limit, prob in ((2.5, 1.0), (1.5, 0.0)):
        assert polytope_prob([null], [limit], 2.0 * null, B @ B.T) == prob


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0], 0.0, EYE), "A must have shape .* single inequality"),
        (([[1.0, 2.0]], [1.0, 2.0], 0.0, EYE), "b must have shape .* 1 rows of A"),
        (([[1.0, 2.0]], [1.0], 0.0, np.eye(3)), "cov must be for 2 coordinates"),
        (([[1.0, np.nan]], [1.0], 0.0, EYE), "A must not contain NaN"),
        (([[1.0, np.inf]], [1.0], 0.0, EYE), "A must be finite"),
        (([[1.0, 2.0]], [np.nan], 0.0, EYE), "b must not contain NaN"),
        (([[1.0, 2.0]], [1.0], [0.0] * 3, EYE), "mean must have shape"),
        (([[1.0, 2.0]], [1.0], 0.0, [[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite"),
        ((np.ones((3, 1, 2)), np.ones((4, 1)), 0.0, EYE), r"do not broadcast: A \(3,\), b \(4,\)"),
        (([[1e151, 2.0]], [1.0], 0.0, EYE), "A must not exceed"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        polytope(*arguments)
    with pytest.raises(ValueError, match="df must be > 0"):
        polytope([[1.0, 2.0]], [1.0], 0.0, EYE, df=-1.0)
    with pytest.raises(TypeError, match="A must be an array of real numbers"):
        polytope_logprob([["a", "b"]], [1.0], 0.0, EYE)
