"""Nested lattices in two, three and four dimensions, and the set of points seen so far.

Each lattice contains the one before, and its shortest dual vector is longer by sqrt(2): the
logarithm of the error that the rule makes with a smooth integrand doubles from one to the next.

    k = 2   square lattices, each turned by 45 degrees: twice the points
    k = 3   cubic, then body-centred cubic, whose dual is the densest packing: 2 and 4 times
    k = 4   D4, whose dual is the densest packing too, in two positions: 4 times

Points are whole numbers times UNIT, and kept as keys: their coordinates side by side in 64 bits, so
that a neighbour's key is a sum.
"""

import numpy as np

from mvnorth._compile import FAST, inner
from mvnorth._cpu.factors_points import K, T

_HALVINGS = 6  # of the first lattice
FIRST = 2**_HALVINGS  # its step, in units
LEVELS = 2 * _HALVINGS  # lattices, at most
UNIT = 2.4 / FIRST  # for k < 4; the step of D4 is longer, so that dual vectors are as long
_BITS = 16  # of a key, for each coordinate
_ORIGIN = 2 ** (_BITS - 1)  # what 0 is stored as
_REACH = 32000  # units from the mode, at most
_EMPTY = 0  # is no key
KEY_OF_MODE = np.int64(sum(_ORIGIN << (_BITS * j) for j in range(K)) - 2**64)


def _all_signs(vector: list[int]) -> list[list[int]]:
    signs: list[list[int]] = [[]]
    for x in vector:
        signs = [[*s, y] for s in signs for y in ((x, -x) if x else (0,))]
    return signs


def _key(vector: list[int]) -> int:
    """Return what a step by a vector adds to a key."""
    return sum(x * 2 ** (_BITS * j) for j, x in enumerate(vector))


def _shortest_vectors() -> tuple[np.ndarray, np.ndarray]:
    """Shortest vectors of the even and odd lattices of each k, in halves of a step, and counts."""
    kinds: list[list[list[list[int]]]] = []
    for k in (2, 3, 4):
        axes = [[2 if i == j else 0 for i in range(k)] for j in range(k)]
        pairs = [[int(i in (a, b)) for i in range(k)] for a in range(k) for b in range(a)]
        centre = [[1] * k]
        even, odd = (axes, centre) if k < 4 else (axes + centre, pairs)
        kinds.append([[s for v in of for s in _all_signs(v)] for of in (even, odd)])
    steps = np.zeros((3, 2, 24), dtype=np.int64)
    counts = np.zeros((3, 2), dtype=np.int64)
    for k, both in enumerate(kinds):
        for parity, of in enumerate(both):
            counts[k, parity] = len(of)
            steps[k, parity, : len(of)] = [_key(vector) for vector in of]
    return steps, counts


STEPS, COUNTS = _shortest_vectors()
AXES = np.array([2 ** (_BITS * j) for j in range(K)], dtype=np.int64)  # one unit along each


@inner()
def unit(k):
    """Return the length of one unit in t."""
    return UNIT * np.sqrt(2.0) if k == 4 else UNIT


@inner()
def volume(k, level):
    """Return the volume a point of a lattice has, in t."""
    step = unit(k) * FIRST / 2.0 ** (level // 2)
    odd = level % 2 == 1
    if k == 2:
        return step * step * (0.5 if odd else 1.0)
    if k == 3:
        return step**3 * (0.5 if odd else 1.0)
    return step**4 * (0.125 if odd else 0.5)


@inner()
def dual_length(k, level):
    """Return the length of the shortest vectors of the dual lattice, times 2 pi, in t."""
    step = unit(k) * FIRST / (np.sqrt(2.0) if k == 4 else 1.0)
    return 2.0 * np.pi / step * 2.0 ** (0.5 * level)


@inner(FAST)
def _slot(table, key):
    mask = table.size - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(32)) & mask


@inner(FAST)
def coordinate(key, j):
    """Return a coordinate of a point, in units."""
    return ((key >> (_BITS * j)) & (2**_BITS - 1)) - _ORIGIN


@inner(FAST)
def place_points(nodes, keys, n, width, length):
    """Set the t of the first n points; False if one is farther away than keys can hold."""
    farthest = np.int64(0)
    for j in range(K):
        for p in range(width):
            x = coordinate(keys[min(p, n - 1)], j)
            farthest = max(farthest, abs(x))
            nodes[T + j, p] = length * x
    return farthest <= _REACH


@inner(FAST)
def insert(table, key):
    """Add a point to the set; True unless it was there already."""
    slot = _slot(table, key)
    while table[slot] != _EMPTY:
        if table[slot] == key:
            return False
        slot = (slot + 1) & (table.size - 1)
    table[slot] = key
    return True


@inner(FAST)
def clear(table):
    """Empty the set."""
    for s in range(table.size):
        table[s] = _EMPTY


@inner(FAST)
def enlarged(table):
    """Return the same set in a table of four times the size."""
    larger = np.empty(4 * table.size, dtype=np.int64)
    clear(larger)
    for s in range(table.size):
        if table[s] != _EMPTY:
            slot = _slot(larger, table[s])
            while larger[slot] != _EMPTY:
                slot = (slot + 1) & (larger.size - 1)
            larger[slot] = table[s]
    return larger
