"""Probabilities of three normal variables from Plackett's identity.

Let X_1 be independent of the other two and turn its correlations up to t r_12 and t r_13, t from
0 to 1.  By Plackett's identity (1954, Biometrika 41) the probability grows from
Phi(b_1) Phi_2(b_2, b_3; r_23) by the integral over t of

    r_12 phi_2(b_1, b_2; t r_12) Phi(u_3(t)) + r_13 phi_2(b_1, b_3; t r_13) Phi(u_2(t)),

u_3 being the limit b_3 in units of X_3 given the other two at their limits.  Nothing cancels if
r_12 and r_13 are positive, so X_1 is the variable whose smaller correlation is largest.  With
t sqrt(q) = 2w/(1 + w**2), q the squared multiple correlation of X_1, what is integrated over w is
smooth up to a singular matrix.  Drezner (1994, Math. Comp. 62) and Genz (2004, Stat. Comp. 14) use
the same integral for absolute accuracy; the choice of X_1, the substitution and the error are ours.

In a box the two densities are differences between its sides: sums over the corners of two variables
with signs, times the probability of an interval.  They cancel where sides are narrow, so X_1 is the
variable whose correlations over the widths of the sides are smallest.

Panels are halved until their Legendre series has converged, as in ``log_concave.py``.  Rows where
too much cancels, or that underflow, are left to ``trivariate.py``: 10 % of random matrices with
standard normal limits, and of boxes those with sides shorter than about half a deviation.  Relative
error, against the integral there over 160,000 problems, most of them nearly singular: at most 5e-15
(1 + |log P|), half of the claim; 1e-16 is typical.
"""

import math
from collections.abc import Callable

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.bivariate import (
    EPS,
    ROUNDING,
    bivariate_box_parts,
    bivariate_parts,
    interval_probability,
)
from mvnorth._scalar.exp_log import exp_parts, power_of_two
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import ndtr_parts
from mvnorth._tables.quadrature import PANEL_NODES, PANEL_SERIES, PANEL_WEIGHTS

_NODES = np.array(PANEL_NODES)
_RULES = np.array((PANEL_WEIGHTS, *PANEL_SERIES))
_SIZE = len(PANEL_NODES)
_new_values = stack_array(_SIZE)
_PANELS = 12  # at most
_TOLERANCE = 1e-14
_NOISE = 50.0  # bound on how much the sums of a panel magnify errors of the values
_LIMIT, _LIMIT_MAX = 36.0, 200.0  # what lies beyond underflows, or makes no difference
_PROB_MIN = 1e-250
_DETERMINANT_MIN = 1e-6
_ERROR_MAX = 1e-14  # for each unit of log P; more is left to the other method
_INV_PI = 1.0 / math.pi


@scalar(FAST, forceinline=True)
def _term(b_1, b_2, a_3, b_3, p_2, p_3, r_23, s, c, size):
    """c phi_2(b_1, b_2; p_2) Pr(a_3 < X_3 < b_3 given both) without its constant, and its error.

    That is the absolute rounding error.  ``a_3`` is None where there is no lower limit.
    """
    root = math.sqrt((1.0 - p_2) * (1.0 + p_2))
    x = (b_1 - p_2 * b_2) / root
    u = (b_3 * root * root - b_1 * (p_3 - p_2 * r_23) - b_2 * (r_23 - p_2 * p_3)) / (root * s)
    exponent = 0.5 * (x * x + b_2 * b_2)
    f, k = exp_parts(-exponent, 0.0)
    # How much the probability changes relative to itself when u does.
    steep = 1.0 + (0.0 if u > 0.0 else -u)
    if a_3 is None:
        f_u, k_u = ndtr_parts(u)
    else:
        width = (b_3 - a_3) * root / s
        f_u, k_u = interval_probability(u - width, u, width)
        steep += 2.0 + (u - width if u > width else 0.0)
    value = c * f * f_u / root * power_of_two(k + k_u)
    # Rounding of the limits moves x and u; that of p_2 moves them and the root.
    steep += abs(x)
    lost = steep * (size / s + steep / root) / root
    return value, abs(value) * EPS * (8.0 + exponent + lost)


