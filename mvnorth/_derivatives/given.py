"""Problems of one coordinate fewer: given the value of that one."""

import numpy as np

from mvnorth._linalg.condition import condition, given_the_others
from mvnorth._problem import AnyProblems, OneFactorProblems, Problems

_EPS = float(np.finfo(np.float64).eps)
_TIED = 10.0  # times ``singular``: how far the limits of a tied coordinate must be from its value


def given_value(
    problems: AnyProblems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
) -> AnyProblems:
    """Problems of d - 1 coordinates: those of ``rows`` given that X_i is ``values``, (K,) all.

    ``rounding`` grows by what the limits and the factor lose, for probabilities that are not
    small; of a small one it counts |log P| times.  It is infinite where a coordinate that X_i
    determines is so close to its limit that rounding decides.
    """
    if isinstance(problems, OneFactorProblems):
        return _given_one_factor(problems, rows, coordinates, values)
    return _given_dense(problems, rows, coordinates, values)


def _given_dense(
    problems: Problems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
) -> Problems:
    shared = problems.factor.shape[0] == 1
    used, which = np.unique(np.zeros_like(rows) if shared else rows, return_inverse=True)
    source = problems.factor[used]
    slope, factor = condition(source, which, coordinates)
    norm = np.sqrt(np.sum(source**2, axis=2))
    root, _ = given_the_others(source, problems.singular)
    own, precision, scale = (
        _without(a[which], coordinates) for a in (norm, root, problems.scale[used])
    )
    tied = np.sqrt(np.sum(factor**2, axis=2)) <= problems.singular * own
    factor[tied] = 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = np.abs(values / norm[which, coordinates])[:, None]
        rounded = (4.0 + np.sqrt(source.shape[2])) * _EPS * own
        lower, upper, lost, width_lost = _moved(
            problems.lower[rows], problems.upper[rows], coordinates, slope * values[:, None]
        )
        lost += rounded * units
        # A covariance that was rounded has variances given the others off by its rounding.
        variance = problems.singular**2 / (8.0 * problems.d) * (precision * own) ** 2
        cost = precision * (lost + rounded) + variance + width_lost
    margin = _TIED * problems.singular * own + lost
    undecided = tied & ((np.abs(lower) < margin) | (np.abs(upper) < margin))
    cost = np.where(tied, np.where(undecided, np.inf, 0.0), cost)
    rounding = _known(problems.rounding[rows] + cost.sum(axis=1))
    return Problems(lower, upper, factor, rounding, problems.singular, scale)


def _given_one_factor(
    problems: OneFactorProblems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
) -> OneFactorProblems:
    """Of the common factor's variance the condition leaves c_i / Sigma_ii, so that the others have
    the covariance diag(c) + v v^T c_i / Sigma_ii: one factor again.
    """
    shape = problems.upper.shape
    c, v = (np.broadcast_to(a, shape)[rows] for a in (problems.c, problems.v))
    item = np.arange(rows.size)
    c_i, v_i = c[item, coordinates], v[item, coordinates]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        deviation = np.hypot(np.sqrt(c_i), v_i)
        share = v * v / c
        own = 1.0 + np.sum(share, axis=1, keepdims=True)
        precision = np.sqrt(np.maximum(own - share, 1.0) / own / c)
        c, v, precision = (_without(a, coordinates) for a in (c, v, precision))
        slope = v * (v_i / deviation / deviation)[:, None]
        lower, upper, lost, width_lost = _moved(
            problems.lower[rows], problems.upper[rows], coordinates, slope * values[:, None]
        )
        cost = 4.0 * precision * lost + width_lost
    left = np.sqrt(c_i) / deviation
    rounding = _known(problems.rounding[rows] + cost.sum(axis=1) + 4.0 * _EPS)
    return OneFactorProblems(lower, upper, c, v * left[:, None], rounding)


def _without(a: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """The columns of a (K, d) but one in each row, (K, d - 1)."""
    column = np.arange(a.shape[1] - 1)
    return np.take_along_axis(a, column + (column >= coordinates[:, None]), axis=1)


def _moved(
    lower: np.ndarray, upper: np.ndarray, coordinates: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Limits of the others less ``shift``, what they lose, and that over the width, (K, d-1)."""
    lower, upper = _without(lower, coordinates), _without(upper, coordinates)
    low, high = (np.where(np.isinf(a), a, a - shift) for a in (lower, upper))
    size = np.maximum(*(np.where(np.isinf(a), 0.0, np.abs(a)) for a in (lower, upper)))
    moves = (np.isfinite(lower) | np.isfinite(upper)) & (shift != 0.0)
    lost = np.where(moves, _EPS * (size + np.abs(shift)), 0.0)
    two_sided = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
    width_lost = np.divide(lost, high - low, where=two_sided, out=np.zeros_like(lost))
    return low, high, lost, width_lost


def _known(rounding: np.ndarray) -> np.ndarray:
    """Numbers too large for double precision leave nothing that is known."""
    return np.where(np.isnan(rounding), np.inf, rounding)
