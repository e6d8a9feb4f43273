"""Point sets: an embedded rank-1 lattice, randomly shifted, under the tent transform.

The first 2**m points of the lattice are a good lattice for every m, so doubling keeps all
points.  Coordinate j of point k of N is  tent(frac(k z_j / N + shift_j)),
tent(x) = 1 - |2x - 1|: the tent makes the integrand periodic without changing the integral,
which raises the rate of convergence for smooth integrands (Hickernell 2002).  Several
independent shifts give independent estimates; their spread is the error estimate.
"""

from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["MAX_LEVEL", "lattice_vector", "points", "random_shifts"]

MAX_LEVEL = 20
_TABLE = Path(__file__).parent / "_tables" / "lattice.npy"


@cache
def _table() -> np.ndarray:
    return np.load(_TABLE).astype(np.int64)


def lattice_vector(dimension: int) -> np.ndarray:
    """Generating vector of the lattice, ``(dimension,)`` odd integers below 2**MAX_LEVEL.

    Beyond the table's 1024 coordinates the vector goes on with odd integers drawn from a fixed
    seed; by then the variables of a reordered problem hardly matter.

    Parameters
    ----------
    dimension : int
        Number of coordinates.

    Returns
    -------
    ndarray (dimension,) of int64

    Examples
    --------
    >>> from mvnorth.qmc import lattice_vector
    >>> int(lattice_vector(3)[0])
    1
    """
    z = _table()
    if dimension > z.size:
        more = np.random.default_rng(0).integers(0, 2 ** (MAX_LEVEL - 1), dimension - z.size)
        z = np.concatenate([z, 2 * more + 1])
    return z[:dimension].copy()


def random_shifts(seed: int, replicates: int, dimension: int) -> np.ndarray:
    """Shifts for ``replicates`` independent copies of the lattice, ``(replicates, dimension)``.

    Shift r is the same however many replicates there are.

    Parameters
    ----------
    seed : int
        Of numpy's generator.
    replicates, dimension : int
        How many shifts, and of how many coordinates.

    Returns
    -------
    ndarray (replicates, dimension)
        In [0, 1).

    Examples
    --------
    >>> from mvnorth.qmc import random_shifts
    >>> bool((random_shifts(0, 8, 3)[:2] == random_shifts(0, 2, 3)).all())
    True
    """
    return np.random.default_rng(seed).random((replicates, dimension))


def points(n: int, dimension: int, seed: int = 0) -> np.ndarray:
    """One shifted lattice with the tent transform, as an array ``(n, dimension)``.

    Kernels make the same points on the fly.

    Parameters
    ----------
    n : int
        Number of points, a power of two up to 2**20.
    dimension : int
        Number of coordinates.
    seed : int
        Of the shift.

    Returns
    -------
    ndarray (n, dimension)
        In [0, 1].

    Examples
    --------
    >>> from mvnorth.qmc import points
    >>> points(4, 2).shape
    (4, 2)
    """
    if n < 1 or n & (n - 1) or n > 2**MAX_LEVEL:
        raise ValueError(f"n must be a power of two up to 2**{MAX_LEVEL}, got {n}")
    shift = random_shifts(seed, 1, dimension)
    x = (np.arange(n)[:, None] * (lattice_vector(dimension) / n) + shift) % 1.0
    return 1.0 - np.abs(2.0 * x - 1.0)
