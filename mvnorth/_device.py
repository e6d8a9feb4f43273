"""Choose where kernels run: the CPU, or a CUDA device, which is not used until asked for."""

import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

_INSTALL = "pip install 'mvnorth[cuda]' (CUDA 13), or 'mvnorth[cuda12]'"


@dataclass(frozen=True)
class Device:
    """A CUDA device; None stands for the CPU.

    Attributes
    ----------
    stream : address of the CUDA stream of the caller; 0 is the default one
    dtype : in which samples are stored: single precision where all input is
    """

    stream: int
    dtype: np.dtype


@dataclass(frozen=True)
class DeviceInfo:
    """A CUDA device, or the reason why there is none.

    Attributes
    ----------
    available : bool
        Whether ``device="cuda"`` works.
    missing : str
        What is missing, and how to get it; empty if it is available.
    name, compute_capability, multiprocessors, memory : optional
        Of the current device; memory in bytes.
    numba_cuda : str, optional
        Version of the package, or None.
    simulator : bool
        Whether kernels run in numba's simulator, on the CPU, for tests.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.DeviceInfo(available=False, missing="a driver")
    cuda            not available: a driver
    """

    available: bool
    missing: str = ""
    name: str = ""
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    memory: int | None = None
    numba_cuda: str | None = None
    simulator: bool = False

    def __repr__(self) -> str:
        if not self.available:
            return f"cuda            not available: {self.missing}"
        if self.simulator:
            return "cuda            simulated on the CPU (NUMBA_ENABLE_CUDASIM)"
        major, minor = self.compute_capability or (0, 0)
        return "\n".join(
            [
                f"cuda            {self.name}, compute capability {major}.{minor}",
                f"                {self.multiprocessors} multiprocessors, "
                f"{(self.memory or 0) / 2**30:.1f} GiB",
                f"numba-cuda      {self.numba_cuda}",
            ]
        )


def device_info() -> DeviceInfo:
    """Return which CUDA device ``device="cuda"`` would use, or what is missing.

    Returns
    -------
    DeviceInfo

    Examples
    --------
    >>> import mvnorth
    >>> info = mvnorth.device_info()
    >>> info.available or bool(info.missing)
    True
    """
    if importlib.util.find_spec("numba_cuda") is None:
        return DeviceInfo(False, f"the package numba-cuda is not installed; {_INSTALL}")
    version = importlib.metadata.version("numba-cuda")
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1":
        return DeviceInfo(True, numba_cuda=version, simulator=True)
    try:
        from numba import cuda

        if not cuda.is_available():
            reason = cuda.cuda_error() if hasattr(cuda, "cuda_error") else None
            return DeviceInfo(False, _no_device(reason), numba_cuda=version)
        device = cuda.get_current_device()
        memory = cuda.current_context().get_memory_info().total
    except ImportError as error:
        reason = f"the package numba-cuda cannot be imported ({error}); {_INSTALL}"
        return DeviceInfo(False, reason, numba_cuda=version)
    except Exception as error:  # drivers fail in many ways, none of which may break the caller
        return DeviceInfo(False, _no_device(error), numba_cuda=version)
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    capability = tuple(device.compute_capability)
    count = int(device.MULTIPROCESSOR_COUNT)
    return DeviceInfo(True, "", name, capability, count, int(memory), version)


def _no_device(reason: Any) -> str:
    detail = f" ({str(reason).strip().splitlines()[0]})" if str(reason or "").strip() else ""
    return (
        f"no CUDA device was found{detail}; it takes an NVIDIA GPU and NVIDIA's driver "
        "(https://www.nvidia.com/drivers), and nvidia-smi lists what the driver sees"
    )


def on_device(a: Any) -> bool:
    """Return whether an array lives on a GPU."""
    return hasattr(a, "__cuda_array_interface__") or hasattr(a, "__cuda_ndarray__")


def named(device: Any) -> str | None:
    """Return ``device`` if it is "cpu", "cuda", or None to let the input decide; else raise."""
    if device is not None and not (isinstance(device, str) and device in ("cpu", "cuda")):
        raise ValueError(f"device must be 'cpu' or 'cuda', or None to choose, got {device!r}")
    return device


def choose(device: Any, *given: Any) -> Device | None:
    """Return the device asked for; None for the CPU.

    ``device`` is a name, or a Device whose stream is kept. ``given`` are the arguments that decide
    the precision: single if all their arrays are.
    """
    if isinstance(device, Device):
        stream = device.stream
    else:
        if named(device) != "cuda":
            return None
        require()
        stream = 0
    kinds = [np.asarray(a).dtype for a in given if not isinstance(a, (int, float, type(None)))]
    single = all(kind in (np.float16, np.float32) for kind in kinds) and bool(kinds)
    return Device(stream, np.dtype(np.float32 if single else np.float64))


@cache
def require() -> None:
    """Raise if there is no device; a device that was found is not searched for again."""
    info = device_info()
    if not info.available:
        raise RuntimeError(f"device='cuda' is not available: {info.missing}")


def ordinal(a: Any) -> int | None:
    """Return the number of the device of an array if it has one, as in torch and CuPy."""
    device = getattr(a, "device", None)
    numbers = (getattr(device, name, None) for name in ("index", "id"))
    return next((number for number in numbers if isinstance(number, int)), None)


def stream_of(a: Any) -> int:
    """Return the address of the stream on which the caller uses an array; 0 is the default one.

    The array interface has it from version 3 on, as CuPy and numba write it; torch's has not, but
    its current stream is known.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(a, torch.Tensor):
        return int(torch.cuda.current_stream(a.device).cuda_stream)
    stream = getattr(a, "__cuda_array_interface__", {}).get("stream")
    return 0 if stream in (None, 1) else int(stream)  # 1 is the default stream
