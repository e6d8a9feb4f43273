"""``Factors``: what it takes, its matrices, and how it is found in a dense covariance."""

import numpy as np
import pytest

import mvnorth
from mvnorth import Factors, OneFactor
from mvnorth._linalg.find_factors import LEAST, recognise


def test_shapes():
    V = np.random.default_rng(0).normal(size=(2, 5, 3))
    cov = Factors(1.0, V)
    assert (cov.shape, cov.d, cov.k, cov.c.shape) == ((2, 5), 5, 3, (2, 5))
    assert Factors(np.ones(5), V).shape == (2, 5)
    assert Factors(np.ones((3, 1, 5)), V).V.shape == (3, 2, 5, 3)
    assert repr(Factors(1.0, V[0])) == "Factors of shape 5: diag(c) + V V^T, 3 factors"
    V[:] = 0.0
    assert cov.V.any()  # a copy


def test_one_column_is_one_factor():
    v = np.array([0.5, -1.0, 2.0, 0.1])
    for cov in (Factors(0.5, v), Factors(0.5, v[:, None]), OneFactor(0.5, v)):
        assert isinstance(cov, Factors)
        np.testing.assert_array_equal(cov.v, v)
        np.testing.assert_array_equal(cov.V, v[:, None])
        got = mvnorth.orthant_grad(np.ones(4), cov, wrt=("c", "v", "V"))
        assert got.method == "quadrature"
        np.testing.assert_array_equal(got.grad_V, got.grad_v[:, None])
        np.testing.assert_array_equal(got.grad_V_error, got.grad_v_error[:, None])
    with pytest.raises(AttributeError, match="2 common factors"):
        _ = Factors(1.0, np.ones((4, 2))).v


@pytest.mark.parametrize(
    ("c", "V", "message"),
    [
        (1.0, 2.0, r"V must have shape \(\.\.\., d, k\)"),
        (np.ones(3), np.ones((4, 2)), r"V must have shape \(\.\.\., d, k\) where c has"),
        (0.0, np.ones((4, 2)), "c must be > 0"),
        (1.0, np.full((4, 2), np.nan), "V must not contain NaN"),
        (1.0, np.full((4, 2), np.inf), "V must be finite"),
        (1e-300, np.full((4, 2), 1e10), "V / sqrt"),
        (1.0, np.ones((4, 0)), r"V must have shape \(\.\.\., d, k\)"),
    ],
)
def test_wrong_arguments(c, V, message):
    with pytest.raises(ValueError, match=message):
        Factors(c, V)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_cholesky_factor(k):
    rng = np.random.default_rng(k)
    cov = Factors(rng.uniform(0.1, 1.0, (3, 40)), rng.normal(size=(3, 40, k)))
    L = cov.cholesky()
    np.testing.assert_allclose(L.dense(), np.linalg.cholesky(cov.dense()), rtol=1e-10, atol=1e-12)
    assert L.W.shape == (3, 40, k)


def test_cholesky_factor_of_tiny_noise():
    rng = np.random.default_rng(0)
    cov = Factors(1e-6, rng.normal(size=(60, 2)))
    L = cov.cholesky().dense()
    np.testing.assert_allclose(L @ L.T, cov.dense(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("d", [LEAST, 25, 120])
def test_factors_are_found_in_a_matrix(d, k):
    rng = np.random.default_rng(d)
    unit = np.exp(2.0 * rng.normal(size=d))
    cov = Factors(rng.uniform(0.2, 1.0, d) * unit**2, rng.normal(size=(d, k)) * unit[:, None])
    upper = unit * rng.uniform(1.0, 3.0, d)
    found = mvnorth.box_grad(-np.inf, upper, 0.0, cov.dense(), wrt=("upper", "cov"), rtol=1e-9)
    given = mvnorth.box_grad(-np.inf, upper, 0.0, cov, wrt=("upper", "cov"), rtol=1e-9)
    assert found.method == given.method == "factors"
    assert abs(np.expm1(found.log_prob - given.log_prob)) <= found.rel_error + given.rel_error
    assert found.rel_error < 1e-8
    for name in ("grad_upper", "grad_cov"):
        gap = np.abs(getattr(found, name) - getattr(given, name))
        assert (gap <= getattr(found, f"{name}_error") + getattr(given, f"{name}_error")).all()


def test_other_matrices_are_not_taken_for_factors():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(30, 30))
    assert recognise(np.linalg.cholesky(A @ A.T)[None]) is None
    cov = Factors(1.0, rng.normal(size=(30, 2))).dense()
    few = cov[: LEAST - 1, : LEAST - 1]
    assert recognise(np.linalg.cholesky(few)[None]) is None
    cov[20, 25] += 1e-8
    cov[25, 20] += 1e-8
    assert recognise(np.linalg.cholesky(cov)[None]) is None
    both = np.linalg.cholesky(np.stack([cov, Factors(1.0, rng.normal(size=(30, 3))).dense()]))
    assert np.isfinite(recognise(both).error).tolist() == [False, True]
