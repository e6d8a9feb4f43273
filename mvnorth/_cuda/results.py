"""Arrays as kernels take them, and what is made of their results: a thread an entry.

Each of these reads and writes every number once, so that memory bounds it.
"""

import math
from typing import Any

import numpy as np
from numba import boolean, cuda, float32, float64, int8

from mvnorth._arguments import real_array
from mvnorth._cuda.launch import Queue, Shape, kernel
from mvnorth._device import on_device
from mvnorth._problem import Tolerance
from mvnorth._status import Status, derivative_of_probability

_THREADS, _RESIDENT = 128, 8
_FIXED, _CONVERGED, _LIMIT = int(Status.FIXED), int(Status.CONVERGED), int(Status.LIMIT)
_scaled = cuda.jit(device=True)(derivative_of_probability)


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
def multiply(value, error, prob, rel_error, eps, tiny):
    """Derivatives (B, d) of log P, and their errors, become those of P, as on the host.

    eps, tiny : of the precision in which derivatives are stored
    """
    index = cuda.grid(1)
    if index < value.size:
        i, j = index // value.shape[1], index % value.shape[1]
        before = error[i, j]
        slope, bound = _scaled(float(value[i, j]), before, float(prob[i]), rel_error[i])
        value[i, j] = slope
        bound += eps * abs(slope) + (tiny if before > 0.0 else 0.0)  # for what underflows
        error[i, j] = math.inf if math.isnan(bound) else bound


def _shapes(real: Any) -> tuple[Shape, ...]:
    matrix, vector, double, numbers = real[:, ::1], real[::1], float64[:, ::1], float64[::1]
    return (
        Shape(spread, (matrix, double)),
        Shape(judge, (vector, numbers, float64, float64, boolean, int8[::1])),
        Shape(multiply, (matrix, double, vector, numbers, float64, float64)),
    )


SHAPES = (*_shapes(float64), *_shapes(float32))


def _blocks(size: int) -> int:
    return -(-size // _THREADS)


def rows(queue: Queue, name: str, a: Any) -> tuple[Any, tuple[int, ...]]:
    """An array (..., d) as (B, d) on the device, and its batch shape."""
    there = _there(queue, name, a)
    shape = tuple(there.shape)
    if not shape or shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1, got {shape}")
    return there.reshape(math.prod(shape[:-1]), shape[-1]), shape[:-1]


def matching(
    queue: Queue, name: str, a: Any, like: Any, batch: tuple[int, ...]
) -> tuple[Any, tuple[int, ...]]:
    """An array that broadcasts with one of ``batch`` and shape (B, d), as (1 or B, d) in double.

    And the batch shape of both, which has B entries too.  A kernel for every mixture of
    precisions would be compiled for a minute.
    """
    there = _there(queue, name, a)
    shape = (1,) * (1 - there.ndim) + tuple(there.shape)
    wide, own = shape[-1], shape[:-1]
    deep, d = math.prod(own), like.shape[1]
    if wide not in (1, d) or (deep != 1 and own != batch):
        fits = dict.fromkeys(((d,), (*batch, 1), (*batch, d)))
        raise ValueError(
            f"{name} has shape {tuple(there.shape)}; to go with {(*batch, d)} on a device it may "
            f"have {' or '.join(map(str, fits))}"
        )
    there, both = there.reshape(deep, wide), np.broadcast_shapes(batch, own)
    if wide == d and there.dtype == np.float64:
        return there, both
    out = queue.empty((deep, d))
    queue.run(spread, _blocks(out.size), _THREADS, there, out)
    return out, both


def _there(queue: Queue, name: str, a: Any) -> Any:
    """An array on the device, as kernels take it; a copy of what is on the host."""
    if not on_device(a):
        numbers = real_array(name, a, infinite=True)
        single = np.asarray(a).dtype in (np.float16, np.float32)
        return queue.put(numbers, np.float32 if single else np.float64)
    there = queue.view(a)
    if there.dtype not in (np.float64, np.float32):
        raise TypeError(f"{name} on a device must be float64 or float32, got {there.dtype}")
    if not there.is_c_contiguous():
        raise ValueError(
            f"{name} on a device must be contiguous, row by row; take .contiguous() or "
            "ascontiguousarray of it"
        )
    return there


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
        stored = np.finfo(value.dtype)
        limits = (float(stored.eps), float(stored.tiny))
        arguments = (value, error, found["prob"], found["rel_error"], *limits)
        queue.run(multiply, _blocks(value.size), _THREADS, *arguments)
