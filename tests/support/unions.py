"""Unions of events with a common factor, whose probability is one integral."""

import math

import numpy as np
from scipy.special import log_ndtr


def one_factor_truth(upper, v, c=None):
    """log Q for X_i = v_i z + sqrt(c_i) e_i, as one integral without cancellation."""
    noise = np.sqrt(1.0 - v * v if c is None else c)
    reach = max(12.0, 2.0 * np.abs(upper).max())
    z = np.linspace(-reach, reach, 40_001)[:, None]
    below = log_ndtr((upper - v * z) / noise)
    with np.errstate(divide="ignore"):
        log = np.log(-np.expm1(below.sum(axis=1)))
    log += -0.5 * z[:, 0] ** 2 - 0.5 * math.log(2.0 * math.pi)
    top = log.max()
    return top + math.log(np.exp(log - top).sum() * 2.0 * reach / 40_000)


def one_factor(rng, d):
    """Return random loadings and the correlations that they give."""
    v = np.sqrt(rng.uniform(0.05, 0.9, d)) * rng.choice([-1.0, 1.0], d)
    cov = np.outer(v, v)
    np.fill_diagonal(cov, 1.0)
    return v, cov


def random_correlation(rng, d):
    """Return correlations of all signs."""
    A = rng.normal(size=(d, d))
    S = A @ A.T / d + 0.1 * np.eye(d)
    s = np.sqrt(np.diag(S))
    return S / np.outer(s, s)