@scalar(FAST)
def _fill(p, low, width, values, errors):
    """What is integrated at the nodes of a panel, and its rounding errors: upper limits."""
    b_1, b_2, b_3, r_23, s_23, c_2, c_3, size = p
    for i in range(_SIZE):
        w = low + width * _NODES[i]
        inverse = 1.0 / (1.0 + w * w)
        sine, cosine = 2.0 * w * inverse, (1.0 - w * w) * inverse
        p_2, p_3 = c_2 * sine, c_3 * sine
        value_2, error_2 = _term(b_1, b_2, None, b_3, p_2, p_3, r_23, s_23 * cosine, c_2, size)
        value_3, error_3 = _term(b_1, b_3, None, b_2, p_3, p_2, r_23, s_23 * cosine, c_3, size)
        values[i] = (value_2 + value_3) * cosine * inverse * _INV_PI
        errors[i] = (error_2 + error_3) * cosine * inverse * _INV_PI


@scalar(FAST)
def _fill_box(p, low, width, values, errors):
    """Like ``_fill`` for a box: the corners of the sides of two variables, with their signs."""
    a_1, b_1, a_2, b_2, a_3, b_3, r_23, s_23, c_2, c_3, size = p
    for i in range(_SIZE):
        values[i] = errors[i] = 0.0
    for corner in range(8):
        first, second = corner & 1 == 0, corner & 2 == 0  # whether at upper limits
        with_2 = corner & 4 == 0
        x_1 = b_1 if first else a_1
        x_2 = (b_2 if second else a_2) if with_2 else (b_3 if second else a_3)
        low_3, high_3 = (a_3, b_3) if with_2 else (a_2, b_2)
        of_2, of_3 = (c_2, c_3) if with_2 else (c_3, c_2)
        if x_1 == -np.inf or x_2 == -np.inf:
            continue
        sign = 1.0 if first == second else -1.0
        for i in range(_SIZE):
            w = low + width * _NODES[i]
            inverse = 1.0 / (1.0 + w * w)
            sine, cosine = 2.0 * w * inverse, (1.0 - w * w) * inverse
            value, error = _term(
                x_1, x_2, low_3, high_3, of_2 * sine, of_3 * sine, r_23, s_23 * cosine, of_2, size
            )
            values[i] += sign * value * cosine * inverse * _INV_PI
            errors[i] += error * cosine * inverse * _INV_PI


def _compile_growth(fill: Callable) -> Callable:
    """Compile ``growth`` for the function ``fill``."""

    @scalar(FAST)
    def growth(p, start, start_error, q, cosine):
        """``(P, error)`` from the probability ``start`` of before X_1 depends on the others.

        q : squared multiple correlation of X_1, and the root of 1 - q
        """
        end = math.sqrt(q) / (1.0 + cosine) if q > 0.0 else 0.0
        low, width = 0.0, end
        values, errors = _new_values(), _new_values()
        scale = start
        total = 0.0
        error = start * start_error
        for evaluated in range(_PANELS):
            fill(p, low, width, values, errors)
            part = inherited = noise = 0.0
            c_36 = c_37 = c_38 = c_39 = 0.0
            for i in range(_SIZE):
                f = values[i]
                part += _RULES[0, i] * f
                c_36 += _RULES[1, i] * f
                c_37 += _RULES[2, i] * f
                c_38 += _RULES[3, i] * f
                c_39 += _RULES[4, i] * f
                inherited += _RULES[0, i] * errors[i]
                noise = max(noise, errors[i])
            if evaluated == 0:
                scale += abs(width * part)
            rest = max(abs(c_36), abs(c_37)) + max(abs(c_38), abs(c_39)) - _NOISE * noise
            if width * rest > _TOLERANCE * scale:
                width *= 0.5
                continue
            total += width * part
            error += width * (inherited + max(rest, 0.0))
            low += width
            if not low < end:
                prob = start + total
                if not prob > _PROB_MIN:
                    break
                if start > prob:
                    error += ROUNDING * (2.0 - math.log(start)) * (start - prob)
                error /= prob
                return prob, (error if error < _ERROR_MAX * (1.0 - math.log(prob)) else np.nan)
            width = min(2.0 * width, end - low)
        return 0.0, np.nan

    return growth


_grow, _grow_box = _compile_growth(_fill), _compile_growth(_fill_box)


@scalar(FAST)
def _dependence(r_12, r_13, r_23, s_23, det):
    """``(q, c_2, c_3)``: squared multiple correlation of X_1; its correlations over the root."""
    q = 1.0 - det / (s_23 * s_23)
    if q < 1e-6:
        q = (r_12 * r_12 + r_13 * r_13 - 2.0 * r_12 * r_13 * r_23) / (s_23 * s_23)
    root_q = math.sqrt(q) if q > 0.0 else 1.0
    return q, r_12 / root_q, r_13 / root_q


