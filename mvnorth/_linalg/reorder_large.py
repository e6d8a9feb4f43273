"""The reordering of one large problem by all threads, in panels of reflections.

``reorder`` passes over all rows for each variable.  Here the order of a panel of variables is
found first, from the products G = A A^T of the rows that are left, as a pivoted Cholesky
factorisation would; then the reflections of the panel are applied at once, as products of
matrices (compact WY form, Schreiber & Van Loan 1989).  G only decides the order: the factor is as
accurate as that of ``reorder``.  Where little is left of a row, G has lost it to rounding: such
rows are multiplied anew, and a panel ends before a variable that needs it.
"""

import math
from functools import partial

import numpy as np

from mvnorth._compile import SUMS, for_python, kernel
from mvnorth._linalg import reorder as one_by_one
from mvnorth._linalg.product import (
    LANES,
    ROWS,
    STRIP,
    padded,
    subtract_product,
    transpose_strip,
)
from mvnorth._linalg.reorder import next_row, reorder, swap, truncated_mean
from mvnorth._threads import run_items

LARGE = 256  # from here on one problem occupies all threads
_ITEM = 16  # rows an item of work
_RENEW = 1e-2  # of a row's square at the last renewal
_UNRELIABLE = 1e-7

load, store = for_python(one_by_one.load), for_python(one_by_one.store)


@kernel(SUMS)
def _choose(
    A, G, C, label, renewed, low, high, mean, guess, left, singular, one_sided, first
):  # fmt: skip
    """Choose up to STRIP rows and swap them to ``first`` on; returns how many.

    Row k of G has the products with row l in column label[l].  ``C`` (d, STRIP) is work;
    ``left`` and ``guess``, a copy of ``mean``, are brought up to date approximately.
    """
    d = low.size
    for i in range(first, min(first + STRIP, d)):
        t = i - first
        best = next_row(low, high, guess, left, i, singular, one_sided)
        if best < 0 or (t > 0 and left[best] ** 2 < _UNRELIABLE * renewed[best] ** 2):
            return t
        swap(A, low, high, mean, left, label, i, best)
        for j in range(G.shape[1]):
            G[i, j], G[best, j] = G[best, j], G[i, j]
        for j in range(t):
            C[i, j], C[best, j] = C[best, j], C[i, j]
        guess[i], guess[best] = guess[best], guess[i]
        renewed[i], renewed[best] = renewed[best], renewed[i]
        y = truncated_mean((low[i] - guess[i]) / left[i], (high[i] - guess[i]) / left[i])
        for k in range(i + 1, d):
            if left[k] > singular:
                dot = 0.0
                for j in range(t):
                    dot += C[i, j] * C[k, j]
                c = (G[i, label[k]] - dot) / left[i]
                C[k, t] = c
                guess[k] += c * y
                lost = 1e-20 * renewed[k] * renewed[k]
                left[k] = math.sqrt(max(left[k] * left[k] - c * c, lost))
    return min(STRIP, d - first)


