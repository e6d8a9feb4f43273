"""The one-factor integral of one row: the mode, then the trapezoidal rule with a measured error.

The integrand f(z) = phi(z) prod_i Phi(x_i(z)) is log-concave.  Around its mode the trapezoidal rule
is applied in the variable t of

    z = mode + s y(t),   y(t) = (sinh(a t) + tau (cosh(a t) - 1)) / a,   y(0) = 0, y'(0) = 1,

whose y''(0) = a tau takes the skewness at the mode out, and which maps the line onto the line.

Error.  With F(t) = f(z(t)) z'(t) and step h the rule gives  integral + 2 Re Fhat(2 pi/h) + ...
where Fhat is the Fourier transform.  The same rule applied to F'' gives
0 - (2 pi/h)**2 2 Re Fhat(2 pi/h) - ..., and applied to F' the imaginary part.  F' and F'' come
almost for free from phi/Phi, so that the error of the rule is not guessed from two levels but
measured on the one that is used.  Where it is too large the step is halved; integrands with walls,
which several halvings do not resolve, go to adaptive Gauss-Legendre panels.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.factor_mode import find_mode
from mvnorth._cpu.factor_nodes import (
    BETA,
    FIRST,
    FIRST_ORDER,
    INNER,
    LEFT,
    NUMERATOR,
    OFFSET,
    POWER,
    RIGHT,
    SECOND,
    SECOND_ORDER,
    SLOPE,
    SLOPE_FIRST,
    SLOPE_SECOND,
    SQUARE_ERROR,
    SQUARE_FIRST,
    SQUARE_LEFT,
    SQUARE_RIGHT,
    SQUARE_SECOND,
    SQUARE_TOTAL,
    STEEP_TOTAL,
    TOLERANCE,
    TOTAL,
    WEIGHT,
    Place,
    X,
    add_moments,
    clear,
    evaluate,
    recentre,
    set_reference,
    take_out_quadratic,
)
from mvnorth._cpu.factor_panels import panels
from mvnorth._cpu.factor_sweep import sweep
from mvnorth._scalar.exp_log import log_scaled

# Step and number of nodes to start with, and the share of the sum that the first omitted node may
# have: in double and in single precision.
_STEP = (0.55, 0.85)
_FIRST = (32, 16)
OMITTED = (1e-17, 1e-9)
_LEVELS = 3  # halvings of the step
_SKEW = 1.2  # how much faster than the skewness asks for the map grows in its tails
_EXTENSIONS = 20  # on either side, by eight nodes
_STEEP_SLOPE = 3.0  # in widths, half a step from the mode, where it is 0.3 for a normal density
_SHARP = 3.0  # change of x_i from node to node
_HOPELESS = 0.01  # relative rounding error of the integrand
_EPS = 2.0**-52
_SMALLEST, _LARGEST = 2.0**-1022, 2.0**100
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@njit(**INNER)
def _omitted(last, before):
    """Bound on what comes after two terms of a log-concave sequence."""
    if last <= 0.0:
        return 0.0
    return last * last / (before - last) if last < before else np.inf


@njit(**INNER)
def _too_short(sums, side, cut):
    """Whether a sum goes on beyond the nodes on this side."""
    return (
        _omitted(sums[side], sums[side + 1]) > cut * sums[TOTAL]
        or _omitted(sums[side + 2], sums[side + 3]) > 10.0 * cut * sums[STEEP_TOTAL]
    )


@njit(**INNER)
def _squares_too_short(sums, side, cut):
    """The same for products of two phi/Phi, whose peak lies further out still."""
    total, edge = sums[SQUARE_TOTAL], SQUARE_RIGHT if side == RIGHT else SQUARE_LEFT
    if total == 0.0:
        return sums[STEEP_TOTAL] > 0.0
    return _omitted(sums[edge], sums[edge + 1]) > 10.0 * cut * total


@njit(**INNER)
def _alias(first, second, step):
    """Size of the rule's error, from sums of first and second derivatives over its nodes."""
    scale = step / (2.0 * math.pi)
    return math.hypot(scale * scale * second, scale * first)


