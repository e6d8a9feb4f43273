"""Tensor products of Gauss rules: where a rule is tabulated, how many nodes, and the error claimed.

See ``mvnorth._cpu.gauss`` for the method.  What is said of the variables of a problem is in small
arrays: counts (2, d) nodes of each, between two limits and with one; fewer (d,) how many less than
the largest number; alone (d,) the relative change when a variable alone has three nodes instead of
two, see ``join_changes``; change[k] the relative change of the sum from k - 1 to k nodes.
"""

import math

import numpy as np

from mvnorth._compile import FAST, scalar

MOST = 72  # nodes of a variable, at most
MOST_BETWEEN = 24  # of them between two limits, unless they are those of a large rule
LARGE, LARGE_SIZES = 4, 7  # nodes of a large rule are a multiple; rules in a row, at most
FIRST_LARGE, LAST_LARGE = 8, 47  # nodes of the variable that matters most, in terms of small rules
LARGE_COORDINATES = 6  # at most, for large rules
RULES = 12  # nodes of a variable with one limit, at most
CHUNK = 8  # numbers of a rule that are evaluated at a time
DEGREE = 11  # of the polynomials in the table
TENSOR = 10  # coordinates up to which there are products of rules
ONE_CALL = 8  # of them, up to which one compiled function does all of it
TENSOR_ONLY = 5  # coordinates up to which there are no sparse grids
SPARSE_LEVELS = 4
SPARSE_LANES = 16384  # points of a sparse grid, at most
PROMISING = 0.1  # change at the first level of a sparse grid, beyond which it is given up
EQUAL = 5  # coordinates up to which all variables have the same number of nodes
LEFT, RIGHT = -6.0, 9.0
FAR_PIECES, NEAR_PIECES = 8, 30
_FAR_SCALE = FAR_PIECES * LEFT * LEFT
_NEAR_SCALE = NEAR_PIECES / (RIGHT - LEFT)
DISTANT = 6.0  # limits: from here on a variable has the nodes of both of them
_EXTRA_NODES = 1.25  # for phi between two limits, a unit of width
_SAFETY, _FIRST_SAFETY = 4.0, 10.0  # of claimed errors, the latter with three nodes
_SPARSE_SAFETY = 2.0  # of sparse grids, in addition
_FEW = 4.0  # variables of a product whose errors need no allowance
_HISTORY = 0.1  # share of earlier changes that counts as evidence
_FASTEST, _SLOWEST = 0.03, 0.97  # range of the ratio of successive changes
STEEP = 8.0  # steepness beyond which nodes may miss a step
_STEEP_PER_NODE, _MILD = 1.5, 2.5  # steepness that a node resolves; and that needs no allowance
# By how much the forecast of an error may exceed a tolerance, and one that sampling hardly meets.
_OPTIMISM, _OPTIMISM_SMALL, _SMALL = 3.0, 100.0, 1e-6
_SAMPLED = 1e-7  # relative error that other methods do not reach either
_MOST_FEWER = 3  # nodes of a variable, than the one that matters most has
_SLOW = 0.2  # change from 2 to 3 nodes beyond which the rate is not known
_REACH = 76.0  # twice the logarithm of what is cut off
LEAST_CHANGE = 1e-15  # what rounding makes of no change
_CONVERGED = 1e-13  # changes that may be rounding


@scalar(FAST, forceinline=True)
def place_rule(b):
    """``(piece, x, high, scale)``: nodes below b are high - scale * polynomial(x) of a piece."""
    high = b if b < RIGHT else RIGHT
    far = high < LEFT
    place = _FAR_SCALE / (high * high) if far else (high - LEFT) * _NEAR_SCALE
    piece = int(place)
    last = FAR_PIECES - 1 if far else NEAR_PIECES - 1
    piece = last if piece > last else piece
    x = 2.0 * (place - piece) - 1.0
    scale = -1.0 / high if far else 1.0
    return (piece if far else piece + FAR_PIECES), x, high, scale


