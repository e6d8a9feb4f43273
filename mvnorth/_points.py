"""Points of shifted lattices, as kernels take them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from mvnorth._threads import run_items

_LEAST = 128  # samples that a kernel computes at a time, however few there are


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Points:
    """Every ``stride``-th point of shifted lattices, in parts of ``count`` points.

    Attributes
    ----------
    z : (d,) lattice vector over the number of points
    shifts : (R, d)
    start : (parts,) numerator of the first point of each part
    """

    z: np.ndarray
    shifts: np.ndarray
    start: np.ndarray
    stride: int
    count: int

    def log_sums(self, kernel: Callable[..., object], rows: np.ndarray, cost: float) -> np.ndarray:
        """Return logs of sum and largest weight (rows, R, parts, 2), ``cost`` seconds a sample.

        ``kernel(rows, z, shifts, start, stride, count, out, begin, end)`` is such as
        ``mvnorth._cpu.genz.genz_sums``.
        """
        shape = (rows.size, len(self.shifts), self.start.size)
        out = np.empty((shape[0] * shape[1] * shape[2], 2))
        where = (self.z, self.shifts, self.start, self.stride, self.count)
        work = len(out) * max(self.count, _LEAST)
        run_items(partial(kernel, rows, *where, out), len(out), work * cost)
        return out.reshape(*shape, 2)
