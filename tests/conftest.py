"""One thread unless a test asks for more, and kernels compiled from the sources as they are."""

import hashlib
import os
import tempfile
from pathlib import Path

os.environ.setdefault("MVNORTH_NUM_THREADS", "1")

# numba caches a kernel by its own file and does not see changes in functions of others it inlines.
_package = Path(__file__).parents[1] / "mvnorth"
_folders = ("_cpu", "_linalg", "_scalar", "_tables")
_sources = sorted(path for folder in _folders for path in _package.glob(f"{folder}/*.py"))
_digest = hashlib.sha256(b"".join(path.read_bytes() for path in _sources)).hexdigest()[:16]
os.environ.setdefault(
    "NUMBA_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"mvnorth-kernels-{_digest}")
)
