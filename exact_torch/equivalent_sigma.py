"""The standard deviation with which EXACT's first gradient is that of cross-entropy.

At equal scores the derivative of log P(the label is among the k largest of C) is m/sigma in the
label's score and -m/(sigma (C - 1)) in each of the others, where m is the mean of the k largest of
C standard normals, on average.  Cross-entropy has 1 - 1/C and -1/C there.  They agree where

    sigma = m C/(C - 1),
    m = (C/k) (C - 1) binom(C - 2, k - 1) int phi^2 Phi^(C-1-k) (1 - Phi)^(k-1),

so that a learning rate that was found for cross-entropy suits EXACT too.  The formula is ours; the
integral is the derivative of the probability that at most k - 1 of C - 1 scores exceed the label's.
"""

import functools
import math

import numpy as np
import torch
from scipy import special

from mvnorth._interface import whole_number

__all__ = ["equivalent_sigma"]

_STEP = 1.0 / 64.0  # of the trapezoidal rule, whose error for smooth integrands is below rounding
_REACH = 40.0  # of the integral; Phi**C is nothing below and phi**2 beyond


@torch.compiler.assume_constant_result
def equivalent_sigma(num_classes: int, k: int = 1) -> float:
    """Return the sigma with which ``exact_loss`` starts with the gradient of cross-entropy.

    It is what ``sigma="auto"`` means.

    Parameters
    ----------
    num_classes : int
        C, at least 2.
    k : int
        Of the expected top-k accuracy.

    Returns
    -------
    float
        1 if k >= C, where the loss is constant.

    Examples
    --------
    >>> from exact_torch import equivalent_sigma
    >>> [round(equivalent_sigma(classes), 2) for classes in (2, 10, 100, 1000)]
    [1.13, 1.71, 2.53, 3.24]
    """
    classes = whole_number("num_classes", num_classes, at_least=2)
    return _computed(classes, whole_number("k", k, at_least=1))


@functools.lru_cache(maxsize=256)
def _computed(classes: int, k: int) -> float:
    if k >= classes:
        return 1.0
    z = np.arange(-_REACH, _REACH, _STEP)
    below, above = special.log_ndtr(z), special.log_ndtr(-z)
    # The logarithm of binom(C - 2, k - 1), without factorials that cancel.
    count = -math.log(classes - 1) - special.betaln(classes - k, k)
    log_density = -z * z - math.log(2.0 * math.pi) + (classes - 1 - k) * below + (k - 1) * above
    integral = _STEP * np.exp(log_density + count + math.log(classes * (classes - 1) / k)).sum()
    return float(integral) * classes / (classes - 1)
