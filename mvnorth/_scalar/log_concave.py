"""Integrals of log-concave functions of one variable to rounding accuracy, with their error.

Log-concavity makes the search safe: from anywhere uphill leads to the mode, and on either side
the function loses a factor exp(40) once.  Between those two points Gauss-Legendre panels are
halved until the Legendre series of each panel's own values has converged: its last coefficients,
and its distance from the function at the two ends of the panel, are the estimate of the error.
That is the error of the interpolant, not the much smaller one of the rule, but nothing else that
we tried survives a small kink, or a wall between the last node and the end of the panel.
"""

import math
from collections.abc import Callable

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.exp_log import log_scaled, power_of_two, split_mantissa
from mvnorth._tables.quadrature import PANEL_NODES, PANEL_SERIES, PANEL_WEIGHTS

_NODES = np.array(PANEL_NODES)
_RULES = np.array((PANEL_WEIGHTS, *PANEL_SERIES))
_SIZE = len(PANEL_NODES)
_PANELS = 64  # at most; what is unresolved then goes into the error
_TOLERANCE = 1e-13
_NOISE = 50.0  # bound on how much the sums of ``panel`` magnify errors of the values
_DROP_MIN, _DROP, _DROP_MAX = 37.0, 40.0, 46.0


@scalar()
def _push(stack, i, origin, width, f_low, f_high):
    stack[i, 0] = origin
    stack[i, 1] = width
    stack[i, 2] = f_low
    stack[i, 3] = f_high