@njit(**INNER)
def _gradient_is_hidden(work, z):
    """Whether phi/Phi is zero at all nodes so far, but not where |z| is up to 38."""
    if work.sums[STEEP_TOTAL] > 0.0:
        return False
    row = work.row
    nearest = np.inf
    for i in range(row.shape[1]):
        nearest = min(nearest, row[X, i] - abs(row[BETA, i]) * (38.0 + abs(z)))
    return nearest < 38.0


@njit(**INNER)
def _has_wall(work, n, width, step, tolerance, squares):
    """Whether some Phi(x_i) is a step between two nodes, where the integrand still counts.

    Nodes on either side of it cannot tell where between them it is.
    """
    row, nodes, sums = work.row, work.nodes, work.sums
    for i in range(row.shape[1]):
        if abs(row[BETA, i]) * width * step > _SHARP:
            wall = -row[X, i] / row[BETA, i]
            k = 0 if wall < 0.0 else n - 1  # the node next to it on the side of the mode
            while wall < 0.0 and nodes[OFFSET, k] < wall and k < n - 1:
                k += 1
            while wall >= 0.0 and nodes[OFFSET, k] > wall and k > 0:
                k -= 1
            f = nodes[WEIGHT, k]
            if f > tolerance * sums[TOTAL] or f > tolerance * width * step * sums[STEEP_TOTAL]:
                return True
            steepest = f * abs(row[BETA, i])
            if squares and steepest > tolerance * width * step * sums[SQUARE_TOTAL]:
                return True
    return False


