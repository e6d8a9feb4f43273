"""Who is among the k largest, by adaptive Gauss-Legendre panels and with constants.

The densities of all scores add up to B'(s), see argmax_nodes.py, so that a panel is checked against
the difference of B at its ends: this is no estimate, and a peak that all nodes miss is seen.
Errors of several scores may cancel, so that a coarser rule has to be good already.
Panels that fail are halved.

Of the constants that may be among the k largest, each cuts the line: above it B counts to k, below
it to k less the number of constants that are passed.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, scalar
from mvnorth._cpu.argmax_nodes import (
    DENSITY,
    PRIMITIVE,
    add_densities,
    centre_at,
    lowest,
    primitives,
    rules,
)
from mvnorth._cpu.factor_nodes import BETA, NODES, OFFSET, WEIGHT, M, V, clear
from mvnorth._scalar.argmax import REACH, is_live

_PANELS = 2000  # at most
_NEGLIGIBLE = (1e-18, 1e-10)  # increase of B, in double and in single precision
_TOLERANCE = (4e-16, 1e-7)
_LEVELS = 3  # halvings of the step
_BEFORE = 1e-5  # error with twice the step
_BEFORE_PANEL = 1e-8  # error of the coarse rule
_EPS = 2.0**-52
_RULE = NODES - 1  # the last node is where a panel is cut
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS, _COARSE = rules(_RULE)


@scalar(FAST)
def tolerance(d, single):
    """Error that a sum of densities may have: rounding of a product of d factors in B."""
    return _TOLERANCE[single] + 0.5 * _EPS * math.sqrt(d)


@inner(FAST)
def _grid(work, pair, chain, k, low, high, levels, single):
    """``(done, low, high, B(low), B(high))``: the trapezoidal rule, if it suffices.

    The step is halved up to ``levels`` times, on what is left without the ends where B does not
    change.  The error is known; one that is small by chance is told by that of the step before.
    """
    nodes, moments = work.nodes, work.moments
    centre, step = 0.5 * (low + high), (high - low) / (NODES - 1)
    cut, allowed = _NEGLIGIBLE[single], k * tolerance(work.row.shape[1], single)
    centre_at(work.row, centre)
    begin, end, b_low, b_high = low, high, 0.0, 0.0
    first, last, total, before = 0, NODES - 1, 0.0, np.inf
    for level in range(levels + 1):
        count = NODES if level == 0 else (last - first) * 2 ** (level - 1)
        start = low - centre if level == 0 else (low - centre) + step * (first + 0.5**level)
        apart = step * 2.0 ** (1 - max(level, 1))
        for done in range(0, count, NODES):
            n = min(NODES, count - done)
            padded = -(-n // 8) * 8
            for j in range(padded):
                nodes[OFFSET, j] = start + apart * (done + j)
            if level == 0:
                nodes[OFFSET, NODES - 1] = high - centre
            primitives(work, pair, chain, k, padded, single)
            for j in range(padded):
                nodes[WEIGHT, j] = 1.0 if j < n else 0.0
                total += nodes[WEIGHT, j] * nodes[DENSITY, j]
            if levels:
                add_densities(work, pair, chain, padded, single)
        if level == 0:
            values = nodes[PRIMITIVE]
            while first < last - 1 and values[first + 1] - values[0] < cut:
                first += 1
            while last > first + 1 and values[NODES - 1] - values[last - 1] < cut:
                last -= 1
            # A constant may be at an end: it must not move by rounding.
            begin = centre + nodes[OFFSET, first] if first > 0 else low
            end = centre + nodes[OFFSET, last] if last < NODES - 1 else high
            b_low, b_high = values[first], values[last]
        fine = step * 0.5**level
        error = abs(total * fine - (b_high - b_low))
        if levels and error <= allowed and before <= _BEFORE * k:
            for i in range(moments.shape[1]):
                moments[0, i] *= fine
            return True, begin, end, b_low, b_high
        before = error
    return False, begin, end, b_low, b_high


@inner(FAST)
def _integrate(work, pair, chain, k, low, high, levels, single):
    """Integrals of the densities over [low, high] as moments."""
    row, nodes = work.row, work.nodes
    stack = work.stacks[0]  # ends of panels, and B there
    narrow = np.inf
    for i in range(row.shape[1]):
        if row[V, i] > 0.0:
            narrow = min(narrow, row[V, i])
    clear(work.sums, work.moments)
    done, a, b, b_low, b_high = _grid(work, pair, chain, k, low, high, levels, single)
    if done:
        return
    clear(work.sums, work.moments)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = a, b, b_low, b_high
    size, panels = 1, 0
    allowed = k * tolerance(row.shape[1], single)
    while size:
        size -= 1
        a, b, b_low, b_high = stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3]
        if abs(b_high - b_low) < _NEGLIGIBLE[single]:
            continue
        centre = a + 0.5 * (b - a)
        half = 0.5 * (b - a)
        centre_at(row, centre)
        for j in range(NODES):
            inside = half * (1.0 + _LEGENDRE_NODES[j]) if j < _RULE else centre - a
            nodes[OFFSET, j] = (a - centre) + inside  # centre is rounded, ends are not
        primitives(work, pair, chain, k, np.int64(NODES), single)
        total = coarse = b_low - b_high
        for j in range(_RULE):
            nodes[WEIGHT, j] = half * _LEGENDRE_WEIGHTS[j]
            total += nodes[WEIGHT, j] * nodes[DENSITY, j]
            coarse += half * _COARSE[j] * nodes[DENSITY, j]
        nodes[WEIGHT, _RULE] = 0.0
        panels += 1
        settled = abs(total) <= allowed and abs(coarse) <= _BEFORE_PANEL * k
        if settled or panels > _PANELS or half < 0.1 * narrow or not a < centre < b:
            add_densities(work, pair, chain, np.int64(NODES), single)
        else:
            b_centre = nodes[PRIMITIVE, _RULE]
            stack[size, 0], stack[size, 1] = a, centre
            stack[size, 2], stack[size, 3] = b_low, b_centre
            stack[size + 1, 0], stack[size + 1, 1] = centre, b
            stack[size + 1, 2], stack[size + 1, 3] = b_centre, b_high
            size += 2


@inner(FAST)
def _expected_places(work, pair, chain, k, at, tied, single):
    """Expectation of how many of the tied constants at ``at`` are among the k largest."""
    for j in range(8):
        work.nodes[OFFSET, j] = 0.0
    centre_at(work.row, at)
    primitives(work, pair, chain, k, np.int64(8), single)
    if chain is None:
        return work.nodes[PRIMITIVE, 0]
    places = 0.0
    for a in range(k):
        places += chain[0, a, 0] * min(tied, k - a)
    return places


@inner(FAST)
def _next_constant(mu, sigma, widest, below):
    """``(value, tied)``: the largest constant below another one, and how often it occurs.

    Minus infinity is behind all others.
    """
    value, tied = -np.inf, 0
    for i in range(mu.size):
        if mu[i] < below and not is_live(mu[i], sigma[i], widest):
            if mu[i] > value:
                value, tied = mu[i], 0
            tied += mu[i] == value
    return value, tied


@inner(FAST)
def panels(work, pair, chain, mu, sigma, live, origin, unit, widest, k, single, out):
    """Probabilities (d,) of being among the k largest, for any scores; they add up to k."""
    row, moments = work.row, work.moments
    d = row.shape[1]
    for i in range(d):
        out[i] = 0.0
    high = -np.inf
    for i in range(d):
        if row[V, i] > 0.0:
            high = max(high, -row[M, i] + REACH * row[V, i])
    bottom = lowest(row, live)
    passed, value = 0, np.inf
    while passed < k:
        left = k - passed
        value, tied = _next_constant(mu, sigma, widest, value)
        at = max((value - origin) / unit, -1e290) if value > -np.inf else -np.inf
        low = max(at, lowest(row, left) if left <= live else bottom)
        if live and low < high:
            # A constant cuts densities off: no matter for panels.
            levels = _LEVELS if chain is not None and low > at and not passed else 0
            _integrate(work, pair, chain, np.int64(left), low, high, np.int64(levels), single)
            for i in range(d):
                out[i] += moments[0, i] * (row[BETA, i] if chain is None else 1.0)
        high = min(high, at)
        if not tied:
            break
        if live and value > -np.inf:
            places = _expected_places(work, pair, chain, np.int64(left), at, tied, single)
        else:  # all others are above
            places = float(min(tied, max(left - live, 0)))
        for i in range(d):
            if not is_live(mu[i], sigma[i], widest) and mu[i] == value:
                out[i] = places / tied
        passed += tied
    normalise(out, k)


@inner(FAST)
def normalise(out, k):
    """Make entries add up to k, as they do but for rounding."""
    total = 0.0
    for begin in range(0, out.size, 256):
        part = 0.0
        for i in range(begin, min(begin + 256, out.size)):
            part += out[i]
        total += part
    for i in range(out.size):
        out[i] = min(out[i] * (k / total), 1.0)
