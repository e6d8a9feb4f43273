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
    BEND,
    BETA,
    FIRST,
    FIRST_ORDER,
    INNER,
    LEFT,
    NODES,
    NUMERATOR,
    OFFSET,
    POWER,
    RIGHT,
    SECOND,
    SLOPE,
    SLOPE_FIRST,
    SLOPE_SECOND,
    STEEP,
    STEEP_TOTAL,
    STRETCH,
    SUMS,
    TOLERANCE,
    TOTAL,
    TURN,
    TWIST,
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
from mvnorth._scalar.exp_log import exp_parts, log_scaled, power_of_two

# Step and number of nodes to start with, and the share of the sum that the first omitted node may
# have: in double and in single precision.
_STEP = (0.55, 0.85)
_FIRST = (32, 16)
_OMITTED = (1e-17, 1e-9)
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
def place_nodes(work, place, n, start, step):
    """Offsets of t = start + k step, and y' and y'' there."""
    nodes = work.nodes
    a, tau = place.a, place.tau
    for k in range(n):
        f, power = exp_parts(0.5 * a * (start + step * k), 0.0)
        grow = f * power_of_two(power)
        shrink = 1.0 / grow
        sinh = 0.5 * (grow - shrink)
        cosh = 0.5 * (grow + shrink)
        nodes[OFFSET, k] = (2.0 * place.width / a) * sinh * (cosh + tau * sinh)
        nodes[STRETCH, k] = 1.0 + 2.0 * sinh * (sinh + tau * cosh)
        nodes[TURN, k] = a * (tau + 2.0 * sinh * (cosh + tau * sinh))


@njit(**SUMS)
def _fold(work, place, n, top):
    """Weights F / 2**top, and the totals with them."""
    nodes, sums = work.nodes, work.sums
    a, width = place.a, place.width
    for k in range(n):
        weight = nodes[NUMERATOR, k] * power_of_two(nodes[POWER, k] - top)
        nodes[WEIGHT, k] = weight * nodes[STRETCH, k]
    plain = first = second = slope_first = slope_second = steep = 0.0
    for k in range(n):
        weight, stretch, turn = nodes[WEIGHT, k], nodes[STRETCH, k], nodes[TURN, k]
        reach, turned = width * stretch, width * turn
        slope = nodes[SLOPE, k] - (place.z + nodes[OFFSET, k])
        once = slope * reach + turn / stretch  # F'/F
        twice = (slope * slope - 1.0 - nodes[BEND, k]) * reach * reach  # F''/F
        twice += 3.0 * slope * turned + a * a
        fall = -nodes[BEND, k] * reach  # of the slope, and its derivative
        bent = nodes[TWIST, k] * reach * reach - nodes[BEND, k] * turned
        plain += weight
        first += weight * once
        second += weight * twice
        slope_first += weight * (once * nodes[SLOPE, k] + fall)
        slope_second += weight * (twice * nodes[SLOPE, k] + 2.0 * once * fall + bent)
        steep += weight * nodes[STEEP, k]
    sums[TOTAL] += plain
    sums[FIRST] += first
    sums[SECOND] += second
    sums[SLOPE_FIRST] += slope_first
    sums[SLOPE_SECOND] += slope_second
    sums[STEEP_TOTAL] += steep


@njit(**INNER)
def _note_edge(sums, side, nodes, last, before):
    sums[side] = nodes[WEIGHT, last]
    sums[side + 1] = nodes[WEIGHT, before]
    sums[side + 2] = nodes[WEIGHT, last] * nodes[STEEP, last]
    sums[side + 3] = nodes[WEIGHT, before] * nodes[STEEP, before]


