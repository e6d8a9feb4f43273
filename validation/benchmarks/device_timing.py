"""How long a call on a CUDA device takes, what memory it takes there, and what it returned.

Under numba's simulator a call is made once, and memory is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

import mvnorth
from validation.benchmarks.timing import best_of
from validation.oracles.one_dimension import FloatArray

Call = Callable[[], Any]


@cache
def simulated() -> bool:
    return mvnorth.device_info().simulator


@cache
def torch_device() -> str | None:
    """Where torch computes; None if it is not there, or sees no device."""
    if find_spec("torch") is None:
        return None
    import torch

    return "cpu" if simulated() else "cuda" if torch.cuda.is_available() else None


def timed(call: Call) -> tuple[Any, float, float]:
    """The result, and the seconds of the first and of the fastest call; simulated, of only one."""
    from numba import cuda

    def whole() -> Any:
        result = call()
        cuda.synchronize()
        return result

    cuda.synchronize()
    result, first = best_of(whole, 1)
    if simulated():
        return result, first, first
    result, seconds = best_of(whole, 1)
    repeats = 100 if seconds < 0.01 else 10 if seconds < 0.3 else 2 if seconds < 4 else 0
    return result, first, min(seconds, best_of(whole, repeats)[1] if repeats else np.inf)


def taken(call: Call) -> float | None:
    """Megabytes that a call takes from the device while it gives nothing back."""
    if simulated():
        return None
    from numba import cuda

    context = cuda.current_context()
    context.memory_manager.deallocations.clear()
    with cuda.defer_cleanup():
        before = context.get_memory_info().free
        kept = call()
        cuda.synchronize()
        after = context.get_memory_info().free
        del kept
    return float(before - after) / 2**20


def peak(call: Call) -> float | None:
    """Megabytes of torch's allocator that a call adds to what is there."""
    if simulated():
        return None
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before) / 2**20


def numbers(found: Any) -> list[FloatArray]:
    """What a call returned, on the host: log P and gradients, or the array."""
    if hasattr(found, "log_prob"):
        names = ("log_prob", "grad_m", "grad_L")
        found = [getattr(found, name) for name in names if getattr(found, name, None) is not None]
    parts = found if isinstance(found, (list, tuple)) else [found]
    copies = [a.copy_to_host() if hasattr(a, "copy_to_host") else a for a in parts]
    return [np.asarray(a.cpu() if hasattr(a, "cpu") else a, dtype=np.float64) for a in copies]


def difference(found: Any, expected: Any) -> float:
    """The largest, in units of the largest number expected or of 1; over the rows found."""
    pairs = [(a, b[: len(a)]) for a, b in zip(numbers(found), numbers(expected), strict=True)]
    return max(float(np.max(np.abs(a - b)) / max(1.0, np.max(np.abs(b)))) for a, b in pairs)
