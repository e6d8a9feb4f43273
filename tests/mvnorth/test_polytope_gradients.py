"""Derivatives of polytopes in A, b, mean and cov, against differences of independent values."""

import numpy as np
import pytest
from support.polytopes import polygons_by_owen, random_polytope, three_by_slices, whitened

from mvnorth import Factors, box_grad, polytope, polytope_grad

ALL = ("A", "b", "mean", "cov")


@pytest.fixture
def rng():
    return np.random.default_rng(251118)


def value_in_the_plane(A, b, mean, cov):
    C, h = whitened(A, b, mean, cov)
    return float(polygons_by_owen(C, h[None])[0])


def value_in_space(A, b, mean, cov):
    return three_by_slices(*whitened(A, b, mean, cov))


def differences(value, arguments, name, step):
    """Return central differences of fourth order in one argument."""
    place = ALL.index(name)
    array = arguments[place]
    out = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        moved = np.zeros(array.shape)
        moved[index] += 0.5
        moved[index[::-1] if name == "cov" else index] += 0.5

        def at(by, moved=moved):
            changed = list(arguments)
            changed[place] = array + by * moved
            return value(*changed)

        near, far = (at(k * step) - at(-k * step) for k in (1, 2))
        out[index] = (8.0 * near - far) / (12.0 * step)
    return out


def check(found, value, arguments, step, names=ALL, slack=3e-9):
    for name in names:
        truth = differences(value, arguments, name, step)
        got, error = getattr(found, f"grad_{name}"), getattr(found, f"grad_{name}_error")
        assert got.shape == truth.shape == error.shape
        assert (np.abs(got - truth) <= error + slack).all(), name
        assert error.max() < 1e-3 + 0.01 * np.abs(truth).max(), name


@pytest.mark.parametrize("r", [1, 2, 3, 6, 9])
def test_polygons(rng, r):
    arguments = random_polytope(rng, 2, r)
    found = polytope_grad(*arguments, wrt=ALL)
    check(found, value_in_the_plane, arguments, 1e-4)
    assert found.grad_A_error.max() < 1e-9


@pytest.mark.parametrize("r", [2, 3, 4, 7])
def test_in_three_dimensions(rng, r):
    arguments = random_polytope(rng, 3, r)
    found = polytope_grad(*arguments, wrt=ALL, rtol=1e-5)
    check(found, value_in_space, arguments, 3e-3, ("b", "mean", "cov"), slack=1e-7)
    truth = differences(value_in_space, arguments, "A", 3e-3)
    assert (np.abs(found.grad_A - truth) <= found.grad_A_error + 1e-7).all()


@pytest.mark.slow
def test_errors_of_derivatives_hold_in_99_percent(rng):
    outside = count = 0
    for trial in range(40):
        arguments = random_polytope(rng, 3, rng.integers(4, 8))
        found = polytope_grad(*arguments, wrt=ALL, seed=trial)
        for name in ("b", "mean"):
            truth = differences(value_in_space, arguments, name, 3e-3)
            gap = np.abs(getattr(found, f"grad_{name}") - truth)
            outside += np.sum(gap > getattr(found, f"grad_{name}_error") + 1e-7)
            count += gap.size
    assert outside <= 0.015 * count


def test_identities_in_higher_dimension(rng):
    """Moving b is moving the mean, and the unit of a row does not matter."""
    for d, r in ((4, 7), (5, 8)):
        A, b, mean, cov = random_polytope(rng, d, r)
        found = polytope_grad(A, b, mean, cov, wrt=ALL)
        moved = -A.T @ found.grad_b
        assert np.abs(moved - found.grad_mean).max() < 1e-12
        unit = np.sum(A * found.grad_A, axis=1) + b * found.grad_b
        allowed = np.sum(np.abs(A) * found.grad_A_error, axis=1) + np.abs(b) * found.grad_b_error
        assert (np.abs(unit) <= allowed).all()
        # twice the derivative in cov is that of the mean in the mean
        step = 0.05 * np.ones(d)
        ends = [
            polytope_grad(A, b, mean + s * step, cov, wrt=("mean",), rtol=1e-5) for s in (1, -1)
        ]
        change = 0.5 * (ends[0].grad_mean - ends[1].grad_mean)
        size = np.abs(found.grad_cov).max()
        assert np.abs(change - 2.0 * found.grad_cov @ step).max() < 0.01 * size


def test_a_box_has_the_derivatives_of_the_box(rng):
    root = rng.normal(size=(3, 3))
    cov, mean = root @ root.T + np.eye(3), rng.normal(size=3)
    lower, upper = mean - rng.uniform(0.5, 2.0, 3), mean + rng.uniform(0.5, 2.0, 3)
    A, b = np.concatenate([np.eye(3), -np.eye(3)]), np.concatenate([upper, -lower])
    box = box_grad(lower, upper, mean, cov, wrt=("lower", "upper", "mean", "cov"), log=True)
    found = polytope_grad(A, b, mean, cov, wrt=("b", "mean", "cov"), log=True)
    assert np.abs(found.grad_b - np.concatenate([box.grad_upper, -box.grad_lower])).max() < 1e-12
    assert np.abs(found.grad_mean - box.grad_mean).max() < 1e-12
    assert np.abs(found.grad_cov - box.grad_cov).max() < 1e-12
    rows = polytope_grad(A, b, mean, cov, wrt=("A", "b"), log=True)
    assert (np.abs(rows.grad_b - found.grad_b) <= rows.grad_b_error + 1e-12).all()


