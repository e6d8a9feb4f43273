"""Report versions, threads, devices, and the folders in which compiled kernels are kept."""

import dataclasses
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import mvnorth

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "numba-cuda", "torch")


def environment() -> dict[str, Any]:
    """Return versions, threads, the CUDA device and the cache of kernels, as plain values."""
    given = os.environ.get("MVNORTH_NUM_THREADS", "")
    threads = mvnorth.get_num_threads()
    return {
        "mvnorth": mvnorth.__version__,
        "folder": str(Path(mvnorth.__file__).parent),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "threads": threads,
        "threads_from": "MVNORTH_NUM_THREADS" if given == str(threads) else "cores",
        "cuda": dataclasses.asdict(mvnorth.device_info()),
        "cache": _cache(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    """Folders in which numba keeps kernels, and how many compiled ones are there and up to date."""
    from mvnorth._compile import is_current
    from mvnorth._cpu.argmax import argmax
    from mvnorth._linalg.reorder import reorder

    folders, compiled, size = [], 0, 0
    for kernel in (argmax, reorder):
        if kernel.stats.cache_path is None:
            continue
        folder = Path(kernel.stats.cache_path)
        sources = Path(kernel.py_func.__code__.co_filename).parent
        folders.append(str(folder))
        for index in folder.glob("*.nbi"):  # "module.function-line.py311.nbi"
            source = sources / f"{index.name.partition('.')[0]}.py"
            if is_current(index, source):
                compiled += 1
                stem = index.name.removesuffix(".nbi")
                size += sum(code.stat().st_size for code in folder.glob(f"{stem}.*.nbc"))
    return {"folders": folders, "kernels": compiled, "bytes": size}