@scalar(FAST)
def trivariate_plackett(b_1, b_2, b_3, r_12, r_13, r_23, det):
    """``(P, error)``, P = Pr(X <= b) and its relative error, NaN if it is not resolved.

    ``det`` is the determinant of the correlation matrix.
    """
    least_1, least_2, least_3 = min(r_12, r_13), min(r_12, r_23), min(r_13, r_23)
    if least_2 > least_1 and least_2 >= least_3:
        b_1, b_2, b_3 = b_2, b_3, b_1
        r_12, r_13, r_23 = r_23, r_12, r_13
    elif least_3 > least_1:
        b_1, b_2, b_3 = b_3, b_1, b_2
        r_12, r_13, r_23 = r_13, r_23, r_12
    if not (det > _DETERMINANT_MIN and min(b_1, b_2, b_3) > -_LIMIT):
        return 0.0, np.nan
    b_1, b_2, b_3 = min(b_1, _LIMIT_MAX), min(b_2, _LIMIT_MAX), min(b_3, _LIMIT_MAX)
    s_23 = math.sqrt((1.0 - r_23) * (1.0 + r_23))
    f, k = ndtr_parts(b_1)
    f_23, k_23 = bivariate_parts(b_2, b_3, r_23, s_23)
    start = f * f_23 * power_of_two(k + k_23)
    q, c_2, c_3 = _dependence(r_12, r_13, r_23, s_23, det)
    size = abs(b_1) + abs(b_2) + abs(b_3)
    p = (b_1, b_2, b_3, r_23, s_23, c_2, c_3, size)
    return _grow(p, start, 0.0, q, math.sqrt(det) / s_23)


@scalar(FAST)
def _size(a, b):
    return max(abs(b), abs(a) if a > -np.inf else 0.0)


@scalar(FAST)
def trivariate_plackett_box(a_1, b_1, a_2, b_2, a_3, b_3, r_12, r_13, r_23, det):
    """``(P, error)``, P = Pr(a <= X <= b), as ``trivariate_plackett``; lower limits may be -inf."""
    # Signs of corners cancel the more the narrower the sides are: the worst pair is X_2 and X_3.
    w_1, w_2, w_3 = min(b_1 - a_1, 1.0), min(b_2 - a_2, 1.0), min(b_3 - a_3, 1.0)
    worst_12, worst_13 = abs(r_12) / (w_1 * w_2), abs(r_13) / (w_1 * w_3)
    worst_23 = abs(r_23) / (w_2 * w_3)
    if worst_13 > worst_23 and worst_13 >= worst_12:
        a_1, b_1, a_2, b_2, a_3, b_3 = a_2, b_2, a_3, b_3, a_1, b_1
        r_12, r_13, r_23 = r_23, r_12, r_13
    elif worst_12 > worst_23:
        a_1, b_1, a_2, b_2, a_3, b_3 = a_3, b_3, a_1, b_1, a_2, b_2
        r_12, r_13, r_23 = r_13, r_23, r_12
    inside = min(b_1, b_2, b_3) > -_LIMIT and max(a_1, a_2, a_3) < _LIMIT
    if not (det > _DETERMINANT_MIN and inside and max(b_1, b_2, b_3) < np.inf):
        return 0.0, np.nan
    b_1, b_2, b_3 = min(b_1, _LIMIT_MAX), min(b_2, _LIMIT_MAX), min(b_3, _LIMIT_MAX)
    s_23 = math.sqrt((1.0 - r_23) * (1.0 + r_23))
    f, k = interval_probability(a_1, b_1, b_1 - a_1)
    f_23, k_23, error = bivariate_box_parts(
        a_2, b_2, b_2 - a_2, a_3, b_3, b_3 - a_3, r_23, s_23
    )  # fmt: skip
    start = f * f_23 * power_of_two(k + k_23)
    q, c_2, c_3 = _dependence(r_12, r_13, r_23, s_23, det)
    size = _size(a_1, b_1) + _size(a_2, b_2) + _size(a_3, b_3)
    p = (a_1, b_1, a_2, b_2, a_3, b_3, r_23, s_23, c_2, c_3, size)
    return _grow_box(p, start, error, q, math.sqrt(det) / s_23)