@kernel(SUMS)
def _reflect_panel(A, Y, Yt, R, sign, y, low, high, mean, first, count):
    """Triangularise rows ``first`` to ``first + count`` by reflections.

    Their product is I - Y^T R Y, Y (STRIP, width) and R (STRIP, STRIP) upper triangular; Yt is
    Y^T.  Afterwards column first + j is to be multiplied by sign[j].  ``y`` are the truncated
    means of the rows' variables.
    """
    width = A.shape[1]
    for j in range(STRIP):
        for k in range(STRIP):
            R[j, k] = 0.0
        i = first + j
        for c in range(first - first % LANES, width):
            Y[j, c] = A[i, c] if j < count and c >= i else 0.0
        if j >= count:
            continue
        norm2 = 0.0
        for c in range(i, width):
            norm2 += Y[j, c] * Y[j, c]
        norm = math.sqrt(norm2)
        sign[j] = -1.0 if Y[j, i] >= 0.0 else 1.0
        Y[j, i] -= sign[j] * norm
        scale = 1.0 / (norm * abs(Y[j, i]))
        for k in range(i + 1, first + count):
            dot = 0.0
            for c in range(i, width):
                dot += A[k, c] * Y[j, c]
            dot *= scale
            for c in range(i, width):
                A[k, c] -= dot * Y[j, c]
        R[j, j] = scale
        for c in range(i, width):
            A[i, c] = 0.0
        A[i, i] = norm
        for k in range(j):
            A[i, first + k] *= sign[k]
        for k in range(j):
            mean[i] += A[i, first + k] * y[k]
        y[j] = truncated_mean((low[i] - mean[i]) / norm, (high[i] - mean[i]) / norm)
    for c in range(first, width):
        for j in range(STRIP):
            Yt[c, j] = Y[j, c]
    products = np.zeros((STRIP, STRIP))  # -Y Y^T
    subtract_product(products, 0, 0, Y, 0, first, Yt, first, 0, STRIP, STRIP, width - first)
    for j in range(count):
        for k in range(j):
            for m in range(k + 1):
                R[m, j] += R[j, j] * products[k, j] * R[m, k]


@kernel(SUMS)
def _reflect_rows(A, Y, Yt, R, sign, y, mean, left, first, count, begin, end):
    """Apply the reflections of a panel to items ``begin`` to ``end`` of the rows below it."""
    d, width = left.size, A.shape[1]
    W, V = np.empty((_ITEM, STRIP)), np.empty((_ITEM, STRIP))
    aligned = first - first % LANES
    below = first + count
    for row in range(below + begin * _ITEM, min(below + end * _ITEM, d), _ITEM):
        rows = min(_ITEM, d - row)
        W[:] = 0.0
        V[:] = 0.0
        subtract_product(W, 0, 0, A, row, first, Yt, first, 0, rows, STRIP, width - first)
        subtract_product(V, 0, 0, W, 0, 0, R, 0, 0, rows, STRIP, STRIP)
        subtract_product(A, row, aligned, V, 0, 0, Y, 0, aligned, rows, width - aligned, STRIP)
        for k in range(row, row + rows):
            for j in range(count):
                A[k, first + j] *= sign[j]
                mean[k] += A[k, first + j] * y[j]
            norm2 = 0.0
            for c in range(below, width):
                norm2 += A[k, c] * A[k, c]
            left[k] = math.sqrt(norm2)


@kernel()
def _scatter(A, label, d, first, count, B):
    """B[j, label[k]] = A[k, first + j] for the rows below the panel, 0 elsewhere."""
    B[:] = 0.0
    for k in range(first + count, d):
        for j in range(count):
            B[j, label[k]] = A[k, first + j]


@kernel()
def _downdate(G, A, B, d, first, count, begin, end):
    """Take the panel's columns out of items ``begin`` to ``end`` of the rows of G below it."""
    below = first + count
    row, last = below + begin * _ITEM, min(below + end * _ITEM, d)
    subtract_product(G, row, 0, A, row, first, B, 0, 0, last - row, G.shape[1], count)


@kernel()
def _multiply(A, G, label, group, packed, first, count, start, d, begin, end):
    """Products of the rows ``group`` with items ``begin`` to ``end`` of those from ``start`` on.

    ``packed`` (width, STRIP) is minus the transpose of the group's columns from ``first`` on.
    """
    W = np.empty((_ITEM, STRIP))
    for row in range(start + begin * _ITEM, min(start + end * _ITEM, d), _ITEM):
        rows = min(_ITEM, d - row)
        W[:] = 0.0
        subtract_product(W, 0, 0, A, row, first, packed, 0, 0, rows, STRIP, count)
        for k in range(rows):
            for j in range(group.size):
                G[row + k, label[group[j]]] = W[k, j]
                G[group[j], label[row + k]] = W[k, j]


