"""Kernels under numba's CUDA simulator; ``tests/mvnorth/test_cuda_kernels.py`` runs these in a
session of their own, because the simulator must be chosen before numba is imported."""

import sys

import pytest


@pytest.fixture(scope="session")
def queue():
    from mvnorth._cuda.launch import Queue

    return Queue.of(0)


@pytest.fixture
def quick_turns():
    """Simulated threads that wait for each other often are to take turns quickly."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)
