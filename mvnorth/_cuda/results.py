"""Arrays as kernels take them, and what is made of their results: a thread an entry.

Each of these reads and writes every number once, so that memory bounds it.
"""

import math
from typing import Any

import numpy as np
from numba import boolean, cuda, float32, float64, int8

from mvnorth._cuda.launch import Queue, Shape, kernel
from mvnorth._problem import Tolerance
from mvnorth._result import Status, slope_of_probability

_THREADS, _RESIDENT = 128, 8
_FIXED, _CONVERGED, _LIMIT = int(Status.FIXED), int(Status.CONVERGED), int(Status.LIMIT)
_TINY = float(np.finfo(np.float64).tiny)
_scaled = cuda.jit(device=True)(slope_of_probability)


@kernel(_THREADS, _RESIDENT)
def spread(a, out):
    """out (B, d) = a, of which axes of length 1 are repeated."""
    index = cuda.grid(1)
    if index < out.size:
        i, j = index // out.shape[1], index % out.shape[1]
        out[i, j] = a[i if a.shape[0] > 1 else 0, j if a.shape[1] > 1 else 0]


@kernel(_THREADS, _RESIDENT)
def judge(log_prob, rel_error, relative, absolute, fixed, out):
    """Status of each probability, see ``Tolerance.met``."""
    i = cuda.grid(1)
    if i < out.size:
        error = rel_error[i]
        met = error <= relative and error < math.inf
        met = met or (absolute > 0.0 and error * math.exp(log_prob[i]) <= absolute)
        out[i] = _FIXED if fixed else (_CONVERGED if met else _LIMIT)


@kernel(_THREADS, _RESIDENT)
def multiply(value, error, prob, rel_error):
    """Derivatives (B, d) of log P, and their errors, become those of P."""
    index = cuda.grid(1)
    if index < value.size:
        i, j = index // value.shape[1], index % value.shape[1]
        before = error[i, j]
        slope, bound = _scaled(float(value[i, j]), before, float(prob[i]), rel_error[i])
        value[i, j] = slope
        bound += _TINY if before > 0.0 else 0.0  # for what underflows
        error[i, j] = math.inf if math.isnan(bound) else bound


def _shapes(real: Any) -> tuple[Shape, ...]:
    matrix, vector = real[:, ::1], real[::1]
    return (
        Shape(spread, (matrix, float64[:, ::1])),
        Shape(judge, (vector, float64[::1], float64, float64, boolean, int8[::1])),
        Shape(multiply, (matrix, float64[:, ::1], vector, float64[::1])),
    )


SHAPES = (*_shapes(float64), *_shapes(float32))


def _blocks(size: int) -> int:
    return -(-size // _THREADS)


def rows(queue: Queue, name: str, a: Any) -> tuple[Any, tuple[int, ...]]:
    """An array (..., d) as (B, d) on the device, and its batch shape."""
    there = queue.view(a) if queue.holds(a) else queue.put(np.asarray(a, dtype=np.float64))
    _check(name, there)
    shape = tuple(there.shape)
    if not shape or shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1, got {shape}")
    return there.reshape(math.prod(shape[:-1]), shape[-1]), shape[:-1]


def matching(queue: Queue, name: str, a: Any, like: Any, batch: tuple[int, ...]) -> Any:
    """An array that broadcasts with one of ``batch`` and shape (B, d), as (1 or B, d) in double.

    A kernel for every mixture of precisions would be compiled for a minute.
    """
    there = queue.view(a) if queue.holds(a) else queue.put(np.asarray(a, dtype=np.float64))
    _check(name, there)
    shape = (1,) * (2 - there.ndim) + tuple(there.shape)
    wide, deep = shape[-1], math.prod(shape[:-1])
    d = like.shape[1]
    if wide not in (1, d) or (deep != 1 and shape[:-1] != batch):
        raise ValueError(
            f"{name} has shape {tuple(there.shape)}; to go with {(*batch, d)} on a device it may "
            f"have ({d},), {(*batch, 1)} or {(*batch, d)}"
        )
    there = there.reshape(deep, wide)
    if wide == d and there.dtype == np.float64:
        return there
    out = queue.empty((deep, d))
    queue.run(spread, _blocks(out.size), _THREADS, there, out)
    return out


def _check(name: str, a: Any) -> None:
    if a.dtype not in (np.float64, np.float32):
        raise TypeError(f"{name} on a device must be float64 or float32, got {a.dtype}")
    if not a.is_c_contiguous():
        raise ValueError(
            f"{name} on a device must be contiguous, row by row; take .contiguous() or "
            "ascontiguousarray of it"
        )


def status(queue: Queue, log_prob: Any, rel_error: Any, tolerance: Tolerance | None) -> Any:
    """(B,) int8 as in ``Status``."""
    out = queue.empty(log_prob.shape, np.int8)
    asked = tolerance or Tolerance(0.0, 0.0)
    limits = (asked.relative, asked.absolute, tolerance is None)
    queue.run(judge, _blocks(out.size), _THREADS, log_prob, rel_error, *limits, out)
    return out


def of_probability(queue: Queue, found: dict[str, Any], wrt: tuple[str, ...]) -> None:
    """Make derivatives of log P in ``found`` those of P."""
    for name in wrt:
        value, error = found[f"grad_{name}"], found[f"grad_{name}_error"]
        arguments = (value, error, found["prob"], found["rel_error"])
        queue.run(multiply, _blocks(value.size), _THREADS, *arguments)