def _renew(
    A: np.ndarray, G: np.ndarray, label: np.ndarray, rows: np.ndarray, first: int, d: int
) -> None:
    """Multiply ``rows`` anew with all from ``first`` on."""
    everything = rows.size == d - first
    packed = np.empty((A.shape[1], STRIP))
    for g in range(0, rows.size, STRIP):
        group = rows[g : g + STRIP]
        block = np.zeros((STRIP, A.shape[1] - first))
        np.negative(A[group, first:], out=block[: group.size])
        count = int(np.flatnonzero(block.any(axis=0))[-1]) + 1
        transpose_strip(block, 0, 0, count, packed)
        start = int(group[0]) if everything else first
        items = -(-(d - start) // _ITEM)
        cost = items * _ITEM * STRIP * count * 5e-11
        multiply = partial(_multiply, A, G, label, group, packed, first, count, start, d)
        run_items(multiply, items, cost)


def reorder_large(
    factor: np.ndarray,
    singular: float,
    T: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    attached: np.ndarray,
    label: np.ndarray,
    diagonal: np.ndarray,
) -> int:
    """``reorder`` of one problem; returns its rank.

    ``label`` becomes the order.
    """
    d, width = factor.shape
    side = padded(max(width, d))
    A, G = np.zeros((d + ROWS, side)), np.zeros((d + ROWS, padded(d)))
    unit = np.empty((d, width))
    mean, left, guess = np.zeros(d), np.empty(d), np.empty(d)
    one_sided = load(factor, low, high, unit, left)
    A[:d, :width] = unit
    del unit
    label[:] = np.arange(d)
    renewed = left.copy()
    C, B = np.empty((d, STRIP)), np.empty((STRIP, padded(d)))
    Y, Yt, R = np.zeros((STRIP, side)), np.zeros((side, STRIP)), np.empty((STRIP, STRIP))
    sign, y = np.empty(STRIP), np.empty(STRIP)
    _renew(A, G, label, np.arange(d), 0, d)
    first = 0
    while first < d:
        guess[:] = mean
        limits = (low, high, mean)
        count = _choose(
            A, G, C, label, renewed, *limits, guess, left, singular, one_sided, first
        )  # fmt: skip
        if count == 0:
            break
        panel = (A, Y, Yt, R, sign, y)
        _reflect_panel(*panel, *limits, first, count)
        items = -(-(d - first - count) // _ITEM)
        cost = items * _ITEM * side * STRIP * 4e-11
        if items:
            run_items(partial(_reflect_rows, *panel, mean, left, first, count), items, 2 * cost)
            _scatter(A, label, d, first, count, B)
            run_items(partial(_downdate, G, A, B, d, first, count), items, cost)
        first += count
        faded = first + np.flatnonzero(left[first:] ** 2 < _RENEW * renewed[first:] ** 2)
        faded = faded[left[faded] > singular]
        if faded.size:
            _renew(A, G, label, faded, first, d)
            renewed[faded] = left[faded]
    store(A, first, singular, T, low, high, mean, left, attached, label, diagonal)
    return first


def reorder_all(
    factor: np.ndarray,
    singular: float,
    T: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    rank: np.ndarray,
    attached: np.ndarray,
    order: np.ndarray,
    diagonal: np.ndarray,
    two_sided: bool,
) -> None:
    """``reorder`` of all problems: many small ones side by side, a large one by all threads.

    ``two_sided`` says whether any coordinate has two limits.
    """
    size, d = lower.shape
    if d < LARGE:
        results = (rank, attached, order, diagonal, True if two_sided else None)
        kernel = partial(reorder, factor, singular, T, lower, upper, *results)
        run_items(kernel, size, size * d * d * (d + 30) * 4e-10)
        return
    for b in range(size):
        own = factor[b if len(factor) > 1 else 0]
        outputs = (T[b], lower[b], upper[b], attached[b], order[b], diagonal[b])
        rank[b] = reorder_large(own, singular, *outputs)
