"""Reordered triangular factor (Gibson, Glasbey & Elston 1994; Genz & Bretz 2009, section 4.1.3).

At each step the row with the smallest conditional probability comes next, given truncated
means for the variables before it.  The factor is kept as a product: Householder reflections
from the right bring the pivot row to a single entry, so that Sigma = A A^T is never formed and
a small diagonal of L keeps its accuracy.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from mvnorth._compile import SUMS, inner, kernel
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.normal import interval_parts, ndtr_parts

_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


def row_or_none(limits: Any, b: Any) -> Any:
    """limits[b], or None if there are none: kernels leave out what is not needed then."""
    return None if limits is None else limits[b]


@overload(row_or_none, inline="always")
def _row_or_none(limits, b):
    if isinstance(limits, types.NoneType):
        return lambda limits, b: None
    return lambda limits, b: limits[b]


@inner()
def log_interval(low: float, high: float) -> float:
    """log(Phi(high) - Phi(low)); a lower limit of None is minus infinity."""
    if low is None:
        f, k = ndtr_parts(high)
        return log_scaled(f, k)
    if low == -np.inf:
        f, k = ndtr_parts(high)
        return log_scaled(f, k)
    _, width, k, _ = interval_parts(low, high)
    return log_scaled(width, k) if width > 0.0 else -np.inf


@inner()
def truncated_mean(low: float, high: float) -> float:
    """Mean of a standard normal between two limits; between them whatever the rounding.

    A lower limit of None is minus infinity.
    """
    log_prob = log_interval(low, high)
    exponent = -0.5 * high * high - _LOG_SQRT_2_PI - log_prob
    mean = -math.exp(700.0 if exponent > 700.0 else exponent)
    if low is not None and low > -np.inf:
        exponent = -0.5 * low * low - _LOG_SQRT_2_PI - log_prob
        mean += math.exp(700.0 if exponent > 700.0 else exponent)
        mean = low if mean < low else mean
    return high if high < mean else mean


@inner(SUMS)
def _reflect(A, i, left):
    """Turn row i, from column i on, into one positive entry; apply the same to the rows below.

    ``left[k]`` becomes the norm of A[k, i+1:]: the standard deviation that row k has left given
    the variables up to i.
    """
    rows, width = A.shape
    norm = left[i]
    sign = 1.0 if A[i, i] >= 0.0 else -1.0
    A[i, i] += sign * norm
    scale = 1.0 / (norm * abs(A[i, i]))  # 2/|v|**2 of the reflection's vector v
    for k in range(i + 1, rows):
        dot = 0.0
        for j in range(i, width):
            dot += A[k, j] * A[i, j]
        dot *= scale
        A[k, i] = -sign * (A[k, i] - dot * A[i, i])
        norm2 = 0.0
        for j in range(i + 1, width):
            value = A[k, j] - dot * A[i, j]
            A[k, j] = value
            norm2 += value * value
        left[k] = math.sqrt(norm2)
    A[i, i] = norm
    for j in range(i + 1, width):
        A[i, j] = 0.0


@inner(SUMS)
def load(source, low, high, A, left):
    """Rows of unit norm and their limits; a lower limit alone is mirrored.  True if all are."""
    one_sided = True
    for i in range(A.shape[0]):
        norm2 = 0.0
        for j in range(A.shape[1]):
            norm2 += source[i, j] * source[i, j]
        scale = 1.0 / math.sqrt(norm2)
        if high[i] == np.inf:
            scale = -scale
            low[i], high[i] = high[i], low[i]
        low[i] *= scale
        high[i] *= scale
        for j in range(A.shape[1]):
            A[i, j] = source[i, j] * scale
        left[i] = 1.0
        one_sided = one_sided and low[i] == -np.inf
    return one_sided


@inner()
def next_row(low, high, mean, left, first, singular, one_sided):
    """The row with the smallest conditional probability, or -1 if all are tied.

    ``low`` is None if all rows are one-sided.
    """
    best, smallest = -1, np.inf
    for k in range(first, high.size):
        if left[k] > singular:
            value = (high[k] - mean[k]) / left[k]  # orders one-sided rows as Phi of it does
            if low is not None and not one_sided:
                value = log_interval((low[k] - mean[k]) / left[k], value)
            if best < 0 or value < smallest:
                best, smallest = k, value
    return best


@inner()
def swap(A, low, high, mean, left, order, i, k):
    for j in range(A.shape[1]):
        A[i, j], A[k, j] = A[k, j], A[i, j]
    low[i], low[k] = low[k], low[i]
    high[i], high[k] = high[k], high[i]
    mean[i], mean[k] = mean[k], mean[i]
    left[i], left[k] = left[k], left[i]
    order[i], order[k] = order[k], order[i]


@inner()
def store(A, r, singular, T, low, high, mean, left, tie, order, diagonal):
    """Sort what is tied, and write T and the limits of its rows; A has r rows before the tied."""
    d = low.size
    for i in range(d):
        tie[i] = i if i < r else r - 1
        if i >= r:
            while abs(A[i, tie[i]]) <= singular and tie[i] > 0:
                tie[i] -= 1
    for i in range(r + 1, d):  # insertion sort of the tied rows by their variable
        k = i
        while k > r and tie[k - 1] > tie[k]:
            tie[k - 1], tie[k] = tie[k], tie[k - 1]
            swap(A, low, high, mean, left, order, k - 1, k)
            k -= 1
    for i in range(d):
        pivot = A[i, tie[i]]
        diagonal[i] = pivot
        for j in range(T.shape[1]):
            T[i, j] = A[i, j] / pivot if j < tie[i] else 0.0
        low[i] /= pivot
        high[i] /= pivot
        if pivot < 0.0:
            low[i], high[i] = high[i], low[i]
    for i in range(d, T.shape[0]):
        for j in range(T.shape[1]):
            T[i, j] = 0.0


@kernel()
def reorder(
    factor, singular, T, lower, upper, rank, attached, order, diagonal, two_sided, begin, end
):  # fmt: skip
    """Reorder and triangularise problems ``begin`` to ``end``.

    Parameters
    ----------
    factor : (1 or B, d, width) A with Sigma = A A^T, no row of zeros
    singular : what is left of a unit standard deviation when a row counts as tied
    T : (B, D, D) output, D >= d: rows of unit diagonal, see ``genz_sums``
    lower, upper : (B, d) limits of a centred normal, not both infinite; overwritten with those of
        the rows of T
    rank, attached : (B,), (B, d) output, see ``genz_sums``
    order : (B, d) output, which row of the problem comes where
    diagonal : (B, d) output, what that row, of unit norm and mirrored if its upper limit is
        infinite, was divided by
    two_sided : True, or None if every row has one limit only
    """
    d = lower.shape[1]
    A = np.empty((d, factor.shape[2]))
    mean = np.empty(d)
    left = np.empty(d)
    for b in range(begin, end):
        low, high, tie = lower[b], upper[b], attached[b]
        one_sided = load(factor[b if factor.shape[0] > 1 else 0], low, high, A, left)
        for i in range(d):
            mean[i] = 0.0
            order[b, i] = i
        r = np.int64(0)  # a constant would compile what follows twice
        while r < d:
            if two_sided is None:
                best = next_row(None, high, mean, left, r, singular, True)
            else:
                best = next_row(low, high, mean, left, r, singular, one_sided)
            if best < 0:
                break
            swap(A, low, high, mean, left, order[b], r, best)
            to = (high[r] - mean[r]) / left[r]
            if two_sided is None:
                y = truncated_mean(None, to)
            else:
                y = truncated_mean((low[r] - mean[r]) / left[r], to)
            _reflect(A, r, left)
            for k in range(r + 1, d):
                mean[k] += A[k, r] * y
            r += 1
        rank[b] = r
        store(A, r, singular, T[b], low, high, mean, left, tie, order[b], diagonal[b])
