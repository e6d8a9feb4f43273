"""One thread unless a test asks for more, and kernels compiled from the sources as they are."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("MVNORTH_NUM_THREADS", "1")

# Simulated kernels are a session of their own, see test_cuda_kernels.py.
collect_ignore_glob = ["support/*"]
if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    collect_ignore_glob.append("simulator/*")

pytest.register_assert_rewrite("support")

# numba caches a kernel by its own file and does not see changes in functions of others it inlines.
_package = Path(__file__).parents[1] / "mvnorth"
_folders = ("_cpu", "_linalg", "_scalar", "_tables")
_sources = sorted(path for folder in _folders for path in _package.glob(f"{folder}/*.py"))
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ.setdefault(
    "NUMBA_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"mvnorth-kernels-{_digest}")
)


def pytest_configure(config):
    """Compile kernels before a run of all tests: else every worker would compile the same ones."""
    alone = hasattr(config, "workerinput") or not config.getoption("numprocesses", 0)
    if alone or config.args_source is not config.ArgsSource.TESTPATHS:
        return
    from mvnorth._warmup import GROUPS

    half = ("one_factor", "hessian", "argmax", "special", "exact", "factors", "markov")
    first = [name for name in GROUPS if name in half]
    others = [name for name in GROUPS if name not in first]
    command = [sys.executable, "-m", "mvnorth", "warmup"]
    for process in [subprocess.Popen([*command, *names]) for names in (first, others)]:
        process.wait()
