"""The kernels of ``mvnorth._cuda.one_factor`` against their twins on the CPU.

Both sum the same terms in another order.  log P is known to rounding of its own size; derivatives
to some more, because the mode that integrands are centred at is found to 0.05 widths and only as
near as rounding lets two searches go the same way.  Bounds on errors contain measured errors of the
rule, which are sums that cancel: they agree to the rounding that they contain themselves.
"""

import numpy as np
import pytest

from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._cuda import factor_memory
from mvnorth._cuda.one_factor import one_factor
from mvnorth._methods.one_factor_rule import derivatives
from mvnorth._problem import Problems
from mvnorth._result import as_ratio

INF = np.inf
ALL = ("m", "c", "v")

pytestmark = pytest.mark.usefixtures("quick_turns")


def both(queue, m, c, v, wrt=ALL):
    """Results of the device, and the estimate of the CPU for rows that are numbers."""
    m = np.atleast_2d(m)
    c, v = (np.atleast_2d(a).astype(np.float64) for a in (c, v))
    found = one_factor(queue, queue.put(m), queue.put(c), queue.put(v), wrt)
    rest = m[np.all(m > -INF, axis=1)]
    lower = np.broadcast_to(m.dtype.type(-INF), rest.shape)
    if len(c) != len(v):  # which the twin does not take
        c, v = (np.ascontiguousarray(np.broadcast_to(a, m.shape)) for a in (c, v))
    problems = Problems(lower, rest, OneFactorRows(c, v), np.zeros(len(rest)))
    return {name: queue.get(a) for name, a in found.items()}, derivatives(problems, wrt)


def check(found, expected, dtype):
    double = dtype == np.float64
    value, derivative, error = (2e-14, 1e-12, 0.05) if double else (3e-7, 2e-6, 0.05)
    log_prob = np.maximum(expected.log_prob, np.finfo(dtype).min)
    prob = np.exp(expected.log_prob)
    assert found["log_prob"].dtype == found["prob"].dtype == dtype
    np.testing.assert_allclose(found["log_prob"], log_prob, rtol=value, atol=value)
    np.testing.assert_allclose(found["prob"], prob, rtol=value * np.max(1.0 - log_prob), atol=1e-38)
    np.testing.assert_array_equal(found["n"], expected.n)
    ratio = as_ratio(expected.rel_error)
    np.testing.assert_allclose(np.log1p(found["rel_error"]), np.log1p(ratio), rtol=error)
    absolute = np.where(np.isinf(ratio), 1.0, np.minimum(prob * ratio, 1.0))
    np.testing.assert_allclose(found["error"], absolute, rtol=error)
    for name, grad in expected.derivatives.value.items() if expected.derivatives else ():
        got, bound = found[f"grad_{name}"], found[f"grad_{name}_error"]
        assert got.dtype == dtype
        largest = np.max(np.abs(grad), axis=1, keepdims=True).astype(np.float64)
        # Of derivatives in c whose terms cancel nothing is left but what their bounds allow.
        assert (
            np.abs(got - grad) <= derivative * largest + 0.1 * expected.derivatives.error[name]
        ).all()
        # Storing them in single precision may lose the smallest, which the CPU adds later.
        lost = 0.0 if double else float(np.finfo(dtype).tiny)
        np.testing.assert_allclose(bound, expected.derivatives.error[name], rtol=error, atol=lost)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 2, 9])
def test_one_warp(queue, d, dtype):
    rng = np.random.default_rng(d)
    m = np.concatenate([np.zeros((1, d)), rng.normal(size=(2, d)) * 2.0]).astype(dtype)
    check(*both(queue, m, np.ones(d), np.ones(d)), dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_several_warps_and_parameters_of_their_own(queue, dtype):
    rng = np.random.default_rng(3)
    m = rng.normal(size=(2, 37)).astype(dtype)
    m[1, ::3] = INF
    c, v = rng.uniform(0.2, 2.0, m.shape), rng.normal(size=m.shape)
    check(*both(queue, m, c, v), dtype)
    check(*both(queue, m, c, v[:1]), dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tails(queue, dtype):
    m = np.empty((5, 5), dtype)
    m[0], m[1], m[2], m[3] = -40.0, -1e4, 12.0, [-60.0, -3.0, 2.0, INF, 30.0]
    m[4] = 60.0  # phi/Phi is zero at all of the first nodes
    check(*both(queue, m, np.ones(5), np.ones(5)), dtype)
    m = np.full((1, 32), -1485.0, dtype)  # x is -45 at the mode: products would overflow
    check(*both(queue, m, np.ones(32), np.ones(32)), dtype)


def test_more_nodes(queue):
    """Rows whose sums go on beyond the first nodes, or that want finer steps, or both."""
    m = np.array([[23.3, -11.6], [10.0, 0.9], [-19.7, -2.2], [24.5, 26.8], [34.7, 12.2]])
    c = np.array([[4.02, 0.301], [0.289, 0.477], [8.478, 0.16], [0.072, 2.142], [0.155, 0.158]])
    v = [[-1.36, -2.02], [-1.09, -1.28], [-0.68, 1.55], [0.63, -1.56], [-0.77, -1.65]]
    found, expected = both(queue, m, c, v)
    assert expected.n.tolist() == [40, 65, 97, 161, 257]
    check(found, expected, np.float64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_left_to_the_second_kernel(queue, dtype):
    rng = np.random.default_rng(7)
    m = rng.normal(size=(4, 3)).astype(dtype)
    m[3] = 1e30  # no node tells
    c = np.ones((4, 3))
    c[1, 0], c[2] = 1e-10, 1e-8
    found, expected = both(queue, m, c, np.ones((4, 3)))
    assert expected.n[0] < 100 < expected.n[1]
    check(found, expected, dtype)


def test_what_is_wanted(queue):
    m = np.random.default_rng(2).normal(size=(1, 4))
    c, v = np.array([0.5, 1.0, 1.0, 2.0]), np.array([1.0, -1.0, 0.5, 0.0])
    for wrt in ((), ("m",), ("v",)):
        found, expected = both(queue, m, c, v, wrt)
        assert {name[5:] for name in found if name.startswith("grad_") and len(name) < 7} == set(
            wrt
        )
        check(found, expected, np.float64)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_in_turn_and_special_ones(queue, dtype, monkeypatch):
    """Five rows for two blocks; with NaN all results are NaN, with -inf the probability is 0."""
    monkeypatch.setattr(factor_memory, "_MEMORY", 0)
    m = np.zeros((5, 2), dtype)
    m[1, 0], m[2, 1] = np.nan, -INF
    found, expected = both(queue, m, np.ones(2), np.ones(2))
    ordinary = [0, 3, 4]
    check({name: a[ordinary] for name, a in found.items()}, expected, dtype)
    for name, a in found.items():
        assert name == "n" or np.isnan(a[1]).all()
    assert found["log_prob"][2] == -INF
    assert found["prob"][2] == found["rel_error"][2] == found["error"][2] == 0.0
    for name in ALL:
        assert (found[f"grad_{name}"][2] == 0.0).all()
        assert (found[f"grad_{name}_error"][2] == INF).all()


def test_no_rows(queue):
    found = one_factor(queue, *(queue.put(np.ones((k, 3))) for k in (0, 1, 1)), ALL)
    assert found["prob"].shape == (0,)
    assert found["grad_c"].shape == (0, 3)