@njit(**INNER)
def _sweep(work, place, start, step, count, top, outermost):
    """Add ``count`` nodes from t = start on; sets the power of two ``top`` if it is NaN.

    ``outermost`` has bit 1 set if no node is further left, bit 2 if none is further right.
    """
    row, nodes, mills = work.row, work.nodes, work.mills
    for begin in range(0, count, NODES):
        n = min(NODES, count - begin)
        place_nodes(work, place, n, start + step * begin, step)
        evaluate(row, nodes, mills, n, 0.0, place.linear, place.curvature, place.single)
        if math.isnan(top):
            top = nodes[POWER, 0]
            for k in range(n):
                top = max(top, nodes[POWER, k])
        _fold(work, place, n, top)
        if outermost & 1 and begin == 0:
            _note_edge(work.sums, LEFT, nodes, 0, 1)
        if outermost & 2:
            _note_edge(work.sums, RIGHT, nodes, n - 1, n - 2)
        if work.moments.shape[1]:
            add_moments(row, nodes, mills, n, 0.0, place.single, work.moments)
    return top


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
def _has_wall(work, n, width, step, tolerance):
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
    return False


@njit(**INNER)
def _trapezoid(work, place, noise):
    """``(step, error, slope_error, used, top)``: the rule on as many levels as it takes.

    Totals and moments are sums over ``used`` nodes, to be multiplied by the step; errors are
    relative, of the integral and of that of F SLOPE, and infinite if the levels did not suffice.
    """
    single, sums = place.single, work.sums
    step, first, cut = _STEP[single], _FIRST[single], _OMITTED[single]
    # Nodes are the odd multiples of half a step, for k in [low, high).
    low, high = -(first // 2), first // 2
    top = _sweep(work, place, (low + 0.5) * step, step, first, np.nan, np.int64(3))
    used = first
    # Between walls the nodes beside the mode are far down a slope.
    middle = first // 2
    for k in range(middle - 1, middle + 1):
        slope = work.nodes[SLOPE, k] - (place.z + work.nodes[OFFSET, k])
        if not abs(slope) * place.width <= _STEEP_SLOPE:
            return step, np.inf, np.inf, used, top
    if _has_wall(work, first, place.width, step, TOLERANCE[single]):
        return step, np.inf, np.inf, used, top
    hidden = _gradient_is_hidden(work, place.z)
    for side in range(2):
        for _ in range(_EXTENSIONS):
            short = _too_short(sums, RIGHT if side else LEFT, cut)
            if not short and not (hidden and sums[STEEP_TOTAL] == 0.0):
                break
            low, high = low - 8 * (1 - side), high + 8 * side
            start = (high - 7.5 if side else low + 0.5) * step
            _sweep(work, place, start, step, np.int64(8), top, 1 + side)
            used += 8
    for level in range(_LEVELS + 1):
        fine = step * 0.5**level
        if level:  # the even multiples of half a step, then the odd ones of each finer step
            begin = low * step + (0.0 if level == 1 else fine)
            stride = step if level == 1 else 2.0 * fine
            count = high - low + 8 if level == 1 else (high - low) * 2 ** (level - 1)
            _sweep(work, place, begin, stride, count, top, np.int64(0))
            used += count
        error = _alias(sums[FIRST], sums[SECOND], fine) / sums[TOTAL]
        slope_error = _alias(sums[SLOPE_FIRST], sums[SLOPE_SECOND], fine)
        slope_error /= max(sums[STEEP_TOTAL], _SMALLEST)
        tolerance = TOLERANCE[single] + noise
        if error <= tolerance and slope_error <= 5.0 * tolerance:
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

    Moments are to be divided by whole; slope_error is relative, of the derivatives.
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
        recentre(work.row, z)
        used, factor, top = used + 8, width, _mode_alone(work, place)
    whole = work.sums[TOTAL]
    log_prob = min(log_scaled((whole + correction) * factor, top) + constant - _HALF_LOG_2_PI, 0.0)
    rounding += noise
    # A gradient far out in the tail of the integrand is a product of exponentials as small as it.
    steep = work.sums[STEEP_TOTAL] * width / whole
    depth = -math.log(steep) if 0.0 < steep < 1.0 else 0.0
    slope_error += rounding + 2.0 * _EPS * depth
    return log_prob, error + rounding, slope_error, used, z, width, whole
