"""What rounding of the covariance, its factor and the limits does to log P, to first order.

Let x = L y with L = diag(unit) T be the variables in the order of integration, and let y have
second moments M = E[y y^T | limits].  A covariance that is off by E moves log P by

    1/2 trace(L^-T (M - I) L^-1 E) = 1/2 q^T E q - 1/2 trace((I - V) L^-1 E L^-T),

q = L^-T E[y] the derivatives of log P in the limits, and V the covariance of y between the limits.
The first term is what tails are sensitive to.  The second one is that of a density: a narrow box
has V = 0, whatever its mean, and an unlimited variable V = I.  Entries of E are known to be below
eta times the deviations, eta being a few rounding units, so that the terms are at most

    eta/2 (sum_i |q_i| deviation_i)**2   and   eta/2 sum_i W_i z_i**2,   W_i = 1 - V_ii,

with z_i the sum over row i of |L^-1| times the deviations.  A factor that was given as such has
rows that are off by a few rounding units of their norms: the same with one q, and one z_i, replaced
by y and 1.  Means and variances are those of the saddle point of tilting.  Where there is none they
are those of one variable after the other, given the means of those before.

Where limits are far apart, and a nearly singular covariance makes z large, both terms
overestimate: moving coordinates by the root of eta moves log P by the densities at the faces of
the box times that, at most.  The smaller one counts.

The method is ours.  Measured against 60-digit arithmetic: validation/reports/honesty.
"""

import math

import numpy as np

from mvnorth._compile import SUMS, inner, kernel
from mvnorth._cpu.tilting import interval_moments, moments_below, tail_variance

ROWS = 8.0  # rounding units of a row's norm by which a computed factor is off
_EPS = 2.0**-52
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_LARGEST = 700.0  # exponent


@inner(SUMS)
def row_norms(T, norm, r):
    """Norms of the rows of T, unit entries on the diagonal included: deviations over ``unit``."""
    for i in range(r):
        total = 1.0
        for j in range(i):
            total += T[i, j] * T[i, j]
        norm[i] = math.sqrt(total)


@inner(SUMS)
def inverse_row_sums(T, norm, inverse, z, r):
    """z_i = sum_k |T^-1|_ik norm_k; ``inverse`` (r, r) is work."""
    for i in range(r):
        row = inverse[i]
        for k in range(i):
            row[k] = 0.0
        for j in range(i):
            t = T[i, j]
            if t != 0.0:
                other = inverse[j]
                for k in range(j):
                    row[k] -= t * other[k]
                row[j] -= t
        total = norm[i]
        for k in range(i):
            total += abs(row[k]) * norm[k]
        z[i] = total


@inner()
def face_density(low, high, mean, log_prob):
    """phi(low) + phi(high) over the probability between them, ``mean`` that of the interval."""
    if low == -np.inf or high == np.inf:
        return abs(mean)
    at_low = math.exp(min(-0.5 * low * low - _LOG_SQRT_2_PI - log_prob, _LARGEST))
    return at_low + math.exp(min(-0.5 * high * high - _LOG_SQRT_2_PI - log_prob, _LARGEST))


@inner()
def saddle_moments(scale, s, low, high, e, W, faces, r):
    """``W`` and ``faces`` where the saddle point has the shifts s and the means e."""
    for i in range(r):
        b = scale[i] * high[i] - s[i]
        if low is None:  # e is minus phi/Phi
            variance = tail_variance(b, -e[i])
            density = abs(e[i])
        else:
            a = scale[i] * low[i] - s[i]
            log_prob, _, variance = interval_moments(a, b)
            density = face_density(a, b, e[i], log_prob)
        W[i] = 1.0 - variance
        faces[i] = scale[i] * density


@inner(SUMS)
def sequential_moments_below(T, high, y, W, faces, r):
    """Means ``y``, ``W`` and ``faces`` of one variable after the other, with upper limits only."""
    for i in range(r):
        shift = 0.0
        for j in range(i):
            shift += T[i, j] * y[j]
        _, y[i], variance = moments_below(high[i] - shift)
        W[i], faces[i] = 1.0 - variance, abs(y[i])


