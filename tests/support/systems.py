"""Random systems and points for the Genz kernels, and the sums of the CPU's kernels over these."""

import numpy as np

from mvnorth import qmc
from mvnorth._cpu.genz import PANEL, genz_sums
from mvnorth._cpu.pathwise import pathwise_sums
from mvnorth._linalg.product import padded
from mvnorth._methods.lattice_rule import log_sum
from mvnorth._points import Points


def system(d, kind, size=2, seed=0):
    """Arguments of ``genz_sums`` that describe problems.

    kind : "below" for upper limits only, "between" for some lower ones too, "tilted", or "tied"
        for rows without a variable of their own, some of them without a lower limit
    """
    rng = np.random.default_rng([seed, d])
    side = -(-d // PANEL) * PANEL
    T = np.zeros((size, side, side))
    T[:, :d, :d] = np.tril(rng.normal(size=(size, d, d)), -1) / np.sqrt(d)
    upper = rng.normal(1.0, 1.0, (size, d))
    lower = np.full((size, d), -np.inf)
    if kind != "below":
        lower[:, ::2] = upper[:, ::2] - rng.uniform(0.1, 3.0, upper[:, ::2].shape)
    slope, curve = np.zeros((2, size, d))
    if kind == "tilted":
        slope, curve = rng.normal(0.0, 0.2, (size, d)), -rng.uniform(0.0, 0.1, (size, d))
    rank, attached = np.full(size, d), np.tile(np.arange(d), (size, 1))
    if kind == "tied":
        for b in range(size):
            rank[b] = d - 5 - b
            # Two of one variable, some of the same panel, one of the last.
            attached[b, rank[b] :] = np.sort(rng.integers(0, rank[b], d - rank[b]))
            attached[b, -3:] = rank[b] - 3, rank[b] - 3, rank[b] - 1
            for i in range(rank[b], d):
                T[b, i, attached[b, i] :] = 0.0
            lower[b, rank[b] :] = rng.uniform(-3.0, -1.0, d - rank[b])
            upper[b, rank[b] :] = rng.uniform(1.0, 3.0, d - rank[b])
            lower[b, rank[b] + 1] = lower[b, attached[b, -1]] = -np.inf
    return T, lower, upper, rank, attached, slope, curve


def points(d, count, parts=1, replicates=2, first=0, stride=1):
    rng = np.random.default_rng(d)
    total = count * parts * abs(stride)
    start = np.arange(parts) * count * stride + first
    shifts = rng.uniform(size=(replicates, d))
    return Points(qmc.lattice_vector(d) / total, shifts, start, stride, count)


def joined(logs):
    """(rows, R, 2) from (rows, R, parts, 2)."""
    return np.stack([log_sum(logs[..., 0], axis=2), logs[..., 1].max(axis=2)], axis=-1)


def cpu_sums(arguments, rows, where):
    """Logs of sum and largest weight, (rows, R, parts, 2)."""
    return where.log_sums(lambda *more: genz_sums(*arguments, *more), rows, 1e-6)


def cpu_pathwise(arguments, rows, where):
    """Arguments of ``Sums.of_parts``."""
    d = arguments[1].shape[1]
    items = rows.size * len(where.shifts) * where.start.size
    transposed = np.ascontiguousarray(np.swapaxes(arguments[0], 1, 2))
    stats, products = np.empty((items, 3, 3, d)), np.empty((items, padded(d), padded(d)))
    own = (*arguments, transposed, stats, products)
    logs = where.log_sums(lambda *more: pathwise_sums(*own, *more), rows, 1e-6)
    return logs, stats, np.tril(products[:, :d, :d], -1)
