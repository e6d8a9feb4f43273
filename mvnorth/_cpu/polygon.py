"""Polygons: limits on any number of coordinates that depend on two variables.

With X = A y for y standard normal in the plane, limits are half planes, and the box is a convex
polygon.  In coordinates (s, t), turned such that s points from the origin to the nearest point of
the polygon,

    P = integral of phi(s) (Phi(u(s)) - Phi(l(s))) ds

between the lowest and the highest s of its corners, where u and l, the ends of the polygon at s,
are piecewise linear.  The integrand is positive and log-concave: P keeps its relative accuracy
however far out the polygon lies.  Gauss rules of 24 nodes are put between the s of neighbouring
corners, and their panels halved until nothing changes.  The method is ours.

Accuracy claimed: about 1e-13 relative for polygons wider than 1e-3, and what rounding of the
limits does to narrower ones.
"""

import math

import numpy as np

from mvnorth._compile import inner, kernel
from mvnorth._cpu.polygon_edges import PARALLEL, cut_edges, half_planes, log_between
from mvnorth._tables.quadrature import NODES, WEIGHTS

_NODES, _WEIGHTS = np.array(NODES), np.array(WEIGHTS)
_EPS = float(np.finfo(np.float64).eps)
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)
_REACH = 45.0  # how far the logarithm of the integrand may fall below its largest value
_FARTHEST = 40.0  # how far s may be from the nearest point of the polygon
_AGREE = 1e-14  # relative difference between the rule of a panel and those of its halves
_DEPTH = 60
_STEEP = 0.1  # change of s along an edge below which the integrand drops within a thin layer
_LAYER = 40.0  # logarithm, about, of how much it drops in the layer
_SLACK = 16.0 * _EPS  # by which limits are relaxed before a polygon is called empty


@inner()
def _direction(normal, h, m, ends):
    """Return the unit vector towards the nearest point of the polygon, and its distance.

    For a polygon around the origin it is the normal of the nearest edge, and the distance 0.
    """
    nearest, outside = -1, False
    for k in range(m):
        outside = outside or h[k] < 0.0
        if nearest < 0 or h[k] < h[nearest]:
            nearest = k
    x, y, distance = normal[nearest, 0], normal[nearest, 1], 0.0
    if outside:
        distance = np.inf
        for k in range(m):
            if ends[k, 0] < ends[k, 1]:
                t = min(max(0.0, ends[k, 0]), ends[k, 1])
                away = math.hypot(h[k], t)
                if away < distance:
                    distance = away
                    if away > 0.0:
                        x = (h[k] * normal[k, 0] - t * normal[k, 1]) / away
                        y = (h[k] * normal[k, 1] + t * normal[k, 0]) / away
    return x, y, distance


@inner()
def _corners(normal, h, m, ends, x, y, corners):
    """Fill the finite s where panels end, sorted; return their number and the range of s.

    These are the corners.  An edge that is almost at right angles to s is a thin layer in s, which
    no node of a wide panel may meet: the ends of the layer, and its point next to t = 0, are added.
    """
    count, low, high = 0, np.inf, -np.inf
    for k in range(m):
        if ends[k, 0] == ends[k, 1]:
            continue
        along = normal[k, 0] * y - normal[k, 1] * x  # change of s along the edge
        at = h[k] * (normal[k, 0] * x + normal[k, 1] * y)
        for e in range(2):
            s = at if abs(along) <= PARALLEL else at + along * ends[k, e]
            low, high = min(low, s), max(high, s)
            if abs(s) < np.inf:
                corners[count] = s
                count += 1
        if PARALLEL < abs(along) < _STEEP:
            t = min(max(0.0, ends[k, 0]), ends[k, 1])
            for step in range(-1, 2):
                place = t + step * _LAYER / (1.0 + abs(t))
                if ends[k, 0] < place < ends[k, 1]:
                    corners[count] = at + along * place
                    count += 1
    corners[:count].sort()
    return count, low, high


@inner()
def _bounds_at(normal, h, m, x, y, s):
    """Return the half planes that end the polygon above and below at s, -1 where none does."""
    above, below = -1, -1
    high, low = np.inf, -np.inf
    for k in range(m):
        across = normal[k, 1] * x - normal[k, 0] * y
        if abs(across) > PARALLEL:
            t = (h[k] - (normal[k, 0] * x + normal[k, 1] * y) * s) / across
            if across > 0.0 and t < high:
                above, high = k, t
            elif across < 0.0 and t > low:
                below, low = k, t
    return above, below