@inner()
def sequential_moments(T, low, high, attached, singular, y, W, faces, d, r):
    """Means ``y``, ``W`` and ``faces`` of one variable after the other; returns what ties add.

    Rows from r on are tied to others to within ``singular`` of their norms: they narrow the limits
    of their variable, and move by that much.
    """
    of_ties = 0.0
    tied = r
    for i in range(r):
        shift = 0.0
        for j in range(i):
            shift += T[i, j] * y[j]
        a, b = low[i] - shift, high[i] - shift
        narrowest, moved = b - a, 0.0
        while tied < d and attached[tied] == i:
            shift, norm = 0.0, 1.0
            for j in range(i):
                shift += T[tied, j] * y[j]
                norm += T[tied, j] * T[tied, j]
            a, b = max(a, low[tied] - shift), min(b, high[tied] - shift)
            narrowest = min(narrowest, high[tied] - low[tied])
            moved += singular * math.sqrt(norm)
            tied += 1
        if a < b:
            log_prob, y[i], variance = interval_moments(a, b)
            W[i] = 1.0 - variance
            faces[i] = face_density(a, b, y[i], log_prob)
        else:  # the means of earlier variables leave nothing: as if at the nearest limit
            y[i], W[i] = 0.5 * (a + b), 1.0
            faces[i] = 1.0 + abs(y[i]) + 2.0 / narrowest
        of_ties += moved * faces[i]
    return of_ties


@inner(SUMS)
def solve_transposed(T, y, q, r):
    """q = T^-T y."""
    for i in range(r):
        q[i] = y[i]
    for i in range(r - 1, -1, -1):
        for j in range(i):
            q[j] -= T[i, j] * q[i]


@inner(SUMS)
def mean_path(T, q, y, r):
    """y = T^T q."""
    for i in range(r):
        y[i] = q[i]
    for i in range(r):
        for j in range(i):
            y[j] += T[i, j] * q[i]


@inner()
def of_covariance(T, norm, z, q, y, W, faces, singular, r):
    """Two bounds on the change of log P that the rounding of the covariance and its factor makes.

    The first one is certain; the second one may be smaller, by the density at the faces.

    singular : see ``Problems``; its square is 8 d rounding units of a covariance, and nothing to
        speak of where a factor was given
    """
    half_eta = 0.25 * singular * singular / r
    leverage = squares = sums = distance = density = rows = 0.0
    for i in range(r):
        leverage += abs(q[i]) * norm[i]
        count, square = 1.0, y[i] * y[i]
        for j in range(i):
            if T[i, j] != 0.0:  # zeros between independent coordinates are exact
                count += 1.0
                square += y[j] * y[j]
        rows += abs(q[i]) * norm[i] * math.sqrt(count * square)
        squares += W[i] * z[i] * z[i]
        sums += W[i] * z[i]
        distance += y[i] * y[i]
        density += faces[i] * norm[i]
    distance = math.sqrt(distance)
    root = math.sqrt(r)
    lost = half_eta * (leverage * leverage + squares)
    lost += ROWS * _EPS * (rows + root * sums)
    step = singular + ROWS * _EPS * root
    most = step * (1.0 + distance) * density
    return lost, (most if most < lost else lost)


@inner()
def of_limits(T, low, high, shift, y, r):
    """Bound on the change of log P that rounding of the limits less conditional means makes.

    It counts against the distance of the limits, and times the derivative in the limit.  Limits are
    those of before a tilt plus ``shift``, T and the means y those of variables as they are drawn.
    """
    lost = 0.0
    for i in range(r):
        limit = high[i]
        if low is not None and low[i] > -np.inf:
            limit = low[i]
        if limit == np.inf:  # a coordinate without limits
            continue
        terms = abs(limit - shift[i]) + abs(shift[i])
        for j in range(i):
            terms += abs(T[i, j]) * (1.0 + abs(y[j]))
        lost += terms * abs(y[i])
        if low is not None and low[i] > -np.inf:
            lost += terms / (high[i] - low[i])
    lost *= 2.0 * _EPS
    return lost if lost >= 0.0 else np.inf  # NaN: numbers too large for this


@kernel()
def path_rounding(
    T, lower, upper, rank, attached, singular, of_sampling, of_problem, begin, end
):  # fmt: skip
    """Rounding errors of log P for problems ``begin`` to ``end`` of ``genz_sums`` without a tilt.

    Parameters
    ----------
    T, lower, upper, rank, attached : see ``genz_sums``
    singular : see ``Problems``
    of_sampling : (B,) output, that of limits and sums
    of_problem : (B,) output, that of the covariance, its factor and its ties
    """
    d = lower.shape[1]
    work, inverse, none = np.empty((6, d)), np.empty((d, d)), np.zeros(d)
    y, W, faces, q, norm, z = work[0], work[1], work[2], work[3], work[4], work[5]
    for b in range(begin, end):
        r = rank[b]
        ties = sequential_moments(
            T[b], lower[b], upper[b], attached[b], singular, y, W, faces, d, r
        )  # fmt: skip
        solve_transposed(T[b], y, q, r)
        row_norms(T[b], norm, r)
        inverse_row_sums(T[b], norm, inverse, z, r)
        _, lost = of_covariance(T[b], norm, z, q, y, W, faces, singular, r)
        lost += ties
        of_problem[b] = lost if lost >= 0.0 else np.inf  # NaN: numbers too large for this
        of_sampling[b] = of_limits(T[b], lower[b], upper[b], none, y, r)
