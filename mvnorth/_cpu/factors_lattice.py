"""Nested lattices in two, three and four dimensions, and the set of points seen so far.

Each lattice contains the one before, and its shortest dual vector is longer by sqrt(2): the
logarithm of the error that the rule makes with a smooth integrand doubles from one to the next.

    k = 2   square lattices, each turned by 45 degrees: twice the points
    k = 3   cubic, then body-centred cubic, whose dual is the densest packing: 2 and 4 times
    k = 4   D4, whose dual is the densest packing too, in two positions: 4 times

Points are whole numbers times UNIT.
"""

import numpy as np

from mvnorth._compile import FAST, inner
from mvnorth._cpu.factors_points import K

_HALVINGS = 6  # of the first lattice
FIRST = 2**_HALVINGS  # its step, in units
LEVELS = 2 * _HALVINGS  # lattices, at most
UNIT = 2.4 / FIRST  # for k < 4; the step of D4 is longer, so that dual vectors are as long
_REACH = 32000  # units from the mode, at most: four numbers make one key
_EMPTY = 0  # is no key
SEEN, NEW, BEYOND = 0, 1, 2


def _all_signs(vector: list[int]) -> list[list[int]]:
    signs: list[list[int]] = [[]]
    for x in vector:
        signs = [[*s, y] for s in signs for y in ((x, -x) if x else (0,))]
    return signs


def _shortest_vectors() -> tuple[np.ndarray, np.ndarray]:
    """Shortest vectors of the even and odd lattices of each k, in halves of a step, and counts."""
    kinds: list[list[list[list[int]]]] = []
    for k in (2, 3, 4):
        axes = [[2 if i == j else 0 for i in range(k)] for j in range(k)]
        pairs = [[int(i in (a, b)) for i in range(k)] for a in range(k) for b in range(a)]
        centre = [[1] * k]
        even, odd = (axes, centre) if k < 4 else (axes + centre, pairs)
        kinds.append([[s for v in of for s in _all_signs(v)] for of in (even, odd)])
    vectors = np.zeros((3, 2, 24, K), dtype=np.int64)
    counts = np.zeros((3, 2), dtype=np.int64)
    for k, both in enumerate(kinds):
        for parity, of in enumerate(both):
            counts[k, parity] = len(of)
            vectors[k, parity, : len(of), : k + 2] = of
    return vectors, counts


VECTORS, COUNTS = _shortest_vectors()


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
def insert(table, point):
    """Add a point to the set; NEW, SEEN if it is there already, or BEYOND what keys can hold."""
    key = np.int64(0)
    for j in range(K):
        if point[j] > _REACH or point[j] < -_REACH:
            return BEYOND
        key = (key << 16) | (point[j] + 32768)
    slot = _slot(table, key)
    while table[slot] != _EMPTY:
        if table[slot] == key:
            return SEEN
        slot = (slot + 1) & (table.size - 1)
    table[slot] = key
    return NEW


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