@inner()
def _end_at(normal, h, k, x, y, s):
    """Return the t at which line k is at s, and a bound on its rounding error."""
    across = normal[k, 1] * x - normal[k, 0] * y
    along = normal[k, 0] * x + normal[k, 1] * y
    t = (h[k] - along * s) / across
    return t, 4.0 * _EPS * (abs(h[k]) + abs(along * s) + abs(across * t)) / abs(across)


@inner()
def _log_integrand(normal, h, above, below, x, y, s):
    """Return the logarithm of the integrand at s, and a bound on its rounding error."""
    high, low, error = np.inf, -np.inf, 0.0
    error_high = error_low = 0.0
    if above >= 0:
        high, error_high = _end_at(normal, h, above, x, y, s)
    if below >= 0:
        low, error_low = _end_at(normal, h, below, x, y, s)
    if not low < high:
        return -np.inf, 0.0
    log = log_between(low, high)
    if above >= 0:
        error += error_high * math.exp(min(-0.5 * high * high - _LOG_SQRT_2_PI - log, 600.0))
    if below >= 0:
        error += error_low * math.exp(min(-0.5 * low * low - _LOG_SQRT_2_PI - log, 600.0))
    width = (high - low) * (1.0 + abs(0.5 * (high + low))) if above >= 0 and below >= 0 else 1.0
    error += 4.0 * _EPS * (1.0 / min(1.0, max(width, 1e-3)) + abs(log) + 0.5 * s * s)
    return log - 0.5 * s * s - _LOG_SQRT_2_PI, error


@inner()
def _log_at(normal, h, m, x, y, s):
    above, below = _bounds_at(normal, h, m, x, y, s)
    return _log_integrand(normal, h, above, below, x, y, s)[0]


@inner()
def _find_mode(normal, h, m, x, y, low, high):
    """Return the largest logarithm of the integrand and where it is, by golden section."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    a, b = low, high
    p, q = b - ratio * (b - a), a + ratio * (b - a)
    at_p, at_q = _log_at(normal, h, m, x, y, p), _log_at(normal, h, m, x, y, q)
    for _ in range(60):
        if at_p >= at_q:
            b, q, at_q = q, p, at_p
            p = b - ratio * (b - a)
            at_p = _log_at(normal, h, m, x, y, p)
        else:
            a, p, at_p = p, q, at_q
            q = a + ratio * (b - a)
            at_q = _log_at(normal, h, m, x, y, q)
    return (p, at_p) if at_p >= at_q else (q, at_q)


@inner()
def _find_reach(normal, h, m, x, y, mode, end, least):
    """Return s between the mode and ``end`` where the integrand's logarithm is about ``least``."""
    if _log_at(normal, h, m, x, y, end) >= least:
        return end
    inside, outside = mode, end
    for _ in range(40):
        middle = 0.5 * (inside + outside)
        if _log_at(normal, h, m, x, y, middle) >= least:
            inside = middle
        else:
            outside = middle
    return outside


@inner()
def _rule(normal, h, above, below, x, y, a, b, scale):
    """Return the integral from a to b by one rule, and a bound on its rounding error."""
    total = rounding = 0.0
    for i in range(_NODES.size):
        s = a + (b - a) * _NODES[i]
        log, error = _log_integrand(normal, h, above, below, x, y, s)
        value = _WEIGHTS[i] * math.exp(log - scale)
        total += value
        rounding += value * error
    return (b - a) * total, (b - a) * rounding


@inner()
def _integrate(normal, h, m, x, y, breaks, count, scale, stack):
    """Return the integral over the panels between ``breaks``, and a bound on its error.

    A panel is halved until its rule and those of both halves agree.
    """
    size = 0.0
    for p in range(count - 1):
        above, below = _bounds_at(normal, h, m, x, y, 0.5 * (breaks[p] + breaks[p + 1]))
        size += _rule(normal, h, above, below, x, y, breaks[p], breaks[p + 1], scale)[0]
    total = error = 0.0
    for p in range(count - 1):
        above, below = _bounds_at(normal, h, m, x, y, 0.5 * (breaks[p] + breaks[p + 1]))
        stack[0, 0], stack[0, 1] = breaks[p], breaks[p + 1]
        stack[0, 2], _ = _rule(normal, h, above, below, x, y, breaks[p], breaks[p + 1], scale)
        top = 1
        while top > 0:
            top -= 1
            a, b, whole = stack[top, 0], stack[top, 1], stack[top, 2]
            middle = 0.5 * (a + b)
            left, noise = _rule(normal, h, above, below, x, y, a, middle, scale)
            right, rounding = _rule(normal, h, above, below, x, y, middle, b, scale)
            rounding += noise
            gap = abs(left + right - whole)
            if gap <= _AGREE * size + rounding or not a < middle < b or top + 2 > len(stack):
                total += left + right
                error += gap + rounding
            else:
                stack[top, 0], stack[top, 1], stack[top, 2] = a, middle, left
                stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = middle, b, right
                top += 2
    return total, error


