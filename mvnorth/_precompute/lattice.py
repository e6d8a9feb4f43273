"""Generate the lattice vector in ``mvnorth/_tables/lattice.npy``.

    python -m mvnorth._precompute.lattice

Component-by-component construction of an embedded rank-1 lattice: the first 2**m points form
a good lattice for every m from ``LEVEL_MIN`` to ``LEVEL_MAX`` at once, so that points can be
added by doubling without throwing any away.  The criterion is that of Cools, Kuo & Nuyens
(2006, SIAM J. Sci. Comput. 28): the worst ratio, over m, of the squared worst-case error (shift
averaged, dominating mixed smoothness 1, product weights) to the best one that this step could
have reached at that m.  The correlation over all candidates is a cyclic convolution in powers
of 5 modulo 2**m (Nuyens & Cools 2006), so a component costs O(2**m log 2**m).
"""

from pathlib import Path

import numpy as np

LEVEL_MIN = 6
LEVEL_MAX = 20
DIMENSION = 1024
TABLE = Path(__file__).parents[1] / "_tables" / "lattice.npy"


def weight(j: int) -> float:
    """Weight of coordinate j = 1, 2, ...: later variables of a reordered problem matter less.

    ``validation/benchmarks/point_sets.py`` compares this choice with others.
    """
    return 0.1 / j


def construct(dimension: int = DIMENSION, level_max: int = LEVEL_MAX) -> np.ndarray:
    """Generating vector, ``(dimension,)`` odd integers below 2**level_max."""

    def omega(x: np.ndarray) -> np.ndarray:
        return 2.0 * np.pi**2 * (x * x - x + 1.0 / 6.0)

    levels = range(3, level_max + 1)
    powers = {}  # 5**a mod 2**m, one representative of +-5**a each
    omegas = {}
    products = {}  # product over the coordinates so far at the points +-5**a / 2**m
    for m in levels:
        size = 2 ** (m - 2)
        p = np.empty(size, dtype=np.int64)
        value = 1
        for a in range(size):
            p[a] = value
            value = value * 5 % 2**m
        powers[m] = p
        omegas[m] = omega(p / 2**m)
        products[m] = np.ones(size)
    transforms = {m: np.fft.rfft(omegas[m]) for m in levels}
    low = np.array([0.0, 0.5, 0.25, 0.75])  # the points of levels 0 to 2, where z does not matter
    low_products = np.ones(4)

    z = np.empty(dimension, dtype=np.int64)
    for j in range(dimension):
        gamma = weight(j + 1)
        total = np.full(1, float(np.sum(low_products * (1.0 + gamma * omega(low)))))
        worst = np.zeros(1)
        for m in levels:
            correlation = np.fft.irfft(
                np.conj(np.fft.rfft(products[m])) * transforms[m], n=products[m].size
            )
            level = 2.0 * (np.sum(products[m]) + gamma * correlation)
            repeats = level.size // total.size
            total = np.tile(total, repeats) + level
            worst = np.tile(worst, repeats)
            if m >= LEVEL_MIN:
                error = total / 2**m - 1.0
                worst = np.maximum(worst, error / np.min(error))
        best = int(np.argmin(worst))
        z[j] = powers[level_max][best]
        low_products *= 1.0 + gamma * omega(low * z[j] % 1.0)
        for m in levels:
            products[m] *= 1.0 + gamma * np.roll(omegas[m], -(best % omegas[m].size))
    return z


def main() -> None:
    np.save(TABLE, construct().astype(np.uint32))


if __name__ == "__main__":
    main()
