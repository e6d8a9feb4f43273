"""Draws for Sigma = diag(c) + v v^T: the common factor first, then each coordinate on its own.

Given all limits the factor z has the density phi(z) prod_i (Phi(b_i) - Phi(a_i)) up to a constant,
with a_i = (lower_i - v_i z) / sqrt(c_i) and b_i likewise.  It is log-concave, so tangents of its
logarithm lie above it and chords below (Gilks & Wild 1992, Appl. Stat. 41): z comes by rejection
from a piecewise exponential function, whose knots are set before the first draw, where they save
most.  Given z the coordinates are independent.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.genz import BLOCK, fill, one_sided, two_sided
from mvnorth._cpu.rejection import place
from mvnorth._cpu.tilting import interval_moments
from mvnorth._scalar.normal import log_ndtr, mills

KNOTS = 48  # at most
_REJECTED = 0.03  # of the proposals, at most, where that many knots are enough
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
X, F, G = 0, 1, 2  # rows of knots: where, the logarithm of the density and its slope
LEFT, RIGHT, MASS = 0, 1, 2  # rows of pieces, one a knot: from, to and integral


@kernel()
def _log_density(lower, upper, scale, v, z):
    """Logarithm of the density of z, without a constant, its slope and minus its curvature."""
    value, slope, curvature = -0.5 * z * z, -z, 1.0
    for i in range(lower.size):
        low, high = (lower[i] - v[i] * z) * scale[i], (upper[i] - v[i] * z) * scale[i]
        if low > -np.inf and high < np.inf:
            log_prob, mean, variance = interval_moments(low, high)
            lost = 1.0 - variance if variance <= 1.0 else 1.0  # NaN far out
        elif low > -np.inf or high < np.inf:
            limit = high if high < np.inf else -low
            ratio = mills(limit)
            log_prob = log_ndtr(limit)
            mean = -ratio if high < np.inf else ratio
            lost = min(max(ratio * (limit + ratio), 0.0), 1.0)
        else:
            continue
        beta = v[i] * scale[i]
        value += log_prob
        slope += beta * mean
        curvature += beta * beta * lost
    return value, slope, curvature


@inner()
def _near_mode(lower, upper, scale, v):
    """A point within a fraction of a deviation of the mode, and about that deviation."""
    z, left, right = 0.0, -np.inf, np.inf
    width = 1.0
    for k in range(200):
        _, slope, curvature = _log_density(lower, upper, scale, v, z)
        width = 1.0 / math.sqrt(curvature)
        if abs(slope) * width < 0.1:
            break
        if slope > 0.0:
            left = z
        else:
            right = z
        z += slope / curvature
        if not left < z < right or (k > 20 and right - left < np.inf):
            z = 0.5 * (left + right)
        if z in (left, right):  # neighbours: a wall
            break
    return z, width


@inner()
def _insert(lower, upper, scale, v, knots, count, z, inside):
    """Add a knot at z, or closer to ``inside`` where the density at z is no number."""
    for _ in range(100):
        value, slope, _ = _log_density(lower, upper, scale, v, z)
        if value > -np.inf and abs(slope) < np.inf:
            break
        z = 0.5 * (z + inside)
    k = count
    while k > 0 and knots[X, k - 1] > z:
        for row in range(3):
            knots[row, k] = knots[row, k - 1]
        k -= 1
    knots[X, k], knots[F, k], knots[G, k] = z, value, slope
    return count + 1


@inner()
def _exponential(width, slope):
    """Integral of exp(-slope x) over 0 <= x <= width."""
    drop = slope * width
    return width if drop < 1e-8 else -math.expm1(-drop) / slope


@inner()
def _measure(knots, pieces, count, top):
    """Set the pieces, in units of exp(top): the integral, its excess, and where that is largest.

    The excess is what lies between tangents and chords.  The place is k if the largest part of it
    is between knots k - 1 and k; 0 and ``count`` are the ends.
    """
    for k in range(count):
        pieces[LEFT, k] = -np.inf if k == 0 else pieces[RIGHT, k - 1]
        if k == count - 1:
            pieces[RIGHT, k] = np.inf
            continue
        gap = knots[X, k + 1] - knots[X, k]
        bend = knots[G, k] - knots[G, k + 1]
        middle = 0.5 * gap
        if bend * gap > 1e-12:
            middle = (knots[F, k + 1] - knots[F, k] - knots[G, k + 1] * gap) / bend
        pieces[RIGHT, k] = knots[X, k] + min(max(middle, 0.0), gap)
    total = excess = largest = 0.0
    where = 0
    before = 0.0  # what the piece before has right of its knot
    for k in range(count):
        height = knots[F, k] - top
        slope = knots[G, k]
        # From the knot to either end, by what is there.
        left, right = knots[X, k] - pieces[LEFT, k], pieces[RIGHT, k] - knots[X, k]
        start, end = _side(height, left, slope), _side(height, right, -slope)
        pieces[MASS, k] = start + end
        total += start + end
        part = before + start
        if k > 0:
            gap = knots[X, k] - knots[X, k - 1]
            rise = knots[F, k] - knots[F, k - 1]
            high = math.exp(max(knots[F, k], knots[F, k - 1]) - top)
            part -= high * _exponential(gap, abs(rise) / gap) if gap > 0.0 else part
        if part > largest:
            largest, where = part, k
        excess += max(part, 0.0)
        before = end
    if before > largest:
        where = count
    return total, excess + before, where


@inner()
def _side(height, width, slope):
    """Integral of exp(height - slope x) over 0 <= x <= width, for any sign of ``slope``."""
    if slope >= 0.0:
        return math.exp(height) * _exponential(width, slope)
    return math.exp(height - slope * width) * _exponential(width, -slope)


@kernel()
def set_knots(lower, upper, scale, v, knots, pieces):
    """Bound the density of the common factor of one problem: ``(count, log_bound, top)``.

    Parameters
    ----------
    lower, upper : (d,) limits, infinite ones allowed
    scale, v : (d,) 1/sqrt(c) and the loadings
    knots, pieces : (3, KNOTS) output, ``count`` columns of it; masses in units of exp(top)

    ``log_bound`` is the logarithm of the whole integral, above that of the probability.
    """
    z, width = _near_mode(lower, upper, scale, v)
    count = _insert(lower, upper, scale, v, knots, np.int64(0), z, z)
    for side in (-1.0, 1.0):
        reach = 1.5 * width
        for _ in range(60):  # the outermost slopes must point to the middle
            count = _insert(lower, upper, scale, v, knots, count, z + side * reach, z)
            k = 0 if side < 0.0 else count - 1
            if knots[G, k] * side < 0.0 or count > KNOTS // 2:
                break
            reach *= 2.0
    top = knots[F, 0]
    for k in range(count):
        top = max(top, knots[F, k])
    total, excess, where = _measure(knots, pieces, count, top)
    while count < KNOTS and excess > _REJECTED * total:
        if where == 0:
            new = knots[X, 0] - 1.0 / abs(knots[G, 0])
            inside = knots[X, 0]
        elif where == count:
            new = knots[X, count - 1] + 1.0 / abs(knots[G, count - 1])
            inside = knots[X, count - 1]
        else:
            new, inside = pieces[RIGHT, where - 1], knots[X, where]
            if new in (knots[X, where - 1], inside):
                new = 0.5 * (knots[X, where - 1] + inside)
        count = _insert(lower, upper, scale, v, knots, count, new, inside)
        total, excess, where = _measure(knots, pieces, count, top)
    return count, top + math.log(total) - _LOG_SQRT_2_PI, top


@kernel()
def draw_factors(lower, upper, scale, v, knots, pieces, count, u, z):
    """Draws of the common factor, the first so many of z; returns their number.

    Parameters
    ----------
    lower, upper, scale, v, knots, pieces, count : as for ``set_knots``
    u : (3, n) inside (0, 1)
    z : (n,) output
    """
    total = 0.0
    for k in range(count):
        total += pieces[MASS, k]
    accepted = 0
    for s in range(u.shape[1]):
        rest = u[0, s] * total
        k = 0
        while k < count - 1 and rest > pieces[MASS, k]:
            rest -= pieces[MASS, k]
            k += 1
        slope = knots[G, k]
        width = pieces[RIGHT, k] - pieces[LEFT, k]
        drop = abs(slope) * width
        if drop < 1e-8:
            distance = u[1, s] * width
        else:
            distance = -math.log1p(u[1, s] * math.expm1(-drop)) / abs(slope)
        point = pieces[RIGHT, k] - distance if slope > 0.0 else pieces[LEFT, k] + distance
        log_bound = knots[F, k] + slope * (point - knots[X, k])
        target = log_bound + math.log(u[2, s])
        other = k + 1 if point > knots[X, k] else k - 1
        if 0 <= other < count and knots[X, other] != knots[X, k]:
            share = (point - knots[X, k]) / (knots[X, other] - knots[X, k])
            sure = target <= knots[F, k] + share * (knots[F, other] - knots[F, k])
        else:
            sure = False
        if not sure:
            value, _, _ = _log_density(lower, upper, scale, v, point)
            if not target <= value:
                continue
        z[accepted] = point
        accepted += 1
    return accepted


@kernel(FAST)
def draw_coordinates(lower, upper, scale, V, places, z, first, u, draws):
    """Coordinates ``first``, ... given the common factors.

    Parameters
    ----------
    lower, upper, scale : as for ``set_knots``
    V : (d, k) loadings
    places : (4, d) at_low, at_high, centre and step of ``place``
    z : (k, blocks * BLOCK) common factors
    u : (blocks, coordinates, BLOCK) inside (0, 1)
    draws : (rows, d) output, for the first so many of z
    """
    work = np.empty((8, BLOCK))
    weight, power, q, w, y, low, high, shift = (
        work[0], work[1], work[2], work[3], work[4], work[5], work[6], work[7],
    )  # fmt: skip
    for block in range(u.shape[0]):
        origin = block * BLOCK
        for k in range(u.shape[1]):
            i = first + k
            fill(shift, 0.0)
            for j in range(V.shape[1]):
                beta = V[i, j] * scale[i]
                for s in range(BLOCK):
                    shift[s] += beta * z[j, origin + s]
            bottom, top = lower[i] * scale[i], upper[i] * scale[i]
            fill(weight, 1.0)  # of no interest
            fill(power, 0.0)
            if bottom == -np.inf:
                for s in range(BLOCK):
                    high[s] = -shift[s]
                one_sided(high, top, u[block, k], weight, power, q, w, y)
            else:
                for s in range(BLOCK):
                    low[s] = bottom - shift[s]
                    high[s] = top - shift[s]
                two_sided(low, high, u[block, k], weight, power, q, w, y)
            step = places[3, i] / scale[i]
            for s in range(min(BLOCK, draws.shape[0] - origin)):
                centre = places[2, i] + step * shift[s]
                draws[origin + s, i] = place(
                    y[s],
                    bottom - shift[s],
                    top - shift[s],
                    places[0, i],
                    places[1, i],
                    centre,
                    step,
                )
