"""Blocks for rows, and the memory they work in: what one_factor.py and argmax.py have in common.

Memory is for the rows that are worked on at a time, not for all of them.
"""

from typing import Any

import numpy as np
from numba import config, cuda

from mvnorth._cpu.factor_nodes import FIRST_ORDER, NODES, STACK
from mvnorth._cuda.factor_nodes import KEPT
from mvnorth._cuda.launch import Queue, multiprocessors

WARPS = 6  # of a block, for rows of more than KEPT coordinates
RESIDENT, RESIDENT_FEW = 2, 6  # blocks on a multiprocessor: of WARPS warps, of one
_ROW = 7  # numbers that are kept of a coordinate
_MILLS = 64  # coordinates of which the kernels for single rows keep phi/Phi
_SLOTS = 128  # single rows at a time, 0.4 MB each for panels
_MEMORY = 2**28  # bytes for rows and moments, roughly


def _as_it_is(a: Any) -> Any:
    return a


def _of_simulator(a: Any) -> Any:
    return a._item._ary


# An array of a kernel as other compiled functions take it: of the simulator they know nothing.
plain = _of_simulator if config.ENABLE_CUDASIM else cuda.jit(device=True)(_as_it_is)


def few(d: int) -> bool:
    """Whether a block of one warp does."""
    return d <= KEPT


def threads(d: int) -> int:
    return 32 if few(d) else 32 * min(WARPS, -(-d // 32))


def blocks(size: int, d: int) -> int:
    """Blocks that share the rows, four times as many as are resident if there is memory."""
    at_a_time = multiprocessors() * 4 * (RESIDENT_FEW if few(d) else RESIDENT)
    affordable = _MEMORY // (8 * d * (_ROW + FIRST_ORDER))
    return min(size, at_a_time, max(multiprocessors(), affordable))


def row_memory(queue: Queue, count: int, d: int, differentiated: bool) -> tuple[Any, ...]:
    """Rows (count, 7, d), and moments (count, 4, d) or, without derivatives, (count, 4, 0)."""
    moments = queue.empty((count, FIRST_ORDER, d if differentiated else 0))
    return queue.empty((count, _ROW, d)), moments


def panel_memory(queue: Queue, count: int) -> tuple[Any, ...]:
    """Of as many single rows as are worked on at a time, at most ``count``, for panels.

    nodes (slots, 13, NODES), mills (slots, 64, NODES), sums (slots, 32), stacks.
    """
    slots = min(count, _SLOTS)
    shapes = ((13, NODES), (_MILLS, NODES), (32,), (2, STACK, 5))
    return tuple(queue.empty((slots, *shape), np.float64) for shape in shapes)
