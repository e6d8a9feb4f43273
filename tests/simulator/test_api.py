"""The public functions on a device: as on the CPU, and results where the input lives."""

import types

import numpy as np
import pytest
from numba import cuda

import mvnorth
from mvnorth import OneFactor
from mvnorth._cuda.launch import Queue
from mvnorth._device import Device
from mvnorth._estimate import Estimate
from mvnorth._methods import genz
from mvnorth._problem import Request, Tolerance

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 5))
L = np.linalg.cholesky(A @ A.T / 4 + 0.3 * np.eye(4))
M = RNG.normal(0.5, 1.0, (2, 4))
pytestmark = pytest.mark.slow  # kernels are compared with the CPU by themselves
FEW = 4  # points: the simulator takes some ten milliseconds a thread
COV = OneFactor(RNG.lognormal(size=4), RNG.normal(size=4))


def close(there, here, names, rtol=1e-11):
    for name in names:
        found, expected = getattr(there, name), getattr(here, name)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("method", ["genz", "tilting"])
def test_sampling(method):
    here = mvnorth.orthant(M[0], L, FEW, method=method, seed=3)
    there = mvnorth.orthant(M[0], L, FEW, method=method, seed=3, device="cuda")
    close(there, here, ("log_prob", "log_bound", "n"))
    box = {"n": FEW, "method": method, "seed": 3}
    there = mvnorth.box(-1.0, M + 1.5, 0.1, COV, **box, device="cuda")
    close(there, mvnorth.box(-1.0, M + 1.5, 0.1, COV, **box), ("log_prob", "n"))


def test_errors_and_tolerance():
    """Eight shifts, whose spread is the error."""
    here = mvnorth.orthant(M[0], L, atol=1.0, method="tilting")
    there = mvnorth.orthant(M[0], L, atol=1.0, method="tilting", device="cuda")
    assert there.status == here.status
    close(there, here, ("log_prob", "n"))
    close(there, here, ("rel_error",), 1e-6)


def test_few_coordinates_are_not_sampled():
    """A variable more than the closed forms have."""
    here = mvnorth.orthant(M[0], L, rtol=1e-2)
    there = mvnorth.orthant(M[0], L, rtol=1e-2, device="cuda")
    assert there.method == here.method == "gauss"
    assert there.status == here.status
    close(there, here, ("log_prob", "n"))
    close(there, here, ("rel_error",), 1e-6)


def test_single_precision_counts_its_rounding():
    m, factor = M.astype(np.float32), L.astype(np.float32)
    there = mvnorth.orthant(m[0], factor, FEW, method="genz", device="cuda")
    here = mvnorth.orthant(m[0], factor, FEW, method="genz")
    assert 0.0 < abs(there.log_prob - here.log_prob) < 1e-6
    stored = genz.storage_rounding(
        Estimate.exact(np.array([-1.0]), np.zeros(1), np.ones(1)),
        4,
        Request(Tolerance(0.0, 0.0), 4, 4, device=Device(0, np.dtype(np.float32))),
    )
    assert stored[0] > 1e-6


@pytest.mark.parametrize("method", ["pathwise", "tilting"])
def test_derivatives(method):
    options = {"n": FEW, "wrt": ("m", "L", "cov"), "method": method, "log": True}
    here = mvnorth.orthant_grad(M[0], L, **options)
    there = mvnorth.orthant_grad(M[0], L, **options, device="cuda")
    close(there, here, ("log_prob", "grad_m", "grad_L", "grad_cov"), 1e-10)


def test_structured_derivatives():
    options = {"n": FEW, "wrt": ("m", "c", "v"), "method": "pathwise", "log": True}
    here = mvnorth.orthant_grad(M, COV, **options)
    there = mvnorth.orthant_grad(M, COV, **options, device="cuda")
    close(there, here, ("log_prob", "grad_m", "grad_c", "grad_v"), 1e-10)


def test_common_factor():
    here = mvnorth.orthant_grad(M, COV, wrt=("m", "c", "v"))
    there = mvnorth.orthant_grad(M, COV, wrt=("m", "c", "v"), device="cuda")
    assert (there.method == "quadrature").all()
    close(there, here, ("prob", "grad_m", "grad_c", "grad_v", "n"), 1e-12)
    close(mvnorth.orthant(M, COV, device="cuda"), mvnorth.orthant(M, COV), ("prob", "error"), 1e-3)
    single = mvnorth.orthant(M.astype(np.float32), COV, device="cuda")
    assert single.prob.dtype == np.float32
    np.testing.assert_allclose(single.prob, here.prob, rtol=1e-6)


