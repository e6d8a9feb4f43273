"""The excess of a normal variable over a threshold: its mean, and draws weighted by it.

For a standard normal Z and D >= 0, with R(y) = Phi(-y) / phi(y) and Q(y) = 1 - y R(y),

    E[(Z - D)^+] = phi(D) Q(D),
    E[(Z - D)^+; Z > D + e] = phi(D + e) (Q(D + e) + e R(D + e)).
"""

import math

import numpy as np
from scipy.special import erfcx

from mvnorth._cpu.largest_excess import CELLS, FARTHEST

_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
_SERIES = 100.0  # from here on the series is more accurate than the difference
_STEPS = 8  # of Newton's method


def _ratios(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R(y) and Q(y) for y >= 0."""
    inverse = (1.0 / np.maximum(y, _SERIES)) ** 2
    series = inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - 105.0 * inverse)))
    ratio = math.sqrt(math.pi / 2.0) * erfcx(y / math.sqrt(2.0))
    return ratio, np.where(y < _SERIES, 1.0 - y * ratio, series)


def log_excess(distance: np.ndarray) -> np.ndarray:
    """Return log E[(Z - D)^+] for distances D >= 0, to 2e-12 or rounding; -inf from 1e154 on."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        return -0.5 * distance**2 - _HALF_LOG_2_PI + np.log(_ratios(distance)[1])


def log_excess_derivative(distance: np.ndarray) -> np.ndarray:
    """Return the derivative of ``log_excess``: -Pr(Z > D) / E[(Z - D)^+]."""
    ratio, rest = _ratios(distance)
    return -ratio / np.maximum(rest, np.finfo(float).tiny)


def excess_tables(distance: np.ndarray) -> np.ndarray:
    """Return tables (n, CELLS + 1, 2) for draws of e from the density of Z - D times e^+.

    The share exp(-w**2 / 2) of the draws is above e(w): e and its derivative on a grid of w, by
    Newton's method for the logarithm of that share, which is concave in e.
    """
    D = distance[:, None]
    w = np.linspace(0.0, FARTHEST, CELLS + 1)[None, 1:]
    share = np.log(_ratios(D)[1])
    first = np.sqrt(_ratios(D)[1])  # derivative at 0
    e = np.maximum(w * w / (np.sqrt(D * D + w * w) + D), w * first)
    for _ in range(_STEPS):
        ratio, rest = _ratios(D + e)
        above = rest + e * ratio
        value = np.log(above) - e * (D + 0.5 * e) - share + 0.5 * w * w
        e = np.maximum(e + value * above / e, 0.5 * e)
    ratio, rest = _ratios(D + e)
    slope = w * (rest + e * ratio) / e
    zero = np.zeros((len(distance), 1))
    values, slopes = np.concatenate([zero, e], 1), np.concatenate([first, slope], 1)
    return np.stack([values, slopes], axis=2)
