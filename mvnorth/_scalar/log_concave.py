"""Integrals of log-concave functions of one variable, to rounding accuracy, with their error.

Log-concavity makes three things safe: climbing to the mode from anywhere, the two points where
the function has lost a factor exp(40), and Gauss-Legendre panels between them, which cannot miss
a peak.  A panel's error is read off the Legendre series of its own values: from the decay of the
coefficients between degrees n/2 and n that of degree 2n, the first one an n-point rule gets
wrong, is extrapolated geometrically.  A kink decays slowly and so never looks converged.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from mvnorth._scalar.exp_log import FAST, log_scaled, power_of_two, split_mantissa
from mvnorth._tables.quadrature import PANEL_NODES, PANEL_SERIES, PANEL_WEIGHTS

_NODES = np.array(PANEL_NODES)
_RULES = np.array((PANEL_WEIGHTS, *PANEL_SERIES))
_SIZE = len(PANEL_NODES)
_ROOT_MIN, _ROOT, _ROOT_MAX = math.sqrt(37.0), math.sqrt(40.0), math.sqrt(46.0)
_PANELS = 64
_TOLERANCE = 1e-13
_NOISE = 50.0


@njit(error_model="numpy")
def push(stack, i, origin, width, f_low, f_high):
    stack[i, 0] = origin
    stack[i, 1] = width
    stack[i, 2] = f_low
    stack[i, 3] = f_high


def log_concave_integrator(parts: Callable) -> Callable:
    """Compile ``integrate(p, low, high, start, step)`` for the function ``parts``.

    Parameters
    ----------
    parts
        Compiled; ``parts(p, t)`` is ``(m, k, error)``: the function is m * 2**k at t, m >= 0, with
        relative error ``error``, where p is a tuple of numbers.  Log-concave in t.

    Returns
    -------
    integrate
        ``integrate(p, low, high, start, step)`` is ``(m, k, error, mode)``: the integral over
        (low, high), either of which may be infinite, is m * 2**k with the estimated relative
        error ``error``; the function's peak is near ``mode``.
        The search for the mode starts in ``start``, inside the limits, with steps of ``step``.
    """

    @njit(fastmath=FAST, error_model="numpy")
    def log_value(p, t):
        m, k, _ = parts(p, t)
        return log_scaled(m, k) if m > 0.0 else -np.inf

    @njit(fastmath=FAST, error_model="numpy")
    def scaled(p, t, k_peak):
        m, k, _ = parts(p, t)
        return m * power_of_two(k - k_peak)

    @njit(fastmath=FAST, error_model="numpy")
    def reach(p, x, log_x, end, log_end, limit):
        """From x away over ``end`` to where the function has dropped enough, or to ``limit``."""
        inner, root_inner = x, 0.0  # the square root of the drop is almost linear
        outer, root_outer = x, -1.0
        for _ in range(12):
            root = math.sqrt(max(log_x - log_end, 1e-3))
            if root < _ROOT_MIN:
                if end == limit:
                    return end
                inner, root_inner = end, root
            elif root > _ROOT_MAX:
                outer, root_outer = end, root
            else:
                return end
            if root_outer > 0.0:
                end = inner + (outer - inner) * (_ROOT - root_inner) / (root_outer - root_inner)
            else:
                end = x + (end - x) * min(_ROOT / root, 10.0)
                end = min(end, limit) if limit > x else max(end, limit)
            log_end = log_value(p, end)
        return outer if root_outer > 0.0 else end

    @njit(fastmath=FAST, error_model="numpy")
    def panel(p, low, width, f_low, f_high, k_peak):
        """``(integral, error of the rule, error inherited)`` over [low, low + width]."""
        values = np.empty(_SIZE)
        errors = np.empty(_SIZE)
        for i in range(_SIZE):
            m, k, error = parts(p, low + width * _NODES[i])
            values[i] = m * power_of_two(k - k_peak)
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
        rest = max(abs(c_0), abs(c_1)) + max(abs(c_2), abs(c_3)) + abs(f_low) + abs(f_high)
        return width * total, width * max(rest - _NOISE * noise, 0.0), width * inherited

    @njit(fastmath=FAST, error_model="numpy")
    def integrate(p, low, high, start, step):
        # Climb in growing steps until the middle of three points is the highest.
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
        # Narrow until the chords, extended, say that the peak is little higher; at a limit only
        # one chord is left.
        for _ in range(60):
            left, right = x - a, b - x
            slack_a = left / right if left > 0.0 and right > 0.0 else 1.0
            slack_b = right / left if left > 0.0 and right > 0.0 else 1.0
            if log_x - log_a <= slack_a and log_x - log_b <= slack_b:
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
        m, k_peak, error_peak = parts(p, x)
        if not (m > 0.0 and log_x < np.inf):
            return 0.0, 0.0, np.inf, x
        _, k = split_mantissa(m)
        k_peak += k
        tolerance = max(_TOLERANCE, error_peak)

        # Panels still to do: origin, width, values at both ends
        stack = np.empty((_PANELS, 4))
        f_x = scaled(p, x, k_peak)
        size = 0
        floor = 0.0  # a lower bound of the integral: exp(-46 t) under either side
        if a < x:
            end = reach(p, x, log_x, a, log_a, low)
            push(stack, size, end, x - end, scaled(p, end, k_peak), f_x)
            floor += f_x * (x - end) / 46.0
            size += 1
        if b > x:
            end = reach(p, x, log_x, b, log_b, high)
            push(stack, size, x, end - x, f_x, scaled(p, end, k_peak))
            floor += f_x * (end - x) / 46.0
            size += 1
        total = error = 0.0
        evaluated = 0
        while size > 0:
            size -= 1
            origin, width = stack[size, 0], stack[size, 1]
            f_low, f_high = stack[size, 2], stack[size, 3]
            value, estimate, inherited = panel(p, origin, width, f_low, f_high, k_peak)
            evaluated += 1
            if estimate > tolerance * max(floor, total + value):
                if evaluated + size + 2 <= _PANELS:
                    width *= 0.5
                    middle = origin + width
                    f_middle = scaled(p, middle, k_peak)
                    push(stack, size, origin, width, f_low, f_middle)
                    push(stack, size + 1, middle, width, f_middle, f_high)
                    size += 2
                    continue
                estimate = 4.0 * width  # unresolved: as large as the peak
            total += value
            error += estimate + inherited
        # f_x * (floor's width) bounds the integral unless the peak was missed.
        return total, k_peak, (error / total if total < 1e3 * floor else np.inf), x

    return integrate
