"""Where kernels run, as far as it can be told without a GPU: choice, messages, streams, shapes."""

import contextlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import types
from unittest import mock

import numpy as np
import pytest

import mvnorth
from mvnorth import Factors, OneFactor, _checks, _device
from mvnorth._resident import follows_input

FACTOR = np.linalg.cholesky(np.eye(4) + np.diag(np.full(3, 0.3), 1) + np.diag(np.full(3, 0.3), -1))
CALLS = {
    "orthant": lambda device: mvnorth.orthant(np.zeros(4), FACTOR, device=device),
    "orthant_prob": lambda device: mvnorth.orthant_prob(np.zeros(4), FACTOR, device=device),
    "orthant_logprob": lambda device: mvnorth.orthant_logprob(np.zeros(4), FACTOR, device=device),
    "box": lambda device: mvnorth.box(-1.0, 1.0, 0.0, np.eye(4), device=device),
    "box_prob": lambda device: mvnorth.box_prob(-1.0, 1.0, 0.0, np.eye(4), device=device),
    "box_logprob": lambda device: mvnorth.box_logprob(-1.0, 1.0, 0.0, np.eye(4), device=device),
    "cdf": lambda device: mvnorth.cdf(np.zeros(4), device=device),
    "logcdf": lambda device: mvnorth.logcdf(np.zeros(4), device=device),
    "orthant_grad": lambda device: mvnorth.orthant_grad(np.zeros(4), FACTOR, device=device),
    "box_grad": lambda device: mvnorth.box_grad(-1.0, 1.0, 0.0, np.eye(4), device=device),
    "cdf_grad": lambda device: mvnorth.cdf_grad(np.zeros(4), device=device),
    "prob_argmax": lambda device: mvnorth.prob_argmax(np.zeros(4), 1.0, device=device),
}


class OnDevice:
    """What says that it lives on a GPU."""

    def __init__(self, shape=(2, 4), typestr="<f8", **interface):
        self.shape = shape
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (0, False), "version": 3, **interface
        }  # fmt: skip


@pytest.fixture
def there_is(monkeypatch):
    """``there_is(info)`` is what device_info says, as if it had not been asked before."""

    def say(info):
        looked = mock.Mock(return_value=info)
        monkeypatch.setattr(_device, "device_info", looked)
        _device.require.cache_clear()
        return looked

    yield say
    _device.require.cache_clear()


@pytest.fixture
def no_device(there_is):
    there_is(_device.DeviceInfo(False, "nothing is installed; install it"))


@contextlib.contextmanager
def installed(cuda):
    """A stand-in for numba.cuda."""
    with (
        mock.patch.object(importlib.util, "find_spec", return_value=True),
        mock.patch.object(importlib.metadata, "version", return_value="0.1"),
        mock.patch.dict(sys.modules, {"numba.cuda": cuda}),
        mock.patch("numba.cuda", cuda, create=True),
    ):
        yield


def test_importing_touches_no_cuda():
    program = (
        "import sys; before = {*sys.modules}; import mvnorth; "
        "assert not [m for m in {*sys.modules} - before if 'cuda' in m]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", CALLS)
def test_every_function_says_what_is_missing(name, no_device):
    with pytest.raises(RuntimeError, match="'cuda' is not available: nothing is installed"):
        CALLS[name]("cuda")
    for wrong in ("gpu", "cuda:0", np.zeros(2)):
        with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda'"):
            CALLS[name](wrong)


@pytest.mark.parametrize("name", CALLS)
def test_the_cpu_may_be_named(name):
    given, default = CALLS[name]("cpu"), CALLS[name](None)
    if isinstance(given, mvnorth.OrthantResult):
        given, default = given.log_prob, default.log_prob
    np.testing.assert_array_equal(given, default)


def test_missing_package_and_missing_device():
    with mock.patch.object(importlib.util, "find_spec", return_value=None):
        info = mvnorth.device_info()
        assert not info.available
        assert "numba-cuda is not installed" in info.missing
        assert "pip install 'mvnorth[cuda]'" in repr(info)
    cuda = types.SimpleNamespace(is_available=lambda: False, cuda_error=lambda: "no driver\nmore")
    with installed(cuda):
        info = mvnorth.device_info()
        assert info.missing.startswith("no CUDA device was found (no driver); it takes an NVIDIA")
        assert "https://www.nvidia.com/drivers" in info.missing
        assert info.numba_cuda == "0.1"


def test_a_device_is_described():
    device = types.SimpleNamespace(
        name=b"A100", compute_capability=(8, 0), MULTIPROCESSOR_COUNT=108
    )
    memory = types.SimpleNamespace(total=40 * 2**30)
    context = types.SimpleNamespace(get_memory_info=lambda: memory)
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        get_current_device=lambda: device,
        current_context=lambda: context,
    )
    with installed(cuda):
        info = mvnorth.device_info()
        assert info.available
        assert "A100, compute capability 8.0" in repr(info)
        assert "108 multiprocessors, 40.0 GiB" in repr(info)
        cuda.get_current_device = mock.Mock(side_effect=RuntimeError("driver too old"))
        assert "driver too old" in mvnorth.device_info().missing
        cuda.get_current_device = mock.Mock(side_effect=ModuleNotFoundError("No module 'nvvm'"))
        assert "cannot be imported (No module 'nvvm'); pip install" in mvnorth.device_info().missing