@scalar(FAST, forceinline=True)
def rule_width(n):
    """Return how many numbers the table has for one power of x: 2n, padded to whole chunks."""
    return -(-2 * n // CHUNK) * CHUNK


@scalar()
def steepness(T, d):
    """Return the largest norm of a row of T below its diagonal.

    The larger it is, the smaller the part of a variable within which the limits of that row are
    met or not.  The integrand has a step there, and nodes on one side of it agree on a wrong sum.
    """
    largest = 0.0
    for i in range(1, d):
        total = 0.0
        for j in range(i):
            total += T[i, j] * T[i, j]
        largest = max(largest, total)
    return math.sqrt(largest)


@scalar()
def allow_for_steps(error, n, steep):
    """Return a claimed error with n nodes a variable for an integrand with this ``steepness``."""
    if steep > _STEEP_PER_NODE * n:
        return np.inf
    return error * max(1.0, steep / _MILD) ** 2


@scalar()
def between(lower, upper, i, n):
    """Return the nodes of variable i with two limits, if it has n with one."""
    if lower is None or lower[i] == -np.inf:
        return n
    width = upper[i] - lower[i]
    return n + int(_EXTRA_NODES * max(0.0, width)) if width <= DISTANT else 2 * n


@scalar()
def set_counts(counts, n, fewer, lower, upper, d):
    """Set the nodes of all variables, n - fewer but 2 at least; return how many points that is."""
    points = 1.0
    for i in range(d - 1):
        counts[1, i] = n if n <= 2 else max(2, n - fewer[i])
        counts[0, i] = between(lower, upper, i, counts[1, i])
        points *= counts[0, i]
    return points


@scalar()
def join_changes(known, change, n):
    """Return an entry of ``alone`` from the relative change with n = 1, then with n = 3 nodes.

    The latter may be small by accident: it is about the square of the former, and counts as no
    less.
    """
    if n == 1:
        return change * change
    return max(known, change, LEAST_CHANGE)


@scalar()
def set_fewer(fewer, alone, d):
    """Let variables that matter less have fewer nodes: one for each power of ten in ``alone``."""
    largest = 0.0
    for i in range(d - 1):
        largest = max(largest, alone[i])
    for i in range(d - 1):
        fewer[i] = 0
        share = 10.0 * alone[i]
        while share <= largest and fewer[i] < _MOST_FEWER:
            fewer[i] += 1
            share *= 10.0


@scalar()
def claim(change, n):
    """Return a bound on the relative error of the sum with n nodes a variable, from ``change``.

    Two sums may agree by accident, so earlier changes count as well, and changes that do not fall
    are taken for the start of a long series.  The constants are measured (docs/gauss.md).
    """
    if n < 3:
        return np.inf
    evidence, share, ratio = 0.0, 1.0, _FASTEST
    for k in range(n, max(1, n - 3), -1):
        evidence = max(evidence, share * change[k])
        share *= _HISTORY
    for k in range(n, max(2, n - 3), -1):
        ratio = max(ratio, change[k] / change[k - 1])
    ratio = min(ratio, _SLOWEST)
    series = ratio / (1.0 - ratio) if change[n] > _CONVERGED else 1.0
    return (_FIRST_SAFETY if n == 3 else _SAFETY) * evidence * series


@scalar()
def claimed_error(change, n, counts, alone, d):
    """Return ``claim`` and what variables that still have two nodes may add.

    The more variables, the more of them are less accurate than the changes tell.
    """
    error = claim(change, n)
    if n > 2:
        for i in range(d - 1):
            if counts[1, i] == 2:
                error += _SAFETY * alone[i]
    return error * max(1.0, (d - 1) / _FEW)


@scalar()
def sparse_claim(change, level):
    """Return ``claim`` for a level of a sparse grid: its products are too small to agree well."""
    return _SPARSE_SAFETY * claim(change, level + 1)


@scalar()
def largest_error(relative, absolute, log_prob):
    """Return the relative error that a tolerance allows."""
    return max(relative, absolute * math.exp(-log_prob)) if absolute > 0.0 else relative


@scalar()
def forecast_target(target):
    """Return the largest forecast of an error for which it is worth while to go on."""
    return max(_SAMPLED, target * (_OPTIMISM_SMALL if target < _SMALL else _OPTIMISM))


@scalar()
def points_suffice(change, n, error, target, spent, most, counts, fewer, lower, upper, d):
    """Return whether the points will do, should the error fall on as it did, or a little faster.

    Changes ``counts``.
    """
    ratio, m, need = math.sqrt(change[n] / change[n - 2]), n, 0.0
    target = forecast_target(target)
    while error > target and m <= RULES and spent + need <= most:
        m += 1
        error *= ratio
        need = set_counts(counts, m, fewer, lower, upper, d)
    return error <= target and m <= RULES and spent + need <= most


@scalar()
def next_large(n):
    """Return the nodes after n, in terms of small rules."""
    return n * 13 // 10 + 1


@scalar()
def set_large(counts, n, alone, lower, upper, d):
    """Set the nodes of all variables for an error of which each has about the same share.

    The error of a variable falls like a power of ``alone`` with its nodes, from 2 to 3.  More than
    RULES nodes are half as many again of Legendre's rule, in ``counts`` twice.  Return how many
    points that is.
    """
    largest, points = 0.0, 1.0
    for i in range(d - 1):
        largest = max(largest, alone[i])
    largest = min(max(largest, LEAST_CHANGE), _SLOW)
    for i in range(d - 1):
        share = math.log(largest) / math.log(min(max(alone[i], LEAST_CHANGE), largest))
        own = max(3, math.ceil(n * share))
        if own <= RULES:
            counts[1, i] = own
            counts[0, i] = between(lower, upper, i, own)
        else:
            counts[0, i] = counts[1, i] = -(-3 * own // (2 * LARGE)) * LARGE
        points *= counts[0, i]
    return points


@scalar(FAST, forceinline=True)
def cut_interval(low, high):
    """Return the part of [low, high] that holds the normal distribution there, but for 1e-16."""
    near_low, near_high = (low if low > 0.0 else 0.0), (high if high < 0.0 else 0.0)
    end = math.sqrt(near_low * near_low + _REACH)
    start = -math.sqrt(near_high * near_high + _REACH)
    return (low if low > start else start), (high if high < end else end)


@scalar()
def sparse_points(variables, level):
    """Return the points of a sparse grid, C(2 variables + level, level)."""
    points = 1.0
    for s in range(level):
        points *= (2.0 * variables + s + 1.0) / (s + 1.0)
    return points


@scalar()
def sparse_is_done(change, level, error, target):
    """Return whether a level of a sparse grid is the last: good enough, or none will be."""
    if error < np.inf and error <= target:
        return True
    if level == 1 or target == 0.0:
        return level == 1 and change[2] > PROMISING
    ratio = change[level + 1] / change[level]
    return error * ratio ** (SPARSE_LEVELS - level) > forecast_target(target)


@scalar()
def meets(relative, absolute, log_prob, error):
    """Return whether a relative error, if finite, is within the tolerance."""
    return error < np.inf and error <= largest_error(relative, absolute, log_prob)
