"""The mode of the one-factor integrand, from any start and for any scales."""

import numpy as np

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._cpu.factor_nodes import BETA, SCALE, M, V
from mvnorth._scalar.one_factor import (
    FOUND,
    WALL,
    log_slopes,
    mode_parts,
    shape_at_mode,
    step_to_mode,
)


@inner(SUMS)
def slopes(row, z):
    """Derivatives in z of sum_i log Phi(x_i), to 1e-7.

    ``(first, minus the second, third, sum of |terms| of the first)``.
    """
    first = second = third = size = 0.0
    for i in range(row.shape[1]):
        x = (row[M, i] + row[V, i] * z) * row[SCALE, i]
        h, r = mode_parts(x)
        once, twice, thrice = log_slopes(h, r, row[BETA, i])
        first += once
        second += twice
        third += thrice
        size += abs(once)
    return first, second, third, size


@inner(FAST)
def find_mode(row):
    """``(z, width, skewness, size)``: the mode, within 0.05 widths.

    Width is (-l'')**(-1/2), skewness the third derivative of l times width**3, and size is
    sum_i |h_i beta_i|.
    """
    low, high = -np.inf, np.inf
    z = gentle = 0.0
    gentlest = np.inf
    state, i = 0, 0
    while state != FOUND:
        first, second, third, size = slopes(row, z)
        if state == WALL:
            break
        state, z, low, high, gentle, gentlest = step_to_mode(
            i, z, low, high, gentle, gentlest, first, second, third
        )
        i += 1
    width, skew = shape_at_mode(second, third)
    return z, width, skew, size  # not z + step, which may lie behind a wall
