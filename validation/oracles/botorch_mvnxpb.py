"""BoTorch's MVNXPB, the bivariate conditional approximation, where BoTorch is installed.

Trinh & Genz (2015, Stat. Comput. 25, 463-476): coordinates are taken two at a time, each pair
given the means of those before. It is deterministic, quick, and has no error of its own: it
cannot be asked for more digits. A pair whose probability cancels to nothing counts as the
smallest number there is, so that answers below some 1e-20 may have no digits at all.
"""

from __future__ import annotations

import functools
import importlib.util

import numpy as np
from numpy.typing import ArrayLike


@functools.cache
def available() -> bool:
    """Whether BoTorch is installed."""
    return importlib.util.find_spec("botorch") is not None


def logprob(lower: ArrayLike, upper: ArrayLike, cov: ArrayLike) -> float:
    """log Pr(lower <= X <= upper) for X ~ N(0, cov), approximately; in double precision.

    Parameters
    ----------
    lower, upper : (d,)
        The box; infinite limits are allowed.
    cov : (d, d)
        Positive definite.

    Returns
    -------
    float
    """
    import torch
    from botorch.utils.probability.mvnxpb import MVNXPB

    limits = np.stack([np.asarray(lower), np.asarray(upper)], axis=-1).astype(np.float64)
    covariance = torch.tensor(np.asarray(cov, dtype=np.float64))
    with torch.no_grad():
        return float(MVNXPB(covariance, torch.from_numpy(limits)).solve())
