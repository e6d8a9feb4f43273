"""Kernels under numba's CUDA simulator; ``tests/mvnorth/test_cuda_kernels.py`` runs these in a
session of their own, because the simulator must be chosen before numba is imported."""

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


@pytest.fixture
def quick_turns():
    """Simulated threads that wait for each other often are to take turns quickly."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)
