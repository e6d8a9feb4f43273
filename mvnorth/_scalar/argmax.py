"""Who wins: the mathematics of one score, of one node and of one decision, see _cpu/argmax.py."""

import math
from collections import namedtuple

import numpy as np

from mvnorth._compile import FAST, SUMS, scalar
from mvnorth._scalar.exp_log import power_of_two, scale_by_power

REACH = 10.0  # deviations beyond which a tail is nothing, even of 100,000 scores
ABSENT = 1e290
_CONSTANT = 2.0**-53  # of the largest deviation; below it a score is constant
# Step, nodes left and right of the mode to start with, and what may be omitted at an end: in double
# and in single precision.  The numbers suit normal scores of like deviations, whose maximum has a
# skewness between 0 and 1, where nearly normal tails reach further than Gumbel's in the map.
_STEP = (0.42, 0.72)
_LEFT_NODES, _RIGHT_NODES = (17, 8), (15, 8)
_MORE = (4, 0)  # on either side for a map that bends less than _BEND
_BEND = 1.2 * 0.55 / 3.0
_OMITTED = (1e-17, 1e-8)
_LEVELS = 2  # halvings of the step
_EXTENSIONS = 4  # on either side, by eight nodes
_SHARP = 3.0  # deviations from node to node
_COARSE = (1e-7, 1e-2)  # error that the rule may have with twice the step
LEAST_BEND = 0.1  # of the map
MODE_STEPS = 60  # at most
FOUND, SUFFICES, FAILS = 1, 1, 2
# Places in sums: of F', of F' over every other node and of F'' over all nodes; F at the first node;
# F' at the last and before it.
TOTAL, OTHER, FIRST, LEFT, RIGHT, BEFORE = range(6)
# Nodes to add: count of them from t = start on, stride apart.
Nodes = namedtuple("Nodes", "count start stride")
# Where the rule stands: nodes are the odd multiples of half a step, for k in [low, high); side is
# the one that may still be too short, after so many tries, 2 if neither; then the level, F' at the
# last node on the right and before it, and the error with twice the step.
Progress = namedtuple("Progress", "low high side tries level right before coarse")


@scalar(FAST)
def is_live(mu, sigma, widest):
    """Whether a score is neither minus infinity nor constant."""
    return mu > -np.inf and sigma > _CONSTANT * widest


@scalar(FAST)
def unit_of(widest):
    """A power of two near the largest deviation."""
    if widest > 0.0:
        return scale_by_power(1.0, 1.0 * math.floor(math.log2(widest)))
    return 1.0


@scalar(FAST)
def in_units(mu, sigma, origin, unit):
    """``(high, low, deviation)`` of a live score: origin - mu as an unrounded sum, in units."""
    difference = origin - mu
    back = difference - origin
    rest = (origin - (difference - back)) - (mu + back)
    high = min(max(difference / unit, -ABSENT), ABSENT)
    return high, rest / unit if abs(high) < ABSENT else 0.0, sigma / unit


@scalar(SUMS, forceinline=True)
def score_slopes(h, r, beta):
    """``(S_i, -S_i', S_i'', S_i''')`` for S_i = h((s - mu_i) / sigma_i) / sigma_i."""
    bend = r * (r + h) - 1.0
    zeroth = h * beta
    first = zeroth * beta
    second = first * beta
    third = second * beta * ((1.0 - h * r) * (2.0 * r + h) - h * r * r - r * bend)
    return zeroth, first * r, second * bend, third