def log_concave_integrator(parts: Callable) -> Callable:
    """Compile ``integrate(p, low, high, start, step)`` for the function ``parts``.

    Parameters
    ----------
    parts
        Compiled.  ``parts(p, t)`` is ``(f, k, error)``: at t the function, log-concave, is
        f * 2**k with f >= 0, up to the relative error ``error``; p is a tuple of numbers.

    Returns
    -------
    integrate
        ``integrate(p, low, high, start, step)`` is ``(f, k, error, mode, nodes)``: the integral
        over (low, high), either of which may be infinite, is f * 2**k up to the relative error
        ``error``; the function is highest near ``mode``; ``nodes`` of the rule were used.  The
        search for the mode begins at ``start``, inside the limits, with the step ``step``.
    """

    @scalar(FAST)
    def log_value(p, t):
        f, k, _ = parts(p, t)
        return log_scaled(f, k) if f > 0.0 else -np.inf

    @scalar(FAST)
    def reach(p, x, log_x, end, log_end, limit):
        """From x over ``end`` to where the function has lost exp(_DROP), or to ``limit``."""
        inner, root_inner = x, 0.0  # the square root of the drop is almost linear
        outer, log_outer, root_outer = x, log_x, -1.0
        target = math.sqrt(_DROP)
        for i in range(60):
            drop = log_x - log_end
            root = math.sqrt(max(drop, 1e-3))
            if drop > _DROP_MAX:
                outer, log_outer, root_outer = end, log_end, root
            elif drop > _DROP_MIN or end == limit:
                root_outer = -1.0
                break
            else:
                inner, root_inner = end, root
            if root_outer > 0.0:
                share = (target - root_inner) / (root_outer - root_inner)
                share = 0.5 if i > 4 and i % 2 == 0 else share  # in case of a wall
                end = inner + (outer - inner) * share
            else:
                end = x + (end - x) * min(target / root, 10.0)
                end = min(end, limit) if limit > x else max(end, limit)
            log_end = log_value(p, end)
        if root_outer > 0.0:  # not found: too far is safe
            end, log_end = outer, log_outer
        return end, log_end

    @scalar(FAST)
    def panel(p, low, width, f_low, f_high, k_peak):
        """``(integral, error of the rule, error of the values, where to split)`` of one panel."""
        values = np.empty(_SIZE)  # a loop of their own, which is vector code if ``parts`` is
        errors = np.empty(_SIZE)
        for i in range(_SIZE):
            f, k, error = parts(p, low + width * _NODES[i])
            values[i] = f * power_of_two(k - k_peak)
            errors[i] = error * values[i]
        total = inherited = noise = 0.0
        c_0 = c_1 = c_2 = c_3 = 0.0
        for i in range(_SIZE):
            f = values[i]
            total += _RULES[0, i] * f
            c_0 += _RULES[1, i] * f
            c_1 += _RULES[2, i] * f
            c_2 += _RULES[3, i] * f
            c_3 += _RULES[4, i] * f
            f_low -= _RULES[5, i] * f
            f_high -= _RULES[6, i] * f
            inherited += _RULES[0, i] * errors[i]
            noise = max(noise, errors[i])
        f_low, f_high = abs(f_low), abs(f_high)
        rest = max(abs(c_0), abs(c_1)) + max(abs(c_2), abs(c_3)) + f_low + f_high
        split = 0.5
        if max(f_low, f_high) > 8.0 * min(f_low, f_high):  # what is unresolved is near that end
            split = 1.0 / 8.0 if f_low > f_high else 7.0 / 8.0
        return width * total, width * max(rest - _NOISE * noise, 0.0), width * inherited, split

    @scalar(FAST)
    def integrate(p, low, high, start, step):
        # Climb in growing steps until the middle one of a <= x <= b is the highest.
        x = start
        log_x = log_value(p, x)
        a, b = max(low, x - step), min(high, x + step)
        log_a, log_b = log_value(p, a), log_value(p, b)
        for _ in range(60):
            step *= 2.0
            if log_b > log_x:
                a, log_a, x, log_x = x, log_x, b, log_b
                b = min(high, x + step)
                log_b = log_value(p, b)
            elif log_a > log_x:
                b, log_b, x, log_x = x, log_x, a, log_a
                a = max(low, x - step)
                log_a = log_value(p, a)
            else:
                break
        # Narrow until the chords, extended, bound the peak by e times the value at x; with x on
        # a limit there is only one chord.
        for _ in range(60):
            left, right = x - a, b - x
            inside = left > 0.0 and right > 0.0
            if log_x - log_a <= (left / right if inside else 1.0) and log_x - log_b <= (
                right / left if inside else 1.0
            ):
                break
            if right > left:
                y = x + 0.4 * right
                log_y = log_value(p, y)
                if log_y > log_x:
                    a, log_a, x, log_x = x, log_x, y, log_y
                else:
                    b, log_b = y, log_y
            else:
                y = x - 0.4 * left
                log_y = log_value(p, y)
                if log_y > log_x:
                    b, log_b, x, log_x = x, log_x, y, log_y
                else:
                    a, log_a = y, log_y
        f, k_peak, error_x = parts(p, x)
        if not (f > 0.0 and log_x < np.inf):
            return 0.0, 0.0, np.inf, x, 0
        _, k = split_mantissa(f)
        k_peak += k  # from here on the function is counted in units of 2**k_peak
        f_x = f * power_of_two(-k)
        tolerance = max(_TOLERANCE, error_x)

        stack = np.empty((_PANELS, 4))  # panels to do: origin, width, values at both ends
        size = 0
        floor = 0.0  # the integral is larger: exponentials lie below it
        if a < x:
            end, log_end = reach(p, x, log_x, a, log_a, low)
            _push(stack, size, end, x - end, f_x * math.exp(log_end - log_x), f_x)
            floor += f_x * (x - end) / _DROP_MAX
            size += 1
        if b > x:
            end, log_end = reach(p, x, log_x, b, log_b, high)
            _push(stack, size, x, end - x, f_x, f_x * math.exp(log_end - log_x))
            floor += f_x * (end - x) / _DROP_MAX
            size += 1
        total = error = 0.0
        evaluated = 0
        while size > 0:
            size -= 1
            origin, width = stack[size, 0], stack[size, 1]
            f_low, f_high = stack[size, 2], stack[size, 3]
            value, estimate, inherited, split = panel(p, origin, width, f_low, f_high, k_peak)
            evaluated += 1
            if estimate > tolerance * max(floor, total + value):
                if evaluated + size + 2 <= _PANELS:
                    part = split * width
                    middle = origin + part
                    f_middle = f_x * math.exp(log_value(p, middle) - log_x)
                    _push(stack, size, origin, part, f_low, f_middle)
                    _push(stack, size + 1, middle, width - part, f_middle, f_high)
                    size += 2
                    continue
                estimate = 4.0 * width  # unresolved: it may be as large as the peak
            total += value
            error += estimate + inherited
        # A larger integral than this has a peak that the search has missed.
        error = error / total if total < 1e3 * floor else np.inf
        return total, k_peak, error, x, evaluated * _SIZE

    return integrate
