"""Densities of a Gauss-Markov chain at its limits, of one coordinate and of two, given all limits.

With F_i what comes from the coordinates up to i and B_i from those behind it, both functions of
x_i, the density of coordinate i between all limits is F_i B_i over its integral.  At a limit it is
the derivative of log P there; messages are taken at the limit itself, from the nodes of the
neighbours, as sums of positive terms.  Given x_i at one of its limits F starts anew from that
point, and yields the density of every later coordinate at its limits.  All that is normalised
coordinate by coordinate, so that powers of two and whatever else is common cancel.

Given all limits coordinates are a Markov chain: the law of x_j given x_i comes no farther from that
without x_i, in total variation, as j goes on.  Where they agree densities are those of one
coordinate from there on, so that pairs cost O(d) times the memory of the chain.
"""

import math
from collections import namedtuple

import numpy as np

from mvnorth._compile import FAST, inner
from mvnorth._cpu.chain_passes import (
    NODES,
    gather,
    grid,
    new_rows,
    normalise,
    panels_of,
    spread,
    tilt,
)
from mvnorth._scalar.exp_log import exp_parts, power_of_two

# Rows of what is known of each coordinate between all limits: densities at its limits (0 where the
# window ends before), mean and mean absolute value of y, highest density.
LOW, HIGH, MEAN, SPREAD, PEAK = range(5)
_MOST_NUMBERS = 60_000_000  # kept at a time, 480 MB
SETTLED = 2e-15  # total variation that counts as none

# point, edge (n, 2): y and tilt at the limits, edge 0 where there is none in the window.
# behind (n, 2): B there.  first (n + 1,): where the nodes of coordinates begin.  forward: F times
# tilts.  gain, ahead: tilts, and B times weights, with sum(forward * ahead) = 1; those of
# coordinate i begin at where[i], always at 0 unless they are kept for pairs.
Messages = namedtuple("Messages", "point edge behind first where forward gain ahead")


@inner(FAST)
def _density(t):
    f, power = exp_parts(-0.5 * t * t, 0.0)
    return f * power_of_two(power)


@inner(FAST)
def _spread_forwards(chain, i, before, values, work):
    """values at the nodes of i from those of i - 1."""
    scale = 1.0 / chain.noise[i]
    pull = chain.rho[i] * scale
    start, step, count = panels_of(chain, i - 1)
    centre, width, panels = panels_of(chain, i)
    spread(
        pull * start, pull * step, count, before, scale * centre, scale * width, panels, values,
        work,
    )  # fmt: skip


@inner(FAST)
def _gather_forwards(chain, i, before, y):
    """The same at one point."""
    scale = 1.0 / chain.noise[i]
    pull = chain.rho[i] * scale
    start, step, count = panels_of(chain, i - 1)
    return gather(pull * start, pull * step, count, before, scale * y)


@inner(FAST)
def _prepare(chain, keep):
    """``Messages`` with nothing in them but the limits; without nodes if they would be too many."""
    n = chain.low.size
    first = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        first[i + 1] = first[i] + NODES * chain.panels[i]
    point, edge, behind = np.zeros((n, 2)), np.zeros((n, 2)), np.zeros((n, 2))
    for i in range(n):
        g = chain.slope[i]
        top = max(-g * chain.left[i], -g * chain.right[i])
        low, high = chain.low[i] - chain.place[i], chain.high[i] - chain.place[i]
        if chain.left[i] <= low:
            point[i, 0], edge[i, 0] = low, math.exp(-g * low - top)
        if chain.right[i] >= high:
            point[i, 1], edge[i, 1] = high, math.exp(-g * high - top)
    where = first[:n] if keep else np.zeros(n, dtype=np.int64)
    size = first[n] if keep else NODES * np.max(chain.panels)
    possible = first[n] + 2 * size <= _MOST_NUMBERS
    forward, gain, ahead = np.empty(first[n] if possible else 0), np.empty(size), np.empty(size)
    return Messages(point, edge, behind, first, where, forward, gain, ahead)


@inner(FAST)
def _forwards(chain, messages, marks):
    """Fill ``forward``; F at the limits goes into ``marks``."""
    y, w, values, before, _ = new_rows(chain)
    work = np.empty((NODES + 2, NODES))
    for i in range(chain.low.size):
        grid(chain, i, y, w)
        size = NODES * chain.panels[i]
        if i == 0:
            for k in range(size):
                values[k] = _density(y[k])
        else:
            _spread_forwards(chain, i, before, values, work)
        gain = messages.gain[messages.where[i] : messages.where[i] + size]
        tilt(chain, i, y, size, gain)
        for side in range(2):
            marks[side, i] = messages.edge[i, side]
            if marks[side, i] > 0.0:
                y_limit = messages.point[i, side]
                marks[side, i] *= (
                    _density(y_limit) if i == 0 else _gather_forwards(chain, i, before, y_limit)
                )
        for k in range(size):
            values[k] *= gain[k]
        scale = math.ldexp(1.0, -int(normalise(values, size)))
        marks[LOW, i] *= scale
        marks[HIGH, i] *= scale
        for k in range(size):
            messages.forward[messages.first[i] + k] = values[k]
            before[k] = values[k] * w[k]


