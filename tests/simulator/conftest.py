"""Kernels under numba's CUDA simulator; ``tests/mvnorth/test_cuda_kernels.py`` runs these in a
session of their own, because the simulator must be chosen before numba is imported."""

import importlib
import pkgutil
import sys

import numpy as np
import pytest


@pytest.fixture(scope="session")
def queue():
    from mvnorth._cuda.launch import Queue

    return Queue.of(0)


@pytest.fixture(scope="session", autouse=True)
def really_shared():
    """Let all simulated threads have the same shared arrays.

    The simulator looks whether there is an array for a line of code, and if not makes one: of two
    threads that look at the same time each has one of its own, which the others never write to.
    """
    from numba.cuda.simulator.kernelapi import FakeCUDAShared

    def array(self, shape, dtype, alignment=None):
        line = sys._getframe(1)
        made = np.empty(shape, str(dtype))
        return self._allocations.setdefault((line.f_code, line.f_lineno), made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeCUDAShared, "array", array)
        yield


@pytest.fixture(scope="session", autouse=True)
def launched_as_compiled():
    """Let kernels be launched with arguments of the types for which they are compiled in tests.

    Others would be compiled on a device too, but nobody has looked at their registers.
    """
    from numba import from_dtype, typeof, types

    from mvnorth import _cuda
    from mvnorth._cuda.launch import Queue

    names = (module.name for module in pkgutil.iter_modules(_cuda.__path__, "mvnorth._cuda."))
    modules = map(importlib.import_module, names)
    shapes = [shape for module in modules for shape in getattr(module, "SHAPES", ())]
    run = Queue.run

    def kind(a):
        if not hasattr(a, "_ary"):
            return typeof(a)
        array = a._ary
        broadcast = array.size > 0 and 0 in array.strides  # to a device not contiguous
        layout = "C" if array.flags.c_contiguous and not broadcast else "A"
        return types.Array(from_dtype(array.dtype), array.ndim, layout)

    def checked(queue, kernel, blocks, threads, *arguments):
        if kernel.py_func.__module__.startswith("mvnorth."):
            kinds = tuple(map(kind, arguments))
            known = [shape.signature for shape in shapes if shape.kernel is kernel]
            assert kinds in known, (kernel.py_func.__name__, kinds)
        run(queue, kernel, blocks, threads, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Queue, "run", checked)
        yield


@pytest.fixture
def quick_turns():
    """Simulated threads that wait for each other often are to take turns quickly."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)
