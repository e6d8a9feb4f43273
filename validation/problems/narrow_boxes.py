"""Random narrow boxes of nearly singular covariances diag(c) + V V^T, exact in double precision.

Loadings are multiples of 2**-20 and own variances of 2**-48, so that the covariance as a matrix
has no rounding error: whatever is off in a result comes from the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

OWN_VARIANCES = (1e-10, 1e-5)
WIDTHS = (1e-13, 1e-6)  # half of them, in deviations
DISTANCES = (0.1, 600.0)  # from the mean, in own deviations: log P from -10 to -1e6


class NarrowBox(NamedTuple):
    """Pr(lower <= X <= upper) for X ~ N(0, diag(c) + V V^T).

    Attributes
    ----------
    lower, upper, c : (d,)
    V : (d, k)
    """

    lower: np.ndarray
    upper: np.ndarray
    c: np.ndarray
    V: np.ndarray

    @property
    def cov(self) -> np.ndarray:
        """The covariance, (d, d), without rounding."""
        return np.asarray(self.V @ self.V.T + np.diag(self.c))


def narrow_boxes(factors: int, count: int, seed: int) -> list[NarrowBox]:
    """Return random boxes of 2 to 6 coordinates with so many common factors."""
    rng = np.random.default_rng(seed)

    def log_uniform(limits: tuple[float, float], size: int) -> np.ndarray:
        low, high = np.log10(limits).tolist()
        return np.asarray(10.0 ** rng.uniform(low, high, size))

    found: list[NarrowBox] = []
    while len(found) < count:
        d = int(rng.integers(2, 7))
        V = np.clip(np.round(rng.normal(size=(d, factors)) * 2.0**20) / 2.0**20, -3.5, 3.5)
        c = np.round(log_uniform(OWN_VARIANCES, d) * 2.0**48) / 2.0**48
        deviation = np.sqrt(c + np.sum(V**2, axis=1))
        own = np.sqrt(c) * rng.normal(size=d) * log_uniform(DISTANCES, 1)
        centre = V @ rng.normal(size=factors) + own
        half = deviation * log_uniform(WIDTHS, 1)
        box = NarrowBox(centre - half, centre + half, c, V)
        if deviation.min() > 1e-2 and (box.lower < box.upper).all():
            found.append(box)
    return found