@inner()
def _probability(normal, h, m, ends, corners, stack):
    """Return the logarithm of the probability of a polygon with edges, and its relative error."""
    x, y, distance = _direction(normal, h, m, ends)
    count, low, high = _corners(normal, h, m, ends, x, y, corners)
    strip, least, most = True, -np.inf, np.inf  # of lines at right angles to s
    size = 0.0
    for k in range(m):
        if ends[k, 0] < ends[k, 1]:
            size = max(size, abs(h[k]))
        if abs(normal[k, 1] * x - normal[k, 0] * y) > PARALLEL:
            strip = False
        elif normal[k, 0] * x + normal[k, 1] * y > 0.0:
            most = min(most, h[k])
        else:
            least = max(least, -h[k])
    if strip:
        log = log_between(least, most)
        change = 4.0 * _EPS * size / (most - least) if most - least < np.inf else 0.0
        return log, change + 4.0 * _EPS * (1.0 + abs(log))
    # Corners far along an edge are rounded, these lines are not.
    low, high = max(low, least), min(high, most)
    # What rounding of the ends of s brings, for polygons that are narrow in s.
    narrow = high - low
    low, high = max(low, distance - _FARTHEST), min(high, distance + _FARTHEST)
    if distance > 0.0:
        low = max(low, distance - 1e-9 * (1.0 + distance))
    mode, largest = _find_mode(normal, h, m, x, y, low, high)
    if not largest > -np.inf:
        return -np.inf, np.inf
    first = _find_reach(normal, h, m, x, y, mode, low, largest - _REACH)
    last = _find_reach(normal, h, m, x, y, mode, high, largest - _REACH)
    breaks = np.empty(count + 2)
    breaks[0] = first
    panels = 1
    for k in range(count):
        if breaks[panels - 1] < corners[k] < last:
            breaks[panels] = corners[k]
            panels += 1
    breaks[panels] = last
    total, error = _integrate(normal, h, m, x, y, breaks, panels + 1, largest, stack)
    if not total > 0.0:
        return -np.inf, np.inf
    relative = error / total + 8.0 * _EPS * (size + distance) / min(narrow, 1.0) + 4e-15
    return largest + math.log(total), relative + 8.0 * _EPS * (distance * distance)


@kernel()
def polygons(lower, upper, factor, log_prob, rel_error, begin, end):
    """Probabilities of problems ``begin`` to ``end``.

    Parameters
    ----------
    lower, upper : (B, d) limits
    factor : (1 or B, d, 1 or 2) A with X = A y
    log_prob, rel_error : (B,) output
    """
    d = lower.shape[1]
    normal, h, source = np.empty((2 * d, 2)), np.empty(2 * d), np.empty(2 * d, dtype=np.int64)
    ends, neighbours = np.empty((2 * d, 2)), np.empty((2 * d, 2), dtype=np.int64)
    corners, stack = np.empty(10 * d), np.empty((_DEPTH, 3))
    for b in range(begin, end):
        A = factor[b if factor.shape[0] > 1 else 0]
        m = half_planes(lower[b], upper[b], A, normal, h, source)
        if m == 0:
            log_prob[b], rel_error[b] = 0.0, 0.0
        elif cut_edges(normal, h, m, 0.0, ends, neighbours):
            log_prob[b], rel_error[b] = _probability(normal, h, m, ends, corners, stack)
        elif not cut_edges(normal, h, m, _SLACK, ends, neighbours):
            log_prob[b], rel_error[b] = -np.inf, 0.0
        else:  # rounding decides whether it is empty; the relaxed one is as large at least
            for k in range(m):
                h[k] += _SLACK * (1.0 + abs(h[k]))
            log_prob[b], _ = _probability(normal, h, m, ends, corners, stack)
            rel_error[b] = 1.0 if log_prob[b] > -np.inf else np.inf
