"""Limits of the other coordinates given the value of one, and what rounding takes from them."""

import numpy as np

_EPS = float(np.finfo(np.float64).eps)


def drop_coordinates(a: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """Return the columns of a (K, d) but one in each row, (K, d - 1)."""
    column = np.arange(a.shape[1] - 1)
    return np.take_along_axis(a, column + (column >= coordinates[:, None]), axis=1)


def move_limits(
    lower: np.ndarray, upper: np.ndarray, coordinates: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return limits of the others less ``shift``, what they lose, and that over the width.

    All are (K, d - 1).
    """
    lower, upper = drop_coordinates(lower, coordinates), drop_coordinates(upper, coordinates)
    low, high = (np.where(np.isinf(a), a, a - shift) for a in (lower, upper))
    size = np.maximum(*(np.where(np.isinf(a), 0.0, np.abs(a)) for a in (lower, upper)))
    moves = (np.isfinite(lower) | np.isfinite(upper)) & (shift != 0.0)
    lost = np.where(moves, _EPS * (size + np.abs(shift)), 0.0)
    two_sided = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
    width_lost = np.divide(lost, high - low, where=two_sided, out=np.zeros_like(lost))
    return low, high, lost, width_lost


def known(rounding: np.ndarray) -> np.ndarray:
    """Return errors with infinity in place of NaN, which numbers too large leave."""
    return np.where(np.isnan(rounding), np.inf, rounding)
