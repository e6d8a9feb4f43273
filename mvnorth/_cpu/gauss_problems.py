"""Integrate small problems by Gauss rules in one compiled call: order, tilt, sum over nodes.

The parts are those of larger problems; Python between them would take longer than they do.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from mvnorth._compile import FAST, kernel
from mvnorth._cpu.curved_tilting import tilt_dense
from mvnorth._cpu.gauss_rows import gauss_rows, sparse_rows
from mvnorth._cpu.lattice_sums import add_rounding
from mvnorth._linalg.reorder import reorder
from mvnorth._scalar.gauss import ONE_CALL, TENSOR_ONLY


def if_wanted(wanted: Any, array: Any) -> Any:
    """Return the array, or None if ``wanted`` is None."""
    return None if wanted is None else array


@overload(if_wanted, inline="always")
def _if_wanted(wanted, array):
    if isinstance(wanted, types.NoneType):
        return lambda wanted, array: None
    return lambda wanted, array: array


@kernel(FAST)
def integrate_problems(
    factor, singular, lower, upper, two_sided, rounds, table, starts, legendre, relative, absolute,
    most, caution, log_prob, rel_error, spent, log_bound, begin, end,
):  # fmt: skip
    """Integrate problems ``begin`` to ``end`` of at most ONE_CALL coordinates.

    Parameters
    ----------
    factor, singular, two_sided : as for ``reorder``
    lower, upper : (B, d) limits, kept
    rounds : of tilting, as for ``tilt_dense``
    table, starts, legendre, relative, absolute, most : as for ``gauss_rows``
    caution : times what is estimated of rounding errors
    log_prob, rel_error, spent, log_bound : (B,) output
    """
    size, d = end - begin, upper.shape[1]
    own = factor if factor.shape[0] == 1 else factor[begin:end]
    low, high = lower[begin:end].copy(), upper[begin:end].copy()
    T, rank = np.empty((size, ONE_CALL, ONE_CALL)), np.empty(size, np.int64)
    attached, order = np.empty((size, d), np.int64), np.empty((size, d), np.int64)
    diagonal, slope, curve = np.empty((size, d)), np.empty((size, d)), np.empty((size, d))
    stretch, shift = np.empty((size, d)), np.empty((size, d))
    log_scale, rounding, of_problem = np.empty(size), np.empty(size), np.empty(size)
    gap, value, error = np.empty(size), log_prob[begin:end], rel_error[begin:end]
    points, bound = spent[begin:end], log_bound[begin:end]
    reorder(own, singular, T, low, high, rank, attached, order, diagonal, two_sided, 0, size)
    limits = if_wanted(two_sided, low)
    tilt_dense(
        T, limits, high, rank, attached, slope, curve, stretch, shift, singular, rounds, log_scale,
        rounding, of_problem, bound, gap, None, 0, size,
    )  # fmt: skip
    for b in range(size):  # rows of lower rank count as solved, and are unknown in the end
        full = rank[b] == d
        value[b], error[b], points[b] = (-np.inf if full else 0.0), (np.inf if full else 0.0), 0.0
    if d > TENSOR_ONLY:
        sparse_rows(
            T, limits, high, slope, curve, log_scale, table, starts, legendre, relative, absolute,
            most, None, stretch, shift, diagonal, value, error, points, None, None, None, 0, size,
        )  # fmt: skip
    gauss_rows(
        T, limits, high, slope, curve, log_scale, table, starts, legendre, relative, absolute, most,
        None, stretch, shift, diagonal, value, error, points, None, None, None, 0, size,
    )  # fmt: skip
    for b in range(size):
        if rank[b] < d:
            value[b], error[b] = -np.inf, np.inf
        rounding[b] *= caution
        of_problem[b] *= caution
    add_rounding(
        value, error, rounding, of_problem, d * singular, lower[begin:end], upper[begin:end], own
    )
