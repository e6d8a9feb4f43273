"""The mode of the one-factor integrand, from any start and for any scales."""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.factor_nodes import BETA, INNER, SCALE, SUMS, M, V
from mvnorth._scalar.phi_mills import FAR, short

_EPS = 2.0**-52


@njit(**SUMS)
def slopes(row, z):
    """Derivatives in z of sum_i log Phi(x_i), to 1e-7.

    ``(first, minus the second, third, sum of |terms| of the first)``.
    """
    first = second = third = size = 0.0
    for i in range(row.shape[1]):
        x = (row[M, i] + row[V, i] * z) * row[SCALE, i]
        beta = row[BETA, i]
        _, _, _, h, r, _ = short(x)
        tail = 1.0 / (abs(x) + 2.0 / abs(x))
        out = x < FAR
        h = tail - x if out else h
        r = tail if out else r
        b = h * beta
        first += b
        size += abs(b)
        b *= beta
        second += b * r
        third += b * beta * (r * (r + h) - 1.0)
    return first, second, third, size


@njit(**INNER)
def find_mode(row):
    """``(z, width, skewness, size)``: the mode, within 0.05 widths.

    Width is (-l'')**(-1/2), skewness the third derivative of l times width**3, and size is
    sum_i |h_i beta_i|.

    l' = sum_i h_i beta_i - z falls strictly.  Newton's method for log(sum) = log(z) where both are
    positive, which is quick both where h is linear and where it falls like exp(-x**2/2); else
    Newton's for l' = 0; else the middle of the bracket.
    """
    low, high = -np.inf, np.inf
    z = gentle = 0.0
    gentlest = np.inf
    for i in range(300):
        first, second, third, size = slopes(row, z)
        residual = first - z
        curvature = 1.0 + second
        width = 1.0 / math.sqrt(curvature)
        step = residual / curvature
        if abs(residual) < gentlest:
            gentle, gentlest = z, abs(residual)
        # Where l is skewed the quadratic that a step relies on ends sooner.
        if abs(step) * max(1.0, abs(third) * width**3) <= 0.05 * width:
            break
        if residual > 0.0:
            low = z
        else:
            high = z
        if high - low <= 4.0 * _EPS * abs(z) or i == 299:  # a wall: stay on its gentle side
            first, second, third, size = slopes(row, gentle)
            width = 1.0 / math.sqrt(1.0 + second)
            z = gentle
            break
        target = z + step
        if first * z > 0.0 and i % 4 != 3:  # now and then the other, in case this one crawls
            target = z + math.log(first / z) / (second / first + 1.0 / z)
        least = 4.0 * _EPS * abs(z)  # else z would not move
        if abs(target - z) < least:
            target = z + math.copysign(least, residual)
        if not low < target < high or i > 60:  # after 60 steps only halving is sure to end
            target = 0.5 * (low + high)
        if not abs(target) < np.inf:
            target = z + step
        z = target
    return z, width, third * width**3, size  # not z + step, which may lie behind a wall