def test_who_wins():
    expected = mvnorth.prob_argmax(M, 1.3)
    np.testing.assert_allclose(mvnorth.prob_argmax(M, 1.3, device="cuda"), expected, atol=1e-14)


class TestResident:
    """Arrays on the device, as numba's simulator has them."""

    def test_common_factor(self):
        m = cuda.to_device(M)
        found = mvnorth.orthant(m, COV)
        expected = mvnorth.orthant(M, COV)
        for name in ("prob", "log_prob", "error", "rel_error", "n", "status"):
            assert hasattr(getattr(found, name), "copy_to_host"), name
        np.testing.assert_allclose(found.prob.copy_to_host(), expected.prob, rtol=1e-13)
        np.testing.assert_array_equal(found.status.copy_to_host(), expected.status)
        assert repr(found) == "2 probabilities on a device by quadrature"
        prob = mvnorth.orthant_prob(m, COV)
        np.testing.assert_array_equal(prob.copy_to_host(), found.prob.copy_to_host())

    @pytest.mark.parametrize("log", [False, True])
    def test_derivatives_with_a_common_factor(self, log):
        wrt = ("m", "c", "v")
        c, v = (np.tile(a, (2, 1)) * [[1.0], [1.5]] for a in (COV.c, COV.v))
        there = OneFactor(cuda.to_device(c), cuda.to_device(v))
        found = mvnorth.orthant_grad(cuda.to_device(M), there, wrt=wrt, log=log)
        expected = mvnorth.orthant_grad(M, OneFactor(c, v), wrt=wrt, log=log)
        assert found.log is log
        for name in wrt:
            grad = getattr(found, f"grad_{name}").copy_to_host()
            np.testing.assert_allclose(grad, getattr(expected, f"grad_{name}"), rtol=1e-11)
            error = getattr(found, f"grad_{name}_error").copy_to_host()
            assert (error > 0.0).all()
            assert (error < 1e-9).all()

    def test_tolerance_and_points_decide_the_status(self):
        m = cuda.to_device(M)
        assert (mvnorth.orthant(m, COV, 100).status.copy_to_host() == mvnorth.Status.FIXED).all()
        strict = mvnorth.orthant(m, COV, rtol=1e-20)
        assert (strict.status.copy_to_host() == mvnorth.Status.LIMIT).all()
        absolute = mvnorth.orthant(m, COV, atol=1e-10)
        assert (absolute.status.copy_to_host() == mvnorth.Status.CONVERGED).all()

    def test_who_wins(self):
        mu = cuda.to_device(M.reshape(2, 1, 4))
        for sigma in (1.3, np.full(4, 1.3), cuda.to_device(np.full((2, 1, 1), 1.3))):
            found = mvnorth.prob_argmax(mu, sigma)
            assert found.shape == (2, 1, 4)
            expected = mvnorth.prob_argmax(M, 1.3).reshape(2, 1, 4)
            np.testing.assert_allclose(found.copy_to_host(), expected, atol=1e-14)

    def test_what_is_sampled_comes_back(self):
        found = mvnorth.orthant(cuda.to_device(M), cuda.to_device(L), FEW, method="genz")
        expected = mvnorth.orthant(M, L, FEW, method="genz")
        np.testing.assert_allclose(found.prob.copy_to_host(), expected.prob, rtol=1e-11)
        assert (found.method == "genz").all()
        logs = mvnorth.box_logprob(-1.0, 1.0, cuda.to_device(np.zeros(2)), np.eye(2))
        assert logs.shape == ()
        expected = mvnorth.box_logprob(-1.0, 1.0, 0.0, np.eye(2))
        np.testing.assert_allclose(logs.copy_to_host(), expected)
        assert mvnorth.box(-1.0, 1.0, cuda.to_device(np.zeros(2)), np.eye(2)).status.dtype == "i1"

    def test_wrong_input(self):
        m = cuda.to_device(M)
        with pytest.raises(ValueError, match="m and L differ in dimension"):
            mvnorth.orthant(m, OneFactor.exact(3))
        with pytest.raises(TypeError, match="m on a device must be float64 or float32, got int64"):
            mvnorth.orthant(cuda.to_device(np.zeros((2, 4), np.int64)), COV)
        with pytest.raises(ValueError, match="m on a device must be contiguous"):
            mvnorth.orthant(cuda.to_device(np.zeros((4, 2))).T, COV)
        three = cuda.to_device(np.ones((3, 4)))
        with pytest.raises(ValueError, match=r"c has shape \(3, 4\); to go with \(2, 4\)"):
            mvnorth.orthant(m, OneFactor(three, three))
        with pytest.raises(ValueError, match="lives on a GPU"):
            mvnorth.prob_argmax(m, 1.0, device="cpu")
        with pytest.raises(ValueError, match="wrt must name some of"):
            mvnorth.orthant_grad(m, COV, wrt=("L",))
        with pytest.raises(TypeError, match="seed must be a whole number"):
            mvnorth.orthant(m, COV, seed=0.5)
        with pytest.raises(ValueError, match="sigma must be >= 0"):
            mvnorth.prob_argmax(m, -1.0)

    def test_shapes_are_those_of_the_cpu(self):
        """Of m, and of what it broadcasts with."""
        row = np.ones((1, 4))
        for m, cov in (
            (M[0], COV),
            (M[0], OneFactor(row, row)),
            (M[None], OneFactor(row, row)),
            (np.empty((0, 4)), COV),
            (np.empty((2, 0, 4)), COV),
        ):
            found = mvnorth.orthant_grad(cuda.to_device(m), cov)
            expected = mvnorth.orthant_grad(m, cov)
            for name in ("prob", "status", "n", "grad_m", "grad_m_error"):
                assert getattr(found, name).shape == np.shape(getattr(expected, name)), name
        one = mvnorth.orthant_grad(cuda.to_device(M[0]), COV)
        assert repr(one).startswith("a probability on a device by quadrature")
        for sigma in (1.0, row):
            found = mvnorth.prob_argmax(cuda.to_device(M[0]), sigma)
            assert found.shape == mvnorth.prob_argmax(M[0], sigma).shape

    def test_half_on_the_host(self):
        there = OneFactor(cuda.to_device(COV.c), COV.v)
        found = mvnorth.orthant(M.astype(np.float32), there)
        assert found.prob.dtype == np.float32
        np.testing.assert_allclose(found.prob.copy_to_host(), mvnorth.orthant(M, COV).prob, 1e-6)
        with pytest.raises(ValueError, match="m must not contain NaN"):
            mvnorth.orthant(np.full(4, np.nan), there)
        with pytest.raises(TypeError, match="m must be an array of real numbers"):
            mvnorth.orthant(["many"], there)

    def test_the_callers_stream_from_first_to_last(self, monkeypatch):
        """A stand-in for a stream, since the simulator has none: of kernels, copies and results."""
        stream, used = cuda.stream(), []
        m = cuda.to_device(M)
        m.__cuda_array_interface__ = {"stream": 77}
        run, copy = Queue.run, cuda.to_device

        def running(queue, *arguments):
            used.append(queue.stream)
            run(queue, *arguments)

        def copying(a, stream=0):
            used.append(stream)
            return copy(a, stream=stream)

        monkeypatch.setattr(cuda, "external_stream", {77: stream}.__getitem__)
        monkeypatch.setattr(Queue, "run", running)
        monkeypatch.setattr(cuda, "to_device", copying)
        for there in (mvnorth.orthant_prob(m, COV), mvnorth.prob_argmax(m, 1.0)):
            assert there.stream is stream
        mvnorth.orthant(m, COV, FEW, method="genz")
        mvnorth.orthant(m, L, FEW, method="tilting")
        mvnorth.orthant(m, L, FEW, method="gauss")
        mvnorth.orthant_grad(m, L, FEW, method="pathwise")
        mvnorth.orthant_grad(m, COV, FEW, method="pathwise")
        mvnorth.cdf(m, cov=COV)
        assert len(used) > 20
        assert all(each is stream for each in used)

    def test_another_device(self):
        m = cuda.to_device(M)
        m.device = types.SimpleNamespace(index=1)
        with pytest.raises(ValueError, match="lives on CUDA device 1, but the current one is 0"):
            mvnorth.prob_argmax(m, 1.0)

    @pytest.mark.parametrize("log", [False, True])
    def test_errors_cover_what_single_precision_loses(self, log):
        """Derivatives that underflow, and some that do not."""
        m = np.array([[40.0] * 4, [18.0] * 4, [-8.0] * 4, [0.3, -1.0, 2.0, 0.1]], np.float32)
        found = mvnorth.orthant_grad(cuda.to_device(m), COV, wrt=("m", "c", "v"), log=log)
        expected = mvnorth.orthant_grad(m.astype(float), COV, wrt=("m", "c", "v"), log=log)
        for name in ("grad_m", "grad_c", "grad_v"):
            grad = getattr(found, name).copy_to_host().astype(float)
            off = np.abs(grad - getattr(expected, name))
            assert (off <= getattr(found, f"{name}_error").copy_to_host()).all(), name