def test_the_tails_have_relative_derivatives():
    """Pr(x >= 30, y >= 30, x + y >= 80), whose derivatives underflow."""
    A = np.array([[-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0]])
    b = np.array([-30.0, -30.0, -80.0])
    found = polytope_grad(A, b, 0.0, np.eye(2), wrt=("b", "mean"), log=True)
    ends = [polytope(A, b + s * 1e-4 * np.eye(3)[2], 0.0, np.eye(2)).log_prob for s in (1, -1)]
    assert abs(found.grad_b[2] - (ends[0] - ends[1]) / 2e-4) < 1e-4
    assert found.grad_b_error.max() < 1e-8


def test_kinks_and_rows_that_do_not_matter():
    A = np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0],
                  [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 3.0, 0.0]])  # fmt: skip
    found = polytope_grad(A, [1.0, 2.0, 1.0, 3.0, 5.0, 9.0, np.inf], 0.0, np.eye(3), wrt=("A", "b"))
    assert np.isinf(found.grad_b_error[:2]).all()  # the same face twice
    assert np.isinf(found.grad_A_error[:2]).all()
    for row in (4, 5, 6):
        assert not found.grad_b[row]
        assert not found.grad_b_error[row]
        assert not found.grad_A[row].any()
    assert np.isfinite(found.grad_b_error[2:]).all()
    empty = polytope_grad([[1.0], [-1.0]], [-1.0, -1.0], 0.0, [[1.0]])
    assert empty.prob == 0.0
    assert np.isinf(empty.grad_b_error).all()


def test_rows_of_zeros_have_derivatives_unless_they_jump():
    A = np.zeros((2, 3))
    found = polytope_grad(A, [[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0]], 0.0, np.eye(3), wrt=ALL)
    assert found.prob.tolist() == [1.0, 1.0, 0.0]
    for name in ALL:
        assert not getattr(found, f"grad_{name}").any()
        error = getattr(found, f"grad_{name}_error")
        assert not error[0].any()
        assert np.isinf(error[2]).all()
        assert np.isinf(error[1]).any() == (name in ("A", "b"))
    A[1] = 1.0
    found = polytope_grad(A, [0.0, 1.0], 0.0, np.eye(3), wrt=("A", "b"))
    assert np.isinf(found.grad_b_error).tolist() == [True, False]
    assert np.isinf(found.grad_A_error[0]).all()


def test_a_redundant_row_through_an_edge(rng):
    """x + y <= 2 touches an edge of the cube: it has no derivative, and the cube keeps its own."""
    A = np.concatenate([np.eye(3), -np.eye(3), [[1.0, 1.0, 0.0]]])
    b = np.array([1.0] * 6 + [2.0])
    names = ("A", "b", "cov")
    found = polytope_grad(A, b, 0.0, np.eye(3), wrt=names)
    cube = polytope_grad(A[:6], b[:6], 0.0, np.eye(3), wrt=names)
    assert not found.grad_A[6].any()
    assert np.isfinite(found.grad_A_error).all()
    bound = found.grad_A_error[:6] + cube.grad_A_error
    assert (np.abs(found.grad_A[:6] - cube.grad_A) <= bound).all()


def test_two_rows_that_are_almost_one_face_share_it():
    """x <= 1 for y < 0 and x + 1e-9 y <= 1 for y > 0: neither is redundant."""
    A = np.concatenate([np.eye(3), -np.eye(3), [[1.0, 1e-9, 0.0]]])
    found = polytope_grad(A, 1.0, 0.0, np.eye(3), wrt=("A", "b"))
    cube = polytope_grad(A[:6], 1.0, 0.0, np.eye(3))
    for row in (0, 6):
        gap = abs(found.grad_b[row] - 0.5 * cube.grad_b[0])
        assert gap <= found.grad_b_error[row] + 1e-8


def test_batches_and_factors(rng):
    A, b = rng.normal(size=(2, 4, 3)), rng.uniform(0.5, 2.0, size=(3, 1, 4))
    cov = Factors(0.7, rng.normal(size=(3, 1)))
    whole = polytope_grad(A, b, 0.0, cov, wrt=ALL)
    assert whole.grad_A.shape == (3, 2, 4, 3)
    assert whole.grad_cov.shape == (3, 2, 3, 3)
    alone = polytope_grad(A[1], b[2, 0], 0.0, cov.dense(), wrt=ALL)
    for name in ALL:
        gap = getattr(whole, f"grad_{name}")[2, 1] - getattr(alone, f"grad_{name}")
        assert np.abs(gap).max() < 1e-3
    with pytest.raises(ValueError, match="wrt must name some of 'A', 'b', 'mean', 'cov'"):
        polytope_grad(A, b, 0.0, cov, wrt=("c",))
    with pytest.raises(ValueError, match="differentiates in 'b' and 'mean' only"):
        polytope_grad(A, b, 0.0, cov, wrt=("A",), method="pinned")
