"""The estimate of EXACT's expected accuracy that its authors train on, draw by draw.

Genz's integration as in the code of the later version of the paper (arXiv:2205.09615): the
differences of scores, hardest competitor first, are the limits m of an orthant with covariance
I + 11^T; a draw is a product of conditional probabilities, with plain pseudo-random numbers. The
derivative in m_i has, on the same numbers, a density in place of the i-th factor, and that variable
at its limit. N draws are averaged. Written here from that description, in double precision and
without the authors' clipping of normals at 5, so that what is seen is the noise of sampling alone.

Draws are independent: groups of N of one pool of them are as many estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from validation.oracles.one_dimension import FloatArray

_TINY = 1e-300


class Draws(NamedTuple):
    """A pool of draws of the probability, (T,), and of its derivatives in m, (T, d) or None."""

    value: FloatArray
    slopes: FloatArray | None


def draws(m: FloatArray, count: int, seed: int | Sequence[int], *, slopes: bool = False) -> Draws:
    """Independent unbiased draws for one example.

    Parameters
    ----------
    m : (d,)
        Differences between the label's score and others, in units of sigma.
    count : int
        How many draws.
    seed : int or sequence of int
    slopes : bool
        The derivatives too: d times the time.

    Examples
    --------
    >>> import numpy as np
    >>> found = draws(np.zeros(2), 1000, 0, slopes=True)
    >>> print(found.value.mean().round(2), found.slopes.shape)  # a third
    0.33 (1000, 2)
    """
    order = np.argsort(m)
    limits = np.asarray(m, dtype=float)[order]
    d = len(limits)
    rng = np.random.default_rng(seed)
    # Row 0 is the probability, row i + 1 the derivative in the i-th limit, from its step on.
    sums, products = np.zeros((2, d + 1 if slopes else 1, count))
    products[0] = 1.0
    for i in range(d):
        diagonal, below = np.sqrt((i + 2) / (i + 1)), 1.0 / np.sqrt((i + 1.0) * (i + 2.0))
        rows = i + 1 if slopes else 1
        b = (limits[i] - sums[:rows]) / diagonal
        if slopes:
            products[i + 1] = products[0] * np.exp(-(b[0] ** 2) / 2) / np.sqrt(2 * np.pi) / diagonal
            sums[i + 1] = sums[0] + below * b[0]
        p = ndtr(b)
        products[:rows] *= p
        sums[:rows] += below * ndtri(np.maximum(rng.random(count) * p, _TINY))
    if not slopes:
        return Draws(products[0], None)
    back = np.empty((count, d))
    back[:, order] = products[1:].T
    return Draws(products[0], back)


def estimates(pool: FloatArray, n: int) -> FloatArray:
    """Means of groups of ``n`` draws, (T // n, ...)."""
    groups = len(pool) // n
    means: FloatArray = pool[: groups * n].reshape(groups, n, *pool.shape[1:]).mean(axis=1)
    return means


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """The mean of independent values and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def value_noise(pool: FloatArray, n: int, prob: float) -> dict[str, float]:
    """What estimates by ``n`` draws of a probability that is known to be ``prob`` are like.

    Returns
    -------
    dict
        ``relative_std`` of the estimate; ``bias`` of minus its logarithm with ``bias_error``, the
        standard error, and ``std``, the deviation of a single one; its 5 and 95 % points less the
        truth, ``low`` and ``high``.
    """
    found = estimates(pool, n)
    loss = np.log(prob) - np.log(np.maximum(found, _TINY))
    bias, error = mean_and_error(loss)
    low, high = np.quantile(loss, [0.05, 0.95])
    return {
        "relative_std": float(found.std(ddof=1) / prob),
        "bias": bias,
        "bias_error": error,
        "std": float(loss.std(ddof=1)),
        "low": float(low),
        "high": float(high),
    }


def gradient_noise(pool: Draws, n: int, prob: float, grad: FloatArray) -> dict[str, float]:
    """What gradients in the scores by ``n`` draws are like.

    Parameters
    ----------
    pool : Draws
        With slopes.
    n : int
    prob : float
        The true probability.
    grad : (d,)
        The true derivatives of log P in m.

    Returns
    -------
    dict
        The mean ``cosine`` with the true gradient, and ``cosine_others`` without the label's score;
        they are the same for P and for log P. For each, ``prob_`` and ``log_``: the
        root-mean-square relative ``error``, and the ``bias`` of the length along the true gradient,
        relative to it, with its standard error, ``bias_error``.
    """
    assert pool.slopes is not None
    value, slopes = estimates(pool.value, n), in_scores(estimates(pool.slopes, n))
    true = in_scores(grad[None])[0]
    out = {
        "cosine": float(_cosines(slopes, true).mean()),
        "cosine_others": float(_cosines(slopes[:, 1:], true[1:]).mean()),
    }
    logs = slopes / np.maximum(value, _TINY)[:, None]
    for name, found in (("prob", slopes / prob), ("log", logs)):
        miss = np.linalg.norm(found - true, axis=1) / np.linalg.norm(true)
        bias, error = mean_and_error(found @ true / (true @ true) - 1.0)
        out[f"{name}_error"] = float(np.sqrt(np.mean(miss**2)))
        out[f"{name}_bias"] = bias
        out[f"{name}_bias_error"] = error
    return out


def _cosines(found: FloatArray, true: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(true)
    cosines: FloatArray = found @ true / np.maximum(lengths, _TINY)
    return cosines


def in_scores(slopes: FloatArray) -> FloatArray:
    """Derivatives in the scores, the label's first, (T, d + 1), from those in differences."""
    return np.concatenate([slopes.sum(axis=1, keepdims=True), -slopes], axis=1)