def test_a_device_is_looked_for_until_there_is_one(there_is):
    looked = there_is(_device.DeviceInfo(False, "nothing"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="nothing"):
            _device.require()
    assert looked.call_count == 2
    looked.return_value = _device.DeviceInfo(True)
    for _ in range(2):
        _device.require()
    assert looked.call_count == 3


def test_input_on_a_device_asks_for_it(no_device):
    for call in (
        lambda: mvnorth.orthant(OnDevice(), FACTOR),
        lambda: mvnorth.orthant_prob(np.zeros((2, 4)), OneFactor(OnDevice(), OnDevice())),
        lambda: mvnorth.box(OnDevice(), 1.0, 0.0, np.eye(4)),
        lambda: mvnorth.cdf(OnDevice(), cov=np.eye(4)),
        lambda: mvnorth.orthant_grad(m=OnDevice(), L=FACTOR),
        lambda: mvnorth.prob_argmax(OnDevice(), 1.0),
    ):
        with pytest.raises(RuntimeError, match="not available"):
            call()
    with pytest.raises(ValueError, match="lives on a GPU; copy it to the host"):
        mvnorth.orthant(OnDevice(), FACTOR, device="cpu")
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda'"):
        mvnorth.orthant(OnDevice(), FACTOR, device="gpu")


def test_tensors_that_require_gradients_say_so():
    class Tensor:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("requires grad: use var.detach()")  # as torch's do

    with pytest.raises(RuntimeError, match="detach"):
        mvnorth.prob_argmax(Tensor(), 1.0)


def test_arrays_say_on_which_device_they_live():
    def array(**device):
        return types.SimpleNamespace(device=types.SimpleNamespace(**device))

    assert _device.ordinal(array(index=1, type="cuda")) == 1  # torch
    assert _device.ordinal(array(id=2)) == 2  # CuPy
    assert _device.ordinal(types.SimpleNamespace(device="cpu")) is None
    assert _device.ordinal(types.SimpleNamespace()) is None


def test_the_stream_is_the_callers():
    assert _device.stream_of(OnDevice()) == 0
    assert _device.stream_of(OnDevice(stream=None)) == 0
    assert _device.stream_of(OnDevice(stream=1)) == 0  # the default one
    assert _device.stream_of(OnDevice(stream=77)) == 77

    class Tensor(OnDevice):
        device = "cuda:0"

    torch = mock.Mock(Tensor=Tensor)
    torch.cuda.current_stream.return_value.cuda_stream = 99
    with mock.patch.dict(sys.modules, {"torch": torch}):
        assert _device.stream_of(Tensor(stream=77)) == 99
        assert _device.stream_of(OnDevice(stream=77)) == 77
    torch.cuda.current_stream.assert_called_once_with("cuda:0")


def test_one_factor_on_a_device():
    cov = OneFactor(OnDevice((2, 3)), OnDevice((2, 3)))
    assert cov.d == 3
    assert "2x3" in repr(cov)
    for call in (
        cov.dense,
        cov.cholesky,
        lambda: mvnorth.orthant_hessian(np.zeros((2, 3)), cov),
        lambda: mvnorth.sample_box(-1.0, 1.0, 0.0, cov, 1),
    ):
        with pytest.raises(TypeError, match="a OneFactor on the host, but some of it lives"):
            call()
    for c, v in (
        (OnDevice((2, 3)), OnDevice((3,))),
        (OnDevice((3,)), np.ones((2, 3))),
        (OnDevice(()), 1.0),
        (1.0, OnDevice((2, 0))),
    ):
        with pytest.raises(ValueError, match=r"one shape \(..., d\) with d >= 1, got \("):
            OneFactor(c, v)


def test_several_factors_on_a_device():
    cov = Factors(1.0, OnDevice((2, 3, 2)))
    assert (cov.shape, cov.k) == ((2, 3), 2)
    for call in (cov.dense, cov.cholesky, lambda: mvnorth.sample_box(-1.0, 1.0, 0.0, cov, 1)):
        with pytest.raises(TypeError, match="a Factors on the host, but some of it lives"):
            call()
    with pytest.raises(ValueError, match="the shape of V without its last"):
        Factors(OnDevice((3,)), OnDevice((2, 3, 2)))


def test_half_of_one_factor_on_a_device():
    there = OnDevice((2, 3))
    cov = OneFactor([1.0, 2.0, 3.0], there)
    assert cov.v is there
    np.testing.assert_array_equal(cov.c, [[1.0, 2.0, 3.0]] * 2)
    np.testing.assert_array_equal(OneFactor(there, 1.0).v, np.ones((2, 3)))
    with pytest.raises(ValueError, match="c must be > 0, its smallest entry is -1"):
        OneFactor(-1.0, there)


def test_storage_is_single_only_if_all_input_is(there_is):
    there_is(_device.DeviceInfo(True))
    single, double = np.zeros(3, np.float32), np.zeros(3)
    assert _device.choose("cuda", single, single) == _device.Device(0, np.dtype(np.float32))
    assert _device.choose("cuda", 1.0, single, None).dtype == np.float32  # a number is neither
    for given in ((single, double), ([0.0], single), (1.0,), ()):
        assert _device.choose("cuda", *given).dtype == np.float64
    problems, _ = _checks.orthant_problems(single, OneFactor.exact(4))
    assert _checks.device("cuda", problems, single, None).dtype == np.float32
    there = _device.Device(77, np.dtype(np.float64))
    assert _device.choose(there, single) == _device.Device(77, np.dtype(np.float32))


def test_following_keeps_signature_and_documentation():
    @follows_input
    def plain(a, device=None):
        """Said."""
        return a

    assert plain.__doc__ == "Said."
    assert plain(3) == 3
