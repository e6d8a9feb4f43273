"""How kernels are launched: their shape on the hardware, the stream, arrays on the device.

A kernel's shape is chosen on paper, told to the compiler and checked by the assembler in the tests:
with ``threads`` threads a block and ``resident`` blocks on a multiprocessor at a time, a thread may
use 65536 / (threads * resident) registers, and a block 96 KB / resident of shared memory, of which
48 KB at most (what every device from Volta on has).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import config, cuda

from mvnorth._compile import load_safely, save_safely, set_stamp, warn_no_cache

REGISTERS = 65536  # of a multiprocessor
SHARED, SHARED_BLOCK = 98304, 49152  # bytes of shared memory: of a multiprocessor, and of a block


def kernel(threads: int, resident: int) -> Any:
    """Make a function a kernel for blocks of at most so many threads, so many at a time.

    Without bounds, as for blocks of one thread, the compiler may take 255 registers.
    """
    # The simulator knows no bounds.
    bounds = {} if config.ENABLE_CUDASIM else {"launch_bounds": (threads, resident)}
    return cached_kernel(**bounds)


def cached_kernel(**options: Any) -> Any:
    """Make a function a kernel that is cached on disk where that can be done."""

    def decorate(function: Callable) -> Any:
        compiled = cuda.jit(**options)(function)
        if not config.ENABLE_CUDASIM:
            try:
                compiled._cache = _cache_class()(function)
            except RuntimeError as error:  # there is no folder that can be written
                warn_no_cache(error)
            else:
                set_stamp(compiled._cache, function)
        return compiled

    return decorate


@functools.cache
def _cache_class() -> Any:
    """numba's cache of kernels, whose failures are warnings; the simulator has none."""
    from numba.cuda.dispatcher import CUDACache

    class KernelCache(CUDACache):
        def load_overload(self, signature: Any, target: Any) -> Any:
            load = super().load_overload
            return load_safely(self, lambda: load(signature, target))

        def save_overload(self, signature: Any, compiled: Any) -> None:
            save = super().save_overload
            save_safely(self, lambda: save(signature, compiled))

    return KernelCache


@dataclass(frozen=True)
class Shape:
    """A kernel as it is launched.

    Attributes
    ----------
    kernel : compiled for a device when it is first launched
    signature : numba types of its arguments
    """

    kernel: Any
    signature: tuple[Any, ...]

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Threads of a block at most, and blocks that are to fit on a multiprocessor at a time."""
        return self.kernel.targetoptions["launch_bounds"]

    @property
    def registers(self) -> int:
        """What a thread may use, in steps of eight."""
        threads, resident = self.bounds or (1, 1)
        return min(255, REGISTERS // (threads * resident) // 8 * 8)

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a block may use."""
        _, resident = self.bounds or (1, 1)
        return min(SHARED_BLOCK, SHARED // resident)


@dataclass(frozen=True)
class Queue:
    """A stream, on which copies and kernels run in the order of their calls."""

    stream: Any

    @classmethod
    def of(cls, address: int) -> "Queue":
        """Of the CUDA stream with this address; 0 is the default one."""
        # As 1 in the array interface of results, where 0 is forbidden.
        return cls(cuda.external_stream(address) if address else cuda.legacy_default_stream())

    def view(self, a: Any) -> Any:
        """An array that lives on the device, as numba sees it; no copy, no waiting."""
        return a if hasattr(a, "__cuda_ndarray__") else cuda.as_cuda_array(a, sync=False)

    def put(self, a: Any, dtype: Any = None) -> Any:
        """A copy on the device of an array on the host."""
        array = np.asarray(a, dtype=dtype, order="C")
        # numpy ignores the stride of an axis of length 1, but a device array with a stride of 0
        # is not contiguous.
        return cuda.to_device(array.copy() if 0 in array.strides else array, stream=self.stream)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        return cuda.device_array(shape, dtype=dtype, stream=self.stream)

    def shaped(self, a: Any, shape: tuple[int, ...]) -> Any:
        """The same memory in another shape, which still says on which stream it is written."""
        return a.reshape(shape).bind(self.stream)

    def get(self, a: Any) -> np.ndarray:
        """A copy on the host; waits for the stream."""
        there = a.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return np.asarray(there)

    def run(self, kernel: Any, blocks: int, threads: Any, *arguments: Any) -> None:
        if blocks:
            kernel[blocks, threads, self.stream](*arguments)


def current() -> int:
    """Number of the current device; the simulator has one."""
    return int(getattr(cuda.get_current_device(), "id", 0))


def multiprocessors() -> int:
    """Of the current device; the simulator has none, and few threads are what it can bear."""
    count = getattr(cuda.get_current_device(), "MULTIPROCESSOR_COUNT", None)
    return int(count) if count else 2
