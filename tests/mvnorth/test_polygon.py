"""Polygons: many coordinates that depend on two variables."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import owens_t
from support.polytopes import polygon_by_mpmath, polygons_by_owen

import mvnorth
from mvnorth import polytope, polytope_grad
from mvnorth._covariance.dense import Dense
from mvnorth._problem import Problems, Request, Tolerance
from mvnorth._solve import solve

PLANE = np.eye(2)


@pytest.fixture
def rng():
    return np.random.default_rng(20261118)


@pytest.mark.parametrize("sides", [3, 4, 7, 100])
@pytest.mark.parametrize("radius", [1e-3, 0.3, 1.0, 4.0])
def test_regular_polygons_are_sums_of_owens_t(sides, radius):
    angle = 2.0 * np.pi * (np.arange(sides) + 0.3) / sides
    A = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    result = polytope(A, radius, 0.0, PLANE, rtol=1e-12)
    inside = 1.0 / sides - 2.0 * owens_t(radius, np.tan(np.pi / sides))
    assert result.method == ("polygon" if sides != 4 else "closed_form")  # a box, turned
    assert abs(result.prob - sides * inside) <= 4e-16 * sides + result.error
    assert result.rel_error < 1e-12


def test_many_sides_are_a_disc():
    gaps = []
    for sides in (10, 100, 1000):
        angle = 2.0 * np.pi * np.arange(sides) / sides
        A = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        gaps.append(polytope(A, 1.5, 0.0, PLANE).prob + np.expm1(-0.5 * 1.5**2))
    assert np.all(np.diff(np.log10(gaps)) < -1.9)
    assert gaps[-1] < 3e-6


def random_polygon(rng, distance, size):
    sides = rng.integers(3, 9)
    A = rng.normal(size=(sides, 2))
    centre = rng.normal(size=2)
    centre *= distance / np.linalg.norm(centre)
    return A, A @ centre + size * np.linalg.norm(A, axis=1) * rng.uniform(0.2, 1.0, sides)


@pytest.mark.parametrize(
    ("distance", "size"), [(0.0, 1.0), (1.0, 0.02), (4.0, 1.0), (15.0, 3.0), (30.0, 0.1)]
)
def test_the_tails_keep_their_relative_accuracy(rng, distance, size):
    A, b = random_polygon(rng, distance, size)
    A = np.concatenate([A, [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
    b = np.concatenate([b, np.full(4, 38.0)])
    truth = polygon_by_mpmath(A, b)
    result = polytope(A, b, 0.0, PLANE, rtol=1e-9)
    off = abs(np.expm1(result.log_prob - truth))
    assert off <= result.rel_error + 4e-15 * (1.0 + abs(truth))
    assert result.rel_error < 1e-10


def test_errors_hold_for_hundreds_of_polygons(rng):
    outside = 0
    for _ in range(300):
        A, b = random_polygon(rng, rng.choice([0.0, 0.5, 2.0]), 10.0 ** rng.uniform(-2.0, 0.7))
        truth = float(polygons_by_owen(A, b[None])[0])
        result = polytope(A, b, 0.0, PLANE)
        outside += abs(result.prob - truth) > result.error + 4e-15
        assert result.rel_error < 1e-9
    assert outside == 0


def test_a_polygon_in_space_needs_no_points(rng):
    """Five planes through one line at infinity: only two combinations of X matter."""
    A = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 4))
    root = rng.normal(size=(4, 4))
    result = polytope(A, 1.0, 0.0, root @ root.T)
    C = A @ root
    turn = np.linalg.svd(C)[2][:2]
    truth = float(polygons_by_owen(C @ turn.T, np.ones((1, 5)))[0])
    assert result.method == "polygon"
    assert abs(result.prob - truth) < 1e-12


def test_unbounded_polygons(rng):
    quarter = polytope([[-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0]], 0.0, 0.0, PLANE)
    assert abs(quarter.prob - 0.25) < 1e-15
    half = polytope([[1.0, 2.0]], 0.0, 0.0, PLANE)
    assert half.prob == 0.5
    slab = polytope([[1.0, 1.0], [-2.0, -2.0]], [1.0, 2.0], 0.0, 0.5 * PLANE)
    assert abs(slab.prob - mvnorth.box_prob(-1.0, 1.0, 0.0, [[1.0]])) < 1e-15
    wedge = polytope([[-1.0, 3.0], [-1.0, -2.0], [-1.0, 0.0]], [0.0, 0.0, 5.0], 0.0, PLANE)
    angle = (np.arctan(1.0 / 3.0) + np.arctan(0.5)) / (2.0 * np.pi)
    assert abs(wedge.prob - angle) < 1e-14


@pytest.mark.parametrize("angle", [1e-2, 1e-6, 1e-9])
def test_edges_that_are_almost_parallel(angle):
    """The integrand drops within a layer at the end of its range, narrower than any node."""
    wedge = [[1.0, 0.0], [np.cos(angle), np.sin(angle)]]
    result = polytope(wedge, 0.0, 0.0, PLANE, method="polygon")
    assert abs(result.prob - (np.pi - angle) / (2.0 * np.pi)) <= result.error
    assert result.rel_error < 1e-13


@pytest.mark.parametrize("angle", [1.41, 2.15, 2.89])
def test_a_corner_far_along_an_edge(angle):
    """Two lines that meet at a distance of 1e6: the corner is rounded, the nearest edge is not."""
    x, y = np.cos(angle + np.array([0.0, 2e-6])), np.sin(angle + np.array([0.0, 2e-6]))
    A = np.array([[-x[0], -y[0]], [x[1], y[1]], [y[0], 0.3 - x[0]]])
    b = np.array([-1.3, 6.4, 1.0])
    result = polytope(A, b, 0.0, PLANE)
    square = np.concatenate([np.eye(2), -np.eye(2)])
    truth = polygon_by_mpmath(np.concatenate([A, square]), np.concatenate([b, np.full(4, 38.0)]))
    assert abs(np.expm1(result.log_prob - truth)) <= result.rel_error
    assert result.rel_error < 1e-12


def test_thin_polygons_say_how_rounding_limits_them():
    A = [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.1]]
    for width in (1e-6, 1e-9, 1e-12):
        result = polytope(A, [3.0 + width, -3.0, 1.0, 1.0], 0.0, PLANE)
        # the length of the strip at x + y = 3, times its density and width
        one = polytope(A, [3.0 + 1e-3, -3.0, 1.0, 1.0], 0.0, PLANE).prob / 1e-3
        assert abs(result.prob / width / one - 1.0) <= result.rel_error + 4e-3
        assert result.rel_error > 1e-17 / width


def test_a_corner_that_three_edges_share_has_derivatives(rng):
    A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    b = np.array([1.0, 1.0, 2.0, 1.0, 1.0])  # the third only touches the corner (1, 1)
    cov = np.array([[1.0, 0.3], [0.3, 1.2]])
    whole = polytope_grad(A, b, 0.1, cov, wrt=("A", "b", "mean", "cov"))
    box = polytope_grad(A[[0, 1, 3, 4]], b[[0, 1, 3, 4]], 0.1, cov, wrt=("A", "b", "mean", "cov"))
    assert np.abs(whole.grad_b[[0, 1, 3, 4]] - box.grad_b).max() < 1e-14
    assert np.abs(whole.grad_A[[0, 1, 3, 4]] - box.grad_A).max() < 1e-13
    assert np.abs(whole.grad_cov - box.grad_cov).max() < 1e-13
    assert whole.grad_b[2] < 1e-16
    assert np.abs(whole.grad_A[2]).max() < 1e-14


def edges_by_mpmath(C, h):
    """Return the derivatives of P in h with 40 digits: densities of edges times their lengths."""
    with mp.workdps(40):
        rows, limits = [[mp.mpf(float(x)) for x in row] for row in C], [mp.mpf(x) for x in h]
        out = []
        for k, (a, c) in enumerate(rows):
            norm = mp.hypot(a, c)
            ends = [-mp.inf, mp.inf]
            for j, (x, y) in enumerate(rows):
                along, across = (a * y - c * x) / norm, (a * x + c * y) / norm
                if j != k:
                    t = (limits[j] - across * limits[k] / norm) / along
                    ends = [ends[0], min(ends[1], t)] if along > 0 else [max(ends[0], t), ends[1]]
            inside = mp.ncdf(ends[1]) - mp.ncdf(ends[0]) if ends[0] < ends[1] else 0
            out.append(float(mp.npdf(limits[k] / norm) / norm * inside))
        return np.array(out)


@pytest.mark.parametrize("angle", [1e-3, 1e-6, 1e-9])
def test_derivatives_of_edges_that_are_almost_parallel(angle):
    turns = 0.3 + np.array([0.0, angle, 2.0, 4.0])
    A, b = np.stack([np.cos(turns), np.sin(turns)], axis=1), np.array([0.7, 0.7, 1.0, 1.0])
    b[1] += 0.3 * angle
    found = polytope_grad(A, b, 0.0, PLANE)
    gap = np.abs(found.grad_b - edges_by_mpmath(A, b.tolist()))
    assert (gap <= found.grad_b_error).all()
    assert found.grad_b_error.max() < 1e-14 / angle


def test_a_singular_covariance_has_no_derivative_in_itself():
    factor = np.array([[1.0, 0.2], [0.3, 1.0], [1.0, -1.0], [-1.0, -0.5]])
    covariance = Dense(factor[None], 1e-14, np.ones((1, 4)))
    problems = Problems(np.full((1, 4), -np.inf), np.ones((1, 4)), covariance, np.zeros(1))
    request = Request(Tolerance(1e-4, 0.0), wrt=("upper", "factor", "cov"))
    estimate, labels = solve(problems, request, "auto")
    assert labels[0] == "polygon"
    assert np.isinf(estimate.derivatives.error["cov"]).all()
    for i, j in np.ndindex(4, 2):
        step = np.zeros((4, 2))
        step[i, j] = 1e-5
        ends = [polygons_by_owen(factor + s * step, np.ones((1, 4)))[0] for s in (1, -1)]
        change = (np.log(ends[0]) - np.log(ends[1])) / 2e-5
        assert abs(estimate.derivatives.value["factor"][0, i, j] - change) < 1e-8