@scalar(FAST)
def step_to_score(s, low, high, zeroth, first, second, third):
    """``(state, s, low, high, width, skewness)`` after a step, at s, to a mode of F'.

    ``zeroth``, ... are the sum S of h_i / sigma_i at s and its derivatives.  F'' = F (S**2 + S').
    Newton's method for log(S**2) = log(-S'), which is linear where F is like Gumbel's distribution,
    safeguarded by a bracket.
    """
    ratio = first / zeroth
    curvature = first + second / zeroth - ratio * ratio  # of log F'
    excess = math.log(zeroth * zeroth / -first)
    fall = 2.0 * ratio - second / first
    step = -excess / fall
    if curvature < 0.0 and fall < 0.0:
        width = 1.0 / math.sqrt(-curvature)
        if abs(step) <= 0.1 * width:
            bend = second + third / zeroth - 3.0 * ratio * second / zeroth + 2.0 * ratio**3
            return FOUND, s + step, low, high, width, bend * width**3
    if excess > 0.0:
        low = s
    else:
        high = s
    s += step
    if not (fall < 0.0 and low < s < high):
        s = 0.5 * (low + high)
    return 0, s, low, high, 0.0, 0.0


@scalar(FAST)
def hides(x, beta, width, single):
    """Whether a score is so narrow that it hides between nodes, and not far below all of them."""
    return beta * width * _STEP[single] > _SHARP and x < 12.0 * width * beta


@scalar(FAST, forceinline=True)
def score_node(numerator, power, stretch, turn, slope, bend, width, odd):
    """``(weight, F', F' if odd, F'')`` of a node."""
    f = numerator * power_of_two(power)
    weight = f * stretch
    change = (slope * slope - bend) * width * stretch
    return weight, weight * slope, weight * slope * odd, weight * change + f * slope * turn


@scalar(FAST)
def first_nodes(a, single):
    """``(nodes, progress)`` to begin with, for a map that bends like a."""
    step, more = _STEP[single], _MORE[single] if a < _BEND else 0
    low, high = np.int64(-_LEFT_NODES[single] - more), np.int64(_RIGHT_NODES[single] + more)
    nodes, none = Nodes(high - low, (low + 0.5) * step, step), np.int64(0)
    return nodes, Progress(low, high, none, none, none, 0.0, 0.0, 0.0)


@scalar(FAST)
def proceed(sums, progress, width, single, allowed):
    """``(nodes, progress, state)``: what to add next, until the rule SUFFICES or FAILS."""
    low, high, side, tries, level, right, before, coarse = progress
    step, cut = _STEP[single], _OMITTED[single]
    none = Nodes(np.int64(0), 0.0, 0.0)
    if side == 1 or (side == 0 and tries == 0):  # what is added on the left is not on the right
        right, before = sums[RIGHT], sums[BEFORE]
    if side == 0:
        if tries < _EXTENSIONS and not sums[LEFT] <= cut:  # all that is left of a node is F there
            low -= 8
            nodes = Nodes(np.int64(8), (low + 0.5) * step, step)
            return nodes, Progress(low, high, side, tries + 1, level, right, before, coarse), 0
        side, tries = np.int64(1), np.int64(0)
    if side == 1:
        ends = right < before and width * right * right <= cut * (before - right)
        if tries < _EXTENSIONS and not (ends or right <= 0.0):
            high += 8
            nodes = Nodes(np.int64(8), (high - 7.5) * step, step)
            return nodes, Progress(low, high, side, tries + 1, level, right, before, coarse), 0
        side = np.int64(2)
        coarse = abs(2.0 * step * width * sums[OTHER] - 1.0)
    fine = step / (1 << level)
    real = abs(fine * width * sums[TOTAL] - 1.0)
    imaginary = abs(fine / (2.0 * math.pi) * fine * width * sums[FIRST])
    there = Progress(low, high, side, tries, level + 1, right, before, real)
    # Errors of several scores may cancel: with twice the step it must be good already.
    if real <= allowed and imaginary <= allowed and coarse <= _COARSE[single]:
        return none, there, SUFFICES
    if real > 0.1 or level == _LEVELS:
        return none, there, FAILS
    if level == 0:  # the even multiples of half a step
        return Nodes(high - low + 8, low * step, step), there, 0
    fine *= 0.5  # the odd multiples of the new step
    return Nodes((high - low) << level, low * step + fine, 2.0 * fine), there, 0
