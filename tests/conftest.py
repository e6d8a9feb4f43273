"""One thread unless a test asks for more, and kernels compiled from the sources as they are."""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("MVNORTH_NUM_THREADS", "1")

# Simulated kernels are a session of their own, see test_cuda_kernels.py.
collect_ignore_glob = [] if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else ["simulator/*"]

# numba caches a kernel by its own file and does not see changes in functions of others it inlines.
_package = Path(__file__).parents[1] / "mvnorth"
_folders = ("_cpu", "_linalg", "_scalar", "_tables")
_sources = sorted(path for folder in _folders for path in _package.glob(f"{folder}/*.py"))
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ.setdefault(
    "NUMBA_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"mvnorth-kernels-{_digest}")
)


@pytest.fixture
def whatever_the_threads(monkeypatch):
    """``check(compute)`` returns the array ``compute()`` makes, the same bits for all threads."""
    from mvnorth import _threads  # when the environment is set

    def check(compute):
        results = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(_threads, "_threads", threads)
            monkeypatch.setattr(_threads, "_pool", None)
            results.append(compute())
        assert _threads._pool is not None  # the last ones did use threads
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
        return results[0]

    return check