@inner(FAST)
def densities(chain, keep, marks):
    """``(messages, whether all is well)``; ``marks`` (5, n) receives what is said above.

    ``keep`` says whether messages are to be kept, for ``pair_densities``.
    """
    messages = _prepare(chain, keep)
    if messages.forward.size == 0:
        return messages, False
    _forwards(chain, messages, marks)
    n = chain.low.size
    y, w, values, after, _ = new_rows(chain)
    work = np.empty((NODES + 2, NODES))
    for back in range(n):
        i = n - 1 - back
        begin, end = messages.first[i], messages.first[i + 1]
        centre, width, panels = grid(chain, i, y, w)
        size = end - begin
        gain = messages.gain[messages.where[i] : messages.where[i] + size]
        ahead = messages.ahead[messages.where[i] : messages.where[i] + size]
        tilt(chain, i, y, size, gain)
        if back == 0:
            values[:size] = 1.0
            messages.behind[i] = 1.0
        else:
            scale = 1.0 / chain.noise[i + 1]
            pull = chain.rho[i + 1] * scale
            start, step, count = panels_of(chain, i + 1)
            start, step = scale * start, scale * step
            spread(
                start, step, count, after, pull * centre, pull * width, panels, values, work
            )  # fmt: skip
            common = math.ldexp(1.0, -int(normalise(values, size)))
            for side in range(2):
                if messages.edge[i, side] > 0.0:
                    target = pull * messages.point[i, side]
                    messages.behind[i, side] = common * gather(start, step, count, after, target)
        total = mean = distance = peak = 0.0
        for k in range(size):
            ahead[k] = values[k] * w[k]
            after[k] = ahead[k] * gain[k]
            p = messages.forward[begin + k] * values[k]
            peak = max(peak, p)
            total += p * w[k]
            mean += p * w[k] * y[k]
            distance += p * w[k] * abs(y[k])
        if not (total > 0.0 and total < np.inf):
            return messages, False
        for k in range(begin, end):
            messages.forward[k] /= total
        marks[LOW, i] *= messages.behind[i, 0] / total
        marks[HIGH, i] *= messages.behind[i, 1] / total
        marks[MEAN, i], marks[SPREAD, i], marks[PEAK, i] = (
            mean / total, distance / total, peak / total
        )  # fmt: skip
    return messages, True


@inner(FAST)
def _advance(chain, messages, j, source, y, values, before, work, at):
    """Go on to coordinate j; the total variation from the law without the condition.

    ``source`` is y of coordinate j - 1 if that is given, else NaN and ``before`` has its law, which
    becomes that of j.  ``at`` (2,) receives the densities of j at its limits.  Negative if lost.
    """
    begin, end = messages.first[j], messages.first[j + 1]
    size = end - begin
    scale = 1.0 / chain.noise[j]
    pull = chain.rho[j] * scale
    w = values[1]
    grid(chain, j, y, w)
    v = values[0]
    given = not np.isnan(source)
    if given:
        for k in range(size):
            v[k] = _density(scale * y[k] - pull * source)
    else:
        _spread_forwards(chain, j, before, v, work)
    for side in range(2):
        at[side] = messages.edge[j, side] * messages.behind[j, side]
        if at[side] > 0.0:
            limit = messages.point[j, side]
            at[side] *= (
                _density(scale * limit - pull * source)
                if given
                else _gather_forwards(chain, j, before, limit)
            )
    total = 0.0
    for k in range(size):
        v[k] *= messages.gain[begin + k]
        total += v[k] * messages.ahead[begin + k]
    if not (total > 1e-250 and total < np.inf):
        return -1.0
    share = 1.0 / total
    distance = 0.0
    for k in range(size):
        v[k] *= share
        distance += abs(v[k] - messages.forward[begin + k]) * messages.ahead[begin + k]
        before[k] = v[k] * w[k]
    at[0] *= share
    at[1] *= share
    return distance


@inner(FAST)
def pair_densities(chain, messages, marks, pairs, until):
    """Densities of pairs of coordinates at their limits, summed with signs; False if lost.

    ``pairs`` (n, n) receives their sum for i < j, with a minus for each upper limit, at [i, j], and
    the sum without signs at [j, i]; ``until`` (n,) the last before what was found independent of i.
    """
    n = chain.low.size
    largest = NODES * np.max(chain.panels)
    y, before = np.empty(largest), np.empty(largest)
    values = np.empty((2, largest))
    work = np.empty((NODES + 2, NODES))
    at = np.empty(2)
    pairs[:] = 0.0
    until[:] = n
    for i in range(n):
        for side in range(2):
            p = marks[side, i]
            if not p > 0.0:
                continue
            source = messages.point[i, side]
            apart = 1.0
            for j in range(i + 1, n):
                if apart > SETTLED:
                    apart = _advance(chain, messages, j, source, y, values, before, work, at)
                    source = np.nan
                    if apart < 0.0:
                        return False
                else:
                    until[i] = min(until[i], j - 1)
                    at[0], at[1] = marks[LOW, j], marks[HIGH, j]
                sign = 1.0 if side == 0 else -1.0
                pairs[i, j] += sign * p * (at[0] - at[1])
                pairs[j, i] += p * (at[0] + at[1])
    return True
