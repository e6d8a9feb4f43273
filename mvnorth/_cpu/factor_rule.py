"""When the trapezoidal rule for the one-factor integral has enough nodes; see factor_trapezoid.py.

Decisions by sums over nodes, which both twins' kernels call.
"""

from collections import namedtuple

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._cpu.factor_nodes import (
    FIRST,
    LEFT,
    OFFSET,
    RIGHT,
    SECOND,
    SLOPE_FIRST,
    SLOPE_SECOND,
    SQUARE_FIRST,
    SQUARE_LEFT,
    SQUARE_RIGHT,
    SQUARE_SECOND,
    SQUARE_TOTAL,
    STEEP_TOTAL,
    TOTAL,
    WEIGHT,
)
from mvnorth._scalar.one_factor import alias, is_sharp, omitted

# Step and number of nodes to start with, and the share of the sum that the first omitted node may
# have: in double precision, for results in single precision, and if it is computed in that too.
_STEP = (0.55, 0.85, 0.95)
_FIRST = (32, 16, 12)
OMITTED = (1e-17, 1e-9, 1e-7)
_LEVELS = 3  # halvings of the step
_EXTENSIONS = 20  # on either side, by eight nodes
_SMALLEST = 2.0**-1022
# Nodes to add: count of them from t = start on, stride apart; bit 1 of outermost is set if no node
# is further left, bit 2 if none is further right.
Nodes = namedtuple("Nodes", "count start stride outermost")
# Where the rule stands: nodes are the odd multiples of half a step, for k in [low, high); side is
# the one that may still be too short, after so many tries, 2 if neither; then the level.
Progress = namedtuple("Progress", "low high side tries level")
# Errors are relative, of the integral, of that of F SLOPE and of that of F SLOPE**2; infinite if
# the levels did not suffice.
Outcome = namedtuple("Outcome", "step error slope_error square_error")


@scalar(FAST)
def _too_short(sums, side, cut):
    """Whether a sum goes on beyond the nodes on this side."""
    return (
        omitted(sums[side], sums[side + 1]) > cut * sums[TOTAL]
        or omitted(sums[side + 2], sums[side + 3]) > 10.0 * cut * sums[STEEP_TOTAL]
    )


@scalar(FAST)
def _squares_too_short(sums, side, cut):
    """The same for products of two phi/Phi, whose peak lies further out still."""
    total, edge = sums[SQUARE_TOTAL], SQUARE_RIGHT if side == RIGHT else SQUARE_LEFT
    if total == 0.0:
        return sums[STEEP_TOTAL] > 0.0
    return omitted(sums[edge], sums[edge + 1]) > 10.0 * cut * total


@scalar(FAST)
def _outcome(sums, step):
    """What the rule has reached with a step, by its sums."""
    error = alias(sums[FIRST], sums[SECOND], step) / sums[TOTAL]
    slope_error = alias(sums[SLOPE_FIRST], sums[SLOPE_SECOND], step)
    slope_error /= max(sums[STEEP_TOTAL], _SMALLEST)
    square_error = alias(sums[SQUARE_FIRST], sums[SQUARE_SECOND], step)
    square_error /= max(sums[SQUARE_TOTAL], _SMALLEST)
    return Outcome(step, error, slope_error, square_error)


@scalar(FAST)
def first_nodes(single):
    """``(nodes, progress)`` to begin with."""
    step, half = _STEP[single], _FIRST[single] // 2
    nodes = Nodes(np.int64(2 * half), (0.5 - half) * step, step, np.int64(3))
    return nodes, Progress(np.int64(-half), np.int64(half), np.int64(0), np.int64(0), np.int64(0))


@scalar(FAST)
def proceed(sums, progress, hidden, squares, single, tolerance):
    """``(nodes, progress, outcome)``: what to add next, which is nothing in the end.

    ``hidden`` says that phi/Phi was zero at the first nodes, though not everywhere; ``squares``
    that second derivatives are wanted; ``tolerance`` is that of the integral, with its noise.
    """
    low, high, side, tries, level = progress
    step, cut = _STEP[single], OMITTED[single]
    while side < 2:
        edge = RIGHT if side else LEFT
        short = _too_short(sums, edge, cut)
        short |= squares and _squares_too_short(sums, edge, cut)
        short |= hidden and sums[STEEP_TOTAL] == 0.0
        if short and tries < _EXTENSIONS:
            low, high = low - 8 * (1 - side), high + 8 * side
            start = (high - 7.5 if side else low + 0.5) * step
            nodes = Nodes(np.int64(8), start, step, 1 + side)
            outcome = Outcome(step, np.inf, np.inf, np.inf)
            return nodes, Progress(low, high, side, tries + 1, level), outcome
        side, tries = side + 1, np.int64(0)
    fine = step / (1 << level)
    outcome = _outcome(sums, fine)
    # Products of two phi/Phi may be narrower than what has been measured: one step finer.
    finer = level == 0 or (level < _LEVELS and outcome.square_error > 5.0 * tolerance)
    nodes = Nodes(np.int64(0), 0.0, 0.0, np.int64(0))
    there = Progress(low, high, side, tries, level)
    settled = outcome.error <= tolerance and outcome.slope_error <= 5.0 * tolerance
    if settled and not (squares and finer):
        return nodes, there, outcome
    if level == _LEVELS:
        return nodes, there, Outcome(fine, np.inf, np.inf, np.inf)
    # The even multiples of half a step, then the odd ones of each finer step.
    level += 1
    fine *= 0.5
    count = high - low + 1
    start, stride = low * step, step
    if level > 1:
        count = (high - low) << (level - 1)
        start, stride = low * step + fine, 2.0 * fine
    nodes = Nodes(count, start, stride, np.int64(0))
    return nodes, Progress(low, high, side, tries, level), outcome


@scalar(FAST)
def hides_wall(x, beta, nodes, sums, n, width, step, tolerance, squares):
    """Whether Phi(x_i) is a step between two of the n nodes, where the integrand still counts.

    Nodes on either side of it cannot tell where between them it is.
    """
    if not is_sharp(beta, width, step):
        return False
    wall = -x / beta
    k = 0 if wall < 0.0 else n - 1  # the node next to it on the side of the mode
    while wall < 0.0 and nodes[OFFSET, k] < wall and k < n - 1:
        k += 1
    while wall >= 0.0 and nodes[OFFSET, k] > wall and k > 0:
        k -= 1
    f = nodes[WEIGHT, k]
    if f > tolerance * sums[TOTAL] or f > tolerance * width * step * sums[STEEP_TOTAL]:
        return True
    return squares and f * abs(beta) > tolerance * width * step * sums[SQUARE_TOTAL]