@njit(**INNER)
def _trapezoid(work, place, noise):
    """``(step, error, slope_error, used, top)``: the rule on as many levels as it takes.

    Totals and moments are sums over ``used`` nodes, to be multiplied by the step; errors are
    relative, of the integral and of that of F SLOPE, and infinite if the levels did not suffice.
    """
    single, sums = place.single, work.sums
    squares = work.moments.shape[0] > SECOND_ORDER
    step, first, cut = _STEP[single], _FIRST[single], OMITTED[single]
    # Nodes are the odd multiples of half a step, for k in [low, high).
    low, high = -(first // 2), first // 2
    top = sweep(work, place, (low + 0.5) * step, step, first, np.nan, np.int64(3))
    used = first
    # Between walls the nodes beside the mode are far down a slope.
    middle = first // 2
    for k in range(middle - 1, middle + 1):
        slope = work.nodes[SLOPE, k] - (place.z + work.nodes[OFFSET, k])
        if not abs(slope) * place.width <= _STEEP_SLOPE:
            return step, np.inf, np.inf, used, top
    if _has_wall(work, first, place.width, step, TOLERANCE[single], squares):
        return step, np.inf, np.inf, used, top
    hidden = _gradient_is_hidden(work, place.z)
    for side in range(2):
        for _ in range(_EXTENSIONS):
            edge = RIGHT if side else LEFT
            short = _too_short(sums, edge, cut)
            short |= squares and _squares_too_short(sums, edge, cut)
            if not short and not (hidden and sums[STEEP_TOTAL] == 0.0):
                break
            low, high = low - 8 * (1 - side), high + 8 * side
            start = (high - 7.5 if side else low + 0.5) * step
            sweep(work, place, start, step, np.int64(8), top, 1 + side)
            used += 8
    for level in range(_LEVELS + 1):
        fine = step * 0.5**level
        if level:  # the even multiples of half a step, then the odd ones of each finer step
            begin = low * step + (0.0 if level == 1 else fine)
            stride = step if level == 1 else 2.0 * fine
            count = high - low + 1 if level == 1 else (high - low) * 2 ** (level - 1)
            sweep(work, place, begin, stride, count, top, np.int64(0))
            used += count
        error = _alias(sums[FIRST], sums[SECOND], fine) / sums[TOTAL]
        slope_error = _alias(sums[SLOPE_FIRST], sums[SLOPE_SECOND], fine)
        slope_error /= max(sums[STEEP_TOTAL], _SMALLEST)
        square_error = _alias(sums[SQUARE_FIRST], sums[SQUARE_SECOND], fine)
        square_error /= max(sums[SQUARE_TOTAL], _SMALLEST)
        tolerance = TOLERANCE[single] + noise
        # Products of two phi/Phi may be narrower than what has been measured: one step finer.
        if squares and (level == 0 or (level < _LEVELS and square_error > 5.0 * tolerance)):
            continue
        if error <= tolerance and slope_error <= 5.0 * tolerance:
            sums[SQUARE_ERROR] = square_error
            return fine, error, slope_error, used, top
    return fine, np.inf, np.inf, used, top


@njit(**INNER)
def _mode_alone(work, place):
    """All weight on the mode, for exponents so large that no two nodes can be compared.

    What is lost is far below the rounding of log P.
    """
    nodes, n = work.nodes, np.int64(8)
    for k in range(n):
        nodes[OFFSET, k] = 0.0
    linear, curvature, single = place.linear, place.curvature, place.single
    evaluate(work.row, nodes, work.mills, n, 0.0, linear, curvature, single)
    for k in range(n):
        nodes[WEIGHT, k] = nodes[NUMERATOR, k] / n
        work.sums[TOTAL] += nodes[WEIGHT, k]
    if work.moments.shape[1]:
        add_moments(work.row, nodes, work.mills, n, 0.0, single, work.moments)
    return nodes[POWER, 0]


@njit(**INNER)
def integrate(work, single):
    """``(log_prob, rel_error, slope_error, used, z, width, whole)`` of the row.

    Moments are to be divided by whole; slope_error is relative, of the derivatives, and so is
    sums[SQUARE_ERROR], of the second ones.
    """
    z, width, skew, size = find_mode(work.row)
    constant, linear, curvature = take_out_quadratic(work.row, z)
    if work.moments.shape[0] > FIRST_ORDER:
        set_reference(work.row, work.moments)
    kappa = skew / 3.0
    a = min(max(_SKEW * abs(kappa), 0.18), 3.0)
    tau = min(max(kappa / a, -1.0 / _SKEW), 1.0 / _SKEW)
    place = Place(z, width, a, tau, linear, curvature, single)
    clear(work)
    d = work.row.shape[1]
    rounding = _EPS * (8.0 + 10.0 * math.sqrt(d) + 0.02 * d)
    noise = _EPS * width * (size + abs(z))
    used, factor, top, correction = 0, 0.0, 0.0, 0.0
    error = slope_error = np.inf
    if noise <= _HOPELESS:
        step, error, slope_error, used, top = _trapezoid(work, place, noise)
        factor = step * width
        correction = (step / (2.0 * math.pi)) ** 2 * work.sums[SECOND]  # what has been measured
        if error == np.inf:
            # Short functions are too rough to see whether panels agree.
            double = Place(z, width, a, tau, linear, curvature, 0)
            error, slope_error, more, top = panels(work, double)
            used += more
            factor, correction = 1.0, 0.0
    if not 0.0 < work.sums[TOTAL] < _LARGEST:  # no hope, or a wall too sharp for numbers to resolve
        error = slope_error = np.inf
        correction = 0.0
        clear(work)
        work.sums[SQUARE_ERROR] = np.inf
        recentre(work.row, z)
        used, factor, top = used + 8, width, _mode_alone(work, place)
    whole = work.sums[TOTAL]
    log_prob = min(log_scaled((whole + correction) * factor, top) + constant - _HALF_LOG_2_PI, 0.0)
    rounding += noise
    # A gradient far out in the tail of the integrand is a product of exponentials as small as it.
    steep = work.sums[STEEP_TOTAL] * width / whole
    depth = -math.log(steep) if 0.0 < steep < 1.0 else 0.0
    slope_error += rounding + 2.0 * _EPS * depth
    steep = work.sums[SQUARE_TOTAL] * width * width / whole
    depth = -math.log(steep) if 0.0 < steep < 1.0 else 0.0
    work.sums[SQUARE_ERROR] += rounding + 2.0 * _EPS * depth
    return log_prob, error + rounding, slope_error, used, z, width, whole
