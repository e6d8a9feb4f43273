"""Probabilities of one, two and three variables, a problem a row, without random points.

Each kernel does rows [begin, end), from the limits and the factor of the covariance to the
logarithm of the probability and its error:

    lower, upper : (B, d) limits, may be infinite
    factor : (1 or B, d, r) A with the covariance A A^T, one for all rows or one each
    log_prob : (B,) results
    rel_error : (B,) estimates of the relative errors of the probabilities, at least 2e-15; infinite
        where nothing is claimed.  Only rows that are NaN on entry are done, and rows that the
        kernel does not do are NaN afterwards.

``univariate``, ``bivariate`` and ``trivariate`` do one-sided rows, where no variable has two finite
limits; ``trivariate`` leaves some of them to ``trivariate_adaptive``.  The others, which take
longer to compile, do what is left, ``trivariate_box`` before ``trivariate_box_adaptive``.  The
mathematics, and the accuracy reached, are in ``_scalar/bivariate.py``, ``_scalar/plackett.py`` and
``_scalar/trivariate.py``.
"""

import math

import numpy as np

from mvnorth._compile import kernel, scalar
from mvnorth._scalar.bivariate import (
    ROUNDING,
    bivariate_interval_parts,
    bivariate_parts,
    interval_probability,
    log_with_error,
)
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import log_ndtr
from mvnorth._scalar.plackett import trivariate_plackett, trivariate_plackett_box
from mvnorth._scalar.trivariate import determinant, trivariate_box_parts, trivariate_parts

_new_row = stack_array(12)


@scalar()
def _standardise(lower, upper, factor, i, row):
    """Fill ``row`` with problem i in units of the standard deviations.

    ``row`` has lower limits from 0, upper ones from 3, the correlations of the pairs (1, 2),
    (1, 3), (2, 3) from 6 and the deviations from 9, negative for variables that are reflected
    because they only have a lower limit.

    Returns whether a variable has two finite limits, and how much rounding them changes the
    probability, relative to it: that of a narrow interval changes with its width.
    """
    shared = i if factor.shape[0] > 1 else 0
    two_sided = False
    change = 0.0
    for j in range(lower.shape[1]):
        a, b = lower[i, j], upper[i, j]
        for m in range(j, -1, -1):
            total = 0.0
            for k in range(factor.shape[2]):
                total += factor[shared, m, k] * factor[shared, j, k]
            if m < j:
                total /= row[9 + m] * row[9 + j]
                total = 1.0 if total > 1.0 else total
                row[5 + j + m] = -1.0 if total < -1.0 else total
                continue
            deviation = math.sqrt(total)
            if b == np.inf and a > -np.inf:
                a, b, deviation = b, a, -deviation
            row[j], row[3 + j], row[9 + j] = a / deviation, b / deviation, deviation
            if a > -np.inf and b < np.inf:
                two_sided = True
                log_kept = abs(math.log((row[3 + j] - row[j]) * deviation / (b - a)))
                change += log_kept if log_kept < np.inf else 0.0
    return two_sided, math.expm1(change)


@kernel()
def univariate(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve one-sided rows of one variable: relative error below 1e-15 (2 + |log P|)."""
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        two_sided, _ = _standardise(lower, upper, factor, i, row)
        if not two_sided:
            log_prob[i] = log_ndtr(row[3])
            error = ROUNDING * (2.0 - log_prob[i])
            rel_error[i] = error if error < 0.01 else np.inf


@kernel()
def univariate_box(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve rows of one variable: a difference of tails, or a series if it is narrow."""
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        _, change = _standardise(lower, upper, factor, i, row)
        f, power = interval_probability(row[0], row[3], row[3] - row[0])
        log_prob[i], error = log_with_error(f, power, 0.0, 1.0, np.inf)
        rel_error[i] = error + change


@kernel()
def bivariate(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve one-sided rows of two variables: one-dimensional Gauss-Legendre integration.

    Relative error below 1e-15 (2 + |log P|), absolute error 2e-16, apart from rounding of the
    correlation.  Any correlation, -1 and 1 included.
    """
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        two_sided, _ = _standardise(lower, upper, factor, i, row)
        if not two_sided:
            det = (1.0 - row[6]) * (1.0 + row[6])
            f, power = bivariate_parts(row[3], row[4], row[6], math.sqrt(det))
            log_prob[i], rel_error[i] = log_with_error(f, power, 0.0, 2.0, det)


@kernel()
def bivariate_box(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve rows of two variables with a two-sided one: adaptive integration."""
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        _, change = _standardise(lower, upper, factor, i, row)
        f, power, error = bivariate_interval_parts(row[0], row[3], row[1], row[4], row[6])
        det = (1.0 - row[6]) * (1.0 + row[6])
        log_prob[i], error = log_with_error(f, power, error, 2.0, det)
        rel_error[i] = error + change


@kernel()
def trivariate(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve one-sided rows of three variables by Plackett's identity, where it is accurate.

    Relative error below ``rel_error``, typically 1e-15.
    """
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        two_sided, _ = _standardise(lower, upper, factor, i, row)
        if not two_sided:
            det = determinant(row[6], row[7], row[8])
            f, error = trivariate_plackett(row[3], row[4], row[5], row[6], row[7], row[8], det)
            if error == error:
                log_prob[i], rel_error[i] = log_with_error(f, 0.0, error, 3.0, det)


@kernel()
def trivariate_adaptive(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve one-sided rows of three variables: adaptive integration over ``bivariate``.

    Relative error typically 1e-14, below ``rel_error``, which is infinite if the correlation
    matrix is singular (determinant below 1e-18) or the integral was not resolved.
    """
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        two_sided, _ = _standardise(lower, upper, factor, i, row)
        if not two_sided:
            f, power, error = trivariate_parts(
                row[0], row[3], row[1], row[4], row[2], row[5], row[6], row[7], row[8]
            )
            det = determinant(row[6], row[7], row[8])
            log_prob[i], rel_error[i] = log_with_error(f, power, error, 3.0, det)


@kernel()
def trivariate_box(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve rows of three variables with a two-sided one, like ``trivariate``."""
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        _, change = _standardise(lower, upper, factor, i, row)
        det = determinant(row[6], row[7], row[8])
        f, error = trivariate_plackett_box(
            row[0], row[3], row[1], row[4], row[2], row[5], row[6], row[7], row[8], det
        )
        if error == error:
            log_prob[i], error = log_with_error(f, 0.0, error, 3.0, det)
            rel_error[i] = error + change


@kernel()
def trivariate_box_adaptive(lower, upper, factor, log_prob, rel_error, begin, end):
    """Solve rows of three variables with a two-sided one, like ``trivariate_adaptive``."""
    row = _new_row()
    for i in range(begin, end):
        if rel_error[i] == rel_error[i]:
            continue
        _, change = _standardise(lower, upper, factor, i, row)
        f, power, error = trivariate_box_parts(
            row[0], row[3], row[1], row[4], row[2], row[5], row[6], row[7], row[8]
        )
        det = determinant(row[6], row[7], row[8])
        log_prob[i], error = log_with_error(f, power, error, 3.0, det)
        rel_error[i] = error + change
