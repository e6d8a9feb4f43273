"""Check arguments and bring them into the form of problems, one pass over each array.

Each kernel returns bits that say what it found; ``mvnorth._checks`` turns those of wrong input into
messages.  Rows of factors, and limits with them, are divided by powers of two, so that their
largest entry is between 1/2 and 1 and nothing is rounded.
"""

import math

import numpy as np

from mvnorth._compile import for_python, inner, kernel

NAN, INFINITE, ABOVE, NEGATIVE, SWAPPED = 1, 2, 4, 8, 16
WRONG = NAN | INFINITE | ABOVE | NEGATIVE | SWAPPED
LOWER, BOTH = 32, 64  # some lower limit is finite, some coordinate has two finite limits
SPLIT = 128  # a coordinate has no limits, no variance, an empty interval, or no link to others
NEAR = 256  # a factor is not triangular, or close to singular
UNFINISHED = 512  # the Cholesky factor of a covariance is left to LAPACK, or does not exist
SMALL = 8  # coordinates whose Cholesky factor is computed here
_EPS = 2.0**-52
_NARROWEST = 2.0**-1000  # width in deviations whose products are still normal numbers


@inner()
def _power(row):
    """Return the power of two above the largest entry of a row; 0 for zeros."""
    largest = 0.0
    for value in row:
        size = abs(value)
        largest = size if size > largest else largest
    power = math.frexp(largest)[1]
    return power if power < 1023 else 1023


@kernel()
def read_orthant(m, L, upper, factor, scale):
    """Scale means m (B, d) and factors L (1 or B, d, d); fill the other arguments."""
    size, d = m.shape
    bits = 0
    for b in range(L.shape[0]):
        for i in range(d):
            power = _power(L[b, i])
            scale[b, i] = math.ldexp(1.0, power)
            for j in range(d):
                value = L[b, i, j]
                if not -np.inf < value < np.inf:
                    bits |= INFINITE
                if j > i and value != 0.0:
                    bits |= ABOVE
                factor[b, i, j] = math.ldexp(value, -power)
            if L[b, i, i] < 0.0:
                bits |= NEGATIVE
            if L[b, i, i] == 0.0 or (i > 0 and L[b, i, i - 1] == 0.0):
                bits |= SPLIT
    shared = L.shape[0] == 1
    for b in range(size):
        for i in range(d):
            if m[b, i] != m[b, i]:
                bits |= NAN
            if not -np.inf < m[b, i] < np.inf:
                bits |= SPLIT
            upper[b, i] = m[b, i] / scale[0 if shared else b, i]
    return bits


@inner()
def _read_limits(lower, upper, mean, low_out, high_out, rounding):
    """Fill limits (B, d) less ``mean``, and note what rounding takes from widths.

    ``lower``, ``upper`` and ``mean`` are (1 or B, d).  ``rounding`` (B,) is set to the sum of these
    losses relative to the widths.
    """
    bits = 0
    for b in range(rounding.size):
        rounding[b] = 0.0
        row_low = lower[b if lower.shape[0] > 1 else 0]
        row_high = upper[b if upper.shape[0] > 1 else 0]
        row_mean = mean[b if mean.shape[0] > 1 else 0]
        for i in range(lower.shape[1]):
            low, high, centre = row_low[i], row_high[i], row_mean[i]
            if low != low or high != high or centre != centre:
                bits |= NAN
            if not -np.inf < centre < np.inf:
                bits |= INFINITE
            if low > high:
                bits |= SWAPPED
            if low == high or (low == -np.inf and high == np.inf):
                bits |= SPLIT
            if low > -np.inf:
                bits |= LOWER | (BOTH if high < np.inf else 0)
            low_out[b, i], high_out[b, i] = low - centre, high - centre
            width = high_out[b, i] - low_out[b, i]
            if low < high and width < np.inf:
                low, high = abs(low_out[b, i]), abs(high_out[b, i])
                rounding[b] += _EPS * (low if low > high else high) / width
    return bits


@inner()
def _read_covariance(cov, deviation, corr, failed):
    """Fill standard deviations (N, d) and correlations (N, d, d); return bits and the asymmetry.

    Up to ``SMALL`` coordinates ``corr`` becomes the Cholesky factor of the correlations, where
    there is one; ``failed`` (N,) says where there is none.
    """
    asymmetry = 0.0
    n, d = deviation.shape
    bits = 0 if d <= SMALL else UNFINISHED
    for b in range(n):
        failed[b] = False
        for i in range(d):
            variance = cov[b, i, i]
            if variance < 0.0:
                bits |= NEGATIVE
            deviation[b, i] = math.sqrt(variance) if variance > 0.0 else 0.0
        for i in range(d):
            own = deviation[b, i] if deviation[b, i] > 0.0 else 1.0
            for j in range(d):
                value = cov[b, i, j]
                if not -np.inf < value < np.inf:
                    bits |= INFINITE
                other = deviation[b, j] if deviation[b, j] > 0.0 else 1.0
                corr[b, i, j] = value / own / other
                if j < i:
                    gap = abs(corr[b, i, j] - corr[b, j, i])
                    asymmetry = gap if gap > asymmetry else asymmetry
        for i in range(d if d <= SMALL else 0):
            for j in range(i + 1):
                total = corr[b, i, j]
                for k in range(j):
                    total -= corr[b, i, k] * corr[b, j, k]
                if j < i:
                    corr[b, i, j] = total / corr[b, j, j]
                    corr[b, j, i] = 0.0
                elif total > 0.0:
                    corr[b, i, i] = math.sqrt(total)
                else:
                    bits |= UNFINISHED
                    failed[b] = True
                    corr[b, i, i] = 1.0
    return bits, asymmetry


@kernel()
def scale_box(factor, deviation, lower, upper, rounding, scale, singular):
    """Multiply rows of factors (N, d, d) by deviations, and scale them and the limits (B, d).

    ``rounding`` (B,) becomes infinite where scaled limits underflow.
    """
    n, d = deviation.shape
    bits = 0
    for b in range(n):
        for i in range(d):
            norm2 = 0.0
            for j in range(d):
                factor[b, i, j] *= deviation[b, i]
            power = _power(factor[b, i])
            scale[b, i] = math.ldexp(1.0, power)
            for j in range(d):
                value = math.ldexp(factor[b, i, j], -power)
                factor[b, i, j] = value
                norm2 += value * value
                if j > i and value != 0.0:
                    bits |= NEAR
            own = factor[b, i, i]
            if not abs(own) > singular * math.sqrt(norm2):
                bits |= NEAR
            if own == 0.0 or (i > 0 and factor[b, i, i - 1] == 0.0):
                bits |= SPLIT
    for b in range(lower.shape[0]):
        of = 0 if n == 1 else b
        for i in range(d):
            positive = lower[b, i] < upper[b, i]
            lower[b, i] /= scale[of, i]
            upper[b, i] /= scale[of, i]
            if positive and upper[b, i] - lower[b, i] < _NARROWEST:
                rounding[b] = np.inf
    return bits


@kernel()
def read_box(lower, upper, mean, cov, low_out, high_out, rounding, deviation, factor, failed):
    """Read limits and covariances; return the bits of either, and the asymmetry."""
    bits = _read_limits(lower, upper, mean, low_out, high_out, rounding)
    of_covariance, asymmetry = _read_covariance(cov, deviation, factor, failed)
    return bits, of_covariance, asymmetry


read_limits = for_python(_read_limits)


def sides(bits: int) -> int:
    """Return ``Problems.sides`` from the bits of ``read_limits``."""
    return 2 if bits & BOTH else int(bool(bits & LOWER))
