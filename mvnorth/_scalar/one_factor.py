"""One-factor integrals: the mathematics of one coordinate, of one node and of one decision.

Both twins of every kernel call these, with their loops around them; see _cpu/factor_nodes.py for
the integrand and _cpu/factor_trapezoid.py for the rule.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, scalar
from mvnorth._scalar.exp_log import exp_parts, log_scaled, power_of_two
from mvnorth._scalar.phi_mills import FAR, far, short

_SHORT = 2e-7  # relative error of phi/Phi in single precision
_EXPONENT = 2.0**49  # exp_parts takes no more
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
_EPS = 2.0**-52
_SMALLEST = float(np.finfo(np.float64).tiny)
_SMALLEST_SINGLE = float(np.finfo(np.float32).tiny)
_SINGLE = 1e-8  # the least rounding of single precision
_DOUBLE_MAX = float(np.finfo(np.float64).max)
_SKEW = 1.2  # how much faster than the skewness asks for the map grows in its tails
_STEEP_SLOPE = 3.0  # in widths, half a step from the mode, where it is 0.3 for a normal density
_SHARP = 3.0  # change of x_i from node to node
MARGIN = 10.0  # of single derivatives over the error of their sum
_STEPS = 300  # of the search for the mode, at most
FOUND, WALL = 1, 2  # how it ends


@scalar(FAST, forceinline=True)
def far_parts(x):
    """Like ``full``, for coordinates whose exp(-x**2/2) has been taken out."""
    h, r = far(x)
    return _INV_SQRT_2_PI, (1e18 if h > 1e18 else h), 0.0, h, r, 0.0  # sixteen h must not overflow


@scalar(FAST, forceinline=True)
def log_slopes(h, r, beta):
    """Derivatives in z of log Phi(x_i): the first, minus the second, and the third."""
    once = h * beta
    twice = once * beta
    return once, twice * r, twice * beta * (r * (r + h) - 1.0)


@scalar(FAST, forceinline=True)
def quadratic_parts(delta, linear, curvature):
    """``(f, k)``: what was taken out of the integrand at the mode, delta away from it."""
    taken_out = -(linear + 0.5 * curvature * delta) * delta
    taken_out = -_EXPONENT if taken_out < -_EXPONENT else taken_out
    return exp_parts(_EXPONENT if taken_out > _EXPONENT else taken_out, 0.0)


@scalar(SUMS, forceinline=True)
def mode_parts(x):
    """``(h, r)`` as of ``full`` and ``far``, to 1e-7."""
    _, _, _, h, r, _ = short(x)
    tail = 1.0 / (abs(x) + 2.0 / abs(x))
    out = x < FAR
    return tail - x if out else h, tail if out else r


@scalar(FAST)
def step_to_mode(i, z, low, high, gentle, gentlest, first, second, third):
    """``(state, next z, low, high, gentle, gentlest)`` after step i, at z, of the search.

    ``first``, ``second``, ``third`` are the derivatives in z of sum_i log Phi(x_i), the second
    without its sign.  FOUND says that z is the mode, WALL that the next z is what to take for it,
    where the derivatives are to be found again.  The bracket is (low, high), and ``gentle`` where
    |l'| was ``gentlest``.

    l' = sum_i h_i beta_i - z falls strictly.  Newton's method for log(sum) = log(z) where both are
    positive, which is quick both where h is linear and where it falls like exp(-x**2/2); else
    Newton's for l' = 0; else the middle of the bracket.
    """
    residual = first - z
    curvature = 1.0 + second
    width = 1.0 / math.sqrt(curvature)
    step = residual / curvature
    if abs(residual) < gentlest:
        gentle, gentlest = z, abs(residual)
    # Where l is skewed the quadratic that a step relies on ends sooner.
    if abs(step) * max(1.0, abs(third) * width**3) <= 0.05 * width:
        return FOUND, z, low, high, gentle, gentlest
    if residual > 0.0:
        low = z
    else:
        high = z
    if high - low <= 4.0 * _EPS * abs(z) or i >= _STEPS - 1:  # a wall: stay on its gentle side
        return WALL, gentle, low, high, gentle, gentlest
    target = z + step
    if first * z > 0.0 and i % 4 != 3:  # now and then the other, in case this one crawls
        target = z + math.log(first / z) / (second / first + 1.0 / z)
    least = 4.0 * _EPS * abs(z)  # else z would not move
    if abs(target - z) < least:
        target = z + math.copysign(least, residual)
    if not low < target < high or i > 60:  # after 60 steps only halving is sure to end
        target = 0.5 * (low + high)
    if not abs(target) < np.inf:
        target = z + step
    return 0, target, low, high, gentle, gentlest


@scalar(FAST)
def shape_at_mode(second, third):
    """``(width, skewness)`` from the derivatives there."""
    width = 1.0 / math.sqrt(1.0 + second)
    return width, third * width**3


@scalar(FAST)
def curve_map(skew, least):
    """``(a, tau)`` of the map from t to z that takes the skewness out; a is at least ``least``."""
    kappa = skew / 3.0
    a = min(max(_SKEW * abs(kappa), least), 3.0)
    return a, min(max(kappa / a, -1.0 / _SKEW), 1.0 / _SKEW)


@scalar(FAST, forceinline=True)
def map_point(t, width, a, tau):
    """``(offset from the mode, y', y'')`` at t."""
    f, power = exp_parts(0.5 * a * t, 0.0)
    grow = f * power_of_two(power)
    shrink = 1.0 / grow
    sinh = 0.5 * (grow - shrink)
    cosh = 0.5 * (grow + shrink)
    return (
        (2.0 * width / a) * sinh * (cosh + tau * sinh),
        1.0 + 2.0 * sinh * (sinh + tau * cosh),
        a * (tau + 2.0 * sinh * (cosh + tau * sinh)),
    )


@scalar(SUMS, forceinline=True)
def node_terms(weight, stretch, turn, offset, first, bend, twist, steep, z, width, a):
    """What a node adds to the sums of F, F', F'', (F SLOPE)', (F SLOPE)'', F STEEP and, for second
    derivatives, (F SLOPE**2)', (F SLOPE**2)'', F STEEP**2; SLOPE is ``first``."""
    reach, turned = width * stretch, width * turn
    slope = first - (z + offset)
    once = slope * reach + turn / stretch  # F'/F
    twice = (slope * slope - 1.0 - bend) * reach * reach  # F''/F
    twice += 3.0 * slope * turned + a * a
    fall = -bend * reach  # of the slope, and its derivative
    bent = twist * reach * reach - bend * turned
    slope_first = weight * (once * first + fall)
    slope_second = weight * (twice * first + 2.0 * once * fall + bent)
    square = first * first
    bent = 2.0 * (fall * fall + first * bent)
    fall *= 2.0 * first  # of the square, and its derivative
    return (
        weight,
        weight * once,
        weight * twice,
        slope_first,
        slope_second,
        weight * steep,
        weight * (once * square + fall),
        weight * (twice * square + 2.0 * once * fall + bent),
        weight * steep * steep,
    )


@scalar(SUMS, forceinline=True)
def add_moment(moments, i, plain, tilted, spread, shift, x, beta):
    """Add to the moments (4, d) of coordinate i what its weighted sums over nodes give.

    These are sums of h, h times the offset, and h times the size of the offset; the moments are
    of h, h delta, h x and, about, the size of h x.
    """
    if plain > 0.0:  # else x may be infinite
        moments[0, i] += plain
        moments[1, i] += tilted + shift * plain
        moments[2, i] += beta * tilted + x * plain
        moments[3, i] += abs(beta) * spread + abs(x) * plain


@scalar(FAST)
def omitted(last, before):
    """Bound on what comes after two terms of a log-concave sequence."""
    if last <= 0.0:
        return 0.0
    return last * last / (before - last) if last < before else np.inf


@scalar(FAST)
def alias(first, second, step):
    """Size of the rule's error, from sums of first and second derivatives over its nodes."""
    scale = step / (2.0 * math.pi)
    return math.hypot(scale * scale * second, scale * first)


@scalar(FAST)
def is_steep(first, z, offset, width):
    """Whether a node beside the mode is far down a slope, as between walls."""
    return not abs(first - (z + offset)) * width <= _STEEP_SLOPE


@scalar(FAST)
def is_sharp(beta, width, step):
    """Whether a Phi(x_i) may be a step between two nodes."""
    return abs(beta) * width * step > _SHARP


@scalar(FAST)
def may_count(x, beta, z):
    """Whether some phi/Phi(x_i) is not zero where |z| is up to 38."""
    return x - abs(beta) * (38.0 + abs(z)) < 38.0


@scalar(FAST)
def noise_of(width, size, z):
    """Relative rounding error of the integrand beside its mode."""
    return _EPS * width * (size + abs(z))


@scalar(FAST)
def rounding_of(d):
    """Relative rounding error of a product of d factors."""
    return _EPS * (8.0 + 10.0 * math.sqrt(d) + 0.02 * d)


@scalar(FAST)
def rounding_in_tail(rounding, share):
    """Rounding error of a derivative that is a ``share`` of what it could be.

    Far out in the tail of the integrand it is a product of exponentials as small as it.
    """
    return rounding + 2.0 * _EPS * (-math.log(share) if 0.0 < share < 1.0 else 0.0)


@scalar(FAST)
def conclude(d, width, noise, whole, correction, factor, top, constant, steep, error, slope_error):
    """``(log_prob, rel_error, slope_error)`` from the rule's sums and errors."""
    scaled = log_scaled((whole + correction) * factor, top)
    log_prob = min(scaled + constant - _HALF_LOG_2_PI, 0.0)
    rounding = rounding_of(d) + noise
    slope_error += rounding_in_tail(rounding, steep * width / whole)
    return log_prob, error + rounding, slope_error


@scalar()
def hidden_slope(slope_error, steep, whole, width, tolerance):
    """What may hide at a wall, in E[sum_i |beta_i| h_i]."""
    return (slope_error + tolerance) * steep / whole + tolerance / width


@scalar(forceinline=True)
def slope_entry(scale, beta, v, m0, m1, m2, m3, whole, z, width, hidden):
    """Derivatives of log P in m_i, c_i, v_i from the moments of coordinate i.

    ``(in m, in c, in v, sizes of what the last two are differences of, what may hide of m and c)``.
    """
    h = scale * (m0 / whole)
    tilted = scale * (m1 / whole)
    half = 0.5 * scale * scale
    hidden_m = hidden_c = 0.0
    if abs(beta) * width > 1.0:
        hidden_m = 3.0 * hidden / abs(v)
        hidden_c = 10.0 * hidden / abs(v) * scale
    return (
        h,
        -half * (m2 / whole),
        z * h + tilted,
        half * (m3 / whole),
        (abs(z) + 4.0 * width) * h + abs(tilted),
        hidden_m,
        hidden_c,
    )


@scalar()
def slope_bounds(
    slope_error, single, largest, largest_m, largest_c, largest_v, hidden_m, hidden_c, z, width
):
    """Bounds on the errors of any derivative in m, c and v; ``largest`` is what they are cut to."""
    bound = min(MARGIN * slope_error, largest)
    cancelled = bound + _SHORT * single  # errors of phi/Phi do not cancel with the sums
    return (
        bound * largest_m + hidden_m,
        cancelled * largest_c + hidden_c,
        cancelled * largest_v + hidden_m * (abs(z) + 10.0 * width),
    )


@scalar(FAST)
def measured(step, second):
    """The part of the rule's error that its sum of F'' measures, to be added to the sum of F."""
    return (step / (2.0 * math.pi)) ** 2 * second


@scalar()
def final_value(log_prob, rel_error, rounding, lowest):
    """``(log_prob, prob, rel_error, error, lost)`` of one row, with the rounding of its results.

    Numbers too large for double precision leave nothing but their sign: those are ``lost``.
    """
    lost = math.isnan(log_prob)
    if lost:
        log_prob, rel_error = -_DOUBLE_MAX, np.inf
    rel_error += rounding * (1.0 + abs(log_prob))
    if rel_error > 1.0:  # an error of the logarithm is no longer one of the ratio
        rel_error = math.expm1(rel_error)
    prob = math.exp(log_prob)
    error = 1.0 if rel_error == np.inf else min(prob * rel_error, 1.0)
    return max(log_prob, lowest), prob, rel_error, error, lost


@scalar()
def final_bound(bound, value, lost, rounding):
    """Bound on the error of a derivative, from that of its row, with its rounding.

    ``rounding`` tells in which precision it is stored, and what underflows there.
    """
    least = bound + (_SMALLEST if rounding < _SINGLE else _SMALLEST_SINGLE)
    return (np.inf if lost or math.isnan(least) else least) + rounding * abs(value)
