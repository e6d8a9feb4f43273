"""The one-factor integral of one row: the mode, then the trapezoidal rule with a measured error.

The integrand f(z) = phi(z) prod_i Phi(x_i(z)) is log-concave.  Its mode is found by a safeguarded
Newton method; then the trapezoidal rule is applied in the variable t of

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

from mvnorth._cpu.factor_nodes import (
    BEND,
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
    STEEP,
    STEEP_TOTAL,
    STRETCH,
    SUMS,
    TOLERANCE,
    TOTAL,
    TURN,
    WEIGHT,
    Place,
    add_moments,
    clear,
    evaluate,
    set_reference,
    slopes,
    take_out_quadratic,
)  # fmt: skip
from mvnorth._cpu.factor_panels import offset, panels
from mvnorth._scalar.exp_log import exp_parts, log_scaled, power_of_two

# Step and number of nodes to start with, error to reach, and the share of the sum that the first
# omitted node may have: in double and in single precision.
_STEP = (0.55, 0.85)
_FIRST = (32, 16)
_OMITTED = (1e-17, 1e-9)
_LEVELS = 3  # halvings of the step
_SKEW = 1.2  # how much faster than the skewness asks for the map grows in its tails
_EXTENSIONS = 20  # on either side, by eight nodes
_TINY_GRADIENT = 1e-9
_EPS = 2.0**-52
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@njit(**INNER)
def _find_mode(row):
    """``(z, width, skewness, size)``: the mode, within 0.05 widths.

    Width is (-l'')**(-1/2), skewness the third derivative of l times width**3, and size is
    sum_i |h_i beta_i|.

    l' = sum_i h_i beta_i - z falls strictly.  Newton's method for log(sum) = log(z) where both are
    positive, which is quick both where h is linear and where it falls like exp(-x**2/2); else
    Newton's for l' = 0; else the middle of the bracket.
    """
    low, high = -np.inf, np.inf
    z = 0.0
    for i in range(200):
        first, second, third, size = slopes(row, z)
        residual = first - z
        curvature = 1.0 + second
        width = 1.0 / math.sqrt(curvature)
        step = residual / curvature
        if abs(step) <= 0.05 * width or high - low <= 4.0 * _EPS * abs(z):
            break
        if residual > 0.0:
            low = z
        else:
            high = z
        target = z + step
        if first * z > 0.0 and i % 4 != 3:
            target = z + math.log(first / z) / (second / first + 1.0 / z)
        if not low < target < high or i > 60:
            target = 0.5 * (low + high)
        if not abs(target) < np.inf:
            target = z + step
        z = target
    else:
        step = 0.0
    return z + step, width, third * width**3, size


@njit(**INNER)
def _place_nodes(work, place, n, start, step):
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
    plain = first = second = steep = 0.0
    for k in range(n):
        weight, stretch, turn = nodes[WEIGHT, k], nodes[STRETCH, k], nodes[TURN, k]
        slope = nodes[SLOPE, k] - (place.z + nodes[OFFSET, k])
        reach = width * stretch
        curve = (slope * slope - 1.0 - nodes[BEND, k]) * reach * reach
        plain += weight
        first += weight * (slope * reach + turn / stretch)
        second += weight * (curve + 3.0 * slope * width * turn + a * a)
        steep += weight * nodes[STEEP, k]
    sums[TOTAL] += plain
    sums[FIRST] += first
    sums[SECOND] += second
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
        _place_nodes(work, place, n, start + step * begin, step)
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
def _trapezoid(work, place):
    """``(step, error, used, top, low, high)``: the rule on as many levels as it takes.

    Totals and moments are sums over ``used`` nodes, to be multiplied by the step; error is
    relative, and infinite if the levels did not suffice; low and high are the ends in t.
    """
    single = place.single
    step, first, cut = _STEP[single], _FIRST[single], _OMITTED[single]
    # Nodes are the odd multiples of half a step, for k in [low, high).
    low, high = -(first // 2), first // 2
    top = _sweep(work, place, (low + 0.5) * step, step, first, np.nan, np.int64(3))
    used = first
    for side in range(2):
        for _ in range(_EXTENSIONS):
            if not _too_short(work.sums, RIGHT if side else LEFT, cut):
                break
            low, high = low - 8 * (1 - side), high + 8 * side
            start = (high - 7.5 if side else low + 0.5) * step
            _sweep(work, place, start, step, np.int64(8), top, 1 + side)
            used += 8
    error = np.inf
    gradient = 0.0
    for level in range(_LEVELS + 1):
        if level == 1:  # the even multiples of half a step
            used += high - low + 8
            _sweep(work, place, low * step, step, high - low + 8, top, np.int64(0))
        elif level > 1:  # the odd multiples of the new step
            count = (high - low) * 2 ** (level - 1)
            used += count
            fine = step * 0.5**level
            _sweep(work, place, low * step + fine, 2.0 * fine, count, top, np.int64(0))
        fine = step * 0.5**level
        scale = fine / (2.0 * math.pi)
        error = math.hypot(scale * scale * work.sums[SECOND], scale * work.sums[FIRST])
        error /= work.sums[TOTAL]
        settled = error <= TOLERANCE[single] + _EPS * place.width * abs(place.z)
        # A gradient too small to show in F' is checked by two levels.
        if work.sums[STEEP_TOTAL] * place.width < _TINY_GRADIENT * work.sums[TOTAL]:
            before, gradient = gradient, work.sums[STEEP_TOTAL] * fine
            settled &= abs(gradient - before) <= 100.0 * TOLERANCE[single] * gradient
        if settled:
            return fine, error, used, top, low * step, high * step
    return fine, np.inf, used, top, low * step, high * step


@njit(**INNER)
def integrate(work, single):
    """``(log_prob, rel_error, used, z, whole)`` of the row; moments are to be divided by whole."""
    z, width, skew, size = _find_mode(work.row)
    constant, linear, curvature = take_out_quadratic(work.row, z)
    if work.moments.shape[0] > FIRST_ORDER:
        set_reference(work.row, work.moments)
    kappa = skew / 3.0
    a = min(max(_SKEW * abs(kappa), 0.18), 3.0)
    tau = min(max(kappa / a, -1.0 / _SKEW), 1.0 / _SKEW)
    place = Place(z, width, a, tau, linear, curvature, single)
    clear(work)
    step, error, used, top, low, high = _trapezoid(work, place)
    factor = step * width
    if error == np.inf:
        error, more = panels(work, place, offset(place, low), offset(place, high), top)
        used += more
        factor = 1.0
    whole = work.sums[TOTAL]
    log_prob = log_scaled(whole * factor, top) + constant - _HALF_LOG_2_PI
    d = work.row.shape[1]
    rounding = _EPS * (8.0 + 5.0 * math.sqrt(d) + width * (size + abs(z)))
    return min(log_prob, 0.0), error + rounding, used, z, whole
