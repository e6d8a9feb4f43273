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

from collections import namedtuple

import numpy as np

from mvnorth._compile import FAST, inner, scalar
from mvnorth._cpu.factor_mode import find_mode
from mvnorth._cpu.factor_nodes import (
    BETA,
    FIRST_ORDER,
    NUMERATOR,
    OFFSET,
    POWER,
    SECOND,
    SLOPE,
    SQUARE_ERROR,
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
    has_squares,
    recentre,
    set_reference,
    take_out_quadratic,
)
from mvnorth._cpu.factor_panels import panels
from mvnorth._cpu.factor_rule import Outcome, first_nodes, hides_wall, proceed
from mvnorth._cpu.factor_sweep import sweep
from mvnorth._scalar.one_factor import (
    conclude,
    curve_map,
    is_steep,
    may_count,
    measured,
    noise_of,
    rounding_in_tail,
    rounding_of,
)

LEAST_BEND = 0.18  # of the map
LARGEST_NOISE = 0.01  # relative rounding error of the integrand
LARGEST = 2.0**100
# What becomes of a row: the rule resolves it, or it has a wall, or no rule would.
DONE, WALL, HOPELESS = 0, 1, 2
# What ``integrate`` finds: the error is that of the probability, relative.
Integral = namedtuple("Integral", "log_prob error slope_error used z width whole")


@inner(FAST)
def _is_resolved(work, place, n, step, squares):
    """Whether no wall is seen among the first n nodes.

    Between walls the nodes beside the mode are far down a slope.
    """
    row, nodes, tolerance = work.row, work.nodes, TOLERANCE[place.single]
    for k in range(n // 2 - 1, n // 2 + 1):
        if is_steep(nodes[SLOPE, k], place.z, nodes[OFFSET, k], place.width):
            return False
    for i in range(row.shape[1]):
        x, beta = row[X, i], row[BETA, i]
        if hides_wall(x, beta, nodes, work.sums, n, place.width, step, tolerance, squares):
            return False
    return True


@inner(FAST)
def _gradient_is_hidden(work, z):
    """Whether phi/Phi is zero at all nodes so far, but not where |z| is up to 38."""
    if work.sums[STEEP_TOTAL] > 0.0:
        return False
    counts = False
    for i in range(work.row.shape[1]):
        counts |= may_count(work.row[X, i], work.row[BETA, i], z)
    return counts


@inner(FAST)
def _trapezoid(work, moments, place, noise):
    """``(outcome, used, top)``: the rule on as many levels as it takes.

    Totals and moments are sums over ``used`` nodes, to be multiplied by the step.
    """
    single = place.single
    squares = has_squares(moments)
    nodes, progress = first_nodes(single)
    top = sweep(
        work, moments, place, nodes.start, nodes.stride, nodes.count, np.nan, nodes.outermost
    )
    used = nodes.count
    if not _is_resolved(work, place, nodes.count, nodes.stride, squares):
        return Outcome(nodes.stride, np.inf, np.inf, np.inf), used, top
    hidden = _gradient_is_hidden(work, place.z)
    tolerance = TOLERANCE[single] + noise
    while True:
        nodes, progress, outcome = proceed(work.sums, progress, hidden, squares, single, tolerance)
        if nodes.count == 0:
            return outcome, used, top
        sweep(work, moments, place, nodes.start, nodes.stride, nodes.count, top, nodes.outermost)
        used += nodes.count


@inner(FAST)
def _mode_alone(work, moments, place):
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
    power = nodes[POWER, 0]  # which may be lost with the moments
    if moments is not None:
        add_moments(work.row, nodes, work.mills, n, 0.0, single, moments)
    return power


@inner(FAST)
def _prepare(work, moments, single):
    """``(place, constant, noise)`` of the row, centred at its mode, with empty sums.

    The constant is the logarithm of what was taken out there; the noise is relative rounding.
    """
    z, width, skew, size = find_mode(work.row)
    constant, linear, curvature = take_out_quadratic(work.row, z)
    if moments is not None and moments.shape[0] > FIRST_ORDER:
        set_reference(work.row, moments)
    a, tau = curve_map(skew, LEAST_BEND)
    clear(work.sums, moments)
    place = Place(z, width, a, tau, linear, curvature, single)
    return place, constant, noise_of(width, size, z)


@inner(FAST)
def _conclude(work, place, constant, noise, used, factor, top, correction, error, slope_error):
    sums, width, d = work.sums, place.width, work.row.shape[1]
    whole = sums[TOTAL]
    log_prob, error, slope_error = conclude(
        d, width, noise, whole, correction, factor, top, constant, sums[STEEP_TOTAL], error,
        slope_error,
    )  # fmt: skip
    share = sums[SQUARE_TOTAL] * width * width / whole
    sums[SQUARE_ERROR] += rounding_in_tail(rounding_of(d) + noise, share)
    return Integral(log_prob, error, slope_error, used, place.z, width, whole)


@inner(FAST)
def _without_rule(work, moments, place, constant, noise, used, resolvable):
    used, factor, top = np.int64(used), 1.0, 0.0
    error = slope_error = np.inf
    if resolvable:
        # Short functions are too rough to see whether panels agree.
        z, width, a, tau, linear, curvature, _ = place
        double = Place(z, width, a, tau, linear, curvature, np.int64(0))
        error, slope_error, more, top = panels(work, moments, double)
        used += more
    if not (resolvable and 0.0 < work.sums[TOTAL] < LARGEST):  # or a wall too sharp for numbers
        error = slope_error = np.inf
        clear(work.sums, moments)
        work.sums[SQUARE_ERROR] = np.inf
        recentre(work.row, place.z)
        used, factor, top = used + 8, place.width, _mode_alone(work, moments, place)
    return _conclude(work, place, constant, noise, used, factor, top, 0.0, error, slope_error)


@scalar(FAST)
def integrate_unresolved(work, moments, single, used, resolvable):
    """``integrate`` for a row that the trapezoidal rule has not resolved with ``used`` nodes.

    By panels, if it is ``resolvable``: if not the noise but a wall is the reason.
    """
    place, constant, noise = _prepare(work, moments, single)
    return _without_rule(work, moments, place, constant, noise, used, resolvable)


@inner(FAST)
def integrate_by_rule(work, moments, single):
    """``(state, integral)``: DONE, or a reason why the rule leaves the row to others.

    Moments are to be divided by the ``whole`` of the ``Integral``; slope_error is relative, of the
    derivatives, and so is sums[SQUARE_ERROR], of the second ones.  If the row is left, only what
    was ``used`` counts.
    """
    place, constant, noise = _prepare(work, moments, single)
    sums = work.sums
    state, used = np.int64(HOPELESS), np.int64(0)
    factor = top = correction = 0.0
    outcome = Outcome(1.0, np.inf, np.inf, np.inf)
    if noise <= LARGEST_NOISE:
        outcome, used, top = _trapezoid(work, moments, place, noise)
        if outcome.error == np.inf:
            state = np.int64(WALL)
        elif 0.0 < sums[TOTAL] < LARGEST:
            state = np.int64(DONE)
            sums[SQUARE_ERROR] = outcome.square_error
            factor, correction = outcome.step * place.width, measured(outcome.step, sums[SECOND])
    integral = _conclude(
        work, place, constant, noise, used, factor, top, correction, outcome.error,
        outcome.slope_error,
    )  # fmt: skip
    return state, integral


@inner(FAST)
def integrate(work, moments, single):
    """The ``Integral`` of the row, as of ``integrate_by_rule`` or ``integrate_unresolved``."""
    state, integral = integrate_by_rule(work, moments, single)
    if state == DONE:
        return integral
    return integrate_unresolved(work, moments, single, integral.used, state == WALL)
